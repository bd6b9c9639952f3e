//! Lines that are fetched before they are requested, lines that need not be fetched, and stores
//! behind flushes.

use crate::support::{core, machine, rounds};
use ringfence_persist::Flush;
use ringfence_simulator::hardware::machine::Prefetcher;
use ringfence_simulator::hardware::{CoreCounters, Op, Ps, Run, Setup, Thread};

// A window's counters, and the ns of each unit in it.
fn window(run: &mut Run, thread: Thread) -> (CoreCounters, f64) {
    run.until(Ps::from_ns(300_000));
    let (units, counters) = (run.units(thread), run.core_counters(thread));
    run.until(Ps::from_ns(600_000));
    (run.core_counters(thread) - counters, 300_000.0 / (run.units(thread) - units) as f64)
}

// A dependent chain over every line, in blocks of so many lines, one block in each page of 4 KiB.
fn chain(prefetcher: Option<Prefetcher>, block: u32) -> (CoreCounters, f64) {
    let mut machine = machine();
    machine.prefetcher = prefetcher;
    let mut setup = Setup::new(&machine, 1).unwrap();
    let region = setup.region(0, 64 << 20).unwrap();
    let program = rounds(move |number| {
        let (page, line) = (number / block, number % block);
        let line = region.line((page * 64 + line) % region.lines());
        vec![Op::Load { line, dependent: true }, Op::Units(1)]
    });
    let thread = setup.program(core(0), 0, program).unwrap();
    window(&mut setup.start(), thread)
}

fn streamer(steps: u32, distance: u32) -> Option<Prefetcher> {
    Some(Prefetcher { steps, distance, lines: 32, lines_for_stores: None })
}

#[test]
fn a_walk_through_pages_is_fetched_ahead() {
    let (counters, alone) = chain(None, 64);
    assert_eq!(counters.prefetches, 0);
    assert!((alone - 100.0).abs() < 1.0, "{alone}");
    // Two lines of each page are asked for in vain, and five ahead are on their way.
    let (counters, ahead) = chain(streamer(1, 5), 64);
    let share = counters.prefetches as f64 / (counters.prefetches + counters.memory_reads) as f64;
    assert!(
        (0.45..=0.5).contains(&share),
        "{share}: what is fetched ahead is read from memory, too"
    );
    assert!(ahead < alone / 4.0, "{ahead} and {alone}");
    // No line is read twice.
    assert!(counters.memory_reads as f64 <= 1.05 * 300_000.0 / ahead, "{counters:?}");
}

#[test]
fn fewer_lines_come_ahead_of_stores_than_of_loads() {
    let walk = |stores: bool, lines_for_stores: Option<u32>| {
        let mut machine = machine();
        // The number of lines in flight is the only limit.
        (machine.core.rfo_window, machine.nodes[0].bus_gb_per_s) = (2, 1000.0);
        machine.prefetcher =
            Some(Prefetcher { steps: 1, distance: 20, lines: 16, lines_for_stores });
        let mut setup = Setup::new(&machine, 1).unwrap();
        let region = setup.region(0, 64 << 20).unwrap();
        let program = rounds(move |number| {
            let line = region.line(number % region.lines());
            let load = Op::Load { line, dependent: false };
            vec![if stores { Op::Store(line) } else { load }, Op::Units(1)]
        });
        let thread = setup.program(core(0), 0, program).unwrap();
        window(&mut setup.start(), thread).1
    };
    assert!(walk(true, Some(2)) > 1.2 * walk(true, None), "{}", walk(true, None));
    assert_eq!(walk(false, Some(2)), walk(false, None));
}

#[test]
fn short_blocks_begin_no_stream_and_longer_ones_read_what_nobody_wants() {
    let (short, _) = chain(streamer(8, 14), 8);
    assert_eq!(short.prefetches, 0);
    let (long, ns) = chain(streamer(8, 14), 16);
    let asked_for = 300_000.0 / ns;
    let read = long.memory_reads as f64 / asked_for;
    // Sixteen lines of each block are wanted, and fourteen beyond it are read as well.
    assert!((read - 30.0 / 16.0).abs() < 0.05, "{read}");
}

#[test]
fn a_line_that_is_written_as_a_whole_is_not_read() {
    let mut machine = machine();
    machine.prefetcher = streamer(1, 5);
    let stores = |whole: bool| {
        let mut setup = Setup::new(&machine, 1).unwrap();
        let region = setup.region(0, 64 << 20).unwrap();
        let program = rounds(move |number| {
            let line = region.line(number % region.lines());
            vec![if whole { Op::StoreWhole(line) } else { Op::Store(line) }, Op::Units(1)]
        });
        let thread = setup.program(core(0), 0, program).unwrap();
        let mut run = setup.start();
        let found = window(&mut run, thread);
        assert!(!run.dirty_lines().is_empty());
        found
    };
    let ((owned, slow), (whole, fast)) = (stores(false), stores(true));
    assert!(owned.memory_reads > 0 && owned.evictions > 0);
    assert_eq!(whole.memory_reads, 0);
    assert!(whole.evictions > owned.evictions && fast < slow, "{fast} and {slow}");
}

