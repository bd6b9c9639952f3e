//! NUMA nodes from `/sys/devices/system/node`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cpulist::CpuSet;
use crate::root::{Cpus, FsRoot, field_kib};
use crate::units::Bytes;

use super::contradiction::{Contradiction, Relation};

const DIR: &str = "/sys/devices/system/node";

/// A NUMA node: memory at one distance from every CPU, with or without CPUs of its own.
#[doc(alias = "HWLOC_OBJ_NUMANODE")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Node {
    /// The kernel's number.
    pub id: u32,
    /// Its online CPUs; empty if they are not known.
    pub cpus: CpuSet,
    /// Its offline CPUs, as far as files or links name them.
    #[serde(default, skip_serializing_if = "CpuSet::is_empty")]
    pub offline: CpuSet,
    /// Whether the kernel says which CPUs it has.
    #[serde(default = "yes")]
    pub cpus_known: bool,
    /// All of its memory: `MemTotal` of its `meminfo`; for the only possible node, if that is over
    /// 1/64 less, `MemTotal` of `/proc/meminfo`. `None` if it has none, or if that is not known.
    pub memory: Option<Bytes>,
    /// Whether the kernel says how much memory it has.
    #[serde(default = "yes")]
    pub memory_known: bool,
    /// Memory that nothing used when the topology was read (`MemFree`): less than what is
    /// available, since caches that can be given up count as used.
    pub free: Option<Bytes>,
    /// Firmware's relative distance to each node, as (node, distance); 10 is the node itself.
    pub distances: Vec<(u32, u32)>,
    /// Memory without CPUs: how CXL expanders and persistent memory in system-ram mode appear.
    pub memory_only: bool,
}

// Datasets of earlier versions hold no node of which this is not known.
fn yes() -> bool {
    true
}

impl Node {
    /// Whether it is known to have no CPUs, neither online nor offline ones.
    pub fn without_cpus(&self) -> bool {
        self.cpus_known && self.cpus.is_empty() && self.offline.is_empty()
    }

    /// Distance to `other`, if the firmware reports it.
    #[doc(alias = "hwloc_distances_get")]
    pub fn distance(&self, other: u32) -> Option<u32> {
        self.distances.iter().find(|(node, _)| *node == other).map(|(_, distance)| *distance)
    }
}

pub(super) fn read(
    root: &FsRoot,
    present: &CpuSet,
    online: &CpuSet,
    notes: &mut Vec<String>,
    contradictions: &mut Vec<Contradiction>,
) -> Vec<Node> {
    let ids = root.numbered(DIR, "node");
    if ids.is_empty() {
        notes.push(format!(
            "{DIR} shows no NUMA nodes: every CPU is as near to all memory as far as known"
        ));
    }
    // A distance line names the online nodes in order, whatever their numbers.
    let mut unknown = Unknown::new();
    let mut nodes: Vec<Node> =
        ids.iter().map(|&id| read_one(root, id, &ids, online, &mut unknown)).collect();
    notes.extend(unknown.into_iter().map(|((what, why), nodes)| {
        let noun = if nodes.len() == 1 { "node" } else { "nodes" };
        format!("the {what} of {noun} {nodes} {why}")
    }));
    contradictions.extend(of_impossible_cpus(root, present, &mut nodes));
    find_offline(root, &mut nodes, &present.difference(online), notes);
    for node in &mut nodes {
        node.memory_only = node.without_cpus() && node.memory.is_some();
    }
    reconcile(root, &mut nodes, notes);
    let of_nodes = nodes.iter().fold(CpuSet::new(), |all, node| all.union(&node.cpus));
    let outside = online.difference(&of_nodes);
    if !nodes.is_empty() && !outside.is_empty() && nodes.iter().all(|node| node.cpus_known) {
        notes.push(format!(
            "the node of {} is not known: no node names {}",
            outside.named(),
            them(&outside)
        ));
    }
    nodes
}

/// What is not known of which nodes, as `CPUs` and `are not known: ...`.
type Unknown = BTreeMap<(&'static str, String), CpuSet>;

/// CPUs in lists of nodes that there cannot be. Old kernels list CPUs that are possible and not
/// present.
fn of_impossible_cpus(root: &FsRoot, present: &CpuSet, nodes: &mut [Node]) -> Vec<Contradiction> {
    let list = |name: &str| root.parse_opt::<CpuSet>(format!("/sys/devices/system/cpu/{name}"));
    let Some(known) = list("possible").or_else(|| list("present")) else { return Vec::new() };
    let impossible_of = |node: &mut Node| {
        let impossible = node.offline.difference(&known);
        node.offline = node.offline.intersection(present);
        if impossible.is_empty() {
            return None;
        }
        node.cpus_known &= !node.without_cpus();
        let verb = if impossible.len() == 1 { "is" } else { "are" };
        let text =
            format!("node {} names {}, which {verb} not possible", node.id, impossible.named());
        Some(Contradiction { relation: Relation::Node, cpus: impossible, text })
    };
    nodes.iter_mut().filter_map(impossible_of).collect()
}

fn them(cpus: &CpuSet) -> &'static str {
    if cpus.len() == 1 { "it" } else { "them" }
}

