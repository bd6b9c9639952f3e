//! The frontier: for every way of writing, flushed bytes a second against the victim's slowdown. A
//! pure function of a plan and its samples.
//!
//! A way of writing is a case in which roles with the workload `write` run: with a victim, whose
//! slowdown is the case's, or as the metric itself, which costs something but has no victim to
//! disturb. Where a case has several writers, their bytes are added up.
//!
//! A way is *fenced* when its bytes have left the caches before the writer continues: by a flush
//! instruction or non-temporal stores with a fence, or by `msync`. Only fenced ways are compared
//! with each other: a writer that does not wait is fast, and has promised nothing.
//!
//! Among them the *efficient* ones are marked: no other writes more and disturbs less (Pareto).
//! Where two slowdowns cannot be told apart, noise would make a slow way look gentle: it counts as
//! gentler only where the intervals say so.

mod disk;

use std::collections::BTreeMap;

use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use ringfence_experiment::task::{Target, Task, Write};
use serde::Serialize;

use crate::estimate::{self, Estimate, Interval, Window};
use crate::results;
use crate::windows::Lost;

pub use disk::{Against, Amount, DiskPoint, OnDisk, on_disk};

/// All ways of writing of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Frontier {
    /// The role that is disturbed; none where every way is a cost alone.
    pub victim: Option<String>,
    /// The state of bytes when a fenced way continues.
    pub reached: Reached,
    /// The ways, in the order of their cases.
    pub points: Vec<Point>,
}

/// How far fenced bytes have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Reached {
    /// Out of the caches: nothing survives a power cut in memory that forgets.
    Flushed,
    /// Every target is persistent memory, mapped as such.
    Durable,
}

/// One way of writing and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FrontierPoint"))]
pub struct Point {
    /// The case's number.
    pub case: usize,
    /// What sets it apart, in the plan's words; the arm where nothing does.
    pub label: String,
    /// The roles that write, and how.
    pub writers: Vec<Writer>,
    /// Bytes a second, all instances of all writers together.
    #[serde(serialize_with = "estimate::serialize_estimate")]
    pub bytes_per_s: Estimate,
    /// The victim's slowdown; none where the case has no baseline.
    #[serde(serialize_with = "estimate::serialize_estimate_if_any")]
    pub slowdown: Option<Estimate>,
    /// Where it stands among the others.
    pub standing: Standing,
}

/// A role that writes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Writer {
    /// Its name.
    pub role: String,
    /// Its instances.
    pub count: u32,
    /// How it writes.
    pub write: Write,
}

/// Where a way stands among the fenced ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// The fastest, or gentler than every faster one beyond both intervals.
    Efficient,
    /// Some way writes more, and the intervals do not bear out that this one is gentler.
    Close,
    /// Some way writes more and disturbs less, one of the two beyond both intervals;
    /// [`Frontier::beaten_in`] says which.
    Beaten,
    /// Nothing is guaranteed when the writer continues, so it is not compared.
    Unfenced,
    /// One of the two figures is missing.
    Incomplete,
}

impl Writer {
    /// Whether its bytes have left the caches before it continues.
    pub fn fenced(&self) -> bool {
        self.write.is_flushed()
    }

    fn persistent(&self) -> bool {
        matches!(self.write.target, Target::Dax(_) | Target::DevDax(_))
    }
}

impl Point {
    /// Whether all its writers are fenced.
    pub fn fenced(&self) -> bool {
        self.writers.iter().all(Writer::fenced)
    }

    /// Whether one of its writers is held to a rate.
    pub fn paced(&self) -> bool {
        self.writers.iter().any(|writer| writer.write.pace.is_some())
    }

    fn figures(&self) -> Option<Figures> {
        Some((self.bytes_per_s.ok()?, self.slowdown?.ok()?))
    }
}

/// In what one way is known to be better than another: the intervals bear it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Better {
    /// In gentleness alone.
    Gentler,
    /// In bytes a second alone.
    Faster,
    /// In both.
    Both,
}

impl Frontier {
    /// In what a way is beaten by another one, as far as the intervals tell; the most that any of
    /// the others shows. None where it is not beaten.
    pub fn beaten_in(&self, point: &Point) -> Option<Better> {
        let own = point.figures().filter(|_| point.standing == Standing::Beaten)?;
        let others = self.points.iter().filter(|other| other.fenced()).filter_map(Point::figures);
        others.filter(|other| more(*other, own)).filter_map(|other| better(other, own)).max()
    }
}

/// The ways of writing of an experiment, every interval at `level`.
pub fn frontier(plan: &Plan, samples: &[Sample], level: f64) -> Frontier {
    let of_case = |case: usize| {
        let writers = writers(plan, case, plan.cases[case].baseline.is_some());
        writers.into_iter().map(|(role, writer)| (role, writer.count, 64.0)).collect()
    };
    let rates = rates(plan, samples, of_case);
    let estimates = results::main_estimates(plan, samples, level);
    let mut points: Vec<Point> = Vec::new();
    for (case, main) in plan.measured().into_iter().zip(estimates) {
        let what = &plan.cases[case];
        let writers = writers(plan, case, what.baseline.is_some());
        if writers.is_empty() {
            continue;
        }
        let windows = rates.get(&case).map_or(&[][..], Vec::as_slice);
        points.push(Point {
            case,
            label: if what.label.is_empty() { what.arm.clone() } else { what.label.clone() },
            writers: writers.into_iter().map(|(_, writer)| writer).collect(),
            bytes_per_s: estimate::rate(windows, level).map(per_second),
            slowdown: what.baseline.map(|_| main),
            standing: Standing::Incomplete,
        });
    }
    judge(&mut points);
    let durable =
        !points.is_empty() && points.iter().flat_map(|p| &p.writers).all(Writer::persistent);
    let victim = points.iter().any(|point| point.slowdown.is_some()).then(|| {
        let metric = &plan.experiment.metric;
        plan.experiment
            .measure
            .quantity
            .quantile()
            .map_or(metric.clone(), |of| format!("{of} of {metric}"))
    });
    Frontier { victim, reached: if durable { Reached::Durable } else { Reached::Flushed }, points }
}

