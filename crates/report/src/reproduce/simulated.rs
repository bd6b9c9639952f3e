//! Published figures beside simulated ones, and beside measured ones where there are any.

use ringfence_studies::reproduce::simulated::{Errors, Order, Score, Seconds, Simulated, Time};
use ringfence_studies::reproduce::{Measured, Reproduced, Row};

use crate::experiment::text::SIMULATED;
use crate::numbers::slowdown_figure;
use crate::reproduce::text::{case, change, line, times as published_times, word};
use crate::style::Style;
use crate::table::{Cell, Column, Table};
use crate::text::{hanging, heading, paragraph};

/// The columns of comparisons.
pub(crate) const HEADS: [&str; 9] = [
    "case",
    "published",
    "change",
    "simulated",
    "interval",
    "error",
    "direction",
    "magnitude",
    "measured here",
];
/// The columns of times of so many bytes.
pub(crate) const TIME_HEADS: [&str; 4] = ["case", "published", "simulated", "error"];

/// What is shown of one simulation, as words.
pub(crate) struct Tabled {
    /// What was simulated, on which machine, in which reading.
    pub title: String,
    /// A line of the source and the quantity, and the rows, for each.
    pub tables: Vec<(String, Vec<Vec<String>>)>,
    /// Times of so many bytes.
    pub times: Vec<Vec<String>>,
    /// Reasons and remarks, each once.
    pub notes: Vec<String>,
}

/// One simulation as words; `here` is what was measured of the experiment on this host.
pub(crate) fn tabled(one: &Simulated, here: Option<&Reproduced>) -> Tabled {
    let reading = one.alternative.as_ref().map(|alternative| format!("; {}", alternative.name));
    let title = format!(
        "{}: {}{}",
        one.question.as_deref().unwrap_or(&one.experiment),
        one.machine.0,
        reading.unwrap_or_default()
    );
    let mut tabled = Tabled { title, tables: Vec::new(), times: Vec::new(), notes: Vec::new() };
    if let Some(alternative) = &one.alternative {
        tabled.notes.push(format!("{}, because {}", alternative.name, alternative.why));
    }
    let outcome = match &one.outcome {
        Ok(outcome) => outcome,
        Err(why) => {
            tabled.notes.push(format!("not run, because {why}"));
            return tabled;
        }
    };
    let mut add = |line: String| {
        if !tabled.notes.contains(&line) {
            tabled.notes.push(line);
        }
    };
    let unknown = outcome.reproduced.rows.iter().filter_map(|row| match &row.measured {
        Measured::NotRun(why) => Some(format!("not run, because {why}")),
        Measured::NotEstimable(why) => Some(format!("-: {}", why.told())),
        Measured::Ratio { .. } => None,
    });
    unknown.for_each(&mut add);
    for Time { volume, .. } in &outcome.times {
        add(format!("{}: {} bytes; {}", volume.of, volume.bytes.0, volume.why));
    }
    let remarks = outcome.reproduced.rows.iter().filter_map(|row| row.published.remark.as_ref());
    remarks.for_each(|remark| add(format!("published: {remark}")));
    for row in &outcome.reproduced.rows {
        let published = &row.published;
        let heading =
            format!("{}, {}; {}", published.source, published.quantity, published.machine);
        let cells = cells(row, here);
        match tabled.tables.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, rows)) => rows.push(cells),
            None => tabled.tables.push((heading, vec![cells])),
        }
    }
    tabled.times = outcome.times.iter().map(time).collect();
    tabled
}

fn cells(row: &Row, here: Option<&Reproduced>) -> Vec<String> {
    let mut cells = vec![case(&row.published.case), published_times(row), change(row.ratio)];
    let [value, interval, error, direction, magnitude] = match &row.measured {
        Measured::Ratio { interval, direction, magnitude } => {
            let (figure, error) =
                (slowdown_figure(interval), row.error().map(percent).unwrap_or_default());
            [figure.value, figure.interval, error, word(*direction).into(), word(*magnitude).into()]
        }
        Measured::NotRun(_) => ["not run", "", "", "", ""].map(String::from),
        Measured::NotEstimable(_) => ["-", "", "", "", ""].map(String::from),
    };
    cells.extend([value, interval, error, direction, magnitude]);
    let same = |other: &&Row| other.published.is_same(&row.published);
    let measured = here.and_then(|here| here.rows.iter().find(same));
    cells.push(measured.map_or("-".into(), line));
    cells
}

