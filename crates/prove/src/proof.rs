//! The answer: a pure function of the record and the datasets.

use ringfence_analysis::estimate::{Estimate, NotEstimable, serialize_estimate};
use ringfence_analysis::judged::side;
use ringfence_analysis::latency::{self, CaseLatencies};
use ringfence_analysis::results;
use ringfence_analysis::windows::{self, TooLong};
use ringfence_experiment::Kind;
use ringfence_experiment::budget::Budget;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::{ProgramUnit, Task};
use serde::Serialize;

use super::choice::{self, Price, Tried};
use super::lever::Candidate;
use super::{ALONE, BESIDE, Control, Record, VICTIM};
use ringfence_study::Stage;

/// What the victim's quantity is, ns, whatever a budget that is a share would be about.
#[derive(Debug, Clone, Serialize)]
pub struct Reached {
    /// Alone: beyond the budget, no lever on the aggressor helps.
    #[serde(serialize_with = "serialize_estimate")]
    pub alone: Estimate,
    /// Beside the aggressor as it is.
    #[serde(serialize_with = "serialize_estimate")]
    pub beside: Estimate,
}

/// A victim is clearly faster with its aggressor than alone if it is faster by more than this share. Less can be an effect of
/// the aggressor: it keeps clock frequencies high, and lines in a shared cache.
pub const CLEARLY_FASTER: f64 = 0.05;

fn clearly_faster(slowdown: &Estimate) -> bool {
    slowdown.is_ok_and(|known| known.high < 1.0 - CLEARLY_FASTER)
}

/// A lever measured again.
#[derive(Debug, Clone, Serialize)]
pub struct Confirmation {
    /// What was found on the fresh trials.
    pub tried: Tried,
    /// The victim beside the aggressor as it is, on the same trials.
    #[serde(serialize_with = "serialize_estimate")]
    pub beside: Estimate,
    /// The same in ns, where the budget is a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached: Option<Reached>,
    /// Whether the budget is met, missed, or neither is known.
    pub met: Option<bool>,
    /// The victim with the lever over the victim without it, on the same trials.
    #[serde(serialize_with = "serialize_estimate")]
    pub against_beside: Estimate,
    /// Whether the victim is better off with the lever than without it, on the same trials; `None` where that is not known.
    pub helps: Option<bool>,
}

impl Confirmation {
    fn of(stage: Stage, tried: Tried, budget: Budget) -> Self {
        let cases = case(stage.plan, &tried.candidate.arm.name).zip(case(stage.plan, BESIDE));
        let level = results::level(stage.plan, stage.samples);
        let against_beside = cases.map_or(Err(NotEstimable::NothingMeasured), |(lever, beside)| {
            results::ratio(stage.plan, stage.samples, lever, beside, level)
        });
        let reached = budget.is_absolute().then(|| Reached::of(stage));
        let beside = slowdown(stage, BESIDE);
        let met = side(tried.judged(), budget);
        let without = side(reached.as_ref().map_or(&beside, |reached| &reached.beside), budget);
        let helps = match (met, without) {
            (Some(true), Some(false)) => Some(true),
            _ => against_beside.ok().filter(|ratio| !ratio.contains(1.0)).map(|ratio| ratio.high < 1.0),
        };
        Self { tried, beside, reached, met, against_beside, helps }
    }

    /// Whether the lever is recommended: it meets the budget, and the victim is better off with it than without it.
    pub fn is_recommended(&self) -> bool {
        self.met == Some(true) && self.helps == Some(true)
    }

    /// Whether the victim is clearly faster with the aggressor and the lever than alone.
    pub fn is_faster_than_alone(&self) -> bool {
        clearly_faster(&self.tried.victim)
    }

    /// Of the aggressor as it is, what is held against the budget.
    pub fn judged_beside(&self) -> &Estimate {
        self.reached.as_ref().map_or(&self.beside, |reached| &reached.beside)
    }
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The victim is within the budget as it is.
    NothingNeeded,
    /// The last confirmation met the budget, and the victim was better off than without the lever.
    Met,
    /// No lever meets it.
    Missed,
    /// Neither is known.
    Undecided,
    /// The aggressor did nothing, or the victim takes as long whatever is done to it.
    NothingHappened,
    /// The victim is within the budget, as it is or with the lever that was confirmed, but on a described machine: nothing
    /// was measured.
    SimulatedOnly,
}

