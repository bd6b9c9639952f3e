//! The survey, and what an A/A experiment says.

use ringfence_lab::estimate::{AaSummary, Estimate, Interval, NotEstimable};
use ringfence_lab::fixtures::survey;
use ringfence_lab::task::Instruction;

use crate::golden::check;

#[test]
fn a_survey_with_a_harmful_instruction() {
    let harm = |victim: &str, instruction: Instruction, paced: bool| match (victim, instruction) {
        ("chase", Instruction::Clwb) => 12.0,
        ("chase", Instruction::Clflush) if !paced => 1.08,
        _ => 1.0,
    };
    let survey = survey(harm);
    check("survey", |style| ringfence_report::survey(&survey, style));
}

#[test]
fn a_survey_cut_short() {
    let mut cut = survey(|_, _, _| 1.0);
    cut.cost.clear();
    cut.parts.clear();
    cut.neighbours.truncate(1);
    cut.probes.round_trips.clear();
    cut.probes.failed = vec!["round trip between CPUs 0 and 1: the ping-pong did not finish".into()];
    cut.not_run = vec!["neighbours-mcf: 7 cases, because it needs 2 CPUs, this machine has 1".into()];
    cut.ended_early = Some("interrupted".into());
    cut.conclude();
    check("survey-cut", |style| ringfence_report::survey(&cut, style));
}

#[test]
fn an_aa_experiment() {
    let interval = |value: f64| -> Estimate {
        Ok(Interval { value, low: value * 0.98, high: value * 1.02, level: 0.95, lives: 10, spread: 0.03 })
    };
    let mut estimates: Vec<Estimate> = (0..19).map(|_| interval(1.0)).collect();
    estimates.push(interval(1.1));
    estimates.push(Err(NotEstimable::NothingMeasured));
    let summary = AaSummary::new(&estimates, 0.95);
    check("aa", |style| ringfence_report::aa(&summary, style));
    let none = AaSummary::new(&[], 0.95);
    check("aa-none", |style| ringfence_report::aa(&none, style));
}
