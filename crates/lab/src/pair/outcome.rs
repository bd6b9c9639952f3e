//! What the samples say: how the tasks bear each other, what is advised, and what that gains.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::assignment::Assignment;
use super::progress::{Progress, mean};
use super::question::{Kind, Question, letter};
use crate::estimate::{Class, Estimate, Finding, NotEstimable, lives_needed, serialize_estimate};
use crate::experiment::PlacementKind;
use crate::plan::Plan;
use crate::results::{self, CaseResult};
use crate::sample::Sample;

/// Everything that is said of a question; a pure function of its datasets.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// The different tasks, called A, B, C.
    pub kinds: Vec<KindEntry>,
    /// How the two CPUs were chosen, in sentences.
    pub placement: Vec<String>,
    /// The margin: a change smaller than it does not matter. 0.01 is 1 %.
    pub margin: f64,
    /// Every pair of kinds, in order.
    pub pairs: Vec<PairEntry>,
    /// Pairs of windows of the screening, by how the CPUs lay to each other.
    pub classes: BTreeMap<Class, usize>,
    /// How the tasks are paired now.
    pub present: Assignment,
    /// Assignments that differ in more than which of several equal tasks is where.
    pub assignments: usize,
    /// What the screening advises; none where there is nothing to choose from.
    pub advice: Option<Advice>,
    /// What it gained on fresh lives.
    pub confirmed: Option<Confirmed>,
    /// The answer.
    pub verdict: Verdict,
    /// Why it was cut short, if it was.
    pub ended_early: Option<String>,
}

/// A kind of task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KindEntry {
    /// A, B, C...
    pub letter: char,
    /// The task as it was given.
    pub text: String,
    /// Which of the tasks it is, counted from 1.
    pub tasks: Vec<usize>,
}

/// Two kinds beside each other.
#[derive(Debug, Clone, Serialize)]
pub struct PairEntry {
    /// The kinds' numbers, from 0.
    pub kinds: (usize, usize),
    /// How much longer the first takes per unit of work beside the second.
    pub first: Finding,
    /// The same of the second; of two tasks of one kind it is the same figure.
    pub second: Finding,
    /// Rates beside over rates alone, of both together: 2 where neither disturbs the other.
    pub progress: f64,
}

/// The best assignment by the screening.
#[derive(Debug, Clone, Serialize)]
pub struct Advice {
    /// It.
    pub assignment: Assignment,
    /// Its total progress; the number of tasks where nobody disturbs anybody.
    pub total: f64,
    /// That of the present one.
    pub present_total: f64,
    /// The one over the other. Flattering, since the best of many was picked by the same lives.
    #[serde(serialize_with = "serialize_estimate")]
    pub gain: Estimate,
    /// The probability that it beats the present one, given the screening's lives alone.
    pub probability: Option<f64>,
    /// Where the present one is the best: the best of the others.
    pub next: Option<Next>,
}

/// The best assignment that is not the present one.
#[derive(Debug, Clone, Serialize)]
pub struct Next {
    /// It.
    pub assignment: Assignment,
    /// Its total progress over that of the present one, by the screening.
    #[serde(serialize_with = "serialize_estimate")]
    pub gain: Estimate,
}

/// What the advice gained on fresh lives.
#[derive(Debug, Clone, Serialize)]
pub struct Confirmed {
    /// Total progress as advised over that at present.
    #[serde(serialize_with = "serialize_estimate")]
    pub gain: Estimate,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    /// Every assignment is the same, since the tasks are.
    AllAlike,
    /// There is only one assignment.
    OnlyOne,
    /// The present assignment is the best.
    PresentIsBest,
    /// The screening, which flatters, leaves room for no gain larger than the margin.
    NoRoom,
    /// The gain was confirmed to lie above the margin.
    Change,
    /// No gain larger than the margin, by the fresh lives.
    NoGain,
    /// The fresh lives show no gain above the margin, and do not exclude one.
    NotShown {
        /// Lives that would settle it; none when absurdly many.
        lives_needed: Option<u32>,
    },
    /// There is no figure.
    NotEstimable {
        /// Why.
        reason: NotEstimable,
    },
    /// It was cut short before it could be told.
    CutShort,
}

impl Outcome {
    /// From the screening's samples, and from the confirmation's where there is one.
    pub fn new(
        question: &Question,
        kinds: &[Kind],
        screen: (&Plan, &[Sample]),
        confirm: Option<(&Plan, &[Sample])>,
    ) -> Self {
        let of_each = question.kind_of_each(kinds);
        let measure = &screen.0.experiment.measure;
        let (margin, level) = (measure.margin.0, level(screen.0));
        let results = results::results(screen.0, screen.1, level);
        let progress = Progress::new(screen.0, screen.1);
        let mut outcome = Self {
            kinds: kinds.iter().enumerate().map(|(number, kind)| KindEntry::new(number, kind)).collect(),
            placement: placement(screen.0),
            margin,
            pairs: pairs(kinds.len(), &results, margin, progress.as_ref().ok()),
            classes: BTreeMap::new(),
            present: question.present.clone(),
            assignments: 0,
            advice: None,
            confirmed: None,
            verdict: Verdict::CutShort,
            ended_early: None,
        };
        for (class, count) in results.iter().flat_map(|result| &result.classes) {
            *outcome.classes.entry(*class).or_default() += count;
        }
        let candidates = Assignment::all(of_each.len());
        let distinct: BTreeSet<_> = candidates.iter().map(|one| one.by_kind(&of_each)).collect();
        outcome.assignments = distinct.len();
        if distinct.len() == 1 {
            outcome.verdict = if kinds.len() == 1 { Verdict::AllAlike } else { Verdict::OnlyOne };
            return outcome;
        }
        let advised = progress.map_err(Some).and_then(|progress| {
            advise(&progress, &question.present, candidates, &of_each, level).ok_or(None)
        });
        let advice = match advised {
            Ok(advice) => advice,
            Err(reason) => {
                let reason = reason.unwrap_or(NotEstimable::TooFewLives { lives: 0 });
                outcome.verdict = Verdict::NotEstimable { reason };
                return outcome;
            }
        };
        outcome.verdict = match &advice.gain {
            _ if advice.assignment.by_kind(&of_each) == question.present.by_kind(&of_each) => {
                Verdict::PresentIsBest
            }
            Err(reason) => Verdict::NotEstimable { reason: *reason },
            Ok(gain) if gain.high <= 1.0 + margin => Verdict::NoRoom,
            Ok(_) => Verdict::CutShort,
        };
        if let (Verdict::CutShort, Some((plan, samples))) = (&outcome.verdict, confirm) {
            let gain = Progress::new(plan, samples).and_then(|progress| {
                let [from, to] = [&question.present, &advice.assignment].map(|one| one.by_kind(&of_each));
                progress.gain(&from, &to, self::level(plan))
            });
            outcome.verdict = judge(&gain, margin);
            outcome.confirmed = Some(Confirmed { gain });
        }
        outcome.advice = Some(advice);
        outcome
    }

