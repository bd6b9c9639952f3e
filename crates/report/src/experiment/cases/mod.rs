//! What an experiment's cases came to: for `write`, `neighbours`, `run` and `show`.
//!
//! Cases with a baseline are told by their slowdown, the others by their cost; then the cases that
//! this machine could not hold, and how to read it all.

pub(crate) mod costs;
pub(crate) mod episodes;
pub(crate) mod json;
pub(crate) mod labels;
pub(crate) mod not_run;
pub(crate) mod notes;
pub(crate) mod reading;
pub(crate) mod slowdowns;

use std::collections::BTreeSet;

pub(crate) use episodes::sentences as by_part;
pub(crate) use labels::{one, words};
pub(crate) use not_run::refusals;
pub(crate) use slowdowns::verdict;

use ringfence_analysis::results::CaseResult;
use ringfence_experiment::class::Class;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::quantity::Quantile;

use crate::experiment::classes::classes_legend;
use crate::experiment::too_long::too_long_in;
use crate::style::Style;
use crate::text::paragraph;

/// The results of a plan: tables of costs and of slowdowns, where there are any, cases that were
/// not run with their reasons, and a few lines on how to read it.
pub fn cases(plan: &Plan, results: &[CaseResult], style: &Style) -> String {
    let mut parts = tables(results, plan, style);
    if results.is_empty() {
        parts.push("no case was measured\n".to_string());
    }
    let mut parted = String::new();
    by_part(plan, results).iter().for_each(|text| paragraph(&mut parted, 0, text, style));
    parts.push(parted);
    let (slowdowns, costs): (Vec<&CaseResult>, Vec<_>) = of_both_kinds(results);
    parts.push(not_run::not_run(plan, style));
    let mut reading = how_to_read(plan, &costs, &slowdowns, style);
    if let Some(missing) = too_long_in(results) {
        paragraph(&mut reading, 0, &missing, style);
    }
    parts.push(reading);
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// The tables alone.
pub(crate) fn tables(results: &[CaseResult], plan: &Plan, style: &Style) -> Vec<String> {
    let (slowdowns, costs) = of_both_kinds(results);
    let costs = (!costs.is_empty()).then(|| costs::costs(plan, &costs, style));
    let title = plan.experiment.measure.quantity.slowdown();
    let slowdowns = (!slowdowns.is_empty()).then(|| slowdowns::slowdowns(&slowdowns, title, style));
    costs.into_iter().chain(slowdowns).collect()
}

fn of_both_kinds(results: &[CaseResult]) -> (Vec<&CaseResult>, Vec<&CaseResult>) {
    results.iter().partition(|result| result.effect.is_some())
}

fn how_to_read(
    plan: &Plan,
    costs: &[&CaseResult],
    slowdowns: &[&CaseResult],
    style: &Style,
) -> String {
    let mut out = String::new();
    let quantity = plan.experiment.measure.quantity;
    let time = quantity.quantile().map_or("time", Quantile::name);
    let lines = [
        reading::slowdown(plan, slowdowns),
        reading::interval(plan, costs, slowdowns),
        reading::precision(plan, time, costs.iter().map(|result| (*result, result.ns_per_unit))),
        reading::precision(plan, quantity.slowdown(), slowdowns::figures(slowdowns)),
        reading::stalled(slowdowns),
    ];
    for line in lines.into_iter().flatten() {
        paragraph(&mut out, 0, &line, style);
    }
    out.push_str(&classes_legend(classes_to_explain(slowdowns), style));
    out
}

/// All that occurred, if there are several, or if the only one is not a matter of course.
fn classes_to_explain(slowdowns: &[&CaseResult]) -> BTreeSet<Class> {
    let effects = slowdowns.iter().filter_map(|result| result.effect.as_ref());
    let classes: BTreeSet<Class> =
        effects.flat_map(|effect| effect.by_class.classes.keys().copied()).collect();
    let ordinary = |class: &Class| matches!(class, Class::Sharing | Class::Unprobed);
    if classes.len() == 1 && classes.iter().all(ordinary) { BTreeSet::new() } else { classes }
}
