//! What closes a violation leaves nothing undone, and says where a change of recovery would do.

use ringfence_crashcheck::{Check, Machine, Profile, Report, Rule};
use ringfence_persist::Memory;

// A node of a skip list: the key at the end of a line, and the tower of pointers on the next.
const KEY: usize = 120;
const TOWER: usize = 128;

// Links one node whose key is flushed and whose tower is not; `places` names the pointers' stores.
fn insert(memory: &Machine) {
    memory.store_u64(KEY, 7);
    memory.store_u64(TOWER, 10);
    memory.store_u64(TOWER + 8, 20);
    memory.flush(KEY..KEY + 8);
    memory.sfence();
    memory.store_u64(0, TOWER as u64);
    memory.flush(0..8);
    memory.sfence();
    memory.acknowledge(1);
}

// The upper level is for speed alone: nothing that is looked up needs it.
fn look_up(memory: &Machine) -> Result<(), String> {
    let node = memory.load_u64(0) as usize;
    let (key, next) =
        if node == 0 { (7, 10) } else { (memory.load_u64(KEY), memory.load_u64(node)) };
    if (key, next) == (7, 10) { Ok(()) } else { Err(format!("key {key}, next {next}")) }
}

#[test]
fn a_fix_leaves_no_store_behind_that_is_never_durable() {
    for profile in [Profile::IntelAdr, Profile::Amd, Profile::OldAmd] {
        let report = Check::new(profile, 256).run(insert, look_up);
        let violation = report.violation.as_ref().expect("a tower that is never flushed");
        let fix = violation.fix.unwrap_or_else(|| panic!("{report}"));
        assert!(violation.left.is_empty(), "{report}");
        // The program with the fix, by hand: everything of the node is durable when it is
        // acknowledged.
        let lines: Vec<u32> = fix.places().map(|place| place.line()).collect();
        assert!(lines.iter().all(|line| (14..22).contains(line)), "{lines:?}: {report}");
        assert!(
            report.to_string().contains("It was tried: then nothing wrong is found."),
            "{report}"
        );
    }
}

#[test]
fn what_a_fix_leaves_is_what_its_program_would_be_told() {
    // Fixes only what was lost: the second pointer stays where it is.
    let fixed = |memory: &Machine| {
        memory.store_u64(TOWER, 10);
        memory.flush(TOWER..TOWER + 8);
        memory.store_u64(TOWER + 8, 20);
        memory.sfence();
        memory.acknowledge(1);
    };
    let report = Check::new(Profile::IntelAdr, 256).run(fixed, |_| Ok(()));
    assert!(report.lints.iter().any(|lint| lint.rule == Rule::NeverDurable), "{report}");
}

const ENTRIES: usize = 8;

// A batch under one fence: until it is acknowledged any of it may be missing.
fn append(memory: &Machine) {
    for entry in 0..ENTRIES {
        memory.store_u64(64 * entry, 1 + entry as u64);
        memory.flush(64 * entry..64 * entry + 8);
    }
    memory.sfence();
    memory.acknowledge(1);
}

fn found(memory: &Machine) -> Vec<u64> {
    (0..ENTRIES).map(|entry| memory.load_u64(64 * entry)).collect()
}

fn recovered(stops: bool) -> Report {
    Check::new(Profile::IntelAdr, 64 * ENTRIES).run(append, |memory| {
        let mut entries = found(memory);
        if stops {
            entries = entries.into_iter().take_while(|entry| *entry != 0).collect();
        }
        entries.retain(|entry| *entry != 0);
        let whole = memory.marks().is_empty() || entries.len() == ENTRIES;
        if whole && entries.iter().copied().eq(1..=entries.len() as u64) {
            Ok(())
        } else {
            Err(format!("{entries:?}"))
        }
    })
}

#[test]
fn a_recovery_that_is_wrong_by_itself_is_told_beside_the_fix() {
    let report = recovered(false);
    let fix = report.violation.as_ref().and_then(|violation| violation.fix);
    let fix = fix.unwrap_or_else(|| panic!("{report}"));
    assert!(fix.or_in_recovery(), "{report}");
    let text = report.to_string();
    assert!(text.contains("put a fence right after the flush at"), "{text}");
    assert!(
        text.contains(
            "Or change recovery: the fix adds a fence 8 times where the program acknowledges once"
        ),
        "{text}"
    );
    // As it says.
    recovered(true).expect_sound();
}

