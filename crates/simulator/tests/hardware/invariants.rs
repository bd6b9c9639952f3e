//! What holds whatever programs do: random ones, on a machine small enough that everything is
//! always in the way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::support::{machine, mix, rounds};
use proptest::prelude::*;
use ringfence_persist::Flush;
use ringfence_simulator::hardware::machine::{
    AfterClwb, Inclusion, Machine, Prefetcher, Replacement,
};
use ringfence_simulator::hardware::{HardwareThread, Line, Op, Ps, Record, Run, Setup, Thread};

/// What one thread does: operations as numbers, so that proptest can make them smaller.
#[derive(Debug, Clone)]
struct Task {
    core: u32,
    sibling: u32,
    ops: Vec<(u8, u16)>,
}

#[derive(Debug, Clone)]
struct Scene {
    inclusion: Inclusion,
    clwb: AfterClwb,
    replacement: Replacement,
    ordered: bool,
    past_fences: u32,
    flush_gap_ns: f64,
    nt_ns: f64,
    flush_buffers: Option<u32>,
    prefetcher: Option<Prefetcher>,
    masks: [u32; 2],
    /// The same in the second level.
    second: [u32; 2],
    node: usize,
    /// Each thread has memory of its own, or all use the same.
    shared: bool,
    tasks: Vec<Task>,
}

/// Lines of a region: more than the last level has.
const LINES: u16 = 2048;

fn scene(most_tasks: usize) -> impl Strategy<Value = Scene> {
    let op = (0_u8..20, prop_oneof![0..24_u16, 0..LINES]);
    let task = (0_u32..5, 0_u32..2, prop::collection::vec(op, 1..120));
    let task = task.prop_map(|(core, sibling, ops)| Task { core, sibling, ops });
    (
        prop::sample::select(vec![
            Inclusion::Victim,
            Inclusion::NonInclusive,
            Inclusion::Inclusive,
        ]),
        prop::sample::select(vec![AfterClwb::Kept, AfterClwb::Invalidated, AfterClwb::MovedToLlc]),
        prop::sample::select(vec![Replacement::Lru, Replacement::TreePlru, Replacement::Drrip]),
        (
            any::<bool>(),
            0_u32..4,
            prop::sample::select(vec![0.0, 44.0]),
            prop::sample::select(vec![0.0, 90.0]),
            prop::sample::select(vec![None, Some(2), Some(62)]),
            prop::sample::select(vec![
                None,
                Some(Prefetcher { steps: 2, distance: 20, lines: 3, lines_for_stores: Some(2) }),
            ]),
        ),
        ([1_u32..256, 1_u32..256], [1_u32..256, 1_u32..256]),
        0_usize..2,
        any::<bool>(),
        prop::collection::vec(task, 1..=most_tasks),
    )
        .prop_map(|(inclusion, clwb, replacement, core, masks, node, shared, tasks)| {
            let (masks, second) = masks;
            let (ordered, past_fences, flush_gap_ns, nt_ns, flush_buffers, prefetcher) = core;
            Scene {
                inclusion,
                clwb,
                replacement,
                ordered,
                past_fences,
                flush_gap_ns,
                nt_ns,
                flush_buffers,
                prefetcher,
                masks,
                second,
                node,
                shared,
                tasks,
            }
        })
}

impl Scene {
    fn machine(&self) -> Machine {
        let mut machine = machine();
        machine.llc.inclusion = self.inclusion;
        machine.core.clwb = self.clwb;
        machine.core.clflush_ordered = self.ordered;
        machine.core.rfo_past_fences = self.past_fences;
        machine.core.flush_gap_ns = self.flush_gap_ns;
        machine.core.store_after_flush_ns = self.flush_gap_ns;
        machine.core.nt_gap_ns = Some(self.flush_gap_ns);
        machine.uncore.clwb_ns = Some(self.flush_gap_ns);
        machine.core.flush_buffers = self.flush_buffers;
        machine.uncore.nt_ns = self.nt_ns;
        machine.prefetcher = self.prefetcher.clone();
        for replacement in
            [&mut machine.l1.replacement, &mut machine.l2.replacement, &mut machine.llc.replacement]
        {
            *replacement = self.replacement;
        }
        machine.l1.size_kib = 1;
        machine.l2.size_kib = 2;
        machine.llc.size_kib = 8;
        machine
    }

    /// Each task's operations once, or forever.
    fn start(&self, forever: bool) -> (Run, Vec<Thread>) {
        let (mut run, all) = self.start_without_masks(forever);
        run.set_class(0, self.masks[0], 0.0).unwrap();
        run.set_class(1, self.masks[1], 3.0).unwrap();
        (0..2).for_each(|class| run.set_second(class, self.second[class]).unwrap());
        (run, all)
    }

