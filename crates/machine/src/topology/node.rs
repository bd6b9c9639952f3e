//! NUMA nodes from `/sys/devices/system/node`.

use serde::{Deserialize, Serialize};

use crate::cpulist::CpuSet;
use crate::root::{FsRoot, field_kib};
use crate::units::Bytes;

const DIR: &str = "/sys/devices/system/node";

/// A NUMA node: memory at one distance from every CPU, with or without CPUs of its own.
#[doc(alias = "HWLOC_OBJ_NUMANODE")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The kernel's number.
    pub id: u32,
    /// Its online CPUs.
    pub cpus: CpuSet,
    /// All of its memory, by its `meminfo`, or where it is the only node with memory by `MemTotal` of
    /// `/proc/meminfo`; nothing where the node has none.
    pub memory: Option<Bytes>,
    /// Memory that nothing used when the topology was read (`MemFree`): less than what is available, since
    /// caches that can be given up count as used.
    pub free: Option<Bytes>,
    /// Firmware's relative distance to each node, as (node, distance); 10 is the node itself.
    pub distances: Vec<(u32, u32)>,
    /// Memory without CPUs: how CXL expanders and persistent memory in system-ram mode appear.
    pub memory_only: bool,
}

impl Node {
    /// Distance to `other`, if firmware tells it.
    #[doc(alias = "hwloc_distances_get")]
    pub fn distance(&self, other: u32) -> Option<u32> {
        self.distances.iter().find(|(node, _)| *node == other).map(|(_, distance)| *distance)
    }
}

pub(super) fn read(root: &FsRoot, notes: &mut Vec<String>) -> Vec<Node> {
    let ids = root.numbered(DIR, "node");
    if ids.is_empty() {
        notes.push(format!("{DIR} shows no NUMA nodes: every CPU is as near to all memory as far as known"));
    }
    // A distance line names the online nodes in order, whatever their numbers.
    let mut nodes: Vec<Node> = ids.iter().map(|&id| read_one(root, id, &ids)).collect();
    reconcile(root, &mut nodes, notes);
    nodes
}

// A node counts the pages that its zones manage by now, /proc/meminfo all that there are: in a guest whose
// memory is set up as it is touched the two differ by gigabytes. `doctor` and the list of targets go by
// /proc/meminfo, and so does a node that has all of the memory.
fn reconcile(root: &FsRoot, nodes: &mut [Node], notes: &mut Vec<String>) {
    let meminfo = root.read_opt("/proc/meminfo").unwrap_or_default();
    let Some(all) = field_kib(&meminfo, "MemTotal").map(Bytes) else { return };
    let mut with_memory: Vec<&mut Node> = nodes.iter_mut().filter(|node| node.memory.is_some()).collect();
    if let [only] = &mut with_memory[..] {
        only.memory = Some(all);
        only.free = field_kib(&meminfo, "MemFree").map(Bytes).or(only.free);
        return;
    }
    let sum: u64 = with_memory.iter().filter_map(|node| node.memory).map(|memory| memory.0).sum();
    if sum > 0 && sum.abs_diff(all.0) > all.0 / 64 {
        notes.push(format!(
            "the nodes' memory adds up to {} by {DIR}, and /proc/meminfo has {all}: which node has the rest is not told",
            Bytes(sum)
        ));
    }
}

fn read_one(root: &FsRoot, id: u32, ids: &[u32]) -> Node {
    let dir = format!("{DIR}/node{id}");
    let cpus: CpuSet = root.parse_opt(format!("{dir}/cpulist")).unwrap_or_default();
    let meminfo = root.read_opt(format!("{dir}/meminfo")).unwrap_or_default();
    let memory = field_kib(&meminfo, "MemTotal").filter(|&bytes| bytes > 0).map(Bytes);
    let free = memory.and_then(|_| field_kib(&meminfo, "MemFree")).map(Bytes);
    let line = root.read_opt(format!("{dir}/distance")).unwrap_or_default();
    let distances =
        ids.iter().copied().zip(line.split_whitespace().filter_map(|text| text.parse().ok())).collect();
    let memory_only = cpus.is_empty() && memory.is_some();
    Node { id, cpus, memory, free, distances, memory_only }
}
