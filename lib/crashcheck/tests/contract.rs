//! What the caller may not do is told where it is done, in the program and in recovery.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ringfence_crashcheck::{Check, Fault, Machine, Profile, Report};
use ringfence_persist::Memory;

fn run(program: impl Fn(&Machine), recovery: impl Fn(&Machine)) -> Report {
    let recovery = |memory: &Machine| {
        recovery(memory);
        Ok(())
    };
    Check::new(Profile::IntelAdr, 256).run(program, recovery)
}

type Touch = (&'static str, fn(&Machine));

// All ways to touch the eight bytes at 64, each on a line of its own.
const TOUCHES: [Touch; 9] = [
    ("load", |memory| memory.load(60, &mut [0; 5])),
    ("load_u64", |memory| _ = memory.load_u64(64)),
    ("store", |memory| memory.store(71, &[1])),
    ("store_u64", |memory| memory.store_u64(64, 1)),
    ("compare_exchange_u64", |memory| _ = memory.compare_exchange_u64(64, 5, 6)),
    ("verify", |memory| _ = memory.verify([0..8, 70..72], 0, 0)),
    ("verify_with", |memory| _ = memory.verify_with("sum", [0..8, 70..72], &|_| true)),
    ("after a flush", |memory| {
        memory.flush(64..72);
        _ = memory.load_u64(64);
    }),
    ("with more", |memory| {
        memory.store_nt(72, &[1; 8]);
        _ = memory.load_u64(64);
    }),
];

fn nt(memory: &Machine) {
    memory.store_nt(64, &[1; 8]);
}

#[test]
fn bytes_are_not_touched_between_a_non_temporal_store_and_its_fence() {
    for (name, touch) in TOUCHES {
        let program = |memory: &Machine| {
            nt(memory);
            touch(memory);
        };
        for report in [run(program, |_| {}), run(|_| {}, program)] {
            let violation = report.violation.as_ref().unwrap_or_else(|| panic!("{name}: {report}"));
            assert_eq!(violation.fault, Fault::Unfenced, "{name}");
            let story = report.to_string();
            let line = |file: &str| story.matches(&format!("contract.rs:{file}")).count();
            // Both places are the user's.
            assert!(line("") >= 2 && !violation.message.contains("src/"), "{name}: {story}");
            assert!(catch_unwind(AssertUnwindSafe(|| report.expect_sound())).is_err(), "{name}");
        }
    }
}

#[test]
fn a_fence_or_a_locked_instruction_lets_them_be_touched() {
    let fences: [fn(&Machine); 4] = [
        |memory| memory.sfence(),
        |memory| memory.mfence(),
        |memory| _ = memory.compare_exchange_u64(0, 0, 1),
        |memory| _ = memory.compare_exchange_u64(0, 5, 6),
    ];
    for (fence, (_, touch)) in
        fences.into_iter().flat_map(|fence| TOUCHES.map(|touch| (fence, touch))).take(27)
    {
        let program = |memory: &Machine| {
            nt(memory);
            fence(memory);
            memory.load_u64(64);
            touch(memory);
        };
        if !std::ptr::fn_addr_eq(touch, TOUCHES[8].1) {
            run(program, |_| {}).expect_sound();
        }
    }
}

#[test]
fn other_bytes_and_other_non_temporal_stores_are_not_concerned() {
    let program = |memory: &Machine| {
        nt(memory);
        memory.store_nt(64, &[2; 16]);
        memory.load_u64(56);
        memory.store_u64(80, 1);
        assert!(memory.verify_with("length", [0..64, 80..256], &|bytes| bytes.len() == 240));
        memory.flush(64..128);
        memory.sfence();
    };
    run(program, |_| {}).expect_sound();
}

#[test]
fn who_checks_instructions_may_touch_them() {
    for (_, touch) in TOUCHES {
        let program = |memory: &Machine| {
            nt(memory);
            touch(memory);
        };
        Check::new(Profile::IntelAdr, 256).unfenced().run(program, |_| Ok(())).expect_sound();
    }
}

fn backwards() -> Range<usize> {
    Range { start: 64, end: 8 }
}

#[test]
fn what_lies_outside_or_is_no_range_panics_at_the_line_of_the_user() {
    let cases: [fn(&Machine); 9] = [
        |memory| memory.clwb(256),
        |memory| memory.clflush(256),
        |memory| memory.clwb(usize::MAX),
        |memory| memory.flush(backwards()),
        |memory| memory.flush(257..257),
        |memory| memory.flush(250..257),
        |memory| _ = memory.verify([0..8, backwards()], 0, 0),
        |memory| _ = memory.verify_with("sum", [0..8, backwards()], &|_| true),
        |memory| memory.load(usize::MAX, &mut [0; 2]),
    ];
    for (number, case) in cases.into_iter().enumerate() {
        assert!(catch_unwind(|| run(case, |_| {})).is_err(), "case {number}");
        let report = run(|_| {}, case);
        let violation = report.violation.as_ref().unwrap_or_else(|| panic!("case {number}"));
        assert!(
            violation.message.contains("tests/contract.rs:"),
            "case {number}: {}",
            violation.message
        );
    }
    let last = run(|_| {}, |memory| _ = memory.load_u64(usize::MAX - 7));
    let message = last.violation.unwrap().message;
    assert!(message.contains("8 bytes at 18446744073709551608"), "{message}");
}
