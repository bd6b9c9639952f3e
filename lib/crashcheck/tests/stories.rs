//! What a person reads of a violation: short enough for a terminal, and never without a direction
//! to look in.

use ringfence_crashcheck::{Check, Machine, Profile};
use ringfence_persist::Memory;

fn put(m: &Machine, at: usize, value: u64) {
    m.store_u64(at, value);
    m.flush(at..at + 8);
    m.sfence();
}

fn told(
    check: &Check,
    program: impl Fn(&Machine),
    recovery: impl Fn(&Machine) -> Result<(), String>,
) -> String {
    let report = check.run(program, recovery);
    assert!(report.violation.is_some(), "{report}");
    report.to_string()
}

fn holds(right: bool) -> Result<(), String> {
    if right { Ok(()) } else { Err("wrong".into()) }
}

#[test]
fn what_no_flush_or_fence_closes_is_said_to_be_so() {
    let check = Check::new(Profile::IntelAdr, 1024);
    let torn = told(
        &check,
        |m| {
            m.store(0, &[7; 16]);
            m.flush(0..16);
            m.sfence();
        },
        |m| holds(m.load_u64(0) == m.load_u64(8)),
    );
    assert!(
        torn.contains("No single flush or fence closes it") && torn.contains("is torn"),
        "{torn}"
    );
    let order = told(
        &check,
        |m| {
            put(m, 0, 1);
            put(m, 64, 1);
        },
        |m| holds(m.load_u64(0) == 0 || m.load_u64(64) == 1),
    );
    assert!(order.contains("No store was lost: stopping there is enough"), "{order}");
    let killed = told(
        &check.clone().crashes(2).kills(),
        |m| put(m, 0, 1),
        |m| {
            let found = m.load_u64(0);
            holds(m.marks().is_empty() || found == 1)?;
            if found == 1 {
                m.acknowledge(1);
            }
            Ok(())
        },
    );
    assert!(killed.contains("let recovery flush what it read"), "{killed}");
    assert!(
        killed.contains("the process is killed: what it stored is still there, in caches"),
        "{killed}"
    );
    let fixed = told(
        &check,
        |m| {
            m.store_u64(0, 1);
            put(m, 64, 1);
        },
        |m| holds(m.load_u64(64) == 0 || m.load_u64(0) == 1),
    );
    assert!(fixed.contains("The fix: ") && !fixed.contains("No single"), "{fixed}");
}

#[test]
fn a_long_story_is_told_in_part_and_says_so() {
    let check = Check::new(Profile::IntelAdr, 8192).array(0, 64, 100, "node", &[(0..8, "next")]);
    let story = told(
        &check,
        |m| {
            (0..98).for_each(|node| m.store_u64(64 * node, node as u64 + 1));
            m.flush(0..64 * 100);
            put(m, 64 * 98, 1);
        },
        |m| holds(m.load_u64(64 * 98) == 0),
    );
    assert!(story.lines().count() < 90, "{story}");
    assert!(story.contains("lines left out") && story.contains("node[98].next = 1"), "{story}");
    assert!(story.contains("100 lines from 0 on (node[0].next ... node[99].next)"), "{story}");
}

#[test]
fn a_recovery_that_goes_round_in_circles_is_told_in_few_lines() {
    let story = told(
        &Check::new(Profile::Eadr, 1024),
        |m| {
            m.store_u64(64, 128);
            m.store_u64(128, 64);
        },
        |m| {
            let mut at = 64;
            while at != 0 {
                at = m.load_u64(at) as usize;
            }
            Ok(())
        },
    );
    assert!(story.lines().count() < 100 && story.contains("lines left out"), "{story}");
}

#[test]
fn what_is_alike_is_one_line_and_an_odd_word_shows() {
    let story = told(
        &Check::new(Profile::IntelAdr, 1024).array(0, 8, 8, "state", &[(0..8, "")]),
        |m| {
            m.store(128, &[7; 128]);
            m.flush(128..256);
            put(m, 512, 1);
        },
        |m| {
            (0..8).for_each(|slot| _ = m.load_u64(8 * slot));
            let mut found = [0; 128];
            m.load(128, &mut found);
            holds(m.load_u64(512) == 0 || found == [7; 128])
        },
    );
    assert!(story.contains("state[0] ... state[7] = 0 (8 alike)"), "{story}");
    assert!(story.contains("15 x 0707070707070707 0000000000000000"), "{story}");
    // A terminal of 100 columns holds it, the sentences aside.
    let columns =
        story.lines().filter(|line| line.starts_with("  ")).map(|line| line.chars().count());
    assert!(columns.max() <= Some(100), "{story}");
}

#[test]
fn one_finding_at_many_places_is_told_in_full_three_times() {
    let report = Check::new(Profile::Eadr, 1024).run(
        |m| {
            m.flush(0..8);
            m.flush(64..72);
            m.flush(128..136);
            m.flush(192..200);
            m.flush(256..264);
            m.flush(320..328);
        },
        |_| Ok(()),
    );
    let text = report.to_string();
    assert_eq!(text.matches("leave flushes out there").count(), 3, "{text}");
    assert!(text.contains("at 3 more places: "), "{text}");
    assert_eq!(report.lints.len(), 6);
}

#[test]
#[should_panic(expected = "The limit of states was met")]
fn a_search_that_is_cut_short_is_not_sound() {
    Check::new(Profile::IntelAdr, 1024)
        .most_states(3)
        .run(
            |m| (0..8).for_each(|line| m.store_u64(64 * line, 1)),
            |m| {
                (0..8).for_each(|line| _ = m.load_u64(64 * line));
                Ok(())
            },
        )
        .expect_sound();
}
