//! From a name to processes and control groups.

mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cpulist::CpuSet;
use crate::root::{FsRoot, field};

use crate::attach::hierarchy::{self, Group, Hierarchy, Unknown};
use crate::attach::process::Process;
use crate::attach::refusal::Refusal;
use crate::attach::target::Target;
use crate::attach::tree::{Settled, Tree};
use crate::attach::vital::Guard;

/// How something is frozen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Method {
    /// `cgroup.freeze` of a control group of version 2 (Linux 5.2), at once and with all groups
    /// below it.
    CgroupV2(PathBuf),
    /// `freezer.state` of a control group of version 1.
    V1Freezer(PathBuf),
    /// `SIGSTOP` to one process after the other, until all are stopped. Their parents may see it
    /// (`waitpid(2)`, `WUNTRACED`).
    Signals,
    /// `PTRACE_INTERRUPT` to one thread after the other, until all are stopped. It is never offered
    /// and has to be asked for, since a program that traces already, or wants to, is in its way.
    /// The kernel undoes it by itself when this program ends.
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

/// From this look at a group on, one that is amiss there and was at the look before is taken to
/// stay.
const LOOKS_TO_BE_SURE: u32 = 3;
/// Looks at a group whose processes come and go all the time.
const MOST_LOOKS: u32 = 8;
/// Between two of them.
const PAUSE: Duration = Duration::from_millis(2);

/// What belongs to a target, to be looked at again.
#[derive(Debug, Clone)]
pub(crate) enum Members {
    Tree(Tree),
    Groups(Vec<PathBuf>),
}

impl Members {
    /// All that live, and whether that is certain to be all. What cannot be known is not new here:
    /// [`find`] has refused it. Those that are settled are not looked at again.
    pub fn look(&mut self, root: &FsRoot, settled: &Settled) -> (Vec<Process>, bool) {
        let folders = match self {
            Members::Tree(tree) => return tree.look(root, settled),
            Members::Groups(folders) => folders,
        };
        let pids = in_groups(root, folders);
        let known: BTreeMap<u32, &Process> =
            settled.iter().map(|(id, process)| (id.tid, process)).collect();
        let read =
            |pid: &u32| known.get(pid).copied().cloned().or_else(|| Process::read(root, *pid));
        let all: Vec<Process> = pids.iter().filter_map(read).collect();
        // One that has ended may have left a child.
        let certain = all.len() == pids.len();
        (all, certain)
    }

    /// Whether a group holds exactly these processes, and which they are. Some may start and end
    /// while this is checked.
    pub fn exactly_in(&mut self, root: &FsRoot, folder: &Path) -> (bool, Vec<Process>) {
        self.exactly_in_meanwhile(root, folder, || std::thread::sleep(PAUSE))
    }

    // What happens between two looks is handed in.
    fn exactly_in_meanwhile(
        &mut self,
        root: &FsRoot,
        folder: &Path,
        mut meanwhile: impl FnMut(),
    ) -> (bool, Vec<Process>) {
        let mut all = Vec::new();
        let mut amiss: Vec<Process> = Vec::new();
        for look in 1..=MOST_LOOKS {
            let Ok(before) = hierarchy::processes(root, folder) else { return (false, all) };
            all = self.look(root, &Settled::new()).0;
            let Ok(after) = hierarchy::processes(root, folder) else { return (false, all) };
            let pids: BTreeSet<u32> = all.iter().map(Process::pid).collect();
            let others = before.difference(&pids);
            let elsewhere = pids.difference(&after);
            let now: Vec<Process> = others
                .chain(elsewhere)
                .filter_map(|pid| Process::read(root, *pid))
                .filter(|process| !process.has_ended())
                .collect();
            if now.is_empty() {
                return (true, all);
            }
            // One whose parent has just ended is found at the next look; a process that only passes
            // by is gone then.
            let stays = now.iter().any(|one| amiss.iter().any(|known| known.id == one.id));
            if stays && look >= LOOKS_TO_BE_SURE {
                return (false, all);
            }
            amiss = now;
            if look < MOST_LOOKS {
                meanwhile();
            }
        }
        // None of them stayed. The last ones are named, so that they are checked against the list
        // of vital processes.
        all.extend(amiss);
        (true, all)
    }
}

