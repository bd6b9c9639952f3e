//! From a path to its file system and the devices below it.

use std::path::Path;

use ringfence_system::mounts::{self, Mount};

use crate::root::FsRoot;

use super::device;
use super::model::{Below, Device, FileSystem, FileSystemKind};
use super::options;

// Far more than users stack.
const DEEPEST: usize = 12;

/// What the walk reads from.
struct Walk<'a> {
    root: &'a FsRoot,
    mounts: Vec<Mount>,
}

pub(super) fn find(root: &FsRoot, path: &Path, device: u64) -> FileSystem {
    let mounts = mounts::of_mountinfo(&root.read_opt("/proc/self/mountinfo").unwrap_or_default());
    let walk = Walk { root, mounts };
    match walk.mount_of(path, Some(device)) {
        Some(mount) => walk.file_system(mount, DEEPEST),
        None => walk.unmounted(device),
    }
}

impl Walk<'_> {
    /// The mount that `path` lies in. One may hide another, and the device tells them apart; btrfs
    /// gives its files device numbers that no mount has, and an overlay those of other mounts.
    fn mount_of(&self, path: &Path, device: Option<u64>) -> Option<&Mount> {
        let longest = mounts::containing(&self.mounts, path)?;
        let number = device.map(number);
        let same = |mount: &&Mount| Some(&mount.device) == number.as_ref();
        let exact: Vec<Mount> = self.mounts.iter().filter(same).cloned().collect();
        match mounts::containing(&exact, path) {
            Some(exact) if longest.fs != "overlay" => {
                self.mounts.iter().find(|mount| mount.id == exact.id)
            }
            _ => Some(longest),
        }
    }

    /// In a container whose `/proc` shows other mounts, the device may still be known.
    fn unmounted(&self, device: u64) -> FileSystem {
        let below = match self.device(&number(device), DEEPEST) {
            Some(device) => vec![Below::Device(Box::new(device))],
            None => vec![Below::Unseen("/proc/self/mountinfo has no mount that it lies in".into())],
        };
        FileSystem {
            name: "unknown".into(),
            kind: FileSystemKind::Other,
            point: None,
            source: String::new(),
            journal: None,
            options: Vec::new(),
            below,
        }
    }

    fn file_system(&self, mount: &Mount, depth: usize) -> FileSystem {
        let kind = kind(mount);
        FileSystem {
            name: mount.fs.clone(),
            kind,
            point: Some(mount.point.display().to_string()),
            source: mount.source.clone(),
            journal: self.journal(mount),
            options: options::that_matter(mount),
            below: self.below(mount, kind, depth),
        }
    }

    fn below(&self, mount: &Mount, kind: FileSystemKind, depth: usize) -> Vec<Below> {
        let unseen = |why: String| vec![Below::Unseen(why)];
        match kind {
            _ if depth == 0 => unseen(format!("{} is stacked too deep to follow", mount.fs)),
            FileSystemKind::Memory | FileSystemKind::Served => Vec::new(),
            FileSystemKind::Pool => {
                unseen(format!("{} does not show its devices: 'zpool status' does", mount.fs))
            }
            FileSystemKind::Overlay => match mount.value("upperdir") {
                Some(upper) => vec![self.file(upper, depth)],
                None => {
                    unseen("the overlay has no upper folder: nothing can be written to it".into())
                }
            },
            FileSystemKind::Disk | FileSystemKind::Other => self.devices(mount, depth),
        }
    }

    fn devices(&self, mount: &Mount, depth: usize) -> Vec<Below> {
        let numbers = match mount.device.starts_with("0:") {
            false => vec![mount.device.clone()],
            true => self.of_anonymous(mount),
        };
        if numbers.is_empty() {
            return vec![Below::Unseen(format!(
                "{} has no device of its own (st_dev is {}), and {} names none",
                mount.fs, mount.device, mount.source
            ))];
        }
        let below = |number: String| match self.device(&number, depth - 1) {
            Some(device) => Below::Device(Box::new(device)),
            None => Below::Unseen(format!(
                "/sys/dev/block/{number}, the device of {}, is not there",
                mount.source
            )),
        };
        numbers.into_iter().map(below).collect()
    }

    /// The devices of a file system whose device number is made up: btrfs lists them, of others the
    /// source may be one.
    fn of_anonymous(&self, mount: &Mount) -> Vec<String> {
        let Some(name) = mount.source.strip_prefix("/dev/") else { return Vec::new() };
        // `/dev/mapper/x` is a link that udev makes; the kernel's list has the name that it leads
        // to.
        let resolved = self.root.resolved(&mount.source);
        let resolved =
            resolved.as_ref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy());
        let name = resolved.as_deref().unwrap_or(name).to_string();
        let mut names = vec![name.clone()];
        for uuid in self.root.list_opt("/sys/fs/btrfs") {
            let all = self.root.list_opt(format!("/sys/fs/btrfs/{uuid}/devices"));
            if mount.fs == "btrfs" && all.contains(&name) {
                names = all;
            }
        }
        names
            .iter()
            .filter_map(|name| self.root.read_opt(format!("/sys/class/block/{name}/dev")))
            .collect()
    }

    fn device(&self, number: &str, depth: usize) -> Option<Device> {
        let file = |path: &str, depth| self.file(path, depth);
        device::find(&device::Walk { root: self.root, file: &file }, number, depth)
    }

    /// A file or folder, and what it lies on. What another mount namespace calls its own is not
    /// there.
    fn file(&self, path: &str, depth: usize) -> Below {
        let there = self.root.exists(path);
        match self.mount_of(Path::new(path), None) {
            Some(mount) if there && depth > 0 => Below::File {
                path: path.into(),
                file_system: Box::new(self.file_system(mount, depth - 1)),
            },
            _ => Below::Unseen(format!("{path}, on which it lies, cannot be seen from here")),
        }
    }

    // `journal_task` is `<none>` where there is no journal (fs/ext4/sysfs.c in Linux); the folder
    // has the name that the device has in the kernel. XFS has always one.
    fn journal(&self, mount: &Mount) -> Option<bool> {
        match mount.fs.as_str() {
            "xfs" => Some(true),
            "ext4" | "ext3" => {
                let name = device::name(self.root, &mount.device)?;
                Some(self.root.read_opt(format!("/sys/fs/ext4/{name}/journal_task"))? != "<none>")
            }
            _ => None,
        }
    }
}

