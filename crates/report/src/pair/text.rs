//! What `pair` found: the pairwise interference, and which tasks should run together.

use std::time::Duration;

use ringfence_analysis::estimate::{Estimate, Finding, Interval, Verdict as Slower};
use ringfence_studies::pair::{Advice, Assignment, KindEntry, Outcome, PairEntry, Verdict, letter};

use crate::experiment::classes::classes_legend;
use crate::experiment::short::{caveats, slowdowns};
use crate::experiment::text::SIMULATED;
use crate::numbers::{Figure, NO_FIGURE, change, duration, percent, slowdown_figure};
use crate::print::unknown::{Unknown, WouldSettle};
use crate::style::{Paint, Style};
use crate::table::{Cell, Column, Table};
use crate::text::{capital, heading, paragraph};

/// How the assignment that was chosen did at first.
const BEST: &str = "best in the first measurement";

/// A time that a user may want to spend on an answer, seconds.
const PATIENCE_S: f64 = 3600.0;

/// Renders tasks, pairs and the advice; in short the advice comes first.
pub fn pair(outcome: &Outcome, style: &Style) -> String {
    if style.details { details(outcome, style) } else { short(outcome, style) }
}

fn short(outcome: &Outcome, style: &Style) -> String {
    let mut out = String::new();
    if outcome.simulated {
        heading(&mut out, SIMULATED, style);
    }
    heading(&mut out, &short_answer(outcome), style);
    let mut reasons = reasons(outcome);
    if matches!(outcome.verdict, Verdict::NotEstimable { .. }) {
        reasons.truncate(1);
    }
    // What was best in the first measurement is no reason where fresh trials are.
    for line in reasons.iter().filter(|line| reasons.len() < 3 || !line.starts_with(BEST)) {
        paragraph(&mut out, 2, line, style);
    }
    out.push('\n');
    for kind in &outcome.kinds {
        paragraph(&mut out, 0, &introduced(kind), style);
    }
    let table = table(outcome);
    out += &if table.fits(style) { table.render(style) } else { list(outcome, style) };
    if let Some(interval) = outcome.pairs.iter().find_map(|pair| pair.first.slowdown) {
        let text = format!(
            "first, second: slowdown next to the other, {} intervals over {} trials; progress: 2 \
             is no interference",
            percent(interval.level),
            interval.trials,
        );
        paragraph(&mut out, 0, &text, style);
    }
    if let Some(notes) = caveats::notes(outcome.placement.len()) {
        paragraph(&mut out, 0, &notes, style);
    }
    out
}

// For narrow terminals.
fn list(outcome: &Outcome, style: &Style) -> String {
    let mut out = String::new();
    let figure = |finding: &Finding| match (&finding.slowdown, finding.verdict) {
        (Some(slowdown), _) => slowdown_figure(slowdown).to_string(),
        (None, Slower::NotEstimable(reason)) => reason.short().into(),
        (None, _) => NO_FIGURE.into(),
    };
    for pair in &outcome.pairs {
        let (a, b) = pair.kinds;
        let second = if a == b { String::new() } else { format!(", {}", figure(&pair.second)) };
        let text = format!(
            "{} beside {}: {}{second}; progress {}",
            letter(a),
            letter(b),
            figure(&pair.first),
            progress(pair)
        );
        paragraph(&mut out, 0, &text, style);
    }
    out
}

// Without a number of trials that no one would wait for.
fn short_answer(outcome: &Outcome) -> String {
    let answer = match &outcome.verdict {
        Verdict::AllAlike => "Nothing to gain: all tasks are the same".into(),
        Verdict::NotShown { seconds, .. } if seconds.is_none_or(|seconds| seconds > PATIENCE_S) => {
            match undecided(outcome) {
                Some(gain) => format!(
                    "{}: another assignment changes total progress by {} to {}",
                    capital(slowdowns::why_undecided(gain)),
                    change(gain.low),
                    change(gain.high)
                ),
                None => "Too noisy to tell".into(),
            }
        }
        Verdict::NotEstimable { reason } => format!("No advice: {}", caveats::because(reason)),
        _ => answer(outcome),
    };
    format!("{answer}.")
}

