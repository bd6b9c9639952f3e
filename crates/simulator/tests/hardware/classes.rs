//! Classes of service: which class may fill which ways, and what that does.

use crate::support::{core, machine, rounds};
use ringfence_persist::Flush;
use ringfence_simulator::hardware::HardwareThread;
use ringfence_simulator::hardware::machine::Inclusion;
use ringfence_simulator::hardware::{Op, Ps, Run, Setup, SetupError, Thread};

// A chain through 24 KiB in class 0, and beside it a stream through 1 MiB in class 1. The last
// level has 64 KiB.
fn pair(inclusion: Inclusion, masks: Option<(u32, u32)>) -> (Run, Thread, Thread) {
    let mut machine = machine();
    machine.llc.inclusion = inclusion;
    // What the first level has hides nothing from the last.
    machine.l2.size_kib = 4;
    let mut setup = Setup::new(&machine, 3).unwrap();
    let small = setup.region(0, 24 << 10).unwrap();
    let large = setup.region(0, 1 << 20).unwrap();
    let victim = rounds(move |number| {
        vec![Op::Load { line: small.line(number % small.lines()), dependent: true }, Op::Units(1)]
    });
    let aggressor = rounds(move |number| {
        vec![Op::Load { line: large.line(number % large.lines()), dependent: false }, Op::Units(1)]
    });
    let victim = setup.program(core(0), 0, victim).unwrap();
    let aggressor = setup.program(core(1), 1, aggressor).unwrap();
    let mut run = setup.start();
    if let Some((first, second)) = masks {
        run.set_class(0, first, 0.0).unwrap();
        run.set_class(1, second, 0.0).unwrap();
    }
    (run, victim, aggressor)
}

#[test]
fn full_masks_are_as_none() {
    for inclusion in [Inclusion::Victim, Inclusion::NonInclusive, Inclusion::Inclusive] {
        let figures = |masks| {
            let (mut run, victim, aggressor) = pair(inclusion, masks);
            run.until(Ps::from_ns(300_000));
            (
                run.units(victim),
                run.units(aggressor),
                run.core_counters(victim),
                run.core_counters(aggressor),
            )
        };
        assert_eq!(figures(None), figures(Some((0xff, 0xff))));
        assert_eq!(figures(None), figures(Some((!0, !0))));
    }
}

#[test]
fn ways_of_its_own_keep_a_victims_lines() {
    for inclusion in [Inclusion::Victim, Inclusion::NonInclusive, Inclusion::Inclusive] {
        let misses = |masks| {
            let (mut run, victim, _) = pair(inclusion, masks);
            run.until(Ps::from_ns(300_000));
            let before = run.core_counters(victim);
            run.until(Ps::from_ns(600_000));
            (run.core_counters(victim) - before).memory_reads
        };
        assert!(misses(None) > 1000, "{inclusion:?}: {}", misses(None));
        assert_eq!(misses(Some((0x0f, 0xf0))), 0, "{inclusion:?}");
    }
}

#[test]
fn a_new_mask_evicts_nothing_by_itself() {
    let (mut run, victim, aggressor) = pair(Inclusion::NonInclusive, None);
    run.until(Ps::from_ns(300_000));
    run.pause(victim);
    run.pause(aggressor);
    run.until(Ps::from_ns(310_000));
    let before = [run.occupancy(victim, 0), run.occupancy(victim, 1)];
    assert_eq!(before.iter().sum::<u64>(), 1024);
    run.set_class(1, 0x80, 0.0).unwrap();
    run.until(Ps::from_ns(320_000));
    assert_eq!([run.occupancy(victim, 0), run.occupancy(victim, 1)], before);
    // The victim's reads push the stream out, which keeps one way of eight: 128 lines.
    run.resume(victim);
    run.resume(aggressor);
    run.until(Ps::from_ns(2_000_000));
    let after = [run.occupancy(victim, 0), run.occupancy(victim, 1)];
    assert!(after[0] == 384 && after[1] < before[1], "{before:?} {after:?}");
}

// A chain through 8 KiB in class 0, twice what the first level has, and on the sibling a stream in
// class 1. The second level has 16 KiB.
fn siblings(masks: Option<[u32; 2]>, beside: bool) -> (Run, Thread, Thread) {
    let mut setup = Setup::new(&machine(), 3).unwrap();
    let small = setup.region(0, 8 << 10).unwrap();
    let large = setup.region(0, 1 << 20).unwrap();
    let victim = rounds(move |number| {
        vec![Op::Load { line: small.line(number % small.lines()), dependent: true }, Op::Units(1)]
    });
    let stream = rounds(move |number| {
        vec![Op::Load { line: large.line(number % large.lines()), dependent: false }]
    });
    let victim = setup.program(core(0), 0, victim).unwrap();
    let stream = setup.program(HardwareThread { core: 0, sibling: 1 }, 1, stream).unwrap();
    let mut run = setup.start();
    if !beside {
        run.pause(stream);
    }
    for (class, mask) in masks.into_iter().flatten().enumerate() {
        run.set_second(class, mask).unwrap();
    }
    (run, victim, stream)
}

