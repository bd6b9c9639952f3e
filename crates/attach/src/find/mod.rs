//! From a name to processes and control groups.

mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use ringfence_sysfs::cpulist::CpuSet;
use ringfence_sysfs::root::{FsRoot, field};

use crate::hierarchy::{self, Group, Hierarchy, Unknown};
use crate::process::Process;
use crate::refusal::Refusal;
use crate::target::Target;
use crate::tree::{Settled, Tree};
use crate::vital::Guard;

/// How something is frozen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Method {
    /// `cgroup.freeze` of a control group of version 2 (Linux 5.2), at once and with all groups below it.
    CgroupV2(PathBuf),
    /// `freezer.state` of a control group of version 1.
    V1Freezer(PathBuf),
    /// `SIGSTOP` to one process after the other, until all stand. Their parents may see it (`waitpid(2)`, `WUNTRACED`).
    Signals,
    /// `PTRACE_INTERRUPT` to one thread after the other, until all stand. Nobody is offered it, since it wants asking for:
    /// whoever traces already, or wants to, is in its way. The kernel undoes it by itself when this program ends.
    Ptrace,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Method::CgroupV2(folder) => write!(f, "cgroup.freeze of {}", folder.display()),
            Method::V1Freezer(folder) => write!(f, "freezer.state of {}", folder.display()),
            Method::Signals => f.write_str("SIGSTOP"),
            Method::Ptrace => f.write_str("ptrace"),
        }
    }
}

/// Who belongs to a target, to be looked at again.
#[derive(Debug, Clone)]
pub(crate) enum Members {
    Tree(Tree),
    Groups(Vec<PathBuf>),
}

impl Members {
    /// All that live, and whether that is certain to be all. What cannot be known is not new here: [`find`] has refused it.
    /// Those that are settled are not looked at again.
    pub fn look(&mut self, root: &FsRoot, settled: &Settled) -> (Vec<Process>, bool) {
        let folders = match self {
            Members::Tree(tree) => return tree.look(root, settled),
            Members::Groups(folders) => folders,
        };
        let pids = in_groups(root, folders);
        let known: BTreeMap<u32, &Process> = settled.iter().map(|(id, process)| (id.tid, process)).collect();
        let read = |pid: &u32| known.get(pid).copied().cloned().or_else(|| Process::read(root, *pid));
        let all: Vec<Process> = pids.iter().filter_map(read).collect();
        // One that has ended may have left a child.
        let certain = all.len() == pids.len();
        (all, certain)
    }

    /// Whether a group holds these and no others, and who they are. Some may be born and end while this is looked at.
    pub fn exactly_in(&mut self, root: &FsRoot, folder: &Path) -> (bool, Vec<Process>) {
        let has_ended = |pid: u32| Process::read(root, pid).is_none_or(|process| process.has_ended());
        let mut all = Vec::new();
        // One whose parent has just ended may be found at the second look.
        for _ in 0..3 {
            let Ok(before) = hierarchy::processes(root, folder) else { break };
            all = self.look(root, &Settled::new()).0;
            let Ok(after) = hierarchy::processes(root, folder) else { break };
            let pids: BTreeSet<u32> = all.iter().map(Process::pid).collect();
            let others = before.difference(&pids).any(|pid| !has_ended(*pid));
            let elsewhere = pids.difference(&after).any(|pid| !has_ended(*pid));
            if !others && !elsewhere {
                return (true, all);
            }
        }
        (false, all)
    }
}

fn in_groups(root: &FsRoot, folders: &[PathBuf]) -> BTreeSet<u32> {
    folders.iter().filter_map(|folder| hierarchy::processes(root, folder).ok()).flatten().collect()
}

/// Those in groups whose numbers are not among these.
pub(crate) fn new_in_groups(root: &FsRoot, folders: &[PathBuf], known: &BTreeSet<u32>) -> Vec<Process> {
    let pids = in_groups(root, folders);
    pids.difference(known).filter_map(|pid| Process::read(root, *pid)).collect()
}

/// A target that was found, and may be attached to.
#[derive(Debug, Clone)]
pub struct Found {
    /// What was asked for.
    pub target: Target,
    /// Its processes whose parents are not part of it.
    pub roots: Vec<Process>,
    /// All its processes, by number.
    pub processes: Vec<Process>,
    /// Its control groups, one for each hierarchy that it has one in: those that were named; of a process, those it is in.
    pub groups: Vec<Group>,
    /// The CPUs that any of its processes may run on.
    pub cpus: CpuSet,
    /// How it can be frozen, the best way first. [`Method::Ptrace`] is not among these, and can be tried all the same.
    pub methods: Vec<Method>,
    pub(crate) members: Members,
    pub(crate) guard: Guard,
}

impl Found {
    /// Looks again: its processes that live now. What joins later is held against the same list.
    ///
    /// # Errors
    /// Where one that the system depends on is among them by now.
    pub fn look(&mut self, root: &FsRoot) -> Result<Vec<Process>, Refusal> {
        let mut all = settled(&mut self.members, root);
        check_vital(&self.guard, &self.target, &all)?;
        all.retain(|process| !process.has_ended());
        Ok(all)
    }
}

/// Who goes by a name, for those who only look at them: the system may depend on these.
#[derive(Debug, Clone)]
pub struct Seen {
    /// What was asked for.
    pub target: Target,
    members: Members,
}

impl Seen {
    /// Its processes that live now.
    pub fn look(&mut self, root: &FsRoot) -> Vec<Process> {
        let mut all = settled(&mut self.members, root);
        all.retain(|process| !process.has_ended());
        all
    }
}

