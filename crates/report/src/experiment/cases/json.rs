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

#[derive(Serialize)]
pub(crate) struct Case<'a> {
    case: usize,
    arm: &'a str,
    label: &'a str,
    params: &'a [(String, String)],
    unit: &'a str,
    #[serde(serialize_with = "serialize_estimate")]
    ns_per_unit: Estimate,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed: Option<Observed>,
    effect: Option<Effect<'a>>,
    co_runners: &'a [CoRunner],
    classes: &'a BTreeMap<Class, usize>,
    too_long: TooLong,
}

#[derive(Serialize)]
struct Effect<'a> {
    finding: Finding,
    sentence: String,
    by_class: &'a ByClass,
    diagnostics: &'a Diagnostics,
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