/// One frontier of several experiments with the same victim, such as one at full rate and one
/// paced. None of none.
pub fn merged(several: &[&Frontier]) -> Option<Frontier> {
    let first = several.first()?;
    let mut points: Vec<Point> = several.iter().flat_map(|one| one.points.clone()).collect();
    judge(&mut points);
    let durable = several.iter().all(|one| one.reached == Reached::Durable);
    let victim = several.iter().find_map(|one| one.victim.clone());
    let reached = if durable { first.reached } else { Reached::Flushed };
    Some(Frontier { victim, reached, points })
}

/// Says of each point where it stands among all given; they may come from several experiments that
/// measured the same victim.
pub fn judge(points: &mut [Point]) {
    let fenced: Vec<Figures> =
        points.iter().filter(|point| point.fenced()).filter_map(Point::figures).collect();
    for point in points {
        point.standing = match point.figures() {
            _ if !point.fenced() => Standing::Unfenced,
            None => Standing::Incomplete,
            Some(own) => standing(own, &fenced),
        };
    }
}

// Bytes a second, and the slowdown.
type Figures = (Interval, Interval);

fn more((rate, slowdown): Figures, than: Figures) -> bool {
    rate.value > than.0.value || (rate.value == than.0.value && slowdown.value < than.1.value)
}

// Of two of which the first writes more.
fn better((rate, slowdown): Figures, than: Figures) -> Option<Better> {
    match (rate.low > than.0.high, slowdown.high < than.1.low) {
        _ if slowdown.value > than.1.value => None,
        (true, true) => Some(Better::Both),
        (true, false) => Some(Better::Faster),
        (false, true) => Some(Better::Gentler),
        (false, false) => None,
    }
}

fn standing(own: Figures, all: &[Figures]) -> Standing {
    let faster: Vec<Figures> = all.iter().copied().filter(|other| more(*other, own)).collect();
    if faster.iter().any(|other| better(*other, own).is_some()) {
        Standing::Beaten
    } else if faster.iter().all(|(_, slowdown)| own.1.high < slowdown.low) {
        Standing::Efficient
    } else {
        Standing::Close
    }
}

// The writers of a case, by role; the metric only where it is not a victim.
fn writers(plan: &Plan, case: usize, has_victim: bool) -> Vec<(usize, Writer)> {
    let active =
        plan.cases[case].active.iter().filter(|active| !(has_victim && active.role == plan.metric));
    active
        .filter_map(|active| match &plan.variants[active.role][active.variant].task {
            Task::Write(write) => Some((
                active.role,
                Writer {
                    role: plan.experiment.roles[active.role].name.clone(),
                    count: active.count,
                    write: write.clone(),
                },
            )),
            _ => None,
        })
        .collect()
}

// Per case and window what some roles came to, in one pass over the samples: of each its number,
// its instances, and how much a unit of it is.
fn rates(
    plan: &Plan,
    samples: &[Sample],
    of_case: impl Fn(usize) -> Vec<(usize, u32, f64)>,
) -> BTreeMap<usize, Vec<(u32, Window)>> {
    let roles: BTreeMap<&str, usize> = plan
        .experiment
        .roles
        .iter()
        .enumerate()
        .map(|(number, role)| (role.name.as_str(), number))
        .collect();
    let counts: Vec<BTreeMap<usize, (u32, f64)>> = (0..plan.cases.len())
        .map(|case| {
            of_case(case).into_iter().map(|(role, count, amount)| (role, (count, amount))).collect()
        })
        .collect();
    // Instances run side by side: their work adds up, their time does not.
    let mut sums: BTreeMap<(usize, u32), (f64, BTreeMap<usize, f64>)> = BTreeMap::new();
    let lost = Lost::of(plan, samples);
    let counted = |sample: &&Sample| sample.case == sample.step_case && !lost.holds(sample);
    for sample in samples.iter().filter(counted) {
        let case = sample.case as usize;
        let Some(role) = roles.get(&*sample.role) else { continue };
        let Some((count, amount)) = counts.get(case).and_then(|of| of.get(role)) else { continue };
        // What a writer prepares untimed counts in no rate, but it is part of its neighbour's
        // window.
        let ns = if *role == plan.metric { sample.busy_ns } else { sample.length_ns };
        let (sum, times) = sums.entry((case, sample.trial)).or_default();
        *sum += sample.units as f64 * amount;
        *times.entry(*role).or_default() += ns as f64 / f64::from(*count);
    }
    let mut all: BTreeMap<usize, Vec<(u32, Window)>> = BTreeMap::new();
    for ((case, trial), (sum, times)) in sums {
        let ns = times.values().copied().fold(0.0, f64::max);
        all.entry(case).or_default().push((trial, Window { units: sum, ns }));
    }
    all
}

fn per_second(ns_per_unit: Interval) -> Interval {
    Interval {
        value: 1e9 / ns_per_unit.value,
        low: 1e9 / ns_per_unit.high,
        high: 1e9 / ns_per_unit.low,
        ..ns_per_unit
    }
}

#[cfg(test)]
mod tests;
