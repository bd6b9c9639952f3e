//! What the samples say: how much the tasks slow each other down, what is advised, and what that
//! gains.

use std::collections::{BTreeMap, BTreeSet};

use ringfence_analysis::estimate::{
    Estimate, Finding, NotEstimable, serialize_estimate, serialize_unknown, trials_needed,
};
use ringfence_analysis::results::{self, CaseResult};
use ringfence_experiment::PlacementKind;
use ringfence_experiment::class::Class;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use serde::Serialize;

use super::assignment::Assignment;
use super::progress::Progress;
use super::question::{Kind, Question, letter};

/// The answer to a question; a pure function of its datasets.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "PairOutcome"))]
pub struct Outcome {
    /// The different tasks, called A, B, C.
    pub kinds: Vec<KindEntry>,
    /// How the two CPUs were chosen, in sentences.
    pub placement: Vec<String>,
    /// The margin: a change smaller than it does not matter. 0.01 is 1 %.
    pub margin: f64,
    /// Whether it was simulated, so that no figure here is a measurement.
    pub simulated: bool,
    /// Every pair of kinds, in order.
    pub pairs: Vec<PairEntry>,
    /// Pairs of windows of the screening, by where the CPUs were relative to each other.
    #[cfg_attr(feature = "schema", schemars(extend("propertyNames" = { "$ref": "#/$defs/Class" })))]
    pub classes: BTreeMap<Class, usize>,
    /// How the tasks are paired now.
    pub present: Assignment,
    /// Assignments that differ in more than which of several equal tasks is where.
    pub assignments: usize,
    /// What the screening advises; none where there is nothing to choose from.
    pub advice: Option<Advice>,
    /// What it gained on fresh trials.
    pub confirmed: Option<Confirmed>,
    /// The answer.
    pub verdict: Verdict,
    /// Why it was cut short, if it was.
    pub ended_early: Option<String>,
}

/// A kind of task.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KindEntry {
    /// A, B, C...
    pub letter: char,
    /// The task as it was given.
    pub text: String,
    /// Which of the tasks it is, counted from 1.
    pub tasks: Vec<usize>,
}

/// Two kinds next to each other.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PairEntry {
    /// The kinds' numbers, from 0.
    pub kinds: (usize, usize),
    /// How much longer the first takes per unit of work next to the second.
    pub first: Finding,
    /// The same of the second; of two tasks of one kind it is the same figure.
    pub second: Finding,
    /// The sum of both rates next to each other, each over its rate alone: 2 where neither disturbs
    /// the other. More than 2 is noise, or tasks that help each other.
    pub progress: f64,
    /// The same with its interval.
    #[serde(serialize_with = "serialize_estimate")]
    pub total: Estimate,
}

/// The best assignment by the screening.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "PairAdvice"))]
pub struct Advice {
    /// It.
    pub assignment: Assignment,
    /// Its total progress; equal to the number of tasks where there is no interference.
    #[serde(serialize_with = "serialize_estimate")]
    pub total: Estimate,
    /// That of the present one.
    #[serde(serialize_with = "serialize_estimate")]
    pub present_total: Estimate,
    /// The one over the other. Flattering, since the best of many was picked by the same trials.
    #[serde(serialize_with = "serialize_estimate")]
    pub gain: Estimate,
    /// The probability that it beats the present one, given the screening's trials alone.
    pub probability: Option<f64>,
    /// Where none has a larger total than the present one: the one that leaves most room for a
    /// gain.
    pub next: Option<Next>,
    /// The largest gain over the present one that the intervals leave possible, whichever other one
    /// it would be: 1.05 is 5 %. None where one of them has no interval.
    pub room: Option<f64>,
    /// The same by any but the advised one.
    pub room_beside: Option<f64>,
}

/// An assignment that is not the present one.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "PairNext"))]
pub struct Next {
    /// It.
    pub assignment: Assignment,
    /// Its total progress over that of the present one, by the screening.
    #[serde(serialize_with = "serialize_estimate")]
    pub gain: Estimate,
}

