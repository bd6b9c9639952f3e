//! Each finding in the smallest trace that has it, beside one that has it not.

use ringfence_persist::Flush;
use ringfence_trace::census::dynamic::Executed;
use ringfence_trace::events::{Action, Event, Place};

use crate::builder::*;

fn total(actions: impl IntoIterator<Item = Action>) -> Executed {
    census(&events(actions.into_iter().map(|action| (1, action)))).total
}

#[test]
fn everything_is_counted_with_its_bytes() {
    let flush = |flush| Action::Flush { flush, at: at(0) };
    let run = census(&events(
        [
            store(0, 4),
            store(4, 60),
            nt(64, 32),
            Action::Load { at: at(0), size: 16 },
            flush(Flush::Clflush),
            flush(Flush::Clflushopt),
            flush(Flush::Clwb),
            SFENCE,
            Action::Mfence,
            locked(128),
            ELSEWHERE,
            Action::Msync { at: at(0), size: 100, began: None },
            Action::Write { at: at(0), bytes: vec![1; 5] },
            Action::Map { at: at(0), address: 1 << 40, size: 4096 },
            Action::Unmap { at: at(0), address: 1 << 40, size: 4096 },
            Action::Truncate { file: 1, size: 9 },
            Action::Output { bytes: vec![1; 5] },
        ]
        .map(|action| (1, action)),
    ));
    let expected = Executed {
        stores: 2,
        nt_stores: 1,
        loads: 1,
        clflush: 1,
        clflushopt: 1,
        clwb: 1,
        sfence: 1,
        mfence: 1,
        locked: 2,
        msync: 1,
        writes: 1,
        stored_bytes: 64,
        nt_bytes: 32,
        locked_bytes: 8,
        written_bytes: 5,
        loaded_bytes: 16,
        // After the first: the line is as it was.
        flushed_again: 2,
        flushed_again_unchanged: 2,
        idle_fences: 1,
        // Lines 0 and half of 1 of the first block.
        blocks: 1,
        partial_blocks: 1,
        ..Executed::default()
    };
    assert_eq!(run.total, expected);
    assert_eq!((run.events, run.threads), (17, 1));
    let sizes: Vec<_> =
        run.sizes.iter().map(|size| (size.up_to, size.stores, size.nt_stores)).collect();
    assert_eq!(sizes, [(4, 1, 0), (32, 0, 1), (64, 1, 0)]);
    assert_eq!(run.most_dirty_lines, 1);
    // Each is at its own place, and the first caller outside of the library is charged with all of
    // it.
    assert_eq!(of(&run, 1), Executed { stores: 1, stored_bytes: 4, ..Executed::default() });
    assert_eq!(run.sites.len(), 17);
    let [caller] = &run.callers[..] else { panic!("{:?}", run.callers) };
    let place = caller.location.as_ref().unwrap();
    assert_eq!((&*place.module, place.address, caller.executed), (PROGRAM, 0x500, expected));
}

#[test]
fn who_has_no_caller_outside_is_charged_itself() {
    let event =
        |sequence, site, callers| Event { sequence, thread: 1, site, callers, action: clwb(0) };
    let run = census(&[event(1, 1, 2), event(2, 2, 9), event(3, 0, 1), event(4, 1, 1)]);
    let charged: Vec<_> = run
        .callers
        .iter()
        .map(|row| (row.location.as_ref().map(|place| place.address), row.executed.clwb))
        .collect();
    assert_eq!(charged, [(None, 1), (Some(1), 1), (Some(2), 1), (Some(0x500), 1)]);
    let sites: Vec<_> = run.sites.iter().map(|row| row.executed.clwb).collect();
    assert_eq!(sites, [2, 1, 1]);
}

#[test]
fn a_flush_is_of_a_clean_line_if_nothing_is_to_be_written_back() {
    let clean = |actions: &[Action]| total(actions.to_vec()).clean_flushes;
    assert_eq!(clean(&[clwb(0)]), 1);
    assert_eq!(clean(&[store(63, 1), clwb(0)]), 0);
    assert_eq!(clean(&[store(64, 1), clwb(0)]), 1);
    assert_eq!(clean(&[store(60, 8), clwb(0), clwb(100)]), 0);
    assert_eq!(clean(&[store(0, 8), clwb(0), SFENCE, clwb(0)]), 1);
    assert_eq!(clean(&[store(0, 8), clwb(0), ELSEWHERE, clwb(0)]), 1);
    // Twice in a row, without a fence, is another matter.
    assert_eq!(clean(&[store(0, 8), clwb(0), clwb(0)]), 0);
    // Non-temporal stores want a fence alone; locked ones are in the cache, and so is what the
    // kernel wrote.
    assert_eq!(clean(&[nt(0, 64), clwb(0)]), 1);
    assert_eq!(clean(&[locked(0), clwb(0)]), 0);
    assert_eq!(clean(&[Action::Write { at: at(0), bytes: vec![1] }, clwb(0)]), 0);
    assert_eq!(
        clean(&[store(4095, 1), Action::Msync { at: at(0), size: 1, began: None }, clwb(4095)]),
        1
    );
    assert_eq!(
        clean(&[store(4096, 1), Action::Msync { at: at(0), size: 1, began: None }, clwb(4096)]),
        0
    );
    assert_eq!(clean(&[store(128, 1), Action::Truncate { file: 1, size: 128 }, clwb(128)]), 1);
    assert_eq!(clean(&[store(128, 1), Action::Truncate { file: 1, size: 129 }, clwb(128)]), 0);
    // Another file's line of that number.
    assert_eq!(
        clean(&[
            store(0, 8),
            Action::Flush { flush: Flush::Clwb, at: Place { file: 2, offset: 0 } }
        ]),
        1
    );
}

