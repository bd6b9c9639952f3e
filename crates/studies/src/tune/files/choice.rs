//! The choice: a pure function of measured costs.

use ringfence_analysis::estimate::{Logs, NotEstimable};
use ringfence_analysis::quantile::median;
use ringfence_analysis::results;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use ringfence_experiment::task::{Commit, Io, Layout, Sync, Task};
use ringfence_persist::policy::{FileLayout, FilePolicy, FileSync, RegionSync};
use serde::Serialize;

use super::BATCHES;

/// Methods whose costs are within this of the cheapest count as equally good: the plainest of them
/// is chosen.
const SAME: f64 = 0.05;

/// A longer batch is worth it while it is cheaper, for each record, by more than this.
const WORTH: f64 = 0.1;

/// How a batch is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Way {
    /// The call.
    #[cfg_attr(
        feature = "schema",
        schemars(extend("enum" = [
            "fsync", "fdatasync", "o-dsync", "rwf-dsync", "msync", "uring",
        ]))
    )]
    pub sync: Sync,
    /// Whether it is written by a call, or stored to a mapping.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["buffered", "mmap"])))]
    pub io: Io,
    /// What it is written onto.
    pub layout: Layout,
}

/// What most programs do.
pub const PLAIN: Choice = Choice {
    way: Way { sync: Sync::Fdatasync, io: Io::Buffered, layout: Layout::Append },
    batch: 1,
    mapped: Some(Sync::Msync),
};

/// What was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CommitChoice"))]
pub struct Choice {
    /// How a batch is committed.
    #[serde(flatten)]
    pub way: Way,
    /// Records that one sync makes durable.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub batch: u32,
    /// The call for stores to a mapping; `None`: nothing is known of them.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["msync", "fdatasync", null])))]
    pub mapped: Option<Sync>,
}

/// The calls that are compared, the plainest first. `O_SYNC` is left out: what it adds to `O_DSYNC`
/// no reader needs.
pub const SYNCS: [Sync; 6] =
    [Sync::Fdatasync, Sync::Fsync, Sync::ODsync, Sync::RwfDsync, Sync::Msync, Sync::Uring];

/// The layouts, the plainest first.
pub const LAYOUTS: [Layout; 4] =
    [Layout::Append, Layout::Written, Layout::KeepSize, Layout::Allocated];

/// Calls for stores to a mapping, the default first.
pub const MAPPED: [Sync; 2] = [Sync::Msync, Sync::Fdatasync];

/// The cost of a record, by method and batch: the median of trials. Of so many ways some have
/// trials that differ too much for an interval, and one that is left out for that might be the
/// cheapest. Whether it is, fresh trials show.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Costs(pub Vec<Cost>);

/// The cost of a record with one method.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CommitCost"))]
pub struct Cost {
    /// The method.
    #[serde(flatten)]
    pub way: Way,
    /// Records a sync.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub batch: u32,
    /// Nanoseconds for each of them.
    pub ns_per_record: f64,
}

impl Costs {
    /// Those of a measured experiment.
    pub fn new(plan: &Plan, samples: &[Sample]) -> Self {
        let cost = |(case, logs): (usize, Result<Logs, NotEstimable>)| match plan.metric_task(case)
        {
            Task::Commit(commit) => {
                let ns = median(&mut logs.ok()?.logs).exp() / f64::from(commit.batch);
                Some(Cost { way: way(commit), batch: commit.batch, ns_per_record: ns })
            }
            _ => None,
        };
        Self(results::trial_logs(plan, samples).into_iter().filter_map(cost).collect())
    }

    /// The cost with a method and batch.
    pub fn of(&self, way: Way, batch: u32) -> Option<f64> {
        let is_it = |known: &&Cost| (known.way, known.batch) == (way, batch);
        self.0.iter().find(is_it).map(|known| known.ns_per_record)
    }

    // Of ways in order, the first that is as good as the cheapest.
    fn plainest(&self, ways: impl Iterator<Item = Way> + Clone) -> Option<Way> {
        let least = ways.clone().filter_map(|way| self.of(way, 1)).min_by(f64::total_cmp)?;
        ways.into_iter()
            .find(|way| self.of(*way, 1).is_some_and(|cost| cost <= least * (1.0 + SAME)))
    }
}

/// That of a task.
pub fn way(commit: &Commit) -> Way {
    Way { sync: commit.sync, io: commit.io, layout: commit.layout }
}

