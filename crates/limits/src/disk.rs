//! What is written to disks, limited by control groups: `blkio.throttle.write_bps_device` of
//! version 1, `io.max` of version 2 (kernel documentation, admin-guide/cgroup-v1/blkio-controller
//! and admin-guide/cgroup-v2).
//!
//! The limit applies to what the group's processes submit to the disk themselves: around the page
//! cache, or by a sync of what they wrote. What the kernel's threads write back is charged to no
//! such group in version 1. In version 2 it is charged to the group in which a page was first
//! cached, and a process that is moved takes no pages along (there, "Memory Ownership" and
//! "Writeback").

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::task::{Attached, Task};
use ringfence_experiment::units::Rate;
use ringfence_experiment::{Arm, Reason};
use ringfence_machine::medium::Medium;
use ringfence_machine::root::{FsRoot, field};
use ringfence_system::attach::{DeviceIo, Found, io_by_device};

use super::cgroup;
use super::groups::{self, Grouped};
use super::kind::{Isolation, Kind};
use super::limit::{Limit, Version};
use crate::{Error, attachment};

pub use super::limit::WRITE_BPS;

/// Isolation by a limit of what is written.
pub const KIND: Kind = Kind {
    wanted: |arm| !arm.disk_write.is_empty(),
    missing,
    begin: |plan| Ok(begin(plan)?.map(|begun| Box::new(begun) as Box<dyn Isolation>)),
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
    /// The disks below its folder, each of which has the limit; a loop device is one.
    pub disks: Vec<Disk>,
    /// The version of control groups that does it.
    pub version: Version,
    /// The group below which one can be made.
    pub parent: PathBuf,
}

/// How what a task writes can be limited on this machine: a group is made for that, and removed.
///
/// # Errors
/// Why it cannot.
pub fn here(task: &Task) -> Result<Here, Reason> {
    let root = FsRoot::host();
    let disks = disks_of(&root, task)?;
    let group = cgroup::try_make(&root, &unlimited(numbers(&disks))).map_err(no_group)?;
    let parent = group.path().parent().unwrap_or(Path::new("/")).to_owned();
    Ok(Here { disks, version: group.version(), parent })
}

fn no_group(why: String) -> Reason {
    format!("no control group with a limit on disk writes can be created here: {why}").into()
}

fn unlimited(disks: Vec<String>) -> Limit {
    Limit::Write { disks, rate: None }
}

fn numbers(disks: &[Disk]) -> Vec<String> {
    disks.iter().map(|disk| disk.number.clone()).collect()
}

/// The disks of this machine below the folder that a task uses, or for a program below the current
/// one.
///
/// # Errors
/// Why there are none.
pub fn of(task: &Task) -> Result<Vec<Disk>, Reason> {
    disks_of(&FsRoot::host(), task)
}

/// The disks below the folder that a task uses, or for a program below the current one.
pub(super) fn disks_of(root: &FsRoot, task: &Task) -> Result<Vec<Disk>, Reason> {
    let folder = match task {
        Task::Command(_) => Path::new("."),
        task => task.works_in().ok_or_else(|| format!("{} uses no disk", task.name()))?,
    };
    let medium = Medium::at(root, folder);
    below(
        root,
        folder,
        &medium.map_err(|error| format!("looking at {}: {error}", folder.display()))?,
    )
}

fn below(root: &FsRoot, folder: &Path, medium: &Medium) -> Result<Vec<Disk>, Reason> {
    let disks: Result<Vec<Disk>, String> = medium
        .asked()
        .into_iter()
        .map(|disk| match disk.number(root) {
            Some(number) => {
                let scheduler = disk.queue.as_ref().and_then(|queue| queue.scheduler.clone());
                Ok(Disk { name: disk.name.clone(), number, scheduler })
            }
            None => Err(format!("the kernel does not report the number of disk {}", disk.name)),
        })
        .collect();
    let disks = disks?;
    if disks.is_empty() {
        let (folder, fs) = (folder.display(), &medium.file_system.name);
        let none = format!(
            "no disk is visible below {folder}, which is on {fs}, and only disks can be limited"
        );
        return Err(none.into());
    }
    Ok(disks)
}

/// The disks that running processes write to: those below files that they have open for writing,
/// and those that their own control group has submitted requests to.
///
/// # Errors
/// Why there are none.
pub fn of_attached(attached: &Attached) -> Result<Vec<Disk>, Reason> {
    of_found(&FsRoot::host(), &attachment::found(attached)?)
}

