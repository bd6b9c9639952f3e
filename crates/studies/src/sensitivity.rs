//! Sensitivity: a victim's rate against a polluter of growing cache footprint.
//!
//! A victim that lives in a cache slows down from the footprint on at which the polluter needs that cache
//! too; one that lives in its registers, or in memory, hardly does. Published studies choose their
//! cache-sensitive victims by this curve. The experiment is one like any other, its cases made by the
//! polluter's lists; [`Sensitivity`] reads the curves from its samples.

use ringfence_analysis::estimate::{Finding, Interval, NotEstimable, Verdict, trials_needed};
use ringfence_analysis::results;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use ringfence_experiment::task::Task;
use ringfence_experiment::task::axes::Variant;
use ringfence_experiment::{Arm, Experiment, Kind, Measure, OneOrMany, Placement, PlacementKind, Role};
use ringfence_machine::topology::Topology;
use ringfence_machine::units::Bytes;
use serde::Serialize;
use toml::{Table, Value};

const VICTIM: &str = "victim";
const POLLUTER: &str = "polluter";
/// No polluter is larger: what it needs more memory for, no cache holds.
const LARGEST: Bytes = Bytes::mib(512);
/// Where the kernel does not tell the sizes of caches: a small L2 and a small last-level cache.
const UNKNOWN: (Bytes, Bytes) = (Bytes::mib(1), Bytes::mib(16));

/// Who pollutes the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polluter {
    /// Plain stores to one line after the other: as fast as memory takes them.
    Write,
    /// Loads that follow pointers at random: slower, and no prefetcher helps it.
    Chase,
}

/// Footprints from a quarter of L2 to twice the last-level cache, as the kernel tells their sizes, each
/// twice the one before; 512 MiB at most.
pub fn footprints(topology: &Topology) -> Vec<Bytes> {
    let cpu = topology.usable().first().unwrap_or(0);
    let (l2, llc) = (topology.l2_size(cpu).unwrap_or(UNKNOWN.0), topology.llc_size(cpu).unwrap_or(UNKNOWN.1));
    // A machine without an L3 has its L2 as the last one.
    let first = Bytes((l2.0 / 4).max(Bytes::kib(64).0).next_power_of_two());
    let last = Bytes(llc.0.max(l2.0).saturating_mul(2)).min(LARGEST);
    let doubled = std::iter::successors(Some(first), |size| Some(Bytes(size.0 * 2)));
    let mut all: Vec<Bytes> = doubled.take_while(|size| *size < last).collect();
    all.push(last);
    all
}

/// The experiment: each victim alone and beside each polluter of each footprint.
pub fn experiment(
    victims: &[Table],
    polluters: &[Polluter],
    footprints: &[Bytes],
    placement: PlacementKind,
    measure: Measure,
) -> Experiment {
    let sizes = |key: &str, table: &mut Table| {
        let sizes = footprints.iter().map(|size| Value::try_from(*size).expect("a size is a value"));
        table.insert(key.into(), Value::Array(sizes.collect()));
    };
    let polluter = |polluter: &Polluter| {
        let mut table = Table::new();
        let mut set = |key: &str, value: &str| table.insert(key.into(), value.into());
        match polluter {
            Polluter::Write => {
                set("workload", "write");
                set("instruction", "none");
                set("fence_at", "none");
                set("block", "4KiB");
                sizes("size", &mut table);
            }
            Polluter::Chase => {
                set("workload", "chase");
                sizes("footprint", &mut table);
            }
        }
        table
    };
    let role = |name: &str, tasks: Vec<Table>| Role {
        task: OneOrMany::Many(tasks),
        ..Role::new(name, Table::new())
    };
    Experiment {
        measure,
        placement: Placement { kind: placement },
        roles: vec![role(VICTIM, victims.to_vec()), role(POLLUTER, polluters.iter().map(polluter).collect())],
        arms: vec![
            Arm::new("alone", &[VICTIM], None),
            Arm::new("beside", &[VICTIM, POLLUTER], Some("alone")),
        ],
        kind: Some(Kind::Sensitivity),
        ..Experiment::asking(
            "sensitivity",
            "From which footprint on does a polluter slow the victim down, and how much?",
            VICTIM,
        )
    }
}

/// The curves of an experiment, and what they say.
#[derive(Debug, Clone, Serialize)]
pub struct Sensitivity {
    /// One for each victim and polluter.
    pub curves: Vec<Curve>,
    /// What can be said of several victims; none where there is but one.
    pub ranking: Option<Ranking>,
    /// The victim that was slowed down most, where the intervals leave no other possible.
    pub most_sensitive: Option<String>,
    /// The level at which all intervals of all curves hold together.
    pub confidence: f64,
}