fn kind(mount: &Mount) -> FileSystemKind {
    match mount.fs.as_str() {
        "tmpfs" | "ramfs" | "devtmpfs" | "hugetlbfs" | "rootfs" => FileSystemKind::Memory,
        "overlay" => FileSystemKind::Overlay,
        "zfs" => FileSystemKind::Pool,
        fs if is_served(fs) => FileSystemKind::Served,
        "ext2" | "ext3" | "ext4" | "xfs" | "btrfs" | "f2fs" | "bcachefs" | "vfat" | "exfat"
        | "ntfs3" | "jfs" => FileSystemKind::Disk,
        _ => FileSystemKind::Other,
    }
}

fn is_served(fs: &str) -> bool {
    const SERVED: [&str; 12] = [
        "nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "fuse", "fuseblk", "ceph", "lustre",
        "afs", "beegfs",
    ];
    SERVED.contains(&fs) || fs.starts_with("fuse.")
}

// How stat(2) puts major and minor together: makedev(3).
fn number(device: u64) -> String {
    let major = (device >> 8 & 0xfff) | (device >> 32 & 0xffff_f000);
    let minor = (device & 0xff) | (device >> 12 & 0xffff_ff00);
    format!("{major}:{minor}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_device_number_is_taken_apart_as_the_libc_does() {
        for (major, minor) in [(254, 0), (8, 17), (259, 300), (0, 47), (5000, 1_000_000)] {
            assert_eq!(super::number(libc::makedev(major, minor)), format!("{major}:{minor}"));
        }
    }
}
