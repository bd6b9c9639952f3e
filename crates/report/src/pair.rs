//! What `pair` found: who bears whom, and who should run beside whom.

use ringfence_lab::estimate::{Finding, NotEstimable, Verdict as Slower};
use ringfence_lab::pair::{Advice, Assignment, KindEntry, Outcome, PairEntry, Verdict, letter};

use crate::classes::classes_legend;
use crate::numbers::{NO_FIGURE, percent, slowdown_figure};
use crate::style::{Paint, Style};
use crate::table::{Cell, Column, Table};
use crate::text::{heading, paragraph};

/// Renders tasks, pairs and the advice.
pub fn pair(outcome: &Outcome, style: &Style) -> String {
    let mut out = String::new();
    for kind in &outcome.kinds {
        paragraph(&mut out, 0, &introduced(kind), style);
    }
    for note in &outcome.placement {
        paragraph(&mut out, 0, note, style);
    }
    out.push('\n');
    out += &table(outcome).render(style);
    out.push('\n');
    if let Some(interval) = outcome.pairs.iter().find_map(|pair| pair.first.slowdown) {
        let text = format!(
            "first, second: how much longer each takes per unit of work beside the other than alone; [lo, hi]: \
             {} intervals over {} lives; progress: what both keep of their rates alone, 2 where neither \
             disturbs the other",
            percent(interval.level),
            interval.lives,
        );
        paragraph(&mut out, 0, &text, style);
    }
    let classes = outcome.classes.keys().copied().filter(|_| outcome.classes.len() > 1);
    out += &classes_legend(classes, style);
    out.push('\n');
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
        let why = if matches!(finding.verdict, Slower::NotEstimable(NotEstimable::Stalled { .. })) {
            "stands still"
        } else {
            NO_FIGURE
        };
        return [Cell::painted(why, Paint::Caution), Cell::default()];
    };
    let figure = slowdown_figure(slowdown);
    let value = match finding.verdict {
        Slower::Slower => Cell::painted(figure.value, Paint::Bad),
        Slower::Faster | Slower::NoChangeLargerThanMargin => Cell::painted(figure.value, Paint::Good),
        _ => Cell::new(figure.value),
    };
    [value, Cell::new(figure.interval)]
}

pub(crate) fn progress(pair: &PairEntry) -> String {
    if pair.progress.is_finite() { format!("{:.2}", pair.progress) } else { NO_FIGURE.into() }
}

/// The answer in a line.
pub(crate) fn answer(outcome: &Outcome) -> String {
    let advised =
        outcome.advice.as_ref().map(|advice| named(&advice.assignment, outcome)).unwrap_or_default();
    let margin = percent(outcome.margin);
    match &outcome.verdict {
        Verdict::AllAlike => "Nothing to gain: the tasks are all the same, whoever runs beside whom".into(),
        Verdict::OnlyOne => "Nothing to choose: there is only one way to pair these tasks".into(),
        Verdict::PresentIsBest => {
            let of =
                if outcome.assignments == 2 { "both".into() } else { format!("all {}", outcome.assignments) };
            format!("Nothing to gain: the present pairs are the best of {of} assignments")
        }
        Verdict::NoRoom | Verdict::NoGain => {
            format!("Nothing to gain: no other assignment gains more than {margin}")
        }
        Verdict::NotShown { .. } => {
            format!("Nothing to gain that could be shown: no gain above {margin} was confirmed")
        }
        Verdict::Change => format!("Run {advised}"),
        Verdict::NotEstimable { reason } => format!("No advice: {reason}"),
        Verdict::CutShort => "No advice yet: the measurement was cut short".into(),
    }
}

/// What it rests on.
pub(crate) fn reasons(outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    let Some(advice) = &outcome.advice else { return lines };
    let present = named(&outcome.present, outcome);
    let tasks = outcome.kinds.iter().map(|kind| kind.tasks.len()).sum::<usize>();
    lines.push(format!("now: {present}; total progress {:.2} of {tasks}", advice.present_total));
    if let Some(next) = &advice.next {
        let gain = match &next.gain {
            Ok(gain) if gain.high > 1.0 + outcome.margin => {
                format!("{}, so that more lives could still prefer it", slowdown_figure(gain))
            }
            Ok(gain) => slowdown_figure(gain).to_string(),
            Err(reason) => format!("not estimable: {reason}"),
        };
        lines.push(format!("next: {}; total progress against now {gain}", named(&next.assignment, outcome)));
        return lines;
    }
    lines.push(format!(
        "best by the first measurement, of {} assignments: {}; total progress {:.2}{}",
        outcome.assignments,
        named(&advice.assignment, outcome),
        advice.total,
        beats(advice),
    ));
    match outcome.confirmed.as_ref().map(|confirmed| &confirmed.gain) {
        Some(Ok(gain)) => lines.push(format!(
            "confirmed on {} fresh lives: total progress {}{}",
            gain.lives,
            slowdown_figure(gain),
            needs(&outcome.verdict)
        )),
        Some(Err(reason)) => lines.push(format!("not confirmed: {reason}")),
        None => {}
    }
    lines
}

fn beats(advice: &Advice) -> String {
    probability(advice).map_or_else(String::new, |probability| {
        format!("; it beats the present one with a probability of {probability}, by these lives")
    })
}

/// That of beating the present assignment; never rounded up to certainty.
pub(crate) fn probability(advice: &Advice) -> Option<String> {
    Some(match advice.probability? {
        p if p > 0.999 => "above 99.9 %".into(),
        p => percent((p * 1000.0).floor() / 1000.0),
    })
}

fn needs(verdict: &Verdict) -> String {
    match verdict {
        Verdict::NotShown { lives_needed: Some(lives) } => format!("; about {lives} lives would settle it"),
        Verdict::NotShown { lives_needed: None } => "; the lives differ too much to settle it".into(),
        _ => String::new(),
    }
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
