//! Control groups: the hierarchies that are mounted, and the groups and processes in them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::mounts;
use crate::root::FsRoot;

/// A mounted tree of control groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// Where it is mounted.
    pub point: PathBuf,
    /// The controllers of version 1, such as `freezer` or `name=systemd`; none of version 2.
    pub controllers: Vec<String>,
}

/// A control group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The folder, as seen below the root.
    pub folder: PathBuf,
    /// The controllers of version 1 that it has; none of version 2.
    pub controllers: Vec<String>,
    /// Whether it holds, with all groups below it, the processes of the target and no others.
    pub is_exact: bool,
}

impl Group {
    /// Whether it is of version 2.
    pub fn is_v2(&self) -> bool {
        self.controllers.is_empty()
    }

    /// Whether it is of version 1 and has this controller.
    pub fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|name| name == controller)
    }
}

impl Hierarchy {
    /// All that are mounted, each once.
    pub fn all(root: &FsRoot) -> Vec<Self> {
        let table = root.read_opt("/proc/self/mounts").unwrap_or_default();
        let mut all: Vec<Self> = Vec::new();
        for mount in mounts::of_table(&table) {
            let controllers: Vec<String> = match mount.fs.as_str() {
                "cgroup2" => Vec::new(),
                "cgroup" => {
                    mount.options.iter().filter(|option| is_controller(option)).cloned().collect()
                }
                _ => continue,
            };
            if all.iter().all(|known| known.controllers != controllers) {
                all.push(Self { point: mount.point, controllers });
            }
        }
        all
    }

    /// The folder of a path as in `/proc/PID/cgroup`.
    pub fn folder(&self, path: &str) -> PathBuf {
        let path = path.trim_matches('/');
        if path.is_empty() { self.point.clone() } else { self.point.join(path) }
    }

    /// The path of a process's group in this hierarchy, from the text of its `/proc/PID/cgroup`:
    /// lines are `ID:CONTROLLERS:PATH`, and version 2 has no controllers.
    pub fn path_of<'a>(&self, text: &'a str) -> Option<&'a str> {
        text.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            let mut names = controllers.split(',').filter(|name| !name.is_empty());
            let is_it = match self.controllers.first() {
                None => controllers.is_empty(),
                Some(first) => names.any(|name| name == first),
            };
            is_it.then_some(path)
        })
    }
}

// Options of a mount of version 1 that name no controller (mount(8), cgroups(7)).
fn is_controller(option: &str) -> bool {
    const OTHERS: [&str; 12] = [
        "rw",
        "ro",
        "nosuid",
        "nodev",
        "noexec",
        "relatime",
        "noatime",
        "nodiratime",
        "xattr",
        "clone_children",
        "noprefix",
        "sync",
    ];
    !OTHERS.contains(&option) && (!option.contains('=') || option.starts_with("name="))
}

/// The folders directly below a group.
pub fn below(root: &FsRoot, group: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root.path(group)).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut all: Vec<PathBuf> = folders.map(|entry| group.join(entry.file_name())).collect();
    all.sort();
    all
}

/// A group and all groups below it.
pub fn subtree(root: &FsRoot, group: &Path) -> Vec<PathBuf> {
    let mut all = vec![group.to_owned()];
    let mut next = 0;
    while next < all.len() {
        all.extend(below(root, &all[next]));
        next += 1;
    }
    all
}

/// Why the processes of a group cannot be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// It holds some that this `/proc` does not show.
    Hidden,
    /// It holds threads (`cgroup.type` is `threaded`), whose processes may be elsewhere too.
    Threaded,
}

/// So often a group is read that seems to hold a process of another PID namespace.
const LOOKS_FOR_HIDDEN: u32 = 6;

/// The processes in a group and in all groups below it. A group that is gone holds none.
///
/// # Errors
/// Where they cannot be known.
pub fn processes(root: &FsRoot, group: &Path) -> Result<BTreeSet<u32>, Unknown> {
    processes_meanwhile(root, group, std::thread::yield_now)
}

