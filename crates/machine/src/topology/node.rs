//! NUMA nodes from `/sys/devices/system/node`.

use serde::{Deserialize, Serialize};

use crate::cpulist::CpuSet;
use crate::root::{FsRoot, field_kib};
use crate::units::Bytes;

const DIR: &str = "/sys/devices/system/node";

/// A NUMA node: memory at one distance from every CPU, with or without CPUs of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The kernel's number.
    pub id: u32,
    /// Its online CPUs.
    pub cpus: CpuSet,
    /// All of its memory; nothing where the node has none.
    pub memory: Option<Bytes>,
    /// Memory that was free when the topology was read.
    pub free: Option<Bytes>,
    /// Firmware's relative distance to each node, as (node, distance); 10 is the node itself.
    pub distances: Vec<(u32, u32)>,
    /// Memory without CPUs: how CXL expanders and persistent memory in system-ram mode appear.
    pub memory_only: bool,
}

impl Node {
    /// Distance to `other`, if firmware tells it.
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
    ids.iter().map(|&id| read_one(root, id, &ids)).collect()
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
