//! Sensitivity: a victim's rate against a polluter of growing cache footprint.
//!
//! A victim that lives in a cache slows down from the footprint on at which the polluter needs that
//! cache too; one that lives in its registers, or in memory, hardly does. Published studies choose
//! their cache-sensitive victims by this curve. The experiment is one like any other, its cases
//! made by the polluter's lists; [`Sensitivity`] reads the curves from its samples.

use ringfence_analysis::estimate::{Finding, Interval, NotEstimable, Verdict, trials_needed};
use ringfence_analysis::results;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use ringfence_experiment::task::{Chases, FenceAt, Instruction, Task, Tasks, Variant, Writes};
use ringfence_experiment::{Arm, Experiment, Kind, Measure, Placement, PlacementKind, Role};
use ringfence_machine::topology::Topology;
use ringfence_machine::units::Bytes;
use serde::Serialize;

const VICTIM: &str = "victim";
const POLLUTER: &str = "polluter";
/// No polluter is larger: what it needs more memory for, no cache holds.
const LARGEST: Bytes = Bytes::mib(512);
/// Where the kernel does not tell the sizes of caches: a small L2 and a small last-level cache.
const UNKNOWN: (Bytes, Bytes) = (Bytes::mib(1), Bytes::mib(16));

/// What pollutes the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polluter {
    /// Plain stores to one line after the other: as fast as memory takes them.
    Write,
    /// Loads that follow pointers at random: slower, and no prefetcher helps it.
    Chase,
}

/// Footprints from a quarter of L2 to twice the last-level cache, as the kernel tells their sizes,
/// each twice the one before; 512 MiB at most.
pub fn footprints(topology: &Topology) -> Vec<Bytes> {
    let cpu = topology.usable().first().unwrap_or(0);
    let (l2, llc) =
        (topology.l2_size(cpu).unwrap_or(UNKNOWN.0), topology.llc_size(cpu).unwrap_or(UNKNOWN.1));
    // A machine without an L3 has its L2 as the last one.
    let first = Bytes((l2.0 / 4).max(Bytes::kib(64).0).next_power_of_two());
    let last = Bytes(llc.0.max(l2.0).saturating_mul(2)).min(LARGEST);
    let doubled = std::iter::successors(Some(first), |size| Some(Bytes(size.0 * 2)));
    let mut all: Vec<Bytes> = doubled.take_while(|size| *size < last).collect();
    all.push(last);
    all
}

/// The experiment: each victim alone and next to each polluter of each footprint.
pub fn experiment(
    victims: &[Tasks],
    polluters: &[Polluter],
    footprints: &[Bytes],
    placement: PlacementKind,
    measure: Measure,
) -> Experiment {
    let polluter = |polluter: &Polluter| -> Tasks {
        match polluter {
            Polluter::Write => {
                let stores = Writes::default().instruction(Instruction::None);
                let blocks = stores.fence_at(FenceAt::None).block(Bytes::kib(4));
                blocks.size(footprints.to_vec()).into()
            }
            Polluter::Chase => Chases::default().footprint(footprints.to_vec()).into(),
        }
    };
    Experiment {
        measure,
        placement: Placement { kind: placement },
        roles: vec![
            Role::new(VICTIM, victims.to_vec()),
            Role::new(POLLUTER, polluters.iter().map(polluter).collect::<Vec<_>>()),
        ],
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sensitivity {
    /// One for each victim and polluter.
    pub curves: Vec<Curve>,
    /// The comparison of several victims; none for a single one.
    pub ranking: Option<Ranking>,
    /// The victim that was slowed down most, where the intervals leave no other possible.
    pub most_sensitive: Option<String>,
    /// The level at which all intervals of all curves hold together.
    pub confidence: f64,
}

/// Which of several victims is the most sensitive: the one that is slowed down most where it is
/// slowed down most. Rests on [`Point::together`] alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
        /// Trials that would tell the first two apart; none where absurdly many would, or a figure
        /// is missing.
        trials_needed: Option<u32>,
    },
    /// None was seen to be slowed down.
    NoneSeen {
        /// The largest factor that is left possible; none where a figure is missing.
        at_most: Option<f64>,
    },
}

/// One victim next to one polluter.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Footprints whose own intervals leave out no change, though not once all points of all curves
    /// are taken together: of so many intervals some do by chance.
    pub perhaps: Vec<Bytes>,
}

/// The victim next to a polluter of one footprint.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CurvePoint"))]
pub struct Point {
    /// The polluter's footprint.
    pub footprint: Bytes,
    /// The slowdown at the experiment's level.
    pub finding: Finding,
    /// The same at a level at which all points of all curves hold together: what is said of the
    /// whole curve rests on these.
    pub together: Finding,
}

