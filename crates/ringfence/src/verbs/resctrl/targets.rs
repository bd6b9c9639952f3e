//! What runs already: the processes that are meant, and those that are not touched.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use ringfence_machine::root::FsRoot;
use ringfence_sysfs::mounts;

use crate::args::Target;
use crate::failure::Failure;

/// Which processes are meant.
#[derive(Debug)]
pub enum Targets {
    /// These, and what they have started.
    Processes(Vec<u32>),
    /// Those of a control group and all below it, by its folder below the root, and what they were called.
    Group(PathBuf, String),
}

/// Finds what is asked for; none where nothing is.
pub fn find(root: &FsRoot, asked: &Target) -> Result<Option<Targets>, Failure> {
    if !asked.pid.is_empty() {
        return Ok(Some(Targets::Processes(asked.pid.clone())));
    }
    if let Some(path) = &asked.cgroup {
        let called = format!("control group {}", path.display());
        return group(root, path).map(|folder| Some(Targets::Group(folder, called)));
    }
    let Some(name) = &asked.unit else { return Ok(None) };
    let full = if name.contains('.') { name.clone() } else { format!("{name}.service") };
    let refused = |why: &str| Failure::Usage(format!("--unit: {name}: {why}"));
    let mounts = mounts_of(root);
    if mounts.is_empty() {
        return Err(refused("no control groups are mounted here"));
    }
    let found =
        mounts.iter().find_map(|mount| below(root, mount).into_iter().find(|one| one.ends_with(&full)));
    let folder = found.ok_or_else(|| {
        refused(&format!(
            "no control group is called {full}: is it running? 'systemctl status {full}' says so"
        ))
    })?;
    Ok(Some(Targets::Group(folder, format!("unit {full}"))))
}

// Where control groups are mounted, version 2 first.
fn mounts_of(root: &FsRoot) -> Vec<PathBuf> {
    let all = mounts::of_table(&root.read_opt("/proc/mounts").unwrap_or_default());
    let of = |fs: &str| all.iter().filter(|mount| mount.fs == fs).map(|mount| mount.point.clone()).collect();
    let (second, first): (Vec<PathBuf>, Vec<PathBuf>) = (of("cgroup2"), of("cgroup"));
    [second, first].concat()
}

fn group(root: &FsRoot, path: &Path) -> Result<PathBuf, Failure> {
    let is_group = |folder: &PathBuf| root.exists(folder.join("cgroup.procs"));
    let inside = path.strip_prefix("/").unwrap_or(path);
    let mounted = mounts_of(root).into_iter().map(|mount| mount.join(inside));
    let found = std::iter::once(path.to_owned()).chain(mounted).find(is_group);
    found.ok_or_else(|| {
        Failure::Usage(format!(
            "--cgroup: {}: there is no such control group: give its folder, such as /sys/fs/cgroup/user.slice, or \
             its path as /proc/PID/cgroup has it",
            path.display()
        ))
    })
}

// A control group and all below it, those above before those below.
fn below(root: &FsRoot, folder: &Path) -> Vec<PathBuf> {
    let mut all = vec![folder.to_owned()];
    let mut next = 0;
    while let Some(folder) = all.get(next).cloned() {
        next += 1;
        let Ok(entries) = fs::read_dir(root.path(&folder)) else { continue };
        let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let mut folders: Vec<PathBuf> = folders.map(|entry| folder.join(entry.file_name())).collect();
        folders.sort();
        all.extend(folders);
    }
    all
}

impl Targets {
    /// What they are called.
    pub fn name(&self) -> String {
        match self {
            Targets::Group(_, called) => called.clone(),
            Targets::Processes(pids) => {
                let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
                format!("process {}", pids.join(", "))
            }
        }
    }

    /// The processes that there are at this moment.
    pub fn processes(&self, root: &FsRoot) -> Result<BTreeSet<u32>, Failure> {
        match self {
            Targets::Group(folder, _) => {
                // Those of a threaded group are named by the one above, and cannot be read here.
                let files = below(root, folder).into_iter().map(|folder| folder.join("cgroup.procs"));
                let texts: Vec<String> = files.filter_map(|file| root.read_opt(file)).collect();
                // 0 stands for whoever is outside of this namespace.
                let pids =
                    texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.trim().parse().ok());
                Ok(pids.filter(|pid| *pid != 0).collect())
            }
            Targets::Processes(pids) => {
                let known = Process::all(root);
                if let Some(missing) = pids.iter().find(|pid| !known.contains_key(pid)) {
                    return Err(Failure::Usage(format!("--pid: there is no process {missing} here")));
                }
                Ok(with_descendants(&known, pids))
            }
        }
    }
}