/// Which of several victims is the most sensitive: the one that is slowed down most where it is slowed down
/// most. Rests on [`Point::together`] alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "ranking")]
pub enum Ranking {
    /// It is slowed down by more than the intervals leave possible for any other.
    Most {
        /// The victim.
        victim: String,
        /// By this factor at least.
        at_least: f64,
        /// The others by this factor at most.
        others_at_most: f64,
    },
    /// Not known.
    NotKnown {
        /// Those that may be, the one with the largest figure first.
        among: Vec<String>,
        /// The largest factor that is left possible for one of them; none where one has no figure.
        at_most: Option<f64>,
        /// Trials that would tell the first two apart; none where absurdly many would, or a figure is missing.
        trials_needed: Option<u32>,
    },
    /// None was seen to be slowed down.
    NoneSeen {
        /// The largest factor that is left possible; none where a figure is missing.
        at_most: Option<f64>,
    },
}

/// One victim beside one polluter.
#[derive(Debug, Clone, Serialize)]
pub struct Curve {
    /// The victim, as on a command line.
    pub victim: String,
    /// The polluter: `write` or `chase`.
    pub polluter: String,
    /// By footprint, ascending.
    pub points: Vec<Point>,
    /// From this footprint on, every one slows the victim down for certain.
    pub from: Option<Bytes>,
    /// Of the footprints that slow it down for certain, the one with the largest figure.
    pub worst: Option<Bytes>,
    /// Footprints whose own intervals leave out no change, though not once all points of all curves are taken
    /// together: of so many intervals some do by chance.
    pub perhaps: Vec<Bytes>,
}

/// The victim beside a polluter of one footprint.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    /// The polluter's footprint.
    pub footprint: Bytes,
    /// The slowdown at the experiment's level.
    pub finding: Finding,
    /// The same at a level at which all points of all curves hold together: what is said of the whole curve
    /// rests on these.
    pub together: Finding,
}

impl Sensitivity {
    /// From an experiment's samples; `None` where it is another one, or has not the shape that [`experiment`]
    /// gives.
    pub fn new(plan: &Plan, samples: &[Sample]) -> Option<Self> {
        plan.experiment.kind.as_ref().filter(|kind| **kind == Kind::Sensitivity)?;
        let [victim, polluter] =
            [VICTIM, POLLUTER].map(|name| plan.experiment.roles.iter().position(|role| role.name == name));
        let (victim, polluter) = (victim?, polluter?);
        let measure = &plan.experiment.measure;
        let level = 1.0 - (1.0 - measure.confidence.0) / measure.looks.len().max(1) as f64;
        let each = results::results(plan, samples, level);
        let compared = each.iter().filter(|result| result.effect.is_some()).count();
        let together = results::results(plan, samples, 1.0 - (1.0 - level) / compared.max(1) as f64);
        let mut curves: Vec<Curve> = Vec::new();
        for (result, wide) in each.iter().zip(&together) {
            let (Some(effect), Some(wide)) = (&result.effect, &wide.effect) else { continue };
            let variant = |role: usize| {
                let active = plan.cases[result.case].active.iter().find(|active| active.role == role)?;
                plan.variants[role].get(active.variant)
            };
            let (task, other) = (variant(victim)?, variant(polluter)?);
            let footprint = match &other.task {
                Task::Write(write) => write.size,
                Task::Chase(chase) => chase.footprint,
                _ => return None,
            };
            let name = text(plan, victim, task);
            let point = Point { footprint, finding: effect.finding, together: wide.finding };
            let known =
                curves.iter_mut().find(|curve| curve.victim == name && curve.polluter == other.task.name());
            match known {
                Some(curve) => curve.points.push(point),
                None => curves.push(Curve {
                    victim: name,
                    polluter: other.task.name().into(),
                    points: vec![point],
                    from: None,
                    worst: None,
                    perhaps: Vec::new(),
                }),
            }
        }
        curves.iter_mut().for_each(Curve::conclude);
        Some(Self::of(curves, level))
    }

    /// What curves say together.
    pub fn of(curves: Vec<Curve>, confidence: f64) -> Self {
        let ranking = ranking(&curves);
        let most_sensitive = match &ranking {
            Some(Ranking::Most { victim, .. }) => Some(victim.clone()),
            _ => None,
        };
        Self { ranking, most_sensitive, curves, confidence }
    }
}

/// What a victim's slowdown at its worst may be, over all of its curves.
struct Reach<'a> {
    victim: &'a str,
    /// The largest that is certain; 1 where none is.
    at_least: f64,
    /// The largest that is possible; none where a figure is missing.
    at_most: Option<f64>,
    /// The interval of the point with the largest figure.
    largest: Option<Interval>,
}

fn reach<'a>(victim: &'a str, curves: &[Curve]) -> Reach<'a> {
    let own = || curves.iter().filter(|curve| curve.victim == victim);
    let figures = own().flat_map(|curve| &curve.points).filter_map(|point| point.together.slowdown);
    let at_most: Option<Vec<f64>> = own().map(Curve::at_most).collect();
    Reach {
        victim,
        at_least: figures.clone().map(|slowdown| slowdown.low).fold(1.0, f64::max),
        at_most: at_most.and_then(|highs| highs.into_iter().max_by(f64::total_cmp)),
        largest: figures.max_by(|a, b| a.value.total_cmp(&b.value)),
    }
}

