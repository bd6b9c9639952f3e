//! What a machine is made of: plain values that a file can hold. Times are in nanoseconds, rates in
//! decimal GB/s.
//!
//! Nothing here has a default: a machine file states the source of each figure.

mod check;
mod memory;

use serde::{Deserialize, Serialize};

pub use check::InvalidMachine;
pub use memory::{BlockVictim, Device, Dram, Ingress, Node, Optane, Wear, WriteQueue};

/// A machine, every core of it alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// How many of what.
    pub topology: Topology,
    /// A core.
    pub core: Core,
    /// The first-level data cache of each core.
    pub l1: Cache,
    /// The second-level cache of each core. It contains what the first level contains.
    pub l2: Cache,
    /// What fetches lines ahead into the second-level cache, if anything does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetcher: Option<Prefetcher>,
    /// The last-level cache that some cores share.
    pub llc: Llc,
    /// What lies between the caches and memory.
    pub uncore: Uncore,
    /// Memory, by kind and socket.
    pub nodes: Vec<Node>,
}

/// Cores and what they share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Sockets, each with memory of its own.
    pub sockets: u32,
    /// Last-level caches in a socket: one on most Xeons, several on EPYC.
    pub llcs_per_socket: u32,
    /// Cores that share a last-level cache.
    pub cores_per_llc: u32,
    /// Hardware threads of a core: 1, or 2 with SMT.
    pub threads_per_core: u32,
}

/// What a core has, and what its instructions wait for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// Entries of the store buffer. Siblings that both run divide it.
    pub store_buffer: u32,
    /// Line fill buffers: each holds one miss, one flush or one write-combining buffer. Siblings
    /// share them.
    pub fill_buffers: u32,
    /// How many stores in the store buffer, from its head on, have their lines fetched while they
    /// wait.
    pub rfo_window: u32,
    /// How many operations the front end may be ahead of the oldest load whose data is missing.
    pub load_window: u32,
    /// What operations take of the ports that siblings share.
    pub issue: Issue,
    /// Time between two stores that leave the store buffer for lines in the first-level cache.
    pub commit_ns: f64,
    /// What a fence takes beyond what it waits for.
    pub fence_ns: f64,
    /// What a locked instruction takes beyond what it waits for.
    pub locked_ns: f64,
    /// How many fences that still wait in the store buffer a read for ownership may pass.
    pub rfo_past_fences: u32,
    /// How many flushes of dirty lines and whole non-temporal lines may be under way besides what
    /// fill buffers hold, at most 128; absent where each takes a fill buffer. A `clflush` that is
    /// ordered always takes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush_buffers: Option<u32>,
    /// Time between two flushes of dirty lines that leave a core.
    pub flush_gap_ns: f64,
    /// Time between two non-temporal lines that leave a core; absent where they follow each other
    /// at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nt_gap_ns: Option<f64>,
    /// Time between a flush that leaves a core and a store behind it.
    pub store_after_flush_ns: f64,
    /// Whether `clflush` lets nothing younger out of the store buffer before it is complete, as on
    /// Intel (SDM volume 2A, "CLFLUSH"). Where not, it is ordered like `clflushopt`.
    pub clflush_ordered: bool,
    /// Where `clwb` leaves the line.
    pub clwb: AfterClwb,
}

/// Time on the shared ports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Issue {
    /// A load of a line.
    pub load_ns: f64,
    /// A store to a line, locked ones included.
    pub store_ns: f64,
    /// A non-temporal store to a line.
    pub nt_store_ns: f64,
    /// A flush.
    pub flush_ns: f64,
    /// A fence.
    pub fence_ns: f64,
    /// The share of computing time that takes the ports: 1 where two siblings that compute take
    /// twice as long, 0.5 where they do not disturb each other.
    pub compute_share: f64,
}

/// Where `clwb` leaves a line that it has written back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AfterClwb {
    /// Nowhere: it invalidates like `clflushopt`.
    Invalidated,
    /// Where it was.
    Kept,
    /// In the last-level cache alone.
    MovedToLlc,
}

/// A private cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Capacity in KiB.
    pub size_kib: u32,
    /// Ways, at most 32.
    pub ways: u32,
    /// From a load to its data, in all.
    pub latency_ns: f64,
    /// Which line makes room.
    pub replacement: Replacement,
}

/// The streamer: it watches which lines of a page of 4 KiB the first level requests, and runs ahead
/// of a thread that walks the page upwards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prefetcher {
    /// Lines that are asked for one after the other before it begins.
    pub steps: u32,
    /// Lines that it runs ahead, within the page.
    pub distance: u32,
    /// Lines that may be on their way for a core at once.
    pub lines: u32,
    /// The same for lines fetched ahead of stores; absent: as many as ahead of loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines_for_stores: Option<u32>,
}

/// A last-level cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Llc {
    /// Capacity in KiB.
    pub size_kib: u32,
    /// Ways, at most 32: one for each bit of a capacity bit mask.
    pub ways: u32,
    /// From a load to its data, in all. A flush of a line that is not dirty takes as long.
    pub latency_ns: f64,
    /// Which line makes room.
    pub replacement: Replacement,
    /// How its content relates to the second level's.
    pub inclusion: Inclusion,
}

/// Which line of a set makes room for another. A line that is not valid always goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// The one that was used least recently.
    Lru,
    /// The one that a binary tree of bits points to, each bit away from what was used last.
    TreePlru,
    /// By predicted time to the next use, with two bits a line and two ways of insertion that duel
    /// for the better one (DRRIP: Jaleel et al., ISCA 2010).
    Drrip,
}

/// How a last-level cache's content relates to that of the caches above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inclusion {
    /// It has everything that they have. A line that leaves it leaves them.
    Inclusive,
    /// What is read from memory enters both; a line leaves each on its own.
    NonInclusive,
    /// It has what left them, and gives it up when it is hit.
    Victim,
}

/// Time on the way between caches, cores, sockets and memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uncore {
    /// From a miss, a flush or an eviction to the memory controller.
    pub to_memory_ns: f64,
    /// From the memory controller back to the core: with data, or to say that a write was accepted.
    pub from_memory_ns: f64,
    /// What a flush of a dirty line takes more to the memory controller than a read's request.
    pub flush_ns: f64,
    /// The same of `clwb`; absent where it takes as long as a flush that invalidates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clwb_ns: Option<f64>,
    /// How long it takes to flush a line that no cache holds, since other sockets must be asked,
    /// ns; absent: as long as a hit in the last level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent_flush_ns: Option<f64>,
    /// What a non-temporal line takes more to the memory controller than a read's request.
    pub nt_ns: f64,
    /// What either way takes more to another socket.
    pub remote_ns: f64,
    /// From a miss to data out of another core's caches, below the same last-level cache.
    pub core_to_core_ns: f64,
}
