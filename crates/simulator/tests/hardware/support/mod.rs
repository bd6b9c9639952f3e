//! A machine whose figures are round, so that a test can say what must come out. No such machine
//! exists.

use ringfence_simulator::hardware::machine::*;
use ringfence_simulator::hardware::{HardwareThread, Op, Program, Ps};

/// Two cores of two threads, caches of 4 KiB, 16 KiB and 64 KiB, one node of DRAM and one of
/// Optane.
pub fn machine() -> Machine {
    Machine {
        topology: Topology {
            sockets: 2,
            llcs_per_socket: 1,
            cores_per_llc: 4,
            threads_per_core: 2,
        },
        core: Core {
            store_buffer: 56,
            fill_buffers: 12,
            rfo_window: 10,
            load_window: 224,
            issue: Issue {
                load_ns: 0.5,
                store_ns: 0.5,
                nt_store_ns: 0.5,
                flush_ns: 0.5,
                fence_ns: 0.5,
                compute_share: 1.0,
            },
            commit_ns: 0.5,
            fence_ns: 2.0,
            locked_ns: 5.0,
            rfo_past_fences: 1000,
            flush_buffers: None,
            flush_gap_ns: 0.0,
            nt_gap_ns: None,
            store_after_flush_ns: 0.0,
            clflush_ordered: true,
            clwb: AfterClwb::Kept,
        },
        l1: Cache { size_kib: 4, ways: 4, latency_ns: 2.0, replacement: Replacement::Lru },
        l2: Cache { size_kib: 16, ways: 8, latency_ns: 6.0, replacement: Replacement::Lru },
        prefetcher: None,
        llc: Llc {
            size_kib: 64,
            ways: 8,
            latency_ns: 20.0,
            replacement: Replacement::Lru,
            inclusion: Inclusion::Victim,
        },
        uncore: Uncore {
            to_memory_ns: 30.0,
            from_memory_ns: 25.0,
            flush_ns: 0.0,
            clwb_ns: None,
            absent_flush_ns: None,
            nt_ns: 0.0,
            remote_ns: 40.0,
            core_to_core_ns: 35.0,
        },
        nodes: vec![dram(), optane()],
    }
}

/// One channel of 12.8 GB/s: 5 ns a line.
pub fn dram() -> Node {
    Node {
        target: "dram".into(),
        gib: 64,
        socket: 0,
        channels: 1,
        shares_channels_with: None,
        interleave_bytes: 256,
        bus_gb_per_s: 12.8,
        turnaround_ns: 0.0,
        write_queue: WriteQueue { lines: 16, high: 12, writes_per_read: 2 },
        ingress: None,
        device: Device::Dram(Dram { latency_ns: 40.0, banks: 1, bank_ns: 0.0 }),
    }
}

/// One DIMM: media that reads 6.4 GB/s and writes 2.56, 40 and 100 ns a block.
pub fn optane() -> Node {
    Node {
        interleave_bytes: 4096,
        device: Device::Optane(Optane {
            write_buffer_blocks: 64,
            write_buffer_ways: 4,
            victim: BlockVictim::Oldest,
            whole_block_ns: 1000.0,
            read_buffer_blocks: 64,
            read_buffer_ways: 4,
            buffer_latency_ns: 60.0,
            media_latency_ns: 200.0,
            media_read_gb_per_s: 6.4,
            media_write_gb_per_s: 2.56,
            partial_block_ns: 0.0,
            translations: 4096,
            translation_miss_ns: 100.0,
            wear: None,
        }),
        ..dram()
    }
}

/// The first thread of a core.
pub fn core(core: u32) -> HardwareThread {
    HardwareThread { core, sibling: 0 }
}

/// A program that repeats what a function gives for the number of the round.
pub fn rounds(mut round: impl FnMut(u32) -> Vec<Op> + Send + 'static) -> impl Program + 'static {
    let (mut number, mut left) = (0, Vec::new());
    move |_: Ps| loop {
        if let Some(op) = left.pop() {
            return op;
        }
        left = round(number);
        assert!(!left.is_empty(), "a round does something");
        left.reverse();
        number += 1;
    }
}

/// A number that looks like chance, from a number.
pub fn mix(number: u64) -> u64 {
    let x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