fn ranking(curves: &[Curve]) -> Option<Ranking> {
    let mut victims: Vec<Reach> = Vec::new();
    for curve in curves {
        if !victims.iter().any(|known| known.victim == curve.victim) {
            victims.push(reach(&curve.victim, curves));
        }
    }
    if victims.len() < 2 {
        return None;
    }
    let largest = |one: &Reach| one.largest.map_or(0.0, |slowdown| slowdown.value);
    victims.sort_by(|a, b| largest(b).total_cmp(&largest(a)));
    // Not known where one is not known.
    let at_most = |of: &[&Reach]| -> Option<f64> {
        of.iter().map(|one| one.at_most).collect::<Option<Vec<f64>>>()?.into_iter().max_by(f64::total_cmp)
    };
    let all: Vec<&Reach> = victims.iter().collect();
    if victims.iter().all(|one| one.at_least <= 1.0) {
        return Some(Ranking::NoneSeen { at_most: at_most(&all) });
    }
    let first = victims.iter().max_by(|a, b| a.at_least.total_cmp(&b.at_least))?;
    let others: Vec<&Reach> = victims.iter().filter(|one| one.victim != first.victim).collect();
    if let Some(others_at_most) = at_most(&others).filter(|most| *most < first.at_least) {
        return Some(Ranking::Most { victim: first.victim.into(), at_least: first.at_least, others_at_most });
    }
    let among: Vec<&Reach> =
        victims.iter().filter(|one| one.at_most.is_none_or(|most| most >= first.at_least)).collect();
    // Until the halves of both intervals fit between the two largest figures.
    let trials_needed = match among[..] {
        [Reach { largest: Some(one), .. }, Reach { largest: Some(other), .. }, ..] => {
            let between = (one.value.ln() - other.value.ln()).abs();
            let needed = trials_needed(one.spread.max(other.spread), one.level, between / 2.0);
            needed.map(|trials| trials.max(one.trials.min(other.trials) + 1))
        }
        _ => None,
    };
    let complete = among.iter().all(|one| one.at_most.is_some());
    Some(Ranking::NotKnown {
        at_most: at_most(&among),
        among: among.iter().map(|one| one.victim.to_owned()).collect(),
        trials_needed: trials_needed.filter(|_| complete),
    })
}

impl Curve {
    fn conclude(&mut self) {
        self.points.sort_by_key(|point| point.footprint);
        let slower = |point: &&Point| point.together.verdict == Verdict::Slower;
        self.from = self.points.iter().rev().take_while(slower).last().map(|point| point.footprint);
        let value = |point: &Point| point.finding.slowdown.map_or(0.0, |slowdown| slowdown.value);
        let worst = self.points.iter().filter(slower).max_by(|a, b| value(a).total_cmp(&value(b)));
        self.worst = worst.map(|point| point.footprint);
        let perhaps = |point: &&Point| !slower(point) && point.finding.verdict == Verdict::Slower;
        self.perhaps = self.points.iter().filter(perhaps).map(|point| point.footprint).collect();
    }

    /// The point of [`worst`](Self::worst).
    pub fn worst_point(&self) -> Option<&Point> {
        self.points.iter().find(|point| Some(point.footprint) == self.worst)
    }

    /// The largest slowdown that the intervals leave possible.
    pub fn at_most(&self) -> Option<f64> {
        let highs = self.points.iter().map(|point| Some(point.together.slowdown?.high));
        highs.collect::<Option<Vec<_>>>()?.into_iter().max_by(f64::total_cmp)
    }

    /// Why a point has no figure, the first that has none.
    pub fn missing(&self) -> Option<(Bytes, NotEstimable)> {
        self.points.iter().find_map(|point| match (point.finding.verdict, point.together.verdict) {
            (Verdict::NotEstimable(reason), _) | (_, Verdict::NotEstimable(reason)) => {
                Some((point.footprint, reason))
            }
            _ => None,
        })
    }
}

// A task as one writes it on a command line, every list decided.
fn text(plan: &Plan, role: usize, variant: &Variant) -> String {
    let Some(table) = plan.experiment.roles[role].task.as_slice().get(variant.table) else {
        return variant.task.name().into();
    };
    if let Task::Command(command) = &variant.task {
        return command.run.clone();
    }
    let mut words = vec![variant.task.name().to_string()];
    for (key, value) in table.iter().filter(|(key, _)| *key != "workload") {
        let decided = variant.varied.iter().find(|(varied, _)| varied == key).map(|(_, value)| value.clone());
        let value =
            decided.unwrap_or_else(|| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        words.push(format!("{key}={value}"));
    }
    words.join(" ")
}

#[cfg(test)]
#[path = "../tests/inside/sensitivity.rs"]
mod tests;
