//! What does not do the same twice is told, and never called sound.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::time::Instant;

use ringfence_crashcheck::{Check, Fault, Machine, Profile, Report};
use ringfence_persist::Memory;

fn put(m: &Machine, at: usize, value: u64) {
    m.store_u64(at, value);
    m.flush(at..at + 8);
    m.sfence();
}

fn is_not_deterministic(report: &Report) -> bool {
    report.violation.as_ref().is_some_and(|violation| violation.fault == Fault::NotDeterministic)
}

#[track_caller]
fn told(report: &Report) -> String {
    assert!(is_not_deterministic(report), "{report}");
    let text = report.to_string();
    assert!(text.contains("does not repeat itself") && text.contains("the second time"), "{text}");
    assert!(text.contains("tests/repeats.rs") || text.contains(".../repeats.rs"), "{text}");
    text
}

#[test]
fn a_recovery_that_reads_in_the_order_of_a_hash_set_is_never_called_sound() {
    let mut different = 0;
    for _ in 0..200 {
        // The order that finds the bug is one of two.
        let report = Check::new(Profile::IntelAdr, 256).run(
            |m| {
                m.store_u64(0, 1);
                m.store_u64(64, 1);
            },
            |m| {
                let words: HashSet<usize> = [0, 64].into();
                let found: Vec<u64> = words
                    .iter()
                    .map_while(|at| Some(m.load_u64(*at)).filter(|v| *v == 1))
                    .collect();
                if words.iter().next() == Some(&64) && found.len() == 1 {
                    Err("torn".into())
                } else {
                    Ok(())
                }
            },
        );
        assert!(report.violation.is_some(), "{report}");
        if is_not_deterministic(&report) {
            told(&report);
            different += 1;
        }
    }
    assert!(different > 0);
}

#[test]
fn an_order_that_changes_is_noticed_though_nothing_is_open() {
    for _ in 0..200 {
        // All is in memory before the only crash that recovery looks behind.
        let report = Check::new(Profile::IntelAdr, 256).run(
            |m| {
                put(m, 0, 1);
                put(m, 64, 2);
            },
            |m| {
                if m.load_u64(64) == 2 {
                    HashSet::from([0, 8]).iter().for_each(|at| _ = m.load_u64(*at));
                }
                Ok(())
            },
        );
        let text = told(&report);
        assert!(
            text.contains("finds    [0..8] = 1") && text.contains("finds    [8..16] = 0"),
            "{text}"
        );
    }
}

#[test]
fn a_program_that_does_not_repeat_itself_is_told() {
    for _ in 0..50 {
        let report = Check::new(Profile::Amd, 256).run(
            |m| HashMap::from([(0, 5), (64, 6)]).iter().for_each(|(at, value)| put(m, *at, *value)),
            |m| {
                m.load_u64(0);
                Ok(())
            },
        );
        let text = told(&report);
        assert!(text.contains("The program, the second time"), "{text}");
        assert!(
            text.contains("store    [0..8] = 5") && text.contains("store    [64..72] = 6"),
            "{text}"
        );
        let (report, steps) = Check::new(Profile::Amd, 256).run_steps(
            &[0, 64],
            |m, steps| {
                steps
                    .iter()
                    .copied()
                    .collect::<HashSet<usize>>()
                    .iter()
                    .for_each(|at| put(m, *at, 1))
            },
            |_| Ok(()),
        );
        told(&report);
        assert_eq!(steps, [0, 64]);
    }
}

#[test]
fn a_recovery_whose_writes_change_their_order_is_told() {
    for crashes in [1, 2] {
        for _ in 0..50 {
            let report = Check::new(Profile::Eadr, 256).crashes(crashes).run(
                |m| put(m, 0, 1),
                |m| {
                    HashSet::from([64, 128]).iter().for_each(|at| put(m, *at, 1));
                    Ok(())
                },
            );
            told(&report);
        }
    }
}

#[test]
fn what_is_written_may_not_change_either() {
    let start = Instant::now();
    let clock = Check::new(Profile::IntelAdr, 64).run(
        |m| put(m, 0, 1),
        |m| {
            m.store_u64(8, start.elapsed().as_nanos() as u64);
            Ok(())
        },
    );
    assert!(told(&clock).contains("store    [8..16] = "), "{clock}");
    let random = Check::new(Profile::IntelAdr, 64).run(
        |m| put(m, 0, 1),
        |m| {
            m.mark(RandomState::new().hash_one(1));
            Ok(())
        },
    );
    assert!(told(&random).contains("mark     "), "{random}");
}

