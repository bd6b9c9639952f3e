//! The crash checker's lints over traces: what is found, where, and in which words.

use ringfence_persist::Flush;
use ringfence_trace::events::{Action, Event, Medium, Place};

use crate::builder::*;

fn texts(actions: impl IntoIterator<Item = (u32, Action)>) -> Vec<String> {
    census(&events(actions)).findings.into_iter().map(|finding| finding.text).collect()
}

fn one(actions: impl IntoIterator<Item = Action>) -> Vec<String> {
    texts(actions.into_iter().map(|action| (1, action)))
}

const CALLED: &str = "program+0x500 by library.so";

#[test]
fn each_is_a_sentence_with_the_caller_the_site_and_the_offset() {
    assert_eq!(
        one([store(100, 8)]),
        [format!(
            "{CALLED}+0x1: never durable: the 8 bytes stored at 100 are never flushed, so that a \
             crash may lose \
             them: flush them, then fence"
        )]
    );
    assert_eq!(
        one([store(0, 8), clwb(0)]),
        [format!(
            "{CALLED}+0x2: missing fence: the 8 bytes stored at 0 are flushed, but there is no \
             fence until the end: \
             put an sfence there"
        )]
    );
    assert_eq!(
        one([store(0, 8), clwb(0), clwb(0), SFENCE]),
        [format!(
            "{CALLED}+0x3: redundant flush: the line at 0 is flushed again though nothing was \
             stored to it since \
             the flush at {CALLED}+0x2: leave one of the two out"
        )]
    );
    assert_eq!(one([store(0, 8), clwb(0), SFENCE]), [""; 0]);
    let found = census(&events([(1, store(100, 8))])).findings;
    let [finding] = &found[..] else { panic!("{found:?}") };
    assert_eq!(finding.rule, "never durable");
    assert_eq!((finding.file, finding.offset, finding.size, finding.count), (Some(1), 100, 8, 1));
    assert_eq!(finding.location.as_ref().unwrap().address, 1);
    assert_eq!(finding.caller.as_ref().unwrap().address, 0x500);
}

#[test]
fn stores_of_any_size_at_any_offset_are_one() {
    for (offset, size) in [(0, 1), (3, 2), (5, 8), (7, 200), (64, 64)] {
        for action in
            [store(offset, size), Action::Locked { stores: Some((at(offset), vec![1; size])) }]
        {
            let found = census(&events([(1, action)])).findings;
            let sizes: u64 = found.iter().map(|finding| finding.size).sum();
            assert_eq!(found[0].offset, offset, "{found:?}");
            assert!(found.len() == 1 && (sizes == size as u64 || found[0].count > 1), "{found:?}");
        }
        let flushes = (0..4).map(|line| clwb(line * 64));
        let actions: Vec<Action> =
            [store(offset, size)].into_iter().chain(flushes).chain([SFENCE]).collect();
        let clean = one(actions).len() as u64;
        let touched = (offset + size as u64).div_ceil(64) - offset / 64;
        assert_eq!(clean, 4 - touched, "{size} at {offset}");
    }
}

#[test]
fn each_file_is_memory_of_its_own() {
    let other = |offset| Place { file: 2, offset };
    let actions = [
        Action::Store { at: other(1 << 12), bytes: vec![1; 8] },
        store(1 << 12, 8),
        clwb(1 << 12),
        SFENCE,
    ];
    assert_eq!(
        one(actions),
        [format!(
            "{CALLED}+0x1: never durable: the 8 bytes stored at 4096 (of /mnt/2) are never \
             flushed, so that a crash \
             may lose them: flush them, then fence"
        )]
    );
}

#[test]
fn what_the_kernel_did_is_nobodys_fault() {
    let write = Action::Write { at: at(0), bytes: vec![1; 100] };
    assert_eq!(one([write.clone()]), [""; 0]);
    // It is to be flushed as any other.
    assert_eq!(one([write, clwb(0), SFENCE]), [""; 0]);
    assert_eq!(one([store(0, 8), Action::Msync { at: at(0), size: 8, began: None }]), [""; 0]);
    assert_eq!(one([store(0, 8), Action::Truncate { file: 1, size: 0 }]), [""; 0]);
    assert_eq!(one([store(0, 8), clwb(0), Action::Truncate { file: 1, size: 0 }, SFENCE]), [""; 0]);
    let after =
        one([store(0, 8), Action::Msync { at: at(0), size: 8, began: None }, clwb(0), SFENCE]);
    assert!(after.len() == 1 && after[0].contains("flush of a clean line"), "{after:?}");
}

