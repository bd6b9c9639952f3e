//! The answer: a pure function of the record and the datasets.

use ringfence_analysis::estimate::{Estimate, NotEstimable, serialize_estimate};
use ringfence_analysis::latency::{self, CaseLatencies};
use ringfence_analysis::results;
use ringfence_analysis::verdicts::side;
use ringfence_analysis::windows::{self, TooLong};
use ringfence_experiment::budget::Budget;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::{ProgramUnit, Task};
use ringfence_experiment::{Kind, Reason};
use serde::Serialize;

use super::choice::{self, Price, Tried};
use super::question::{LEFT_OUT, is_of_time};
use super::settles::Settles;
use super::time;
use super::{ALONE, BESIDE, Control, Record, VICTIM};
use crate::Stage;
use ringfence_limits::lever::Candidate;

/// What the victim's quantity is, ns, whatever a budget that is a share would be about.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ProofReached"))]
pub struct Reached {
    /// Alone: beyond the budget, no lever on the aggressor helps.
    #[serde(serialize_with = "serialize_estimate")]
    pub alone: Estimate,
    /// Beside the aggressor as it is.
    #[serde(serialize_with = "serialize_estimate")]
    pub beside: Estimate,
}

/// A victim is clearly faster with its aggressor than alone if it is faster by more than this
/// share. Less can be an effect of the aggressor: it keeps clock frequencies high, and lines in a
/// shared cache.
pub const CLEARLY_FASTER: f64 = 0.05;

fn clearly_faster(slowdown: &Estimate) -> bool {
    slowdown.is_ok_and(|known| known.high < 1.0 - CLEARLY_FASTER)
}

/// A lever measured again.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Whether the victim is better off with the lever than without it, on the same trials; `None`
    /// where that is not known.
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
            _ => against_beside
                .ok()
                .filter(|ratio| !ratio.contains(1.0))
                .map(|ratio| ratio.high < 1.0),
        };
        Self { tried, beside, reached, met, against_beside, helps }
    }

    /// Whether the lever is recommended: it meets the budget, and the victim is better off with it
    /// than without it.
    pub fn is_recommended(&self) -> bool {
        self.met == Some(true) && self.helps == Some(true)
    }

    /// Whether the victim is clearly faster with the aggressor and the lever than alone.
    pub fn is_faster_than_alone(&self) -> bool {
        clearly_faster(&self.tried.victim)
    }

    /// Of the aggressor as it is, what is compared with the budget.
    pub fn judged_beside(&self) -> &Estimate {
        self.reached.as_ref().map_or(&self.beside, |reached| &reached.beside)
    }
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ProofVerdict"))]
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
    /// The victim is within the budget, as it is or with the lever that was confirmed, but on a
    /// described machine: nothing was measured.
    SimulatedOnly,
}

