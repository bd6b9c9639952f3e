//! What a report says: the smallest example, what would fix it, what was not looked at, and what
//! recovery reads beside a checksum.

use ringfence_crashcheck::{Check, Fate, Machine, Profile, Report, Rule, check};
use ringfence_persist::{Memory, checksum};

const ADR: [Profile; 3] = [Profile::IntelAdr, Profile::Amd, Profile::OldAmd];

// A value, then a flag in another line, with what is done between the two and after.
fn value_and_flag(profile: Profile, between: fn(&Machine), after: fn(&Machine)) -> Report {
    check(
        profile,
        128,
        |memory| {
            memory.store_u64(0, 5);
            between(memory);
            memory.store_u64(64, 1);
            after(memory);
            memory.acknowledge(1);
        },
        |memory| match (memory.load_u64(64), memory.load_u64(0)) {
            (0, _) if memory.marks().is_empty() => Ok(()),
            (1, 5) => Ok(()),
            found => Err(format!("{found:?}")),
        },
    )
}

fn persist(memory: &Machine, at: usize) {
    memory.flush(at..at + 8);
    memory.sfence();
}

// Of the report's fix: the text from the instructions on, and the line behind which they are
// missing.
#[track_caller]
fn fix(report: &Report) -> (String, u32) {
    let fix = report.violation.as_ref().expect("a violation").fix.expect("a fix");
    let text = fix.to_string();
    (text.split(" right after").next().unwrap().to_owned(), fix.after().line())
}

#[test]
fn a_missing_instruction_is_named() {
    let line = line!();
    let no_fence = |memory: &Machine| {
        memory.flush(0..8); // line + 2
    };
    let no_flush = |memory: &Machine| memory.sfence();
    let nothing = |_: &Machine| {};
    let rest = |memory: &Machine| persist(memory, 64);
    for profile in ADR {
        assert_eq!(fix(&value_and_flag(profile, no_fence, rest)), ("put a fence".into(), line + 2));
        let (what, _) = fix(&value_and_flag(profile, no_flush, rest));
        assert_eq!(what, "put a flush of what it stored");
        let (what, _) = fix(&value_and_flag(profile, nothing, rest));
        assert_eq!(what, "put a flush of what it stored, and then a fence,");
        value_and_flag(profile, |memory| persist(memory, 0), rest).expect_sound();
    }
    // The flag's fence is what is missing to the acknowledgement.
    let (what, _) = fix(&value_and_flag(Profile::Eadr, nothing, nothing));
    assert_eq!(what, "put a fence");
}

#[test]
fn where_clflush_waits_for_mfence_alone_that_is_named() {
    let program = |memory: &Machine| {
        memory.store_u64(0, 5);
        memory.clflush(0);
        memory.sfence();
        memory.acknowledge(1);
    };
    let recovery = |memory: &Machine| match memory.load_u64(0) {
        0 if !memory.marks().is_empty() => Err("lost".into()),
        _ => Ok(()),
    };
    for profile in Profile::ALL {
        let report = check(profile, 64, program, recovery);
        assert_eq!(report.violation.is_some(), profile == Profile::OldAmd, "{report}");
        if profile == Profile::OldAmd {
            assert_eq!(fix(&report).0, "put an mfence");
        }
    }
}

#[test]
fn an_order_that_is_wrong_has_no_such_fix() {
    // The flag comes first, and durably: nothing behind any operation fixes that.
    let report = check(
        Profile::IntelAdr,
        128,
        |memory| {
            memory.store_u64(64, 1);
            persist(memory, 64);
            memory.store_u64(0, 5);
            persist(memory, 0);
        },
        |memory| match (memory.load_u64(64), memory.load_u64(0)) {
            (1, 0) => Err("a flag without its value".into()),
            _ => Ok(()),
        },
    );
    assert!(report.violation.unwrap().fix.is_none());
}

