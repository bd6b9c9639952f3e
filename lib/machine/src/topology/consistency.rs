//! Whether the kernel's files about CPUs are consistent with each other.

use std::collections::BTreeMap;

use crate::cpulist::{CpuId, CpuSet};
use crate::root::FsRoot;
use crate::text::listed;

use super::contradiction::{Contradiction, Relation};
use super::{Cache, Core, Cpu, Die, Node, Package, cpu};

pub(super) fn of_caches(caches: &[Cache], cpus: &[Cpu]) -> Vec<Contradiction> {
    let mut found = Vec::new();
    for cache in caches.iter().filter(|cache| cache.level > 1) {
        let packages = packages_of(&cache.cpus, cpus);
        if packages.len() > 1 {
            found.push(Contradiction {
                relation: Relation::Cache,
                cpus: cache.cpus.clone(),
                text: format!(
                    "the {} of {} spans packages {packages}, which share no cache",
                    cache.name(),
                    cache.cpus.named()
                ),
            });
        }
    }
    found
}

/// `fake`: emulated nodes divide cores, too.
pub(super) fn of_cores(cores: &[Core], cpus: &[Cpu], fake: bool) -> Vec<Contradiction> {
    let spanning = |core: &Core| {
        let (packages, nodes) = (packages_of(&core.cpus, cpus), nodes_of(&core.cpus, cpus));
        let what = match (packages.len(), nodes.len()) {
            (2.., _) => format!("packages {packages}"),
            (_, 2..) if !fake => format!("NUMA nodes {nodes}"),
            _ => return None,
        };
        let text = format!("{} are threads of one core that spans {what}", core.cpus.named());
        Some(Contradiction { relation: Relation::Smt, cpus: core.cpus.clone(), text })
    };
    cores.iter().filter_map(spanning).collect()
}

/// `fake`: emulated nodes share CPUs, and are as near to each other as to themselves.
pub(super) fn of_nodes(nodes: &[Node], fake: bool) -> Vec<Contradiction> {
    let mut by_nodes: BTreeMap<CpuSet, CpuSet> = BTreeMap::new();
    for cpu in nodes.iter().flat_map(|node| node.cpus.iter()).collect::<CpuSet>().iter() {
        let of = nodes.iter().filter(|node| node.cpus.contains(cpu)).map(|node| node.id).collect();
        by_nodes.entry(of).or_default().insert(cpu);
    }
    let several = by_nodes.into_iter().filter(|(nodes, _)| nodes.len() > 1 && !fake);
    let mut found: Vec<Contradiction> = several
        .map(|(nodes, cpus)| Contradiction {
            relation: Relation::Node,
            text: format!("each of nodes {nodes} names {}", cpus.named()),
            cpus,
        })
        .collect();
    for node in nodes {
        let Some(own) = node.distance(node.id) else { continue };
        let mut by_distance: BTreeMap<u32, Vec<&Node>> = BTreeMap::new();
        for other in nodes.iter().filter(|other| other.id != node.id) {
            if let Some(distance) = node.distance(other.id).filter(|&distance| distance <= own) {
                by_distance.entry(distance).or_default().push(other);
            }
        }
        for (distance, near) in
            by_distance.into_iter().filter(|&(distance, _)| distance < own || !fake)
        {
            let others: CpuSet = near.iter().map(|other| other.id).collect();
            let others = format!("{} {others}", if others.len() == 1 { "node" } else { "nodes" });
            let text = match distance < own {
                true => format!(
                    "node {} is nearer to {others} (distance {distance}) than to itself ({own})",
                    node.id
                ),
                false => {
                    format!("node {} is as near to {others} as to itself (distance {own})", node.id)
                }
            };
            let cpus = near.iter().fold(node.cpus.clone(), |all, other| all.union(&other.cpus));
            found.push(Contradiction { relation: Relation::Node, cpus, text });
        }
    }
    found
}

/// How many of the groups that contradict a number are quoted.
const QUOTED: usize = 4;

/// Package numbers that group CPUs differently than the kernel's lists of packages.
pub(super) fn of_packages(
    root: &FsRoot,
    packages: &[Package],
    online: &CpuSet,
) -> Vec<Contradiction> {
    let of_package = |package: &Package| {
        let list = |id| cpu::package_list(root, id);
        let what = format!("physical_package_id {}", package.id);
        grouped_otherwise(Relation::Package, &what, &package.cpus, online, list)
    };
    packages.iter().filter_map(of_package).collect()
}

/// As [`of_packages`], for dies.
pub(super) fn of_dies(root: &FsRoot, dies: &[Die], online: &CpuSet) -> Vec<Contradiction> {
    let of_die = |die: &Die| {
        let package =
            die.package.map(|package| format!(" of package {package}")).unwrap_or_default();
        let what = format!("die_id {}{package}", die.id);
        grouped_otherwise(Relation::Die, &what, &die.cpus, online, |id| cpu::die_list(root, id))
    };
    dies.iter().filter_map(of_die).collect()
}

/// `what` groups `cpus`: says so if the list of one of these CPUs names others.
fn grouped_otherwise(
    relation: Relation,
    what: &str,
    cpus: &CpuSet,
    online: &CpuSet,
    list: impl Fn(CpuId) -> Option<(&'static str, CpuSet)>,
) -> Option<Contradiction> {
    let mut groups: Vec<CpuSet> = Vec::new();
    let mut source = None;
    for (file, listed) in cpus.iter().filter_map(list) {
        let listed = listed.intersection(online);
        source.get_or_insert(file);
        if !groups.contains(&listed) {
            groups.push(listed);
        }
    }
    let file = source.filter(|_| groups.iter().any(|group| group != cpus))?;
    let mut others: Vec<String> = groups.iter().take(QUOTED).map(CpuSet::named).collect();
    if groups.len() > QUOTED {
        others.push(format!("{} other groups", groups.len() - QUOTED));
    }
    let others = listed(&others);
    Some(Contradiction {
        relation,
        text: format!("{what} groups {}, and {file} groups {others}", cpus.named()),
        cpus: groups.iter().fold(cpus.clone(), |all, group| all.union(group)),
    })
}

fn numbers(set: &CpuSet, cpus: &[Cpu], of: impl Fn(&Cpu) -> Option<u32>) -> CpuSet {
    let known = |id| cpus.binary_search_by_key(&id, |cpu| cpu.id).ok().map(|at| &cpus[at]);
    set.iter().filter_map(|id| of(known(id)?)).collect()
}

fn packages_of(set: &CpuSet, cpus: &[Cpu]) -> CpuSet {
    numbers(set, cpus, |cpu| cpu.package)
}

fn nodes_of(set: &CpuSet, cpus: &[Cpu]) -> CpuSet {
    numbers(set, cpus, |cpu| cpu.node)
}