/// The answer with everything that it rests on.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// What the victim's quantity is in the baseline, ns, whatever the budget is.
    #[serde(skip)]
    pub times: Option<Reached>,
    /// What would settle the figure that is open, where one is.
    #[serde(skip)]
    pub settles: Option<Settles>,
    /// Whether the victim is clearly faster next to the aggressor than alone (by more than 5 %, the
    /// whole interval), so that something else changed.
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
    /// Of all stages, the pairs of windows that are in no figure, since one of them lasted too
    /// long.
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
            let candidate = candidates
                .iter()
                .find(|candidate| case(stage.plan, &candidate.arm.name).is_some())?;
            Some(Confirmation::of(stage, tried_in(stage, candidate, budget)?, budget))
        };
        let attempt =
            |number| Stage::find(stages, |kind| *kind == Kind::ProveConfirmation { number });
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
        let placed = |role: usize| placed(baseline.plan, role);
        let metric = baseline.plan.metric;
        let proof = Self {
            record: record.clone(),
            unit: case(baseline.plan, BESIDE)
                .map_or("units", |case| baseline.plan.metric_task(case).unit())
                .into(),
            cpus: [placed(metric), placed(1 - metric)],
            beside,
            reached,
            times: Some(Reached::of(baseline)),
            settles: None,
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
        };
        Self { settles: proof.settles(stages), ..proof }.with_advice()
    }

    // The same advice in every sentence: the longest of the times that were found to be enough.
    fn with_advice(mut self) -> Self {
        let Some(enough) = self.record.enough_time else { return self };
        let settled = self.settles.and_then(|settles| settles.time);
        let settled = settled.filter(|time| *time <= time::LONGEST).map(time::as_typed);
        let advised = settled.map_or(enough.0, |time| time.max(enough.0));
        if let (Some(settles), Some(_)) = (&mut self.settles, settled) {
            settles.time = Some(advised);
        }
        let seconds = advised.as_secs();
        for (_, why) in self.record.refused.iter_mut().filter(|(name, _)| is_of_time(name)) {
            let (reason, names) = why.split_once(LEFT_OUT).unwrap_or((why.as_str(), ""));
            let fewer = if names.contains(", ") { ", or fewer --levers," } else { "" };
            let advice = format!("; --time {seconds}s{fewer} would be enough");
            let out = if names.is_empty() { "" } else { LEFT_OUT };
            *why = format!("{reason}{advice}{out}{names}").into();
        }
        if let Some((_, why)) = &mut self.record.unconfirmed {
            *why = format!("{why}; --time {seconds}s would be enough").into();
        }
        self
    }

    // Of what is open.
    fn settles(&self, stages: &[Stage]) -> Option<Settles> {
        let budget = self.record.question.budget;
        if self.verdict != Verdict::Undecided || self.faster && !budget.is_absolute() {
            return None;
        }
        let (lever, figure) = self.open()?;
        Some(match lever {
            Some(lever) => Settles::of_lever(figure, budget, stages, &lever.arm.name),
            None => Settles::of_baseline(figure, budget, stages),
        })
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
            times: None,
            settles: None,
            faster: false,
            latencies: Vec::new(),
            tried: Vec::new(),
            confirmations: Vec::new(),
            verdict: Verdict::NothingHappened,
            simulated: false,
            too_long: TooLong::default(),
        }
    }

    /// Whether it is known, from the baseline, that the aggressor as it is keeps to the budget or
    /// exceeds it.
    pub fn baseline_is_decided(&self) -> bool {
        side(self.judged_beside(), self.record.question.budget).is_some()
    }

    /// Of the aggressor as it is, what is compared with the budget: the victim's slowdown, or its
    /// quantity in ns.
    pub fn judged_beside(&self) -> &Estimate {
        self.reached.as_ref().map_or(&self.beside, |reached| &reached.beside)
    }

    /// Whether the victim is known to be beyond the budget by itself, which is a time.
    pub fn misses_alone(&self) -> bool {
        let alone =
            self.reached.as_ref().map(|reached| side(&reached.alone, self.record.question.budget));
        alone == Some(Some(false))
    }

    /// The candidate that is to be confirmed next, as an index into the record's candidates; `None`
    /// where the matter is settled or attempts are spent.
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
        self.record
            .candidates
            .as_deref()?
            .iter()
            .position(|candidate| candidate.arm.name == next.arm.name)
    }

    /// Whether the victim is clearly faster than alone in what the answer is about: with the lever
    /// that was confirmed last, or beside the unchanged aggressor.
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

    /// What keeps the matter open, where it is: the lever by its name, or none for the aggressor as
    /// it is, and what of the victim beside it is compared with the budget. `None` where nothing
    /// that was measured may be on either side of the budget.
    pub fn open(&self) -> Option<(Option<&Candidate>, &Estimate)> {
        let budget = self.record.question.budget;
        // Whether any lever is needed comes before which.
        if self.confirmations.is_empty() && !self.baseline_is_decided() {
            return Some((None, self.judged_beside()));
        }
        let again = self.confirmations.iter().find(|one| one.met != Some(false));
        let confirmed = |tried: &Tried| {
            self.confirmations
                .iter()
                .any(|one| one.tried.candidate.arm.name == tried.candidate.arm.name)
        };
        let open =
            |tried: &&Tried| !confirmed(tried) && side(tried.judged(), budget) != Some(false);
        let lever = again.map(|one| &one.tried).or_else(|| {
            // The nearest to the budget of those that were measured, or else any.
            let figure = |tried: &&Tried| {
                tried.judged().as_ref().map_or(f64::INFINITY, |figure| figure.value)
            };
            self.tried.iter().filter(open).min_by(|a, b| figure(a).total_cmp(&figure(b)))
        });
        let lever = lever.map(|tried| (Some(&tried.candidate), tried.judged()));
        lever.or_else(|| (!self.baseline_is_decided()).then_some((None, self.judged_beside())))
    }

    /// Whether a lever must be sought: the baseline has not shown that the budget is met, nor that
    /// it is missed without the aggressor.
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
    // Missed is said where each is known to miss it: when it was measured again, or else when it
    // was tried.
    let misses = |tried: &Tried| {
        let again = confirmations
            .iter()
            .find(|one| one.tried.candidate.arm.name == tried.candidate.arm.name);
        again.map_or_else(|| side(tried.judged(), budget), |again| again.met) == Some(false)
    };
    // Where none was tried, one may still help.
    if beside == Some(false) && levers && !tried.is_empty() && tried.iter().all(misses) {
        Verdict::Missed
    } else {
        Verdict::Undecided
    }
}

