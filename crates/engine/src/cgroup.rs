//! A control group that limits the CPU time of what runs in it: `cpu.max` of version 2,
//! `cpu.cfs_quota_us` of version 1 (kernel documentation, admin-guide/cgroup-v2 and
//! scheduler/sched-bwc).
//!
//! Groups are named after the guardian that made them, so that whoever comes later can tell those
//! that were left behind.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ringfence_experiment::units::Share;
use ringfence_machine::root::FsRoot;
use serde::{Deserialize, Serialize};

/// The period in which a quota holds, µs. The kernel's default of 100 ms would be as long as a window.
pub const PERIOD_US: u64 = 10_000;

const PREFIX: &str = "ringfence-";

/// The environment variable that, set to anything, keeps this program from making groups: quotas are
/// then kept by stopping and continuing.
pub const NO_GROUPS: &str = "RINGFENCE_NO_CGROUPS";

/// A group that exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cgroup {
    dir: PathBuf,
}

impl Cgroup {
    /// Makes a group with a quota, a share of one CPU's time. `None` where this process may not: without
    /// a mounted CPU controller, write access, or a delegated one.
    pub fn make(root: &FsRoot, owner: u32, number: usize, quota: Share) -> Option<Self> {
        if std::env::var_os(NO_GROUPS).is_some_and(|value| !value.is_empty()) {
            return None;
        }
        let us = ((PERIOD_US as f64 * quota.0).round() as u64).max(1000);
        parents(root).into_iter().find_map(|parent| {
            let dir = parent.dir.join(format!("{PREFIX}{owner}-{number}"));
            fs::create_dir(&dir).ok()?;
            let settings: &[(&str, String)] = match parent.version {
                Version::Two => &[("cpu.max", format!("{us} {PERIOD_US}"))],
                Version::One => {
                    &[("cpu.cfs_period_us", PERIOD_US.to_string()), ("cpu.cfs_quota_us", us.to_string())]
                }
            };
            let set = settings.iter().try_for_each(|(file, text)| write_existing(&dir.join(file), text));
            let group = Self { dir };
            if set.is_err() {
                group.remove();
            }
            set.is_ok().then_some(group)
        })
    }

    /// The file that a process writes its id to in order to enter.
    pub fn procs(&self) -> PathBuf {
        self.dir.join("cgroup.procs")
    }

    /// Removes it; it must be empty by then.
    pub fn remove(&self) {
        // A group that does not go stays empty and is swept later.
        let _ = fs::remove_dir(&self.dir);
    }
}

fn write_existing(path: &Path, text: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

/// Removes the groups that guardians left which are no more, or which `also` names.
pub fn sweep(root: &FsRoot, also: Option<u32>) {
    for parent in parents(root) {
        for entry in fs::read_dir(&parent.dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner =
                name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok());
            let gone = |pid: &u32| also == Some(*pid) || !root.exists(format!("/proc/{pid}"));
            if owner.filter(gone).is_some() {
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

#[derive(Debug, PartialEq, Eq)]
struct Parent {
    dir: PathBuf,
    version: Version,
}

// Where a group might be made, the nearest to this process first.
fn parents(root: &FsRoot) -> Vec<Parent> {
    let mounts = root.read_opt("/proc/self/mounts").unwrap_or_default();
    let own = root.read_opt("/proc/self/cgroup").unwrap_or_default();
    let mut found = Vec::new();
    for mount in mounts.lines() {
        let mut fields = mount.split(' ').skip(1);
        let (Some(at), Some(kind), Some(options)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let version = match kind {
            "cgroup2" => Version::Two,
            "cgroup" if options.split(',').any(|option| option == "cpu") => Version::One,
            _ => continue,
        };
        // Lines are ID:CONTROLLERS:PATH; version 2 has no controllers.
        let path = own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            let is_it = match version {
                Version::Two => controllers.is_empty(),
                Version::One => controllers.split(',').any(|name| name == "cpu"),
            };
            is_it.then_some(path)
        });
        let base = root.path(at);
        let path = Path::new(path.unwrap_or("/"));
        for ancestor in path.ancestors() {
            let dir = base.join(ancestor.strip_prefix("/").unwrap_or(ancestor));
            // In version 2 a group's children have the controllers that it hands down.
            let down = || fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap_or_default();
            if version == Version::One || down().split_whitespace().any(|name| name == "cpu") {
                found.push(Parent { dir, version });
            }
        }
    }
    found
}

/// Puts the calling process into a group. Async-signal-safe, for use between fork and exec.
///
/// # Errors
/// What the kernel reports.
pub fn enter(procs: &std::ffi::CStr) -> io::Result<()> {
    // SAFETY: open, write and close of a path that outlives the calls; "0" stands for the caller.
    unsafe {
        let fd = libc::open(procs.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let written = libc::write(fd, c"0".as_ptr().cast(), 1);
        let error = io::Error::last_os_error();
        libc::close(fd);
        if written == 1 { Ok(()) } else { Err(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, FsRoot) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = FsRoot::at(dir.path());
        (dir, root)
    }

    #[test]
    fn version_2_wants_a_parent_that_hands_the_controller_down() {
        let (_dir, root) = tree(&[
            ("/proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\nproc /proc proc rw 0 0"),
            ("/proc/self/cgroup", "0::/user.slice/app.scope"),
            ("/sys/fs/cgroup/cgroup.subtree_control", "cpuset cpu io"),
            ("/sys/fs/cgroup/user.slice/cgroup.subtree_control", "cpu memory"),
            ("/sys/fs/cgroup/user.slice/app.scope/cgroup.subtree_control", ""),
        ]);
        let found: Vec<PathBuf> = parents(&root).into_iter().map(|parent| parent.dir).collect();
        assert_eq!(found, [root.path("/sys/fs/cgroup/user.slice"), root.path("/sys/fs/cgroup/")]);
        // No kernel answers here: an ordinary folder is no group, and nothing is left behind.
        assert_eq!(Cgroup::make(&root, 7, 0, Share(0.5)), None);
        assert_eq!(root.list("/sys/fs/cgroup").unwrap(), ["cgroup.subtree_control", "user.slice"]);
    }

    #[test]
    fn version_1_is_told_by_its_controller() {
        let (_dir, root) = tree(&[
            (
                "/proc/self/mounts",
                "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0",
            ),
            ("/proc/self/cgroup", "2:memory:/m\n1:cpu,cpuacct:/c"),
        ]);
        let dirs: Vec<_> = parents(&root).into_iter().map(|parent| (parent.dir, parent.version)).collect();
        let at = |path: &str| root.path(format!("/sys/fs/cgroup/cpu/{path}"));
        assert_eq!(dirs, [(at("c"), Version::One), (at(""), Version::One)]);
    }

    #[test]
    fn groups_of_the_dead_are_swept() {
        let (_dir, root) = tree(&[
            ("/proc/self/mounts", "cgroup /cg cgroup rw,cpu 0 0"),
            ("/proc/self/cgroup", "1:cpu:/"),
            ("/proc/41/stat", ""),
        ]);
        for name in ["ringfence-41-0", "ringfence-42-0", "ringfence-42-1", "other-42"] {
            fs::create_dir_all(root.path(format!("/cg/{name}"))).unwrap();
        }
        let left = || {
            let mut names = root.list("/cg").unwrap();
            names.sort();
            names
        };
        sweep(&root, None);
        assert_eq!(left(), ["other-42", "ringfence-41-0"]);
        sweep(&root, Some(41));
        assert_eq!(left(), ["other-42"]);
    }
}
