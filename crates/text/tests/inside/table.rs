use super::*;

fn table() -> Table {
    let mut table = Table::new(vec![Column::left("name"), Column::right("size"), Column::text("why", 10)]);
    table.row(vec![Cell::new("dram"), Cell::new("8GiB"), Cell::new("ordinary memory, not durable")]);
    table.row(vec![Cell::painted("  x", Paint::Faint), Cell::new("64B")]);
    table
}

#[test]
fn columns_align_and_text_wraps() {
    let text = table().render(&Style::plain(40));
    let expected = "\
name  size  why
----------------------------------------
dram  8GiB  ordinary memory, not durable
  x    64B
";
    assert_eq!(text, expected);
}

#[test]
fn paint_takes_no_room() {
    let colored = table().render(&Style { color: true, ..Style::plain(40) });
    assert!(colored.contains("\x1b[2mx\x1b[0m    64B"), "{colored:?}");
    let mut plain = colored.replace(Paint::END, "");
    for paint in Paint::ALL {
        plain = plain.replace(paint.begin(), "");
    }
    assert_eq!(plain, table().render(&Style::plain(40)));
}

#[test]
fn marks_from_outside_are_no_marks() {
    assert_eq!(Cell::new("\u{206a}\u{206f}\x1b[1m").content(&Style::plain(80)), "???[1m");
}

#[test]
fn what_cannot_fit_is_known_and_still_kept_within_the_width() {
    let mut table = table();
    table.row(vec![Cell::new("n".repeat(50))]);
    assert!(!table.fits(&Style::plain(40)));
    assert!(table.fits(&Style::plain(80)));
    assert!(table.render(&Style::plain(40)).lines().all(|line| width(line) <= 40));
}
