//! Published figures beside measured ones, a table for each source.

use ringfence_studies::reproduce::{Agreement, Measured, Row, WIDENED_BY, by_figure};

use crate::numbers::slowdown_figure;
use crate::style::{Paint, Style};
use crate::table::{Cell, Column, Table};
use crate::text::{hanging, heading, paragraph};

pub(crate) use super::simulated::{HEADS, TIME_HEADS, Tabled, tabled, verdicts};

/// A heading line of its own.
pub fn title(text: &str, style: &Style) -> String {
    let mut out = String::new();
    heading(&mut out, text, style);
    out
}

/// The comparisons of one experiment.
pub(super) fn reproduced(rows: &[Row], style: &Style) -> String {
    let mut sources: Vec<&str> = Vec::new();
    for row in rows {
        if !sources.contains(&row.published.source.as_str()) {
            sources.push(&row.published.source);
        }
    }
    let mut out = String::new();
    for source in sources {
        let own: Vec<&Row> = rows.iter().filter(|row| row.published.source == source).collect();
        let quantity = own[0].published.quantity.as_str();
        let one_quantity = own.iter().all(|row| row.published.quantity == quantity);
        let of = if one_quantity { format!("{quantity}; ") } else { String::new() };
        paragraph(&mut out, 0, &format!("{source}: {of}{}", own[0].published.machine), style);
        let groups = by_figure(own.iter().copied());
        let table = table(&groups, one_quantity);
        if table.fits(style) {
            out.push_str(&table.render(style));
        } else {
            list(&mut out, &groups, one_quantity, style);
        }
        remarks(&mut out, &own, style);
        out.push('\n');
    }
    out
}

fn name(row: &Row, one_quantity: bool) -> String {
    match one_quantity {
        true => case(&row.published.case),
        false => format!("{}, {}", case(&row.published.case), row.published.quantity),
    }
}

// What was measured stands once, beside the first of the figures that were published of it.
fn table(groups: &[Vec<&Row>], one_quantity: bool) -> Table {
    let mut table = Table::new(vec![
        Column::text("case", 20),
        Column::left("published"),
        Column::right("change"),
        Column::right("here"),
        Column::left("interval"),
        Column::text("direction", 9),
        Column::text("magnitude", 9),
    ]);
    for group in groups {
        for (place, row) in group.iter().enumerate() {
            let named =
                if place == 0 { name(row, one_quantity) } else { row.published.quantity.clone() };
            let published = [named, times(row), change(row.ratio)].map(Cell::new);
            let here =
                if place == 0 { measured(group, |row| Some(&row.measured)) } else { Vec::new() };
            table.row([&published[..], &here].concat());
        }
        if let Some(name) = instead_name(group[0]) {
            let cells = [Cell::painted(name, Paint::Faint), Cell::default(), Cell::default()];
            table.row([&cells[..], &measured(group, instead)].concat());
        }
    }
    table
}

// What was measured on other hardware, if anything was.
pub(crate) fn instead(row: &Row) -> Option<&Measured> {
    row.instead.as_ref().filter(|measured| !matches!(measured, Measured::NotRun(_)))
}

pub(super) fn instead_name(row: &Row) -> Option<String> {
    instead(row)?;
    let name = row.published.instead.as_deref().unwrap_or_default();
    // Only in what it differs, where that is a parameter.
    let own: Vec<&str> = row.published.case.split("; ").collect();
    let other: Vec<&str> = name.split("; ").filter(|part| !own.contains(part)).collect();
    Some(format!("instead: {}", case(&other.join("; "))))
}

// Which of the figures of a row.
pub(crate) type Which = fn(&Row) -> Option<&Measured>;

// What the rows of one figure say of it together; none where they differ.
fn together(
    group: &[&Row],
    which: Which,
    of: fn(&Measured) -> Option<Agreement>,
) -> Option<Agreement> {
    let mut says = group.iter().filter_map(|row| of(which(row)?));
    let first = says.next()?;
    says.all(|other| other == first).then_some(first)
}