fn of_found(root: &FsRoot, found: &Found) -> Result<Vec<Disk>, Reason> {
    let mut disks: BTreeMap<String, Disk> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for process in &found.processes {
        for (path, device) in written_files(root, process.pid()) {
            if seen.insert(device) {
                let below =
                    below(root, &path, &Medium::of(root, &path, device)).unwrap_or_default();
                disks.extend(below.into_iter().map(|disk| (disk.number.clone(), disk)));
            }
        }
    }
    let exact = found.groups.iter().filter(|group| group.is_exact);
    let by_group = exact.filter_map(|group| io_by_device(root, group)).flatten();
    for DeviceIo { device: number, .. } in by_group.filter(|one| one.written > 0) {
        let uevent = root.read_opt(format!("/sys/dev/block/{number}/uevent")).unwrap_or_default();
        let Some(name) = uevent.lines().find_map(|line| line.strip_prefix("DEVNAME=")) else {
            continue;
        };
        disks.entry(number.clone()).or_insert_with(|| Disk {
            name: name.into(),
            number,
            scheduler: None,
        });
    }
    if disks.is_empty() {
        let none = format!(
            "{} has no file on a disk open for writing, and its own control group has written to \
             no disk",
            found.target
        );
        return Err(none.into());
    }
    Ok(disks.into_values().collect())
}

// Those on file systems, and the device of each (stat(2), st_dev).
fn written_files(root: &FsRoot, pid: u32) -> Vec<(PathBuf, u64)> {
    let of = |number: String| {
        let info = root.read_opt(format!("/proc/{pid}/fdinfo/{number}"))?;
        // Octal, as of open(2).
        let flags = u32::from_str_radix(field(&info, "flags")?, 8).ok()?;
        let link = root.path(format!("/proc/{pid}/fd/{number}"));
        let meta = fs::metadata(&link).ok().filter(|meta| meta.is_file() && flags & 0o3 != 0)?;
        Some((fs::read_link(&link).ok()?, meta.dev()))
    };
    root.list_opt(format!("/proc/{pid}/fd")).into_iter().filter_map(of).collect()
}

fn missing(plan: &Plan, arm: &Arm, active: &[Active]) -> Option<Reason> {
    let root = FsRoot::host();
    active.iter().find_map(|active| {
        let name = &plan.experiment.roles[active.role].name;
        let rate = arm.disk_write.get(name)?;
        let variant = &plan.variants[active.role][active.variant];
        if variant.task.is_attached() {
            return None;
        }
        refused(&root, &variant.task, *rate, &groups::others(arm, name, variant, "disk_write"))
    })
}

// Why a task's writes cannot be limited, beside what else holds it.
fn refused(root: &FsRoot, task: &Task, rate: Rate, others: &[(&str, Limit)]) -> Option<Reason> {
    match disks_of(root, task) {
        Ok(disks) => {
            let limit = Limit::Write { disks: numbers(&disks), rate: Some(rate) };
            groups::refused(root, &limit, no_group, others)
        }
        Err(why) => Some(why),
    }
}

fn begin(plan: &Plan) -> Result<Option<Grouped>, Error> {
    let root = FsRoot::host();
    // Of all that a role may run: what is not there is not run.
    let wanted = |arm: &Arm, role: &str| arm.disk_write.contains_key(role);
    let disks = groups::found(plan, wanted, |task| disks_of(&root, task))
        .map_err(|why| Error::Usage(format!("writes to a disk cannot be limited: {why}")))?;
    let of_role = |role: usize| {
        let all: BTreeSet<String> =
            disks.get(&role).into_iter().flatten().flat_map(|some| numbers(some)).collect();
        all.into_iter().collect::<Vec<_>>()
    };
    let limit = |role: usize, rate: &Rate| Limit::Write { disks: of_role(role), rate: Some(*rate) };
    let mut arms = groups::by_arm(plan, |arm| &arm.disk_write, limit);
    // Roles of arms that are not run.
    arms.iter_mut().for_each(|roles| roles.retain(|role, _| disks.contains_key(role)));
    if arms.iter().all(BTreeMap::is_empty) {
        return Ok(None);
    }
    let at_rest = |limit: &Limit| match limit {
        Limit::Write { disks, .. } => unlimited(disks.clone()),
        other => other.clone(),
    };
    Grouped::begin(&root, &plan.experiment.name, "disk-limit", arms, at_rest)
        .map(Some)
        .map_err(|why| Error::Usage(no_group(why).into()))
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
                "27 1 254:1 / / rw - ext4 /dev/vda1 rw\n28 27 0:23 / /dev/shm rw - tmpfs tmpfs \
                 rw\n",
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
        let vda =
            Disk { name: "vda".into(), number: "254:0".into(), scheduler: Some("bfq".into()) };
        assert_eq!(found, Ok(vec![vda]));
        tree.remove("/sys/class/block/vda");
        let why = below().unwrap_err();
        assert!(why.contains("the number of disk vda"), "{why}");
    }

    #[test]
    fn what_lies_on_no_disk_is_not_limited() {
        let tree = tree();
        let (root, shm) = (tree.root(), Path::new("/dev/shm"));
        let why = below(&root, shm, &Medium::of(&root, shm, 23)).unwrap_err();
        assert_eq!(
            why,
            "no disk is visible below /dev/shm, which is on tmpfs, and only disks can be limited"
        );
        let why = refused(&root, &Task::Alu(Default::default()), Rate(Default::default()), &[]);
        assert_eq!(why.unwrap(), "alu uses no disk");
    }
}
