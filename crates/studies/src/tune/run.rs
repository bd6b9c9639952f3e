//! Measures the stages and puts the policy together.

use std::path::Path;
use std::time::Duration;

use ringfence_analysis::estimate::Looks;
use ringfence_analysis::results::{self, CaseResult};
use ringfence_experiment::budget::Budget;
use ringfence_experiment::task::{Instruction, OneTask, Task};
use ringfence_experiment::units::Span;
use ringfence_experiment::{Error, Experiment, Measure};
use ringfence_machine::Machine;
use ringfence_persist::policy::{Fingerprint, Policy, Prices};
use serde::Serialize;

use super::choice::{self, Choice, Costs};
use super::{Question, experiments, prices};
use crate::prove::{self as prove, Proof, Verdict};
use crate::{Here, Kept, Planned, Stage, Study};
use crate::{Prober, few_trials, plan, refuse_nothing};

/// What was found.
#[derive(Debug, Serialize)]
pub struct Tuned {
    /// The costs that it was chosen from.
    pub costs: Vec<CaseResult>,
    /// What was chosen by cost.
    pub choice: Choice,
    /// PMDK's rule on this processor.
    pub pmdk: Choice,
    /// The choice against PMDK's rule where they differ, on fresh trials.
    pub confirmed: Vec<CaseResult>,
    /// Whether the fresh trials spoke against the choice, so that the policy is PMDK's rule.
    pub fell_back: bool,
    /// The victim, where one was given.
    pub proof: Option<Proof>,
    /// The policy as text; absent where the victim's budget is not shown to be met, or something
    /// failed.
    pub policy: Option<String>,
    /// Why the policy does not say what single instructions cost, where it does not.
    pub unpriced: Option<String>,
    /// Whether it was simulated, so that no figure here is a measurement and there is no policy.
    pub simulated: bool,
    /// Why it ended early, if it did.
    pub ended_early: Option<String>,
}

/// Refuses what cannot be measured before anything runs.
///
/// # Errors
/// One sentence.
pub fn check(question: &Question, machine: &Machine) -> Result<(), Error> {
    refuse_nothing(&plan(&experiments::costs(question), machine)?, machine)?;
    if let Some(asked) = beside(question, &pmdk(machine)?)? {
        prove::plan_of_baseline(&asked, machine)?;
    }
    Ok(())
}

/// Measures, chooses and confirms.
///
/// # Errors
/// Where nothing can be measured. What fails or is interrupted later is part of the answer.
pub fn run(question: &Question, here: &mut Here) -> Result<Tuned, Error> {
    check(question, here.machine)?;
    let (machine, pmdk) = (here.machine, pmdk(here.machine)?);
    let tuning = Tuning {
        question,
        machine,
        pmdk,
        dir: here.dir,
        proof: None,
        policy: None,
        unpriced: None,
    };
    Ok(crate::carry_out(&mut { tuning }, here)?.findings)
}

struct Tuning<'a> {
    question: &'a Question,
    machine: &'a Machine,
    // PMDK's rule there.
    pmdk: Choice,
    dir: &'a Path,
    proof: Option<Proof>,
    policy: Option<Policy>,
    unpriced: Option<String>,
}

impl Study for Tuning<'_> {
    type Findings = Tuned;

    fn stages(&self) -> Vec<Duration> {
        vec![Duration::ZERO; if self.question.victim.is_some() { 3 } else { 2 }]
    }

    fn kept(&self) -> Option<Kept> {
        None
    }

    fn next(&mut self, stages: &[Stage], here: &mut Here) -> Result<Option<Planned>, Error> {
        let machine = here.machine;
        let planned = |name: &str, experiment: Experiment| {
            let dir = self.dir.join(&experiment.name);
            Planned::new(name, dir, &experiment, machine).map(Some)
        };
        let Some(costs) = stages.first() else {
            return planned(
                "what each method costs",
                self.on_it(experiments::costs(self.question)),
            );
        };
        let choice = self.choice(costs)?;
        if let [_] = stages
            && let Some(experiment) = experiments::confirmation(self.question, &choice, &self.pmdk)
        {
            return planned("confirming the choice", self.on_it(experiment));
        }
        self.settle(stages, here)?;
        Ok(None)
    }

    fn conclude(&mut self, stages: &[Stage], ended_early: Option<&str>) -> Result<Tuned, Error> {
        let costs = stages.first().ok_or(Error::interrupted())?;
        let confirmed = stages.get(1).map_or(Vec::new(), figures);
        Ok(Tuned {
            costs: figures(costs),
            choice: self.choice(costs).map_err(|error| {
                let why = ended_early.map_or_else(|| error.to_string(), str::to_owned);
                let place = self.dir.display();
                Error::failed(format!("{why}; what was measured is in {place}"))
            })?,
            pmdk: self.pmdk,
            fell_back: speaks_against(&confirmed),
            confirmed,
            proof: self.proof.take(),
            policy: self.policy.as_ref().map(Policy::to_string),
            unpriced: self.unpriced.take(),
            simulated: self.machine.simulated.is_some(),
            ended_early: ended_early.map(str::to_owned),
        })
    }
}

fn pmdk(machine: &Machine) -> Result<Choice, Error> {
    let flushes = Prober::new(machine)?.flushes();
    Ok(Choice::pmdk(|flush| flushes.contains(&flush)))
}

