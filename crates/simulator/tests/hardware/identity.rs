//! Checks that nothing changes unintentionally: what random programs do on random machines, to the
//! picosecond, is compared with `tests/hardware/identity.txt`. A change that makes the simulator
//! faster must leave that file as it is. A change of the model rewrites it with `RINGFENCE_BLESS=1
//! cargo test -p ringfence-simulator --test hardware identity`, and says so.

use std::fmt::Write;

use crate::support::{machine, mix, rounds};
use ringfence_persist::Flush;
use ringfence_simulator::hardware::machine::{
    AfterClwb, BlockVictim, Device, Inclusion, Machine, Prefetcher, Replacement, Wear,
};
use ringfence_simulator::hardware::{HardwareThread, Op, Ps, Region, Setup};

/// Machines and programs of each kind.
const SCENES: u64 = 48;

/// Choices, one after the other, that look like chance.
struct Lot(u64);

impl Lot {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = mix(self.0);
        (self.0 >> 32) % limit
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// FNV-1a.
struct Hash(u64);

impl Write for Hash {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}

fn random_machine(lot: &mut Lot, large: bool) -> Machine {
    let mut machine = machine();
    let kinds = [Replacement::Lru, Replacement::TreePlru, Replacement::Drrip];
    (machine.l1.replacement, machine.l2.replacement) = (lot.of(&kinds), lot.of(&kinds));
    machine.llc.replacement = lot.of(&kinds);
    machine.llc.inclusion =
        lot.of(&[Inclusion::Victim, Inclusion::NonInclusive, Inclusion::Inclusive]);
    machine.core.clwb = lot.of(&[AfterClwb::Kept, AfterClwb::Invalidated, AfterClwb::MovedToLlc]);
    machine.core.clflush_ordered = lot.of(&[true, false]);
    machine.core.rfo_past_fences = lot.of(&[0, 1, 3, 1000]);
    machine.core.rfo_window = lot.of(&[1, 8, 10]);
    machine.core.flush_gap_ns = lot.of(&[0.0, 10.7]);
    machine.core.store_after_flush_ns = lot.of(&[0.0, 44.0]);
    machine.core.flush_buffers = lot.of(&[None, Some(2), Some(62)]);
    machine.core.fill_buffers = lot.of(&[2, 12, 31]);
    machine.uncore.nt_ns = lot.of(&[0.0, 90.0]);
    machine.uncore.flush_ns = lot.of(&[0.0, 50.0]);
    let ahead = Prefetcher { steps: 2, distance: 14, lines: 20, lines_for_stores: None };
    machine.prefetcher = lot.of(&[false, true]).then_some(ahead);
    if large {
        (machine.l1.size_kib, machine.l1.ways) = lot.of(&[(32, 8), (48, 12)]);
        (machine.l2.size_kib, machine.l2.ways) = lot.of(&[(256, 8), (1024, 16), (1280, 20)]);
        (machine.llc.size_kib, machine.llc.ways) = lot.of(&[(1408, 11), (2048, 16), (2560, 20)]);
    }
    for node in &mut machine.nodes {
        node.channels = lot.of(&[1, 2, 6]);
        node.turnaround_ns = lot.of(&[0.0, 2.0]);
        if let Device::Optane(optane) = &mut node.device {
            optane.victim = lot.of(&[BlockVictim::Oldest, BlockVictim::Random]);
            (optane.write_buffer_blocks, optane.write_buffer_ways) = lot.of(&[(64, 4), (72, 9)]);
            optane.partial_block_ns = lot.of(&[0.0, 40.0]);
            optane.translations = lot.of(&[16, 4096]);
            optane.wear = lot.of(&[false, true]).then_some(Wear {
                region_bytes: 4096,
                writes: 50,
                stall_ns: 5000.0,
            });
        }
    }
    machine
}

// A block of lines one after the other, or anywhere, by some method; or a few operations of any
// kind.
fn random_round(lot: &mut Lot, region: Region, at: &mut u32) -> Vec<Op> {
    let lines = region.lines();
    let start = if lot.below(4) == 0 { lot.below(lines.into()) as u32 } else { *at };
    let length = lot.of(&[1_u32, 4, 16]);
    let block: Vec<_> = (0..length).map(|offset| region.line((start + offset) % lines)).collect();
    *at = (start + length) % lines;
    let kind = lot.of(&[Flush::Clflush, Flush::Clflushopt, Flush::Clwb]);
    let mut ops: Vec<Op> = match lot.below(8) {
        0 => block
            .iter()
            .map(|line| Op::NtStore { line: *line, bytes: lot.of(&[64, 64, 16]) })
            .collect(),
        1 | 2 => block.iter().map(|line| Op::Store(*line)).collect(),
        3 => block.iter().map(|line| Op::StoreWhole(*line)).collect(),
        4 => block
            .iter()
            .map(|line| Op::Load { line: *line, dependent: lot.below(2) == 0 })
            .collect(),
        5 => block
            .iter()
            .flat_map(|line| [Op::Store(*line), Op::Flush { kind, line: *line }])
            .collect(),
        _ => {
            let stores = block.iter().map(|line| Op::Store(*line));
            stores.chain(block.iter().map(|line| Op::Flush { kind, line: *line })).collect()
        }
    };
    ops.push(match lot.below(12) {
        0 => Op::Mfence,
        1 => Op::Lfence,
        2 => Op::Locked(region.line(0)),
        3 => Op::Compute(Ps(lot.below(60_000))),
        4 => Op::Rest(Ps(lot.below(20_000))),
        5..8 => Op::Sfence,
        _ => Op::Units(length),
    });
    ops.push(Op::Units(1));
    ops
}

fn scene(seed: u64, large: bool) -> u64 {
    let mut lot = Lot(seed);
    let machine = random_machine(&mut lot, large);
    let mut setup = Setup::new(&machine, seed).unwrap();
    let bytes = if large { 8 << 20 } else { 256 << 10 };
    let mut common = None;
    let mut threads = Vec::new();
    for core in 0..lot.of(&[1, 1, 2, 5, 8]) {
        for sibling in 0..lot.of(&[1, 1, 2]) {
            let own = setup.region(lot.below(2) as usize, bytes).unwrap();
            let region = if lot.below(3) == 0 { *common.get_or_insert(own) } else { own };
            let (mut inner, mut at) = (Lot(mix(seed) ^ (core << 8 | sibling)), 0);
            let program = rounds(move |_| random_round(&mut inner, region, &mut at));
            let thread = HardwareThread { core: core as u32, sibling: sibling as u32 };
            threads.push(setup.program(thread, lot.below(2) as usize, program).unwrap());
        }
    }
    let mut run = setup.start();
    if !large {
        run.record();
        run.set_class(1, lot.of(&[0xff, 0x0f, 0x3c]), lot.of(&[0.0, 3.0])).unwrap();
        run.limit_reads(0, lot.of(&[0.0, 9.0])).unwrap();
    }
    let mut hash = Hash(0xcbf2_9ce4_8422_2325);
    for window in 1..=4 {
        run.until(Ps::from_ns(window * if large { 100_000 } else { 15_000 }));
        for thread in &threads {
            let (units, counted) = (run.units(*thread), run.counted(*thread));
            writeln!(hash, "{units} {counted} {:?}", run.core_counters(*thread)).unwrap();
            writeln!(hash, "{}", run.occupancy(*thread, 1)).unwrap();
        }
        writeln!(hash, "{:?} {:?}", run.channel_counters(0), run.channel_counters(1)).unwrap();
        writeln!(hash, "{:?}", run.take_records()).unwrap();
        match window {
            1 => run.pause(threads[0]),
            2 => run.resume(threads[0]),
            _ => {}
        }
    }
    hash.0
}

#[test]
fn the_same_happens_as_ever() {
    let mut found = String::new();
    for (name, large) in [("small", false), ("large", true)] {
        for number in 0..SCENES {
            let hash = scene(number ^ u64::from(large) << 32, large);
            writeln!(found, "{name} {number} {hash:016x}").unwrap();
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hardware/identity.txt");
    if std::env::var_os("RINGFENCE_BLESS").is_some() {
        std::fs::write(path, &found).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap();
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(found, expected, "another result than before; RINGFENCE_BLESS=1 accepts it");
    }
    assert_eq!(found.lines().count(), expected.lines().count());
}
