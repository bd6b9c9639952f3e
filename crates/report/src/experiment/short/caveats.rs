//! What limits an answer, a sentence each.

use ringfence_analysis::estimate::{Estimate, FEWEST_TRIALS, NotEstimable};
use ringfence_analysis::results::CaseResult;
use ringfence_analysis::windows::TooLong;
use ringfence_experiment::{Reason, warning};
use ringfence_studies::findings::Findings;

use crate::experiment::cases::refusals;
use crate::numbers::percent;
use crate::print::unknown::Unknown;
use crate::text::plural;

/// The longest reason that is printed in full.
const LONGEST_REASON: usize = 80;

/// Reasons that are printed, at most.
const MOST_REASONS: usize = 2;

/// What the brackets are, which figures are missing, and [`limits`].
pub(crate) fn of_cases(found: &Findings) -> Vec<String> {
    let figures: Vec<Estimate> = found.results.iter().map(figure).collect();
    let interval = intervals(found, &figures);
    interval.into_iter().chain(missing(&figures)).chain(limits(found)).collect()
}

/// The figure that a case is about: its slowdown, or where it has no baseline its cost.
pub(crate) fn figure(result: &CaseResult) -> Estimate {
    result.effect.as_ref().map_or(result.ns_per_unit, |effect| effect.by_class.all.slowdown)
}

// Several looks share the level that is claimed: each interval is wider than it takes for one.
fn intervals(found: &Findings, figures: &[Estimate]) -> Option<String> {
    let trials = || figures.iter().flatten().map(|interval| interval.trials);
    let (fewest, most) = (trials().min()?, trials().max()?);
    let level = percent(found.plan.experiment.measure.confidence.0);
    let trials = match fewest == most {
        true => plural(most as usize, "trial"),
        false => format!("{fewest} to {most} trials"),
    };
    Some(format!("[lo, hi]: {level} intervals over {trials}."))
}

/// How many figures have no interval, and what would help most.
pub(crate) fn missing(figures: &[Estimate]) -> Option<String> {
    let reasons: Vec<NotEstimable> = figures.iter().filter_map(|figure| figure.err()).collect();
    let why = because(NotEstimable::hardest(&reasons)?);
    let of = match (reasons.len(), figures.len()) {
        (1, 1) => "No interval".to_owned(),
        (some, all) => format!("{some} of {all} have no interval"),
    };
    Some(format!("{of}: {why}."))
}

/// Why there is no figure, in few words.
pub(crate) fn because(reason: &NotEstimable) -> String {
    let more = |trials: &Option<u32>| {
        trials.map_or(String::new(), |trials| format!("; about {trials} trials would narrow it"))
    };
    match reason {
        NotEstimable::TooFewTrials { trials } => {
            format!("a figure takes at least {FEWEST_TRIALS} trials, and there are {trials}")
        }
        NotEstimable::TooWide { needed, .. } => {
            format!("trials differ too much{}", more(needed))
        }
        NotEstimable::TrialsDiffer { trials, .. } => {
            format!("trials differ too much{}", more(trials))
        }
        NotEstimable::TooFewLatencies { quantile, counted, needed, .. } => {
            format!("{quantile} takes about {needed} latencies, and {counted} were counted")
        }
        NotEstimable::TooLong { steps, of } => {
            format!("Ringfence was kept from running in {steps} of {of} steps")
        }
        other => other.why(),
    }
}

/// Steps that are in no figure, cases that were not run, and [`notes`].
pub(crate) fn limits(found: &Findings) -> Vec<String> {
    let TooLong { steps, of } =
        found.results.iter().map(|result| result.too_long).fold(TooLong::default(), TooLong::and);
    let left_out = (steps > 0).then(|| {
        format!("Left out: {steps} of {of} steps, because Ringfence was kept from running.")
    });
    let count = found.plan.placed.notes.len() + warning::split(&found.left).1.len();
    left_out.into_iter().chain(not_run(found)).chain(notes(count)).collect()
}

/// How many sentences on the circumstances are in the long form alone.
pub(crate) fn notes(count: usize) -> Option<String> {
    (count > 0).then(|| format!("{} on how this was measured (-v).", plural(count, "note")))
}

/// How many cases were not run, with the reasons where they are few and short.
pub(crate) fn not_run(found: &Findings) -> Option<String> {
    let refusals = refusals(&found.plan);
    let cases: usize = refusals.iter().map(|(_, labels)| labels.len()).sum();
    let all = (cases > 0).then(|| plural(cases, "case"))?;
    let short = refusals.iter().all(|(reason, _)| reason.len() <= LONGEST_REASON);
    if !short || refusals.len() > MOST_REASONS {
        let reasons = plural(refusals.len(), "reason");
        return Some(format!("Not run: {all}, for {reasons}; -v lists them."));
    }
    let one = |(reason, labels): &(&Reason, Vec<String>)| {
        format!("{}, because {reason}", plural(labels.len(), "case"))
    };
    Some(format!("Not run: {}.", refusals.iter().map(one).collect::<Vec<_>>().join("; ")))
}