    /// Whether the advice has to be measured again before anything is said of it.
    pub fn wants_confirmation(&self) -> bool {
        self.verdict == Verdict::CutShort && self.advice.is_some() && self.confirmed.is_none()
    }
}

impl KindEntry {
    fn new(number: usize, kind: &Kind) -> Self {
        let tasks = kind.tasks.iter().map(|task| task + 1).collect();
        Self { letter: letter(number), text: kind.text.clone(), tasks }
    }
}

fn placement(plan: &Plan) -> Vec<String> {
    let cpu = |role: usize| plan.placed.cpus.get(role)?.first();
    let (Some(task), Some(neighbour)) = (cpu(0), cpu(1)) else { return plan.placed.notes.clone() };
    let lie = match plan.experiment.placement.kind {
        PlacementKind::Smt => ", siblings of one core",
        PlacementKind::Llc => ", two cores under one last-level cache",
        _ => "",
    };
    let cpus = format!("measured on CPUs {task} and {neighbour}{lie}");
    std::iter::once(cpus).chain(plan.placed.notes.iter().cloned()).collect()
}

// All looks of an experiment together have its confidence.
fn level(plan: &Plan) -> f64 {
    let measure = &plan.experiment.measure;
    1.0 - (1.0 - measure.confidence.0) / measure.looks.len().max(1) as f64
}

fn pairs(kinds: usize, results: &[CaseResult], margin: f64, progress: Option<&Progress>) -> Vec<PairEntry> {
    let finding = |task: usize, neighbour: usize| {
        let arm = format!("{} beside {}", letter(task), letter(neighbour));
        let result = results.iter().find(|result| result.arm == arm);
        let effect = result.and_then(|result| result.effect.as_ref());
        effect.map_or_else(
            || Finding::new(&Err(NotEstimable::NothingMeasured), margin),
            |effect| effect.finding,
        )
    };
    let both = (0..kinds).flat_map(|a| (a..kinds).map(move |b| (a, b)));
    both.map(|(a, b)| {
        let pair = Assignment { pairs: vec![(a, b)], alone: None };
        let totals = progress.and_then(|progress| progress.totals(&pair)).unwrap_or_default();
        PairEntry { kinds: (a, b), first: finding(a, b), second: finding(b, a), progress: mean(&totals) }
    })
    .collect()
}

fn advise(
    progress: &Progress,
    present: &Assignment,
    candidates: Vec<Assignment>,
    of_each: &[usize],
    level: f64,
) -> Option<Advice> {
    let total = |assignment: &Assignment| {
        let total = mean(&progress.totals(&assignment.by_kind(of_each))?);
        total.is_finite().then_some(total)
    };
    let present_total = total(present)?;
    let gain = |to: &Assignment| progress.gain(&present.by_kind(of_each), &to.by_kind(of_each), level);
    let mut best: Option<(Assignment, f64)> = None;
    for assignment in candidates {
        if assignment.by_kind(of_each) == present.by_kind(of_each) {
            continue;
        }
        let of_this = total(&assignment)?;
        if best.as_ref().is_none_or(|best| of_this > best.1) {
            best = Some((assignment, of_this));
        }
    }
    let (other, of_other) = best?;
    let gain_of_other = gain(&other);
    // An assignment that is no better than the present one is not advised.
    if of_other <= present_total {
        return Some(Advice {
            assignment: present.clone(),
            total: present_total,
            present_total,
            gain: gain(present),
            probability: None,
            next: Some(Next { assignment: other, gain: gain_of_other }),
        });
    }
    let probability = gain_of_other.as_ref().ok().map(|gain| gain.probability_above_one());
    Some(Advice {
        assignment: other,
        total: of_other,
        present_total,
        gain: gain_of_other,
        probability,
        next: None,
    })
}

fn judge(gain: &Estimate, margin: f64) -> Verdict {
    match gain {
        Err(reason) => Verdict::NotEstimable { reason: *reason },
        Ok(gain) if gain.low > 1.0 + margin => Verdict::Change,
        Ok(gain) if gain.high <= 1.0 + margin => Verdict::NoGain,
        Ok(gain) => {
            // To where the interval leaves the margin on the side that the figure lies.
            let distance = (gain.value.ln() - margin.ln_1p()).abs();
            let needed = lives_needed(gain.spread, gain.level, distance);
            Verdict::NotShown { lives_needed: needed.map(|lives| lives.max(gain.lives + 1)) }
        }
    }
}
