//! The disks that tasks use, as control groups know them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ringfence_experiment::Reason;
use ringfence_experiment::task::{Attached, Task};
use ringfence_machine::medium::Medium;
use ringfence_machine::root::{FsRoot, field};
use ringfence_system::attach::{DeviceIo, Found, io_by_device};

use crate::attachment;

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
        let why = disks_of(&root, &Task::Alu(Default::default())).unwrap_err();
        assert_eq!(why, "alu uses no disk");
    }
}
