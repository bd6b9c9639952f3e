//! When harm came, where windows were episodes.

use std::time::Duration;

use ringfence_analysis::estimate::{Estimate, Interval};
use ringfence_analysis::results::CaseResult;
use ringfence_experiment::plan::Plan;

use crate::experiment::cases::labels::{one, words};
use crate::numbers::{duration, slowdown_figure};
use crate::print::unknown::Unknown;

/// A sentence or two for each case that has figures: how much of its harm came while its aggressors
/// ran, and how much after that.
pub(crate) fn sentences(plan: &Plan, results: &[CaseResult]) -> Vec<String> {
    let Some(episode) = plan.experiment.measure.episode else { return Vec::new() };
    let said = |result: &CaseResult| {
        let parts = result.effect.as_ref()?.parts.as_ref()?;
        if parts.beside.is_err() && parts.tail.is_err() {
            return None;
        }
        let (who, it, its_limit) = aggressors(plan, result.case);
        let mut text = format!(
            "{}: the slowdown per {} was {} while {who} ran, and {} in the {} after {it} had \
             stopped.",
            words(plan, result.case),
            one(result.unit),
            figure(&parts.beside),
            figure(&parts.tail),
            episode.tail,
        );
        if let Ok(longest) = &parts.longest {
            text += &format!(
                " The longest {} after that took {} as the longest of the same {} without {}.",
                one(result.unit),
                as_long(longest),
                episode.tail,
                if it == "it" { "it" } else { "them" },
            );
        }
        // It is looked at now and then whether it has reached its limit.
        if parts.ran_s < 0.95 * episode.beside.0.as_secs_f64() {
            let ran = duration(Duration::from_secs_f64(parts.ran_s));
            text += &format!(" {its_limit} reached after {ran} of {}.", episode.beside);
        }
        Some(text)
    };
    results.iter().filter_map(said).collect()
}

// As a ratio throughout: `9.1x [2.0, 41] as long`.
fn as_long(longest: &Interval) -> String {
    let (value, low, high) = (ratio(longest.value), ratio(longest.low), ratio(longest.high));
    format!("{value}x [{low}, {high}] as long")
}

fn ratio(times: f64) -> String {
    if times < 10.0 { format!("{times:.1}") } else { format!("{times:.0}") }
}

fn figure(estimate: &Estimate) -> String {
    match estimate {
        Ok(slowdown) => slowdown_figure(slowdown).to_string(),
        Err(reason) => format!("not known ({})", reason.why()),
    }
}

fn aggressors(plan: &Plan, case: usize) -> (String, &'static str, &'static str) {
    let active = plan.cases[case].active.iter().filter(|active| active.role != plan.metric);
    match active.collect::<Vec<_>>()[..] {
        [only] if only.count == 1 => {
            (format!("'{}'", plan.experiment.roles[only.role].name), "it", "Its limit was")
        }
        _ => ("the others".into(), "they", "Their limits were"),
    }
}