fn with_descendants(known: &BTreeMap<u32, Process>, pids: &[u32]) -> BTreeSet<u32> {
    let mut found: BTreeSet<u32> = pids.iter().copied().collect();
    loop {
        let born = known.iter().filter(|(_, process)| found.contains(&process.parent)).map(|(pid, _)| *pid);
        let more: Vec<u32> = born.filter(|pid| !found.contains(pid)).collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// Why one of these processes is not to be touched, in a sentence; none where all may be.
pub fn refused(root: &FsRoot, pids: &BTreeSet<u32>, own: Option<u32>) -> Option<String> {
    let known = Process::all(root);
    let mut ours = BTreeMap::new();
    let mut above = own;
    while let Some(pid) = above.filter(|pid| *pid > 1 && !ours.contains_key(pid)) {
        ours.insert(pid, if Some(pid) == own { "is ringfence itself" } else { "has started ringfence" });
        above = known.get(&pid).map(|process| process.parent);
    }
    pids.iter().find_map(|pid| {
        let process = known.get(pid)?;
        let why = match pid {
            1 => "starts and ends everything else".to_owned(),
            _ if process.kernel => "is a thread of the kernel".to_owned(),
            pid if ours.contains_key(pid) => ours[pid].to_owned(),
            _ if process.is_needed() => "is needed by the system, or to reach it".to_owned(),
            _ => return None,
        };
        let name = ringfence_machine::text::printable(&process.name);
        Some(format!("process {pid} ({name}) is among them, which {why}: nothing was changed; name others"))
    })
}

// PF_KTHREAD of include/linux/sched.h.
const KERNEL: u64 = 0x0020_0000;

#[derive(Debug)]
struct Process {
    name: String,
    parent: u32,
    kernel: bool,
}

impl Process {
    fn all(root: &FsRoot) -> BTreeMap<u32, Self> {
        let read = |pid: u32| Some((pid, Self::of(&root.read_opt(format!("/proc/{pid}/stat"))?)?));
        root.numbered("/proc", "").into_iter().filter_map(read).collect()
    }

    // `4711 (NAME) S PARENT ...`, the flags being the ninth field (proc_pid_stat(5)). A name may hold anything.
    fn of(stat: &str) -> Option<Self> {
        let (start, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        let parent = fields.nth(1)?.parse().ok()?;
        let flags: u64 = fields.nth(4)?.parse().ok()?;
        let name = start.split_once('(')?.1.to_owned();
        Some(Self { name, parent, kernel: flags & KERNEL != 0 })
    }

    fn is_needed(&self) -> bool {
        ["sshd", "systemd", "dbus-"].iter().any(|start| self.name.starts_with(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_machine::fixtures::FixtureTree;

    fn tree() -> FixtureTree {
        let tree = FixtureTree::empty("targets");
        for (pid, name, parent, flags) in [
            (1, "systemd", 0, 0x400_100),
            (2, "kthreadd", 0, 0x208_040),
            (300, "sshd", 1, 0x400_100),
            (301, "sshd-session", 300, 0x400_100),
            (302, "sshd-session", 300, 0x400_100),
            (400, "a) b (c", 301, 0x400_000),
            (401, "batch", 400, 0x400_000),
            (402, "batch", 401, 0x400_000),
            (500, "other", 1, 0x400_000),
        ] {
            tree.write(
                format!("/proc/{pid}/stat"),
                format!("{pid} ({name}) S {parent} {pid} {pid} 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 100\n"),
            );
        }
        tree.write("/proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
        for (group, pids) in [
            ("", "2\n"),
            ("a.slice", ""),
            ("a.slice/b.service", "401\n"),
            ("a.slice/b.service/x", "402\n0\n"),
        ] {
            tree.write(format!("/sys/fs/cgroup/{group}/cgroup.procs"), pids);
        }
        tree
    }

    fn found(tree: &FixtureTree, target: &Target) -> Vec<u32> {
        let targets = find(&tree.root(), target).unwrap().unwrap();
        targets.processes(&tree.root()).unwrap().into_iter().collect()
    }

    #[test]
    fn processes_come_with_what_they_have_started() {
        let tree = tree();
        assert_eq!(found(&tree, &Target { pid: vec![400, 500], ..Target::default() }), [400, 401, 402, 500]);
        let none = Targets::Processes(vec![9]).processes(&tree.root()).unwrap_err();
        assert_eq!(none.to_string(), "--pid: there is no process 9 here");
    }

    #[test]
    fn a_group_is_all_below_it_by_any_of_its_names() {
        let tree = tree();
        for path in ["/sys/fs/cgroup/a.slice", "/a.slice", "a.slice"] {
            assert_eq!(found(&tree, &Target { cgroup: Some(path.into()), ..Target::default() }), [401, 402]);
        }
        for unit in ["b", "b.service"] {
            assert_eq!(found(&tree, &Target { unit: Some(unit.into()), ..Target::default() }), [401, 402]);
        }
        for target in [
            Target { cgroup: Some("/b.slice".into()), ..Target::default() },
            Target { unit: Some("c".into()), ..Target::default() },
        ] {
            assert!(find(&tree.root(), &target).is_err());
        }
    }

    #[test]
    fn what_the_system_needs_is_refused() {
        let tree = tree();
        let refused = |pids: &[u32]| refused(&tree.root(), &pids.iter().copied().collect(), Some(401));
        for (pid, part) in [
            (1, "starts and ends everything else"),
            (2, "is a thread of the kernel"),
            (302, "is needed by the system"),
            (301, "has started ringfence"),
            (400, "process 400 (a) b (c) is among them, which has started ringfence"),
            (401, "is ringfence itself"),
        ] {
            let why = refused(&[402, pid, 500]).unwrap();
            assert!(why.contains(part), "{why}");
        }
        assert_eq!(refused(&[402, 500]), None);
    }
}