/// All valid durable methods, the plainest first. `msync` is of a mapping, which makes no file
/// grow.
pub fn ways() -> impl Iterator<Item = Way> + Clone {
    let all =
        LAYOUTS.into_iter().flat_map(|layout| SYNCS.into_iter().map(move |sync| (sync, layout)));
    all.map(|(sync, layout)| Way {
        sync,
        layout,
        io: if sync == Sync::Msync { Io::Mmap } else { Io::Buffered },
    })
    .filter(|way| {
        Commit { sync: way.sync, io: way.io, layout: way.layout, ..Commit::default() }
            .impossible()
            .is_none()
    })
}

/// Methods to make stores to a mapping durable; its blocks were written before, as those of a
/// region are.
pub fn mapped() -> impl Iterator<Item = Way> + Clone {
    MAPPED.into_iter().map(|sync| Way { sync, io: Io::Mmap, layout: Layout::Written })
}

/// Chooses the method by its costs at one record per sync, and the call for a mapping. `None` where
/// no way was measured. Where nothing is known of longer batches, the batch is 1.
pub fn choose(costs: &Costs, batches: Option<&Costs>) -> Option<Choice> {
    let way = costs.plainest(ways())?;
    let mapped = costs.plainest(mapped()).map(|way| way.sync);
    let batch = batches.and_then(|batches| batch(batches, way)).unwrap_or(1);
    Some(Choice { way, batch, mapped })
}

// The shortest one at which a further one brings little.
fn batch(costs: &Costs, way: Way) -> Option<u32> {
    let cost = |batch: u32| costs.of(way, batch);
    let least = BATCHES.into_iter().filter_map(cost).min_by(f64::total_cmp)?;
    BATCHES.into_iter().find(|batch| cost(*batch).is_some_and(|cost| cost <= least * (1.0 + WORTH)))
}

impl Choice {
    /// As a policy has it.
    ///
    /// # Panics
    /// If the way is not durable: none such is chosen.
    pub fn policy(&self) -> FilePolicy {
        let sync: FileSync = self.way.sync.name().parse().expect("only durable methods are chosen");
        let layout: FileLayout =
            self.way.layout.name().parse().expect("policies have the same words");
        let mapped =
            |sync: Sync| sync.name().parse::<RegionSync>().expect("policies have the same words");
        FilePolicy { sync, layout, batch: self.batch, mapped: self.mapped.map(mapped) }
    }
}

#[cfg(test)]
mod tests {
    use ringfence_analysis::estimate::{Finding, Interval, NotEstimable};
    use ringfence_persist::policy::{FileLayout, FileSync, RegionSync};

    use super::*;
    use crate::tune::files::run::{Compared, Compares, settle};

    // Ways cost what is given for their layout, and a factor for the call.
    fn costs(layouts: [f64; 4], factor: impl Fn(Sync) -> f64) -> Costs {
        let of =
            |layout: Layout| layouts[LAYOUTS.iter().position(|known| *known == layout).unwrap()];
        let all = ways().chain(mapped().filter(|way| way.sync != Sync::Msync));
        Costs(all.map(|way| cost(way, 1, of(way.layout) * factor(way.sync))).collect())
    }

    fn by_batch(way: Way, costs: [f64; 4]) -> Costs {
        Costs(BATCHES.into_iter().zip(costs).map(|(batch, ns)| cost(way, batch, ns)).collect())
    }

    fn cost(way: Way, batch: u32, ns_per_record: f64) -> Cost {
        Cost { way, batch, ns_per_record }
    }

    #[test]
    fn only_durable_ways_that_there_can_be_are_compared() {
        let all: Vec<Way> = ways().collect();
        assert_eq!(all.len(), 5 * 4 + 2, "msync makes no file grow");
        assert!(all.iter().all(|way| way.sync.durable()));
        assert_eq!(all[0], PLAIN.way, "the plainest is the first");
        for way in all {
            let policy = Choice { way, ..PLAIN }.policy();
            assert_eq!(
                (policy.sync.name(), policy.layout.name()),
                (way.sync.name(), way.layout.name())
            );
        }
    }

    #[test]
    fn the_cheapest_way_is_taken_and_of_equal_ones_the_plainest() {
        let even = |_| 1.0;
        let choice = choose(&costs([400.0, 200.0, 390.0, 391.0], even), None).unwrap();
        let written = Way { layout: Layout::Written, ..PLAIN.way };
        assert_eq!(choice, Choice { way: written, batch: 1, mapped: Some(Sync::Msync) });
        // Within a twentieth of the cheapest: no reason to leave the plain way.
        let near = |sync| if sync == Sync::Uring { 0.96 } else { 1.0 };
        assert_eq!(choose(&costs([400.0, 400.0, 400.0, 400.0], near), None).unwrap(), PLAIN);
        let far = |sync| if sync == Sync::Uring { 0.8 } else { 1.0 };
        let choice = choose(&costs([400.0, 300.0, 400.0, 400.0], far), None).unwrap();
        assert_eq!(choice.way, Way { sync: Sync::Uring, ..written });
        let policy = choice.policy();
        assert_eq!((policy.sync, policy.layout), (FileSync::Uring, FileLayout::Written));
        assert_eq!(policy.on_a_mapping(), RegionSync::Msync);
    }

