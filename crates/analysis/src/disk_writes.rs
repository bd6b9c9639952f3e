//! Whether commits reached the disk, by its own count of write requests. A pure function of a plan
//! and its samples.

use std::collections::BTreeMap;

use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use ringfence_experiment::task::Task;
use serde::Serialize;

/// A way to commit that is durable by what the kernel promises, and of which not every commit
/// reached the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unreached {
    /// The case.
    pub case: usize,
    /// Commits in its windows.
    pub commits: u64,
    /// Write requests that the disk completed meanwhile, of all processes.
    pub writes: u64,
}

/// Those of a measurement. Each commit of a single writer makes one request at least; several
/// writers' may be merged, and are not looked at. Others' requests are counted too, so that commits
/// can be missed, and none is accused wrongly.
pub fn unreached(plan: &Plan, samples: &[Sample]) -> Vec<Unreached> {
    let mut sums: BTreeMap<usize, (Unreached, u64)> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| *sample.role == *plan.experiment.metric) {
        let case = sample.case as usize;
        let single = case < plan.cases.len()
            && matches!(
                plan.metric_task(case),
                Task::Commit(task) if task.sync.durable() && task.writers == 1
            )
            && plan.cases[case]
                .active
                .iter()
                .any(|active| active.role == plan.metric && active.count == 1);
        let writes = |sample: &Sample| {
            sample.stretches.as_ref()?.iter().map(|one| one.disk_writes).sum::<Option<u64>>()
        };
        if let Some(writes) = writes(sample).filter(|_| single) {
            let (sum, windows) =
                sums.entry(case).or_insert((Unreached { case, commits: 0, writes: 0 }, 0));
            sum.commits += sample.units;
            sum.writes += writes;
            *windows += 1;
        }
    }
    // A window may begin or end within a commit.
    sums.into_values()
        .filter(|(sum, windows)| sum.writes + windows < sum.commits)
        .map(|(sum, _)| sum)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ringfence_experiment::Experiment;
    use ringfence_experiment::stretch::Stretch;
    use ringfence_machine::fixtures;
    use ringfence_machine::topology::Topology;

    use super::*;

    fn found(task: &str, windows: &[(u64, Option<u64>)]) -> Vec<(u64, u64)> {
        let text = format!(
            "schema = 2\nname = 'x'\nmetric = 'a'\n[measure]\nwindow = '400ms'\n[[role]]\nname = \
             'a'\ntask = {{ workload = 'commit'{task} }}\n\
             [[arm]]\nname = 'b'\nactive = ['a']\n"
        );
        let topology = Topology::read(&fixtures::vm_2cpu().root()).unwrap();
        let plan = Plan::new(&Experiment::parse(&text).unwrap(), &topology, None).unwrap();
        let sample = |(units, disk_writes): &(u64, Option<u64>)| Sample {
            role: "a".into(),
            units: *units,
            stretches: Some(Arc::new([Stretch {
                disk_writes: *disk_writes,
                ..Stretch::default()
            }])),
            ..Sample::default()
        };
        let samples: Vec<Sample> = windows.iter().map(sample).collect();
        unreached(&plan, &samples).iter().map(|one| (one.commits, one.writes)).collect()
    }

    #[test]
    fn who_commits_more_often_than_the_disk_writes_is_found() {
        assert_eq!(found("", &[(100, Some(3)), (50, Some(0))]), [(150, 3)]);
        // A commit at each window's edge may be of another; and a request for each commit is
        // enough.
        assert_eq!(found("", &[(100, Some(99)), (50, Some(49))]), []);
        assert_eq!(found("", &[(100, Some(250))]), []);
    }

    #[test]
    fn nobody_is_accused_of_what_is_not_known_or_promised() {
        assert_eq!(found("", &[(100, None)]), []);
        assert_eq!(found(", sync = 'none'", &[(100, Some(0))]), []);
        assert_eq!(found(", writers = 4", &[(100, Some(30))]), []);
    }
}