#[test]
fn the_smallest_example_is_told() {
    // Of eight values stored before the flag one must be missing; one is enough.
    let report = check(
        Profile::IntelAdr,
        1024,
        |memory| {
            (1..9).for_each(|value| memory.store_u64(64 * value, value as u64));
            memory.store_u64(0, 1);
            persist(memory, 0);
        },
        |memory| {
            let flag = memory.load_u64(0) == 1;
            let missing = (1..9).filter(|value| memory.load_u64(64 * value) == 0).count();
            if flag && missing > 0 { Err(format!("{missing} missing")) } else { Ok(()) }
        },
    );
    let violation = report.violation.unwrap();
    assert_eq!(violation.message, "1 missing");
    assert_eq!(violation.story.fates().filter(|(_, fate)| *fate == Fate::Lost).count(), 1);
}

#[test]
fn fewer_crashes_are_told_where_they_do() {
    // The second run makes the same mistake as the first, later.
    let append = |memory: &Machine, at: usize| {
        memory.store_u64(at, 1);
        memory.store_u64(at + 64, 1);
        persist(memory, at + 64);
        persist(memory, at);
    };
    let wrong =
        |memory: &Machine, at: usize| memory.load_u64(at + 64) == 1 && memory.load_u64(at) == 0;
    let report = Check::new(Profile::Amd, 1024).crashes(3).run(
        |memory| append(memory, 0),
        |memory| {
            if wrong(memory, 128) || wrong(memory, 0) {
                return Err("torn".into());
            }
            append(memory, 128);
            Ok(())
        },
    );
    assert_eq!(report.violation.unwrap().story.crashes(), 1);
}

#[test]
fn steps_that_are_not_needed_are_left_out() {
    let steps: Vec<u64> = (1..30).collect();
    // The step 17 is stored without a flush.
    let program = |memory: &Machine, steps: &[u64]| {
        for step in steps {
            let at = 64 * *step as usize;
            memory.store_u64(at, *step);
            if *step != 17 {
                persist(memory, at);
            }
            memory.mark(*step);
        }
    };
    let recovery = |memory: &Machine| {
        let lost =
            memory.marks().into_iter().find(|step| memory.load_u64(64 * *step as usize) != *step);
        lost.map_or(Ok(()), |step| Err(format!("{step} is lost")))
    };
    let (report, needed) = Check::new(Profile::IntelAdr, 2048).run_steps(&steps, program, recovery);
    assert_eq!(needed, [17]);
    assert_eq!(report.violation.unwrap().message, "17 is lost");
    let (report, needed) =
        Check::new(Profile::Eadr, 2048).run_steps(&steps[..5], program, recovery);
    assert!(needed.len() == 5, "eADR wants a fence alone, which the others have");
    report.expect_sound();
}

fn ten_flags(memory: &Machine) {
    for flag in 0..10 {
        memory.store_u64(64 * flag, 1);
        memory.flush(64 * flag..64 * flag + 8);
    }
    memory.sfence();
}

fn reads_all(memory: &Machine) -> Result<(), String> {
    let set = (0..10).filter(|flag| memory.load_u64(64 * flag) == 1).count();
    if set == 7 { Err("seven".into()) } else { Ok(()) }
}

#[test]
fn a_limit_that_was_met_is_told() {
    let report = Check::new(Profile::Amd, 640)
        .most_states(20)
        .run(ten_flags, |memory| reads_all(memory).or(Ok(())));
    assert!(report.bounded && report.states == 20 && report.looked_at == 0);
    assert_eq!(report.crash_points, 2);
    let text = report.to_string();
    assert!(
        text.contains("The limit of states was met: 2 crashes were looked at in part"),
        "{text}"
    );
    let report =
        Check::new(Profile::Amd, 640).run(ten_flags, |memory| reads_all(memory).or(Ok(())));
    // Each flag is there or not, or all are.
    assert!(!report.bounded && report.states == 1024 + 1, "{}", report.states);
}

#[test]
fn a_search_at_random_is_the_same_for_the_same_seed() {
    let found = |seed: u64| {
        let check = Check::new(Profile::Amd, 640).sample(seed, 200);
        let report = check.run(ten_flags, reads_all);
        assert!(report.bounded && report.seed == Some(seed));
        (report.states, report.violation.map(|violation| violation.story.to_string()))
    };
    let all: Vec<_> = (0..8).map(found).collect();
    assert_eq!(all, (0..8).map(found).collect::<Vec<_>>());
    assert!(all.iter().any(|one| one != &all[0]), "seeds differ");
    // One in nine states has seven flags: with 200 tries it is always found.
    assert!(all.iter().all(|(_, story)| story.is_some()));
}

