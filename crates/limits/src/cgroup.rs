//! A control group of this program, made for some settings.
//!
//! Every change to these groups is in the journal of changes ([`ringfence_system::changes`]) before
//! it is made, and is undone from there. The groups are named after the process that made them:
//! those of earlier versions, which kept no journal, are known by that.

use std::fs;
use std::path::{Path, PathBuf};

use ringfence_experiment::Error;
use ringfence_machine::root::FsRoot;
use ringfence_system::changes::{Changes, Options};
use ringfence_system::mounts;
use serde::{Deserialize, Serialize};

use super::setting::{CPU, Controller, GroupSettings, Version};

const PREFIX: &str = "ringfence-";

/// The environment variable that, set to anything, keeps this program from making groups: quotas
/// are then kept by stopping and continuing.
pub const NO_GROUPS: &str = "RINGFENCE_NO_CGROUPS";

/// A group that exists. Paths are as seen below the root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    dir: PathBuf,
    version: Version,
    // The group that this program is in, in the same hierarchy.
    home: Option<PathBuf>,
}

impl Group {
    /// Makes a group, which is removed when the changes are undone.
    ///
    /// # Errors
    /// Why this process may not, in words: the controller is not mounted, or cannot be written to.
    pub fn make(
        root: &FsRoot,
        changes: &mut Changes,
        name: &str,
        settings: &GroupSettings,
    ) -> Result<Self, Error> {
        if std::env::var_os(NO_GROUPS).is_some_and(|value| !value.is_empty()) {
            return Err(Error::failed(format!("{NO_GROUPS} is set")));
        }
        let controller = settings.controller;
        let mut why = Error::failed(controller.not_there.to_string());
        let has = |parent: &Parent| !settings.files(parent.version).is_empty();
        for Parent { dir: parent, version } in parents(root, controller).into_iter().filter(has) {
            let dir = parent.join(format!("{PREFIX}{name}"));
            let group = Self { dir, version, home: home(root, version, controller) };
            let home = group.home.clone().unwrap_or(parent);
            match changes.make_group(&group.dir, home).and_then(|()| group.set(changes, settings)) {
                Ok(()) => return Ok(group),
                Err(error) => why = Error::failed_by(error),
            }
        }
        Err(why)
    }

    /// Gives it other values.
    ///
    /// # Errors
    /// What the kernel reports, and where it cannot be written down.
    pub fn set(
        &self,
        changes: &mut Changes,
        settings: &GroupSettings,
    ) -> Result<(), ringfence_system::changes::Error> {
        let files = settings.files(self.version);
        files.iter().try_for_each(|one| changes.set(self.dir.join(&one.file), &one.text()))
    }

    /// The file that a process writes its id to in order to enter, on this machine.
    pub fn procs(&self) -> PathBuf {
        self.dir.join("cgroup.procs")
    }

    /// The group.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The group below which it was made.
    pub fn parent(&self) -> &Path {
        self.dir.parent().unwrap_or(Path::new("/"))
    }

    /// The group that this program is in, in the same hierarchy.
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// The version of control groups that it is of.
    pub fn version(&self) -> Version {
        self.version
    }
}

// The group that this program is in, in a controller's hierarchy.
fn home(root: &FsRoot, version: Version, controller: &Controller) -> Option<PathBuf> {
    let own = root.read_opt("/proc/self/cgroup")?;
    let path = own_path(&own, version, controller)?;
    let all = mounted(root, controller);
    let base = all.into_iter().find(|(_, known)| *known == version)?.0;
    Some(base.join(path.trim_start_matches('/')))
}

/// Makes a group with these values, and removes it: what it was shows where one can be made.
///
/// # Errors
/// Why none can be made here.
pub fn try_make(root: &FsRoot, settings: &GroupSettings) -> Result<Group, Error> {
    let mut changes = begin(root, "a control group, made to see whether one can be")?;
    let name = format!("{}-try", std::process::id());
    let made = Group::make(root, &mut changes, &name, settings);
    let restored = changes.put_back().map_err(Error::failed_by);
    made.and_then(|group| restored.map(|_| group))
}

/// Begins a journal for groups.
///
/// # Errors
/// Why none can be written, in words.
pub fn begin(root: &FsRoot, purpose: &str) -> Result<Changes, Error> {
    Changes::begin(root, purpose, &Options::default()).map_err(Error::failed_by)
}

/// Groups of processes that are no more, by their names. Those of disks were always in a journal.
pub fn unclaimed(root: &FsRoot) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for parent in parents(root, &CPU) {
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

/// Removes the groups of processes that no longer exist. Groups that still hold a process stay.
pub fn sweep(root: &FsRoot) {
    for group in unclaimed(root) {
        let _ = fs::remove_dir(root.path(group));
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Parent {
    dir: PathBuf,
    version: Version,
}

/// Where a controller may be mounted.
pub fn mounted(root: &FsRoot, controller: &Controller) -> Vec<(PathBuf, Version)> {
    let table = root.read_opt("/proc/self/mounts").unwrap_or_default();
    let of_mount = |mount: mounts::Mount| match mount.fs.as_str() {
        "cgroup2" => Some((mount.point, Version::Two)),
        "cgroup" if mount.has(controller.name(Version::One)) => Some((mount.point, Version::One)),
        _ => None,
    };
    mounts::of_table(&table).into_iter().filter_map(of_mount).collect()
}

// The group of this process, from /proc/self/cgroup. Lines are ID:CONTROLLERS:PATH; version 2 has
// no controllers.
fn own_path<'a>(own: &'a str, version: Version, controller: &Controller) -> Option<&'a str> {
    own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let is_it = match version {
            Version::Two => controllers.is_empty(),
            Version::One => controllers.split(',').any(|name| name == controller.name(version)),
        };
        is_it.then_some(path)
    })
}