impl Sensitivity {
    /// From an experiment's samples; `None` where it is another one, or has not the shape that
    /// [`experiment`] gives.
    pub fn new(plan: &Plan, samples: &[Sample]) -> Option<Self> {
        plan.experiment.kind.as_ref().filter(|kind| **kind == Kind::Sensitivity)?;
        let [victim, polluter] = [VICTIM, POLLUTER]
            .map(|name| plan.experiment.roles.iter().position(|role| role.name == name));
        let (victim, polluter) = (victim?, polluter?);
        let measure = &plan.experiment.measure;
        let level = 1.0 - (1.0 - measure.confidence.0) / measure.looks.len().max(1) as f64;
        let each = results::results(plan, samples, level);
        let compared = each.iter().filter(|result| result.effect.is_some()).count();
        let together =
            results::results(plan, samples, 1.0 - (1.0 - level) / compared.max(1) as f64);
        let mut curves: Vec<Curve> = Vec::new();
        for (result, wide) in each.iter().zip(&together) {
            let (Some(effect), Some(wide)) = (&result.effect, &wide.effect) else { continue };
            let variant = |role: usize| {
                let active =
                    plan.cases[result.case].active.iter().find(|active| active.role == role)?;
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
            let known = curves
                .iter_mut()
                .find(|curve| curve.victim == name && curve.polluter == other.task.name());
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
        of.iter()
            .map(|one| one.at_most)
            .collect::<Option<Vec<f64>>>()?
            .into_iter()
            .max_by(f64::total_cmp)
    };
    let all: Vec<&Reach> = victims.iter().collect();
    if victims.iter().all(|one| one.at_least <= 1.0) {
        return Some(Ranking::NoneSeen { at_most: at_most(&all) });
    }
    let first = victims.iter().max_by(|a, b| a.at_least.total_cmp(&b.at_least))?;
    let others: Vec<&Reach> = victims.iter().filter(|one| one.victim != first.victim).collect();
    if let Some(others_at_most) = at_most(&others).filter(|most| *most < first.at_least) {
        return Some(Ranking::Most {
            victim: first.victim.into(),
            at_least: first.at_least,
            others_at_most,
        });
    }
    let among: Vec<&Reach> = victims
        .iter()
        .filter(|one| one.at_most.is_none_or(|most| most >= first.at_least))
        .collect();
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
    let Some(tasks) = plan.experiment.roles[role].task.as_slice().get(variant.table) else {
        return variant.task.name().into();
    };
    if let Task::Command(command) = &variant.task {
        return command.run.clone();
    }
    let mut words = vec![variant.task.name().to_string()];
    for (key, value) in tasks.written().iter().filter(|(key, _)| *key != "workload") {
        let decided =
            variant.varied.iter().find(|(varied, _)| varied == key).map(|(_, value)| value.clone());
        let value = decided
            .unwrap_or_else(|| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        words.push(format!("{key}={value}"));
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use ringfence_experiment::class::Class;
    use ringfence_experiment::plan;
    use ringfence_experiment::task::text as parse;
    use ringfence_machine::fixtures;

    use super::*;

    fn plan_of(victims: &[&str], polluters: &[Polluter], sizes: &[u64]) -> Plan {
        let victims: Vec<Tasks> = victims.iter().map(|text| parse::parse(text).unwrap()).collect();
        let sizes: Vec<Bytes> = sizes.iter().map(|mib| Bytes::mib(*mib)).collect();
        let measure = Measure { looks: vec![12], rounds: 1, ..Measure::default() };
        let experiment = experiment(&victims, polluters, &sizes, PlacementKind::Llc, measure);
        assert_eq!(Experiment::parse(&experiment.to_toml()).unwrap(), experiment);
        Plan::new(&experiment, &Topology::read(&fixtures::vm_2cpu().root()).unwrap(), None).unwrap()
    }

    // Samples of twelve trials; `slower` by victim's number, polluter's name and footprint in MiB.
    fn samples(plan: &Plan, slower: &dyn Fn(usize, &str, u64) -> f64) -> Vec<Sample> {
        let mut all = Vec::new();
        for trial in 0..12 {
            let steps = plan::trial(plan, trial).rounds.concat();
            for (number, step) in steps.iter().enumerate() {
                for (position, &case) in step.windows.iter().enumerate() {
                    let active = &plan.cases[case].active;
                    let other = active.get(1).map(|active| &plan.variants[1][active.variant].task);
                    let factor = match other {
                        Some(Task::Write(write)) => {
                            slower(active[0].variant, "write", write.size.0 >> 20)
                        }
                        Some(Task::Chase(chase)) => {
                            slower(active[0].variant, "chase", chase.footprint.0 >> 20)
                        }
                        _ => 1.0,
                    };
                    // A noise of +-0.5 %.
                    let noise = 1.0
                        + f64::from((trial * 31 + number as u32 * 17 + position as u32 * 7) % 11)
                            * 1e-3
                        - 5e-3;
                    all.push(Sample {
                        trial,
                        step: number as u32,
                        position: position as u32,
                        step_case: step.case as u32,
                        case: case as u32,
                        role: VICTIM.into(),
                        class: Class::Sharing,
                        length_ns: 10_000_000,
                        busy_ns: 10_000_000,
                        units: (1e8 / (factor * noise)) as u64,
                        ..Sample::default()
                    });
                }
            }
        }
        all
    }

    #[test]
    fn footprints_go_from_within_l2_to_beyond_the_last_cache() {
        for tree in [
            fixtures::xeon_2s64t(),
            fixtures::zen_multi_llc(),
            fixtures::vm_2cpu(),
            fixtures::one_cpu(),
            fixtures::hybrid_laptop(),
        ] {
            let topology = Topology::read(&tree.root()).unwrap();
            let all = footprints(&topology);
            let cpu = topology.usable().first().unwrap();
            let l2 = topology.l2_size(cpu).unwrap_or(Bytes::mib(1));
            let llc = topology.llc_size(cpu).unwrap_or(Bytes::mib(16));
            assert!((l2.0 / 4..l2.0 / 2).contains(&all[0].0), "{all:?}");
            assert_eq!(all.last(), Some(&Bytes((2 * llc.0).min(512 << 20))));
            assert!(
                all.windows(2).all(|two| two[0] < two[1] && two[1].0 <= 2 * two[0].0),
                "{all:?}"
            );
            assert!((4..=14).contains(&all.len()), "{all:?}");
            // Each is a footprint that both polluters take.
            let experiment = experiment(
                &[parse::parse("alu").unwrap()],
                &[Polluter::Write, Polluter::Chase],
                &all,
                PlacementKind::Auto,
                Measure::default(),
            );
            Plan::new(&experiment, &topology, None).unwrap();
        }
    }

    #[test]
    fn a_curve_says_from_where_on_and_how_much() {
        let plan = plan_of(
            &["chase footprint=4MiB"],
            &[Polluter::Write, Polluter::Chase],
            &[16, 1, 4, 64],
        );
        let truth = |_: usize, polluter: &str, mib: u64| match (polluter, mib) {
            ("write", 4) => 1.2,
            ("write", 16) => 1.5,
            ("write", 64) => 1.4,
            _ => 1.0,
        };
        let found = Sensitivity::new(&plan, &samples(&plan, &truth)).unwrap();
        assert_eq!(found.most_sensitive, None, "there is but one victim");
        let [write, chase] = &found.curves[..] else { panic!("{:?}", found.curves) };
        assert_eq!(
            (write.victim.as_str(), write.polluter.as_str()),
            ("chase footprint=4MiB", "write")
        );
        let sizes: Vec<u64> = write.points.iter().map(|point| point.footprint.0 >> 20).collect();
        assert_eq!(sizes, [1, 4, 16, 64]);
        assert_eq!((write.from, write.worst), (Some(Bytes::mib(4)), Some(Bytes::mib(16))));
        let worst = write.worst_point().unwrap().finding.slowdown.unwrap();
        assert!((worst.value - 1.5).abs() < 0.01, "{worst:?}");
        assert_eq!((chase.from, chase.worst), (None, None));
        assert!(chase.at_most().unwrap() < 1.02);
        // Eight points together are known less well than each by itself.
        for point in write.points.iter().chain(&chase.points) {
            let [each, together] =
                [point.finding, point.together].map(|finding| finding.slowdown.unwrap());
            assert!(
                together.low <= each.low
                    && together.high >= each.high
                    && together.level > each.level
            );
        }
    }

    #[test]
    fn what_comes_and_goes_has_no_beginning() {
        let plan = plan_of(&["mcf"], &[Polluter::Write], &[1, 4, 16]);
        let found =
            Sensitivity::new(&plan, &samples(&plan, &|_, _, mib| if mib == 4 { 1.3 } else { 1.0 }))
                .unwrap();
        assert_eq!((found.curves[0].from, found.curves[0].worst), (None, Some(Bytes::mib(4))));
    }

    #[test]
    fn the_most_sensitive_of_several_victims_is_named() {
        let plan = plan_of(&["alu", "chase footprint=1MiB,4MiB"], &[Polluter::Write], &[1, 16]);
        let found = |truth: &dyn Fn(usize, &str, u64) -> f64| {
            Sensitivity::new(&plan, &samples(&plan, truth)).unwrap()
        };
        let some = found(&|victim, _, mib| if mib > 1 { 1.0 + 0.1 * victim as f64 } else { 1.0 });
        assert_eq!(
            some.curves.iter().map(|curve| curve.victim.as_str()).collect::<Vec<_>>(),
            ["alu", "chase footprint=1MiB", "chase footprint=4MiB"]
        );
        assert_eq!(some.most_sensitive.as_deref(), Some("chase footprint=4MiB"));
        let Some(Ranking::Most { at_least, others_at_most, .. }) = some.ranking else { panic!() };
        assert!(1.1 < others_at_most && others_at_most < at_least && at_least < 1.2);
        let none = found(&|_, _, _| 1.0);
        assert_eq!(none.most_sensitive, None);
        assert!(
            matches!(none.ranking, Some(Ranking::NoneSeen { at_most: Some(most) }) if most < 1.02)
        );
        // Two that are slowed down alike.
        let equal = found(&|victim, _, mib| if mib > 1 && victim > 0 { 1.3 } else { 1.0 });
        let Some(Ranking::NotKnown { among, at_most, .. }) = &equal.ranking else {
            panic!("{:?}", equal.ranking)
        };
        assert_eq!(among.len(), 2);
        assert!(equal.most_sensitive.is_none() && at_most.unwrap() > 1.3);
    }

    // One is slowed down by 30 % for certain; what the other's samples leave possible is more.
    #[test]
    fn noise_crowns_nobody() {
        let plan = plan_of(&["alu", "mcf"], &[Polluter::Write], &[1, 16]);
        let mut seen = [0; 3];
        for seed in 0..60u32 {
            let wild = f64::from(seed % 6) * 0.5;
            let sure = |victim: usize, _: &str, _: u64| if victim == 0 { 1.3 } else { 1.0 };
            let mut samples = samples(&plan, &sure);
            for (number, sample) in samples.iter_mut().enumerate() {
                let case = &plan.cases[sample.case as usize];
                if case.active[0].variant == 1 {
                    let mix =
                        (number as u32 * 7919 + seed * 104_729).wrapping_mul(2_654_435_761) >> 8;
                    let by = (f64::from(mix) / f64::from(1 << 24) - 0.5) * wild;
                    sample.units = (sample.units as f64 * by.exp()) as u64;
                }
            }
            let found = Sensitivity::new(&plan, &samples).unwrap();
            let reach = |victim: &str| {
                let curve = found.curves.iter().find(|curve| curve.victim == victim).unwrap();
                let lows =
                    curve.points.iter().filter_map(|point| Some(point.together.slowdown?.low));
                (lows.fold(1.0, f64::max), curve.at_most())
            };
            let (alu, mcf) = (reach("alu"), reach("mcf"));
            match found.ranking.as_ref().unwrap() {
                Ranking::Most { victim, .. } => {
                    let (crowned, other) = if victim == "alu" { (alu, mcf) } else { (mcf, alu) };
                    assert!(
                        other.1.is_some_and(|most| most < crowned.0),
                        "{seed}: {alu:?} {mcf:?}"
                    );
                    seen[0] += 1;
                }
                Ranking::NotKnown { among, trials_needed, .. } => {
                    assert!(
                        among.contains(&"mcf".to_owned()) && mcf.1.is_none_or(|most| most >= alu.0)
                    );
                    assert!(trials_needed.is_none_or(|trials| trials > 12));
                    seen[1] += 1;
                }
                Ranking::NoneSeen { .. } => seen[2] += 1,
            }
            for curve in &found.curves {
                let own = |point: &&Point| point.finding.verdict == Verdict::Slower;
                let told = curve.points.iter().filter(own).map(|point| point.footprint);
                for footprint in told {
                    let certain = curve.points.iter().any(|point| {
                        point.footprint == footprint && point.together.verdict == Verdict::Slower
                    });
                    assert!(certain != curve.perhaps.contains(&footprint));
                }
            }
        }
        assert!(seen[0] > 0 && seen[1] > 0 && seen[2] == 0, "{seen:?}");
    }

    #[test]
    fn too_few_trials_make_no_curve() {
        let plan = plan_of(&["alu", "mcf"], &[Polluter::Write], &[1, 16]);
        let mut samples = samples(&plan, &|victim, _, _| 1.0 + victim as f64);
        samples.retain(|sample| sample.trial < 3);
        let found = Sensitivity::new(&plan, &samples).unwrap();
        assert_eq!(found.ranking, Some(Ranking::NoneSeen { at_most: None }));
        let missing = found.curves[0].missing();
        assert_eq!(missing, Some((Bytes::mib(1), NotEstimable::TooFewTrials { trials: 3 })));
    }

    #[test]
    fn other_experiments_have_no_curves() {
        let plan = plan_of(&["alu"], &[Polluter::Chase], &[1]);
        let mut other = plan.clone();
        other.experiment.roles[1].name = "aggressor".into();
        assert!(Sensitivity::new(&other, &[]).is_none());
        let nothing = Sensitivity::new(&plan, &[]).unwrap();
        assert!(
            nothing.curves[0].points[0].finding.slowdown.is_none()
                && nothing.curves[0].at_most().is_none()
        );
    }
}