#[test]
fn a_result_that_changes_with_the_same_reads_is_told() {
    for nth in 0..30 {
        let runs = Cell::new(0);
        let report = Check::new(Profile::IntelAdr, 64).run(
            |m| put(m, 0, 1),
            |m| {
                m.load_u64(0);
                runs.set(runs.get() + 1);
                if runs.get() == nth { Err("by chance".into()) } else { Ok(()) }
            },
        );
        let runs = runs.get();
        match &report.violation {
            // It came after the last run.
            None => assert!(nth == 0 || nth > runs, "{nth} of {runs}: {report}"),
            Some(_) => {
                let text = told(&report);
                assert!(text.contains("it ends with: by chance"), "{text}");
                assert!(text.contains("it ends, and finds nothing wrong"), "{text}");
            }
        }
    }
    let runs = Cell::new(0);
    let report = Check::new(Profile::IntelAdr, 64).run(
        |m| put(m, 0, 1),
        |m| {
            m.load_u64(0);
            runs.set(runs.get() + 1);
            if runs.get() % 2 == 1 { panic!("odd") } else { Ok(()) }
        },
    );
    assert!(told(&report).contains("odd"), "{report}");
}

#[test]
fn how_much_there_is_to_choose_may_not_change() {
    for _ in 0..50 {
        let report = Check::new(Profile::IntelAdr, 256).run(
            |m| (0..4).for_each(|word| m.store_u64(64 * word, 1)),
            |m| {
                let few = HashSet::from([1, 2]).iter().next() == Some(&1);
                (0..if few { 2 } else { 4 }).for_each(|word| _ = m.load_u64(64 * word));
                Ok(())
            },
        );
        told(&report);
    }
}

#[test]
fn one_place_that_reads_two_words_in_turn_is_told_where_each_can_be_as_much() {
    for _ in 0..50 {
        let report = Check::new(Profile::IntelAdr, 256).run(
            |m| (0..2).for_each(|word| m.store_u64(64 * word, 1)),
            |m| {
                HashSet::from([0, 64]).iter().for_each(|at| _ = m.load_u64(*at));
                Ok(())
            },
        );
        told(&report);
    }
}

#[test]
fn who_catches_what_stops_a_run_is_stopped_all_the_same() {
    let runs = Cell::new(0);
    let report = Check::new(Profile::IntelAdr, 256).run(
        |m| put(m, 0, 1),
        |m| {
            runs.set(runs.get() + 1);
            let read = || m.load_u64(8 * (runs.get() % 2));
            _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read));
            Ok(())
        },
    );
    told(&report);
}

#[test]
fn a_guard_that_stores_on_the_way_out_ends_nothing() {
    struct Guard<'a>(&'a Machine);
    impl Drop for Guard<'_> {
        fn drop(&mut self) {
            put(self.0, 64, 0);
        }
    }
    let runs = Cell::new(0);
    let report = Check::new(Profile::IntelAdr, 256).run(
        |m| put(m, 0, 1),
        |m| {
            let _guard = Guard(m);
            runs.set(runs.get() + 1);
            m.load_u64(8 * (runs.get() % 2));
            Ok(())
        },
    );
    told(&report);
}

#[test]
fn what_changes_late_is_told() {
    // The program does something else from its hundredth run on; recovery makes sure that there are
    // as many.
    let runs = Cell::new(0);
    let report = Check::new(Profile::IntelAdr, 256).run(
        |m| put(m, 0, u64::from(runs.get() > 100)),
        |_| {
            runs.set(runs.get() + 10);
            Ok(())
        },
    );
    assert!(told(&report).contains("The program, the second time"), "{report}");
}

#[test]
fn a_result_in_the_order_of_a_map_is_told_though_one_rare_state_shows_it_alone() {
    const LINES: usize = 8;
    for _ in 0..100 {
        let report = Check::new(Profile::IntelAdr, 64 * LINES).run(
            |m| (0..LINES).for_each(|line| m.store_u64(64 * line, 1 + line as u64)),
            |m| {
                let there =
                    (0..LINES).map(|line| m.load_u64(64 * line)).filter(|value| *value != 0);
                let map: HashMap<u64, ()> = there.map(|value| (value, ())).collect();
                let keys: Vec<u64> = map.keys().copied().collect();
                if keys == [3, 5] { Err("in this order".into()) } else { Ok(()) }
            },
        );
        assert!(report.violation.is_some(), "{report}");
    }
}