fn details(outcome: &Outcome, style: &Style) -> String {
    let mut out = String::new();
    for kind in &outcome.kinds {
        paragraph(&mut out, 0, &introduced(kind), style);
    }
    for note in &outcome.placement {
        paragraph(&mut out, 0, note, style);
    }
    out.push('\n');
    if outcome.simulated {
        heading(&mut out, SIMULATED, style);
    }
    out += &table(outcome).render(style);
    out.push('\n');
    if let Some(interval) = outcome.pairs.iter().find_map(|pair| pair.first.slowdown) {
        let text = format!(
            "first, second: how much longer each takes per unit of work beside the other than \
             alone; [lo, hi]: \
             {} intervals over {} trials; progress: what both keep of their rates alone, 2 where \
             neither \
             disturbs the other, and more only if they help each other, so intervals end there",
            percent(interval.level),
            interval.trials,
        );
        paragraph(&mut out, 0, &text, style);
    }
    let classes = outcome.classes.keys().copied().filter(|_| outcome.classes.len() > 1);
    out += &classes_legend(classes, style);
    out.push('\n');
    if outcome.simulated {
        heading(&mut out, SIMULATED, style);
    }
    heading(&mut out, &answer(outcome), style);
    for line in reasons(outcome) {
        paragraph(&mut out, 2, &line, style);
    }
    out
}

/// `A is alu (tasks 1, 3)`.
pub(crate) fn introduced(kind: &KindEntry) -> String {
    let numbers: Vec<String> = kind.tasks.iter().map(ToString::to_string).collect();
    let tasks = if numbers.len() == 1 { "task" } else { "tasks" };
    format!("{} is {} ({tasks} {})", kind.letter, kind.text, numbers.join(", "))
}

fn table(outcome: &Outcome) -> Table {
    let mut table = Table::new(vec![
        Column::left("pair"),
        Column::right("first"),
        Column::left("interval"),
        Column::right("second"),
        Column::left("interval"),
        Column::right("progress"),
    ]);
    for pair in &outcome.pairs {
        let (a, b) = pair.kinds;
        let mut row = vec![Cell::new(format!("{} beside {}", letter(a), letter(b)))];
        row.extend(side(&pair.first));
        row.extend(if a == b { [Cell::default(), Cell::default()] } else { side(&pair.second) });
        row.push(Cell::new(progress(pair)));
        table.row(row);
    }
    table
}

fn side(finding: &Finding) -> [Cell; 2] {
    let Some(slowdown) = &finding.slowdown else {
        let why = match finding.verdict {
            Slower::NotEstimable(reason) => reason.short(),
            _ => NO_FIGURE,
        };
        return [Cell::painted(why, Paint::Caution), Cell::default()];
    };
    let figure = slowdown_figure(slowdown);
    let value = match finding.verdict {
        Slower::Slower => Cell::painted(figure.value, Paint::Bad),
        Slower::Faster | Slower::NoChangeLargerThanMargin => {
            Cell::painted(figure.value, Paint::Good)
        }
        _ => Cell::new(figure.value),
    };
    [value, Cell::new(figure.interval)]
}

/// What both of a pair keep, of 2.
pub(crate) fn progress(pair: &PairEntry) -> String {
    total(&pair.total, 2).to_string()
}

/// A total progress of which no more than `most` is possible, unless tasks help each other: beyond
/// that no figure is claimed, only how far its interval leaves it open.
pub(crate) fn total(total: &Estimate, most: usize) -> Figure {
    let limit = most as f64;
    match total {
        Err(reason) => Figure { value: reason.short().into(), interval: String::new() },
        Ok(total) if total.value <= limit => Figure {
            value: format!("{:.2}", total.value),
            interval: format!("[{:.2}, {:.2}]", total.low, total.high.min(limit)),
        },
        Ok(total) if total.low <= limit => {
            Figure { value: format!("{:.2} to {most}", total.low), interval: String::new() }
        }
        Ok(_) => Figure {
            value: format!("above {most}"),
            interval: "(noise, or they help each other)".into(),
        },
    }
}

/// The gain that is undecided, where one is.
pub(crate) fn undecided(outcome: &Outcome) -> Option<&Interval> {
    let Verdict::NotShown { .. } = outcome.verdict else { return None };
    let next = outcome.advice.as_ref().and_then(|advice| advice.next.as_ref());
    let confirmed = outcome.confirmed.as_ref().map(|confirmed| &confirmed.gain);
    next.map(|next| &next.gain).or(confirmed)?.as_ref().ok()
}

/// What it would take to decide.
pub(crate) fn takes(verdict: &Verdict) -> String {
    let Verdict::NotShown { trials_needed, seconds } = verdict else { return String::new() };
    match (trials_needed, seconds) {
        (Some(trials), Some(seconds)) if seconds.is_finite() => {
            // A second more or less is not known.
            let time = Duration::from_secs(seconds.clamp(1.0, 1e9).round() as u64);
            format!("it would take about {trials} trials, {}", duration(time))
        }
        (Some(trials), _) => format!("it would take about {trials} trials"),
        (None, _) => WouldSettle(None).to_string(),
    }
}