#[test]
fn a_line_is_flushed_again_between_two_fences_of_a_thread() {
    let again = |actions: &[(u32, Action)]| {
        let total = census(&events(actions.to_vec())).total;
        (total.flushed_again, total.flushed_again_unchanged, total.clean_flushes)
    };
    let (first, flush) = ((1, store(0, 8)), (1, clwb(0)));
    assert_eq!(again(&[first.clone(), flush.clone(), flush.clone()]), (1, 1, 0));
    assert_eq!(again(&[first.clone(), flush.clone(), first.clone(), flush.clone()]), (1, 0, 0));
    assert_eq!(
        again(&[first.clone(), flush.clone(), (1, SFENCE), first.clone(), flush.clone()]),
        (0, 0, 0)
    );
    // Another thread cannot know whether the first one's fence came.
    assert_eq!(again(&[first.clone(), flush.clone(), (2, clwb(0))]), (0, 0, 0));
    // Its fence is none for the first one, but completes both flushes: the line is clean.
    assert_eq!(
        again(&[first.clone(), flush.clone(), (2, clwb(0)), (2, SFENCE), flush.clone()]),
        (0, 0, 1)
    );
    assert_eq!(again(&[first.clone(), flush.clone(), (2, SFENCE), flush.clone()]), (1, 1, 0));
}

#[test]
fn a_fence_is_idle_if_its_thread_has_sent_nothing() {
    let idle = |actions: &[(u32, Action)]| census(&events(actions.to_vec())).total.idle_fences;
    assert_eq!(idle(&[(1, SFENCE)]), 1);
    assert_eq!(idle(&[(1, Action::Mfence)]), 1);
    // A locked instruction has other purposes.
    assert_eq!(idle(&[(1, ELSEWHERE)]), 0);
    assert_eq!(idle(&[(1, store(0, 8)), (1, SFENCE)]), 1);
    assert_eq!(idle(&[(1, clwb(0)), (1, SFENCE)]), 0);
    assert_eq!(idle(&[(1, nt(0, 8)), (1, SFENCE), (1, SFENCE)]), 1);
    assert_eq!(idle(&[(1, clwb(0)), (1, ELSEWHERE), (1, SFENCE)]), 1);
    assert_eq!(idle(&[(1, clwb(0)), (2, SFENCE)]), 1);
}

#[test]
fn what_is_left_undone_is_charged_to_who_did_the_first_half() {
    let left = |actions: &[(u32, Action)]| {
        let run = census(&events(actions.to_vec()));
        let who: Vec<(u64, u64)> = (1..=actions.len() as u64)
            .map(|n| (of(&run, n).unflushed_lines, of(&run, n).unfenced_lines))
            .collect();
        who
    };
    assert_eq!(left(&[(1, store(0, 8)), (1, store(60, 8))]), [(0, 0), (2, 0)]);
    assert_eq!(left(&[(1, store(0, 8)), (1, clwb(0))]), [(0, 0), (0, 1)]);
    assert_eq!(left(&[(1, store(0, 8)), (1, clwb(0)), (1, SFENCE)]), [(0, 0); 3]);
    assert_eq!(left(&[(1, store(0, 8)), (1, clwb(0)), (2, SFENCE)]), [(0, 0), (0, 1), (0, 0)]);
    assert_eq!(left(&[(1, nt(0, 65))]), [(0, 2)]);
    assert_eq!(left(&[(1, nt(0, 8)), (1, ELSEWHERE)]), [(0, 0); 2]);
    assert_eq!(left(&[(1, locked(0)), (1, SFENCE)]), [(1, 0), (0, 0)]);
    // Stored again after the flush.
    assert_eq!(left(&[(1, store(0, 8)), (1, clwb(0)), (1, store(0, 8))]), [(0, 0), (0, 0), (1, 0)]);
    assert_eq!(left(&[(1, Action::Write { at: at(0), bytes: vec![1] })]), [(0, 0)]);
    assert_eq!(
        left(&[(1, store(0, 8)), (1, Action::Msync { at: at(0), size: 8, began: None })]),
        [(0, 0); 2]
    );
    assert_eq!(left(&[(1, store(0, 8)), (1, Action::Truncate { file: 1, size: 0 })]), [(0, 0); 2]);
    let range = Action::SyncRange { at: at(0), size: 4096 };
    assert_eq!(left(&[(1, store(0, 8)), (1, range)]), [(1, 0), (0, 0)]);
}

