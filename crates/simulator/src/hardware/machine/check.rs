//! Which descriptions make sense.

use super::{Cache, Core, Device, Llc, Machine, Node, Optane, Topology};

/// Why a description is not one of a machine: a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidMachine(String);

/// What fits into a capacity bit mask of 32 bits.
const MOST_WAYS: u32 = 32;
/// What a core's own table of them holds.
const MOST_FILL_BUFFERS: u32 = 32;
/// A second. Longer waits are slips.
const LONGEST_NS: f64 = 1e9;

type Checked = Result<(), InvalidMachine>;

impl Machine {
    /// Whether the description makes sense.
    ///
    /// # Errors
    /// What does not, and what would.
    pub fn check(&self) -> Checked {
        self.topology.check()?;
        self.core.check()?;
        private("l1", &self.l1)?;
        private("l2", &self.l2)?;
        if let Some(prefetcher) = &self.prefetcher {
            number("prefetcher.steps", prefetcher.steps, 1, 64)?;
            number("prefetcher.distance", prefetcher.distance, 1, 64)?;
            number("prefetcher.lines", prefetcher.lines, 1, 64)?;
            let for_stores = prefetcher.lines_for_stores.unwrap_or(1);
            number("prefetcher.lines_for_stores", for_stores, 1, prefetcher.lines)?;
        }
        self.llc.check()?;
        rising(self)?;
        let uncore = &self.uncore;
        span("uncore.to_memory_ns", uncore.to_memory_ns)?;
        span("uncore.from_memory_ns", uncore.from_memory_ns)?;
        span("uncore.flush_ns", uncore.flush_ns)?;
        span("uncore.clwb_ns", uncore.clwb_ns.unwrap_or(0.0))?;
        span("uncore.absent_flush_ns", uncore.absent_flush_ns.unwrap_or(0.0))?;
        span("uncore.nt_ns", uncore.nt_ns)?;
        span("uncore.remote_ns", uncore.remote_ns)?;
        span("uncore.core_to_core_ns", uncore.core_to_core_ns)?;
        number("nodes", self.nodes.len() as u32, 1, 64)?;
        for (place, node) in self.nodes.iter().enumerate() {
            let name = format!("nodes[{place}]");
            must(node.socket < self.topology.sockets, || {
                format!("{name}.socket is {}, but sockets are counted from 0 to {}", node.socket, {
                    self.topology.sockets - 1
                })
            })?;
            node.check(&name)?;
            shared(&name, node, &self.nodes)?;
        }
        Ok(())
    }
}

// No node shares with one that shares itself.
fn shared(name: &str, node: &Node, nodes: &[Node]) -> Checked {
    let Some(with) = &node.shares_channels_with else {
        return must(node.ingress.is_none(), || {
            format!("{name}.ingress is for memory that shares its channels (shares_channels_with)")
        });
    };
    let other = node.shares_with(nodes).map(|place| &nodes[place]);
    must(other.is_some_and(|other| other.shares_channels_with.is_none()), || {
        format!(
            "{name}.shares_channels_with is \"{with}\", but must be the target of another node of \
             socket {} that has channels of its own",
            node.socket
        )
    })
}

fn must(holds: bool, why: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(InvalidMachine(why())) }
}

fn number(name: &str, value: u32, least: u32, most: u32) -> Checked {
    must((least..=most).contains(&value), || {
        format!("{name} is {value}, but must be from {least} to {most}")
    })
}

// Without hundreds of zeros.
fn plain(value: f64) -> String {
    if value.is_finite() && value.abs() >= 1e15 { format!("{value:e}") } else { value.to_string() }
}

fn span(name: &str, ns: f64) -> Checked {
    must((0.0..=LONGEST_NS).contains(&ns), || {
        format!("{name} is {}, but must be a time from 0 to a second, in nanoseconds", plain(ns))
    })
}

fn rate(name: &str, gb_per_s: f64) -> Checked {
    must((0.001..=10_000.0).contains(&gb_per_s), || {
        format!("{name} is {}, but must be a rate from 0.001 to 10000, in GB/s", plain(gb_per_s))
    })
}

fn power_of_two(name: &str, value: u32, least: u32) -> Checked {
    must(value.is_power_of_two() && value >= least, || {
        format!("{name} is {value}, but must be a power of two and at least {least}")
    })
}

impl Topology {
    fn check(&self) -> Checked {
        number("topology.sockets", self.sockets, 1, 16)?;
        number("topology.llcs_per_socket", self.llcs_per_socket, 1, 64)?;
        number("topology.cores_per_llc", self.cores_per_llc, 1, 256)?;
        number("topology.threads_per_core", self.threads_per_core, 1, 8)
    }
}

