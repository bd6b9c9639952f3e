//! What is said of a cell, on a terminal as on a page.

use ringfence_analysis::estimate::{Estimate, Verdict};
use ringfence_studies::compare::{Cell, Comparison, Figure as What, Missing};

use crate::experiment::cases::one;
use crate::numbers::{Figure, ns_figure, percent, slowdown_figure};
use crate::print::unknown::Unknown;
use crate::style::Paint;

/// A case in a few words: its arm and what sets it apart.
pub(crate) fn name(arm: &str, label: &str) -> String {
    format!("{arm} {label}").trim_end().to_string()
}

pub(crate) fn figure_name(cell: &Cell) -> String {
    match cell.figure {
        What::Cost if cell.quantity.is_mean() => format!("time per {}", one(cell.unit)),
        What::Cost => cell.quantity.per(one(cell.unit)),
        What::Slowdown => cell.quantity.slowdown().into(),
    }
}

/// The figure of one side.
pub(crate) fn figure(cell: &Cell, side: &Estimate) -> Option<Figure> {
    let interval = side.as_ref().ok()?;
    Some(match cell.figure {
        What::Cost => ns_figure(interval),
        What::Slowdown => slowdown_figure(interval),
    })
}

/// The second side over the first.
pub(crate) fn change(cell: &Cell) -> Option<Figure> {
    cell.change.slowdown.as_ref().map(slowdown_figure)
}

pub(crate) fn changed(cell: &Cell) -> bool {
    matches!(cell.change.verdict, Verdict::Slower | Verdict::Faster)
}

/// The verdict without its interval, which stands beside it.
pub(crate) fn verdict(cell: &Cell) -> (String, Paint) {
    let (more, less) = match cell.figure {
        What::Cost => ("takes longer", "takes less"),
        What::Slowdown => ("slowed more", "slowed less"),
    };
    match &cell.change.verdict {
        Verdict::Slower => (more.into(), Paint::Bad),
        Verdict::Faster => (less.into(), Paint::Good),
        Verdict::NoChangeLargerThanMargin => {
            (format!("within {}", percent(cell.change.margin)), Paint::Good)
        }
        Verdict::Undecided { trials_needed: Some(trials) } => {
            (format!("undecided: about {trials} trials in both would tell"), Paint::Caution)
        }
        Verdict::Undecided { trials_needed: None } => {
            ("undecided: trials differ too much".into(), Paint::Caution)
        }
        Verdict::NotEstimable(reason) => (reason.short().into(), Paint::Caution),
    }
}

/// Why cells have no figure, a line for each reason.
pub(crate) fn not_estimable(comparison: &Comparison) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for cell in &comparison.cells {
        let Verdict::NotEstimable(reason) = cell.change.verdict else { continue };
        let (reason, name) = (reason.told(), name(&cell.arm, &cell.label));
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    reasons.into_iter().map(|(why, names)| format!("{}: {why}", names.join("; "))).collect()
}

/// How a missing case's reason continues its line.
pub(crate) fn reason(missing: &Missing) -> String {
    missing.reason.as_ref().map_or_else(String::new, |reason| format!(", because {reason}"))
}

/// What the figures mean.
pub(crate) fn reading(comparison: &Comparison) -> Vec<String> {
    let holds = match comparison.cells.len() {
        1 => format!("The interval holds with {}", percent(comparison.confidence)),
        cells => format!(
            "Each of the {cells} intervals holds with {}, so that all of them together hold with \
             {}",
            percent(comparison.level),
            percent(comparison.confidence)
        ),
    };
    let mut lines = vec![format!(
        "change: the figure after over the figure before; +3 % is 3 % more, 3x three times as \
         much. {holds}"
    )];
    if comparison.looks > 1 {
        lines[0] += ", whichever look was the last";
    }
    let has = |what: What| comparison.cells.iter().any(|cell| cell.figure == what);
    if has(What::Slowdown) {
        lines.push(
            "slowdown: against the case's baseline, measured next to it, so that the \
                    machine's own speed cancels"
                .into(),
        );
    }
    // No clock and no guests are simulated.
    if has(What::Cost) && !comparison.simulated {
        lines.push(
            "time: what was different about the machine on the two occasions, such as its clock or \
             its other guests, is part of the change; the interval only knows how much trials \
             differ".into(),
        );
    }
    lines
}