/// The answer with everything that it rests on.
#[derive(Debug, Clone, Serialize)]
pub struct Proof {
    /// What was asked, what was offered, what was not.
    pub record: Record,
    /// What the victim's work is counted in.
    pub unit: String,
    /// Where the victim ran, then the aggressors.
    pub cpus: [Vec<u32>; 2],
    /// The victim beside the aggressor as it is, from the baseline.
    #[serde(serialize_with = "serialize_estimate")]
    pub beside: Estimate,
    /// The same in ns, and alone, where the budget is a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached: Option<Reached>,
    /// Whether the victim is clearly faster beside the aggressor than alone, so that something else changed.
    pub faster: bool,
    /// The victim's latencies in the baseline, alone and beside, where they are counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub latencies: Vec<CaseLatencies>,
    /// All candidates, from the levers' experiment.
    pub tried: Vec<Tried>,
    /// Those that were measured again, in order.
    pub confirmations: Vec<Confirmation>,
    /// What follows.
    pub verdict: Verdict,
    /// Whether any of it was simulated.
    pub simulated: bool,
    /// Of all stages, the pairs of windows that are in no figure, since one of them lasted too long.
    pub too_long: TooLong,
}

impl Proof {
    /// Judges what was measured so far.
    pub fn new(record: &Record, stages: &[Stage]) -> Self {
        let Some(baseline) = Stage::find(stages, |kind| *kind == Kind::ProveBaseline) else {
            return Self::unseen(record);
        };
        let levers = Stage::find(stages, |kind| *kind == Kind::ProveLevers);
        let budget = record.question.budget;
        let candidates = record.candidates.as_deref().unwrap_or_default();
        let sought = levers.is_some() || record.candidates.as_ref().is_some_and(Vec::is_empty);
        let beside = slowdown(baseline, BESIDE);
        let reached = budget.is_absolute().then(|| Reached::of(baseline));
        let tried = levers.map_or(Vec::new(), |stage| {
            candidates.iter().filter_map(|candidate| tried_in(stage, candidate, budget)).collect()
        });
        let confirm = |stage: Stage| {
            let candidate =
                candidates.iter().find(|candidate| case(stage.plan, &candidate.arm.name).is_some())?;
            Some(Confirmation::of(stage, tried_in(stage, candidate, budget)?, budget))
        };
        let attempt = |number| Stage::find(stages, |kind| *kind == Kind::ProveConfirmation { number });
        let confirmations: Vec<Confirmation> =
            (0..super::ATTEMPTS).map_while(attempt).filter_map(confirm).collect();
        let faster = clearly_faster(&beside);
        let nothing = record.control.as_ref().and_then(Control::depends) == Some(false)
            || record.worked.is_some_and(|worked| worked.nothing());
        let verdict = if nothing {
            Verdict::NothingHappened
        } else if faster && !budget.is_absolute() {
            // What it takes alone is no measure of harm then.
            Verdict::Undecided
        } else {
            let judged = reached.as_ref().map_or(&beside, |reached| &reached.beside);
            let alone = reached.as_ref().and_then(|reached| side(&reached.alone, budget));
            match (side(judged, budget), alone) {
                // By itself it is beyond the budget: there is nothing that a lever could help.
                (Some(false) | None, Some(false)) => Verdict::Missed,
                (beside, _) => verdict(beside, sought, &tried, &confirmations, budget),
            }
        };
        let simulated = stages.iter().any(|stage| is_simulated(stage));
        let verdict = match verdict {
            Verdict::NothingNeeded | Verdict::Met if simulated => Verdict::SimulatedOnly,
            other => other,
        };
        let placed = |role: usize| {
            let instances = 0..baseline.plan.placed.cpus[role].len() as u32;
            instances
                .flat_map(|instance| baseline.plan.home(role, instance).iter().collect::<Vec<_>>())
                .collect()
        };
        let metric = baseline.plan.metric;
        Self {
            record: record.clone(),
            unit: case(baseline.plan, BESIDE)
                .map_or("units", |case| baseline.plan.metric_task(case).unit())
                .into(),
            cpus: [placed(metric), placed(1 - metric)],
            beside,
            reached,
            faster,
            latencies: latencies(baseline),
            tried,
            confirmations,
            verdict,
            simulated,
            too_long: stages
                .iter()
                .map(|stage| windows::too_long(stage.plan, stage.samples))
                .fold(TooLong::default(), TooLong::and),
        }
    }

