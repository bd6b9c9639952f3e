//! Whether what the kernel says of CPUs can be true as a whole.

use std::collections::BTreeMap;

use crate::cpulist::CpuSet;
use crate::root::FsRoot;

use super::contradiction::{Contradiction, Relation};
use super::{Cache, Core, Cpu, Node, Package, cpu};

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

pub(super) fn of_cores(cores: &[Core], cpus: &[Cpu]) -> Vec<Contradiction> {
    let spanning = |core: &Core| {
        let (packages, nodes) = (packages_of(&core.cpus, cpus), nodes_of(&core.cpus, cpus));
        let what = match (packages.len(), nodes.len()) {
            (2.., _) => format!("packages {packages}"),
            (_, 2..) => format!("NUMA nodes {nodes}"),
            _ => return None,
        };
        let text = format!("{} are threads of one core that spans {what}", core.cpus.named());
        Some(Contradiction { relation: Relation::Smt, cpus: core.cpus.clone(), text })
    };
    cores.iter().filter_map(spanning).collect()
}

pub(super) fn of_nodes(nodes: &[Node]) -> Vec<Contradiction> {
    let mut by_nodes: BTreeMap<CpuSet, CpuSet> = BTreeMap::new();
    for cpu in nodes.iter().flat_map(|node| node.cpus.iter()).collect::<CpuSet>().iter() {
        let of = nodes.iter().filter(|node| node.cpus.contains(cpu)).map(|node| node.id).collect();
        by_nodes.entry(of).or_default().insert(cpu);
    }
    let several = by_nodes.into_iter().filter(|(nodes, _)| nodes.len() > 1);
    let mut found: Vec<Contradiction> = several
        .map(|(nodes, cpus)| Contradiction {
            relation: Relation::Node,
            text: format!("each of nodes {nodes} names {}", cpus.named()),
            cpus,
        })
        .collect();
    for node in nodes {
        let Some(own) = node.distance(node.id) else { continue };
        let near = |other: &&Node| {
            other.id != node.id && node.distance(other.id).is_some_and(|distance| distance <= own)
        };
        let near: Vec<&Node> = nodes.iter().filter(near).collect();
        if !near.is_empty() {
            let ids: CpuSet = near.iter().map(|other| other.id).collect();
            found.push(Contradiction {
                relation: Relation::Node,
                cpus: near.iter().fold(node.cpus.clone(), |all, other| all.union(&other.cpus)),
                text: format!(
                    "node {} is as near to {} {ids} as to itself (distance {own})",
                    node.id,
                    if ids.len() == 1 { "node" } else { "nodes" }
                ),
            });
        }
    }
    found
}

/// Package numbers that group CPUs in another way than the kernel's lists of packages.
pub(super) fn of_packages(root: &FsRoot, packages: &[Package], online: &CpuSet) -> Vec<Contradiction> {
    let differs = |package: &&Package| {
        package.cpus.iter().any(|id| {
            let listed = cpu::package_list(root, id).map(|cpus| cpus.intersection(online));
            listed.is_some_and(|cpus| cpus != package.cpus)
        })
    };
    let contradiction = |package: &Package| Contradiction {
        relation: Relation::Package,
        cpus: package.cpus.clone(),
        text: format!(
            "package number {} groups {}, the kernel's lists of packages group others",
            package.id,
            package.cpus.named()
        ),
    };
    packages.iter().filter(differs).map(contradiction).collect()
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
