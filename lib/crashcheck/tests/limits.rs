//! What is legal and rare: ends of ranges, processes that die, long programs, searches at random.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use ringfence_crashcheck::{Check, Machine, Profile, check};
use ringfence_persist::{Memory, checksum};

fn sum(words: &[u64]) -> u64 {
    checksum::of(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>(), 5)
}

#[test]
fn a_process_that_dies_between_a_store_and_its_flush_is_looked_at() {
    for profile in [Profile::IntelAdr, Profile::Amd, Profile::OldAmd] {
        let report = Check::new(profile, 64).crashes(2).kills().run(
            |memory| {
                memory.store_u64(0, 1);
                memory.flush(0..8);
                memory.sfence();
            },
            |memory| {
                let value = memory.load_u64(0);
                if memory.marks().contains(&1) && value == 0 {
                    return Err("it was acknowledged".into());
                }
                if value == 1 {
                    memory.sfence();
                    memory.acknowledge(1);
                }
                Ok(())
            },
        );
        assert!(report.violation.is_some(), "{profile}");
    }
}

#[test]
fn what_a_dead_process_stored_is_durable_where_caches_are() {
    let run = |stream: bool| {
        Check::new(Profile::Eadr, 64).crashes(2).kills().run(
            move |memory| {
                if stream {
                    memory.store_nt(0, &1u64.to_le_bytes())
                } else {
                    memory.store_u64(0, 1)
                }
            },
            |memory| {
                let value = memory.load_u64(0);
                if memory.marks().contains(&1) && value == 0 {
                    return Err("it was acknowledged".into());
                }
                if value == 1 {
                    memory.acknowledge(1);
                }
                Ok(())
            },
        )
    };
    run(false).expect_sound();
    assert!(run(true).violation.is_some(), "non-temporal stores wait for a fence");
}

#[test]
fn processes_die_at_random_too() {
    let report = Check::new(Profile::IntelAdr, 64).crashes(2).kills().sample(1, 200).run(
        |memory| {
            memory.store_u64(0, 1);
            memory.flush(0..8);
            memory.sfence();
        },
        |_| Ok(()),
    );
    report.expect_sound();
    assert_eq!(report.states, 200);
}

#[test]
fn legal_and_empty_operations_are_none() {
    for profile in Profile::ALL {
        for len in [0, 1, 7, 12, 64, 65, 100] {
            let all = |memory: &Machine| {
                memory.load(len, &mut []);
                memory.store(len, &[]);
                memory.store_nt(0, &[]);
                memory.flush(len..len);
                memory.flush(0..len);
                assert!(memory.verify([0..0, len..len], 5, checksum::of(&[], 5)));
                let bytes: Vec<u8> = (0..len as u8).collect();
                memory.store(0, &bytes);
                memory.store(len / 2, &bytes[len / 2..]);
                assert!(memory.verify([0..len, 0..0], 5, checksum::of(&bytes, 5)));
                memory.flush(0..len);
                memory.mfence();
                if len >= 8 {
                    assert!(memory.compare_exchange_u64(0, 99, 1).is_err());
                }
            };
            let report =
                Check::new(profile, len).crashes(2).kills().most_states(3000).run(all, |memory| {
                    let (mut one, mut other) = ([0; 100], [0; 100]);
                    memory.load(0, &mut one[..len]);
                    memory.load(len / 3, &mut other[len / 3..len]);
                    assert_eq!(one[len / 3..len], other[len / 3..len]);
                    all(memory);
                    Ok(())
                });
            assert!(report.violation.is_none(), "{report}");
        }
        let nothing = Check::new(profile, 0).crashes(0).run(|_| {}, |_| Ok(()));
        nothing.expect_sound();
        assert_eq!((nothing.crash_points, nothing.states), (1, 1));
    }
}

#[test]
fn a_word_may_be_stored_to_a_hundred_thousand_times() {
    for profile in [Profile::IntelAdr, Profile::Eadr] {
        let report = Check::new(profile, 64).most_states(3).run(
            |memory| (1..=100_000).for_each(|value| memory.store_u64(0, value)),
            |memory| {
                memory.load_u64(0);
                Ok(())
            },
        );
        assert!(report.bounded && report.violation.is_none(), "{report}");
    }
}