#[test]
fn a_process_that_dies_leaves_its_caches() {
    // Recovery takes what it finds for durable, and acknowledges it.
    let run = |check: Check, careful: bool| {
        check.crashes(2).run(
            |memory| memory.store_u64(0, 1),
            move |memory| {
                let (found, promised) = (memory.load_u64(0), !memory.marks().is_empty());
                if promised && found == 0 {
                    return Err("it was there".into());
                }
                if careful {
                    persist(memory, 0);
                }
                if found == 1 {
                    memory.acknowledge(1);
                }
                Ok(())
            },
        )
    };
    for profile in ADR {
        run(Check::new(profile, 64), false).expect_sound();
        run(Check::new(profile, 64).kills(), true).expect_sound();
        let report = run(Check::new(profile, 64).kills(), false);
        assert!(report.to_string().contains("the process is killed"), "{report}");
    }
}

#[test]
fn what_never_ends_is_told() {
    let report = check(
        Profile::Eadr,
        64,
        |memory| memory.store_u64(0, 1),
        |memory| {
            while memory.load_u64(0) == 1 {}
            Ok(())
        },
    );
    assert!(report.violation.unwrap().message.contains("does not come to an end"));
}

// A record of a sum, a value and a version; the sum covers the version, or not.
fn record(profile: Profile, covered: bool) -> Report {
    let end = if covered { 24 } else { 16 };
    check(
        profile,
        64,
        move |memory| {
            for version in 1..3u64 {
                let mut bytes = [0; 24];
                bytes[8..16].copy_from_slice(&(version * 10).to_le_bytes());
                bytes[16..].copy_from_slice(&version.to_le_bytes());
                let sum = checksum::of(&bytes[8..end], 1);
                bytes[..8].copy_from_slice(&sum.to_le_bytes());
                memory.store_nt(0, &bytes);
                memory.sfence();
            }
        },
        move |memory| {
            if memory.verify([8..end, 0..0], 1, memory.load_u64(0)) {
                // Read, and not compared with anything.
                memory.load_u64(16);
            }
            Ok(())
        },
    )
}

#[test]
fn a_field_beside_a_checksum_is_noticed() {
    for profile in Profile::ALL {
        let uncovered =
            |report: &Report| report.lints.iter().any(|lint| lint.rule == Rule::UncoveredField);
        let report = record(profile, false);
        assert!(uncovered(&report), "{report}");
        assert!(!uncovered(&record(profile, true)), "{profile}");
    }
}

#[test]
fn a_recovery_that_panics_says_where() {
    let line = line!() + 5;
    let report = check(
        Profile::Eadr,
        64,
        |memory| memory.store_u64(0, 1),
        |memory| if memory.load_u64(0) == 1 { panic!("a one") } else { Ok(()) },
    );
    let message = report.violation.unwrap().message;
    assert!(message.ends_with(&format!("reports.rs:{line}: a one")), "{message}");
}

#[test]
fn volatile_bytes_need_no_flush_and_may_have_one() {
    let lints = |program: fn(&Machine)| {
        let check = Check::new(Profile::IntelAdr, 256).volatile(64..128);
        check.run(program, |_| Ok(())).lints
    };
    assert_eq!(lints(|m| m.store_u64(64, 1)), []);
    let flushed: fn(&Machine) = |m| {
        m.store_u64(64, 1);
        persist(m, 64);
    };
    assert_eq!(lints(flushed), []);
    // Others are as they were.
    assert_eq!(lints(|m| m.store_u64(128, 1))[0].rule, Rule::NeverDurable);
    assert_eq!(lints(|m| persist(m, 64))[0].rule, Rule::CleanFlush);
}

#[test]
#[should_panic(expected = "looks at nothing")]
fn a_sample_of_nothing_is_refused() {
    Check::new(Profile::IntelAdr, 64)
        .sample(1, 0)
        .run(|_| {}, |_| Err("wrong".into()))
        .expect_sound();
}