#[test]
fn where_something_acknowledged_is_lost_the_program_is_wrong() {
    let program = |memory: &Machine| {
        for entry in 0..ENTRIES {
            memory.store_u64(64 * entry, 1);
            memory.flush(64 * entry..64 * entry + 8);
            memory.acknowledge(entry as u64);
        }
    };
    let report = Check::new(Profile::IntelAdr, 64 * ENTRIES).run(program, |memory| {
        let there = found(memory).iter().filter(|entry| **entry == 1).count();
        if there >= memory.marks().len() { Ok(()) } else { Err("lost".into()) }
    });
    let fix = report.violation.as_ref().and_then(|violation| violation.fix);
    assert!(!fix.unwrap_or_else(|| panic!("{report}")).or_in_recovery(), "{report}");
}

// Four lines, three of which are forgotten in places of their own, and a flag.
fn forgetful(memory: &Machine) {
    for line in 1..4 {
        memory.store_u64(64 * line, 7);
    }
    memory.store_u64(256, 7);
    memory.store_u64(320, 7);
    memory.store_u64(384, 7);
    memory.flush(64..128);
    memory.sfence();
    memory.store_u64(0, 1);
    memory.flush(0..8);
    memory.sfence();
}

#[test]
fn several_places_are_found_where_one_will_not_do() {
    for profile in [Profile::IntelAdr, Profile::Amd, Profile::OldAmd] {
        let report = Check::new(profile, 448).run(forgetful, |memory| {
            let flag = memory.load_u64(0) == 1;
            if flag && (1..7).any(|line| memory.load_u64(64 * line) != 7) {
                Err("lost".into())
            } else {
                Ok(())
            }
        });
        let violation = report.violation.as_ref().expect("most lines are never flushed");
        let fix = violation.fix.unwrap_or_else(|| panic!("{report}"));
        assert_eq!(fix.places().count(), 4, "{report}");
        assert!(violation.left.is_empty(), "{report}");
        // The flush of the one line that was not forgotten is one of the loop's now.
        assert_eq!(fix.left_out().count(), 1, "{report}");
        assert!(report.to_string().contains("; and leave out the flush at"), "{report}");
    }
}

#[test]
fn a_recovery_that_forgets_a_flush_is_fixed_too() {
    let copied = |memory: &Machine| {
        let value = memory.load_u64(64);
        if memory.load_u64(0) == 1 {
            memory.store_u64(128, value);
            memory.sfence();
            memory.store_u64(0, 2);
            memory.flush(0..8);
            memory.sfence();
        }
        let (state, value) = (memory.load_u64(0), memory.load_u64(128));
        if state == 2 && value != 7 { Err(format!("copied, and there is {value}")) } else { Ok(()) }
    };
    let program = |memory: &Machine| {
        memory.store_u64(64, 7);
        memory.flush(64..72);
        memory.sfence();
        memory.store_u64(0, 1);
        memory.flush(0..8);
        memory.sfence();
    };
    let report = Check::new(Profile::IntelAdr, 192).crashes(2).run(program, copied);
    let fix = report.violation.as_ref().expect("a copy that is never flushed").fix;
    let fix = fix.unwrap_or_else(|| panic!("{report}"));
    assert!(
        fix.to_string().starts_with("put a flush of what it stored right after the store at"),
        "{fix}"
    );
}

#[test]
fn a_long_program_is_fixed_too() {
    let program = |memory: &Machine| {
        for word in 1..=20_000 {
            memory.store_u64(8 * word, 1);
            memory.flush(8 * word..8 * word + 8);
            memory.sfence();
            if word == 10_000 {
                memory.store_u64(8 * word + 64, 9);
                memory.store_u64(0, 1);
                memory.flush(0..8);
                memory.sfence();
            }
        }
    };
    let report = Check::new(Profile::IntelAdr, 200_000).run(program, |memory| {
        let lost = memory.load_u64(0) == 1 && memory.load_u64(80_064) == 0;
        if lost { Err("lost".into()) } else { Ok(()) }
    });
    assert!(report.violation.as_ref().is_some_and(|violation| violation.fix.is_some()), "{report}");
}

fn flag_before_data(memory: &Machine) -> Result<(), String> {
    let lost = memory.load_u64(64) == 1 && memory.load_u64(0) != 7;
    if lost { Err("lost".into()) } else { Ok(()) }
}