#[test]
fn what_a_checksum_ruled_out_is_told_apart_in_words_that_are_hidden_since() {
    // Words on lines of their own. Recovery learns that 0 and 1 are not both 1; then it looks at 0
    // only where 2 is 1, and overwrites both. What 1 may be is another matter in each case.
    let found = RefCell::new(BTreeSet::new());
    let report = Check::new(Profile::IntelAdr, 192).crashes(2).run(
        |memory| (0..3).for_each(|word| memory.store_u64(word * 64, 1)),
        |memory| {
            if memory.marks().first() == Some(&7) {
                if memory.marks().last() == Some(&9) {
                    found.borrow_mut().insert((memory.marks().len(), memory.load_u64(64)));
                }
                return Ok(());
            }
            memory.mark(7);
            if !memory.verify([0..8, 64..72], 5, sum(&[1, 1])) {
                if memory.load_u64(128) == 1 && memory.load_u64(0) == 0 {
                    memory.mark(8);
                }
                for at in [0, 128] {
                    memory.store_u64(at, 5);
                    memory.flush(at..at + 8);
                }
                memory.sfence();
                memory.mark(9);
            }
            Ok(())
        },
    );
    report.expect_sound();
    assert_eq!(*found.borrow(), BTreeSet::from([(2, 0), (2, 1), (3, 0), (3, 1)]));
}

#[test]
fn a_checksum_fits_what_was_stored_again_since() {
    // A sum is made for 1 and 2; then the second word changes, and the first is stored once more.
    let fits = RefCell::new(BTreeSet::new());
    let report = check(
        Profile::IntelAdr,
        128,
        |memory| {
            let durable = |at: usize, value| {
                memory.store_u64(at, value);
                memory.flush(at..at + 8);
                memory.sfence();
            };
            durable(0, 1);
            durable(64, 2);
            memory.store_u64(64, 3);
            durable(0, 1);
            memory.store_u64(0, 4);
        },
        |memory| {
            let fit = memory.verify([0..8, 64..72], 5, sum(&[1, 2]));
            fits.borrow_mut().insert((fit, memory.load_u64(0), memory.load_u64(64)));
            Ok(())
        },
    );
    report.expect_sound();
    for (fit, one, other) in fits.into_inner() {
        assert_eq!(fit, (one, other) == (1, 2), "{one} and {other}");
    }
}

#[test]
fn the_same_bytes_stored_twice_are_one_outcome() {
    let report = check(
        Profile::IntelAdr,
        4096,
        |memory| (0..2).for_each(|_| memory.store_nt(0, &[7; 512])),
        |memory| {
            memory.verify([0..512, 0..0], 5, checksum::of(&[7; 512], 5));
            Ok(())
        },
    );
    report.expect_sound();
    assert_eq!(report.states, 2);
}

#[test]
fn the_same_value_stored_twice_is_one_outcome() {
    let report = check(
        Profile::IntelAdr,
        4096,
        |memory| (0..2).for_each(|_| (0..32).for_each(|line| memory.store_u64(line * 64, 7))),
        |memory| {
            memory.verify([0..2048, 0..0], 5, {
                let mut bytes = [0; 2048];
                bytes.chunks_mut(64).for_each(|line| line[0] = 7);
                checksum::of(&bytes, 5)
            });
            Ok(())
        },
    );
    report.expect_sound();
    assert_eq!(report.states, 2);
}

#[test]
fn steps_that_make_no_sense_alone_are_left_in() {
    // Each pop needs a push before it; the program panics otherwise.
    let check = Check::new(Profile::IntelAdr, 128);
    let (report, steps) = check.run_steps(
        &[1, 1, -1, 1, -1, 1],
        |memory, steps| {
            let mut count = 0i64;
            for step in steps {
                count += step;
                assert!(count >= 0, "popped from nothing");
                memory.store_u64(0, count as u64 + 1);
            }
            if steps.contains(&-1) {
                memory.acknowledge(1);
            }
        },
        |memory| match (memory.marks().len(), memory.load_u64(0)) {
            (1, 0) => Err("lost".into()),
            _ => Ok(()),
        },
    );
    assert!(report.violation.is_some());
    assert_eq!(steps, [1, -1]);
}