/// What the advice gained on fresh trials.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Confirmed {
    /// Total progress as advised over that at present.
    #[serde(serialize_with = "serialize_estimate")]
    pub gain: Estimate,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "PairVerdict"))]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    /// Every assignment is the same, since the tasks are.
    AllAlike,
    /// There is only one assignment.
    OnlyOne,
    /// No other assignment has a larger total than the present one, and the intervals leave room
    /// for no gain larger than the margin by any.
    PresentIsBest,
    /// The screening, which flatters, leaves room for no gain larger than the margin by any other
    /// assignment.
    NoRoom,
    /// The gain was confirmed to lie above the margin.
    Change,
    /// The advised one gains no more than the margin, by the fresh trials, and the screening leaves
    /// room for no larger gain by any other.
    NoGain,
    /// The advised one gains no more than the margin, by the fresh trials; others, which looked
    /// worse and were not measured again, may still gain more.
    NoGainByIt,
    /// Undecided: no gain above the margin was shown, and none is excluded.
    NotShown {
        /// Trials that would settle it; none when absurdly many.
        trials_needed: Option<u32>,
        /// About how long they would take, seconds.
        seconds: Option<f64>,
    },
    /// There is no figure.
    NotEstimable {
        /// Why.
        #[serde(serialize_with = "serialize_unknown")]
        #[cfg_attr(feature = "schema", schemars(with = "ringfence_analysis::estimate::Unknown"))]
        reason: NotEstimable,
    },
    /// It was cut short before this could be decided.
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
            kinds: kinds
                .iter()
                .enumerate()
                .map(|(number, kind)| KindEntry::new(number, kind))
                .collect(),
            placement: placement(screen.0),
            margin,
            simulated: screen.1.iter().any(|sample| sample.simulated == Some(true)),
            pairs: pairs(kinds.len(), &results, (margin, level), progress.as_ref().ok()),
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
            advise(&progress, &question.present, candidates, &of_each, (margin, level)).ok_or(None)
        });
        let advice = match advised {
            Ok(advice) => advice,
            Err(reason) => {
                let reason = reason.unwrap_or(NotEstimable::TooFewTrials { trials: 0 });
                outcome.verdict = Verdict::NotEstimable { reason };
                return outcome;
            }
        };
        // Every other one is judged at the full level: that all of them gain little is claimed only
        // where each does (an intersection-union test, Berger 1982).
        let no_room = advice.room.is_some_and(|room| room <= 1.0 + margin);
        outcome.verdict = match (&advice.next, &advice.gain) {
            (Some(_), _) if no_room => Verdict::PresentIsBest,
            (Some(next), _) => undecided(&next.gain, margin, screen.1),
            (None, Err(reason)) => Verdict::NotEstimable { reason: *reason },
            (None, Ok(_)) if no_room => Verdict::NoRoom,
            (None, Ok(_)) => Verdict::CutShort,
        };
        if let (Verdict::CutShort, Some((plan, samples))) = (&outcome.verdict, confirm) {
            let gain = Progress::new(plan, samples).and_then(|progress| {
                let [from, to] =
                    [&question.present, &advice.assignment].map(|one| one.by_kind(&of_each));
                progress.gain(&from, &to, self::level(plan))
            });
            outcome.verdict = judge(&gain, margin, samples);
            // Those that looked worse were not measured again: the screening still speaks for them.
            let others = advice.room_beside.is_some_and(|room| room <= 1.0 + margin);
            if outcome.verdict == Verdict::NoGain && !others {
                outcome.verdict = Verdict::NoGainByIt;
            }
            outcome.confirmed = Some(Confirmed { gain });
        }
        outcome.advice = Some(advice);
        outcome
    }

    /// Whether the advice must be measured again before it is reported.
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

fn pairs(
    kinds: usize,
    results: &[CaseResult],
    (margin, level): (f64, f64),
    progress: Option<&Progress>,
) -> Vec<PairEntry> {
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
        PairEntry {
            kinds: (a, b),
            first: finding(a, b),
            second: finding(b, a),
            progress: progress.and_then(|progress| progress.total(&pair)).unwrap_or(f64::NAN),
            total: progress.map_or(Err(NotEstimable::NothingMeasured), |progress| {
                progress.total_estimate(&pair, level)
            }),
        }
    })
    .collect()
}

