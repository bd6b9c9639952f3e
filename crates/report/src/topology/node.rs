//! Memory nodes, and the cores in them by last-level cache.

use std::collections::{BTreeMap, BTreeSet};

use ringfence_machine::cpulist::CpuSet;
use ringfence_machine::topology::{Cache, Core, CoreKind, Die, Node, Topology};

use crate::style::{Paint, Style};
use crate::text::{grid, hanging, plural};
use crate::topology::cpus;

/// Every node with its cores; `folded` leaves out the single cores.
pub(crate) fn nodes(out: &mut String, topology: &Topology, folded: bool, style: &Style) {
    for node in &topology.nodes {
        let head = format!("Node {:<4}", node.id);
        hanging(out, &head, Some(Paint::Strong), &describe(topology, node), style);
        processors(out, topology, &node.cpus, folded, style);
        out.push('\n');
    }
    let in_nodes: CpuSet =
        topology.nodes.iter().flat_map(|node| node.cpus.iter().collect::<Vec<_>>()).collect();
    let outside = topology.online.difference(&in_nodes);
    if !outside.is_empty() {
        let text = [Some(cpus::named(&outside)), dies(topology, &outside)];
        let text = text.into_iter().flatten().collect::<Vec<_>>().join("; ");
        hanging(out, "No node  ", Some(Paint::Strong), &text, style);
        processors(out, topology, &outside, folded, style);
        out.push('\n');
    }
}

fn describe(topology: &Topology, node: &Node) -> String {
    let mut parts = Vec::new();
    match (node.memory, node.free) {
        (Some(all), Some(free)) => parts.push(format!("{all}, {free} free")),
        (Some(all), None) => parts.push(all.to_string()),
        _ if node.memory_known => parts.push("no memory".into()),
        _ => parts.push("memory not known".into()),
    }
    if !node.cpus_known {
        parts.push("CPUs not known".into());
    } else if node.without_cpus() {
        parts.push("no CPUs".into());
    } else if node.cpus.is_empty() {
        parts.push(format!("no CPU online ({} offline)", cpus::named(&node.offline)));
    }
    let packages: BTreeSet<u32> =
        node.cpus.iter().filter_map(|cpu| topology.cpu(cpu)?.package).collect();
    match packages.len() {
        0 => {}
        1 => parts.push(format!("package {}", join(&packages))),
        _ => parts.push(format!("packages {}", join(&packages))),
    }
    parts.extend(dies(topology, &node.cpus));
    parts.extend(distances(node));
    parts.join("; ")
}

/// `die 1`, or `die 0 (CPUs 0-1), die 1 (CPUs 2-3)`, where a package has several.
fn dies(topology: &Topology, all: &CpuSet) -> Option<String> {
    let here: Vec<&Die> = topology.dies.iter().filter(|die| !die.cpus.is_disjoint(all)).collect();
    let several = topology.dies.len() > topology.packages.len().max(1);
    let one_package = here.iter().all(|die| die.package == here[0].package);
    let die = |die: &&Die| {
        let package = die.package.filter(|_| !one_package).map(|id| format!(" of package {id}"));
        let name = format!("die {}{}", die.id, package.unwrap_or_default());
        match here.len() {
            1 => name,
            _ => format!("{name} ({})", cpus::named(&die.cpus.intersection(all))),
        }
    };
    (several && !here.is_empty()).then(|| here.iter().map(die).collect::<Vec<_>>().join(", "))
}

/// `distance 14 to node 2, 21 to node 1`: nodes at one distance together, the nearest first.
fn distances(node: &Node) -> Option<String> {
    let mut by_distance: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for (other, distance) in node.distances.iter().filter(|(other, _)| *other != node.id) {
        by_distance.entry(*distance).or_default().insert(*other);
    }
    let text = |(distance, nodes): (u32, CpuSet)| {
        let noun = if nodes.len() == 1 { "node" } else { "nodes" };
        format!("{distance} to {noun} {}", cpus::list(&nodes))
    };
    let texts: Vec<String> = by_distance.into_iter().map(text).collect();
    (!texts.is_empty()).then(|| format!("distance {}", texts.join(", ")))
}

