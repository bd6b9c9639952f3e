//! tmpfs and DAX mounts from `/proc/self/mountinfo`.

use std::ffi::CString;
use std::mem::MaybeUninit;

use crate::root::FsRoot;
use crate::units::Bytes;

use super::{Target, TargetKind, pmem};

/// One line of mountinfo, proc_pid_mountinfo(5).
struct Mount<'a> {
    point: String,
    options: &'a str,
    fs: &'a str,
    source: &'a str,
    super_options: &'a str,
}

pub(super) fn find(root: &FsRoot) -> Vec<Target> {
    let text = root.read_opt("/proc/self/mountinfo").unwrap_or_default();
    let mut targets: Vec<Target> = Vec::new();
    for mount in text.lines().filter_map(parse) {
        let target = match dax_option(&mount) {
            Some(option) => dax(root, &mount, option),
            // What the kernel's own folders are mounted on is no place for data.
            None if mount.fs == "tmpfs" && !mount.point.starts_with("/sys/") => tmpfs(root, &mount),
            None => continue,
        };
        // The last mount on a point hides those before it.
        targets.retain(|known| known.name != target.name);
        targets.push(target);
    }
    targets
}

fn parse(line: &str) -> Option<Mount<'_>> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(4);
    let mut after = after.split(' ');
    Some(Mount {
        point: unescape(before.next()?),
        options: before.next()?,
        fs: after.next()?,
        source: after.next()?,
        super_options: after.next().unwrap_or(""),
    })
}

/// The kernel writes space, tab, newline and backslash as octal escapes.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_string(), |text, (code, character)| text.replace(code, character))
}

fn dax_option<'a>(mount: &Mount<'a>) -> Option<&'a str> {
    let options = mount.super_options.split(',').chain(mount.options.split(','));
    options.into_iter().find(|option| matches!(*option, "dax" | "dax=always" | "dax=inode"))
}

fn tmpfs(root: &FsRoot, mount: &Mount) -> Target {
    let name = format!("tmpfs:{}", mount.point);
    match writable(root, mount) {
        Ok(()) => with_space(root, mount, Target::new(TargetKind::Tmpfs, name, "files in ordinary memory")),
        Err(why) => Target::unusable(TargetKind::Tmpfs, name, why),
    }
}

fn dax(root: &FsRoot, mount: &Mount, option: &str) -> Target {
    let name = format!("dax:{}", mount.point);
    let device = mount.source.strip_prefix("/dev/").unwrap_or(mount.source);
    let region = pmem::region_of(root, &format!("/sys/class/block/{device}"));
    let mut target = match writable(root, mount) {
        Ok(()) => {
            let per_file = if option == "dax=inode" { ", for files that have the DAX attribute" } else { "" };
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
    if mount.options.split(',').chain(mount.super_options.split(',')).any(|option| option == "ro") {
        return Err("mounted read-only".into());
    }
    let Ok(path) = CString::new(mount.point.as_str()) else { return Err("its path holds a NUL".into()) };
    // SAFETY: `path` ends in NUL and outlives the call.
    if root.is_host() && unsafe { libc::access(path.as_ptr(), libc::W_OK) } != 0 {
        return Err(format!("this process may not write there: {}", std::io::Error::last_os_error()));
    }
    Ok(())
}

/// Size and free space, which no file of the kernel tells: known on the host only.
fn with_space(root: &FsRoot, mount: &Mount, mut target: Target) -> Target {
    let Ok(path) = CString::new(mount.point.as_str()) else { return target };
    let mut space = MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: `path` ends in NUL and `space` has room for the answer.
    if root.is_host() && unsafe { libc::statvfs(path.as_ptr(), space.as_mut_ptr()) } == 0 {
        // SAFETY: the call has filled it, and it was zeroed before.
        let space = unsafe { space.assume_init() };
        target.size = Some(Bytes(space.f_blocks.saturating_mul(space.f_frsize)));
        target.free = Some(Bytes(space.f_bavail.saturating_mul(space.f_frsize)));
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_with_optional_fields_and_escapes() {
        let line = "36 35 98:0 /x /mnt/a\\040b rw,noatime master:1 shared:2 - ext4 /dev/pmem1 rw,dax";
        let mount = parse(line).unwrap();
        assert_eq!((mount.point.as_str(), mount.fs, mount.source), ("/mnt/a b", "ext4", "/dev/pmem1"));
        assert_eq!(dax_option(&mount), Some("dax"));
        let never = parse("36 35 98:0 / /mnt rw - xfs /dev/pmem1 rw,dax=never").unwrap();
        assert_eq!(dax_option(&never), None);
        assert!(parse("nonsense").is_none());
    }
}
