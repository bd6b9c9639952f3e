//! A case and what came of it.

use std::collections::BTreeMap;

use ringfence_analysis::estimate::{
    ByClass, Diagnostics, Estimate, Finding, Observed, serialize_estimate,
};
use ringfence_analysis::parts::Parts;
use ringfence_analysis::results::{self, CaseResult, CoRunner};
use ringfence_analysis::windows::TooLong;
use ringfence_experiment::class::Class;
use serde::Serialize;

use crate::sentence;

/// What is known of one case.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Case<'a> {
    /// The case's number.
    case: usize,
    /// Its arm.
    arm: &'a str,
    /// What sets it apart, in words.
    label: &'a str,
    /// The same as (role.parameter, value).
    params: &'a [(String, String)],
    /// What the metric's work is counted in.
    unit: &'a str,
    /// Nanoseconds per unit of the metric's work in this case, over its own windows: the mean, or
    /// the quantile of a unit's latency that the experiment's `quantity` names.
    #[serde(serialize_with = "serialize_estimate")]
    ns_per_unit: Estimate,
    /// The slowdown, or where the case has no baseline the nanoseconds per unit, where trials
    /// differ too much for an interval; absent elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    observed: Option<Observed>,
    /// The slowdown against the baseline; absent where the case has none.
    effect: Option<Effect<'a>>,
    /// What the other roles achieved meanwhile.
    co_runners: &'a [CoRunner],
    /// Windows by class.
    #[cfg_attr(feature = "schema", schemars(extend("propertyNames" = { "$ref": "#/$defs/Class" })))]
    classes: &'a BTreeMap<Class, usize>,
    /// Steps that are in no figure, since a window of theirs was open for more than 3 times the
    /// length asked for: the program that measures was kept from running.
    too_long: TooLong,
}

/// A case against its baseline.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Effect<'a> {
    /// The verdict, over all classes.
    finding: Finding,
    /// The verdict in a sentence, as text and pages have it.
    sentence: String,
    /// The slowdown over all and in each class.
    by_class: &'a ByClass,
    /// How single pairs are spread.
    diagnostics: &'a Diagnostics,
    /// When the harm came, where the windows were episodes; null elsewhere.
    parts: Option<&'a Parts>,
}

impl<'a> From<&'a CaseResult> for Case<'a> {
    fn from(result: &'a CaseResult) -> Self {
        Self {
            case: result.case,
            arm: &result.arm,
            label: &result.label,
            params: &result.params,
            unit: result.unit,
            ns_per_unit: result.ns_per_unit,
            observed: result.observed,
            effect: result.effect.as_ref().map(Effect::from),
            co_runners: &result.co_runners,
            classes: &result.classes,
            too_long: result.too_long,
        }
    }
}

impl<'a> From<&'a results::Effect> for Effect<'a> {
    fn from(effect: &'a results::Effect) -> Self {
        Self {
            finding: effect.finding,
            sentence: sentence(&effect.finding),
            by_class: &effect.by_class,
            diagnostics: &effect.diagnostics,
            parts: effect.parts.as_ref(),
        }
    }
}

pub(crate) fn cases(results: &[CaseResult]) -> Vec<Case<'_>> {
    results.iter().map(Case::from).collect()
}
