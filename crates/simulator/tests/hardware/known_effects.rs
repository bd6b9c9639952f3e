//! What a description plants must come out again.

use crate::support::{core, machine, mix, rounds};
use ringfence_persist::Flush;
use ringfence_simulator::hardware::machine::{AfterClwb, Device, Inclusion, Machine, Optane, Wear};
use ringfence_simulator::hardware::{HardwareThread, Line, Op, Ps, Record, Run, Setup, Thread};

const DRAM: usize = 0;
const OPTANE: usize = 1;

/// Units that a thread does in a window of so many ns, after as long a time to settle; and the ns
/// of each.
fn rate(run: &mut Run, thread: Thread, ns: u64) -> f64 {
    run.until(Ps::from_ns(ns));
    let before = run.units(thread);
    run.until(Ps::from_ns(2 * ns));
    ns as f64 / (run.units(thread) - before) as f64
}

// A thread of the first core that repeats a round, given its number and a way to name lines of a
// region.
fn alone(
    machine: &Machine,
    node: usize,
    bytes: u64,
    round: impl Fn(u32, &dyn Fn(u64) -> Line) -> Vec<Op> + Send + 'static,
) -> (Run, Thread) {
    let mut setup = Setup::new(machine, 1).unwrap();
    let region = setup.region(node, bytes).unwrap();
    let lines = u64::from(region.lines());
    let program = rounds(move |number| round(number, &|index| region.line((index % lines) as u32)));
    let thread = setup.program(core(0), 0, program).unwrap();
    (setup.start(), thread)
}

fn near(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() <= share, "{found} instead of {expected}");
}

// A dependent chain through a footprint, in an order that no set prefers.
fn chain(machine: &Machine, node: usize, kib: u64) -> f64 {
    let (mut run, thread) = alone(machine, node, kib << 10, |number, line| {
        vec![Op::Load { line: line(u64::from(number)), dependent: true }, Op::Units(1)]
    });
    rate(&mut run, thread, 2_000_000)
}

#[test]
fn a_chain_of_loads_takes_each_levels_latency() {
    for inclusion in [Inclusion::Victim, Inclusion::NonInclusive, Inclusion::Inclusive] {
        let mut machine = machine();
        machine.llc.inclusion = inclusion;
        near(chain(&machine, DRAM, 2), 2.0, 0.001);
        near(chain(&machine, DRAM, 12), 6.0, 0.001);
        near(chain(&machine, DRAM, 48), 20.0, 0.001);
        // There, the line over the bus, DRAM, and back.
        near(chain(&machine, DRAM, 1024), 30.0 + 5.0 + 40.0 + 25.0, 0.001);
    }
}

fn optane_of(machine: &mut Machine) -> &mut Optane {
    match &mut machine.nodes[OPTANE].device {
        Device::Optane(optane) => optane,
        Device::Dram(_) => panic!("the second node is Optane"),
    }
}

#[test]
fn a_chain_through_optane_takes_the_medias_latency_and_its_buffers() {
    let machine = machine();
    // Each fourth line is in a new block; the other three find it in the read buffer. 512 KiB have
    // their translations.
    let miss = 30.0 + 5.0 + 200.0 + 25.0;
    let hit = 30.0 + 5.0 + 60.0 + 25.0;
    near(chain(&machine, OPTANE, 512), (miss + 3.0 * hit) / 4.0, 0.001);
    // 64 MiB has four times as many pages as there are translations: one block of 16 in a page
    // misses them.
    near(chain(&machine, OPTANE, 64 << 10), (miss + 100.0 / 16.0 + 3.0 * hit) / 4.0, 0.001);
}

#[test]
fn another_socket_is_farther_both_ways() {
    let mut machine = machine();
    machine.nodes[DRAM].socket = 1;
    near(chain(&machine, DRAM, 1024), 100.0 + 2.0 * 40.0, 0.001);
}