    #[test]
    fn what_has_no_figure_is_not_taken() {
        let mut some = costs([400.0, 200.0, 300.0, 300.0], |_| 1.0);
        some.0.retain(|known| known.way.layout != Layout::Written);
        let choice = choose(&some, None).unwrap();
        assert_eq!(choice.way.layout, Layout::KeepSize);
        assert_eq!(choice.mapped, None, "nothing is known of mappings");
        assert_eq!(
            choice.policy().on_a_mapping(),
            RegionSync::Fdatasync,
            "it follows from the call for writes"
        );
        assert_eq!(choose(&Costs::default(), None), None);
    }

    #[test]
    fn a_batch_is_as_long_as_it_is_worth() {
        let costs = costs([400.0, 400.0, 400.0, 400.0], |_| 1.0);
        let batch = |of: [f64; 4]| choose(&costs, Some(&by_batch(PLAIN.way, of))).unwrap().batch;
        assert_eq!(batch([400.0, 110.0, 40.0, 12.0]), 64);
        assert_eq!(batch([400.0, 110.0, 41.0, 40.0]), 16);
        assert_eq!(batch([400.0, 380.0, 390.0, 370.0]), 1);
        // By another way nothing is known.
        let other = by_batch(Way { sync: Sync::Fsync, ..PLAIN.way }, [400.0, 100.0, 25.0, 6.0]);
        assert_eq!(choose(&costs, Some(&other)).unwrap().batch, 1);
    }

    fn compared(what: Compares, low: f64, high: f64) -> Compared {
        let value = (low * high).sqrt();
        let ratio =
            Ok(Interval { value, low, high, level: 0.95, trials: 10, spread: 0.1, slack: 0.0 });
        Compared { what, finding: Finding::new(&ratio, 0.02), ratio }
    }

    #[test]
    fn the_policy_has_what_fresh_trials_show_to_be_cheaper_and_else_the_plain_way() {
        use Compares::{Batch, Mapped, PlainBatch, Way as Called};
        let way = Way { layout: Layout::Written, ..PLAIN.way };
        let choice = Choice { way, batch: 16, mapped: Some(Sync::Fdatasync) };
        let (faster, slower, undecided, same) =
            ((0.4, 0.6), (1.1, 1.3), (0.7, 1.3), (0.995, 1.005));
        let settled = |all: &[(Compares, (f64, f64))]| {
            let all: Vec<Compared> =
                all.iter().map(|(what, (low, high))| compared(*what, *low, *high)).collect();
            let Choice { way, batch, mapped } = settle(&choice, &all);
            (way.layout.name(), batch, mapped.unwrap().name())
        };
        assert_eq!(
            settled(&[(Called, faster), (Batch, faster), (PlainBatch, undecided)]),
            ("written", 16, "msync")
        );
        assert_eq!(
            settled(&[(Called, faster), (Batch, slower), (PlainBatch, faster)]),
            ("written", 1, "msync")
        );
        for not_faster in [slower, undecided, same] {
            let all = [(Called, not_faster), (Batch, faster), (PlainBatch, faster)];
            assert_eq!(settled(&all), ("append", 16, "msync"));
            let all = [(Called, not_faster), (Batch, faster), (PlainBatch, not_faster)];
            assert_eq!(settled(&all), ("append", 1, "msync"));
            // Calls for a mapping are apart from how records are written.
            assert_eq!(settled(&[(Mapped, not_faster)]), ("append", 1, "msync"));
        }
        assert_eq!(settled(&[(Called, faster), (Mapped, faster)]), ("written", 1, "fdatasync"));
        // Without a figure nothing is shown.
        let unknown = Err(NotEstimable::TooFewTrials { trials: 2 });
        let nothing =
            |what| Compared { what, finding: Finding::new(&unknown, 0.02), ratio: unknown };
        let plain = settle(&choice, &[nothing(Called), nothing(Batch), nothing(Mapped)]);
        assert_eq!(plain, PLAIN);
        assert_eq!(settle(&Choice { mapped: None, ..choice }, &[]).mapped, None);
        // Of the plain way there is one comparison of batches.
        let batch = Choice { batch: 16, ..PLAIN };
        assert_eq!(settle(&batch, &[compared(Batch, 0.1, 0.2)]), batch);
        assert_eq!(settle(&batch, &[compared(Batch, 0.7, 1.2)]), PLAIN);
    }

