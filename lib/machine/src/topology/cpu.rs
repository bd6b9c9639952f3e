//! CPUs, cores, dies and packages from `/sys/devices/system/cpu`.

use std::collections::BTreeMap;

use crate::cpulist::{CpuId, CpuSet};
use crate::root::{Cpus, FsRoot, RootError, field};

use super::contradiction::{self, Contradiction, Relation, Sets};
use super::node::Node;
use super::parts::{Core, Cpu, Die, Package};

const DIR: &str = "/sys/devices/system/cpu";

/// The kernel's lists of CPUs.
pub(super) struct Lists {
    pub possible: CpuSet,
    pub present: CpuSet,
    pub online: CpuSet,
    pub allowed: CpuSet,
}

impl Lists {
    pub(super) fn read(
        root: &FsRoot,
        notes: &mut Vec<String>,
        contradictions: &mut Vec<Contradiction>,
    ) -> Result<Self, RootError> {
        let list = |name: &str| root.read_parsed::<CpuSet>(format!("{DIR}/{name}"), "a CPU list");
        let online = match list("online") {
            Ok(online) if !online.is_empty() => online,
            outcome => {
                // Sandboxes without sysfs still show the processors in /proc/cpuinfo.
                let (online, source) = match folders(root) {
                    found if found.is_empty() => {
                        (processors(root.cpuinfo()), "in /proc/cpuinfo".into())
                    }
                    found => (found, format!("with a folder in {DIR}")),
                };
                if online.is_empty() {
                    return Err(outcome.err().unwrap_or_else(|| RootError::Content {
                        path: root.path(format!("{DIR}/online")),
                        text: String::new(),
                        expected: "at least one CPU".into(),
                    }));
                }
                let what = match outcome {
                    Err(error) if !error.is_missing() => error.to_string(),
                    Ok(_) => format!("{DIR}/online names no CPU"),
                    Err(_) => format!("{DIR}/online is missing"),
                };
                notes.push(format!("{what}: the CPUs are those {source}"));
                online
            }
        };
        // Kernels before 2.6.26 have no such files.
        let mut above = |name: &str, what: &str, below: &CpuSet| match list(name) {
            Ok(set) => {
                let others = below.difference(&set);
                if !others.is_empty() {
                    let are = if others.len() == 1 { "is" } else { "are" };
                    let text = format!("{} {are} {what}, and not {name}", others.named());
                    contradictions.push(Contradiction {
                        relation: Relation::Cpu,
                        cpus: others,
                        text,
                    });
                }
                set.union(below)
            }
            Err(error) => {
                if !error.is_missing() {
                    notes.push(format!("which CPUs are {name} is not known: {error}"));
                }
                below.clone()
            }
        };
        let present = above("present", "online", &online);
        let possible = above("possible", "present", &present);
        let allowed = root
            .read_opt("/proc/self/status")
            .and_then(|status| {
                let list = field(&status, "Cpus_allowed_list").and_then(|text| text.parse().ok());
                list.or_else(|| CpuSet::from_mask(field(&status, "Cpus_allowed")?).ok())
            })
            .unwrap_or_else(|| {
                // Of another machine there is no "this process".
                if root.is_host() {
                    notes.push(
                        "/proc/self/status names no allowed CPUs: all online ones are assumed"
                            .into(),
                    );
                }
                online.clone()
            });
        Ok(Self { possible, present, online, allowed })
    }
}

// CPUs that have a folder, except those that are switched off.
fn folders(root: &FsRoot) -> CpuSet {
    let runs = |cpu: &CpuId| {
        root.read_opt(format!("{DIR}/cpu{cpu}/online")).is_none_or(|online| online != "0")
    };
    root.numbered(DIR, "cpu").into_iter().filter(runs).collect()
}

fn processors(cpuinfo: &str) -> CpuSet {
    cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(key, _)| key.trim() == "processor")
        .filter_map(|(_, id)| id.trim().parse().ok())
        .collect()
}

/// CPUs and the cores that they belong to, without the kinds of cores.
pub(super) fn read(
    root: &FsRoot,
    lists: &Lists,
    nodes: &[Node],
    notes: &mut Vec<String>,
    contradictions: &mut Vec<Contradiction>,
) -> (Vec<Cpu>, Vec<Core>) {
    let threads = threads(root, &lists.online, notes, contradictions);
    let mut cores: Vec<Core> = Vec::new();
    let mut core_of: BTreeMap<CpuId, usize> = BTreeMap::new();
    let mut cpus = Vec::with_capacity(lists.present.len());
    for id in lists.present.iter() {
        let (package, die) = (package(root, id), number(root, id, "die_id"));
        let core = threads.get(&id).map(|threads| {
            core_of.get(&id).copied().unwrap_or_else(|| {
                let core_id = number(root, id, "core_id");
                for thread in threads.iter() {
                    core_of.entry(thread).or_insert(cores.len());
                }
                cores.push(Core { core_id, package, kind: None, cpus: threads.clone() });
                cores.len() - 1
            })
        });
        cpus.push(Cpu {
            id,
            online: lists.online.contains(id),
            package,
            die,
            core,
            node: nodes.iter().find(|node| node.cpus.contains(id)).map(|node| node.id),
            siblings: core
                .map(|core| cores[core].cpus.difference(&CpuSet::single(id)))
                .unwrap_or_default(),
            kind: None,
            max_khz: root.parse_opt(format!("{DIR}/cpu{id}/cpufreq/cpuinfo_max_freq")),
        });
    }
    (cpus, cores)
}

fn number(root: &FsRoot, id: CpuId, name: &str) -> Option<u32> {
    // The kernel prints -1 for what the firmware does not tell.
    let value: i64 = root.parse_opt(format!("{DIR}/cpu{id}/topology/{name}"))?;
    u32::try_from(value).ok()
}

