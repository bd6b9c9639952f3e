//! The facts about memory, gathered from the kernel's files below a root.

use std::path::{Path, PathBuf};

use ringfence_system::mounts::{self, Mount};

use super::sysfs::{Ground, Tree};

/// What is known of a piece of memory before it is judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    pub kind: Kind,
    /// `memmap=SIZE!START` parameters of the kernel's command line, which set DRAM aside as
    /// persistent memory.
    pub memmap: Vec<String>,
    /// Whether this is a virtual machine, so that what the firmware says is the hypervisor's word.
    pub virtual_machine: bool,
    /// Why it cannot be written to, if it cannot.
    pub unwritable: Option<String>,
}

/// What is mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Anonymous,
    Memfd,
    File(Layer),
    DevDax(Vec<Ground>),
}

/// A file system and what it lies on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layer {
    /// The name of its type.
    pub fs: String,
    /// Where it is mounted; unknown for files that were mounted nowhere, or in another namespace.
    pub mount: Option<Mount>,
    pub below: Vec<Below>,
}

/// What a file system lies on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Below {
    Ground(Ground),
    /// A file on another file system: an overlay's upper folder, a loop device's file.
    Layer(PathBuf, Box<Layer>),
}

impl Facts {
    /// Facts of memory that is not a file.
    pub fn of_memory(kind: Kind) -> Self {
        Self { kind, memmap: Vec::new(), virtual_machine: false, unwritable: None }
    }

    /// Facts of a file or folder: in the mount `mount_id`, else in the one that its resolved `path`
    /// is in; `magic` is what statfs(2) says of its file system.
    pub fn of_file(root: &Path, mount_id: Option<u64>, path: &Path, magic: u64) -> Self {
        let tree = Tree(root);
        let mounts = mounts::of_mountinfo(&tree.read("/proc/self/mountinfo").unwrap_or_default());
        // Files that were mounted nowhere (a memfd) have an id that no mount has.
        let mount = match mount_id {
            Some(_) => mounts.iter().find(|mount| mount.id == mount_id),
            None => mounts::containing(&mounts, path),
        };
        let layer = match mount {
            Some(mount) => layer(&tree, &mounts, mount, 8),
            None => Layer { fs: name_of_magic(magic), mount: None, below: Vec::new() },
        };
        Self::of(&tree, Kind::File(layer))
    }

    /// Facts of the device-DAX character device `major:minor`.
    pub fn of_devdax(root: &Path, major: u32, minor: u32) -> Self {
        let tree = Tree(root);
        let path = format!("/sys/dev/char/{major}:{minor}");
        let grounds = match tree.resolve(&path) {
            Some(device) => tree.grounds(&device),
            None => vec![Ground::Unknown(format!("{path} is not there"))],
        };
        Self::of(&tree, Kind::DevDax(grounds))
    }

    fn of(tree: &Tree, kind: Kind) -> Self {
        let line = tree.read("/proc/cmdline").unwrap_or_default();
        let cpu = tree.read("/proc/cpuinfo").unwrap_or_default();
        let flags = cpu.lines().find_map(|line| line.strip_prefix("flags")).unwrap_or_default();
        Self {
            kind,
            memmap: memmap(&line),
            virtual_machine: flags.split_whitespace().any(|flag| flag == "hypervisor"),
            unwritable: None,
        }
    }
}

// Of all forms of memmap= (Documentation/admin-guide/kernel-parameters.txt) `SIZE!START` alone
// makes persistent memory; several may stand in one parameter.
fn memmap(line: &str) -> Vec<String> {
    line.split_whitespace()
        .filter_map(|word| word.strip_prefix("memmap="))
        .flat_map(|value| value.split(','))
        .filter(|value| value.contains('!'))
        .map(|value| format!("memmap={value}"))
        .collect()
}

fn layer(tree: &Tree, mounts: &[Mount], mount: &Mount, depth: usize) -> Layer {
    Layer {
        fs: mount.fs.clone(),
        mount: Some(mount.clone()),
        below: below(tree, mounts, mount, depth),
    }
}

fn below(tree: &Tree, mounts: &[Mount], mount: &Mount, depth: usize) -> Vec<Below> {
    let unknown = |why: String| vec![Below::Ground(Ground::Unknown(why))];
    if depth == 0 {
        return unknown(format!("{} is stacked too deep to follow", mount.fs));
    }
    let on_file = |path: &str| match mounts::containing(mounts, Path::new(path)) {
        // What another namespace calls its folders says nothing here: its own mount would contain
        // it.
        Some(other) if other.id != mount.id && tree.path(path).exists() => {
            vec![Below::Layer(path.into(), Box::new(layer(tree, mounts, other, depth - 1)))]
        }
        _ => unknown(format!("{path}, on which it lies, cannot be seen from here")),
    };
    if mount.fs == "overlay" {
        return match mount.value("upperdir") {
            Some(upper) => on_file(upper),
            None => unknown("an overlay without an upper folder".into()),
        };
    }
    let by_number = tree.resolve(&format!("/sys/dev/block/{}", mount.device));
    // btrfs has device numbers of its own.
    let by_name =
        || tree.resolve(&format!("/sys/class/block/{}", mount.source.strip_prefix("/dev/")?));
    let Some(device) = by_number.or_else(by_name) else { return Vec::new() };
    // A partition of a loop device is a folder below it.
    let file = [Some(device.as_path()), device.parent()]
        .into_iter()
        .flatten()
        .find_map(|dir| std::fs::read_to_string(dir.join("loop/backing_file")).ok());
    match file {
        Some(file) => on_file(file.trim_end_matches('\n')),
        None => tree.grounds(&device).into_iter().map(Below::Ground).collect(),
    }
}

// statfs(2) and linux/magic.h.
fn name_of_magic(magic: u64) -> String {
    match magic {
        0x0102_1994 => "tmpfs".into(),
        0x8584_58f6 => "ramfs".into(),
        0x9584_58f6 => "hugetlbfs".into(),
        0xef53 => "ext4".into(),
        0x5846_5342 => "xfs".into(),
        0x9123_683e => "btrfs".into(),
        0x794c_7630 => "overlay".into(),
        0x6969 => "nfs".into(),
        0x6573_5546 => "fuse".into(),
        0x0102_1997 => "9p".into(),
        other => format!("a file system of type {other:#x}"),
    }
}