// The CPUs of all instances of a role.
fn placed(plan: &Plan, role: usize) -> Vec<u32> {
    let instances = 0..plan.placed.cpus[role].len() as u32;
    instances.flat_map(|instance| plan.home(role, instance).iter().collect::<Vec<_>>()).collect()
}

fn latencies(baseline: Stage) -> Vec<CaseLatencies> {
    let level = results::level(baseline.plan, baseline.samples);
    let all = latency::cases(baseline.plan, baseline.samples, None, level);
    all.into_iter()
        .filter(|one| one.role == VICTIM && [ALONE, BESIDE].contains(&one.arm.as_str()))
        .collect()
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
fn unseen(plan: &Plan, case: usize, candidate: &Candidate) -> Option<Reason> {
    let mut others = plan.cases[case].active.iter().filter(|active| active.role != plan.metric);
    let blind = others.any(|active| match &plan.variants[active.role][active.variant].task {
        Task::Command(command) => {
            let in_cpu_time = candidate.price_in_cpu_time && command.unit == ProgramUnit::CpuTime;
            !(command.unit.tells_speed() || in_cpu_time)
        }
        _ => false,
    });
    blind.then(|| "it only reports its CPU time".into())
}

#[cfg(test)]
mod tests {
    use ringfence_experiment::histogram::{self, Histogram};
    use ringfence_experiment::plan;
    use ringfence_experiment::quantity::Quantity;
    use ringfence_experiment::sample::Sample;
    use ringfence_experiment::task::{Commands, ProgramUnit, Settings};
    use ringfence_experiment::units::{Share, Span};
    use ringfence_experiment::{Measure, PlacementKind};
    use ringfence_machine::fixtures;
    use ringfence_machine::topology::Topology;

    use super::*;
    use crate::prove::time::Given;
    use crate::prove::{Control, Files, Question, experiments};

    fn question(aggressor: &str) -> Question {
        Question {
            victim: "chase footprint=4MiB".parse().unwrap(),
            aggressor: aggressor.parse().unwrap(),
            aggressors: 1,
            victim_cpus: None,
            aggressor_cpus: None,
            placement: PlacementKind::Auto,
            budget: Budget::Slowdown(Share(0.05)),
            measure: Measure { rounds: 1, ..Measure::default() },
            trials: Some(8),
            seed: 1,
            levers: Vec::new(),
            try_env: Vec::new(),
            other_dir: None,
            system: false,
            time: None,
        }
    }

    fn topology() -> Topology {
        let fixture = fixtures::vm_2cpu();
        Topology::read(&fixture.root()).unwrap()
    }

    fn candidate(name: &str, set: &str) -> Candidate {
        struct Any;
        impl ringfence_limits::lever::Lever for Any {
            fn name(&self) -> &'static str {
                "any"
            }
            fn about(&self) -> &'static str {
                "a test"
            }
            fn candidates(
                &self,
                _: &ringfence_limits::lever::LeverContext,
            ) -> Result<Vec<Candidate>, Reason> {
                Err("it is a test".into())
            }
        }
        let set: Settings = toml::from_str(set).unwrap();
        Candidate::set(&Any, name.into(), set, String::new())
    }

    // Samples of a whole experiment, the victim's and the aggressor's units per window by arm;
    // trials differ by a hundredth.
    fn measured(plan: &Plan, units: impl Fn(&str) -> (f64, f64)) -> Vec<Sample> {
        let mut samples = Vec::new();
        for trial in 0..*plan.experiment.measure.looks.last().unwrap() {
            for (round, steps) in plan::trial(plan, trial).rounds.into_iter().enumerate() {
                for (step, what) in steps.into_iter().enumerate() {
                    for (position, &case) in what.windows.iter().enumerate() {
                        let (victim, aggressor) = units(&plan.cases[case].arm);
                        for active in &plan.cases[case].active {
                            let own = if active.role == plan.metric { victim } else { aggressor };
                            let jitter = 1.0 + 0.001 * f64::from((trial * 7 + case as u32 * 3) % 5);
                            samples.push(Sample {
                                trial,
                                round: round as u32,
                                step: step as u32,
                                position: position as u32,
                                step_case: what.case as u32,
                                case: case as u32,
                                role: plan.experiment.roles[active.role].name.as_str().into(),
                                length_ns: 1_000_000,
                                busy_ns: 1_000_000,
                                units: (own * 1e6 * jitter) as u64,
                                latencies: (active.role == plan.metric)
                                    .then(|| latencies(own, jitter)),
                                ..Sample::default()
                            });
                        }
                    }
                }
            }
        }
        samples
    }

    // One in a hundred takes twice as long as the others.
    fn latencies(units_per_ns: f64, jitter: f64) -> Histogram {
        let ns = 1.0 / units_per_ns;
        let count = (units_per_ns * 1e6 * jitter) as u64;
        let bucket = |ns: f64| histogram::bucket_floor(histogram::bucket_of(ns as u64));
        vec![(bucket(ns), count - count / 50), (bucket(2.0 * ns), count / 50)].into()
    }

    struct Measured {
        plan: Plan,
        samples: Vec<Sample>,
    }

    impl Measured {
        fn of(
            experiment: ringfence_experiment::Experiment,
            units: impl Fn(&str) -> (f64, f64),
        ) -> Self {
            let plan = Plan::new(&experiment, &topology(), None).unwrap();
            let samples = measured(&plan, units);
            Self { plan, samples }
        }

        fn stage(&self) -> Stage<'_> {
            Stage::of(&self.plan, &self.samples)
        }
    }

    fn harm(arm: &str) -> (f64, f64) {
        match arm {
            "alone" => (1.0, 0.0),
            "beside" => (0.5, 1.0),
            "free" => (0.98, 1.0),
            "dear" => (1.0, 0.1),
            "useless" => (0.6, 1.0),
            other => panic!("{other}"),
        }
    }

    fn candidates() -> Vec<Candidate> {
        vec![
            candidate("dear", "pace = '10MiB/s'"),
            candidate("useless", "instruction = 'clflush'"),
            candidate("free", "instruction = 'nt'"),
        ]
    }

    #[test]
    fn within_the_budget_nothing_is_needed() {
        let question = question("write");
        let baseline = Measured::of(
            experiments::baseline(&question, false, Given::default()),
            |arm| match arm {
                "alone" => (1.0, 0.0),
                _ => (0.99, 1.0),
            },
        );
        let proof = Proof::new(&Record::new(&question), &[baseline.stage()]);
        assert_eq!(proof.verdict, Verdict::NothingNeeded);
        assert!(!proof.needs_levers());
        assert_eq!(proof.next(), None);
    }

    #[test]
    fn where_nothing_happened_there_is_no_verdict_and_no_lever() {
        let question = question("write");
        let baseline =
            Measured::of(experiments::baseline(&question, false, Given::default()), harm);
        let mut record = Record::new(&question);
        let used = ringfence_engine::Used { windows_ns: 1_000_000_000, ..Default::default() };
        record.worked = Some(crate::prove::Worked { used, units: None });
        let proof = Proof::new(&record, &[baseline.stage()]);
        assert_eq!(
            (proof.verdict, proof.needs_levers(), proof.next()),
            (Verdict::NothingHappened, false, None)
        );

        let control = Control {
            unit: "runs".into(),
            whole_runs: true,
            cpus: vec![1],
            running: (1.0, 1e9),
            stopped: (1.0, 1.05e9),
            runs: None,
            median: None,
        };
        let record = Record { control: Some(control.clone()), worked: None, ..record };
        assert_eq!(Proof::new(&record, &[baseline.stage()]).verdict, Verdict::NothingHappened);
        assert_eq!(Proof::new(&record, &[]).verdict, Verdict::NothingHappened);
    }

    // Records of earlier versions know of no control and of no work.
    #[test]
    fn an_older_record_is_read() {
        let record = Record::new(&question("write"));
        let text = serde_json::to_string(&record).unwrap();
        assert!(!text.contains("control") && !text.contains("worked"), "{text}");
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
    }

    // As version 1 wrote it: other names in the record and in the stages' kinds, and another
    // folder.
    #[test]
    fn a_record_of_version_1_is_read() {
        let mut record = Record::new(&Question { trials: Some(12), ..question("write") });
        record.candidates = Some(candidates());
        let mut text = serde_json::to_string(&record).unwrap();
        for (now, before) in [
            ("\"schema\":2,\"kind\"", "\"schema\":1,\"kind\""),
            ("\"trials\":", "\"lives\":"),
            ("\"candidates\":", "\"offers\":"),
            ("\"rounds\":", "\"blocks\":"),
            ("\"isolation_settle\":", "\"fence_settle\":"),
        ] {
            assert!(text.contains(now), "{now}: {text}");
            text = text.replace(now, before);
        }
        let dir = tempfile::tempdir().unwrap();
        let files = Files::of(dir.path());
        std::fs::write(files.record(), &text).unwrap();
        assert_eq!(files.read().unwrap(), record);

        assert_eq!(files.baseline(), dir.path().join("baseline"));
        std::fs::create_dir(dir.path().join("look")).unwrap();
        assert_eq!(files.baseline(), dir.path().join("look"));

        std::fs::write(
            files.record(),
            text.replace("\"schema\":1,\"kind\"", "\"schema\":3,\"kind\""),
        )
        .unwrap();
        assert!(files.read().unwrap_err().text().contains("schema 3 is newer than this program"));
    }

    #[test]
    fn the_cheapest_lever_is_confirmed_and_then_told() {
        let question = question("write");
        let baseline =
            Measured::of(experiments::baseline(&question, false, Given::default()), harm);
        let mut record = Record::new(&question);
        let proof = Proof::new(&record, &[baseline.stage()]);
        assert_eq!(proof.verdict, Verdict::Undecided);
        assert!((proof.beside.unwrap().value - 2.0).abs() < 0.02);

        record.candidates = Some(candidates());
        let levers = Measured::of(
            experiments::levers(&question, false, &candidates(), 4, Given::default()),
            harm,
        );
        let proof = Proof::new(&record, &[baseline.stage(), levers.stage()]);
        let Price::Slowdown(Ok(dear)) = &proof.tried[0].price else {
            panic!("{:?}", proof.tried[0])
        };
        assert!((dear.value - 10.0).abs() < 0.1, "{dear:?}");
        assert_eq!(proof.next(), Some(2));

        let confirmed = Measured::of(
            experiments::confirmation(&question, false, &candidates()[2], 0, Given::default()),
            harm,
        );
        let proof = Proof::new(&record, &[baseline.stage(), levers.stage(), confirmed.stage()]);
        assert_eq!(proof.verdict, Verdict::Met);
        assert_eq!(proof.next(), None);
        let level = proof.confirmations[0].tried.victim.unwrap().level;
        assert!(
            (level - (1.0 - 0.05 / 2.0 / 2.0)).abs() < 1e-9,
            "two attempts, half for the last look: {level}"
        );
    }

    // A budget that is missed, and candidates that were tried.
    fn levers_were_tried() -> (Question, Record, Measured, Measured) {
        let question = question("write");
        let baseline =
            Measured::of(experiments::baseline(&question, false, Given::default()), harm);
        let mut record = Record::new(&question);
        record.candidates = Some(candidates());
        let levers = Measured::of(
            experiments::levers(&question, false, &candidates(), 4, Given::default()),
            harm,
        );
        (question, record, baseline, levers)
    }

    // What the baseline showed did not happen again: the lever does nothing, whatever it costs.
    #[test]
    fn a_lever_that_does_not_beat_the_same_trials_without_it_is_not_recommended() {
        let (question, record, baseline, levers) = levers_were_tried();
        let confirmed = |beside: f64| {
            let again =
                experiments::confirmation(&question, false, &candidates()[2], 0, Given::default());
            let units = move |arm: &str| if arm == "beside" { (beside, 1.0) } else { harm(arm) };
            let first = Measured::of(again, units);
            Proof::new(&record, &[baseline.stage(), levers.stage(), first.stage()])
        };
        let proof = confirmed(0.98);
        let last = &proof.confirmations[0];
        assert_eq!(
            (last.met, last.helps == Some(true), last.is_recommended()),
            (Some(true), false, false),
            "{last:?}"
        );
        // The next one is measured again.
        assert_eq!((proof.verdict, proof.next()), (Verdict::Undecided, Some(0)));
        assert!(crate::prove::keep(&proof).unwrap().is_none());
        // One that is better than what is within the budget already is recommended.
        let proof = confirmed(0.96);
        assert_eq!((proof.verdict, proof.confirmations[0].helps), (Verdict::Met, Some(true)));
    }

    #[test]
    fn a_victim_that_is_clearly_faster_with_its_aggressor_is_not_plainly_within_the_budget() {
        let question = question("write");
        let beside = |speed: f64| {
            let units = move |arm: &str| if arm == "alone" { (1.0, 0.0) } else { (speed, 1.0) };
            let baseline =
                Measured::of(experiments::baseline(&question, false, Given::default()), units);
            Proof::new(&Record::new(&question), &[baseline.stage()])
        };
        let proof = beside(3.0);
        assert_eq!(
            (proof.verdict, proof.faster, proof.needs_levers()),
            (Verdict::Undecided, true, false)
        );
        let proof = beside(1.02);
        assert_eq!((proof.verdict, proof.faster), (Verdict::NothingNeeded, false));
    }

    #[test]
    fn a_lever_that_fails_on_fresh_trials_is_followed_by_the_next_and_then_no_other() {
        let (question, record, baseline, levers) = levers_were_tried();
        let luck = |arm: &str| if arm == "free" { (0.8, 1.0) } else { harm(arm) };
        let first = Measured::of(
            experiments::confirmation(&question, false, &candidates()[2], 0, Given::default()),
            luck,
        );
        let proof = Proof::new(&record, &[baseline.stage(), levers.stage(), first.stage()]);
        // The other lever may still meet it.
        assert_eq!((proof.verdict, proof.next()), (Verdict::Undecided, Some(0)));

        let bad = |arm: &str| if arm == "dear" { (0.8, 0.1) } else { harm(arm) };
        let second = Measured::of(
            experiments::confirmation(&question, false, &candidates()[0], 1, Given::default()),
            bad,
        );
        let all = [&baseline, &levers, &first, &second].map(Measured::stage);
        let proof = Proof::new(&record, &all);
        assert_eq!((proof.verdict, proof.next()), (Verdict::Missed, None));
    }

    #[test]
    fn harm_without_a_lever_that_was_tried_is_undecided() {
        let question = question("write");
        let baseline =
            Measured::of(experiments::baseline(&question, false, Given::default()), harm);
        let mut record = Record::new(&question);
        for refused in [Vec::new(), vec![("any lever".into(), "there is no time".into())]] {
            (record.candidates, record.refused) = (Some(Vec::new()), refused);
            let proof = Proof::new(&record, &[baseline.stage()]);
            assert_eq!((proof.verdict, proof.next()), (Verdict::Undecided, None));
        }
    }

    #[test]
    fn every_sentence_advises_the_same_time() {
        let baseline =
            Measured::of(experiments::baseline(&question("write"), false, Given::default()), harm);
        let with = |enough_time, why: &str| {
            let mut record = Record::new(&question("write"));
            record.candidates = Some(Vec::new());
            record.refused = vec![("any lever".into(), why.into()), ("cat".into(), "no".into())];
            record.unconfirmed = Some(("free".into(), "it takes 3 s".into()));
            record.enough_time = enough_time;
            Proof::new(&record, &[baseline.stage()]).record
        };
        let told = with(Some(Span::ms(70_000)), "they take 9 s; left out: 'a', 'b'");
        let why = "they take 9 s; --time 70s, or fewer --levers, would be enough; left out: 'a', \
                   'b'";
        assert_eq!(told.refused[0].1, why);
        assert_eq!(told.refused[1].1, "no");
        let unconfirmed = told.unconfirmed.map(|(_, why)| why);
        assert_eq!(unconfirmed.as_deref(), Some("it takes 3 s; --time 70s would be enough"));
        // The reasons of older records name a time themselves.
        let older = "they take 9 s; --time 62s would be enough";
        assert_eq!(with(None, older).refused[0].1, older);
    }

    #[test]
    fn where_nothing_helps_it_is_missed_without_a_confirmation() {
        let question = question("write");
        let baseline =
            Measured::of(experiments::baseline(&question, false, Given::default()), harm);
        let mut record = Record::new(&question);
        record.candidates = Some(vec![candidates()[1].clone()]);
        let levers = Measured::of(
            experiments::levers(&question, false, &candidates()[1..2], 4, Given::default()),
            harm,
        );
        let proof = Proof::new(&record, &[baseline.stage(), levers.stage()]);
        assert_eq!((proof.verdict, proof.next()), (Verdict::Missed, None));
    }

    #[test]
    fn a_lever_that_may_meet_the_budget_is_measured_again_and_leaves_it_open() {
        let question = question("write");
        let baseline =
            Measured::of(experiments::baseline(&question, false, Given::default()), harm);
        let mut record = Record::new(&question);
        let only = vec![candidates()[2].clone()];
        record.candidates = Some(only.clone());
        // Near the budget on the far side, and noisy from trial to trial.
        let near = 1.075;
        let noise = std::cell::Cell::new(0_u32);
        let unsure = |arm: &str| {
            noise.set(noise.get() + 1);
            let factor = if noise.get().is_multiple_of(2) { 0.8 } else { 1.25 };
            if arm == "free" { (factor / near, 1.0) } else { harm(arm) }
        };
        let levers =
            Measured::of(experiments::levers(&question, false, &only, 4, Given::default()), unsure);
        let proof = Proof::new(&record, &[baseline.stage(), levers.stage()]);
        assert_eq!(
            (proof.verdict, proof.next()),
            (Verdict::Undecided, Some(0)),
            "{:?}",
            proof.tried[0].victim
        );
        let confirmation =
            experiments::confirmation(&question, false, &only[0], 0, Given::default());
        let confirmed = Measured::of(confirmation, unsure);
        let proof = Proof::new(&record, &[baseline.stage(), levers.stage(), confirmed.stage()]);
        assert_eq!(
            (proof.verdict, proof.next()),
            (Verdict::Undecided, None),
            "{:?}",
            proof.confirmations[0].tried.victim
        );
        let (lever, slowdown) = proof.open().unwrap();
        assert_eq!(lever.unwrap().arm.name, "free");
        assert!(slowdown.unwrap().low < question.budget.limit());
    }

    #[test]
    fn a_program_that_only_shows_cpu_time_shows_its_price_in_quotas_alone() {
        let mut question = question("sleep 9");
        let unit = Commands::default().unit(ProgramUnit::CpuTime).into();
        question.aggressor = question.aggressor.tasks().with(&unit).unwrap().try_into().unwrap();
        let (environment, mut quota) =
            (candidate("free", "env = { A = '1' }"), candidate("dear", "quota = '10%'"));
        quota.price_in_cpu_time = true;
        let candidates = [environment, quota];
        let mut record = Record::new(&question);
        record.candidates = Some(candidates.to_vec());
        let baseline =
            Measured::of(experiments::baseline(&question, false, Given::default()), harm);
        let levers = Measured::of(
            experiments::levers(&question, false, &candidates, 4, Given::default()),
            harm,
        );
        let proof = Proof::new(&record, &[baseline.stage(), levers.stage()]);
        assert!(matches!(proof.tried[0].price, Price::Unseen(_)));
        assert!(matches!(proof.tried[1].price, Price::Slowdown(Ok(_))));
        assert_eq!(proof.next(), Some(0));
    }

    // Beside the aggressor the measuring program was starved: what is left of the windows says that
    // the budget is met.
    #[test]
    fn with_too_many_windows_left_out_there_is_no_verdict() {
        let question = question("write");
        let mut baseline =
            Measured::of(experiments::baseline(&question, false, Given::default()), |_| (1.0, 1.0));
        let proof = Proof::new(&Record::new(&question), &[baseline.stage()]);
        assert_eq!((proof.verdict, proof.too_long.steps), (Verdict::NothingNeeded, 0));
        let starved = |sample: &&mut Sample| sample.position == 1 && sample.trial.is_multiple_of(4);
        for sample in baseline.samples.iter_mut().filter(starved) {
            sample.late_ns = Some(60_000_000_000);
        }
        let proof = Proof::new(&Record::new(&question), &[baseline.stage()]);
        assert_eq!(proof.verdict, Verdict::Undecided);
        assert!(
            matches!(proof.beside, Err(ringfence_analysis::estimate::NotEstimable::TooLong { .. })),
            "{:?}",
            proof.beside
        );
        assert_eq!(proof.too_long.steps * 4, proof.too_long.of);
    }

    // Alone a unit takes 1 us, and its p99 2 us; beside the aggressor both take twice as long.
    fn bounded(quantity: &str, bound_ns: u64) -> Question {
        let quantity: Quantity = quantity.parse().unwrap();
        Question {
            victim: "chase footprint=4MiB histogram=true".parse().unwrap(),
            budget: Budget::AtMost(quantity, Span(std::time::Duration::from_nanos(bound_ns))),
            measure: Measure { rounds: 1, quantity, ..Measure::default() },
            ..question("write")
        }
    }

    fn thousand_times_longer(arm: &str) -> (f64, f64) {
        let (victim, aggressor) = harm(arm);
        (victim / 1000.0, aggressor)
    }

    fn looked_at(question: &Question) -> Proof {
        let experiment = experiments::baseline(question, false, Given::default());
        let baseline = Measured::of(experiment, thousand_times_longer);
        Proof::new(&Record::new(question), &[baseline.stage()])
    }

    #[test]
    fn a_time_is_judged_by_what_the_quantity_is_beside_and_alone() {
        for (quantity, bound_ns, verdict, alone, levers) in [
            ("mean", 2100, Verdict::NothingNeeded, false, false),
            ("mean", 1500, Verdict::Undecided, false, true),
            // By itself it is beyond the bound.
            ("mean", 900, Verdict::Missed, true, false),
            ("p50", 2300, Verdict::NothingNeeded, false, false),
            ("p50", 1500, Verdict::Undecided, false, true),
            ("p50", 800, Verdict::Missed, true, false),
            ("p99", 4700, Verdict::NothingNeeded, false, false),
            ("p99", 3000, Verdict::Undecided, false, true),
            ("p99", 1500, Verdict::Missed, true, false),
        ] {
            let proof = looked_at(&bounded(quantity, bound_ns));
            let told = (proof.verdict, proof.misses_alone(), proof.needs_levers());
            assert_eq!(
                told,
                (verdict, alone, levers),
                "{quantity}<{bound_ns}ns: {:?}",
                proof.reached
            );
            // What the slowdown is stays known.
            assert!((1.7..2.3).contains(&proof.beside.unwrap().value), "{:?}", proof.beside);
        }
        let proof = looked_at(&bounded("mean", 1500));
        assert!(proof.baseline_is_decided(), "{:?}", proof.reached);
        let [alone, beside] = proof.reached.map(|reached| [reached.alone, reached.beside]).unwrap();
        assert!(
            (alone.unwrap().value - 1000.0).abs() < 5.0
                && (beside.unwrap().value - 2000.0).abs() < 10.0
        );
    }

    #[test]
    fn a_quantile_with_too_few_latencies_leaves_a_time_undecided() {
        let question = Question { trials: Some(4), ..bounded("p99.9", 1_000_000) };
        let proof = looked_at(&question);
        assert_eq!(proof.verdict, Verdict::Undecided);
        assert!(
            matches!(proof.judged_beside(), Err(NotEstimable::TooFewLatencies { .. })),
            "{:?}",
            proof.reached
        );
    }

    #[test]
    fn levers_are_held_against_the_same_time() {
        let question = bounded("mean", 1500);
        let (mut record, stages) = (Record::new(&question), &mut Vec::new());
        stages.push(Measured::of(
            experiments::baseline(&question, false, Given::default()),
            thousand_times_longer,
        ));
        record.candidates = Some(candidates());
        let levers = experiments::levers(&question, false, &candidates(), 4, Given::default());
        stages.push(Measured::of(levers, thousand_times_longer));
        let proof = |stages: &[Measured]| {
            Proof::new(&record, &stages.iter().map(Measured::stage).collect::<Vec<_>>())
        };
        let tried = proof(stages);
        let next = tried.next().unwrap();
        assert_eq!(candidates()[next].arm.name, "free");
        let reached: Vec<f64> =
            tried.tried.iter().map(|tried| tried.judged().unwrap().value.round()).collect();
        assert!(
            (reached[1] - 1667.0).abs() < 10.0 && (reached[2] - 1020.0).abs() < 10.0,
            "{reached:?}"
        );
        let again =
            experiments::confirmation(&question, false, &candidates()[next], 0, Given::default());
        assert!(again.check().is_ok());
        stages.push(Measured::of(again, thousand_times_longer));
        let confirmed = proof(stages);
        assert_eq!(confirmed.verdict, Verdict::Met);
        assert!((confirmed.confirmations[0].judged_beside().unwrap().value - 2000.0).abs() < 10.0);
        // What is said of it names the bound and both figures.
        let json = serde_json::to_value(&confirmed).unwrap();
        assert_eq!(json["record"]["question"]["budget"], "mean<1.5us");
        assert!(json["confirmations"][0]["tried"]["reached"]["value"].is_number(), "{json}");
        assert!(json["reached"]["alone"]["value"].is_number(), "{json}");
    }
}
