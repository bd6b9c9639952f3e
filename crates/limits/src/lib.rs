//! Limits of tasks while an arm runs, and the levers that offer them: caches and bandwidth by
//! resctrl, the CPU's time, disks and memory by control groups, the order of requests to a disk by
//! the threads' I/O priority, and, where that is allowed, settings of the whole system.
//!
//! Each kind of [`Limit`](ringfence_experiment::Limit) has a file here: how it is applied, as a row
//! of [`KINDS`], and the lever that offers it. One that running processes can have is a row of
//! [`OWN_GROUP`] as well. An arm that asks for what this machine does not have is not run.

#![forbid(unsafe_code)]

pub mod attachment;
pub mod cgroup;
mod cpu_weight;
mod cpuset;
mod disk;
mod disk_io;
mod disk_weight;
mod disk_write;
mod frozen;
mod groups;
mod io_priority;
mod kind;
pub mod lever;
mod memory_high;
pub mod own_group;
pub mod quota;
pub mod resctrl;
pub mod running;
mod setting;
pub mod system;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::task::Task;
use ringfence_experiment::{Arm, Error, Reason};
use ringfence_machine::root::FsRoot;
use ringfence_system::changes::{Options, PutBack, Whose};

pub use kind::{Isolation, Kind, Tasks};
pub use resctrl::Settings;

use lever::Lever;
use own_group::OwnGroup;

/// All kinds of isolation.
pub const KINDS: [&dyn Kind; 8] = [
    &resctrl::ByResctrl,
    &OWN_GROUP,
    &cpu_weight::KIND,
    &disk_write::KIND,
    &disk_weight::KIND,
    &memory_high::KIND,
    &io_priority::ByPriority,
    &system::BySystem,
];

/// Limits of running processes.
pub const OWN_GROUP: OwnGroup =
    OwnGroup(&[cpu_weight::in_place, disk_write::in_place, cpuset::in_place]);

/// The levers that limit the CPU's time, in the order in which they are shown.
pub const CPU_LEVERS: [&dyn Lever; 4] =
    [&quota::Quota, &cpu_weight::Weight, &cpuset::Cpuset, &frozen::Duty];

/// Those of disks, memory and caches.
pub const MEMORY_LEVERS: [&dyn Lever; 10] = [
    &disk_write::IoLimit,
    &io_priority::IoNice,
    &disk_weight::IoWeight,
    &memory_high::MemoryHigh,
    &system::Scheduler,
    &system::QueueRequests,
    &system::DirtyBackground,
    &resctrl::Ways,
    &resctrl::Bandwidth,
    &resctrl::Both,
];

/// Those that a plan asks for, begun. Arms that this machine cannot hold are not run, and want
/// nothing of it.
///
/// # Errors
/// Where one of them is not there, is in use by another process, or refuses.
pub fn begin(plan: &Plan) -> Result<Vec<Box<dyn Isolation>>, Error> {
    let mut wanted: BTreeSet<usize> = BTreeSet::new();
    // If no case of an experiment could be run, its plan keeps those for which something is
    // missing.
    for case in plan.run_cases().collect::<BTreeSet<usize>>() {
        let case = &plan.cases[case];
        let Some(arm) = plan.experiment.arms.iter().find(|arm| arm.name == case.arm) else {
            continue;
        };
        if let Some(why) = missing(plan, arm, &case.active) {
            return Err(Error::usage(format!("arm '{}' cannot be run, because {why}", arm.name)));
        }
        wanted.extend((0..KINDS.len()).filter(|kind| KINDS[*kind].wanted(arm)));
    }
    let begun = wanted.into_iter().filter_map(|kind| KINDS[kind].begin(plan).transpose());
    begun.collect()
}

/// What this machine lacks for an arm of a plan while these run, if anything.
pub fn missing(plan: &Plan, arm: &Arm, active: &[Active]) -> Option<Reason> {
    KINDS
        .iter()
        .filter(|kind| kind.wanted(arm))
        .find_map(|kind| kind.missing(plan, arm, active))
        .or_else(|| active.iter().find_map(|active| conflict(plan, arm, active)))
}

// Why a task cannot have all of its limits at once.
fn conflict(plan: &Plan, arm: &Arm, active: &Active) -> Option<Reason> {
    let variant = &plan.variants[active.role][active.variant];
    let quota = variant.quota.filter(|_| matches!(variant.task, Task::Command(_)));
    let mut groups: Vec<_> =
        quota.map(|share| ("quota", quota::settings(share))).into_iter().collect();
    for limit in arm.limits_of(&plan.experiment.roles[active.role].name) {
        let of_kind = KINDS.iter().filter_map(|kind| kind.group(limit, &variant.task));
        groups.extend(of_kind.map(|settings| (limit.key(), settings)));
    }
    if groups.len() < 2 { None } else { groups::conflict(&groups) }
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
    KINDS.iter().filter_map(|kind| kind.recover().ok()).flatten().collect()
}

/// Control groups left over from an earlier version of this program, which wrote no journal.
pub fn unclaimed_groups(root: &FsRoot) -> Vec<PathBuf> {
    cgroup::unclaimed(root)
}

/// Removes the groups that hold no process.
pub fn sweep_groups(root: &FsRoot) {
    cgroup::sweep(root);
}