#[test]
fn stores_wait_behind_flushes_for_as_long_as_described() {
    let each = |after: f64| {
        let mut machine = machine();
        machine.core.store_after_flush_ns = after;
        let mut setup = Setup::new(&machine, 1).unwrap();
        let region = setup.region(0, 4096).unwrap();
        let program = rounds(move |number| {
            let line = region.line(number % 64);
            vec![Op::Store(line), Op::Flush { kind: Flush::Clwb, line }, Op::Units(1)]
        });
        let thread = setup.program(core(0), 0, program).unwrap();
        window(&mut setup.start(), thread).1
    };
    assert!(each(0.0) < 30.0, "{}", each(0.0));
    assert!((each(200.0) - 200.0).abs() < 2.0, "{}", each(200.0));
}

#[test]
fn as_many_flushes_are_under_way_as_have_places() {
    let each = |places: Option<u32>, kind: Flush| {
        let mut machine = machine();
        machine.uncore.flush_ns = 400.0;
        machine.core.flush_buffers = places;
        let mut setup = Setup::new(&machine, 1).unwrap();
        let region = setup.region(0, 4096).unwrap();
        let program = rounds(move |number| {
            let line = region.line(number % 64);
            vec![Op::Store(line), Op::Flush { kind, line }, Op::Units(1)]
        });
        let thread = setup.program(core(0), 0, program).unwrap();
        window(&mut setup.start(), thread).1
    };
    // There, 400 ns longer, and back.
    let way = 30.0 + 400.0 + 25.0;
    for places in [5, 20] {
        let found = each(Some(places), Flush::Clwb);
        assert!((found / (way / f64::from(places)) - 1.0).abs() < 0.02, "{places}: {found}");
    }
    // Twelve fill buffers otherwise.
    assert!((each(None, Flush::Clwb) / (way / 12.0) - 1.0).abs() < 0.05);
    // One at a time where each waits for the one before.
    assert!(each(Some(20), Flush::Clflush) > way);
}

#[test]
fn flushes_and_non_temporal_lines_leave_with_a_pause_and_are_not_held_up_by_fill_buffers() {
    let each = |nt: bool, gap: f64, fence: u32| {
        let mut machine = machine();
        machine.core.flush_buffers = Some(128);
        (machine.core.flush_gap_ns, machine.core.nt_gap_ns) = (gap, Some(gap));
        (machine.uncore.flush_ns, machine.uncore.nt_ns) = (145.0, 145.0);
        // Channels enough that memory does not limit it.
        machine.nodes[0].channels = 16;
        let mut setup = Setup::new(&machine, 1).unwrap();
        let region = setup.region(0, 4096).unwrap();
        let program = rounds(move |number| {
            let line = region.line(number % 64);
            let mut ops = vec![Op::Store(line), Op::Flush { kind: Flush::Clwb, line }];
            if nt {
                ops = vec![Op::NtStore { line, bytes: 64 }];
            }
            if number % fence == fence - 1 {
                ops.push(Op::Sfence);
            }
            ops.push(Op::Units(1));
            ops
        });
        let thread = setup.program(core(0), 0, program).unwrap();
        window(&mut setup.start(), thread).1
    };
    // There, 145 ns longer, and back; and what a fence takes itself.
    let way = 30.0 + 145.0 + 25.0 + 2.0;
    for nt in [false, true] {
        let near = |found: f64, expected: f64, share: f64| {
            assert!((found / expected - 1.0).abs() < share, "nt {nt}: {found}, not {expected}");
        };
        // Without a fence the pause is all; with 12 fill buffers each would take 17 ns.
        near(each(nt, 3.0, u32::MAX), 3.0, 0.02);
        near(each(nt, 6.0, u32::MAX), 6.0, 0.02);
        // A fence after 64 of them waits once, for the last.
        near(each(nt, 3.0, 64), 3.0 * 63.0 / 64.0 + way / 64.0, 0.05);
        // After each, the pause is within the wait.
        near(each(nt, 3.0, 1), way, 0.02);
    }
}

#[test]
fn clwb_may_take_another_time_than_flushes_that_invalidate() {
    let each = |kind: Flush, clwb_ns: Option<f64>| {
        let mut machine = machine();
        machine.core.clflush_ordered = false;
        machine.uncore.flush_ns = 100.0;
        machine.uncore.clwb_ns = clwb_ns;
        let mut setup = Setup::new(&machine, 1).unwrap();
        let region = setup.region(0, 4096).unwrap();
        let program = rounds(move |number| {
            let line = region.line(number % 64);
            vec![Op::Store(line), Op::Flush { kind, line }, Op::Sfence, Op::Units(1)]
        });
        let thread = setup.program(core(0), 0, program).unwrap();
        window(&mut setup.start(), thread).1
    };
    let way = 30.0 + 25.0 + 2.0;
    let near = |found: f64, expected: f64| {
        assert!((found - expected).abs() < 3.0, "{found}, not {expected}")
    };
    near(each(Flush::Clwb, Some(40.0)), way + 40.0);
    near(each(Flush::Clwb, None), way + 100.0);
    for kind in [Flush::Clflush, Flush::Clflushopt] {
        near(each(kind, Some(40.0)), way + 100.0);
    }
}