#[test]
fn streaming_reaches_the_channels_limit_and_not_more() {
    let machine = machine();
    for threads in [2, 4] {
        let mut setup = Setup::new(&machine, 1).unwrap();
        for number in 0..threads {
            let region = setup.region(DRAM, 1 << 20).unwrap();
            let program = rounds(move |at| {
                vec![
                    Op::Load { line: region.line(at % region.lines()), dependent: false },
                    Op::Units(1),
                ]
            });
            setup.program(core(number), 0, program).unwrap();
        }
        let mut run = setup.start();
        run.until(Ps::from_ns(200_000));
        let before = run.channel_counters(DRAM)[0];
        run.until(Ps::from_ns(1_200_000));
        let bytes = (run.channel_counters(DRAM)[0] - before).bytes();
        near(bytes as f64 / 1e6, 12.8, 0.001);
        assert!(bytes <= 12_800_000 + 64, "{bytes}");
    }
    // One core: twelve fill buffers, each for 100 ns and what it queues, are below the limit of 5
    // ns a line.
    let (mut run, thread) = alone(&machine, DRAM, 1 << 20, |number, line| {
        vec![Op::Load { line: line(number.into()), dependent: false }, Op::Units(1)]
    });
    near(rate(&mut run, thread, 1_000_000), 100.0 / 12.0, 0.01);
}

#[test]
fn a_fence_after_each_flush_waits_for_acceptance() {
    for kind in Flush::ALL {
        let (mut run, thread) = alone(&machine(), DRAM, 64, move |_, line| {
            vec![Op::Store(line(0)), Op::Flush { kind, line: line(0) }, Op::Sfence, Op::Units(1)]
        });
        let found = rate(&mut run, thread, 1_000_000);
        // There and back, and with the line gone it is read again, which the fence before does not
        // hold up.
        let accept = 30.0 + 25.0;
        let kept = kind == Flush::Clwb;
        let expected = if kept { accept } else { 100.0 };
        assert!(found >= expected, "{kind}: {found}");
        assert!(found <= if kept { accept + 5.0 } else { accept + 100.0 + 5.0 }, "{kind}: {found}");
    }
}

#[test]
fn a_flush_without_fences_is_held_up_by_fill_buffers_or_its_own_order() {
    let flushes = |kind: Flush, ordered: bool, clwb: AfterClwb| {
        let mut machine = machine();
        machine.core.clflush_ordered = ordered;
        machine.core.clwb = clwb;
        // 16 lines, stored and flushed again and again.
        let (mut run, thread) = alone(&machine, DRAM, 16 << 6, move |number, line| {
            let line = line(number.into());
            vec![Op::Store(line), Op::Flush { kind, line }, Op::Units(1)]
        });
        rate(&mut run, thread, 1_000_000)
    };
    // Each holds a buffer for 55 ns, and there are 12.
    near(flushes(Flush::Clwb, true, AfterClwb::Kept), 55.0 / 12.0, 0.15);
    // One that invalidates has the line read again: 155 ns of a buffer, and 10 ns of the bus.
    near(flushes(Flush::Clflushopt, true, AfterClwb::Kept), 155.0 / 12.0, 0.15);
    near(flushes(Flush::Clwb, true, AfterClwb::Invalidated), 155.0 / 12.0, 0.15);
    // An ordered one keeps everything behind it for as long as it takes.
    near(flushes(Flush::Clflush, true, AfterClwb::Kept), 55.0 + 0.5 + 0.5, 0.02);
    near(flushes(Flush::Clflush, false, AfterClwb::Kept), 155.0 / 12.0, 0.15);
}

#[test]
fn clwb_can_leave_lines_in_the_last_level_alone() {
    let mut machine = machine();
    machine.core.clwb = AfterClwb::MovedToLlc;
    let (mut run, thread) = alone(&machine, DRAM, 64, |_, line| {
        vec![
            Op::Store(line(0)),
            Op::Flush { kind: Flush::Clwb, line: line(0) },
            Op::Mfence,
            Op::Load { line: line(0), dependent: false },
            Op::Lfence,
            Op::Units(1),
        ]
    });
    run.until(Ps::from_ns(100_000));
    let counters = run.core_counters(thread);
    // Each load finds it there; the store that follows finds it above.
    assert!(
        counters.llc_hits + 2 >= counters.dirty_flushes && counters.memory_reads == 1,
        "{counters:?}"
    );
}

// Non-temporal stores to Optane, a function of the round saying where; the ns of a line.
fn nt(machine: &Machine, bytes: u64, place: impl Fn(u64) -> u64 + Send + 'static) -> f64 {
    let (mut run, thread) = alone(machine, OPTANE, bytes, move |number, line| {
        vec![Op::NtStore { line: line(place(number.into())), bytes: 64 }, Op::Units(1)]
    });
    rate(&mut run, thread, 1_000_000)
}

