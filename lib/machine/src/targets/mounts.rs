//! tmpfs and DAX mounts from `/proc/self/mountinfo`.

use ringfence_system::mounts::{self, Mount};
use rustix::fs::{Access, access, statvfs};

use crate::root::FsRoot;
use crate::units::Bytes;

use super::pmem;
use super::target::{Target, TargetKind};

pub(super) fn find(root: &FsRoot) -> Vec<Target> {
    let text = root.read_opt("/proc/self/mountinfo").unwrap_or_default();
    let mut targets: Vec<Target> = Vec::new();
    for mount in mounts::of_mountinfo(&text) {
        let target = match dax_option(&mount) {
            Some(option) => dax(root, &mount, option),
            // What the kernel's own folders are mounted on is not a place for data.
            None if mount.fs == "tmpfs" && !mount.point.starts_with("/sys") => tmpfs(root, &mount),
            None => continue,
        };
        // The last mount on a point hides those before it.
        targets.retain(|known| known.name != target.name);
        targets.push(target);
    }
    targets
}

/// File systems on persistent memory that were mounted without any DAX option, as `/mnt (ext4 on
/// /dev/pmem0)`.
pub(crate) fn without_dax(root: &FsRoot) -> Vec<String> {
    let text = root.read_opt("/proc/self/mountinfo").unwrap_or_default();
    let mut found = Vec::new();
    for mount in mounts::of_mountinfo(&text) {
        // Sector mode (`pmem0s`) has no DAX to miss: it is a disk.
        let device = mount.source.strip_prefix("/dev/pmem").unwrap_or_default();
        let pmem = device.starts_with(|c: char| c.is_ascii_digit()) && !device.contains('s');
        if pmem && dax_option(&mount).is_none() {
            found.push(format!("{} ({} on {})", mount.point.display(), mount.fs, mount.source));
        }
    }
    found
}

fn dax_option(mount: &Mount) -> Option<&'static str> {
    ["dax", "dax=always", "dax=inode"].into_iter().find(|option| mount.has(option))
}

fn tmpfs(root: &FsRoot, mount: &Mount) -> Target {
    let name = format!("tmpfs:{}", mount.point.display());
    match writable(root, mount) {
        Ok(()) => with_space(
            root,
            mount,
            Target::new(TargetKind::Tmpfs, name, "files in ordinary memory"),
        ),
        Err(why) => Target::unusable(TargetKind::Tmpfs, name, why),
    }
}

fn dax(root: &FsRoot, mount: &Mount, option: &str) -> Target {
    let name = format!("dax:{}", mount.point.display());
    let device = mount.source.strip_prefix("/dev/").unwrap_or(&mount.source);
    let region = pmem::region_of(root, &format!("/sys/class/block/{device}"));
    let mut target = match writable(root, mount) {
        Ok(()) => {
            let per_file =
                if option == "dax=inode" { ", for files that have the DAX attribute" } else { "" };
            let why = format!("{} mounted with {option}{per_file}; {}", mount.fs, region.explain());
            Target::new(TargetKind::Dax, name, why)
        }
        Err(why) => Target::unusable(TargetKind::Dax, name, why),
    };
    target.node = region.node;
    target.persistence_domain = region.persistence_domain;
    with_space(root, mount, target)
}

fn writable(root: &FsRoot, mount: &Mount) -> Result<(), String> {
    if mount.has("ro") {
        return Err("mounted read-only".into());
    }
    if root.is_host()
        && let Err(error) = access(&mount.point, Access::WRITE_OK)
    {
        return Err(format!("this process may not write there: {}", std::io::Error::from(error)));
    }
    Ok(())
}

/// Size and free space, which no file of the kernel tells: known on the host only.
fn with_space(root: &FsRoot, mount: &Mount, mut target: Target) -> Target {
    if root.is_host()
        && let Ok(space) = statvfs(&mount.point)
    {
        target.size = Some(Bytes(space.f_blocks.saturating_mul(space.f_frsize)));
        target.free = Some(Bytes(space.f_bavail.saturating_mul(space.f_frsize)));
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_as_dax() {
        let of = |line: &str| dax_option(&mounts::of_mountinfo(line)[0]);
        assert_eq!(of("36 35 98:0 /x /mnt/a rw master:1 - ext4 /dev/pmem1 rw,dax"), Some("dax"));
        assert_eq!(of("36 35 98:0 / /mnt rw - xfs /dev/pmem1 rw,dax=inode"), Some("dax=inode"));
        assert_eq!(of("36 35 98:0 / /mnt rw - xfs /dev/pmem1 rw,dax=never"), None);
    }
}
