//! Published figures beside measured ones, a table for each source.

mod simulated;

use ringfence_reproduce::{Agreement, Measured, Row, WIDENED_BY};

use crate::numbers::slowdown_figure;
use crate::style::{Paint, Style};
use crate::table::{Cell, Column, Table};
use crate::text::{hanging, heading, paragraph};

pub(crate) use simulated::{HEADS, TIME_HEADS, Tabled, tabled, verdicts};
pub use simulated::{simulated, simulated_summary};

/// A heading line of its own.
pub fn title(text: &str, style: &Style) -> String {
    let mut out = String::new();
    heading(&mut out, text, style);
    out
}

/// The comparisons of one experiment.
pub fn reproduced(rows: &[Row], style: &Style) -> String {
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
        let name = |row: &Row| match one_quantity {
            true => case(&row.published.case),
            false => format!("{}, {}", case(&row.published.case), row.published.quantity),
        };
        let table = table(&own, &name);
        if table.fits(style) {
            out.push_str(&table.render(style));
        } else {
            list(&mut out, &own, &name, style);
        }
        remarks(&mut out, &own, style);
        out.push('\n');
    }
    out
}

fn table(rows: &[&Row], name: &dyn Fn(&Row) -> String) -> Table {
    let mut table = Table::new(vec![
        Column::text("case", 20),
        Column::left("published"),
        Column::right("change"),
        Column::right("here"),
        Column::left("interval"),
        Column::text("direction", 9),
        Column::text("magnitude", 9),
    ]);
    for row in rows {
        let published = [name(row), times(row), change(row.ratio)].map(Cell::new);
        table.row([&published[..], &measured(&row.measured)].concat());
        if let Some((name, instead)) = instead(row) {
            let cells = [Cell::painted(name, Paint::Faint), Cell::default(), Cell::default()];
            table.row([&cells[..], &measured(instead)].concat());
        }
    }
    table
}

// What was measured on other hardware, if anything was.
fn instead(row: &Row) -> Option<(String, &Measured)> {
    let measured = row.instead.as_ref().filter(|measured| !matches!(measured, Measured::NotRun(_)))?;
    let name = row.published.instead.as_deref().unwrap_or_default();
    // Only in what it differs, where that is a parameter.
    let own: Vec<&str> = row.published.case.split("; ").collect();
    let other: Vec<&str> = name.split("; ").filter(|part| !own.contains(part)).collect();
    Some((format!("instead: {}", case(&other.join("; "))), measured))
}

fn measured(measured: &Measured) -> Vec<Cell> {
    match measured {
        Measured::Ratio { interval, direction, magnitude } => {
            let figure = slowdown_figure(interval);
            let [direction, magnitude] =
                [direction, magnitude].map(|says| Cell::painted(word(*says), paint(*says)));
            vec![Cell::new(figure.value), Cell::new(figure.interval), direction, magnitude]
        }
        Measured::NotRun(_) => vec![Cell::new("not run")],
        Measured::NotEstimable(_) => vec![Cell::new("-")],
    }
}

/// For narrow terminals: a few lines for each comparison.
fn list(out: &mut String, rows: &[&Row], name: &dyn Fn(&Row) -> String, style: &Style) {
    for row in rows {
        paragraph(out, 0, &name(row), style);
        paragraph(out, 2, &format!("published: {}, {}", times(row), change(row.ratio)), style);
        paragraph(out, 2, &format!("here: {}", line(&row.measured)), style);
        if let Some((name, instead)) = instead(row) {
            paragraph(out, 2, &format!("{name}: {}", line(instead)), style);
        }
    }
}

fn line(measured: &Measured) -> String {
    match measured {
        Measured::Ratio { interval, direction, magnitude } => {
            let figure = slowdown_figure(interval);
            format!("{figure}; direction {}, magnitude {}", word(*direction), word(*magnitude))
        }
        Measured::NotRun(_) => "not run".into(),
        Measured::NotEstimable(_) => "-".into(),
    }
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
pub fn reproduced_summary(rows: &[Row], style: &Style) -> String {
    let own: Vec<&Measured> = rows.iter().map(|row| &row.measured).filter(|row| is_ratio(row)).collect();
    let instead: Vec<&Measured> =
        rows.iter().filter_map(|row| row.instead.as_ref()).filter(|row| is_ratio(row)).collect();
    let mut text = format!(
        "Of {} published comparisons {} were measured on hardware of their kind{}",
        rows.len(),
        own.len(),
        tell(&own)
    );
    if !instead.is_empty() {
        text += &format!(" On other hardware instead: {}{}", instead.len(), tell(&instead));
    }
    let mut out = String::new();
    paragraph(&mut out, 0, &text, style);
    let text = format!(
        "published: time / time of the case that it is compared with. change: 100 (time / time against - 1), in percent, or as a factor from 2 on. direction: longer, shorter, or the same within the experiment's margin. magnitude agrees where the interval holds an effect between 1/{WIDENED_BY} and {WIDENED_BY} times the published one, on a log scale. Each interval holds by itself"
    );
    paragraph(&mut out, 0, &text, style);
    out
}

fn is_ratio(measured: &Measured) -> bool {
    matches!(measured, Measured::Ratio { .. })
}

// How many of them agree; the end of a sentence.
fn tell(measured: &[&Measured]) -> String {
    if measured.is_empty() {
        return ".".into();
    }
    let count = |name: &str, which: fn(&Measured) -> Option<Agreement>| {
        let of = |says| measured.iter().filter(|one| which(one) == Some(says)).count();
        let [agree, differ, open] = [Agreement::Agrees, Agreement::Differs, Agreement::Undecided].map(of);
        format!("the {name} agrees in {agree}, differs in {differ}, is undecided in {open}")
    };
    format!(": {}; {}.", count("direction", direction), count("magnitude", magnitude))
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
fn case(text: &str) -> String {
    let word = |part: &str| match part.split_once('=') {
        Some((key, count)) if key.ends_with(".count") => format!("{count} x"),
        Some((key, "none")) => format!("{} none", key.rsplit('.').next().unwrap_or(key)),
        Some((_, value)) => value.to_string(),
        None => part.to_string(),
    };
    text.split("; ").map(word).collect::<Vec<_>>().join(" ")
}

// As published: with the digits of a time that was printed to microseconds no more than make sense here.
fn times(row: &Row) -> String {
    format!("{:.2} / {:.2} s", row.published.value, row.against)
}

fn change(ratio: f64) -> String {
    let tenths = ((ratio - 1.0) * 1000.0).round();
    match ratio {
        _ if ratio >= 2.0 => format!("{ratio:.2}x"),
        // Not "-0.0 %".
        _ if tenths == 0.0 => "0.0 %".into(),
        _ => format!("{:+.1} %", tenths / 10.0),
    }
}

fn word(says: Agreement) -> &'static str {
    match says {
        Agreement::Agrees => "agrees",
        Agreement::Differs => "differs",
        Agreement::Undecided => "undecided",
    }
}

fn paint(says: Agreement) -> Paint {
    match says {
        Agreement::Agrees => Paint::Good,
        Agreement::Differs => Paint::Bad,
        Agreement::Undecided => Paint::Caution,
    }
}