// What happens between two looks is handed in.
fn processes_meanwhile(
    root: &FsRoot,
    group: &Path,
    mut meanwhile: impl FnMut(),
) -> Result<BTreeSet<u32>, Unknown> {
    let mut all = BTreeSet::new();
    for folder in subtree(root, group) {
        let mut looks = 0;
        let pids = loop {
            match root.read_trimmed(folder.join("cgroup.procs")) {
                Ok(text) => {
                    let numbers = text.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok());
                    let pids: BTreeSet<u32> = numbers.collect();
                    looks += 1;
                    // 0 stands for what another PID namespace has there, and for one that ends
                    // while it is listed: that one is gone at the next look.
                    if !pids.contains(&0) {
                        break pids;
                    }
                    if looks == LOOKS_FOR_HIDDEN {
                        return Err(Unknown::Hidden);
                    }
                    meanwhile();
                }
                // Its processes are those of the domain above it, which is asked too if it belongs
                // to the target.
                Err(error) if error.errno() == Some(libc::EOPNOTSUPP) && folder == group => {
                    return Err(Unknown::Threaded);
                }
                Err(_) => break BTreeSet::new(),
            }
        };
        all.extend(pids);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use crate::fixture::FixtureTree;

    use super::*;

    #[test]
    fn hierarchies_are_told_by_their_controllers() {
        let tree = FixtureTree::empty("hierarchies");
        tree.write(
            "/proc/self/mounts",
            "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nosuid,nsdelegate 0 0\n\
             cgroup /sys/fs/cgroup/systemd cgroup rw,xattr,name=systemd 0 0\n\
             cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,cpu,cpuacct 0 0\n\
             cgroup /mnt/again cgroup rw,cpu,cpuacct 0 0\nproc /proc proc rw 0 0\n",
        );
        let all = Hierarchy::all(&tree.root());
        let names: Vec<Vec<String>> = all.iter().map(|one| one.controllers.clone()).collect();
        assert_eq!(
            names,
            [vec![], vec!["name=systemd".to_string()], vec!["cpu".into(), "cpuacct".into()]]
        );
        let own = "3:cpu,cpuacct:/a/b\n1:name=systemd:/s\n0::/u:x";
        let paths: Vec<&str> = all.iter().map(|one| one.path_of(own).unwrap()).collect();
        assert_eq!(paths, ["/u:x", "/s", "/a/b"]);
        assert_eq!(all[2].folder("/a/b"), Path::new("/sys/fs/cgroup/cpu,cpuacct/a/b"));
        assert_eq!(all[0].folder("/"), Path::new("/sys/fs/cgroup/unified"));
    }

    #[test]
    fn processes_that_cannot_be_seen_are_no_process_0() {
        let tree = FixtureTree::empty("hidden");
        tree.write("/cg/a/cgroup.procs", "7\n").write("/cg/a/b/cgroup.procs", "9\n8\n");
        assert_eq!(processes(&tree.root(), Path::new("/cg/a")), Ok([7, 8, 9].into()));
        tree.write("/cg/a/b/cgroup.procs", "9\n0\n");
        assert_eq!(processes(&tree.root(), Path::new("/cg/a")), Err(Unknown::Hidden));
        assert_eq!(processes(&tree.root(), Path::new("/cg/gone")), Ok([].into()));
    }
    #[test]
    fn who_ends_while_a_group_is_listed_is_not_hidden() {
        let tree = FixtureTree::empty("ends");
        tree.write("/cg/a/cgroup.procs", "7\n").write("/cg/a/b/cgroup.procs", "9\n0\n8\n");
        let mut looks = 0;
        let found = processes_meanwhile(&tree.root(), Path::new("/cg/a"), || {
            looks += 1;
            // Another ends at the second look.
            tree.write("/cg/a/b/cgroup.procs", if looks == 1 { "9\n0\n10\n" } else { "9\n10\n" });
        });
        assert_eq!((found, looks), (Ok([7, 9, 10].into()), 2));
        tree.write("/cg/a/b/cgroup.procs", "0\n");
        let mut looks = 0;
        let hidden = processes_meanwhile(&tree.root(), Path::new("/cg/a"), || looks += 1);
        assert_eq!((hidden, looks), (Err(Unknown::Hidden), LOOKS_FOR_HIDDEN - 1));
    }
}