fn advise(
    progress: &Progress,
    present: &Assignment,
    candidates: Vec<Assignment>,
    of_each: &[usize],
    (margin, level): (f64, f64),
) -> Option<Advice> {
    let now = present.by_kind(of_each);
    let present_total = progress.total(&now)?;
    // Each that differs once, with its total.
    let mut others: BTreeMap<Assignment, (Assignment, f64)> = BTreeMap::new();
    for assignment in candidates {
        let by_kind = assignment.by_kind(of_each);
        if by_kind != now && !others.contains_key(&by_kind) {
            let total = progress.total(&by_kind)?;
            others.insert(by_kind, (assignment, total));
        }
    }
    let gains: Vec<(&Assignment, &Assignment, f64, Estimate)> = others
        .iter()
        .map(|(by_kind, (assignment, total))| {
            (by_kind, assignment, *total, progress.gain(&now, by_kind, level))
        })
        .collect();
    let room = |without: Option<&Assignment>| {
        let others = gains.iter().filter(|(by_kind, ..)| Some(*by_kind) != without);
        let highs: Option<Vec<f64>> =
            others.map(|(.., gain)| Some(gain.as_ref().ok()?.high)).collect();
        highs.map(|highs| highs.into_iter().fold(0.0, f64::max))
    };
    let (by_kind, best, total, gain) = gains.iter().max_by(|a, b| a.2.total_cmp(&b.2))?;
    let estimate = |by_kind: &Assignment| progress.total_estimate(by_kind, level);
    let high = |gain: &Estimate| gain.as_ref().map_or(f64::INFINITY, |gain| gain.high);
    let room_of_all = room(None);
    // One that is no better than the present one is not advised; nor one that is known to gain too
    // little, where another may still gain more.
    let too_little =
        high(gain) <= 1.0 + margin && room_of_all.is_none_or(|room| room > 1.0 + margin);
    if *total <= present_total || too_little {
        let (_, next, _, gain) = gains.iter().max_by(|a, b| high(&a.3).total_cmp(&high(&b.3)))?;
        return Some(Advice {
            assignment: present.clone(),
            total: estimate(&now),
            present_total: estimate(&now),
            gain: progress.gain(&now, &now, level),
            probability: None,
            next: Some(Next { assignment: (*next).clone(), gain: *gain }),
            room: room_of_all,
            room_beside: room_of_all,
        });
    }
    Some(Advice {
        assignment: (*best).clone(),
        total: estimate(by_kind),
        present_total: estimate(&now),
        gain: *gain,
        probability: gain.as_ref().ok().map(|gain| gain.probability_above_one()),
        next: None,
        room: room_of_all,
        room_beside: room(Some(by_kind)),
    })
}

// Whether a gain lies above the margin, and where that is not known, what it would take.
fn judge(gain: &Estimate, margin: f64, samples: &[Sample]) -> Verdict {
    match gain {
        Ok(gain) if gain.low > 1.0 + margin => Verdict::Change,
        Ok(gain) if gain.high <= 1.0 + margin => Verdict::NoGain,
        gain => undecided(gain, margin, samples),
    }
}

fn undecided(gain: &Estimate, margin: f64, samples: &[Sample]) -> Verdict {
    match gain {
        Err(reason) => Verdict::NotEstimable { reason: *reason },
        Ok(gain) => {
            // To where the interval leaves the margin on the side that the figure lies.
            let distance = (gain.value.ln() - margin.ln_1p()).abs();
            let trials_needed = trials_needed(gain.spread, gain.level, distance);
            let trials_needed = trials_needed.map(|trials| trials.max(gain.trials + 1));
            let seconds = trials_needed.zip(trial_seconds(samples));
            Verdict::NotShown {
                trials_needed,
                seconds: seconds.map(|(trials, each)| f64::from(trials) * each),
            }
        }
    }
}

// From one trial's first window to the next one's, in the middle of all.
pub(super) fn trial_seconds(samples: &[Sample]) -> Option<f64> {
    let mut starts = BTreeMap::<u32, u64>::new();
    for sample in samples {
        let start = starts.entry(sample.trial).or_insert(sample.start_ns);
        *start = sample.start_ns.min(*start);
    }
    let starts: Vec<u64> = starts.into_values().collect();
    // A resumed measurement may begin to count anew.
    let mut lengths: Vec<u64> =
        starts.windows(2).filter_map(|two| two[1].checked_sub(two[0])).collect();
    lengths.sort_unstable();
    lengths.get(lengths.len() / 2).filter(|ns| **ns > 0).map(|ns| *ns as f64 * 1e-9)
}