fn time(time: &Time) -> Vec<String> {
    let simulated = match &time.simulated {
        Seconds::Time(interval) => format!("{:.2} s", interval.value),
        Seconds::NotRun(_) => "not run".into(),
        Seconds::NotEstimable(_) => "-".into(),
    };
    vec![
        case(&time.published.case),
        format!("{:.2} s", time.published.value),
        simulated,
        time.error().map(percent).unwrap_or_default(),
    ]
}

fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

/// One simulation of an experiment.
pub(super) fn simulated(one: &Simulated, here: Option<&Reproduced>, style: &Style) -> String {
    let mut out = String::new();
    let tabled = tabled(one, here);
    heading(&mut out, &tabled.title, style);
    paragraph(&mut out, 0, SIMULATED, style);
    out.push('\n');
    for (source, rows) in &tabled.tables {
        paragraph(&mut out, 0, source, style);
        show(&mut out, &HEADS, rows, style);
        out.push('\n');
    }
    if !tabled.times.is_empty() {
        paragraph(&mut out, 0, "seconds for as many bytes", style);
        show(&mut out, &TIME_HEADS, &tabled.times, style);
        out.push('\n');
    }
    for note in &tabled.notes {
        hanging(&mut out, "", None, note, style);
    }
    out.push('\n');
    out
}

fn show(out: &mut String, heads: &[&'static str], rows: &[Vec<String>], style: &Style) {
    let mut columns = vec![Column::text(heads[0], 20)];
    columns.extend(heads[1..].iter().map(|head| Column::left(*head)));
    let mut table = Table::new(columns);
    for row in rows {
        table.row(row.iter().map(Cell::new).collect());
    }
    if table.fits(style) {
        out.push_str(&table.render(style));
        return;
    }
    for row in rows {
        paragraph(out, 0, &row[0], style);
        let said = heads.iter().zip(row).skip(1).filter(|(_, cell)| !cell.is_empty());
        let said: Vec<String> = said.map(|(head, cell)| format!("{head} {cell}")).collect();
        paragraph(out, 2, &said.join(", "), style);
    }
}

/// How near all that was simulated comes, first the first readings, then each of the others.
pub(super) fn simulated_summary(all: &[Simulated], style: &Style) -> String {
    let mut out = String::new();
    heading(&mut out, "How near is it?", style);
    for (of, score) in verdicts(all) {
        paragraph(&mut out, 0, &of, style);
        for line in score {
            paragraph(&mut out, 2, &line, style);
        }
    }
    out
}

/// The same as lines, under what they are of.
pub(crate) fn verdicts(all: &[Simulated]) -> Vec<(String, Vec<String>)> {
    let first = all.iter().filter(|one| one.alternative.is_none());
    let mut found = vec![("In the first reading:".to_string(), told(&Score::new(first)))];
    for reading in left_open(all) {
        let of =
            |one: &&Simulated| one.alternative.as_ref().is_some_and(|known| known.name == reading);
        let runs: Vec<&Simulated> = all.iter().filter(of).collect();
        let lines = match runs.iter().find_map(|one| one.outcome.as_ref().err()) {
            Some(why) => vec![format!("not run, because {why}")],
            None => told(&Score::new(runs)),
        };
        found.push((format!("With {reading}:"), lines));
    }
    found
}

/// The readings beside the first one, each once.
pub(super) fn left_open(all: &[Simulated]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for alternative in all.iter().filter_map(|one| one.alternative.as_ref()) {
        if !names.contains(&alternative.name.as_str()) {
            names.push(&alternative.name);
        }
    }
    names
}

fn told(score: &Score) -> Vec<String> {
    let mut lines = vec![format!(
        "of {} published comparisons {} were simulated",
        score.cells, score.simulated
    )];
    lines.extend(score.times.iter().map(errors));
    let near = &score.neighbours;
    if near.published > 0 {
        lines.push(format!(
            "neighbours: {} of {} simulated; of {} with a published change above 5 % the direction \
             is right in {}, the effect \
             within a factor of 1.3 in {}, the ratio of times in {}",
            near.simulated, near.published, near.large, near.right, near.near, near.near_ratio
        ));
    }
    lines.extend(score.orders.iter().filter(|order| order.pairs > 0).map(order));
    lines
}

fn errors(errors: &Errors) -> String {
    let known = errors.mean.zip(errors.worst);
    let said = known.map_or(String::new(), |(mean, worst)| {
        format!("; mean error {:.1} %, worst {:.1} %", mean * 100.0, worst * 100.0)
    });
    format!("{}: {} of {} times simulated{said}", errors.of, errors.simulated, errors.published)
}

fn order(order: &Order) -> String {
    format!(
        "which slows {} more ({}, {}): {} of {} pairs in the published order",
        order.victim, order.source, order.experiment, order.right, order.pairs
    )
}
