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

/// Ways whose costs are within this of the cheapest are as good as it: of them the plainest is taken.
const SAME: f64 = 0.05;

/// A longer batch is worth it while it is cheaper, for each record, by more than this.
const WORTH: f64 = 0.1;

/// How a batch is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Way {
    /// The call.
    pub sync: Sync,
    /// Whether it is written by a call, or stored to a mapping.
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
pub struct Choice {
    /// How a batch is committed.
    #[serde(flatten)]
    pub way: Way,
    /// Records that one sync makes durable.
    pub batch: u32,
    /// The call for stores to a mapping; `None`: nothing is known of them.
    pub mapped: Option<Sync>,
}

/// The calls that are compared, the plainest first. `O_SYNC` is left out: what it adds to `O_DSYNC` no reader needs.
pub const SYNCS: [Sync; 6] =
    [Sync::Fdatasync, Sync::Fsync, Sync::ODsync, Sync::RwfDsync, Sync::Msync, Sync::Uring];

/// The layouts, the plainest first.
pub const LAYOUTS: [Layout; 4] = [Layout::Append, Layout::Written, Layout::KeepSize, Layout::Allocated];

/// Calls for stores to a mapping, the default first.
pub const MAPPED: [Sync; 2] = [Sync::Msync, Sync::Fdatasync];

/// What a record costs, by way and batch: the median of trials. Of so many ways some have trials that differ too much for
/// an interval, and one that is left out for that might be the cheapest. Whether it is, fresh trials show.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Costs(pub Vec<Cost>);

/// What a record costs in one way.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    /// The way.
    #[serde(flatten)]
    pub way: Way,
    /// Records a sync.
    pub batch: u32,
    /// Nanoseconds for each of them.
    pub ns_per_record: f64,
}

impl Costs {
    /// Those of a measured experiment.
    pub fn new(plan: &Plan, samples: &[Sample]) -> Self {
        let cost = |(case, logs): (usize, Result<Logs, NotEstimable>)| match plan.metric_task(case) {
            Task::Commit(commit) => {
                let ns = median(&mut logs.ok()?.logs).exp() / f64::from(commit.batch);
                Some(Cost { way: way(commit), batch: commit.batch, ns_per_record: ns })
            }
            _ => None,
        };
        Self(results::trial_logs(plan, samples).into_iter().filter_map(cost).collect())
    }

    /// That of a way and batch.
    pub fn of(&self, way: Way, batch: u32) -> Option<f64> {
        let is_it = |known: &&Cost| (known.way, known.batch) == (way, batch);
        self.0.iter().find(is_it).map(|known| known.ns_per_record)
    }

    // Of ways in order, the first that is as good as the cheapest.
    fn plainest(&self, ways: impl Iterator<Item = Way> + Clone) -> Option<Way> {
        let least = ways.clone().filter_map(|way| self.of(way, 1)).min_by(f64::total_cmp)?;
        ways.into_iter().find(|way| self.of(*way, 1).is_some_and(|cost| cost <= least * (1.0 + SAME)))
    }
}

/// That of a task.
pub fn way(commit: &Commit) -> Way {
    Way { sync: commit.sync, io: commit.io, layout: commit.layout }
}

/// All ways that are durable and that there can be, the plainest first. `msync` is of a mapping, which makes no file grow.
pub fn ways() -> impl Iterator<Item = Way> + Clone {
    let all = LAYOUTS.into_iter().flat_map(|layout| SYNCS.into_iter().map(move |sync| (sync, layout)));
    all.map(|(sync, layout)| Way {
        sync,
        layout,
        io: if sync == Sync::Msync { Io::Mmap } else { Io::Buffered },
    })
    .filter(|way| {
        Commit { sync: way.sync, io: way.io, layout: way.layout, ..Commit::default() }.impossible().is_none()
    })
}

/// Ways to make stores to a mapping durable, whose blocks were written before, as those of a region are.
pub fn mapped() -> impl Iterator<Item = Way> + Clone {
    MAPPED.into_iter().map(|sync| Way { sync, io: Io::Mmap, layout: Layout::Written })
}

/// The way by its costs at one record a sync, and the call for a mapping. `None` where no way was measured. Where nothing
/// is known of longer batches, the batch is 1.
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
        let sync: FileSync = self.way.sync.name().parse().expect("only durable ways are chosen");
        let layout: FileLayout = self.way.layout.name().parse().expect("policies have the same words");
        let mapped = |sync: Sync| sync.name().parse::<RegionSync>().expect("policies have the same words");
        FilePolicy { sync, layout, batch: self.batch, mapped: self.mapped.map(mapped) }
    }
}

#[cfg(test)]
#[path = "../../../tests/inside/tune_files.rs"]
mod tests;
