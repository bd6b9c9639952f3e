//! Sensitivity: a victim's rate against a polluter of growing cache footprint.
//!
//! A victim that lives in a cache slows down from the footprint on at which the polluter needs that cache
//! too; one that lives in its registers, or in memory, hardly does. Published studies choose their
//! cache-sensitive victims by this curve. The experiment is one like any other, its cases made by the
//! polluter's lists; [`Sensitivity`] reads the curves from its samples.

use ringfence_machine::topology::Topology;
use ringfence_machine::units::Bytes;
use serde::Serialize;
use toml::{Table, Value};

use crate::estimate::{Finding, Verdict};
use crate::experiment::{Arm, Experiment, Measure, OneOrMany, Placement, PlacementKind, Role, SCHEMA};
use crate::plan::Plan;
use crate::results;
use crate::sample::Sample;
use crate::task::Task;
use crate::task::axes::Variant;

/// The experiments' name, by which their datasets are known.
pub const NAME: &str = "sensitivity";

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
        schema: SCHEMA,
        name: NAME.into(),
        question: Some("From which footprint on does a polluter slow the victim down, and how much?".into()),
        seed: 1,
        metric: VICTIM.into(),
        aa: None,
        measure,
        placement: Placement { kind: placement },
        roles: vec![role(VICTIM, victims.to_vec()), role(POLLUTER, polluters.iter().map(polluter).collect())],
        arms: vec![
            Arm::new("alone", &[VICTIM], None),
            Arm::new("beside", &[VICTIM, POLLUTER], Some("alone")),
        ],
    }
}

/// The curves of an experiment, and what they say.
#[derive(Debug, Clone, Serialize)]
pub struct Sensitivity {
    /// One for each victim and polluter.
    pub curves: Vec<Curve>,
    /// The victim that was slowed down most, where there are several and any was.
    pub most_sensitive: Option<String>,
    /// The level at which all intervals of all curves hold together.
    pub confidence: f64,
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
    /// The footprint that slows it down most, where one does for certain.
    pub worst: Option<Bytes>,
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
    /// From an experiment's samples; `None` where it has not the shape that [`experiment`] gives.
    pub fn new(plan: &Plan, samples: &[Sample]) -> Option<Self> {
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
                }),
            }
        }
        curves.iter_mut().for_each(Curve::conclude);
        let victims = curves.iter().any(|curve| curve.victim != curves[0].victim);
        let hardest = curves.iter().filter_map(|curve| Some((curve.most()?, &curve.victim)));
        let most = hardest.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|_| victims);
        let most_sensitive = most.map(|(_, victim)| victim.clone());
        Some(Self { most_sensitive, curves, confidence: level })
    }
}

impl Curve {
    fn conclude(&mut self) {
        self.points.sort_by_key(|point| point.footprint);
        let slower = |point: &&Point| point.together.verdict == Verdict::Slower;
        self.from = self.points.iter().rev().take_while(slower).last().map(|point| point.footprint);
        let value = |point: &Point| point.finding.slowdown.map_or(0.0, |slowdown| slowdown.value);
        let worst = self.points.iter().filter(slower).max_by(|a, b| value(a).total_cmp(&value(b)));
        self.worst = worst.map(|point| point.footprint);
    }

    /// The point that slows the victim down most, where one does for certain.
    pub fn worst_point(&self) -> Option<&Point> {
        self.points.iter().find(|point| Some(point.footprint) == self.worst)
    }

    /// The largest slowdown that the intervals leave possible.
    pub fn at_most(&self) -> Option<f64> {
        let highs = self.points.iter().map(|point| Some(point.together.slowdown?.high));
        highs.collect::<Option<Vec<_>>>()?.into_iter().max_by(f64::total_cmp)
    }

    // By how much it is slowed down at the least, where it is most.
    fn most(&self) -> Option<f64> {
        let slower = self.points.iter().filter(|point| point.together.verdict == Verdict::Slower);
        slower.filter_map(|point| Some(point.together.slowdown?.low)).max_by(f64::total_cmp)
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
mod tests;
