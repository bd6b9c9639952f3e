//! Measures the stages and puts the policy together.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringfence_analysis::estimate::Looks;
use ringfence_analysis::results::{self, CaseResult};
use ringfence_experiment::ended::Ended;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::Instruction;
use ringfence_experiment::units::Span;
use ringfence_experiment::{Experiment, Measure};
use ringfence_machine::Machine;
use ringfence_persist::isa;
use ringfence_persist::policy::{Fingerprint, Policy, Prices};
use serde::Serialize;

use super::choice::{self, Choice, Costs};
use super::{Question, experiments, prices};
use crate::StudyError;
use crate::measure::{Measurement, continue_or_begin};
use crate::prove::{self, Proof, Verdict};
use crate::survey::Watch;

/// What was found.
#[derive(Debug, Serialize)]
pub struct Tuned {
    /// The costs that it was chosen from.
    pub costs: Vec<CaseResult>,
    /// What was chosen by cost.
    pub choice: Choice,
    /// PMDK's rule on this processor.
    pub pmdk: Choice,
    /// The choice against PMDK's rule where they differ, on fresh lives.
    pub confirmed: Vec<CaseResult>,
    /// Whether the fresh lives spoke against the choice, so that the policy is PMDK's rule.
    pub fell_back: bool,
    /// The victim, where one was given.
    pub proof: Option<Proof>,
    /// The policy as text; absent where the victim's budget is not shown to be met, or something failed.
    pub policy: Option<String>,
    /// Why the policy does not say what single instructions cost, where it does not.
    pub unpriced: Option<String>,
    /// Why it ended early, if it did.
    pub ended_early: Option<String>,
}

/// Refuses what cannot be measured before anything runs.
///
/// # Errors
/// One sentence.
pub fn check(question: &Question, machine: &Machine) -> Result<(), StudyError> {
    let usage = |error: ringfence_experiment::ExperimentError| StudyError::Usage(error.to_string());
    Plan::new(&experiments::costs(question), &machine.topology, machine.features.as_ref()).map_err(usage)?;
    if let Some(asked) = beside(question, &Choice::pmdk(isa::supports)) {
        prove::plan_of_look(&asked, machine)?;
    }
    Ok(())
}

/// Measures, chooses and confirms.
///
/// # Errors
/// Where nothing can be measured. What fails or is interrupted later is part of the answer.
pub fn run(
    question: &Question,
    machine: &Machine,
    dir: &Path,
    stop: &AtomicBool,
    watch: &mut dyn Watch,
) -> Result<Tuned, StudyError> {
    check(question, machine)?;
    let stages = if question.victim.is_some() { 3 } else { 2 };
    let mut measure = |number: usize, name: &str, experiment: &Experiment| {
        watch.stage(name, number, stages, Duration::ZERO, Duration::ZERO);
        let folder = dir.join(&experiment.name);
        continue_or_begin(experiment, machine, &folder, stop, &mut |progress| watch.progress(progress))
    };
    let costs = measure(0, "what each way costs", &experiments::costs(question))?;
    let pmdk = Choice::pmdk(isa::supports);
    let Some(choice) = choice::choose(&Costs::new(&costs.plan, &costs.samples)) else {
        let why = early(&costs, stop).unwrap_or_else(|| "the costs are not all known".into());
        return Err(StudyError::Failed(format!("{why}; what was measured is in {}", dir.display())));
    };
    let mut tuned = Tuned {
        costs: figures(&costs),
        choice,
        pmdk,
        confirmed: Vec::new(),
        fell_back: false,
        proof: None,
        policy: None,
        unpriced: None,
        ended_early: early(&costs, stop),
    };
    if let (None, Some(experiment)) =
        (&tuned.ended_early, experiments::confirmation(question, &choice, &pmdk))
    {
        let done = measure(1, "confirming the choice", &experiment)?;
        tuned.confirmed = figures(&done);
        tuned.fell_back = speaks_against(&tuned.confirmed);
        tuned.ended_early = early(&done, stop);
    }
    let choice = if tuned.fell_back { Choice { batch: choice.batch, ..pmdk } } else { choice };
    let mut policy = Policy {
        processor: Fingerprint::here(),
        target: question.target.to_string(),
        instruction: choice.instruction,
        nt_threshold: choice.nt_threshold,
        batch: choice.batch,
        pace: None,
        prices: Prices::default(),
    };
    let mut met = true;
    if let (None, Some(asked)) = (&tuned.ended_early, beside(question, &choice)) {
        let proved = prove::run(&asked, machine, &dir.join("victim"), stop, watch)?;
        tuned.ended_early = proved.ended_early;
        met = apply(&mut policy, question, &proved.proof);
        tuned.proof = Some(proved.proof);
    }
    if tuned.ended_early.is_none() && met {
        match prices::measure(question, policy.instruction) {
            Ok(prices) => policy.prices = prices,
            Err(why) => tuned.unpriced = Some(why),
        }
        tuned.policy = Some(policy.to_string());
    }
    Ok(tuned)
}

