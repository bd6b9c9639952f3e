//! A control group of this program: a quota of CPU time (`cpu.max` of version 2, `cpu.cfs_quota_us` of version 1) or a
//! weight (`cpu.weight`, `cpu.shares`; kernel documentation, admin-guide/cgroup-v2, scheduler/sched-bwc and
//! scheduler/sched-design-CFS).
//!
//! Everything that is done to them is in the journal of changes ([`ringfence_changes`]) before it is done, and put back
//! from there. They are named after the process that made them: those of earlier versions, which kept no journal, are
//! known by that.

use std::fs;
use std::path::{Path, PathBuf};

use ringfence_changes::{Changes, Options};
use ringfence_experiment::units::Share;
use ringfence_machine::root::FsRoot;
use ringfence_sysfs::mounts;
use serde::{Deserialize, Serialize};

/// The period in which a quota holds, µs. The kernel's default of 100 ms would be as long as a window.
pub const PERIOD_US: u64 = 10_000;

const PREFIX: &str = "ringfence-";

/// The environment variable that, set to anything, keeps this program from making groups: quotas are
/// then kept by stopping and continuing.
pub const NO_GROUPS: &str = "RINGFENCE_NO_CGROUPS";

/// The weight of a group that was given none.
pub const DEFAULT_WEIGHT: u32 = 100;

/// What a group is made for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// At most this share of one CPU's time.
    Quota(Share),
    /// This weight against what else wants the CPU, 1 to 10000; 100 is that of others.
    Weight(u32),
}

impl Limit {
    // The files that hold it, and what is written there.
    fn settings(self, version: Version) -> Vec<(&'static str, String)> {
        match (self, version) {
            (Limit::Quota(quota), version) => {
                let us = ((PERIOD_US as f64 * quota.0).round() as u64).max(1000);
                match version {
                    Version::Two => vec![("cpu.max", format!("{us} {PERIOD_US}"))],
                    Version::One => vec![
                        ("cpu.cfs_period_us", PERIOD_US.to_string()),
                        ("cpu.cfs_quota_us", us.to_string()),
                    ],
                }
            }
            (Limit::Weight(weight), Version::Two) => vec![("cpu.weight", weight.to_string())],
            // 1024 is the default there.
            (Limit::Weight(weight), Version::One) => {
                vec![("cpu.shares", (u64::from(weight) * 1024 / 100).max(2).to_string())]
            }
        }
    }
}

/// A group that exists. Paths are as seen below the root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    dir: PathBuf,
    version: Version,
}

impl Group {
    /// Makes a group, which is removed when the changes are put back.
    ///
    /// # Errors
    /// Why this process may not, in words: no CPU controller is mounted, or none that it may write to.
    pub fn make(root: &FsRoot, changes: &mut Changes, name: &str, limit: Limit) -> Result<Self, String> {
        if std::env::var_os(NO_GROUPS).is_some_and(|value| !value.is_empty()) {
            return Err(format!("{NO_GROUPS} is set"));
        }
        let mut why =
            "no CPU controller of control groups is mounted, or none is handed down to a group".to_string();
        for parent in parents(root) {
            let group = Self { dir: parent.dir.join(format!("{PREFIX}{name}")), version: parent.version };
            let home = group.home(root).unwrap_or(parent.dir);
            match changes.make_group(&group.dir, home).and_then(|()| group.set(changes, limit)) {
                Ok(()) => return Ok(group),
                Err(error) => why = error.to_string(),
            }
        }
        Err(why)
    }

    /// Gives it another limit.
    ///
    /// # Errors
    /// What the kernel reports, and where it cannot be written down.
    pub fn set(&self, changes: &mut Changes, limit: Limit) -> Result<(), ringfence_changes::Error> {
        let settings = limit.settings(self.version);
        settings.iter().try_for_each(|(file, text)| changes.set(self.dir.join(file), text))
    }

    /// The file that a process writes its id to in order to enter, on this machine.
    pub fn procs(&self) -> PathBuf {
        self.dir.join("cgroup.procs")
    }

    /// The group.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The group that this program is in, in the same hierarchy.
    pub fn home(&self, root: &FsRoot) -> Option<PathBuf> {
        let own = root.read_opt("/proc/self/cgroup")?;
        let path = own_path(&own, self.version)?;
        let base = mounted(root).into_iter().find(|(_, version)| *version == self.version)?.0;
        Some(base.join(path.trim_start_matches('/')))
    }
}

/// Why no group with a weight can be made here, if so: one is made, and removed.
pub fn cannot_make(root: &FsRoot) -> Option<String> {
    let try_one = || -> Result<(), String> {
        let mut changes = begin(root, "a control group, made to see whether one can be")?;
        let name = format!("{}-try", std::process::id());
        let made = Group::make(root, &mut changes, &name, Limit::Weight(DEFAULT_WEIGHT));
        let restored = changes.put_back().map_err(|error| error.to_string());
        made.and(restored).map(|_| ())
    };
    try_one().err()
}

/// Begins a journal for groups.
///
/// # Errors
/// Why none can be written, in words.
pub fn begin(root: &FsRoot, purpose: &str) -> Result<Changes, String> {
    Changes::begin(root, purpose, &Options::default()).map_err(|error| error.to_string())
}