    // What is known where the control has refused a verdict, so that nothing else was measured.
    fn unseen(record: &Record) -> Self {
        let control = record.control.as_ref();
        Self {
            record: record.clone(),
            unit: control.map_or_else(|| "units".into(), |control| control.unit.clone()),
            cpus: [control.map(|control| control.cpus.clone()).unwrap_or_default(), Vec::new()],
            beside: Err(NotEstimable::NothingMeasured),
            reached: None,
            faster: false,
            latencies: Vec::new(),
            tried: Vec::new(),
            confirmations: Vec::new(),
            verdict: Verdict::NothingHappened,
            simulated: false,
            too_long: TooLong::default(),
        }
    }

    /// Whether it is known, from the baseline, that the aggressor as it is keeps to the budget or exceeds it.
    pub fn baseline_is_decided(&self) -> bool {
        side(self.judged_beside(), self.record.question.budget).is_some()
    }

    /// Of the aggressor as it is, what is held against the budget: the victim's slowdown, or its quantity in ns.
    pub fn judged_beside(&self) -> &Estimate {
        self.reached.as_ref().map_or(&self.beside, |reached| &reached.beside)
    }

    /// Whether the victim is known to be beyond the budget by itself, which is a time.
    pub fn misses_alone(&self) -> bool {
        let alone = self.reached.as_ref().map(|reached| side(&reached.alone, self.record.question.budget));
        alone == Some(Some(false))
    }

    /// The candidate that is to be confirmed next, as an index into the record's candidates; `None` where the
    /// matter is settled or attempts are spent.
    pub fn next(&self) -> Option<usize> {
        if !self.needs_levers()
            || self.confirmations.len() >= super::ATTEMPTS
            || self.confirmations.last().is_some_and(Confirmation::is_recommended)
        {
            return None;
        }
        let done = |candidate: &Candidate| {
            self.confirmations.iter().any(|c| c.tried.candidate.arm.name == candidate.arm.name)
        };
        let candidates = choice::candidates(&self.tried, self.record.question.budget);
        let next = candidates
            .into_iter()
            .map(|index| &self.tried[index].candidate)
            .find(|candidate| !done(candidate))?;
        self.record.candidates.as_deref()?.iter().position(|candidate| candidate.arm.name == next.arm.name)
    }

    /// Whether the victim is clearly faster than alone in what the answer is about: with the lever that was confirmed
    /// last, or beside the unchanged aggressor.
    pub fn is_faster_than_alone(&self) -> bool {
        self.confirmations.last().map_or(self.faster, Confirmation::is_faster_than_alone)
    }

    /// Whether the next candidate is the last one that could be measured again.
    pub fn is_last_candidate(&self) -> bool {
        let all = choice::candidates(&self.tried, self.record.question.budget).len();
        self.confirmations.len() + 1 >= all.min(super::ATTEMPTS)
    }

    /// The confirmation of a lever that met the budget on fresh trials, if it is not known to help.
    pub fn unhelpful(&self) -> Option<&Confirmation> {
        self.confirmations.iter().rfind(|one| one.met == Some(true) && one.helps != Some(true))
    }

    /// What keeps the matter open, where it is: the lever by its name, or none for the aggressor as it is, and what of the
    /// victim beside it is held against the budget. `None` where nothing that was measured may be on either side of the budget.
    pub fn open(&self) -> Option<(Option<&Candidate>, &Estimate)> {
        let budget = self.record.question.budget;
        let again = self.confirmations.iter().find(|one| one.met != Some(false));
        let confirmed = |tried: &Tried| {
            self.confirmations.iter().any(|one| one.tried.candidate.arm.name == tried.candidate.arm.name)
        };
        let open = |tried: &&Tried| !confirmed(tried) && side(tried.judged(), budget) != Some(false);
        let lever = again.map(|one| &one.tried).or_else(|| {
            // The nearest to the budget of those that were measured, or else any.
            let figure =
                |tried: &&Tried| tried.judged().as_ref().map_or(f64::INFINITY, |figure| figure.value);
            self.tried.iter().filter(open).min_by(|a, b| figure(a).total_cmp(&figure(b)))
        });
        let lever = lever.map(|tried| (Some(&tried.candidate), tried.judged()));
        lever.or_else(|| (!self.baseline_is_decided()).then_some((None, self.judged_beside())))
    }