pub(crate) fn agreement(group: &[&Row], which: Which) -> [Option<Agreement>; 2] {
    [together(group, which, direction), together(group, which, magnitude)]
}

fn measured(group: &[&Row], which: Which) -> Vec<Cell> {
    match which(group[0]) {
        Some(Measured::Ratio { interval, .. }) => {
            let figure = slowdown_figure(interval);
            let [direction, magnitude] =
                agreement(group, which).map(|says| Cell::painted(in_word(says), in_paint(says)));
            vec![Cell::new(figure.value), Cell::new(figure.interval), direction, magnitude]
        }
        Some(Measured::NotRun(_)) => vec![Cell::new("not run")],
        Some(Measured::NotEstimable(_)) | None => vec![Cell::new("-")],
    }
}

/// For narrow terminals: a few lines for each comparison.
fn list(out: &mut String, groups: &[Vec<&Row>], one_quantity: bool, style: &Style) {
    for group in groups {
        let alone = group.len() == 1;
        let named =
            if alone { name(group[0], one_quantity) } else { case(&group[0].published.case) };
        paragraph(out, 0, &named, style);
        for row in group {
            let of = if alone { String::new() } else { format!(", {}", row.published.quantity) };
            paragraph(
                out,
                2,
                &format!("published{of}: {}, {}", times(row), change(row.ratio)),
                style,
            );
        }
        paragraph(
            out,
            2,
            &format!("here: {}", together_line(group, |row| Some(&row.measured))),
            style,
        );
        if let Some(name) = instead_name(group[0]) {
            paragraph(out, 2, &format!("{name}: {}", together_line(group, instead)), style);
        }
    }
}

fn together_line(group: &[&Row], which: Which) -> String {
    match which(group[0]) {
        Some(Measured::Ratio { interval, .. }) => {
            let figure = slowdown_figure(interval);
            let [direction, magnitude] = agreement(group, which).map(in_word);
            format!("{figure}; direction {direction}, magnitude {magnitude}")
        }
        Some(Measured::NotRun(_)) => "not run".into(),
        Some(Measured::NotEstimable(_)) | None => "-".into(),
    }
}

pub(crate) fn line(row: &Row) -> String {
    together_line(&[row], |row| Some(&row.measured))
}

// Each reason and remark once, for all the cases that share it.
fn remarks(out: &mut String, rows: &[&Row], style: &Style) {
    let mut lines: Vec<String> = Vec::new();
    let mut add = |line: String| {
        if !lines.contains(&line) {
            lines.push(line);
        }
    };
    for row in rows {
        for measured in [Some(&row.measured), row.instead.as_ref()].into_iter().flatten() {
            match measured {
                Measured::NotRun(why) => add(format!("not run, because {why}")),
                Measured::NotEstimable(why) => add(format!("-: {}", why.told())),
                Measured::Ratio { .. } => {}
            }
        }
    }
    for row in rows {
        if let Some(remark) = &row.published.remark {
            add(format!("published: {remark}"));
        }
    }
    for line in lines {
        hanging(out, "", None, &line, style);
    }
}

/// How many agree, and how to read it.
pub(super) fn reproduced_summary(rows: &[Row], style: &Style) -> String {
    let groups = by_figure(rows);
    let mut text = format!(
        "Of {} published comparisons {} were measured on hardware of their kind{}",
        rows.len(),
        rows.iter().filter(|row| is_ratio(&row.measured)).count(),
        tell(&groups, |row| Some(&row.measured))
    );
    let instead: Which = |row| row.instead.as_ref();
    let on_other = rows.iter().filter(|row| row.instead.as_ref().is_some_and(is_ratio)).count();
    if on_other > 0 {
        text += &format!(" On other hardware instead: {on_other}{}", tell(&groups, instead));
    }
    let mut out = String::new();
    paragraph(&mut out, 0, &text, style);
    let text = format!(
        "published: time / time of the case that it is compared with. change: 100 (time / time \
         against - 1), in percent, or as a factor from 2 on. direction: longer, shorter, or the \
         same within the experiment's margin. magnitude agrees where the interval holds an effect \
         between 1/{WIDENED_BY} and {WIDENED_BY} times the published one, on a log scale. in part: \
         it agrees with some of what was published of the case. Each interval holds by itself"
    );
    paragraph(&mut out, 0, &text, style);
    out
}

