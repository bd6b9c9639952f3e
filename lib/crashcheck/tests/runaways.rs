//! Runs that do not come to an end: each is stopped within a limit, and the story names the loop.

use std::process::Command;
use std::time::Duration;

use ringfence_crashcheck::{Check, Fault, Machine, Profile, Report};
use ringfence_persist::Memory;

fn put(m: &Machine, at: usize, value: u64) {
    m.store_u64(at, value);
    m.flush(at..at + 8);
    m.sfence();
}

#[track_caller]
fn told(report: &Report, fault: Fault, what: &[&str]) -> String {
    let violation = report.violation.as_ref().expect("a runaway");
    assert_eq!(violation.fault, fault, "{report}");
    let text = report.to_string();
    for what in what {
        assert!(text.contains(what), "{what} in {text}");
    }
    text
}

// Two nodes, each the next of the other where a crash leaves half of it.
fn cycle(m: &Machine) {
    m.store_u64(64, 128);
    m.store_u64(128, 64);
}

// As bytes that the process holds at most.
fn most_held() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn a_recursion_round_a_cycle_is_told_and_ends_nothing() {
    fn length(m: &Machine, node: usize) -> u64 {
        if node == 0 { 0 } else { 1 + length(m, m.load_u64(node) as usize) }
    }
    let recovery = |m: &Machine| if length(m, 64) < u64::MAX { Ok(()) } else { Err("long".into()) };
    let line = line!() - 3;
    let at = format!("load at lib/crashcheck/tests/runaways.rs:{line}");
    for check in
        [Check::new(Profile::IntelAdr, 256), Check::new(Profile::IntelAdr, 256).most_stack(20_000)]
    {
        told(&check.run(cycle, recovery), Fault::TooDeep, &["recurses too deep", &at]);
    }
    // A program is told too.
    let report = Check::new(Profile::IntelAdr, 256).run(
        |m| {
            cycle(m);
            length(m, 64);
        },
        |_| Ok(()),
    );
    told(&report, Fault::TooDeep, &["The program fails", &at]);
}

#[test]
fn a_loop_is_told_by_its_places_and_fills_no_memory() {
    let spin = |m: &Machine| while m.compare_exchange_u64(0, 5, 6).is_err() {};
    let line = line!() - 1;
    let at = format!("500 x load at lib/crashcheck/tests/runaways.rs:{line}");
    let failed = format!("500 x cmpxchg (failed) at lib/crashcheck/tests/runaways.rs:{line}");
    for crashes in [1, 2] {
        let report = Check::new(Profile::IntelAdr, 64).crashes(crashes).run(
            |m| put(m, 0, 1),
            |m| {
                spin(m);
                Ok(())
            },
        );
        told(&report, Fault::Endless, &["does not come to an end", &at, &failed]);
    }
    let report = Check::new(Profile::IntelAdr, 64).run(spin, |_| Ok(()));
    told(&report, Fault::Endless, &["The program fails", "most_operations", &at, &failed]);
    lives_without_end_are_told();
    // All of much memory at once.
    let report = Check::new(Profile::IntelAdr, 8 << 20).run(
        |m| put(m, 0, 1),
        |m| {
            let mut all = vec![0; m.len()];
            (0..).try_for_each(|_| {
                m.load(0, &mut all);
                Ok::<(), String>(())
            })
        },
    );
    told(&report, Fault::Endless, &["does not come to an end", "load at"]);
    stores_without_end_are_told();
    // What `most_memory` allows a run, which is kept while it runs again to be told, and 64 MiB.
    let held = most_held();
    assert!(held < 2 * (256 << 20) + (64 << 20), "{held}");
}

fn lives_without_end_are_told() {
    // With crashes in it.
    let report = Check::new(Profile::IntelAdr, 64 << 10).crashes(2).run(
        |m| put(m, 0, 1),
        |m| {
            (0..).try_for_each(|n| {
                put(m, 8 * (n % 4096), n as u64);
                Ok(())
            })
        },
    );
    told(&report, Fault::Endless, &["does not come to an end", "store at", "sfence at"]);
    // Three lives, in each of which the process may die at any word.
    let report = Check::new(Profile::IntelAdr, 1 << 20).crashes(3).kills().run(
        |m| put(m, 0, 1),
        |m| {
            (0..).try_for_each(|n| {
                m.store_nt((n % 16) << 16, &[n as u8; 1 << 16]);
                m.sfence();
                Ok(())
            })
        },
    );
    told(&report, Fault::Endless, &["does not come to an end", "nt store at"]);
}