    /// Whether a lever must be sought: the baseline has not shown that the budget is met, nor that it is missed without
    /// the aggressor.
    pub fn needs_levers(&self) -> bool {
        if self.misses_alone() || self.faster && !self.record.question.budget.is_absolute() {
            return false;
        }
        match self.verdict {
            Verdict::NothingNeeded | Verdict::NothingHappened => false,
            Verdict::SimulatedOnly => !self.confirmations.is_empty(),
            Verdict::Met | Verdict::Missed | Verdict::Undecided => true,
        }
    }
}

fn verdict(
    beside: Option<bool>,
    levers: bool,
    tried: &[Tried],
    confirmations: &[Confirmation],
    budget: Budget,
) -> Verdict {
    if beside == Some(true) {
        return Verdict::NothingNeeded;
    }
    if confirmations.iter().any(Confirmation::is_recommended) {
        return Verdict::Met;
    }
    // Missed is said where each is known to miss it: when it was measured again, or else when it was tried.
    let misses = |tried: &Tried| {
        let again = confirmations.iter().find(|one| one.tried.candidate.arm.name == tried.candidate.arm.name);
        again.map_or_else(|| side(tried.judged(), budget), |again| again.met) == Some(false)
    };
    // Where none was tried, one may still help.
    if beside == Some(false) && levers && !tried.is_empty() && tried.iter().all(misses) {
        Verdict::Missed
    } else {
        Verdict::Undecided
    }
}

fn latencies(baseline: Stage) -> Vec<CaseLatencies> {
    let level = results::level(baseline.plan, baseline.samples);
    let all = latency::cases(baseline.plan, baseline.samples, None, level);
    all.into_iter().filter(|one| one.role == VICTIM && [ALONE, BESIDE].contains(&one.arm.as_str())).collect()
}

fn is_simulated(stage: &Stage) -> bool {
    stage.samples.iter().any(|sample| sample.simulated == Some(true))
}

impl Reached {
    fn of(stage: Stage) -> Self {
        Self { alone: reached(stage, ALONE), beside: reached(stage, BESIDE) }
    }
}

fn reached(stage: Stage, arm: &str) -> Estimate {
    let Some(case) = stage.plan.cases.iter().position(|case| case.arm == arm) else {
        return Err(NotEstimable::NothingMeasured);
    };
    results::reached(stage.plan, stage.samples, case, results::level(stage.plan, stage.samples))
}

fn case(plan: &Plan, arm: &str) -> Option<usize> {
    plan.measured().into_iter().find(|case| plan.cases[*case].arm == arm)
}

fn slowdown(stage: Stage, arm: &str) -> Estimate {
    let level = results::level(stage.plan, stage.samples);
    let estimates = results::main_estimates(stage.plan, stage.samples, level);
    let mut found = stage.plan.measured().into_iter().zip(estimates);
    let of_arm = found.find(|(case, _)| stage.plan.cases[*case].arm == arm);
    of_arm.map_or(Err(NotEstimable::NothingMeasured), |(_, estimate)| estimate)
}

fn tried_in(stage: Stage, candidate: &Candidate, budget: Budget) -> Option<Tried> {
    let case_of = case(stage.plan, &candidate.arm.name)?;
    let beside = case(stage.plan, BESIDE)?;
    let price = match unseen(stage.plan, case_of, candidate) {
        Some(why) => Price::Unseen(why),
        None => Price::Slowdown(results::co_runners_slowdown(
            stage.plan,
            stage.samples,
            case_of,
            beside,
            results::level(stage.plan, stage.samples),
        )),
    };
    let name = &candidate.arm.name;
    let reached = budget.is_absolute().then(|| reached(stage, name));
    Some(Tried { candidate: candidate.clone(), victim: slowdown(stage, name), reached, price })
}

// CPU time is the same however slowly a program works in it.
fn unseen(plan: &Plan, case: usize, candidate: &Candidate) -> Option<String> {
    let mut others = plan.cases[case].active.iter().filter(|active| active.role != plan.metric);
    let blind = others.any(|active| match &plan.variants[active.role][active.variant].task {
        Task::Command(command) => {
            let in_cpu_time = candidate.price_in_cpu_time && command.unit == ProgramUnit::CpuTime;
            !(command.unit.tells_speed() || in_cpu_time)
        }
        _ => false,
    });
    blind.then(|| "it only shows its CPU time".to_string())
}

#[cfg(test)]
#[path = "../tests/inside/proof.rs"]
mod tests;
