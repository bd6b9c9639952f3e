//! One row for each measurement: what was published, what was measured or simulated, and how far
//! apart they are.

use ringfence_studies::reproduce::simulated::{Errors, Outcome, Score, Seconds, Simulated, Time};
use ringfence_studies::reproduce::{Agreement, Measured, Reproduced, Row, by_figure};

use crate::experiment::text::SIMULATED;
use crate::numbers::slowdown_figure;
use crate::reproduce::simulated as in_full;
use crate::reproduce::text::{self, Which, agreement, case, changes, instead, instead_name};
use crate::style::{Paint, Style};
use crate::table::{Cell, Column, Table};
use crate::text::{distinct, faint, hanging, heading, paragraph, plural};

/// The comparisons of one experiment: one row for each measurement, or, with [`Style::details`],
/// for each published figure, with the times and all remarks.
pub fn reproduced(rows: &[Row], style: &Style) -> String {
    if style.details {
        return text::reproduced(rows, style);
    }
    let mut out = String::new();
    self::rows(&mut out, rows, "measured", style);
    out.push('\n');
    out
}

/// How many measurements agree, and how to read it.
pub fn reproduced_summary(rows: &[Row], style: &Style) -> String {
    if style.details {
        return text::reproduced_summary(rows, style);
    }
    let mut out = summary(&by_figure(rows), style);
    legend(&mut out, style);
    out
}

/// One simulation of an experiment: without [`Style::details`] in its first reading, as the others
/// have a line in the summary.
pub fn simulated(one: &Simulated, here: Option<&Reproduced>, style: &Style) -> String {
    match style.details {
        true => in_full::simulated(one, here, style),
        false => first_reading(one, style),
    }
}

/// How near what was simulated comes.
pub fn simulated_summary(all: &[Simulated], style: &Style) -> String {
    if style.details {
        return in_full::simulated_summary(all, style);
    }
    let mut out = nearness(all, &in_full::left_open(all), style);
    legend(&mut out, style);
    out
}

// Comparisons by source. `how` is what the third column holds.
fn rows(out: &mut String, rows: &[Row], how: &str, style: &Style) {
    let sources = distinct(rows.iter().map(|row| row.published.source.as_str()));
    for (place, source) in sources.into_iter().enumerate() {
        if place > 0 {
            out.push('\n');
        }
        let own: Vec<&Row> = rows.iter().filter(|row| row.published.source == source).collect();
        let quantities = distinct(own.iter().map(|row| row.published.quantity.as_str()));
        let line = format!("{source}, {}: {}", quantities.join(", "), own[0].published.machine);
        faint(out, &line, style);
        let groups = by_figure(own.iter().copied());
        out.push_str(&table(&groups, how, quantities.len() > 1).render(style));
        reasons(out, &own, style);
    }
}

fn table(groups: &[Vec<&Row>], how: &str, several: bool) -> Table {
    let mut table = Table::new(vec![
        Column::text("case", 12),
        Column::left("published"),
        Column::left(how),
        Column::left("error"),
        Column::left("agrees"),
    ]);
    for group in groups {
        let first = group[0];
        let name = match several && group.len() == 1 {
            true => format!("{}, {}", case(&first.published.case), first.published.quantity),
            false => case(&first.published.case),
        };
        let published = changes(group.iter().map(|row| row.ratio));
        let cells = [Cell::new(name), Cell::new(published)];
        table.row([&cells[..], &figure(group, |row| Some(&row.measured))].concat());
        if let Some(name) = instead_name(first) {
            let cells = [Cell::painted(name, Paint::Faint), Cell::default()];
            table.row([&cells[..], &figure(group, instead)].concat());
        }
    }
    table
}

fn figure(group: &[&Row], which: Which) -> Vec<Cell> {
    let interval = match which(group[0]) {
        Some(Measured::Ratio { interval, .. }) => interval,
        Some(Measured::NotRun(_)) => return vec![Cell::new("not run")],
        Some(Measured::NotEstimable(_)) | None => return vec![Cell::new("-")],
    };
    let errors = group.iter().map(|row| interval.value / row.ratio - 1.0);
    let least = errors.clone().fold(f64::INFINITY, f64::min);
    let most = errors.fold(f64::NEG_INFINITY, f64::max);
    let error = match group.len() {
        1 => percent(least),
        _ => format!("{} to {}", percent(least).trim_end_matches(" %"), percent(most)),
    };
    let (word, paint) = agrees(agreement(group, which));
    let figure = slowdown_figure(interval).to_string();
    vec![Cell::new(figure), Cell::new(error), Cell::painted(word, paint)]
}

pub(crate) fn agrees([direction, magnitude]: [Option<Agreement>; 2]) -> (&'static str, Paint) {
    use Agreement::{Agrees, Differs, Undecided};
    match (direction, magnitude) {
        (Some(Agrees), Some(Agrees)) => ("yes", Paint::Good),
        (Some(Differs), _) => ("no", Paint::Bad),
        (Some(Undecided), _) => ("undecided", Paint::Caution),
        (Some(Agrees), Some(Differs)) => ("direction", Paint::Caution),
        _ => ("in part", Paint::Caution),
    }
}

fn percent(share: f64) -> String {
    format!("{:+.0} %", share * 100.0).replace("-0 %", "0 %").replace("+0 %", "0 %")
}

