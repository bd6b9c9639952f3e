//! What is written to disks, limited by control groups: `blkio.throttle.write_bps_device` of version 1, `io.max` of
//! version 2 (kernel documentation, admin-guide/cgroup-v1/blkio-controller and admin-guide/cgroup-v2).
//!
//! What is limited is what the group's processes give to the disk themselves: around the page cache, or by a sync of
//! what they wrote. What the kernel's threads write back is charged to nobody's group in version 1. In version 2 it is
//! charged to the group in which a page was first cached, and a process that is moved takes no pages along (there,
//! "Memory Ownership" and "Writeback").

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ringfence_experiment::Arm;
use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::task::Task;
use ringfence_experiment::units::Rate;
use ringfence_machine::medium::Medium;
use ringfence_machine::root::FsRoot;

use super::cgroup::{self, Limit, Version};
use super::grouped::{self, Grouped};
use super::kind::Kind;
use crate::EngineError;

pub use super::cgroup::WRITE_BPS;

/// Isolation by a limit of what is written.
pub const KIND: Kind = Kind {
    wanted: |arm| !arm.disk_write.is_empty(),
    missing,
    begin: |plan| Ok(Some(Box::new(begin(plan)?))),
    // The journal of changes has it.
    recover: || Ok(Vec::new()),
};

/// A disk as control groups know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// The kernel's name, such as `vda`.
    pub name: String,
    /// `MAJOR:MINOR`.
    pub number: String,
    /// The scheduler in use; `none` is one.
    pub scheduler: Option<String>,
}

/// How what a task writes can be limited here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Here {
    /// The disks below its folder, each of which has the limit.
    pub disks: Vec<Disk>,
    /// The version of control groups that does it.
    pub version: Version,
    /// The group below which one can be made.
    pub parent: PathBuf,
}

/// How what a task writes can be limited on this machine: a group is made for that, and removed.
///
/// # Errors
/// Why it cannot, to follow "because".
pub fn here(task: &Task) -> Result<Here, String> {
    let root = FsRoot::host();
    let disks = disks_of(&root, task)?;
    let group = cgroup::try_make(&root, &unlimited(numbers(&disks))).map_err(no_group)?;
    let parent = group.path().parent().unwrap_or(Path::new("/")).to_owned();
    Ok(Here { disks, version: group.version(), parent })
}

fn no_group(why: String) -> String {
    format!("no control group that limits what is written to a disk can be made here: {why}")
}

fn unlimited(disks: Vec<String>) -> Limit {
    Limit::Write { disks, rate: None }
}

fn numbers(disks: &[Disk]) -> Vec<String> {
    disks.iter().map(|disk| disk.number.clone()).collect()
}

/// The disks below the folder that a task uses, or for a program below the current one.
pub(super) fn disks_of(root: &FsRoot, task: &Task) -> Result<Vec<Disk>, String> {
    let folder = match task {
        Task::Command(_) => Path::new("."),
        task => task.works_in().ok_or_else(|| format!("{} uses no disk", task.name()))?,
    };
    let medium = Medium::at(root, folder);
    below(root, folder, &medium.map_err(|error| format!("looking at {}: {error}", folder.display()))?)
}

fn below(root: &FsRoot, folder: &Path, medium: &Medium) -> Result<Vec<Disk>, String> {
    let disks: Result<Vec<Disk>, String> = medium
        .disks()
        .into_iter()
        .map(|disk| match disk.number(root) {
            Some(number) => {
                let scheduler = disk.queue.as_ref().and_then(|queue| queue.scheduler.clone());
                Ok(Disk { name: disk.name.clone(), number, scheduler })
            }
            None => Err(format!("the kernel does not say which number the disk {} has", disk.name)),
        })
        .collect();
    let disks = disks?;
    if disks.is_empty() {
        let (folder, fs) = (folder.display(), &medium.file_system.name);
        return Err(format!(
            "no disk is seen below {folder}, which is on {fs}, and disks are what can be limited"
        ));
    }
    Ok(disks)
}

fn missing(plan: &Plan, arm: &Arm, active: &[Active]) -> Option<String> {
    let root = FsRoot::host();
    active.iter().find_map(|active| {
        let name = &plan.experiment.roles[active.role].name;
        let rate = arm.disk_write.get(name)?;
        let variant = &plan.variants[active.role][active.variant];
        let program = matches!(variant.task, Task::Command(_));
        let otherwise = match (arm.cpu_weight.get(name), variant.quota) {
            (Some(weight), _) => Some(("weight", Limit::Weight(*weight))),
            (None, Some(quota)) if program => Some(("quota", Limit::Quota(quota))),
            _ => None,
        };
        refused(&root, &variant.task, *rate, otherwise.as_ref())
    })
}