#[test]
fn where_caches_last_a_fence_alone_is_the_fix() {
    let report = check(
        Profile::Eadr,
        64,
        |memory| {
            memory.store_u64(0, 1);
            memory.acknowledge(1);
        },
        |memory| match (memory.marks().len(), memory.load_u64(0)) {
            (1, 0) => Err("lost".into()),
            _ => Ok(()),
        },
    );
    let fix = report.violation.expect("nothing was fenced").fix.expect("a fence does").to_string();
    assert!(fix.starts_with("put a fence right after the store at "), "{fix}");
}

#[test]
fn clflush_of_a_thousand_lines_before_one_fence_is_no_trouble() {
    let values = RefCell::new(BTreeSet::new());
    let report = Check::new(Profile::IntelAdr, 64 * 1000).clflush().run(
        |memory| {
            for line in 0..1000 {
                memory.store_u64(line * 64, 1);
                memory.flush(line * 64..line * 64 + 8);
            }
        },
        |memory| {
            values.borrow_mut().insert([0, 500, 999].map(|line| memory.load_u64(line * 64)));
            Ok(())
        },
    );
    report.expect_sound();
    assert_eq!(values.into_inner(), BTreeSet::from([[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]]));
}

#[test]
fn what_does_not_come_to_an_end_is_said_to() {
    for fences in [false, true] {
        let report = Check::new(Profile::IntelAdr, 64).crashes(2).run(
            |memory| memory.store_u64(0, 1),
            |memory| {
                loop {
                    memory.verify([0..0, 0..0], 0, 0);
                    if fences {
                        memory.sfence();
                    }
                }
            },
        );
        let message = report.violation.expect("it is endless").message;
        assert!(message.contains("does not come to an end"), "{message}");
    }
}

#[test]
fn a_crash_that_leaves_very_much_does_not_hide_the_others() {
    // Far more than two million states of the first crash, and an obvious fault behind the second.
    let report = Check::new(Profile::IntelAdr, 70_400).most_states(2_000_000).run(
        |memory| {
            (0..32).for_each(|line| memory.store_u64(64 * line, 1));
            memory.flush(0..2048);
            memory.sfence();
            memory.store_u64(64_000, 1);
            memory.flush(64_000..64_008);
            memory.sfence();
        },
        |memory| {
            (0..32).for_each(|line| _ = memory.load_u64(64 * line));
            if memory.load_u64(64_000) == 0 { Ok(()) } else { Err("the fault".into()) }
        },
    );
    assert_eq!(report.violation.unwrap().message, "the fault");
}

#[test]
fn a_recovery_that_reads_very_much_does_not_hide_the_other_crashes_either() {
    // Each state behind the first crash is five thousand words to read, of which all are open.
    let words = Cell::new(0u64);
    let report = Check::new(Profile::IntelAdr, 64_000).run(
        |memory| {
            (0..5000).for_each(|word| memory.store_u64(8 * word, 1));
            memory.flush(0..40_000);
            memory.sfence();
            memory.store_u64(48_000, 1);
            memory.flush(48_000..48_008);
            memory.sfence();
        },
        |memory| {
            (0..5000).for_each(|word| _ = memory.load_u64(8 * word));
            words.set(words.get() + 5000);
            if memory.load_u64(48_000) == 0 { Ok(()) } else { Err("the fault".into()) }
        },
    );
    assert_eq!(report.violation.unwrap().message, "the fault");
    assert!(words.get() < 20_000_000, "{words:?}");
}

#[test]
fn the_last_crash_is_not_left_to_the_end_of_a_long_search() {
    // Five thousand crashes behind each of which five thousand words are read.
    let words = Cell::new(0u64);
    let report = Check::new(Profile::IntelAdr, 64_000).run(
        |memory| {
            for word in 0..5000 {
                memory.store_u64(8 * word, 1);
                memory.flush(8 * word..8 * word + 8);
                memory.sfence();
            }
            memory.store_u64(48_000, 1);
        },
        |memory| {
            (0..5000).for_each(|word| _ = memory.load_u64(8 * word));
            words.set(words.get() + 5000);
            if memory.load_u64(48_000) == 0 { Ok(()) } else { Err("the fault".into()) }
        },
    );
    assert_eq!(report.violation.unwrap().message, "the fault");
    assert!(words.get() < 40_000_000, "{words:?}");
}