#[test]
fn sequential_writes_reach_the_medias_bandwidth_and_random_lines_a_quarter_of_it() {
    let mut machine = machine();
    let block = 100.0;
    near(nt(&machine, 16 << 20, |number| number), block / 4.0, 0.01);
    // Whole blocks in any order are as good.
    near(
        nt(&machine, 16 << 20, |number| 4 * (mix(number / 4) >> 8) + number % 4),
        block / 4.0,
        0.01,
    );
    near(nt(&machine, 16 << 20, mix), block, 0.02);
    // Reading the rest of the block costs its time too.
    optane_of(&mut machine).partial_block_ns = 60.0;
    near(nt(&machine, 16 << 20, mix), block + 60.0, 0.02);
    near(nt(&machine, 16 << 20, |number| number), block / 4.0, 0.01);
}

#[test]
fn the_write_buffer_combines_what_fits_into_it() {
    // Every second line of a footprint, then the others: combined if the buffer holds all of it
    // until then.
    let amplification = |kib: u64| {
        let lines = kib * 16;
        let mut machine = machine();
        optane_of(&mut machine).whole_block_ns = 0.0;
        let (mut run, _) = alone(&machine, OPTANE, kib << 10, move |number, line| {
            let number = u64::from(number) % lines;
            vec![Op::NtStore { line: line(number * 2 % lines + number * 2 / lines), bytes: 64 }]
        });
        run.until(Ps::from_ns(2_000_000));
        let counters = run.channel_counters(OPTANE)[0];
        (256 * counters.blocks_written) as f64 / (64 * counters.lines_written) as f64
    };
    near(amplification(16), 1.0, 0.05);
    near(amplification(64), 2.0, 0.05);
}

// Six DIMMs have enough idle time to write a page's blocks before the page is used again. So their
// write bandwidth does not affect a writer that reads what it writes.
#[test]
fn write_bandwidth_that_is_not_the_limit_does_not_slow_a_writer_that_reads() {
    let page = |share: f64, channels: u32| {
        let mut machine = machine();
        machine.nodes[OPTANE].channels = channels;
        machine.nodes[OPTANE].interleave_bytes = 4096;
        optane_of(&mut machine).media_write_gb_per_s *= share;
        let (mut run, thread) = alone(&machine, OPTANE, 64 << 20, |number, line| {
            let lines = || (0..64).map(|at| line(64 * u64::from(number) + at));
            let flush = |line| Op::Flush { kind: Flush::Clwb, line };
            lines()
                .map(Op::Store)
                .chain(lines().map(flush))
                .chain([Op::Sfence, Op::Units(64)])
                .collect()
        });
        rate(&mut run, thread, 2_000_000)
    };
    let six = page(1.0, 6);
    near(page(0.8, 6), six, 0.01);
    near(page(1.25, 6), six, 0.01);
    // With one DIMM it is the limit.
    assert!(page(0.8, 1) > 1.1 * page(1.0, 1));
}

#[test]
fn wear_levelling_stalls_now_and_then() {
    let mut machine = machine();
    let even = nt(&machine, 64 << 10, |number| number);
    optane_of(&mut machine).wear =
        Some(Wear { region_bytes: 65536, writes: 1000, stall_ns: 50_000.0 });
    // 1,000 blocks of 100 ns, and then 50 us in which nothing moves.
    near(nt(&machine, 64 << 10, |number| number), even * 1.5, 0.04);
    // Spread over many regions, writes move none.
    near(nt(&machine, 64 << 20, |number| number), even, 0.01);
}

#[test]
fn flushing_a_line_that_no_cache_holds_takes_longer() {
    let flush = |absent: Option<f64>, loaded: bool| {
        let mut machine = machine();
        machine.uncore.absent_flush_ns = absent;
        let (mut run, thread) = alone(&machine, DRAM, 64 << 20, move |number, line| {
            let line = line(number.into());
            let flush = Op::Flush { kind: Flush::Clflushopt, line };
            let load = loaded.then_some(Op::Load { line, dependent: true });
            load.into_iter().chain([flush, Op::Sfence, Op::Units(1)]).collect()
        });
        rate(&mut run, thread, 1_000_000)
    };
    let llc = machine().llc.latency_ns;
    near(flush(Some(llc + 60.0), false) - flush(None, false), 60.0, 0.01);
    near(flush(Some(llc + 60.0), true), flush(None, true), 0.001);
}