impl Core {
    fn check(&self) -> Checked {
        number("core.store_buffer", self.store_buffer, 8, 1024)?;
        number("core.fill_buffers", self.fill_buffers, 1, MOST_FILL_BUFFERS)?;
        number("core.rfo_window", self.rfo_window, 1, self.store_buffer)?;
        number("core.load_window", self.load_window, 1, 4096)?;
        let issue = &self.issue;
        let times = [
            ("core.issue.load_ns", issue.load_ns),
            ("core.issue.store_ns", issue.store_ns),
            ("core.issue.nt_store_ns", issue.nt_store_ns),
            ("core.issue.flush_ns", issue.flush_ns),
            ("core.issue.fence_ns", issue.fence_ns),
        ];
        for (name, ns) in times {
            span(name, ns)?;
            // An operation that takes no time could be yielded forever.
            must(ns >= 0.001, || {
                format!("{name} is {ns}, but an operation takes at least 0.001 ns")
            })?;
        }
        must((0.0..=1.0).contains(&issue.compute_share), || {
            format!("core.issue.compute_share is {}, but must be from 0 to 1", issue.compute_share)
        })?;
        span("core.commit_ns", self.commit_ns)?;
        if let Some(count) = self.flush_buffers {
            number("core.flush_buffers", count, 1, 128)?;
        }
        span("core.flush_gap_ns", self.flush_gap_ns)?;
        span("core.nt_gap_ns", self.nt_gap_ns.unwrap_or(0.0))?;
        span("core.store_after_flush_ns", self.store_after_flush_ns)?;
        span("core.fence_ns", self.fence_ns)?;
        span("core.locked_ns", self.locked_ns)
    }
}

fn sets(name: &str, size_kib: u32, ways: u32) -> Checked {
    number(&format!("{name}.ways"), ways, 1, MOST_WAYS)?;
    number(&format!("{name}.size_kib"), size_kib, 1, 4 << 20)?;
    must((size_kib * 16).is_multiple_of(ways), || {
        format!(
            "{name} has {size_kib} KiB, which {ways} ways cannot divide into whole sets of lines"
        )
    })
}

fn private(name: &str, cache: &Cache) -> Checked {
    sets(name, cache.size_kib, cache.ways)?;
    span(&format!("{name}.latency_ns"), cache.latency_ns)
}

impl Llc {
    fn check(&self) -> Checked {
        sets("llc", self.size_kib, self.ways)?;
        span("llc.latency_ns", self.latency_ns)
    }
}

fn rising(machine: &Machine) -> Checked {
    must(machine.l1.size_kib <= machine.l2.size_kib, || {
        format!(
            "l1 has {} KiB and l2 has {}, but the second level contains the first",
            machine.l1.size_kib, machine.l2.size_kib
        )
    })
}

impl Node {
    fn check(&self, name: &str) -> Checked {
        number(&format!("{name}.channels"), self.channels, 1, 64)?;
        power_of_two(&format!("{name}.interleave_bytes"), self.interleave_bytes, 64)?;
        rate(&format!("{name}.bus_gb_per_s"), self.bus_gb_per_s)?;
        span(&format!("{name}.turnaround_ns"), self.turnaround_ns)?;
        let queue = &self.write_queue;
        number(&format!("{name}.write_queue.lines"), queue.lines, 1, 1024)?;
        number(&format!("{name}.write_queue.high"), queue.high, 1, queue.lines)?;
        number(&format!("{name}.write_queue.writes_per_read"), queue.writes_per_read, 1, 1024)?;
        if let Some(ingress) = &self.ingress {
            number(&format!("{name}.ingress.lines"), ingress.lines, 1, 1 << 16)?;
            number(&format!("{name}.ingress.channels"), ingress.channels, 1, 64)?;
        }
        match &self.device {
            Device::Dram(dram) => {
                power_of_two(&format!("{name}.device.dram.banks"), dram.banks, 1)?;
                span(&format!("{name}.device.dram.bank_ns"), dram.bank_ns)?;
                span(&format!("{name}.device.dram.latency_ns"), dram.latency_ns)
            }
            Device::Optane(optane) => {
                // A block of 256 B lies on one DIMM.
                power_of_two(&format!("{name}.interleave_bytes"), self.interleave_bytes, 256)?;
                optane.check(&format!("{name}.device.optane"))
            }
        }
    }
}

impl Optane {
    fn check(&self, name: &str) -> Checked {
        let buffers = [
            ("write_buffer", self.write_buffer_blocks, self.write_buffer_ways),
            ("read_buffer", self.read_buffer_blocks, self.read_buffer_ways),
        ];
        for (buffer, blocks, ways) in buffers {
            number(&format!("{name}.{buffer}_ways"), ways, 1, 256)?;
            number(&format!("{name}.{buffer}_blocks"), blocks, 1, 1 << 20)?;
            let sets = blocks / ways;
            must(blocks.is_multiple_of(ways) && sets.is_power_of_two(), || {
                format!(
                    "{name}.{buffer}_blocks is {blocks}, but must be {buffer}_ways ({ways}) times \
                     a power of two"
                )
            })?;
        }
        span(&format!("{name}.whole_block_ns"), self.whole_block_ns)?;
        span(&format!("{name}.buffer_latency_ns"), self.buffer_latency_ns)?;
        span(&format!("{name}.media_latency_ns"), self.media_latency_ns)?;
        rate(&format!("{name}.media_read_gb_per_s"), self.media_read_gb_per_s)?;
        rate(&format!("{name}.media_write_gb_per_s"), self.media_write_gb_per_s)?;
        span(&format!("{name}.partial_block_ns"), self.partial_block_ns)?;
        power_of_two(&format!("{name}.translations"), self.translations, 1)?;
        span(&format!("{name}.translation_miss_ns"), self.translation_miss_ns)?;
        let Some(wear) = &self.wear else { return Ok(()) };
        power_of_two(&format!("{name}.wear.region_bytes"), wear.region_bytes, 256)?;
        number(&format!("{name}.wear.writes"), wear.writes, 1, u32::MAX)?;
        span(&format!("{name}.wear.stall_ns"), wear.stall_ns)
    }
}