#[test]
fn every_instruction_is_as_the_checker_has_it() {
    let flush = |flush| Action::Flush { flush, at: at(0) };
    for instruction in Flush::ALL {
        assert_eq!(one([store(0, 8), flush(instruction), SFENCE]), [""; 0]);
    }
    assert_eq!(one([nt(0, 8), Action::Mfence]), [""; 0]);
    assert_eq!(one([nt(0, 8), ELSEWHERE]), [""; 0]);
    assert_eq!(one([Action::Load { at: at(0), size: 8 }]), [""; 0]);
    let idle = one([store(0, 8), clwb(0), SFENCE, SFENCE]);
    assert!(idle.len() == 1 && idle[0].contains("waits for nothing"), "{idle:?}");
}

#[test]
fn with_several_threads_no_fence_is_called_needless() {
    let actions = |second| [(1, store(0, 8)), (1, clwb(0)), (second, SFENCE), (1, SFENCE)];
    assert_eq!(texts(actions(1)).len(), 1);
    assert_eq!(texts(actions(2)), [""; 0]);
}

fn texts_on(
    medium: Option<Medium>,
    loads: bool,
    actions: impl IntoIterator<Item = Action>,
) -> Vec<String> {
    let events = events(actions.into_iter().map(|action| (1, action)));
    census_on(medium, loads, &events).findings.into_iter().map(|finding| finding.text).collect()
}

// Non-temporal stores to other memory are not recorded.
#[test]
fn a_fence_may_complete_what_was_not_recorded() {
    let clflush = Action::Flush { flush: Flush::Clflush, at: at(0) };
    let found = one([store(0, 1), clflush, SFENCE, SFENCE]);
    let [text] = &found[..] else { panic!("{found:?}") };
    assert!(text.contains("waits for nothing in the recorded files"), "{text}");
    assert!(text.contains("leave it out only if it completes nothing else"), "{text}");
}

#[test]
fn a_flush_may_be_meant_to_drop_its_line_from_the_caches() {
    let flush = |flush| Action::Flush { flush, at: at(0) };
    let load = |offset| Action::Load { at: at(offset), size: 8 };
    let one = |loads, actions: &[Action]| {
        let found = texts_on(Some(Medium::Dax), loads, actions.to_vec());
        let [text] = &found[..] else { panic!("{found:?}") };
        text.clone()
    };
    let drops = "(not if it is meant to drop the line from the caches";
    for flush in [flush(Flush::Clflush), flush(Flush::Clflushopt)] {
        let unknown = one(false, &[flush.clone(), SFENCE]);
        assert!(unknown.contains(&format!("leave the flush out {drops})")), "{unknown}");
        let loaded = one(true, &[flush.clone(), SFENCE, load(60)]);
        assert!(loaded.contains(&format!("{drops}: a load of the line followed)")), "{loaded}");
        for events in [vec![flush.clone(), SFENCE], vec![load(0), flush.clone(), SFENCE, load(64)]]
        {
            let text = one(true, &events);
            assert!(text.contains("leave the flush out, or flush what was meant"), "{text}");
        }
        // Whichever of the two it is.
        let again = one(true, &[store(0, 8), flush, clwb(0), SFENCE, load(0)]);
        assert!(again.contains("flushed again") && again.contains(drops), "{again}");
    }
    let written_back = one(false, &[clwb(0), SFENCE]);
    assert!(!written_back.contains(drops), "{written_back}");
}

#[test]
fn what_makes_a_store_durable_depends_on_the_medium() {
    for (actions, instructions) in [
        (vec![store(0, 8)], "flush them, then fence"),
        (vec![store(0, 8), clwb(0)], "put an sfence there"),
        (vec![nt(0, 8)], "put an sfence there"),
    ] {
        for (medium, part) in [
            (Some(Medium::Dax), format!(": {instructions}")),
            (
                Some(Medium::PageCache),
                format!(
                    ": msync them, as flushes do not make a file in the page cache durable (if it \
                     stands in for \
                     persistent memory: {instructions})"
                ),
            ),
            (
                Some(Medium::Memory),
                format!(
                    ": nothing makes them durable on a file system in memory (if it stands in for \
                     persistent \
                     memory: {instructions})"
                ),
            ),
            (None, format!(": {instructions} (if the file is in the page cache: msync them)")),
        ] {
            let found = texts_on(medium, false, actions.clone());
            let [text] = &found[..] else { panic!("{found:?}") };
            assert!(text.ends_with(&part), "{medium:?}: {text}");
        }
    }
}