fn in_groups(root: &FsRoot, folders: &[PathBuf]) -> BTreeSet<u32> {
    folders.iter().filter_map(|folder| hierarchy::processes(root, folder).ok()).flatten().collect()
}

/// Those in groups whose numbers are not among these.
pub(crate) fn new_in_groups(
    root: &FsRoot,
    folders: &[PathBuf],
    known: &BTreeSet<u32>,
) -> Vec<Process> {
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
    /// Its control groups, one for each hierarchy that it has one in: those that were named; of a
    /// process, those it is in.
    pub groups: Vec<Group>,
    /// The CPUs that any of its processes may run on.
    pub cpus: CpuSet,
    /// The methods to freeze it, the best first. [`Method::Ptrace`] is not among these, and can be
    /// tried all the same.
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

/// The processes behind a name, for callers that only read: the system may depend on them.
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

/// Finds what is only looked at, and neither frozen nor limited: nothing is refused for the
/// system's sake.
///
/// # Errors
/// Where it is not there, or it cannot be known what belongs to it.
pub fn see(root: &FsRoot, target: &Target) -> Result<Seen, Refusal> {
    let (members, _) = members(root, &Hierarchy::all(root), target)?;
    let mut seen = Seen { target: target.clone(), members };
    if seen.look(root).is_empty() { Err(empty(target)) } else { Ok(seen) }
}

fn empty(target: &Target) -> Refusal {
    Refusal::NotThere { target: target.clone(), why: "it contains no running process".into() }
}

// The controllers of a hierarchy, and a folder in it.
type Folder = (Vec<String>, PathBuf);

// The members of a target, and its groups.
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
    let why = || "no running process has that ID".into();
    let top = top.ok_or_else(|| Refusal::NotThere { target: target.clone(), why: why() })?;
    let text = root.read_opt(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let of = |one: &Hierarchy| Some((one.controllers.clone(), one.folder(one.path_of(&text)?)));
    Ok((Members::Tree(Tree::new(root, &top)), hierarchies.iter().filter_map(of).collect()))
}

// A few looks, in case it forks just now: a freeze looks again.
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
    Err(Refusal::Vital {
        target: target.clone(),
        pid: process.pid(),
        name: process.name.clone(),
        why,
    })
}

/// Finds a target.
///
/// # Errors
/// Where it is not there, or not to be attached to: the system depends on it, it is this program,
/// or it cannot be known what belongs to it.
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
        // The uppermost group holds all processes.
        let uppermost = hierarchies.iter().any(|one| one.point == folder);
        let is_exact = !uppermost && members.exactly_in(root, &folder).0;
        Group { folder, controllers, is_exact }
    };
    let groups: Vec<Group> = folders.into_iter().map(group).collect();
    let inside: BTreeSet<u32> = processes.iter().map(Process::pid).collect();
    let roots =
        processes.iter().filter(|process| !inside.contains(&process.parent)).cloned().collect();
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
        return unknown("the root group contains the whole system");
    }
    for folder in folders {
        match hierarchy::processes(root, folder) {
            Ok(_) => {}
            Err(Unknown::Hidden) => {
                return unknown(
                    "it contains processes of another PID namespace: run this outside containers",
                );
            }
            Err(Unknown::Threaded) => {
                return unknown(
                    "it contains threads of processes that are in other groups as well: name a \
                     group above it",
                );
            }
        }
    }
    Ok(())
}