// Where a group might be made, the nearest to this process first.
fn parents(root: &FsRoot, controller: &Controller) -> Vec<Parent> {
    let own = root.read_opt("/proc/self/cgroup").unwrap_or_default();
    let mut found = Vec::new();
    for (at, version) in mounted(root, controller) {
        let path = Path::new(own_path(&own, version, controller).unwrap_or("/"));
        for ancestor in path.ancestors() {
            let dir = at.join(ancestor.strip_prefix("/").unwrap_or(ancestor));
            // In version 2 a group's children have the controllers that it hands down.
            let down = || root.read_opt(dir.join("cgroup.subtree_control")).unwrap_or_default();
            let handed_down =
                || down().split_whitespace().any(|name| name == controller.name(version));
            if version == Version::One || handed_down() {
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
    use crate::setting::DISK;

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
            (
                "/proc/self/mounts",
                "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\nproc /proc proc rw 0 0",
            ),
            ("/proc/self/cgroup", "0::/user.slice/app.scope"),
            ("/sys/fs/cgroup/cgroup.subtree_control", "cpuset cpu io"),
            ("/sys/fs/cgroup/user.slice/cgroup.subtree_control", "cpu memory"),
            ("/sys/fs/cgroup/user.slice/app.scope/cgroup.subtree_control", ""),
        ]);
        let found = |controller| {
            parents(&root, controller)
                .into_iter()
                .map(|parent| parent.dir)
                .collect::<Vec<PathBuf>>()
        };
        assert_eq!(
            found(&CPU),
            [Path::new("/sys/fs/cgroup/user.slice"), Path::new("/sys/fs/cgroup/")]
        );
        assert_eq!(found(&DISK), [Path::new("/sys/fs/cgroup/")]);
        // No kernel answers here: an ordinary folder is not a group, and nothing is left behind.
        let options = Options { folder: Some(root.path("/run/ringfence")), ..Options::default() };
        let mut changes = Changes::begin(&root, "a test", &options).unwrap();
        assert!(
            Group::make(
                &root,
                &mut changes,
                "7-0",
                &GroupSettings::of(&CPU).with(Version::Two, "cpu.max", 1)
            )
            .is_err()
        );
        assert_eq!(changes.put_back().unwrap().steps.len(), 2);
        assert_eq!(root.list("/run/ringfence").unwrap(), [""; 0]);
        assert_eq!(root.list("/sys/fs/cgroup").unwrap(), ["cgroup.subtree_control", "user.slice"]);
    }

    #[test]
    fn version_1_is_told_by_its_controller() {
        let (_dir, root) = tree(&[
            (
                "/proc/self/mounts",
                "cgroup /sys/fs/cgroup/blkio cgroup rw,blkio 0 0\ncgroup /sys/fs/cgroup/cpu cgroup \
                 rw,cpu,cpuacct 0 0",
            ),
            ("/proc/self/cgroup", "2:blkio:/b\n1:cpu,cpuacct:/c"),
        ]);
        for (controller, own) in [(&CPU, "cpu/c"), (&DISK, "blkio/b")] {
            let found = parents(&root, controller).into_iter();
            let dirs: Vec<_> = found.map(|parent| (parent.dir, parent.version)).collect();
            let own = PathBuf::from("/sys/fs/cgroup").join(own);
            let top = own.parent().unwrap().join("");
            assert_eq!(dirs, [(own, Version::One), (top, Version::One)]);
        }
    }

    #[test]
    fn where_no_disk_can_be_limited_the_controller_is_named() {
        let (_dir, root) = tree(&[
            ("/proc/self/mounts", "cgroup2 /cg cgroup2 rw 0 0\ncgroup /cpu cgroup rw,cpu 0 0"),
            ("/proc/self/cgroup", "1:cpu:/\n0::/"),
            ("/cg/cgroup.subtree_control", "cpu memory"),
        ]);
        let options = Options { folder: Some(root.path("/run/ringfence")), ..Options::default() };
        let mut changes = Changes::begin(&root, "a test", &options).unwrap();
        let limit = GroupSettings::of(&DISK).with(Version::Two, "io.max", "8:0 wbps=max");
        let why = Group::make(&root, &mut changes, "7-0", &limit).unwrap_err();
        let why = why.text();
        assert!(why.contains("blkio of cgroup v1") && why.contains("echo +io >"), "{why}");
    }

    #[test]
    fn the_group_of_this_program_is_found() {
        let (_dir, root) = tree(&[
            (
                "/proc/self/mounts",
                "cgroup2 /cg2 cgroup2 rw 0 0\ncgroup /cg/cpu cgroup rw,cpu,cpuacct 0 0\ncgroup \
                 /cg/blkio cgroup rw,blkio 0 0",
            ),
            ("/proc/self/cgroup", "3:cpu,cpuacct:/a/b\n2:blkio:/d\n0::/u"),
        ]);
        let home = |version, controller| home(&root, version, controller).unwrap();
        assert_eq!(home(Version::One, &CPU), Path::new("/cg/cpu/a/b"));
        assert_eq!(home(Version::One, &DISK), Path::new("/cg/blkio/d"));
        // One hierarchy, so that one group has both.
        let two = [&CPU, &DISK].map(|controller| home(Version::Two, controller));
        assert_eq!(two, [Path::new("/cg2/u"); 2]);
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