    fn start_without_masks(&self, forever: bool) -> (Run, Vec<Thread>) {
        let mut setup = Setup::new(&self.machine(), 7).unwrap();
        let mut all = Vec::new();
        let mut used = BTreeSet::new();
        let mut region = None;
        for (number, task) in self.tasks.iter().enumerate() {
            let thread = HardwareThread { core: task.core, sibling: task.sibling };
            if !used.insert((task.core, task.sibling)) {
                continue;
            }
            let mine = region.filter(|_| self.shared).unwrap_or_else(|| {
                setup.region((self.node + number) % 2, u64::from(LINES) * 64).unwrap()
            });
            region = Some(mine);
            let ops = task.ops.clone();
            let mut at = 0;
            let program = rounds(move |round| {
                let Some((kind, index)) = ops.get(at).copied() else {
                    at = 0;
                    return vec![if forever { Op::Units(1) } else { Op::End }];
                };
                at += 1;
                // Another round takes other lines.
                let index =
                    (mix(u64::from(round / 50)) as u32 ^ u32::from(index)) % u32::from(LINES);
                vec![op(kind, mine.line(index)), Op::Units(1)]
            });
            all.push(setup.program(thread, number % 2, program).unwrap());
        }
        (setup.start(), all)
    }
}

fn op(kind: u8, line: Line) -> Op {
    match kind {
        0..5 => Op::Store(line),
        5 => Op::Load { line, dependent: true },
        6..9 => Op::Load { line, dependent: false },
        9 => Op::Flush { kind: Flush::Clflush, line },
        10 => Op::Flush { kind: Flush::Clflushopt, line },
        11..14 => Op::Flush { kind: Flush::Clwb, line },
        14 => Op::NtStore { line, bytes: 64 },
        15 => Op::NtStore { line, bytes: 8 },
        16 => Op::Sfence,
        17 => Op::Mfence,
        18 => Op::Locked(line),
        _ => Op::Compute(Ps(700)),
    }
}