// Slower at some size, and faster at none: what was seen before was noise.
fn speaks_against(confirmed: &[CaseResult]) -> bool {
    let verdicts = || confirmed.iter().filter_map(|result| Some(result.effect.as_ref()?.finding.verdict));
    verdicts().any(|verdict| verdict == ringfence_analysis::estimate::Verdict::Slower)
        && !verdicts().any(|verdict| verdict == ringfence_analysis::estimate::Verdict::Faster)
}

// The question about the victim: a writer by the choice, with the levers that a policy can hold.
fn beside(question: &Question, choice: &Choice) -> Option<prove::Question> {
    Some(prove::Question {
        victim: question.victim.clone()?,
        aggressor: experiments::writer(question, choice),
        aggressors: 1,
        victim_cpus: None,
        aggressor_cpus: None,
        placement: question.placement,
        budget: question.budget,
        measure: Measure { window: Span::ms(50), ..Measure::default() },
        lives: None,
        seed: question.seed,
        levers: vec!["instruction".into(), "pace".into()],
        try_env: Vec::new(),
        time: None,
    })
}

// Puts the lever that was proved into the policy; whether the budget is met.
fn apply(policy: &mut Policy, question: &Question, proof: &Proof) -> bool {
    let lever = match (proof.verdict, proof.confirmations.last()) {
        (Verdict::NothingNeeded, _) => return true,
        (Verdict::Met, Some(confirmation)) => &confirmation.tried.offer,
        _ => return false,
    };
    let set = lever.arm.set.get(prove::AGGRESSOR);
    let value = |key: &str| set.and_then(|set| set.get(key)?.as_str());
    if let Some(name) = value("instruction") {
        if name == Instruction::Nt.name() {
            let threshold = policy.nt_threshold.unwrap_or(u64::MAX).min(question.block.0);
            policy.nt_threshold = Some(threshold);
        } else if let Ok(flush) = name.parse() {
            policy.instruction = flush;
            if policy.nt_threshold.is_some_and(|threshold| threshold <= question.block.0) {
                policy.nt_threshold = None;
            }
        }
    }
    if let Some(pace) = value("pace").and_then(|text| text.parse::<ringfence_experiment::units::Rate>().ok())
    {
        policy.pace = Some(pace.0.0);
    }
    true
}

fn figures(done: &Measurement) -> Vec<CaseResult> {
    let measure = &done.plan.experiment.measure;
    // The confirmation's intervals hold together: they are read as one claim.
    let compared = done.plan.measured().len().max(1) as f64;
    let each = 1.0 - (1.0 - measure.confidence.0) / compared;
    let level = Looks::new(measure.looks.clone(), each).map_or(each, |looks| looks.level_at(0));
    results::results(&done.plan, &done.samples, level)
}

fn early(done: &Measurement, stop: &AtomicBool) -> Option<String> {
    match &done.ended {
        Ended::Failed(why) => Some(why.clone()),
        Ended::Interrupted => Some("interrupted".into()),
        _ if stop.load(Ordering::Relaxed) => Some("interrupted".into()),
        _ => None,
    }
}