fn methods(root: &FsRoot, groups: &[Group]) -> Vec<Method> {
    let exact = || groups.iter().filter(|group| group.is_exact);
    let v2 = exact().find(|group| group.is_v2() && root.exists(group.folder.join("cgroup.freeze")));
    let v1 = exact()
        .find(|group| group.has("freezer") && root.exists(group.folder.join("freezer.state")));
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

#[cfg(test)]
mod tests {
    use crate::fixture::FixtureTree;

    use super::*;

    const GROUP: &str = "/cg/service";

    // Process 20, which leads a process group in a session of others, and what it has started;
    // process 30 belongs to another program.
    struct Service(FixtureTree);

    impl Service {
        fn new() -> Self {
            let service = Self(FixtureTree::empty("comings"));
            service.process(1, 0, 1).process(20, 1, 20).process(30, 1, 30).group(&[20]);
            service
        }

        fn process(&self, pid: u32, parent: u32, group: u32) -> &Self {
            let rest = "0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0";
            self.0.write(
                format!("/proc/{pid}/stat"),
                format!("{pid} (x) S {parent} {group} 5 {rest} {pid} 0 0"),
            );
            self
        }

        fn group(&self, pids: &[u32]) {
            let text: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
            self.0.write(format!("{GROUP}/cgroup.procs"), text);
        }

        // When this look is over a program is there whose parent has just ended; the one before is
        // an orphan by now.
        fn start(&self, look: u32) -> u32 {
            let pid = 100 + look;
            if look > 0 {
                self.process(pid - 1, 1, 20);
            }
            self.process(pid, 900 + look, 20);
            pid
        }

        fn exactly(&self, mut meanwhile: impl FnMut(u32)) -> (bool, Vec<u32>, u32) {
            let root = self.0.root();
            let mut members = Members::Tree(Tree::new(&root, &Process::read(&root, 20).unwrap()));
            let mut looks = 1;
            let (exact, all) = members.exactly_in_meanwhile(&root, Path::new(GROUP), || {
                meanwhile(looks);
                looks += 1;
            });
            (exact, all.iter().map(Process::pid).collect(), looks)
        }
    }

    #[test]
    fn a_service_that_starts_programs_all_the_time_has_its_group_to_itself() {
        let service = Service::new();
        let mut inside = vec![20, service.start(0)];
        service.group(&inside);
        let (exact, all, looks) = service.exactly(|look| {
            if look < 5 {
                inside.push(service.start(look));
                service.group(&inside);
            } else {
                service.process(104, 1, 20);
            }
        });
        assert!(exact && all.ends_with(&[103, 104]) && looks == 6, "{all:?} {looks}");
        // It continues like that.
        let service = Service::new();
        let mut inside = vec![20, service.start(0)];
        service.group(&inside);
        let (exact, all, looks) = service.exactly(|look| {
            inside.push(service.start(look));
            service.group(&inside);
        });
        assert!(exact && all.last() == Some(&107) && looks == MOST_LOOKS, "{all:?} {looks}");
    }

    #[test]
    fn a_stranger_counts_who_stays() {
        let service = Service::new();
        service.group(&[20, 30]);
        let (exact, all, looks) = service.exactly(|_| {});
        assert!(!exact && all == [20] && looks == LOOKS_TO_BE_SURE, "{all:?} {looks}");
        // Also where others come and go meanwhile.
        let mut inside = vec![20, 30, service.start(0)];
        service.group(&inside);
        let (exact, _, looks) = service.exactly(|look| {
            inside.push(service.start(look));
            service.group(&inside);
        });
        assert!(!exact && looks == LOOKS_TO_BE_SURE, "{looks}");
        // One that leaves, and one that ends, do not.
        for leaves in [true, false] {
            let service = Service::new();
            service.group(&[20, 30]);
            let (exact, all, looks) = service.exactly(|_| {
                if leaves {
                    service.group(&[20]);
                } else {
                    service.0.remove("/proc/30");
                }
            });
            assert!(exact && all == [20] && looks == 2, "{all:?} {looks}");
        }
        // Nor does another process with the same number at the next look. One that stays from then
        // on counts.
        let service = Service::new();
        service.group(&[20, 30]);
        let again = |look: u32| {
            let rest = "0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0";
            service.0.write("/proc/30/stat", format!("30 (x) S 1 30 5 {rest} {} 0 0", look.min(4)));
        };
        let (exact, _, looks) = service.exactly(again);
        assert!(!exact && looks == 6, "{looks}");
    }

    #[test]
    fn one_of_the_tree_that_is_elsewhere_counts() {
        let service = Service::new();
        service.process(21, 20, 20);
        let (exact, all, looks) = service.exactly(|_| {});
        assert!(!exact && all == [20, 21] && looks == LOOKS_TO_BE_SURE, "{all:?} {looks}");
        let (exact, ..) = service.exactly(|_| service.group(&[20, 21]));
        assert!(exact);
    }
}
