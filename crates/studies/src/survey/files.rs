//! What a durable commit costs in a folder, and, on request, which writers stall it there.
//!
//! Stalling a disk stalls every process that uses it, so a first command does not do it.

use std::path::{Path, PathBuf};

use ringfence_experiment::task::{Commit, Commits, Dirties, DirtyIo, Io, Layout, Sync, Tasks};
use ringfence_experiment::units::Span;
use ringfence_experiment::{Arm, Experiment, Kind, Measure, Reason, Role};
use ringfence_machine::Machine;
use ringfence_machine::units::Bytes;

use super::Depth;

/// A folder whose file system is surveyed too.
#[derive(Debug, Clone)]
pub struct Files {
    /// The folder, by an absolute path that is text.
    pub dir: PathBuf,
    /// Whether writers may stall its disk.
    pub disturb: bool,
}

impl Files {
    /// The experiments, in the order in which they are run.
    pub(crate) fn experiments(&self, depth: Depth, seed: u64) -> Vec<Experiment> {
        let mut all = vec![commits(depth, &self.dir, seed)];
        all.extend(self.disturb.then(|| stalls(depth, &self.dir, seed)));
        all
    }

    /// Why nothing of it can be measured here.
    pub(super) fn unmet(&self, machine: &Machine) -> Option<Reason> {
        if machine.simulated.is_some() {
            return Some("files are not simulated".into());
        }
        let ordinary = Commit { dir: self.dir.clone(), size: LOG, ..Commit::default() };
        ringfence_workloads::commit::try_out(&ordinary).err()
    }
}

// A few MiB, so that a survey leaves next to nothing in the page cache.
const LOG: Bytes = Bytes::mib(4);
const COMMITTER: &str = "committer";
const WRITER: &str = "writer";

// What most programs that need durability do, as many ways as there is time for: `commit` has all.
fn commits(depth: Depth, dir: &Path, seed: u64) -> Experiment {
    let task = |syncs: &[Sync], io: Io, layout: Layout| -> Tasks {
        let commits = Commits::default().dir(dir.to_path_buf()).sync(syncs.to_vec());
        commits.io(io).layout(layout).size(LOG).into()
    };
    let (seconds, append): (_, &[Sync]) = match depth {
        Depth::Full => (15, &[Sync::Fsync, Sync::Fdatasync, Sync::ODsync, Sync::Uring]),
        Depth::Quick => (7, &[Sync::Fsync, Sync::Fdatasync]),
    };
    let mut tasks = vec![
        task(append, Io::Buffered, Layout::Append),
        task(&[Sync::Fdatasync], Io::Buffered, Layout::Written),
    ];
    if depth == Depth::Full {
        tasks.push(task(&[Sync::ODsync], Io::Direct, Layout::Written));
    }
    Experiment {
        seed,
        measure: measure(seconds),
        roles: vec![Role::new(COMMITTER, tasks)],
        arms: vec![Arm::new("commit", &[COMMITTER], None)],
        kind: Some(Kind::SurveyFiles),
        ..Experiment::asking(
            "commits",
            "What does a durable commit to a file cost here?",
            COMMITTER,
        )
    }
}

fn stalls(depth: Depth, dir: &Path, seed: u64) -> Experiment {
    // In 40 s three of them have as many trials as a figure takes, beside commits that take a
    // second each.
    let ways: &[DirtyIo] = match depth {
        Depth::Full => &[
            DirtyIo::Wait,
            DirtyIo::Write,
            DirtyIo::Fdatasync,
            DirtyIo::Direct,
            DirtyIo::Dontcache,
        ],
        Depth::Quick => &[DirtyIo::Fdatasync, DirtyIo::Direct, DirtyIo::Dontcache],
    };
    let victim = Commits::default().dir(dir.to_path_buf()).layout(Layout::Written);
    let writer = Dirties::default().dir(dir.to_path_buf()).io(ways.to_vec());
    let seconds = if depth == Depth::Full { 72 } else { 40 };
    Experiment {
        seed,
        measure: measure(seconds),
        roles: vec![Role::new(COMMITTER, victim), Role::new(WRITER, writer)],
        arms: vec![
            Arm::new("alone", &[COMMITTER], None),
            Arm::new("beside", &[COMMITTER, WRITER], Some("alone")),
        ],
        kind: Some(Kind::SurveyFiles),
        ..Experiment::asking(
            "commits-beside-writers",
            "Whose writing stalls my commits here?",
            COMMITTER,
        )
    }
}

fn measure(seconds: u64) -> Measure {
    Measure {
        looks: vec![10],
        rounds: 1,
        window: Commit::LEAST_WINDOW,
        probe: Span::ms(0),
        time: Some(Span::ms(1000 * seconds)),
        ..Measure::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_experiment::plan::Plan;
    use ringfence_experiment::task::{Dirty, Task};
    use ringfence_machine::fixtures;
    use ringfence_machine::topology::Topology;

    #[test]
    fn writers_come_only_where_somebody_asks_for_them() {
        let topology = Topology::read(&fixtures::vm_2cpu().root()).unwrap();
        let files = |disturb| Files { dir: "/data, not a list".into(), disturb };
        for (depth, expected, writers) in
            [(Depth::Full, 6, DirtyIo::ALL.len() - 1), (Depth::Quick, 3, 3)]
        {
            let [alone] = &files(false).experiments(depth, 1)[..] else { panic!("one experiment") };
            let plan = Plan::new(alone, &topology, None).unwrap();
            let tasks = plan.variants.iter().flatten().map(|variant| &variant.task);
            let mut ways = 0;
            for task in tasks {
                let Task::Commit(commit) = task else { panic!("{task:?} is no commit") };
                assert!(commit.sync.durable() && commit.dir == Path::new("/data, not a list"));
                ways += 1;
            }
            assert_eq!((ways, plan.cases.len()), (expected, expected));
            let both = files(true).experiments(depth, 1);
            let plan = Plan::new(&both[1], &topology, None).unwrap();
            assert_eq!(plan.cases.len(), 1 + writers);
            assert!(matches!(
                &plan.variants[1][0].task,
                Task::Dirty(Dirty { dir, .. }) if dir == &files(true).dir
            ));
        }
    }
}