/// Finds what is only looked at, and neither frozen nor limited: nothing is refused for the system's sake.
///
/// # Errors
/// Where it is not there, or it cannot be known what belongs to it.
pub fn see(root: &FsRoot, target: &Target) -> Result<Seen, Refusal> {
    let (members, _) = members(root, &Hierarchy::all(root), target)?;
    let mut seen = Seen { target: target.clone(), members };
    if seen.look(root).is_empty() { Err(empty(target)) } else { Ok(seen) }
}

fn empty(target: &Target) -> Refusal {
    Refusal::NotThere { target: target.clone(), why: "it holds no process that lives".into() }
}

// The controllers of a hierarchy, and a folder in it.
type Folder = (Vec<String>, PathBuf);

// Who belongs to a target, and its groups.
fn members(
    root: &FsRoot,
    hierarchies: &[Hierarchy],
    target: &Target,
) -> Result<(Members, Vec<Folder>), Refusal> {
    let Target::Pid(pid) = target else {
        let named = names::groups(root, hierarchies, target)?;
        let folders: Vec<PathBuf> = named.iter().map(|(_, folder)| folder.clone()).collect();
        check_whole(root, target, hierarchies, &folders)?;
        return Ok((Members::Groups(folders), named));
    };
    let top = Process::read(root, *pid).filter(|process| !process.has_ended());
    let why = || "no process that lives has that number".into();
    let top = top.ok_or_else(|| Refusal::NotThere { target: target.clone(), why: why() })?;
    let text = root.read_opt(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let of = |one: &Hierarchy| Some((one.controllers.clone(), one.folder(one.path_of(&text)?)));
    Ok((Members::Tree(Tree::new(root, &top)), hierarchies.iter().filter_map(of).collect()))
}

// A few looks, should it fork just now: those who freeze look again.
fn settled(members: &mut Members, root: &FsRoot) -> Vec<Process> {
    let mut processes = Vec::new();
    for _ in 0..5 {
        let certain;
        (processes, certain) = members.look(root, &Settled::new());
        if certain {
            break;
        }
    }
    processes
}

fn check_vital(guard: &Guard, target: &Target, processes: &[Process]) -> Result<(), Refusal> {
    let refused = processes.iter().find_map(|process| Some((process, guard.refuses(process)?)));
    let Some((process, why)) = refused else { return Ok(()) };
    Err(Refusal::Vital { target: target.clone(), pid: process.pid(), name: process.name.clone(), why })
}

/// Finds a target.
///
/// # Errors
/// Where it is not there, or not to be attached to: the system depends on it, it is this program, or it cannot be known
/// what belongs to it.
pub fn find(root: &FsRoot, target: &Target) -> Result<Found, Refusal> {
    let hierarchies = Hierarchy::all(root);
    let (mut members, folders) = members(root, &hierarchies, target)?;
    let processes = settled(&mut members, root);
    let guard = Guard::new(root);
    check_vital(&guard, target, &processes)?;
    if processes.iter().all(Process::has_ended) {
        return Err(empty(target));
    }
    let group = |(controllers, folder): Folder| {
        // The uppermost group holds everybody.
        let uppermost = hierarchies.iter().any(|one| one.point == folder);
        let is_exact = !uppermost && members.exactly_in(root, &folder).0;
        Group { folder, controllers, is_exact }
    };
    let groups: Vec<Group> = folders.into_iter().map(group).collect();
    let inside: BTreeSet<u32> = processes.iter().map(Process::pid).collect();
    let roots = processes.iter().filter(|process| !inside.contains(&process.parent)).cloned().collect();
    let methods = methods(root, &groups);
    let cpus = cpus(root, &processes);
    Ok(Found { target: target.clone(), roots, processes, groups, cpus, methods, members, guard })
}

fn check_whole(
    root: &FsRoot,
    target: &Target,
    hierarchies: &[Hierarchy],
    folders: &[PathBuf],
) -> Result<(), Refusal> {
    let unknown = |why| Err(Refusal::Unknown { target: target.clone(), why });
    if folders.iter().any(|folder| hierarchies.iter().any(|one| one.point == *folder)) {
        return unknown("the uppermost group holds the whole system");
    }
    for folder in folders {
        match hierarchy::processes(root, folder) {
            Ok(_) => {}
            Err(Unknown::Hidden) => {
                return unknown(
                    "it holds processes of another PID namespace: run this outside of containers",
                );
            }
            Err(Unknown::Threaded) => {
                return unknown(
                    "it holds threads of processes that are in other groups too: name a group above it",
                );
            }
        }
    }
    Ok(())
}

fn methods(root: &FsRoot, groups: &[Group]) -> Vec<Method> {
    let exact = || groups.iter().filter(|group| group.is_exact);
    let v2 = exact().find(|group| group.is_v2() && root.exists(group.folder.join("cgroup.freeze")));
    let v1 = exact().find(|group| group.has("freezer") && root.exists(group.folder.join("freezer.state")));
    let mut all = Vec::new();
    all.extend(v2.map(|group| Method::CgroupV2(group.folder.clone())));
    all.extend(v1.map(|group| Method::V1Freezer(group.folder.clone())));
    all.push(Method::Signals);
    all
}

fn cpus(root: &FsRoot, processes: &[Process]) -> CpuSet {
    let of = |process: &Process| -> Option<CpuSet> {
        let status = root.read_opt(format!("/proc/{}/status", process.pid()))?;
        field(&status, "Cpus_allowed_list")?.parse().ok()
    };
    processes.iter().filter_map(of).fold(CpuSet::default(), |all, some| all.union(&some))
}