#[test]
fn ways_of_the_second_level_keep_a_victims_lines_from_its_sibling() {
    // Loads of the chain, how many of them the second level has the line of, and whose lines it
    // has. The stream, which shares the core's counters, comes back to none of its own.
    let figures = |masks, beside| {
        let (mut run, victim, _) = siblings(masks, beside);
        run.until(Ps::from_ns(100_000));
        let (before, units) = (run.core_counters(victim), run.units(victim));
        run.until(Ps::from_ns(200_000));
        let hits = (run.core_counters(victim) - before).l2_hits;
        (run.units(victim) - units, hits, [0, 1].map(|class| run.second_occupancy(victim, class)))
    };
    // A hit in the second level takes 6 ns.
    let (alone, hits, lines) = figures(None, false);
    assert!((16_600..=16_700).contains(&alone) && hits.abs_diff(alone) <= 1, "{alone} {hits}");
    assert_eq!(lines, [128, 0]);
    let (beside, hits, lines) = figures(None, true);
    assert!(
        hits < beside / 2 && lines[0] < 128 && lines.iter().sum::<u64>() == 256,
        "{beside} {hits} {lines:?}"
    );
    let (apart, hits, lines) = figures(Some([0x0f, 0xf0]), true);
    assert!(
        hits.abs_diff(apart) <= 2 && apart > 2 * beside,
        "{apart} {hits}, {beside} without masks"
    );
    assert_eq!(lines, [128, 128]);
    // Half of what it needs: by LRU, a chain never finds a line again.
    let (_, hits, lines) = figures(Some([0x03, 0xfc]), true);
    assert_eq!((hits, lines), (0, [64, 192]));
}

#[test]
fn full_masks_of_the_second_level_are_as_none() {
    let figures = |masks| {
        let (mut run, victim, stream) = siblings(masks, true);
        run.until(Ps::from_ns(200_000));
        (run.units(victim), run.core_counters(stream), run.second_occupancy(victim, 0))
    };
    assert_eq!(figures(None), figures(Some([0xff, 0xff])));
    assert_eq!(figures(None), figures(Some([!0, !0])));
}

#[test]
fn a_new_mask_of_the_second_level_evicts_nothing_by_itself() {
    let (mut run, victim, stream) = siblings(Some([0x0f, 0xf0]), true);
    run.until(Ps::from_ns(100_000));
    run.pause(victim);
    run.pause(stream);
    run.until(Ps::from_ns(110_000));
    run.set_second(0, 0x80).unwrap();
    run.set_second(1, 0x0f).unwrap();
    run.until(Ps::from_ns(120_000));
    let lines = |run: &Run| [0, 1].map(|class| run.second_occupancy(victim, class));
    assert_eq!(lines(&run), [128, 128]);
    // What is in ways that are no longer its own is found there.
    let before = run.core_counters(victim);
    run.resume(victim);
    run.until(Ps::from_ns(150_000));
    let after = run.core_counters(victim) - before;
    assert!(after.l2_hits > 4000 && after.l2_hits == after.l1_misses, "{after:?}");
    // The stream takes these ways, and the chain gets one of them, 32 lines.
    run.resume(stream);
    run.until(Ps::from_ns(400_000));
    assert_eq!(lines(&run)[0], 32);
    assert_eq!(run.set_second(0, 0x100), Err(SetupError::EmptyMask { mask: 0x100, ways: 8 }));
}