// Why a task's writes cannot be limited, beside what else holds it.
fn refused(root: &FsRoot, task: &Task, rate: Rate, otherwise: Option<&(&str, Limit)>) -> Option<String> {
    let disks = match disks_of(root, task) {
        Ok(disks) => numbers(&disks),
        Err(why) => return Some(why),
    };
    let group = match cgroup::try_make(root, &Limit::Write { disks, rate: Some(rate) }) {
        Ok(group) => group,
        Err(why) => return Some(no_group(why)),
    };
    let (word, limit) = otherwise?;
    let other = cgroup::try_make(root, limit).ok()?;
    // Where they are of one hierarchy, so that a process can be in one of them only.
    (other.home(root) == group.home(root)).then(|| {
        format!(
            "its {word} wants a control group as well, and in one hierarchy a process is in one group only"
        )
    })
}

fn begin(plan: &Plan) -> Result<Grouped, EngineError> {
    let root = FsRoot::host();
    let cannot = |why: String| EngineError::Usage(no_group(why));
    // Of all that a role may run: what is not there is not run.
    let mut disks: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    for (case, what) in plan.cases.iter().enumerate() {
        let arm = plan.experiment.arms.iter().find(|arm| arm.name == what.arm);
        let limited = |active: &&Active| {
            let name = &plan.experiment.roles[active.role].name;
            arm.is_some_and(|arm| arm.disk_write.contains_key(name))
        };
        if plan.refusal(case).is_some() {
            continue;
        }
        for active in what.active.iter().filter(limited) {
            let found = disks_of(&root, &plan.variants[active.role][active.variant].task).map_err(|why| {
                EngineError::Usage(format!("arm '{}' limits what is written to a disk, but {why}", what.arm))
            })?;
            disks.entry(active.role).or_default().extend(numbers(&found));
        }
    }
    let of_role = |role: usize| disks.get(&role).into_iter().flatten().cloned().collect::<Vec<_>>();
    let limit = |role: usize, rate: &Rate| Limit::Write { disks: of_role(role), rate: Some(*rate) };
    let mut arms = grouped::by_arm(plan, |arm| &arm.disk_write, limit);
    // Roles of arms that are not run.
    arms.iter_mut().for_each(|roles| roles.retain(|role, _| disks.contains_key(role)));
    let at_rest = |limit: &Limit| match limit {
        Limit::Write { disks, .. } => unlimited(disks.clone()),
        other => other.clone(),
    };
    Grouped::begin(&root, &plan.experiment.name, "disk-limit", arms, at_rest).map_err(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_machine::fixtures::FixtureTree;

    // ext4 on a partition of a disk, and folders that lie on none.
    fn tree() -> FixtureTree {
        let tree = FixtureTree::empty("write-limits");
        let disk = "/sys/devices/pci0000:00/virtio1/block/vda";
        tree.write(format!("{disk}/dev"), "254:0\n")
            .write(format!("{disk}/queue/scheduler"), "none [bfq] kyber\n")
            .write(format!("{disk}/vda1/dev"), "254:1\n")
            .write(format!("{disk}/vda1/partition"), "1\n")
            .link("/sys/dev/block/254:1", format!("{disk}/vda1"))
            .link("/sys/class/block/vda", disk)
            .write(
                "/proc/self/mountinfo",
                "27 1 254:1 / / rw - ext4 /dev/vda1 rw\n28 27 0:23 / /dev/shm rw - tmpfs tmpfs rw\n",
            );
        tree
    }

    #[test]
    fn the_disk_is_limited_that_a_partition_is_of() {
        let tree = tree();
        let below = || {
            let (root, home) = (tree.root(), Path::new("/home"));
            super::below(&root, home, &Medium::of(&root, home, 254 << 8 | 1))
        };
        let found = below();
        let vda = Disk { name: "vda".into(), number: "254:0".into(), scheduler: Some("bfq".into()) };
        assert_eq!(found, Ok(vec![vda]));
        tree.remove("/sys/class/block/vda");
        let why = below().unwrap_err();
        assert!(why.contains("which number the disk vda has"), "{why}");
    }

    #[test]
    fn what_lies_on_no_disk_is_not_limited() {
        let tree = tree();
        let (root, shm) = (tree.root(), Path::new("/dev/shm"));
        let why = below(&root, shm, &Medium::of(&root, shm, 23)).unwrap_err();
        assert_eq!(
            why,
            "no disk is seen below /dev/shm, which is on tmpfs, and disks are what can be limited"
        );
        let why = refused(&root, &Task::Alu(Default::default()), Rate(Default::default()), None);
        assert_eq!(why.unwrap(), "alu uses no disk");
    }
}