// The kernel's lists name online CPUs only. Links between the folders of nodes and CPUs remain when
// a CPU is switched off.
fn find_offline(root: &FsRoot, nodes: &mut [Node], offline: &CpuSet, notes: &mut Vec<String>) {
    for cpu in offline.iter() {
        let of = root.numbered(format!("/sys/devices/system/cpu/cpu{cpu}"), "node");
        nodes.iter_mut().filter(|node| of.contains(&node.id)).for_each(|node| {
            node.offline.insert(cpu);
        });
    }
    for node in nodes.iter_mut() {
        let linked: CpuSet =
            root.numbered(format!("{DIR}/node{}", node.id), "cpu").into_iter().collect();
        node.offline = node.offline.union(&linked.intersection(offline));
    }
    let unlinked = nodes.iter().fold(offline.clone(), |rest, node| rest.difference(&node.offline));
    for node in nodes.iter_mut().filter(|node| node.without_cpus() && !unlinked.is_empty()) {
        node.cpus_known = false;
        notes.push(format!(
            "whether node {} has CPUs is not known: none is online, and no link shows the node of \
             {}, which {} offline",
            node.id,
            unlinked.named(),
            if unlinked.len() == 1 { "is" } else { "are" }
        ));
    }
}

/// `numa=fake=` on the kernel's command line, which divides the machine into nodes that hardware
/// does not have.
pub(super) fn fake(root: &FsRoot, notes: &mut Vec<String>) -> bool {
    let line = root.read_opt("/proc/cmdline").unwrap_or_default();
    let option = line.split_whitespace().find(|word| word.starts_with("numa=fake="));
    if let Some(option) = option {
        notes.push(format!(
            "which NUMA nodes the hardware has is not known: {option} on the kernel's command line \
             emulates nodes and their distances"
        ));
    }
    option.is_some()
}

// A node counts the pages that its zones manage by now, /proc/meminfo all that there are: in a
// guest whose memory is set up as it is touched the two differ by gigabytes. `doctor` and the list
// of targets go by /proc/meminfo, and so does a node that has all of the memory: the only one that
// there can be.
fn reconcile(root: &FsRoot, nodes: &mut [Node], notes: &mut Vec<String>) {
    let meminfo = root.read_opt("/proc/meminfo").unwrap_or_default();
    let Some(all) = field_kib(&meminfo, "MemTotal").map(Bytes) else { return };
    let sum: u64 = nodes.iter().filter_map(|node| node.memory).map(|memory| memory.0).sum();
    if sum == 0 || sum.abs_diff(all.0) <= all.0 / 64 || nodes.iter().any(|node| !node.memory_known)
    {
        return;
    }
    let possible: Option<CpuSet> = root.parse_opt(format!("{DIR}/possible"));
    if let [only] = &mut *nodes
        && possible == Some(CpuSet::single(only.id))
        && sum < all.0
    {
        only.memory = Some(all);
        only.free = field_kib(&meminfo, "MemFree").map(Bytes).or(only.free);
        return;
    }
    let more = sum > all.0;
    // Old kernels count pages that are reserved at boot as memory of a node: a few percent.
    if more && sum - all.0 <= all.0 / 16 {
        return;
    }
    let sum = Bytes(sum);
    notes.push(if more {
        format!(
            "the nodes' memory adds up to {sum} by {DIR}, which is more than the {all} of \
                 /proc/meminfo"
        )
    } else {
        format!(
            "the nodes' memory adds up to {sum} by {DIR}, and /proc/meminfo has {all}: which \
                 node has the rest is not known"
        )
    });
}

fn read_one(root: &FsRoot, id: u32, ids: &[u32], online: &CpuSet, unknown: &mut Unknown) -> Node {
    let dir = format!("{DIR}/node{id}");
    let mut not_known = |what, why: String| {
        unknown.entry((what, why)).or_default().insert(id);
    };
    let cpus = match root.cpus(&dir, "cpulist", "cpumap") {
        Cpus::Named(cpus) => Some(cpus),
        Cpus::Missing => {
            not_known("CPUs", format!("are not known: {DIR}/nodeN has neither cpulist nor cpumap"));
            None
        }
        Cpus::Unreadable(error) => {
            not_known("CPUs", format!("are not known: {error}"));
            None
        }
    };
    let read = root.read_trimmed(format!("{dir}/meminfo"));
    let total = read.as_ref().ok().and_then(|text| field_kib(text, "MemTotal"));
    if total.is_none() {
        let why = match &read {
            Ok(_) => format!("{DIR}/nodeN/meminfo has no MemTotal"),
            Err(error) if error.is_missing() => format!("{DIR}/nodeN has no meminfo"),
            Err(error) => error.to_string(),
        };
        not_known("memory", format!("is not known: {why}"));
    }
    let meminfo = read.unwrap_or_default();
    let memory = field_kib(&meminfo, "MemTotal").filter(|&bytes| bytes > 0).map(Bytes);
    let free = memory.and_then(|_| field_kib(&meminfo, "MemFree")).map(Bytes);
    let line = root.read_opt(format!("{dir}/distance"));
    let words = line.as_deref().unwrap_or_default().split_whitespace();
    let distances: Vec<Option<u32>> = words.map(|word| word.parse().ok()).collect();
    let whole = distances.len() <= ids.len() && distances.iter().all(Option::is_some);
    if line.is_some() && !(whole && distances.len() == ids.len()) {
        let (text, count) = (line.unwrap_or_default(), ids.len());
        let why = format!("{DIR}/nodeN/distance is '{text}' (numbers expected: {count})");
        not_known("distances", format!("are not all known: {why}"));
    }
    let distances = match whole {
        true => ids.iter().copied().zip(distances.into_iter().flatten()).collect(),
        false => Vec::new(),
    };
    let (cpus_known, memory_known) = (cpus.is_some(), total.is_some());
    let all = cpus.unwrap_or_default();
    let (cpus, offline) = (all.intersection(online), all.difference(online));
    Node {
        id,
        cpus,
        offline,
        cpus_known,
        memory,
        memory_known,
        free,
        distances,
        memory_only: false,
    }
}