// The first reason why something has no figure, and how many others there are.
fn reasons(out: &mut String, rows: &[&Row], style: &Style) {
    let mut reasons: Vec<String> = Vec::new();
    for row in rows {
        let reason = match &row.measured {
            Measured::NotRun(why) => format!("not run, because {why}"),
            Measured::NotEstimable(why) => format!("-: {}", why.told()),
            Measured::Ratio { .. } => continue,
        };
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    let Some(first) = reasons.first() else { return };
    let more = match reasons.len() {
        1 => String::new(),
        count => format!(" ({}: -v)", plural(count - 1, "other reason")),
    };
    hanging(out, "", None, &format!("{first}{more}"), style);
}

// How many measurements agree: `groups` are of `by_figure`.
fn summary(groups: &[Vec<&Row>], style: &Style) -> String {
    let mut out = String::new();
    let made = |which: Which| {
        let is_made =
            move |group: &&Vec<&Row>| matches!(which(group[0]), Some(Measured::Ratio { .. }));
        groups.iter().filter(is_made).map(move |group| agrees(agreement(group, which)).0)
    };
    let tell = |which: Which| {
        let words: Vec<&str> = made(which).collect();
        let count = |wanted: &str| words.iter().filter(|word| **word == wanted).count();
        let known = [
            ("agree", count("yes")),
            ("in part", count("direction") + count("in part")),
            ("disagree", count("no")),
            ("undecided", count("undecided")),
        ];
        let known = known.iter().filter(|(_, count)| *count > 0);
        known.map(|(what, count)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
    };
    let own: Which = |row| Some(&row.measured);
    let mut text = match made(own).count() {
        0 => format!("None of {} was made here.", plural(groups.len(), "published measurement")),
        some => format!(
            "Of {} {some} were made here: {}.",
            plural(groups.len(), "published measurement"),
            tell(own)
        ),
    };
    match made(instead).count() {
        0 => {}
        some => text += &format!(" On other hardware instead {some}: {}.", tell(instead)),
    }
    paragraph(&mut out, 0, &text, style);
    out
}

// What the columns are.
fn legend(out: &mut String, style: &Style) {
    let text = "Changes of the time, with 95 % intervals. 'direction': the same direction, and \
                less than half or more than twice the effect. Times, readings and remarks: -v";
    faint(out, text, style);
}

fn first_reading(one: &Simulated, style: &Style) -> String {
    let mut out = String::new();
    if one.alternative.is_some() {
        return out;
    }
    let question = one.question.as_deref().unwrap_or(&one.experiment);
    heading(&mut out, &format!("{question}: {}", one.machine.0), style);
    match &one.outcome {
        Err(why) => hanging(&mut out, "", None, &format!("not run, because {why}"), style),
        Ok(Outcome { reproduced: Reproduced { rows, .. }, times, .. }) => {
            self::rows(&mut out, rows, "simulated", style);
            if !times.is_empty() {
                out.push_str(&seconds(times).render(style));
            }
        }
    }
    out.push('\n');
    out
}

fn seconds(times: &[Time]) -> Table {
    let mut table = Table::new(vec![
        Column::text("case", 12),
        Column::left("published"),
        Column::text("simulated", 10),
        Column::left("error"),
    ]);
    for time in times {
        let simulated = match &time.simulated {
            Seconds::Time(of) => format!("{:.2} s [{:.2}, {:.2}]", of.value, of.low, of.high),
            Seconds::NotRun(_) => "not run".into(),
            Seconds::NotEstimable(_) => "-".into(),
        };
        table.row(vec![
            Cell::new(case(&time.published.case)),
            Cell::new(format!("{:.2} s", time.published.value)),
            Cell::new(simulated),
            Cell::new(time.error().map(percent).unwrap_or_default()),
        ]);
    }
    table
}

// The first readings, and a line for each of the others.
fn nearness(all: &[Simulated], readings: &[&str], style: &Style) -> String {
    let mut out = String::new();
    heading(&mut out, SIMULATED, style);
    let first = all.iter().filter(|one| one.alternative.is_none());
    paragraph(&mut out, 0, &near(&Score::new(first)).join("; "), style);
    for reading in readings {
        let of =
            |one: &&Simulated| one.alternative.as_ref().is_some_and(|known| known.name == *reading);
        let runs: Vec<&Simulated> = all.iter().filter(of).collect();
        let text = match runs.iter().find_map(|one| one.outcome.as_ref().err()) {
            Some(why) => format!("not run, because {why}"),
            None => near(&Score::new(runs)).join("; "),
        };
        paragraph(&mut out, 2, &format!("with {reading}: {text}"), style);
    }
    out
}

// How near times come, then how near comparisons do.
pub(super) fn near(score: &Score) -> Vec<String> {
    let of_times = |errors: &Errors| {
        let Errors { of, published, simulated, .. } = errors;
        let figures = match simulated == published {
            true => format!("{published} times of {of}"),
            false => format!("{simulated} of {published} times of {of}"),
        };
        match errors.mean.zip(errors.worst) {
            Some((mean, worst)) => format!(
                "{figures}: off by {:.0} % in the mean, {:.0} % at worst",
                mean * 100.0,
                worst * 100.0
            ),
            None => format!("{figures}: no figure"),
        }
    };
    let mut parts: Vec<String> = score.times.iter().map(of_times).collect();
    let near = &score.neighbours;
    if near.published > 0 {
        parts.push(format!(
            "{} of {} comparisons with a co-runner simulated, {} of {} changes above 5 % in the \
             published direction",
            near.simulated, near.published, near.right, near.large
        ));
    }
    if near.published == 0 && score.cells > 0 {
        parts.push(format!("{} of {} comparisons simulated", score.simulated, score.cells));
    }
    parts
}