/// The number of a CPU's package; where firmware gives none, as on POWER and s390, the lowest CPU
/// of the package.
fn package(root: &FsRoot, id: CpuId) -> Option<u32> {
    number(root, id, "physical_package_id")
        .or_else(|| package_list(root, id).filter(|(_, cpus)| cpus.contains(id))?.1.first())
}

/// The CPUs of a CPU's package, by the kernel's list of them, and that list's name.
pub(super) fn package_list(root: &FsRoot, id: CpuId) -> Option<(&'static str, CpuSet)> {
    let names = [("package_cpus_list", "package_cpus"), ("core_siblings_list", "core_siblings")];
    names.into_iter().find_map(|(list, mask)| listed(root, id, list, mask))
}

/// The CPUs of a CPU's die, by the kernel's list of them, and that list's name.
pub(super) fn die_list(root: &FsRoot, id: CpuId) -> Option<(&'static str, CpuSet)> {
    listed(root, id, "die_cpus_list", "die_cpus")
}

fn listed(
    root: &FsRoot,
    id: CpuId,
    list: &'static str,
    mask: &'static str,
) -> Option<(&'static str, CpuSet)> {
    let dir = format!("{DIR}/cpu{id}/topology");
    let cpus = root.cpus(&dir, list, mask).named().filter(|cpus| !cpus.is_empty())?;
    Some((if root.exists(format!("{dir}/{list}")) { list } else { mask }, cpus))
}

/// The hardware threads of every online CPU's core, its own included. CPUs of which the kernel
/// tells neither the threads nor a `core_id` are left out and noted.
fn threads(
    root: &FsRoot,
    online: &CpuSet,
    notes: &mut Vec<String>,
    contradictions: &mut Vec<Contradiction>,
) -> Sets {
    let mut threads = Sets::new();
    let mut by_core_id = Cores::new();
    let mut unknown = CpuSet::new();
    let (mut lacking, mut named_instead) = (CpuSet::new(), CpuSet::new());
    let mut unreadable = None;
    for id in online.iter() {
        let dir = format!("{DIR}/cpu{id}/topology");
        let listed = [("core_cpus_list", "core_cpus"), ("thread_siblings_list", "thread_siblings")]
            .into_iter()
            .find_map(|(list, mask)| match root.cpus(&dir, list, mask) {
                Cpus::Unreadable(error) => {
                    unreadable.get_or_insert((id, error));
                    None
                }
                cpus => cpus.named(),
            })
            .map(|set| set.intersection(online));
        if let Some(set) = listed.as_ref().filter(|set| !set.is_empty() && !set.contains(id)) {
            lacking.insert(id);
            named_instead = named_instead.union(set);
        }
        if let Some(set) = listed.filter(|set| set.contains(id)) {
            threads.insert(id, set);
        } else if let Some(core) = number(root, id, "core_id") {
            let (package, die) = (package(root, id), number(root, id, "die_id"));
            by_core_id.entry((package, die, core)).or_default().insert(id);
        } else {
            unknown.insert(id);
        }
    }
    contradictions.extend(contradiction::disagreements(&threads).into_iter().map(|cpus| {
        Contradiction {
            relation: Relation::Smt,
            text: format!("the kernel's lists of SMT siblings of {} disagree", cpus.named()),
            cpus,
        }
    }));
    if !lacking.is_empty() {
        let text = contradiction::not_in_own_list(&lacking, "SMT siblings");
        contradictions.push(Contradiction {
            relation: Relation::Smt,
            cpus: lacking.union(&named_instead),
            text,
        });
    }
    let ambiguous = add_by_number(&mut threads, by_core_id);
    if let Some((id, error)) = unreadable {
        notes.push(format!(
            "the SMT siblings of CPU {id}, and perhaps of others, cannot be read: {error}"
        ));
    }
    if !unknown.is_empty() {
        notes.push(format!(
            "the kernel shows neither the core nor the SMT siblings of {}",
            unknown.named()
        ));
    }
    if !ambiguous.is_empty() {
        notes.push(format!(
            "which of {} are SMT siblings is not known: the kernel gives them equal core numbers \
             and no packages",
            ambiguous.named()
        ));
    }
    threads
}

// By package, die and number.
type Cores = BTreeMap<(Option<u32>, Option<u32>, u32), CpuSet>;

// Adds what is known by the numbers of cores; returned are the CPUs of which it does not follow.
fn add_by_number(threads: &mut Sets, cores: Cores) -> CpuSet {
    let mut ambiguous = CpuSet::new();
    for ((package, _, _), core) in cores {
        // Cores of several packages can have one number.
        if package.is_none() && core.len() > 1 {
            ambiguous = ambiguous.union(&core);
            continue;
        }
        threads.extend(core.iter().map(|id| (id, core.clone())).collect::<Vec<_>>());
    }
    ambiguous
}

pub(super) fn group_packages(cpus: &[Cpu]) -> Vec<Package> {
    let mut packages: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for cpu in cpus.iter().filter(|cpu| cpu.online) {
        if let Some(package) = cpu.package {
            packages.entry(package).or_default().insert(cpu.id);
        }
    }
    packages.into_iter().map(|(id, cpus)| Package { id, cpus }).collect()
}

pub(super) fn group_dies(cpus: &[Cpu]) -> Vec<Die> {
    let mut dies: BTreeMap<(Option<u32>, u32), CpuSet> = BTreeMap::new();
    for cpu in cpus.iter().filter(|cpu| cpu.online) {
        if let Some(die) = cpu.die {
            dies.entry((cpu.package, die)).or_default().insert(cpu.id);
        }
    }
    dies.into_iter().map(|((package, id), cpus)| Die { id, package, cpus }).collect()
}