#[test]
fn reads_of_queued_lines_are_answered_by_the_write_pending_queue() {
    let (mut run, _) = alone(&machine(), OPTANE, 64 << 20, |number, line| {
        let lines = (0..16).map(|at| line(16 * u64::from(number) + at));
        let writes = lines.map(|line| Op::NtStore { line, bytes: 64 });
        let read = Op::Load { line: line(16 * u64::from(number) + 15), dependent: true };
        writes.chain([Op::Sfence, read]).collect()
    });
    run.until(Ps::from_ns(1_000_000));
    let counters = run.channel_counters(OPTANE)[0];
    assert!(counters.reads_from_queue > 100, "{counters:?}");
    // These neither use the bus nor ask the DIMM.
    let from_dimm = counters.reads_from_buffers + counters.blocks_read;
    assert_eq!(counters.lines_read, from_dimm, "{counters:?}");
}

#[test]
fn the_throttle_spaces_requests_beyond_the_second_level() {
    let (mut run, thread) = alone(&machine(), DRAM, 1 << 20, |number, line| {
        vec![Op::Load { line: line(number.into()), dependent: false }, Op::Units(1)]
    });
    run.set_class(0, !0, 50.0).unwrap();
    near(rate(&mut run, thread, 1_000_000), 50.0, 0.001);
    // What the second level has is not slowed.
    let (mut run, thread) = alone(&machine(), DRAM, 12 << 10, |number, line| {
        vec![Op::Load { line: line(number.into()), dependent: true }, Op::Units(1)]
    });
    run.set_class(0, !0, 50.0).unwrap();
    near(rate(&mut run, thread, 1_000_000), 6.0, 0.001);
}

#[test]
fn siblings_that_compute_share_the_ports() {
    let time = |siblings: u32, share: f64| {
        let mut machine = machine();
        machine.core.issue.compute_share = share;
        let mut setup = Setup::new(&machine, 1).unwrap();
        let all: Vec<Thread> = (0..siblings)
            .map(|sibling| {
                let program = rounds(|_| vec![Op::Compute(Ps::from_ns(100)), Op::Units(1)]);
                setup.program(HardwareThread { core: 0, sibling }, 0, program).unwrap()
            })
            .collect();
        let mut run = setup.start();
        run.until(Ps::from_ns(1_000_000));
        all.iter().map(|thread| 1e6 / run.units(*thread) as f64).collect::<Vec<f64>>()
    };
    near(time(1, 1.0)[0], 100.0, 0.001);
    for found in time(2, 1.0) {
        near(found, 200.0, 0.01);
    }
    for found in time(2, 0.5) {
        near(found, 100.0, 0.05);
    }
}

#[test]
fn a_sibling_that_waits_at_fences_leaves_the_ports() {
    // The neighbour of a thread that computes: it computes too, or it waits for one flush after the
    // other.
    let beside = |waits: bool| {
        let mut setup = Setup::new(&machine(), 1).unwrap();
        let region = setup.region(DRAM, 64).unwrap();
        let victim = rounds(|_| vec![Op::Compute(Ps::from_ns(100)), Op::Units(1)]);
        let victim = setup.program(core(0), 0, victim).unwrap();
        let line = region.line(0);
        let other = rounds(move |_| match waits {
            true => vec![Op::Store(line), Op::Flush { kind: Flush::Clwb, line }, Op::Mfence],
            false => vec![Op::Compute(Ps::from_ns(100))],
        });
        setup.program(HardwareThread { core: 0, sibling: 1 }, 0, other).unwrap();
        let mut run = setup.start();
        rate(&mut run, victim, 500_000)
    };
    near(beside(false), 200.0, 0.02);
    assert!(beside(true) < 110.0, "{}", beside(true));
}

#[test]
fn a_locked_instruction_waits_for_what_a_fence_waits_for() {
    let (mut run, thread) = alone(&machine(), DRAM, 128, |_, line| {
        vec![
            Op::Store(line(0)),
            Op::Flush { kind: Flush::Clwb, line: line(0) },
            Op::Locked(line(1)),
            Op::Units(1),
        ]
    });
    let found = rate(&mut run, thread, 500_000);
    assert!((60.0..70.0).contains(&found), "{found}");
}

#[test]
fn partly_filled_write_combining_buffers_leave_at_fences_or_for_others() {
    let (mut run, thread) = alone(&machine(), DRAM, 1 << 20, |number, line| {
        let store = |index: u64, bytes| Op::NtStore { line: line(index), bytes };
        // Eight times eight bytes fill a buffer; sixteen buffers at once are more than there are.
        let number = 32 * u64::from(number);
        let mut round: Vec<Op> = (0..8).map(|_| store(number, 8)).collect();
        round.extend((1..17).map(|line| store(number + line, 8)));
        round.extend([Op::Sfence, Op::Units(1)]);
        round
    });
    run.until(Ps::from_ns(100_000));
    let (counters, rounds) = (run.core_counters(thread), run.units(thread));
    assert!(rounds > 100);
    near(counters.nt_lines as f64, 17.0 * rounds as f64, 0.01);
    near(counters.partial_nt_lines as f64, 16.0 * rounds as f64, 0.01);
}