// Everything has ended, and nothing is under way.
fn finish(run: &mut Run, threads: &[Thread]) {
    run.until(Ps::from_ns(10_000_000));
    assert!(threads.iter().all(|thread| run.ended(*thread)), "somebody waits for ever");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    // Every turn of a line from clean to dirty is answered by exactly one write-back, or the line
    // is still dirty.
    #[test]
    fn no_line_is_lost_or_written_back_twice(scene in scene(6)) {
        let (mut run, threads) = scene.start(false);
        run.record();
        finish(&mut run, &threads);
        let (mut dirty, mut past) = (BTreeSet::new(), BTreeSet::new());
        let mut under_way = BTreeMap::<Line, VecDeque<Ps>>::new();
        for record in run.take_records() {
            match record {
                Record::Stored { line, .. } => {
                    dirty.insert(line);
                }
                // Bytes that a buffer collects leave once, with it.
                Record::NtStored { line, thread, .. } => {
                    past.insert((line, thread));
                }
                Record::Left { line, thread, at } => {
                    let dirty = dirty.remove(&line);
                    // What caches have of the line goes with the buffer.
                    let collected = thread.map(|thread| past.remove(&(line, thread)));
                    prop_assert!(collected.unwrap_or(dirty), "{line:?} left clean at {at}");
                    under_way.entry(line).or_default().push_back(at);
                }
                Record::Accepted { line, at } => {
                    let left = under_way.get_mut(&line).and_then(VecDeque::pop_front);
                    prop_assert!(left.is_some_and(|left| left < at), "{line:?} accepted at {at}");
                }
                Record::Flushed { .. } | Record::Fenced { .. } => {}
            }
        }
        prop_assert!(under_way.values().all(VecDeque::is_empty), "a write was never accepted");
        prop_assert_eq!(run.dirty_lines(), dirty);
    }

    // What was flushed before a fence has been accepted when the fence is through, and time does
    // not run backwards.
    #[test]
    fn a_fence_means_that_what_was_flushed_is_durable(mut scene in scene(1)) {
        scene.shared = false;
        let (mut run, threads) = scene.start(false);
        run.record();
        finish(&mut run, &threads);
        let records = run.take_records();
        let mut accepted = BTreeMap::<Line, Vec<Ps>>::new();
        for record in &records {
            if let Record::Accepted { line, at } = record {
                accepted.entry(*line).or_default().push(*at);
            }
        }
        // The newest store to each line that a flush came behind.
        let (mut stored, mut pending) = (BTreeMap::new(), BTreeMap::new());
        let mut now = Ps::ZERO;
        for record in records {
            match record {
                Record::Stored { line, at, .. } => {
                    prop_assert!(now <= at);
                    now = at;
                    stored.insert(line, at);
                }
                Record::NtStored { line, at, .. } => {
                    prop_assert!(now <= at);
                    now = at;
                    pending.insert(line, at);
                }
                Record::Flushed { line, at, .. } => {
                    prop_assert!(now <= at);
                    now = at;
                    if let Some(since) = stored.get(&line) {
                        pending.insert(line, *since);
                    }
                }
                Record::Fenced { at, .. } => {
                    prop_assert!(now <= at);
                    now = at;
                    for (line, since) in std::mem::take(&mut pending) {
                        let done = accepted
                            .get(&line)
                            .is_some_and(|all| all.iter().any(|t| since < *t && *t < at));
                        prop_assert!(done, "{line:?}, stored at {since}, behind the fence of {at}");
                    }
                }
                _ => {}
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_whatever_the_windows(
        scene in scene(6),
        cuts in prop::collection::vec(1_u64..9_000_000, 0..20),
    ) {
        let figures = |cuts: &[u64]| {
            let (mut run, threads) = scene.start(true);
            let mut moment = 0;
            let mut units = vec![0; threads.len()];
            for cut in cuts {
                moment = (moment + cut).min(20_000_000);
                run.until(Ps(moment));
                prop_assert!(run.now() == Ps(moment));
                // Reading out changes nothing.
                run.channel_counters(0);
                for (before, thread) in units.iter_mut().zip(&threads) {
                    prop_assert!(*before <= run.units(*thread), "work is never undone");
                    *before = run.units(*thread);
                }
            }
            run.until(Ps(20_000_000));
            let units: Vec<u64> = threads.iter().map(|thread| run.units(*thread)).collect();
            let cores: Vec<_> = threads.iter().map(|thread| run.core_counters(*thread)).collect();
            Ok((units, cores, run.channel_counters(0), run.channel_counters(1), run.dirty_lines()))
        };
        prop_assert_eq!(figures(&cuts)?, figures(&[])?);
    }

    #[test]
    fn no_channel_carries_more_than_its_limit_in_any_window(
        scene in scene(6),
        window in 5_000_u64..2_000_000,
    ) {
        let (mut run, threads) = scene.start(true);
        let mut before = [run.channel_counters(0)[0], run.channel_counters(1)[0]];
        for number in 1..20 {
            run.until(Ps(number * window));
            for (node, before) in before.iter_mut().enumerate() {
                let now = run.channel_counters(node)[0];
                // 5 ns a line; one may have been under way when the window began, and be counted
                // whole.
                let lines = (now - *before).bytes() / 64;
                prop_assert!(lines * 5_000 <= window + 5_000, "{lines} lines in {window} ps");
                // 100 ns a block, and the buffers are not media.
                let blocks = (now - *before).blocks_written;
                prop_assert!(blocks * 100_000 <= window + 200_000 + 100_000 * 64, "{blocks} blocks \
                    in {window} ps");
                *before = now;
            }
        }
        run.until(Ps(60_000_000));
        prop_assert!(threads.iter().any(|thread| run.units(*thread) > 0));
    }

    #[test]
    fn full_masks_are_as_none(scene in scene(6)) {
        let figures = |masks: bool| {
            let (mut run, threads) = scene.start_without_masks(true);
            if masks {
                for class in 0..2 {
                    run.set_class(class, 0xff, 0.0).unwrap();
                    run.set_second(class, 0xff).unwrap();
                }
            }
            run.until(Ps(20_000_000));
            let units: Vec<u64> = threads.iter().map(|thread| run.units(*thread)).collect();
            let cores: Vec<_> = threads.iter().map(|thread| run.core_counters(*thread)).collect();
            (units, cores, run.channel_counters(0), run.channel_counters(1), run.dirty_lines())
        };
        prop_assert_eq!(figures(true), figures(false));
    }

    // Lines by class are the lines there are.
    #[test]
    fn occupancy_adds_up(scene in scene(6)) {
        let (mut run, threads) = scene.start(true);
        run.until(Ps::from_ns(30_000));
        let whole = 8 * 16;
        let sum = run.occupancy(threads[0], 0) + run.occupancy(threads[0], 1);
        prop_assert!(sum <= whole);
        // A class whose mask is one way has at most an eighth, unless the other class's lines
        // moved: they do not.
        for class in 0..2 {
            let ways = u64::from(scene.masks[class].count_ones());
            prop_assert!(run.occupancy(threads[0], class) <= whole / 8 * ways);
            let ways = u64::from(scene.second[class].count_ones());
            for thread in &threads {
                prop_assert!(run.second_occupancy(*thread, class) <= 2 * 16 / 8 * ways);
            }
        }
    }
}