impl Tuning<'_> {
    // The trials that are asked for are those of measurements.
    fn on_it(&self, mut experiment: Experiment) -> Experiment {
        few_trials(&mut experiment.measure, self.machine);
        experiment
    }

    fn choice(&self, costs: &Stage) -> Result<Choice, Error> {
        choice::choose(&Costs::new(costs.plan, costs.samples))
            .ok_or_else(|| Error::failed("some costs could not be measured"))
    }

    // The policy by what was confirmed, beside the victim where there is one.
    fn settle(&mut self, stages: &[Stage], here: &mut Here) -> Result<(), Error> {
        let question = self.question;
        let choice = self.choice(&stages[0])?;
        let fell_back = stages.get(1).is_some_and(|stage| speaks_against(&figures(stage)));
        let choice = if fell_back { Choice { batch: choice.batch, ..self.pmdk } } else { choice };
        let mut policy = Policy {
            processor: Fingerprint::here(),
            target: question.target.to_string(),
            instruction: choice.instruction,
            nt_threshold: choice.nt_threshold,
            batch: choice.batch,
            pace: None,
            prices: Prices::default(),
            file: None,
        };
        let mut met = true;
        if here.is_stopped() {
            return Err(Error::interrupted());
        }
        if let Some(asked) = beside(question, &choice)? {
            let dir = self.dir.join("victim");
            let plan = prove::plan_of_baseline(&asked, here.machine)?;
            let proved = prove::run(
                &asked,
                plan,
                &mut Here::new(here.machine, &dir, here.stop, here.watch),
            )?;
            met = apply(&mut policy, question, &proved.findings);
            self.proof = Some(proved.findings);
            if let Some(why) = proved.ended_early {
                return Err(Error::early(&why.clone(), why));
            }
        }
        // What was not measured here is no policy for here.
        if met && self.machine.simulated.is_none() {
            match prices::measure(question, policy.instruction) {
                Ok(prices) => policy.prices = prices,
                Err(why) => self.unpriced = Some(why),
            }
            self.policy = Some(policy);
        }
        Ok(())
    }
}

// Slower at some size, and faster at none: what was seen before was noise.
fn speaks_against(confirmed: &[CaseResult]) -> bool {
    let verdicts =
        || confirmed.iter().filter_map(|result| Some(result.effect.as_ref()?.finding.verdict));
    verdicts().any(|verdict| verdict == ringfence_analysis::estimate::Verdict::Slower)
        && !verdicts().any(|verdict| verdict == ringfence_analysis::estimate::Verdict::Faster)
}

// The question about the victim: a writer by the choice, with the levers that a policy can hold.
fn beside(question: &Question, choice: &Choice) -> Result<Option<prove::Question>, Error> {
    let Some(victim) = question.victim.clone() else { return Ok(None) };
    let writer = OneTask::try_from(experiments::writer(question, choice));
    Ok(Some(prove::Question {
        victim,
        aggressor: writer.map_err(Error::usage)?,
        aggressors: 1,
        victim_cpus: None,
        aggressor_cpus: None,
        placement: question.placement,
        budget: Budget::Slowdown(question.budget),
        measure: Measure { window: Span::ms(50), ..Measure::default() },
        trials: None,
        seed: question.seed,
        levers: vec!["instruction".into(), "pace".into()],
        try_env: Vec::new(),
        other_dir: None,
        system: false,
        time: None,
    }))
}

// Puts the lever that was proved into the policy; whether the budget is met.
fn apply(policy: &mut Policy, question: &Question, proof: &Proof) -> bool {
    let lever = match (proof.verdict, proof.confirmations.last()) {
        (Verdict::NothingNeeded, _) => return true,
        (Verdict::Met, Some(confirmation)) => &confirmation.tried.candidate,
        _ => return false,
    };
    let asked = proof.record.question.aggressor.tasks();
    let set = lever.arm.set.get(prove::AGGRESSOR);
    let writer = set.and_then(|set| OneTask::try_from(asked.with(set).ok()?).ok());
    let Some(Task::Write(writer)) = writer.as_ref().map(OneTask::task) else { return true };
    match writer.instruction {
        Instruction::Nt => {
            let threshold = policy.nt_threshold.unwrap_or(u64::MAX).min(question.block.0);
            policy.nt_threshold = Some(threshold);
        }
        Instruction::Flush(flush) => {
            policy.instruction = flush;
            if policy.nt_threshold.is_some_and(|threshold| threshold <= question.block.0) {
                policy.nt_threshold = None;
            }
        }
        Instruction::None | Instruction::Msync => {}
    }
    if let Some(pace) = writer.pace {
        policy.pace = Some(pace.0.0);
    }
    true
}

fn figures(stage: &Stage) -> Vec<CaseResult> {
    let measure = &stage.plan.experiment.measure;
    // The confirmation's intervals hold together: they are read as one claim.
    let compared = stage.plan.measured().len().max(1) as f64;
    let each = 1.0 - (1.0 - measure.confidence.0) / compared;
    let level = Looks::new(measure.looks.clone(), each).map_or(each, |looks| looks.level_at(0));
    results::results(stage.plan, stage.samples, level)
}