    mod experiments {
        use std::path::PathBuf;

        use ringfence_experiment::plan::Plan;
        use ringfence_experiment::task::Task;
        use ringfence_machine::units::Bytes;
        use ringfence_machine::{fixtures, topology::Topology};

        use super::super::super::{Question, experiments};
        use super::*;

        fn plan(experiment: &ringfence_experiment::Experiment) -> Plan {
            let topology = Topology::read(&fixtures::vm_2cpu().root()).unwrap();
            Plan::new(experiment, &topology, None).unwrap()
        }

        fn question() -> Question {
            let (syncs, layouts) = (SYNCS.to_vec(), LAYOUTS.to_vec());
            let (dir, record) = ("/data, not a list".into(), Bytes::kib(4));
            Question { dir, record, size: None, syncs, layouts, trials: None, seed: 1 }
        }

        fn commit(plan: &Plan, case: usize) -> &Commit {
            match plan.metric_task(case) {
                Task::Commit(commit) => commit,
                other => panic!("{other:?} is no commit"),
            }
        }

        #[test]
        fn the_costs_are_of_every_way_and_no_other() {
            let plan = plan(&experiments::costs(&question()));
            assert!(plan.not_run.is_empty(), "{:?}", plan.not_run);
            let measured: Vec<Way> =
                plan.measured().into_iter().map(|case| way(commit(&plan, case))).collect();
            assert!(ways().chain(mapped()).all(|way| measured.contains(&way)));
            assert_eq!(measured.len(), 5 * 4 + 3);
            assert_eq!(commit(&plan, 0).dir, PathBuf::from("/data, not a list"));
            let measured = |syncs: &[Sync], layouts: &[Layout]| -> Vec<Way> {
                let some = Question { syncs: syncs.into(), layouts: layouts.into(), ..question() };
                let plan = self::plan(&experiments::costs(&some));
                plan.measured().into_iter().map(|case| way(commit(&plan, case))).collect()
            };
            let written = Way { layout: Layout::Written, ..PLAIN.way };
            assert_eq!(
                measured(&[Sync::Fdatasync], &[Layout::Append, Layout::Written]),
                [PLAIN.way, written]
            );
            // The plain way is there, whatever there is to choose from.
            assert_eq!(measured(&[Sync::Fdatasync], &[Layout::Written]), [PLAIN.way, written]);
            let on_a_mapping: Vec<Way> = mapped().collect();
            assert_eq!(measured(&[Sync::Msync], &[Layout::Written])[1..], on_a_mapping);
            assert_eq!(measured(&[Sync::Msync], &[Layout::Append]), [PLAIN.way]);
            // Two of the longest batches find room, whatever the record.
            let large = Question { record: Bytes::kib(64), ..question() };
            let plan = self::plan(&experiments::batches(&large, PLAIN.way));
            let batches: Vec<u32> =
                (0..plan.cases.len()).map(|case| commit(&plan, case).batch).collect();
            assert_eq!(batches, BATCHES);
        }

        #[test]
        fn the_confirmation_compares_where_the_choice_differs() {
            let way = Way { layout: Layout::Written, ..PLAIN.way };
            let pairs = |choice: Choice| -> Option<Vec<String>> {
                let plan = plan(&experiments::confirmation(&question(), &choice)?);
                let told = |case: usize| {
                    let commit = commit(&plan, case);
                    format!("{} {} {} {}", commit.sync, commit.io, commit.layout, commit.batch)
                };
                let compared = plan.measured().into_iter().filter_map(|case| {
                    Some(format!("{} for {}", told(case), told(plan.cases[case].baseline?)))
                });
                Some(compared.collect())
            };
            let plain = "fdatasync buffered append 1";
            assert_eq!(pairs(PLAIN), None);
            assert_eq!(
                pairs(Choice { way, ..PLAIN }).unwrap(),
                [format!("fdatasync buffered written 1 for {plain}")]
            );
            assert_eq!(
                pairs(Choice { way, batch: 16, mapped: Some(Sync::Fdatasync) }).unwrap(),
                [
                    format!("fdatasync buffered written 1 for {plain}"),
                    format!("fdatasync buffered written 16 for {plain}"),
                    format!("fdatasync buffered append 16 for {plain}"),
                    "fdatasync mmap written 1 for msync mmap written 1".into(),
                ]
            );
            let mapping = Choice { mapped: Some(Sync::Fdatasync), ..PLAIN };
            assert_eq!(
                pairs(mapping).unwrap(),
                ["fdatasync mmap written 1 for msync mmap written 1"]
            );
        }
    }
}
