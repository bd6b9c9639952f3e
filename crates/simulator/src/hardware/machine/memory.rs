//! Memory controllers, channels, and what is plugged into them.

use serde::{Deserialize, Serialize};

/// Memory of one kind at one socket: channels over which addresses are interleaved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// How experiments name it: `dram` for a socket's ordinary memory, otherwise a target such as
    /// `dax:/mnt/pmem0`.
    pub target: String,
    /// Capacity in GiB.
    pub gib: u32,
    /// The socket whose controllers it hangs on.
    pub socket: u32,
    /// Channels, one DIMM on each.
    pub channels: u32,
    /// The `target` of another node of this socket on whose channels the DIMMs are plugged in as
    /// well: a channel of both has one bus, for which they wait in queues of their own. Absent
    /// where the channels are this node's alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares_channels_with: Option<String>,
    /// Bytes on one channel before the next: a power of two, and at least 64. Optane is interleaved
    /// by 4 KiB.
    pub interleave_bytes: u32,
    /// What a channel's bus carries, reads and writes together.
    pub bus_gb_per_s: f64,
    /// Idle time of the bus between a read and a write.
    pub turnaround_ns: f64,
    /// The write pending queue of each channel.
    pub write_queue: WriteQueue,
    /// The queue of the memory controller, if reads of other memory on these channels wait there
    /// behind reads of this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<Ingress>,
    /// What is plugged in.
    pub device: Device,
}

impl Node {
    /// The node whose channels this one shares, among all of a machine's.
    pub(crate) fn shares_with(&self, nodes: &[Node]) -> Option<usize> {
        let with = self.shares_channels_with.as_ref()?;
        nodes.iter().position(|node| node.socket == self.socket && node.target == *with)
    }
}

/// A channel's write pending queue. Under ADR what it has accepted is durable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteQueue {
    /// Lines that it holds.
    pub lines: u32,
    /// From so many lines on reads no longer go first.
    pub high: u32,
    /// How many writes then go before each read.
    pub writes_per_read: u32,
}

/// The queue of a memory controller, in the order of arrival. Once reads of one memory fill it,
/// reads of the other memory on the same channels wait as well. Writes do not fill it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ingress {
    /// Lines that it holds.
    pub lines: u32,
    /// Channels of the controller.
    pub channels: u32,
}

/// What answers on a channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Device {
    /// DRAM.
    Dram(Dram),
    /// An Optane DIMM.
    Optane(Optane),
}

/// DRAM: banks of which each answers one request at a time, without rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dram {
    /// From the start of a transfer to its data.
    pub latency_ns: f64,
    /// The banks of a channel: a power of two. 1 with a `bank_ns` of 0 never delays a request.
    #[serde(default = "one")]
    pub banks: u32,
    /// How long a bank is taken by a request.
    #[serde(default)]
    pub bank_ns: f64,
}

fn one() -> u32 {
    1
}

/// An Optane DIMM, whose media is written and read in blocks of 256 B.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Optane {
    /// Blocks that the write-combining buffer holds: 64 for 16 KiB.
    pub write_buffer_blocks: u32,
    /// Of how many blocks an incoming one may replace one: its associativity.
    pub write_buffer_ways: u32,
    /// Which of them that is.
    pub victim: BlockVictim,
    /// How long a block stays after its last line has come before it goes to the media of its own
    /// accord.
    pub whole_block_ns: f64,
    /// Blocks that the read buffer holds.
    pub read_buffer_blocks: u32,
    /// Its associativity.
    pub read_buffer_ways: u32,
    /// From the start of a transfer to data that a buffer has.
    pub buffer_latency_ns: f64,
    /// From the start of a transfer to data out of the media.
    pub media_latency_ns: f64,
    /// What the media reads.
    pub media_read_gb_per_s: f64,
    /// What the media writes.
    pub media_write_gb_per_s: f64,
    /// What the media takes more to write a block of which it has to read a part first.
    pub partial_block_ns: f64,
    /// Address translations, of 4 KiB each, that the DIMM has at hand.
    pub translations: u32,
    /// What a read from the media takes more without one of these.
    pub translation_miss_ns: f64,
    /// Wear levelling, if any.
    pub wear: Option<Wear>,
}

/// Which block the write-combining buffer gives up. Whole blocks go before partial ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockVictim {
    /// The one that came first.
    Oldest,
    /// Any.
    Random,
}

/// After so many writes to a region of the media it is moved elsewhere, and the DIMM's media does
/// nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wear {
    /// Bytes of a region: a power of two, and at least 256.
    pub region_bytes: u32,
    /// Blocks written to a region between two moves.
    pub writes: u32,
    /// How long a move takes.
    pub stall_ns: f64,
}
