use super::*;

#[test]
fn control_characters_do_not_pass() {
    assert_eq!(clean("a\x1b[31mb\u{206a}\tc\nd"), "a?[31mb? c d");
}

#[test]
fn a_cut_text_says_so() {
    let style = Style::plain(80);
    assert_eq!(ellipsize("abcdefgh", 8, &style), "abcdefgh");
    assert_eq!(ellipsize("abcdefgh", 7, &style), "abcd...");
    assert_eq!(ellipsize("abc defgh", 7, &style), "abc...");
    assert_eq!(ellipsize("宽宽宽宽", 7, &Style { unicode: true, ..style }), "宽宽宽…");
}

#[test]
fn hanging_lines_align_below_the_text() {
    let mut out = String::new();
    hanging(&mut out, "  cause  ", Some(Paint::Faint), &"word ".repeat(10), &Style::plain(40));
    assert_eq!(out, "  cause  word word word word word word\n         word word word word\n");
    out.clear();
    hanging(&mut out, "  cause  ", None, "", &Style::plain(40));
    assert_eq!(out, "  cause\n");
    out.clear();
    hanging(&mut out, "  • ", None, "ringfence-aggressor", &Style::plain(40));
    assert_eq!(out, "  • ringfence-aggressor\n");
}

#[test]
fn a_command_stays_on_its_line() {
    let mut out = String::new();
    command(&mut out, 4, &format!("echo {}", "word ".repeat(40).trim()));
    assert_eq!(out.lines().count(), 1);
}

#[test]
fn a_grid_fills_the_width() {
    let mut out = String::new();
    let items: Vec<String> = (0..5).map(|i| format!("core {i}: {i}+{}", i + 8)).collect();
    grid(&mut out, 2, &items, &Style::plain(40));
    assert_eq!(out, "  core 0: 0+8    core 1: 1+9\n  core 2: 2+10   core 3: 3+11\n  core 4: 4+12\n");
}