// What a process that died had stored is in caches: the fence behind recovery's flush is what is
// missing.
#[test]
fn a_fence_behind_a_flush_of_what_was_read_is_found_where_processes_die() {
    let recovery = |memory: &Machine| {
        let value = memory.load_u64(0);
        memory.flush(0..8);
        if value == 7 {
            memory.store_u64(64, 1);
            memory.flush(64..72);
            memory.sfence();
        }
        flag_before_data(memory)
    };
    let program = |memory: &Machine| {
        memory.store_u64(0, 7);
        memory.flush(0..8);
        memory.sfence();
    };
    let report = Check::new(Profile::IntelAdr, 128).crashes(2).kills().run(program, recovery);
    let fix = report.violation.as_ref().expect("a missing fence").fix;
    let fix = fix.unwrap_or_else(|| panic!("{report}"));
    assert!(fix.to_string().starts_with("put a fence right after the flush at"), "{fix}");
}

// What is added everywhere must not be taken for what does not come to an end.
#[test]
fn a_recovery_near_its_limit_is_not_said_to_be_beyond_all_flushes_and_fences() {
    let program = |memory: &Machine| {
        memory.store_u64(64, 7);
        memory.flush(64..72);
        memory.store_u64(0, 1);
        memory.flush(0..8);
        memory.sfence();
    };
    let recovery = |memory: &Machine| {
        if memory.load_u64(0) == 1 {
            while memory.load_u64(64) == 0 {}
        }
        (0..1000).for_each(|word| memory.store_u64(4096 + 8 * word, 0));
        memory.flush(4096..12096);
        memory.sfence();
        Ok(())
    };
    let report = Check::new(Profile::IntelAdr, 16384).most_operations(2500).run(program, recovery);
    let text = report.to_string();
    assert!(report.violation.is_some() && !text.contains("nor one of each"), "{text}");
    assert!(text.contains("The fix: put a fence right after the flush at"), "{text}");
}

// The flush and the fence that it makes needless for one place are needed at another.
#[test]
fn a_fix_takes_away_nothing_that_an_acknowledgement_rests_on() {
    fn persist(memory: &Machine, at: usize) {
        memory.flush(at..at + 8);
    }
    let program = |memory: &Machine| {
        memory.store_u64(128, 1);
        persist(memory, 128);
        memory.sfence();
        memory.acknowledge(1);
        memory.store_u64(0, 7);
        memory.store_u64(64, 1);
        persist(memory, 0);
        memory.flush(64..72);
        memory.sfence();
        memory.acknowledge(2);
        memory.store_u64(136, 1);
        memory.flush(128..192);
        memory.sfence();
    };
    for profile in [Profile::IntelAdr, Profile::Amd, Profile::OldAmd] {
        let report = Check::new(profile, 256).run(program, flag_before_data);
        let violation = report.violation.as_ref().expect("a flag that may come first");
        let fix = violation.fix.unwrap_or_else(|| panic!("{report}"));
        let told = |rule| violation.left.iter().any(|lint| lint.rule == rule);
        assert!(fix.left_out().count() == 0 || told(Rule::AcknowledgedTooEarly), "{report}");
    }
}

#[test]
fn a_fix_names_the_instructions_that_it_was_tried_with() {
    let fix = |check: Check, program: fn(&Machine)| {
        let report = check.run(program, flag_before_data);
        report
            .violation
            .as_ref()
            .and_then(|violation| violation.fix)
            .unwrap_or_else(|| panic!("{report}"))
    };
    let bare = |memory: &Machine| {
        memory.store_u64(0, 7);
        memory.store_u64(64, 1);
    };
    let text = fix(Check::new(Profile::OldAmd, 128).clflush(), bare).to_string();
    assert!(text.contains("an mfence") && !text.contains("a fence"), "{text}");
    let by_clflush = |memory: &Machine| {
        memory.store_u64(0, 7);
        memory.store_u64(64, 1);
        memory.clflush(64);
        memory.sfence();
    };
    let text = fix(Check::new(Profile::IntelAdr, 128), by_clflush).to_string();
    assert!(text.contains("put a clflush of what it stored"), "{text}");
}

#[test]
fn two_bugs_of_which_one_is_in_recovery_are_fixed_together() {
    let program = |memory: &Machine| {
        memory.store_u64(0, 7);
        memory.store_u64(64, 1);
    };
    let recovery = |memory: &Machine| {
        flag_before_data(memory)?;
        if memory.load_u64(192) == 1 && memory.load_u64(128) != 7 {
            return Err("lost in recovery".into());
        }
        memory.store_u64(128, 7);
        memory.store_u64(192, 1);
        Ok(())
    };
    let report = Check::new(Profile::Amd, 256).crashes(2).run(program, recovery);
    let fix =
        report.violation.as_ref().expect("two bugs").fix.unwrap_or_else(|| panic!("{report}"));
    let lines: Vec<u32> = fix.places().map(|place| place.line()).collect();
    assert!(lines.len() >= 2, "{report}");
}