#[test]
fn what_msync_wrote_is_no_part_of_a_block() {
    let msync = |offset| Action::Msync { at: at(offset), size: 4096, began: None };
    let partial = |actions: &[Action]| -> Vec<(u64, u64)> {
        let found = census(&events(actions.iter().cloned().map(|action| (1, action)))).findings;
        let partial = found.iter().filter(|finding| finding.rule == "partial block");
        partial.map(|finding| (finding.offset, finding.size)).collect()
    };
    assert_eq!(partial(&[nt(64, 256), SFENCE]), [(64, 256)]);
    assert_eq!(partial(&[nt(64, 256), msync(0), SFENCE]), []);
    assert_eq!(partial(&[store(64, 256), msync(0)]), []);
    // What came after it, and what lies on other pages.
    assert_eq!(partial(&[msync(0), store(64, 256)]), [(64, 256)]);
    assert_eq!(partial(&[store(4000, 400), msync(0)]), [(4096, 304)]);
    assert_eq!(partial(&[store(3000, 1196), msync(4096)]), [(3000, 1096)]);
}

#[test]
fn stores_that_are_rarely_flushed_before_they_are_stored_over_are_found() {
    let event = |sequence, site, action| Event { sequence, thread: 1, site, callers: 1, action };
    let rare = |actions: &[Action]| -> Vec<(u64, String)> {
        // All stores are at one site.
        let site = |action: &Action| if matches!(action, Action::Store { .. }) { 1 } else { 2 };
        let all: Vec<Event> = (1..)
            .zip(actions)
            .map(|(number, action)| event(number, site(action), action.clone()))
            .collect();
        let found =
            census(&all).findings.into_iter().filter(|finding| finding.rule == "rarely flushed");
        found.map(|finding| (finding.count, finding.text)).collect()
    };
    let counts =
        |actions: &[Action]| rare(actions).into_iter().map(|(count, _)| count).collect::<Vec<_>>();
    let many = |count: usize, then: &[Action]| [&vec![store(0, 8); count][..], then].concat();
    // 1 of 20 is 5 %.
    assert_eq!(counts(&many(20, &[clwb(0), SFENCE])), [19]);
    assert_eq!(counts(&many(19, &[clwb(0), SFENCE])), [0; 0]);
    assert_eq!(counts(&many(20, &[Action::Msync { at: at(0), size: 4096, began: None }])), [19]);
    // What was stored when it had begun it need not cover.
    let late = Action::Msync { at: at(0), size: 4096, began: Some(19) };
    assert_eq!(counts(&many(20, &[late, store(0, 8), clwb(0), SFENCE])), [20]);
    // What is left dirty at the end is never durable, which says more.
    assert_eq!(counts(&many(20, &[])), [0; 0]);
    assert_eq!(counts(&[store(0, 8), nt(0, 8), SFENCE]), [1]);
    assert_eq!(counts(&[store(0, 8), nt(0, 7), clwb(0), SFENCE]), [0; 0]);
    assert_eq!(counts(&[store(0, 8), Action::Truncate { file: 1, size: 0 }]), [0; 0]);
    let found = rare(&many(20, &[clwb(0), SFENCE]));
    assert_eq!(
        found[0].1,
        format!(
            "{CALLED}+0x1: rarely flushed: 19 of 20 stores were not flushed before they were \
             overwritten, first at 0: if the data must last, flush it, then fence"
        )
    );
}