fn processors(out: &mut String, topology: &Topology, all: &CpuSet, folded: bool, style: &Style) {
    let mut left = all.clone();
    for group in topology.llc_groups() {
        let here = group.intersection(all);
        let Some(llc) = here.first().and_then(|cpu| topology.llc(cpu)) else { continue };
        let size = llc.size.map(|size| format!(" {size}")).unwrap_or_default();
        let elsewhere = group.difference(all);
        let shared = match elsewhere.is_empty() {
            true => String::new(),
            false => format!(" (shared with {})", outsiders(topology, all, &elsewhere)),
        };
        let head = format!("  {:<12}", format!("{}{size}", llc.name()));
        hanging(out, &head, None, &format!("{}{shared}", population(topology, &here)), style);
        clusters(out, topology, &here, llc.level, style);
        if !folded {
            cores(out, topology, &here, style);
        }
        left = left.difference(&here);
    }
    if !left.is_empty() {
        let text = format!("{}, last-level cache not known", population(topology, &left));
        hanging(out, "  ", None, &text, style);
        if !folded {
            cores(out, topology, &left, style);
        }
    }
}

/// `CPUs 4-7 of other nodes and CPUs 8-9 of no known node` for CPUs outside of those listed here.
fn outsiders(topology: &Topology, here: &CpuSet, elsewhere: &CpuSet) -> String {
    let of_a_node = |set: &CpuSet| -> CpuSet {
        set.iter().filter(|&cpu| topology.node_of(cpu).is_some()).collect()
    };
    let (inside, outside) = (of_a_node(elsewhere), elsewhere.difference(&of_a_node(elsewhere)));
    let nodes: CpuSet = inside.iter().filter_map(|cpu| topology.node_of(cpu)).collect();
    let of = match (of_a_node(here).is_empty(), nodes.len()) {
        (false, _) => "other nodes".into(),
        (true, 1) => format!("node {nodes}"),
        (true, _) => format!("nodes {nodes}"),
    };
    let inside = (!inside.is_empty()).then(|| format!("{} of {of}", cpus::named(&inside)));
    let outside =
        (!outside.is_empty()).then(|| format!("{} of no known node", cpus::named(&outside)));
    inside.into_iter().chain(outside).collect::<Vec<_>>().join(" and ")
}

/// `8 cores, CPUs 0-7,32-39`.
fn population(topology: &Topology, here: &CpuSet) -> String {
    let cores = cores_of(topology, here);
    let count = |kind: Option<CoreKind>| cores.iter().filter(|core| core.kind == kind).count();
    let kinds = CoreKind::ALL.map(|kind| (count(Some(kind)), kind.name()));
    let of_no_kind = [(count(None), "core")];
    let counted = kinds.into_iter().chain(of_no_kind).filter(|(n, _)| *n > 0);
    let mut parts: Vec<String> = counted.map(|(n, name)| plural(n, name)).collect();
    parts.push(cpus::named(here));
    let unknown: CpuSet = here.iter().filter(|&cpu| topology.core_of(cpu).is_none()).collect();
    if !unknown.is_empty() && parts.len() > 1 {
        parts.push(format!("the cores of {} not known", cpus::named(&unknown)));
    }
    parts.join(", ")
}

/// The CPUs of several cores that share a cache below the last-level cache.
fn clusters(out: &mut String, topology: &Topology, here: &CpuSet, last: u8, style: &Style) {
    let cluster = |cache: &&Cache| {
        (2..last).contains(&cache.level)
            && cache.holds_data()
            && cores_of(topology, &cache.cpus.intersection(here)).len() > 1
    };
    let mut by_cache: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for cache in topology.caches.iter().filter(cluster) {
        let size = cache.size.map(|size| format!(" of {size}")).unwrap_or_default();
        let name = format!("{}{size}", cache.name());
        by_cache.entry(name).or_default().push(cpus::list(&cache.cpus.intersection(here)));
    }
    for (name, clusters) in by_cache {
        let (noun, each) =
            if clusters.len() == 1 { ("cluster", "") } else { ("clusters", "each ") };
        let text = format!("{noun} of CPUs {}, {each}with an {name}", clusters.join(" and "));
        hanging(out, "    ", None, &text, style);
    }
}

fn cores(out: &mut String, topology: &Topology, here: &CpuSet, style: &Style) {
    let cores = cores_of(topology, here);
    let item = |core: &&Core| {
        let kind = core.kind.map_or("core", CoreKind::name);
        let id = core.core_id.map(|id| format!(" {id}")).unwrap_or_default();
        format!("{kind}{id}: {}", cpus::siblings(&core.cpus))
    };
    grid(out, 4, &cores.iter().map(item).collect::<Vec<_>>(), style);
}

fn cores_of<'a>(topology: &'a Topology, here: &CpuSet) -> Vec<&'a Core> {
    topology.cores.iter().filter(|core| !core.cpus.is_disjoint(here)).collect()
}

fn join(numbers: &BTreeSet<u32>) -> String {
    numbers.iter().map(|number| number.to_string()).collect::<Vec<_>>().join(", ")
}
