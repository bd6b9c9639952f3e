//! What a check, a fit and a table of sensitivity say in the terminal.

use crate::print::Style;
use crate::print::table::{Cell, Column, Table};
use crate::print::text::{faint, heading, paragraph};

use ringfence_studies::describe::cells::errors;
use ringfence_studies::describe::fit::{Fit, Worse};
use ringfence_studies::describe::sensitivity::{MOVED, Sensitivity};
use ringfence_studies::describe::{Outcome, Predicted};

/// What a described machine predicts: the cells that it rests on, the others, and the errors of
/// each.
pub fn check(found: &Predicted, style: &Style) -> String {
    let mut out = String::new();
    for (title, outcomes) in
        [("Used for the machine file", &found.used), ("Left out", &found.left_out)]
    {
        if outcomes.is_empty() {
            continue;
        }
        heading(&mut out, title, style);
        out += &rows(outcomes).render(style);
        out += &summed(outcomes);
        out.push('\n');
    }
    faint(
        &mut out,
        "simulated: what stands there under 'simulated' was not measured; ns a unit, or slowdowns",
        style,
    );
    out
}

/// What a fit changed, and what it did to the errors.
pub fn fitted(fit: &Fit, style: &Style) -> String {
    let mut out = String::new();
    for change in &fit.changes {
        paragraph(
            &mut out,
            0,
            &format!("{} = {}, before {}", change.path, change.after, change.before),
            style,
        );
    }
    if fit.changes.is_empty() {
        paragraph(&mut out, 0, "Nothing came nearer: no value was changed.", style);
    }
    out.push('\n');
    for (name, before, after) in [
        ("cells that were used", &fit.before.used, &fit.after.used),
        ("cells that were left out", &fit.before.left_out, &fit.after.left_out),
    ] {
        let of = |outcomes: &[Outcome]| {
            errors(outcomes).map_or("none".into(), |(median, mean)| {
                format!("median {}, mean {}", percent(median), percent(mean))
            })
        };
        out += &format!(
            "{name} ({}): error before {}; after {}\n",
            before.len(),
            of(before),
            of(after)
        );
    }
    out += &format!("machines tried: {}\n\n", fit.tried);
    for worse in fit.worse() {
        paragraph(&mut out, 0, &told(&worse), style);
        out.push('\n');
    }
    if fit.after.left_out.is_empty() {
        paragraph(
            &mut out,
            0,
            "No cell was left out: nothing says how good the file is where it was not fitted.",
            style,
        );
        out.push('\n');
    }
    out + &check(&fit.after, style)
}

// Values that make some cells worse are said to.
fn told(worse: &Worse) -> String {
    let (whose, why) = match worse.used {
        true => (
            "that were used",
            "The search goes by ratios, so that it may take what is worse as an error.",
        ),
        false => (
            "that were left out",
            "These values are fitted to the others, and are no better for it: keep those before.",
        ),
    };
    let ((old_median, old_mean), (median, mean)) = (worse.before, worse.after);
    format!(
        "WORSE: the {} cells {whose} come out worse than before: error {} in the median, before \
         {}; {} in the mean, before {}. {why}",
        worse.cells,
        percent(median),
        percent(old_median),
        percent(mean),
        percent(old_mean)
    )
}

/// Which cell moves by how much.
pub fn sensitivity(found: &Sensitivity, style: &Style) -> String {
    let mut out = String::new();
    heading(
        &mut out,
        &format!("What each cell does when a value grows by {}", percent(MOVED)),
        style,
    );
    for (number, (cell, figure)) in found.cells.iter().zip(&found.figures).enumerate() {
        let figure = figure.map_or("not simulated".into(), ns);
        out += &format!("{:>3}  {cell}: {figure}\n", number + 1);
    }
    out.push('\n');
    let mut columns = vec![Column::left("value"), Column::right("from"), Column::right("to")];
    columns.extend((1..=found.cells.len()).map(|number| Column::right(number.to_string())));
    let mut table = Table::new(columns);
    for row in &found.rows {
        let mut cells = vec![Cell::new(&row.path), Cell::new(&row.value), Cell::new(&row.moved)];
        cells.extend(row.changes.iter().map(|change| Cell::new(change.map_or("-".into(), signed))));
        table.row(cells);
    }
    out += &table.render(style);
    for (path, why) in &found.left_out {
        paragraph(&mut out, 0, &format!("not moved: {path}, because {why}"), style);
    }
    out.push('\n');
    faint(&mut out, "simulated: nothing here was measured", style);
    out
}

/// The same as a table of Markdown.
pub fn sensitivity_markdown(found: &Sensitivity) -> String {
    let mut out = String::from("| value | from | to |");
    for cell in &found.cells {
        out += &format!(" {cell} |");
    }
    out += "\n|---|---|---|";
    out += &"---|".repeat(found.cells.len());
    out.push('\n');
    for row in &found.rows {
        out += &format!("| `{}` | {} | {} |", row.path, row.value, row.moved);
        for change in &row.changes {
            out += &format!(" {} |", change.map_or("-".into(), signed));
        }
        out.push('\n');
    }
    out
}

/// A check as a table of Markdown.
pub fn check_markdown(found: &Predicted) -> String {
    let mut out = String::from("| | measured | simulated | error |\n|---|---|---|---|\n");
    for (used, outcomes) in [(true, &found.used), (false, &found.left_out)] {
        for one in outcomes {
            let label = if used { format!("*used:* {}", one.label) } else { one.label.clone() };
            let simulated = one.simulated.map_or("not simulated".into(), ns);
            let error = one.error().map_or("-".into(), signed);
            out += &format!(
                "| {label} | {} [{}, {}] | {simulated} | {error} |\n",
                ns(one.measured),
                ns(one.low),
                ns(one.high)
            );
        }
    }
    out
}

fn rows(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(vec![
        Column::text("cell", 20),
        Column::right("measured"),
        Column::right("simulated"),
        Column::right("error"),
    ]);
    for one in outcomes {
        table.row(vec![
            Cell::new(&one.label),
            Cell::new(format!("{} [{}, {}]", ns(one.measured), ns(one.low), ns(one.high))),
            Cell::new(one.simulated.map_or("not simulated".into(), ns)),
            Cell::new(one.error().map_or("-".into(), signed)),
        ]);
    }
    table
}

fn summed(outcomes: &[Outcome]) -> String {
    match errors(outcomes) {
        Some((median, mean)) => {
            let inside = outcomes
                .iter()
                .filter(|one| {
                    one.simulated.is_some_and(|simulated| (one.low..=one.high).contains(&simulated))
                })
                .count();
            format!(
                "{} cells: error {} in the median, {} in the mean; {inside} within the measured \
                 interval\n",
                outcomes.len(),
                percent(median),
                percent(mean)
            )
        }
        None => "none of these can be simulated\n".into(),
    }
}

fn ns(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 10.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

fn signed(share: f64) -> String {
    let percent = share * 100.0;
    // A minus before nothing says something that is not so.
    match percent.abs() < 0.05 {
        true => "0 %".into(),
        false if percent.abs() < 10.0 => format!("{percent:+.1} %"),
        false => format!("{percent:+.0} %"),
    }
}