fn stores_without_end_are_told() {
    // Each word in a page of its own, and far apart.
    let sparse = |m: &Machine| {
        for n in 0usize.. {
            put(m, (n << 20) % m.len(), 1);
        }
        Ok(())
    };
    for crashes in [1, 2] {
        let report =
            Check::new(Profile::IntelAdr, 1 << 44).crashes(crashes).run(|m| put(m, 0, 1), sparse);
        told(&report, Fault::Endless, &["does not come to an end", "store at"]);
    }
    // Behind a checksum of many words that does not fit.
    let report = Check::new(Profile::IntelAdr, 1 << 17).crashes(2).run(
        |m| {
            m.store(1 << 16, &[3; 4096]);
            m.flush(1 << 16..(1 << 16) + 4096);
            m.sfence();
        },
        |m| {
            let all = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 3);
            if !m.verify_with("sum", [1 << 16..(1 << 16) + 4096, 0..0], &all) {
                for n in 0usize.. {
                    put(m, 8 * (n % 64), n as u64);
                }
            }
            Ok(())
        },
    );
    told(&report, Fault::Endless, &["does not come to an end", "store at"]);
    // Copies of nothing.
    let report = Check::new(Profile::IntelAdr, 64).run(
        |m| put(m, 0, 1),
        |m| loop {
            m.store(0, &[])
        },
    );
    told(&report, Fault::Endless, &["does not come to an end", "1000 x store at"]);
}

#[test]
fn limits_can_be_set() {
    let reads = |m: &Machine| {
        (0..1000).for_each(|_| _ = m.load_u64(0));
        Ok(())
    };
    let check = Check::new(Profile::IntelAdr, 64);
    check.clone().most_operations(1000).run(|m| put(m, 0, 1), reads).expect_sound();
    let report = check.clone().most_operations(999).run(|m| put(m, 0, 1), reads);
    told(&report, Fault::Endless, &["most_operations", "1000 x load"]);
    let report = check.clone().most_memory(20_000).run(|m| put(m, 0, 1), reads);
    told(&report, Fault::Endless, &["most_memory"]);
    let slow = |m: &Machine| {
        (0..50).for_each(|_| {
            m.load_u64(0);
            std::thread::sleep(Duration::from_millis(20));
        });
        Ok(())
    };
    let report = check.clone().most_time(Duration::from_millis(300)).run(|m| put(m, 0, 1), slow);
    told(&report, Fault::Endless, &["most_time", "load at lib/crashcheck/tests/runaways.rs"]);
}

#[test]
fn a_loop_without_memory_ends_the_process_and_says_where() {
    let name = "RINGFENCE_TEST_HANGS";
    let hang = || {
        while std::hint::black_box(true) {
            std::thread::yield_now();
        }
    };
    let first = line!() + 7;
    if let Ok(which) = std::env::var(name) {
        let check = Check::new(Profile::IntelAdr, 64).most_time(Duration::from_millis(300));
        check.run(
            |m| m.store_u64(0, 1),
            |m| {
                if which == "in recovery" {
                    m.load_u64(0);
                    hang();
                }
                // The word is open, so that the checker asks of each value that it can have.
                let hangs = |_: &[u8]| {
                    hang();
                    true
                };
                m.verify_with("a sum that does not end", [0..8, 0..0], &hangs);
                Ok(())
            },
        );
        unreachable!();
    }
    let test = "a_loop_without_memory_ends_the_process_and_says_where";
    for (which, line) in [("in recovery", first), ("in a checksum", first + 8)] {
        let mut run = Command::new(std::env::current_exe().unwrap());
        let run = run.args(["--exact", test]).env(name, which).output().unwrap();
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(!run.status.success());
        assert!(
            said.contains("A run of recovery, behind a crash, does not come to an end"),
            "{said}"
        );
        assert!(said.contains(&format!("tests/runaways.rs:{line}")), "{line}: {said}");
    }
}