fn is_ratio(measured: &Measured) -> bool {
    matches!(measured, Measured::Ratio { .. })
}

// How many measured figures agree with what was published of them; the end of a sentence.
fn tell(groups: &[Vec<&Row>], which: Which) -> String {
    let figures: Vec<&Vec<&Row>> =
        groups.iter().filter(|group| which(group[0]).is_some_and(is_ratio)).collect();
    if figures.is_empty() {
        return ".".into();
    }
    let count = |name: &str, of: fn(&Measured) -> Option<Agreement>| {
        let says: Vec<Option<Agreement>> =
            figures.iter().map(|group| together(group, which, of)).collect();
        let count = |wanted: Option<Agreement>| says.iter().filter(|one| **one == wanted).count();
        let [agree, differ, open] = [Agreement::Agrees, Agreement::Differs, Agreement::Undecided]
            .map(|says| count(Some(says)));
        let in_part = match count(None) {
            0 => String::new(),
            count => format!("agrees in part in {count}, "),
        };
        format!(
            "the {name} agrees in {agree}, {in_part}differs in {differ}, is undecided in {open}"
        )
    };
    let figures = match figures.len() {
        1 => "one measured figure".into(),
        count => format!("{count} measured figures"),
    };
    format!(", by {figures}: {}; {}.", count("direction", direction), count("magnitude", magnitude))
}

fn direction(measured: &Measured) -> Option<Agreement> {
    match measured {
        Measured::Ratio { direction, .. } => Some(*direction),
        _ => None,
    }
}

fn magnitude(measured: &Measured) -> Option<Agreement> {
    match measured {
        Measured::Ratio { magnitude, .. } => Some(*magnitude),
        _ => None,
    }
}

// `beside; writer.count=8; writer.instruction=clwb` is `beside 8 x clwb`.
pub(crate) fn case(text: &str) -> String {
    let word = |part: &str| match part.split_once('=') {
        Some((key, count)) if key.ends_with(".count") => format!("{count} x"),
        Some((key, "none")) => format!("{} none", key.rsplit('.').next().unwrap_or(key)),
        Some((_, value)) => value.to_string(),
        None => part.to_string(),
    };
    text.split("; ").map(word).collect::<Vec<_>>().join(" ")
}

// As published: with the digits of a time that was printed to microseconds no more than make sense
// here.
pub(crate) fn times(row: &Row) -> String {
    format!("{:.2} / {:.2} s", row.published.value, row.against)
}

/// Changes of one measured figure that were published.
pub(crate) fn changes(ratios: impl Iterator<Item = f64>) -> String {
    let changes: Vec<String> = ratios.map(change).collect();
    match changes.iter().all(|change| change.ends_with(" %")) {
        true => changes.join(", ").replace(" %,", ","),
        false => changes.join(", "),
    }
}

pub(crate) fn change(ratio: f64) -> String {
    let tenths = ((ratio - 1.0) * 1000.0).round();
    match ratio {
        _ if ratio >= 2.0 => format!("{ratio:.2}x"),
        // Not "-0.0 %".
        _ if tenths == 0.0 => "0.0 %".into(),
        _ => format!("{:+.1} %", tenths / 10.0),
    }
}

pub(crate) fn word(says: Agreement) -> &'static str {
    match says {
        Agreement::Agrees => "agrees",
        Agreement::Differs => "differs",
        Agreement::Undecided => "undecided",
    }
}

fn in_word(says: Option<Agreement>) -> &'static str {
    says.map_or("in part", word)
}

fn in_paint(says: Option<Agreement>) -> Paint {
    says.map_or(Paint::Caution, paint)
}

fn paint(says: Agreement) -> Paint {
    match says {
        Agreement::Agrees => Paint::Good,
        Agreement::Differs => Paint::Bad,
        Agreement::Undecided => Paint::Caution,
    }
}