// The C library begins programs and threads, and calls back.
#[test]
fn what_the_program_does_by_itself_is_not_charged_to_what_started_it() {
    let libc = "/usr/lib/x86_64-linux-gnu/libc.so.6";
    let event =
        |sequence, site, callers| Event { sequence, thread: 1, site, callers, action: clwb(0) };
    let sites = [(PROGRAM, 0x10), (LIBRARY, 0x20), (libc, 0x30)];
    let callers: [&[(&str, u64)]; 2] =
        [&[(PROGRAM, 0x101), (libc, 0x201)], &[(libc, 0x201), (LIBRARY, 0x301), (PROGRAM, 0x401)]];
    let run = census_called(
        &sites,
        &callers,
        &[event(1, 1, 1), event(2, 1, 2), event(3, 2, 2), event(4, 3, 2)],
    );
    let mut charged: Vec<(&str, u64, u64)> = run
        .callers
        .iter()
        .map(|row| (row.location.as_ref().unwrap(), row.executed.clwb))
        .map(|(place, clwb)| (&*place.module, place.address, clwb))
        .collect();
    charged.sort_unstable();
    // The program's site is its own, or was called by the library; the library's was called by the
    // program.
    assert_eq!(charged, [(LIBRARY, 0x300, 2), (PROGRAM, 0x10, 1), (PROGRAM, 0x400, 1)]);
}

#[test]
fn overlapping_stores_of_one_copy_are_one() {
    let libc = "/usr/lib/x86_64-linux-gnu/libc.so.6";
    let callers: [&[(&str, u64)]; 2] = [&[(PROGRAM, 0x101)], &[(PROGRAM, 0x201)]];
    let lost = |module, all: &[(u32, u64, usize)]| {
        let sites: Vec<_> = (1..=all.len() as u64).map(|address| (module, address)).collect();
        let event = |(number, (callers, offset, size)): (u32, &(u32, u64, usize))| Event {
            sequence: number.into(),
            thread: 1,
            site: number,
            callers: *callers,
            action: store(*offset, *size),
        };
        let found = census_called(&sites, &callers, &(1..).zip(all).map(event).collect::<Vec<_>>())
            .findings;
        let mut lost: Vec<(u64, u64)> =
            found.iter().map(|finding| (finding.offset, finding.size)).collect();
        lost.sort_unstable();
        lost
    };
    // 100 bytes by four stores of 32, the last of which begins where it has to.
    let copy = [(1, 0, 32), (1, 32, 32), (1, 64, 32), (1, 68, 32)];
    assert_eq!(lost(libc, &copy), [(0, 100)]);
    // Of another call, and elsewhere.
    assert_eq!(lost(libc, &[(1, 0, 32), (2, 32, 32)]), [(0, 32), (32, 32)]);
    assert_eq!(lost(libc, &[(1, 0, 32), (1, 64, 32)]), [(0, 32), (64, 32)]);
    assert_eq!(lost(LIBRARY, &[(1, 0, 32), (1, 32, 32)]), [(0, 32), (32, 32)]);
}

// A recorder gives an instruction a number in each process.
#[test]
fn an_instruction_with_several_numbers_is_one() {
    let event =
        |sequence, site, callers, action| Event { sequence, thread: 1, site, callers, action };
    let run = census_of_sites(
        &[7, 7, 8],
        &[
            event(1, 1, 1, clwb(0)),
            event(2, 2, 1, clwb(64)),
            event(3, 3, 1, store(128, 8)),
            event(4, 2, 2, store(192, 8)),
        ],
    );
    let rows: Vec<_> = run
        .sites
        .iter()
        .map(|row| (row.location.as_ref().unwrap().address, row.executed.clwb))
        .collect();
    assert_eq!(rows, [(7, 2), (8, 0)]);
    let clean: Vec<u64> = run
        .findings
        .iter()
        .filter(|finding| finding.rule == "flush of a clean line")
        .map(|one| one.count)
        .collect();
    assert_eq!(clean, [2]);
}

#[test]
fn findings_of_one_caller_are_one() {
    let event = |sequence, callers, action| Event { sequence, thread: 1, site: 1, callers, action };
    let run = census(&[event(1, 1, clwb(0)), event(2, 1, clwb(64)), event(3, 9, clwb(128))]);
    let found: Vec<(u64, bool)> =
        run.findings.iter().map(|finding| (finding.count, finding.caller.is_some())).collect();
    assert_eq!(found, [(2, true), (1, false)]);
    assert!(run.findings[0].text.ends_with("(2 times)"), "{:?}", run.findings);
    assert!(run.findings[1].text.starts_with("library.so+0x1: "), "{:?}", run.findings);
}