#[test]
fn a_region_that_was_locked_in_stays_until_it_is_flushed() {
    let mut machine = machine();
    machine.llc.inclusion = Inclusion::NonInclusive;
    machine.l2.size_kib = 4;
    let mut setup = Setup::new(&machine, 3).unwrap();
    let locked = setup.region(0, 8 << 10).unwrap();
    let large = setup.region(0, 1 << 20).unwrap();
    let reader = rounds(move |number| {
        vec![Op::Load { line: locked.line(number % locked.lines()), dependent: true }, Op::Units(1)]
    });
    let reader = setup.program(core(0), 0, reader).unwrap();
    let stream = rounds(move |number| {
        vec![Op::Load { line: large.line(number % large.lines()), dependent: false }]
    });
    let stream = setup.program(core(1), 1, stream).unwrap();
    let flusher = rounds(move |number| {
        vec![
            Op::Flush { kind: Flush::Clflushopt, line: locked.line(number % locked.lines()) },
            Op::Sfence,
        ]
    });
    let flusher = setup.program(core(2), 1, flusher).unwrap();
    let mut run = setup.start();
    run.pause(stream);
    run.pause(flusher);
    // Preloaded into two ways, which no thread may fill afterwards.
    run.set_class(0, 0x03, 0.0).unwrap();
    run.until(Ps::from_ns(50_000));
    run.set_class(0, 0xfc, 0.0).unwrap();
    run.set_class(1, 0xfc, 0.0).unwrap();
    run.resume(stream);
    let before = run.core_counters(reader);
    run.until(Ps::from_ns(500_000));
    assert_eq!((run.core_counters(reader) - before).memory_reads, 0);
    assert_eq!(run.occupancy(reader, 0), 128);
    run.resume(flusher);
    let before = run.core_counters(reader);
    run.until(Ps::from_ns(900_000));
    assert!((run.core_counters(reader) - before).memory_reads > 100);
}

#[test]
fn a_class_reads_memory_as_often_as_its_limit_lets_it() {
    for inclusion in [Inclusion::Victim, Inclusion::NonInclusive, Inclusion::Inclusive] {
        let (mut run, _, aggressor) = pair(inclusion, Some((0x0f, 0xf0)));
        run.limit_reads(1, 100.0).unwrap();
        run.until(Ps::from_ns(300_000));
        let before = run.core_counters(aggressor).memory_reads;
        run.until(Ps::from_ns(1_300_000));
        let reads = run.core_counters(aggressor).memory_reads - before;
        assert!((9_990..=10_000).contains(&reads), "{inclusion:?}: {reads}");
    }
}

#[test]
fn a_thread_that_changes_its_class_fills_the_other_ways() {
    let (mut run, victim, aggressor) = pair(Inclusion::NonInclusive, Some((0x0f, 0xf0)));
    run.until(Ps::from_ns(300_000));
    run.set_class(2, 0xf0, 0.0).unwrap();
    run.assign(aggressor, 2).unwrap();
    assert_eq!((run.occupancy(aggressor, 1), run.occupancy(aggressor, 2)), (512, 0));
    run.until(Ps::from_ns(900_000));
    // Its own took the place of those that it had filled before, and of no others.
    assert_eq!([0, 1, 2].map(|class| run.occupancy(victim, class)), [384, 0, 512]);
    assert_eq!(run.assign(victim, 16), Err(SetupError::NoClass { class: 16 }));
}

#[test]
fn a_region_that_is_filled_in_is_there_at_once_and_anew() {
    for inclusion in [Inclusion::NonInclusive, Inclusion::Inclusive] {
        let mut machine = machine();
        machine.llc.inclusion = inclusion;
        machine.l2.size_kib = 4;
        let mut setup = Setup::new(&machine, 3).unwrap();
        let locked = setup.region(0, 8 << 10).unwrap();
        let reader = rounds(move |number| {
            vec![
                Op::Load { line: locked.line(number % locked.lines()), dependent: true },
                Op::Units(1),
            ]
        });
        let flusher = rounds(move |number| {
            vec![Op::Store(locked.line(number % locked.lines())), Op::Units(1)]
        });
        let (reader, writer) =
            (setup.program(core(0), 0, reader), setup.program(core(1), 0, flusher));
        let (reader, writer) = (reader.unwrap(), writer.unwrap());
        let mut run = setup.start();
        run.pause(writer);
        run.set_class(1, 0x01, 0.0).unwrap();
        run.set_class(0, 0xfe, 0.0).unwrap();
        run.fill(reader, 1, locked).unwrap();
        assert_eq!(run.occupancy(reader, 1), 128);
        run.until(Ps::from_ns(100_000));
        assert_eq!(run.core_counters(reader).memory_reads, 0, "{inclusion:?}");
        // Others may have its lines, and dirty: it is filled in again all the same.
        run.resume(writer);
        run.until(Ps::from_ns(200_000));
        run.pause(writer);
        run.until(Ps::from_ns(210_000));
        run.fill(reader, 1, locked).unwrap();
        assert_eq!((run.occupancy(reader, 0), run.occupancy(reader, 1)), (0, 128), "{inclusion:?}");
        assert!(run.dirty_lines().is_empty(), "{inclusion:?}");
    }
}

#[test]
fn what_there_is_not_is_refused() {
    let (mut run, ..) = pair(Inclusion::Victim, None);
    assert_eq!(run.set_class(0, 0x100, 0.0), Err(SetupError::EmptyMask { mask: 0x100, ways: 8 }));
    assert_eq!(run.set_class(16, 1, 0.0), Err(SetupError::NoClass { class: 16 }));
}
