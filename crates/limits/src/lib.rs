//! What sets tasks apart from one another while an arm runs: caches and bandwidth by resctrl, the
//! CPU's time, disks and memory by control groups, the order of requests to a disk by the threads'
//! I/O priority, and, where that is allowed, settings of the whole system.
//!
//! A way to isolate is an [`Isolation`] and a row in [`KINDS`]. An arm that asks for what no row
//! knows cannot be written, and one that asks for what this machine does not have is not run.

#![forbid(unsafe_code)]

pub mod attachment;
pub mod cgroup;
mod cpuset;
pub mod disk;
pub mod disk_weight;
mod error;
mod groups;
pub mod io_priority;
mod kind;
pub mod limit;
pub mod memory;
pub mod own_group;
pub mod resctrl;
pub mod running;
mod settings;
pub mod system;
mod weight;

use std::path::PathBuf;
use std::time::Duration;

use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::{Arm, Reason};
use ringfence_machine::root::FsRoot;
use ringfence_system::changes::{Options, PutBack, Whose};

pub use error::Error;
pub use kind::{Isolation, Kind, Tasks};
pub use limit::Version;
pub use settings::Settings;

/// All of them.
pub const KINDS: [Kind; 8] = [
    resctrl::KIND,
    own_group::KIND,
    weight::KIND,
    disk::KIND,
    disk_weight::KIND,
    memory::KIND,
    io_priority::KIND,
    system::KIND,
];

/// Those that a plan asks for, begun. Arms that this machine cannot hold are not run, and want
/// nothing of it.
///
/// # Errors
/// Where one of them is not there, is in use by another process, or refuses.
pub fn begin(plan: &Plan) -> Result<Vec<Box<dyn Isolation>>, Error> {
    let wanted = |kind: &&Kind| {
        plan.run_cases().any(|case| {
            let name = &plan.cases[case].arm;
            plan.experiment.arms.iter().any(|arm| arm.name == *name && (kind.wanted)(arm))
        })
    };
    let begun = KINDS.iter().filter(wanted).filter_map(|kind| (kind.begin)(plan).transpose());
    begun.collect()
}

/// What this machine lacks for an arm of a plan while these run, if anything.
pub fn missing(plan: &Plan, arm: &Arm, active: &[Active]) -> Option<Reason> {
    KINDS
        .iter()
        .filter(|kind| (kind.wanted)(arm))
        .find_map(|kind| (kind.missing)(plan, arm, active))
}

// How long a killed program may take to die and to release its journal.
const DYING: Duration = Duration::from_secs(2);

/// Restores the leftovers of this program, which has ended or is about to. What fails is left to
/// the next start.
pub fn recover(owner: u32) {
    let root = FsRoot::host();
    ringfence_system::changes::put_back_left(&root, Whose::Of(owner, DYING), &Options::default());
    recover_others(&root);
}

/// Restores the leftovers of programs that no longer run. Returned is what should be known of that,
/// one sentence each; what fails is tried again by the next start.
pub fn recover_all() -> Vec<String> {
    let root = FsRoot::host();
    let all = ringfence_system::changes::put_back_left(&root, Whose::Anybody, &Options::default());
    let others = recover_others(&root);
    let said = |one: PutBack| match one.result {
        Ok(restored) => restored.said().cloned().collect(),
        Err(error) => vec![error.to_string()],
    };
    all.into_iter().flat_map(said).chain(others).collect()
}

fn recover_others(root: &FsRoot) -> Vec<String> {
    cgroup::sweep(root);
    KINDS.iter().filter_map(|kind| (kind.recover)().ok()).flatten().collect()
}

/// Control groups left over from an earlier version of this program, which wrote no journal.
pub fn unclaimed_groups(root: &FsRoot) -> Vec<PathBuf> {
    cgroup::unclaimed(root)
}

/// Removes the groups that hold no process.
pub fn sweep_groups(root: &FsRoot) {
    cgroup::sweep(root);
}