#[test]
fn what_is_stored_while_msync_runs_is_not_covered() {
    let msync = |began| Action::Msync { at: at(0), size: 4096, began: Some(began) };
    let left = |actions: &[(u32, Action)]| {
        let run = census(&events(actions.to_vec()));
        let rules: Vec<String> = run.findings.into_iter().map(|finding| finding.rule).collect();
        (run.total.unflushed_lines, run.total.unfenced_lines, rules.join(", "))
    };
    let all = (0, 0, String::new());
    let never = (1, 0, "never durable".to_owned());
    assert_eq!(left(&[(1, store(0, 8)), (1, msync(1))]), all);
    // By another thread, to another line or to the same one.
    assert_eq!(left(&[(1, store(0, 8)), (2, store(64, 8)), (1, msync(1))]), never);
    assert_eq!(left(&[(1, store(0, 8)), (2, store(8, 8)), (1, msync(1))]), never);
    assert_eq!(
        left(&[(1, store(0, 8)), (2, nt(64, 8)), (1, msync(1))]),
        (0, 1, "missing fence".to_owned())
    );
    // The next call covers it.
    assert_eq!(left(&[(1, store(0, 8)), (2, store(64, 8)), (1, msync(1)), (1, msync(3))]), all);
}

#[test]
fn blocks_are_whole_if_all_four_lines_are() {
    let blocks = |actions: &[Action]| {
        let total = total(actions.to_vec());
        (total.blocks, total.partial_blocks)
    };
    let lines = |count| (0..count).flat_map(|line| [store(line * 64, 8), clwb(line * 64)]);
    let fenced = |count| blocks(&lines(count).chain([SFENCE]).collect::<Vec<_>>());
    assert_eq!([fenced(3), fenced(4), fenced(5)], [(1, 1), (1, 0), (2, 1)]);
    // A clean line is not written back; what no fence follows is not counted.
    assert_eq!(blocks(&[clwb(0), SFENCE]), (0, 0));
    assert_eq!(blocks(&lines(4).collect::<Vec<_>>()), (0, 0));
    assert_eq!(blocks(&[nt(0, 256), SFENCE]), (1, 0));
    assert_eq!(blocks(&[nt(0, 255), SFENCE]), (1, 1));
    assert_eq!(blocks(&[nt(0, 255), nt(255, 1), SFENCE]), (1, 0));
    assert_eq!(blocks(&[nt(0, 255), SFENCE, nt(255, 1), SFENCE]), (2, 2));
    assert_eq!(blocks(&[nt(200, 100), SFENCE]), (2, 2));
    // Lines that were stored to in the cache, flushed, with the rest past the caches.
    assert_eq!(blocks(&[nt(64, 192), store(0, 1), clwb(0), ELSEWHERE]), (1, 0));
}

#[test]
fn stores_race_if_neither_thread_ordered_them() {
    let races = |actions: &[(u32, Action)]| {
        let run = census(&events(actions.to_vec()));
        let address =
            |place: &Option<ringfence_trace::events::Location>| place.as_ref().unwrap().address;
        let found =
            run.races.iter().map(|race| (address(&race.first), address(&race.second), race.count));
        found.collect::<Vec<_>>()
    };
    let (one, two) = ((1, store(0, 8)), (2, store(32, 8)));
    assert_eq!(races(&[one.clone(), two.clone()]), [(1, 2, 1)]);
    assert_eq!(races(&[one.clone(), (1, store(8, 8))]), []);
    assert_eq!(races(&[one.clone(), (2, store(64, 8))]), []);
    assert_eq!(races(&[one.clone(), (2, nt(0, 8))]), [(1, 2, 1)]);
    for order in [SFENCE, ELSEWHERE, Action::Msync { at: at(0), size: 0, began: None }] {
        assert_eq!(races(&[one.clone(), (1, order.clone()), two.clone()]), []);
        assert_eq!(races(&[one.clone(), (2, order.clone()), two.clone()]), []);
        assert_eq!(races(&[one.clone(), (3, order.clone()), two.clone()]), [(1, 3, 1)]);
        assert_eq!(races(&[(1, order.clone()), (2, order), one.clone(), two.clone()]), [(3, 4, 1)]);
    }
    assert_eq!(races(&[one.clone(), (2, locked(0))]), []);
    assert_eq!(races(&[(1, locked(0)), two.clone()]), []);
    // Back and forth, one site each: the trace's events have one site each, so every pair is one.
    assert_eq!(races(&[one.clone(), two.clone(), one, two]), [(1, 2, 1), (2, 3, 1), (3, 4, 1)]);
}