/// The answer in a line.
pub(crate) fn answer(outcome: &Outcome) -> String {
    let advised = outcome
        .advice
        .as_ref()
        .map(|advice| named(&advice.assignment, outcome))
        .unwrap_or_default();
    let margin = percent(outcome.margin);
    match &outcome.verdict {
        Verdict::AllAlike => {
            "Nothing to gain: the tasks are all the same, whoever runs beside whom".into()
        }
        Verdict::OnlyOne => "Nothing to choose: there is only one way to pair these tasks".into(),
        Verdict::PresentIsBest | Verdict::NoRoom | Verdict::NoGain => {
            format!("Nothing to gain: no other assignment gains more than {margin}")
        }
        Verdict::NoGainByIt => {
            format!(
                "Nothing to gain by what looked best: on fresh trials it gains no more than \
                 {margin}"
            )
        }
        verdict @ Verdict::NotShown { .. } => {
            let gain = undecided(outcome).map_or(String::new(), |gain| {
                format!(
                    ": what another assignment gains is between {} and {}",
                    change(gain.low),
                    change(gain.high)
                )
            });
            format!("Undecided{gain}; {}", takes(verdict))
        }
        Verdict::Change => format!("Run {advised}"),
        Verdict::NotEstimable { reason } => format!("No advice: {}", reason.told()),
        Verdict::CutShort => "No advice yet: the measurement was cut short".into(),
    }
}

/// What it rests on.
pub(crate) fn reasons(outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    let Some(advice) = &outcome.advice else { return lines };
    let present = named(&outcome.present, outcome);
    let tasks = outcome.kinds.iter().map(|kind| kind.tasks.len()).sum::<usize>();
    let most = |of: &Estimate| match of {
        Ok(_) => format!("total progress {} of {tasks}", total(of, tasks)),
        Err(reason) => format!("total progress not known: {}", reason.short()),
    };
    lines.push(format!("now: {present}; {}", most(&advice.present_total)));
    if let Some(next) = &advice.next {
        let gain = match &next.gain {
            Ok(gain) => slowdown_figure(gain).to_string(),
            Err(reason) => reason.told(),
        };
        let named = named(&next.assignment, outcome);
        lines.push(format!(
            "the alternative with the most room: {named}; total progress compared with now {gain}"
        ));
        return lines;
    }
    lines.push(format!(
        "{}, of {} assignments: {}; {}{}",
        picked_by(advice),
        outcome.assignments,
        named(&advice.assignment, outcome),
        most(&advice.total),
        beats(advice),
    ));
    match outcome.confirmed.as_ref().map(|confirmed| &confirmed.gain) {
        Some(Ok(gain)) => lines.push(format!(
            "on {} fresh trials: total progress compared with now {}",
            gain.trials,
            slowdown_figure(gain),
        )),
        Some(Err(reason)) => lines.push(format!("not confirmed: {}", reason.told())),
        None => {}
    }
    if outcome.verdict == Verdict::NoGainByIt {
        lines.push(match advice.room_beside {
            Some(room) => {
                format!(
                    "others looked worse and were not measured again: they may gain up to {}",
                    change(room)
                )
            }
            None => "others were not measured again, and what they may gain is not known".into(),
        });
    }
    lines
}

/// Why it is the one that is named: without an interval its total is no more than what it looked
/// like.
pub(crate) fn picked_by(advice: &Advice) -> &'static str {
    match advice.total {
        Ok(_) => BEST,
        Err(_) => "looked best in the first measurement",
    }
}

fn beats(advice: &Advice) -> String {
    probability(advice).map_or_else(String::new, |probability| {
        format!("; by these trials the chance that it beats the present one is {probability}")
    })
}

/// That of beating the present assignment; never rounded up to certainty.
pub(crate) fn probability(advice: &Advice) -> Option<String> {
    Some(match advice.probability? {
        p if p > 0.999 => "above 99.9 %".into(),
        p => percent((p * 1000.0).floor() / 1000.0),
    })
}

// `1 beside 3 (A, B), 2 beside 4 (A, B)`.
fn named(assignment: &Assignment, outcome: &Outcome) -> String {
    let kind = |task: usize| {
        let of_kind = outcome.kinds.iter().find(|kind| kind.tasks.contains(&(task + 1)));
        of_kind.map_or('?', |kind| kind.letter)
    };
    let pairs = assignment
        .pairs
        .iter()
        .map(|&(a, b)| format!("{} beside {} ({} beside {})", a + 1, b + 1, kind(a), kind(b)));
    let alone = assignment.alone.map(|task| format!("{} alone ({})", task + 1, kind(task)));
    pairs.chain(alone).collect::<Vec<_>>().join(", ")
}