#[test]
fn writers_that_wait_for_a_channel_do_not_hold_a_reader_up() {
    // Three cores flush five times what the channel carries; 20 to 30 of their lines wait for
    // acceptance at any time.
    let mut setup = Setup::new(&machine(), 1).unwrap();
    let far = setup.region(DRAM, 1 << 20).unwrap();
    let reader = rounds(move |number| {
        vec![Op::Load { line: far.line(number % far.lines()), dependent: true }, Op::Units(1)]
    });
    let reader = setup.program(core(0), 0, reader).unwrap();
    for number in 1..4 {
        let near = setup.region(DRAM, 1 << 10).unwrap();
        let program = rounds(move |number| {
            let line = near.line(number % near.lines());
            vec![Op::Store(line), Op::Flush { kind: Flush::Clwb, line }]
        });
        setup.program(core(number), 0, program).unwrap();
    }
    let mut run = setup.start();
    let found = rate(&mut run, reader, 500_000);
    let channel = run.channel_counters(DRAM)[0];
    near(channel.bytes() as f64 / 1e6, 12.8, 0.01);
    assert!(channel.writes_that_waited > channel.lines_written / 2);
    // 100 ns alone: the transfer under way and two writes before it, at 5 ns each.
    assert!((105.0..=116.0).contains(&found), "{found}");
}

#[test]
fn a_flush_waits_for_a_line_that_was_evicted_and_is_not_accepted_yet() {
    let mut machine = machine();
    machine.llc.inclusion = Inclusion::Inclusive;
    // The last level has 128 sets, and the class one way of it: the second line makes the first
    // leave.
    let (mut run, _) = alone(&machine, DRAM, 1 << 20, |number, line| match number {
        0 => vec![
            Op::Store(line(0)),
            Op::Mfence,
            Op::Load { line: line(128), dependent: false },
            Op::Flush { kind: Flush::Clflushopt, line: line(0) },
            Op::Sfence,
        ],
        _ => vec![Op::End],
    });
    run.set_class(0, 1, 0.0).unwrap();
    run.record();
    run.until(Ps::from_ns(10_000));
    let records = run.take_records();
    let accepted = records.iter().find_map(|record| match record {
        Record::Accepted { at, .. } => Some(*at),
        _ => None,
    });
    let fenced = records.iter().filter_map(|record| match record {
        Record::Fenced { at, .. } => Some(*at),
        _ => None,
    });
    assert!(accepted.unwrap() < fenced.max().unwrap(), "{records:?}");
    let flushed = records.iter().filter(|record| matches!(record, Record::Left { .. })).count();
    assert_eq!(flushed, 1, "it was clean when it was flushed: {records:?}");
}

// What a thread of the first core does with a sibling that starts with a program of its own, or
// without a sibling.
fn beside(sibling: Option<fn(u32) -> Vec<Op>>, pause: bool) -> u64 {
    let machine = machine();
    let mut setup = Setup::new(&machine, 1).unwrap();
    let region = setup.region(DRAM, 1 << 20).unwrap();
    let stores = rounds(move |number| {
        let line = |index: u64| region.line((index % u64::from(region.lines())) as u32);
        (0..64)
            .map(|i| Op::Store(line(mix(u64::from(number) * 64 + i))))
            .chain([Op::Units(1)])
            .collect()
    });
    let thread = setup.program(core(0), 0, stores).unwrap();
    let other = sibling.map(|round| {
        setup.program(HardwareThread { core: 0, sibling: 1 }, 0, rounds(round)).unwrap()
    });
    let mut run = setup.start();
    if let (Some(other), true) = (other, pause) {
        run.pause(other);
    }
    run.until(Ps::from_ns(200_000));
    run.units(thread)
}

#[test]
fn a_sibling_that_is_paused_takes_nothing_and_one_that_rests_half_of_the_store_buffer() {
    let computes: fn(u32) -> Vec<Op> = |_| vec![Op::Compute(Ps::from_ns(100))];
    let rests: fn(u32) -> Vec<Op> = |_| vec![Op::Rest(Ps::from_ns(100))];
    let alone = beside(None, false);
    assert_eq!(beside(Some(computes), true), alone);
    assert!(beside(Some(computes), false) < alone);
    assert!(beside(Some(rests), false) >= beside(Some(computes), false));
}
