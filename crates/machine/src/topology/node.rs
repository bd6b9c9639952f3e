//! NUMA nodes from `/sys/devices/system/node`.

use serde::{Deserialize, Serialize};

use crate::cpulist::CpuSet;
use crate::root::{Cpus, FsRoot, field_kib};
use crate::units::Bytes;

const DIR: &str = "/sys/devices/system/node";

/// A NUMA node: memory at one distance from every CPU, with or without CPUs of its own.
#[doc(alias = "HWLOC_OBJ_NUMANODE")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// All of its memory: `MemTotal` of its `meminfo`; for the only possible node, if that is over 1/64 less, `MemTotal` of
    /// `/proc/meminfo`. `None` if it has none, or if that is not known.
    pub memory: Option<Bytes>,
    /// Whether the kernel says how much memory it has.
    #[serde(default = "yes")]
    pub memory_known: bool,
    /// Memory that nothing used when the topology was read (`MemFree`): less than what is available, since
    /// caches that can be given up count as used.
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

    /// Distance to `other`, if firmware tells it.
    #[doc(alias = "hwloc_distances_get")]
    pub fn distance(&self, other: u32) -> Option<u32> {
        self.distances.iter().find(|(node, _)| *node == other).map(|(_, distance)| *distance)
    }
}

pub(super) fn read(root: &FsRoot, present: &CpuSet, online: &CpuSet, notes: &mut Vec<String>) -> Vec<Node> {
    let ids = root.numbered(DIR, "node");
    if ids.is_empty() {
        notes.push(format!("{DIR} shows no NUMA nodes: every CPU is as near to all memory as far as known"));
    }
    // A distance line names the online nodes in order, whatever their numbers.
    let mut nodes: Vec<Node> = ids.iter().map(|&id| read_one(root, id, &ids, online, notes)).collect();
    find_offline(root, &mut nodes, &present.difference(online), notes);
    for node in &mut nodes {
        node.memory_only = node.without_cpus() && node.memory.is_some();
    }
    reconcile(root, &mut nodes, notes);
    let of_nodes = nodes.iter().fold(CpuSet::new(), |all, node| all.union(&node.cpus));
    let outside = online.difference(&of_nodes);
    if !nodes.is_empty() && !outside.is_empty() && nodes.iter().all(|node| node.cpus_known) {
        notes.push(format!("the node of {} is not known: no node names {}", outside.named(), them(&outside)));
    }
    nodes
}

fn them(cpus: &CpuSet) -> &'static str {
    if cpus.len() == 1 { "it" } else { "them" }
}

// The kernel's lists name online CPUs only. Links between the folders of nodes and CPUs remain when a CPU is switched off.
fn find_offline(root: &FsRoot, nodes: &mut [Node], offline: &CpuSet, notes: &mut Vec<String>) {
    for cpu in offline.iter() {
        let of = root.numbered(format!("/sys/devices/system/cpu/cpu{cpu}"), "node");
        nodes.iter_mut().filter(|node| of.contains(&node.id)).for_each(|node| {
            node.offline.insert(cpu);
        });
    }
    for node in nodes.iter_mut() {
        let linked: CpuSet = root.numbered(format!("{DIR}/node{}", node.id), "cpu").into_iter().collect();
        node.offline = node.offline.union(&linked.intersection(offline));
    }
    let unlinked = nodes.iter().fold(offline.clone(), |rest, node| rest.difference(&node.offline));
    for node in nodes.iter_mut().filter(|node| node.without_cpus() && !unlinked.is_empty()) {
        node.cpus_known = false;
        notes.push(format!(
            "whether node {} has CPUs is not known: none is online, and no link shows the node of {}, which {} offline",
            node.id,
            unlinked.named(),
            if unlinked.len() == 1 { "is" } else { "are" }
        ));
    }
}

/// `numa=fake=` on the kernel's command line, which divides the machine into nodes that hardware does not have.
pub(super) fn fake(root: &FsRoot, notes: &mut Vec<String>) -> bool {
    let line = root.read_opt("/proc/cmdline").unwrap_or_default();
    let option = line.split_whitespace().find(|word| word.starts_with("numa=fake="));
    if let Some(option) = option {
        notes.push(format!(
            "which NUMA nodes the hardware has is not known: {option} on the kernel's command line makes nodes up, \
             and the distances between them"
        ));
    }
    option.is_some()
}

// A node counts the pages that its zones manage by now, /proc/meminfo all that there are: in a guest whose
// memory is set up as it is touched the two differ by gigabytes. `doctor` and the list of targets go by
// /proc/meminfo, and so does a node that has all of the memory: the only one that there can be.
fn reconcile(root: &FsRoot, nodes: &mut [Node], notes: &mut Vec<String>) {
    let meminfo = root.read_opt("/proc/meminfo").unwrap_or_default();
    let Some(all) = field_kib(&meminfo, "MemTotal").map(Bytes) else { return };
    let sum: u64 = nodes.iter().filter_map(|node| node.memory).map(|memory| memory.0).sum();
    if sum == 0 || sum.abs_diff(all.0) <= all.0 / 64 || nodes.iter().any(|node| !node.memory_known) {
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
    let (sum, more) = (Bytes(sum), sum > all.0);
    notes.push(if more {
        format!("the nodes' memory adds up to {sum} by {DIR}, which is more than the {all} of /proc/meminfo")
    } else {
        format!("the nodes' memory adds up to {sum} by {DIR}, and /proc/meminfo has {all}: which node has the rest is not known")
    });
}

fn read_one(root: &FsRoot, id: u32, ids: &[u32], online: &CpuSet, notes: &mut Vec<String>) -> Node {
    let dir = format!("{DIR}/node{id}");
    let cpus = match root.cpus(&dir, "cpulist", "cpumap") {
        Cpus::Named(cpus) => Some(cpus),
        Cpus::Missing => {
            notes.push(format!("{dir} has neither cpulist nor cpumap: the CPUs of node {id} are not known"));
            None
        }
        Cpus::Unreadable(error) => {
            notes.push(format!("the CPUs of node {id} are not known: {error}"));
            None
        }
    };
    let read = root.read_trimmed(format!("{dir}/meminfo"));
    let total = read.as_ref().ok().and_then(|text| field_kib(text, "MemTotal"));
    if total.is_none() {
        let why =
            read.as_ref().err().map_or_else(|| format!("{dir}/meminfo has no MemTotal"), ToString::to_string);
        notes.push(format!("the memory of node {id} is not known: {why}"));
    }
    let meminfo = read.unwrap_or_default();
    let memory = field_kib(&meminfo, "MemTotal").filter(|&bytes| bytes > 0).map(Bytes);
    let free = memory.and_then(|_| field_kib(&meminfo, "MemFree")).map(Bytes);
    let line = root.read_opt(format!("{dir}/distance")).unwrap_or_default();
    let distances =
        ids.iter().copied().zip(line.split_whitespace().filter_map(|text| text.parse().ok())).collect();
    let (cpus_known, memory_known) = (cpus.is_some(), total.is_some());
    let all = cpus.unwrap_or_default();
    let (cpus, offline) = (all.intersection(online), all.difference(online));
    Node { id, cpus, offline, cpus_known, memory, memory_known, free, distances, memory_only: false }
}