/// Groups of processes that are no more, by their names.
pub fn unclaimed(root: &FsRoot) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for parent in parents(root) {
        for name in root.list_opt(&parent.dir) {
            let owner: Option<u32> =
                name.strip_prefix(PREFIX).and_then(|name| name.split('-').next()?.parse().ok());
            if owner.is_some_and(|pid| !root.exists(format!("/proc/{pid}"))) {
                found.push(parent.dir.join(name));
            }
        }
    }
    found
}

/// Removes the groups of processes that are no more. Those in which somebody still is stay.
pub fn sweep(root: &FsRoot) {
    for group in unclaimed(root) {
        let _ = fs::remove_dir(root.path(group));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Version {
    One,
    Two,
}

#[derive(Debug, PartialEq, Eq)]
struct Parent {
    dir: PathBuf,
    version: Version,
}

// Where CPU controllers are mounted.
fn mounted(root: &FsRoot) -> Vec<(PathBuf, Version)> {
    let table = root.read_opt("/proc/self/mounts").unwrap_or_default();
    let of_mount = |mount: mounts::Mount| match mount.fs.as_str() {
        "cgroup2" => Some((mount.point, Version::Two)),
        "cgroup" if mount.has("cpu") => Some((mount.point, Version::One)),
        _ => None,
    };
    mounts::of_table(&table).into_iter().filter_map(of_mount).collect()
}

// The group of this process, from /proc/self/cgroup. Lines are ID:CONTROLLERS:PATH; version 2 has no controllers.
fn own_path(own: &str, version: Version) -> Option<&str> {
    own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let is_it = match version {
            Version::Two => controllers.is_empty(),
            Version::One => controllers.split(',').any(|name| name == "cpu"),
        };
        is_it.then_some(path)
    })
}

// Where a group might be made, the nearest to this process first.
fn parents(root: &FsRoot) -> Vec<Parent> {
    let own = root.read_opt("/proc/self/cgroup").unwrap_or_default();
    let mut found = Vec::new();
    for (at, version) in mounted(root) {
        let path = Path::new(own_path(&own, version).unwrap_or("/"));
        for ancestor in path.ancestors() {
            let dir = at.join(ancestor.strip_prefix("/").unwrap_or(ancestor));
            // In version 2 a group's children have the controllers that it hands down.
            let down = || root.read_opt(dir.join("cgroup.subtree_control")).unwrap_or_default();
            if version == Version::One || down().split_whitespace().any(|name| name == "cpu") {
                found.push(Parent { dir, version });
            }
        }
    }
    found
}

/// Puts the calling process into a group. By system calls alone, for use between fork and exec.
///
/// # Errors
/// What the kernel reports.
pub fn enter(procs: &std::ffi::CStr) -> rustix::io::Result<()> {
    use rustix::fs::{Mode, OFlags};
    let file = rustix::fs::open(procs, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    // "0" stands for the caller.
    rustix::io::write(&file, b"0").map(|_| ())
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
        assert_eq!(found, [Path::new("/sys/fs/cgroup/user.slice"), Path::new("/sys/fs/cgroup/")]);
        // No kernel answers here: an ordinary folder is not a group, and nothing is left behind.
        let options = Options { folder: Some(root.path("/run/ringfence")), ..Options::default() };
        let mut changes = Changes::begin(&root, "a test", &options).unwrap();
        assert!(Group::make(&root, &mut changes, "7-0", Limit::Quota(Share(0.5))).is_err());
        assert_eq!(changes.put_back().unwrap().steps.len(), 2);
        assert_eq!(root.list("/run/ringfence").unwrap(), [""; 0]);
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
        let at = |path: &str| PathBuf::from(format!("/sys/fs/cgroup/cpu/{path}"));
        assert_eq!(dirs, [(at("c"), Version::One), (at(""), Version::One)]);
    }

    #[test]
    fn limits_are_written_as_each_version_wants_them() {
        let quota = Limit::Quota(Share(0.25));
        assert_eq!(quota.settings(Version::Two), [("cpu.max", "2500 10000".to_string())]);
        assert_eq!(quota.settings(Version::One)[1], ("cpu.cfs_quota_us", "2500".to_string()));
        let weights = [1, 10, 100, 10_000].map(Limit::Weight);
        let written = |version| weights.map(|weight| weight.settings(version)[0].1.clone());
        assert_eq!(written(Version::Two), ["1", "10", "100", "10000"]);
        assert_eq!(written(Version::One), ["10", "102", "1024", "102400"]);
    }

    #[test]
    fn the_group_of_this_program_is_found() {
        let (_dir, root) = tree(&[
            ("/proc/self/mounts", "cgroup2 /cg2 cgroup2 rw 0 0\ncgroup /cg/cpu cgroup rw,cpu,cpuacct 0 0"),
            ("/proc/self/cgroup", "3:cpu,cpuacct:/a/b\n0::/u"),
        ]);
        let home = |version| Group { dir: "/x".into(), version }.home(&root).unwrap();
        assert_eq!(home(Version::One), Path::new("/cg/cpu/a/b"));
        assert_eq!(home(Version::Two), Path::new("/cg2/u"));
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
        sweep(&root);
        assert_eq!(left(), ["other-42", "ringfence-41-0"]);
        fs::remove_dir_all(root.path("/proc/41")).unwrap();
        assert_eq!(unclaimed(&root), [Path::new("/cg/ringfence-41-0")]);
    }
}
