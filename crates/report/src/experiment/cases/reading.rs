//! Lines below the tables: what the figures mean and how precise they are.

use std::collections::BTreeSet;

use ringfence_analysis::estimate::{Estimate, Interval};
use ringfence_analysis::results::CaseResult;
use ringfence_experiment::plan::Plan;

use crate::experiment::cases::labels::one;
use crate::experiment::cases::slowdowns::figures;
use crate::numbers::{coarse, percent};

/// What a slowdown compares.
pub(crate) fn slowdown(plan: &Plan, results: &[&CaseResult]) -> Option<String> {
    let first = results.first()?;
    let baseline = |result: &&CaseResult| {
        let baseline = plan.cases.get(result.case)?.baseline?;
        Some(plan.cases.get(baseline)?.arm.as_str())
    };
    let baselines: BTreeSet<&str> = results.iter().filter_map(baseline).collect();
    let beside = match baselines.into_iter().collect::<Vec<_>>()[..] {
        [one] => format!("in '{one}'"),
        _ => "in its baseline".into(),
    };
    let same_unit = results.iter().all(|result| result.unit == first.unit);
    let unit = if same_unit { one(first.unit) } else { "unit of work" };
    let metric = &plan.experiment.metric;
    if let Some(quantile) = plan.experiment.measure.quantity.quantile() {
        return Some(format!(
            "{quantile} slowdown: how much longer {quantile} of '{metric}' is per {unit} than \
             {beside}, of all windows together; \
             3x is three times as long"
        ));
    }
    Some(format!(
        "slowdown: how much longer '{metric}' takes per {unit} than {beside}; +3 % is 3 % longer, \
         3x is three times as long"
    ))
}

/// What the brackets are.
pub(crate) fn interval(
    plan: &Plan,
    costs: &[&CaseResult],
    slowdowns: &[&CaseResult],
) -> Option<String> {
    let costs = costs.iter().filter_map(|result| result.ns_per_unit.ok());
    let slowdowns = figures(slowdowns).filter_map(|(_, estimate)| estimate.ok());
    let intervals: Vec<Interval> = costs.chain(slowdowns).collect();
    let (fewest, most) = range(intervals.iter().map(|interval| interval.trials))?;
    let trials = if fewest == most { most.to_string() } else { format!("{fewest} to {most}") };
    let levels: BTreeSet<String> =
        intervals.iter().map(|interval| percent(interval.level)).collect();
    let level = levels.iter().cloned().collect::<Vec<_>>().join(" or ");
    let measure = &plan.experiment.measure;
    let claimed = percent(measure.confidence.0);
    // Several looks share what one of them could have had: see `Looks`.
    let together = match measure.looks.len() {
        looks if looks > 1 && !levels.contains(&claimed) => {
            format!(" ({claimed} over the {looks} looks together)")
        }
        _ => String::new(),
    };
    Some(format!("[lo, hi]: {level} interval over {trials} trials{together}"))
}

/// Median and worst half-width of the intervals there are; where more was asked for, why it was not
/// reached.
pub(crate) fn precision<'a>(
    plan: &Plan,
    what: &str,
    figures: impl Iterator<Item = (&'a CaseResult, Estimate)>,
) -> Option<String> {
    let half_width = |(result, estimate): (&'a CaseResult, Estimate)| {
        let interval = estimate.ok()?;
        let half = interval.log_half_width().exp_m1();
        half.is_finite().then_some((half, result, interval))
    };
    let mut halves: Vec<(f64, &CaseResult, Interval)> = figures.filter_map(half_width).collect();
    halves.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (worst, result, interval) = halves.last()?;
    let asked = plan.experiment.measure.precision.filter(|asked| asked.0 < *worst);
    let why = asked.map_or(String::new(), |asked| {
        format!(
            "; {asked} was asked for, but figures differ from trial to trial by {} (standard \
             deviation), and {} trials narrow that down no further",
            coarse(interval.spread.exp_m1()),
            interval.trials
        )
    });
    if halves.len() == 1 {
        return Some(format!(
            "precision: the interval of the {what} is {} to either side{why}",
            coarse(*worst)
        ));
    }
    let median = halves[(halves.len() - 1) / 2].0;
    let label = if result.label.is_empty() { &result.arm } else { &result.label };
    Some(format!(
        "precision: the intervals of the {what}s are {} to either side in the median, {} at worst \
         ({label}){why}",
        coarse(median),
        coarse(*worst)
    ))
}

/// Pairs that have no slowdown of their own.
pub(crate) fn stalled(results: &[&CaseResult]) -> Option<String> {
    let diagnostics =
        || results.iter().filter_map(|result| Some(&result.effect.as_ref()?.diagnostics));
    let stalled: u32 = diagnostics().map(|pairs| pairs.stalled).sum();
    let all: u32 = diagnostics().map(|pairs| pairs.pairs).sum();
    (stalled > 0).then(|| {
        format!("stalled: {stalled} of {all} pairs hold a window in which no work was done")
    })
}

fn range(mut values: impl Iterator<Item = u32>) -> Option<(u32, u32)> {
    let first = values.next()?;
    Some(values.fold((first, first), |(low, high), value| (low.min(value), high.max(value))))
}
