//! What differs between two runs, place by place.

use ringfence_trace::census::dynamic::{AtPlace, Executed, Run, diff};
use ringfence_trace::events::Location;

use crate::builder::*;

fn at(
    run: &Run,
    address: u64,
    function: &str,
    line: u32,
    inlined: Option<&str>,
    executed: Executed,
) -> AtPlace {
    let location = Location {
        function: Some(function.into()),
        offset: address % 16,
        inlined: inlined.map(Into::into),
        file: Some("/build/store.c".into()),
        line: Some(line),
        ..Location::bare(&run.files[0].path, address)
    };
    AtPlace { location: Some(location), executed }
}

#[test]
fn places_are_matched_by_name_and_not_by_address() {
    let mut before = census(&events([(1, store(0, 8)), (1, clwb(0)), (1, clwb(0)), (1, SFENCE)]));
    let mut after =
        census(&events([(1, store(0, 8)), (1, clwb(0)), (1, SFENCE), (2, store(64, 4))]));
    let flushes = |clwb| Executed { clwb, ..Executed::default() };
    let fences = |sfence, idle_fences| Executed { sfence, idle_fences, ..Executed::default() };
    let bytes = |stored_bytes| Executed { stores: 1, stored_bytes, ..Executed::default() };
    before.sites = vec![
        at(&before, 0x1001, "persist", 10, Some("flush"), flushes(2)),
        at(&before, 0x1008, "persist", 10, Some("flush"), flushes(30)),
        at(&before, 0x1010, "persist", 11, None, fences(5, 1)),
        at(&before, 0x1020, "put", 20, None, bytes(8)),
        at(&before, 0x1030, "get", 30, None, flushes(1)),
        AtPlace { location: None, executed: fences(1, 0) },
    ];
    after.sites = vec![
        at(&after, 0x2001, "persist", 10, Some("flush"), flushes(2)),
        at(&after, 0x2010, "persist", 11, None, fences(5, 0)),
        at(&after, 0x2020, "put", 20, None, bytes(64)),
        at(&after, 0x2030, "get", 31, None, flushes(1)),
        AtPlace { location: None, executed: fences(1, 0) },
    ];
    (before.callers, after.callers) = (vec![], vec![]);
    let found = diff(&before, &after);
    let rows: Vec<_> =
        found.sites.iter().map(|one| (one.place.as_str(), one.before, one.after)).collect();
    assert_eq!(
        rows,
        [
            ("flush in persist (store.c:10)", flushes(32), flushes(2)),
            ("persist (store.c:11)", fences(5, 1), fences(5, 0)),
            ("put (store.c:20)", bytes(8), bytes(64)),
        ]
    );
    // What was only moved within a function is no difference.
    let rows: Vec<_> = found.functions.iter().map(|one| one.place.as_str()).collect();
    assert_eq!(rows, ["flush", "persist", "put"]);
    assert!(found.callers.is_empty());
    assert_eq!((found.before.total, found.after.total), (before.total, after.total));
    assert_eq!((found.before.threads, found.after.threads), (1, 2));
    let figure = |executed: &Executed, name| {
        executed.figures().into_iter().find(|(known, _)| *known == name).unwrap().1
    };
    assert_eq!(figure(&found.before.total, "flushed twice"), 1);
    assert_eq!(figure(&found.after.total, "lines not flushed"), 1);
}

#[test]
fn lines_that_moved_are_matched_in_their_order() {
    let one = census(&events([(1, store(0, 8))]));
    let flushes = |clwb| Executed { clwb, ..Executed::default() };
    let run = |lines: &[(u32, u64)]| {
        let site = |(number, (line, clwb)): (u64, &(u32, u64))| {
            at(&one, 0x1000 + number, "put", *line, None, flushes(*clwb))
        };
        Run { sites: (0..).zip(lines).map(site).collect(), callers: vec![], ..one.clone() }
    };
    let found = |before: &[(u32, u64)], after: &[(u32, u64)]| -> Vec<(String, u64, u64)> {
        let places = diff(&run(before), &run(after)).sites;
        places.into_iter().map(|one| (one.place, one.before.clwb, one.after.clwb)).collect()
    };
    let row = |line: u32, before: u64, after: u64| (format!("put (store.c:{line})"), before, after);
    let before = [(10, 3), (11, 5), (12, 5), (20, 7)];
    assert_eq!(found(&before, &[(11, 3), (12, 5), (13, 5), (21, 7)]), []);
    assert_eq!(found(&before, &[(11, 3), (12, 5), (13, 6), (21, 7)]), [row(13, 5, 6)]);
    assert_eq!(found(&before, &[(11, 3), (12, 5), (13, 5), (14, 9), (22, 7)]), [row(14, 0, 9)]);
    assert_eq!(found(&before, &[(10, 3), (12, 5), (20, 7)]), [row(11, 5, 0)]);
    // Names decide where neither order nor counts do.
    assert_eq!(found(&[(10, 3), (11, 5)], &[(10, 4)]), [row(11, 5, 0), row(10, 3, 4)]);
}

#[test]
fn a_run_does_not_differ_from_itself() {
    let run = census(&events([(1, store(0, 8)), (1, clwb(0)), (2, SFENCE), (1, locked(64))]));
    let found = diff(&run, &run);
    assert_eq!((found.functions.len(), found.sites.len(), found.callers.len()), (0, 0, 0));
    assert_eq!(found.before, found.after);
}

// No figure is there twice or left out but those of loads.
#[test]
fn every_figure_has_a_name() {
    let executed = Executed {
        stores: 1,
        nt_stores: 2,
        clflush: 3,
        clflushopt: 4,
        clwb: 5,
        sfence: 6,
        mfence: 7,
        locked: 8,
        msync: 9,
        writes: 10,
        stored_bytes: 11,
        nt_bytes: 12,
        locked_bytes: 13,
        written_bytes: 14,
        clean_flushes: 15,
        flushed_again: 16,
        flushed_again_unchanged: 17,
        idle_fences: 18,
        blocks: 19,
        partial_blocks: 20,
        unflushed_lines: 21,
        unfenced_lines: 22,
        sync_ranges: 23,
        loads: 0,
        loaded_bytes: 0,
    };
    let mut all: Vec<u64> = executed.figures().map(|(_, figure)| figure).into();
    all.sort_unstable();
    assert_eq!(all, (1..=23).collect::<Vec<_>>());
}
