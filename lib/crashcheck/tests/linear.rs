//! What a check costs grows with what the program does, and not with its square; nor with how large
//! memory is. Counted in bytes that are asked for, and in instructions of memory, since time
//! depends on the machine.

#[path = "support/queue.rs"]
mod queue;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ringfence_crashcheck::{Check, Machine, Profile, Report};
use ringfence_persist::Memory;

struct Counting;

thread_local! {
    static ASKED: Cell<u64> = const { Cell::new(0) };
    static HELD: Cell<i64> = const { Cell::new(0) };
    static MOST: Cell<i64> = const { Cell::new(0) };
}

fn count(bytes: i64) {
    // Where a thread ends there is nothing left to count in.
    _ = ASKED.try_with(|asked| asked.set(asked.get() + bytes.max(0) as u64));
    _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        _ = MOST.try_with(|most| most.set(most.get().max(held.get())));
    });
}

// SAFETY: all is the system's own; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as the caller has it.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: as the caller has it.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// Bytes that were asked for, and the most that were held at once.
fn bytes(work: impl FnOnce()) -> (u64, i64) {
    let (asked, held) = (ASKED.get(), HELD.get());
    MOST.set(held);
    work();
    (ASKED.get() - asked, MOST.get() - held)
}

// Eight times as much is done for eight times as much: tables that double and trees that grow by a
// level are let pass.
fn is_linear(name: &str, run: impl Fn(usize) -> Report) {
    let cost = |count| bytes(|| run(count).expect_sound()).0;
    let (few, many) = (cost(500), cost(4000));
    assert!(many < 8 * few * 3 / 2, "{name}: {few} bytes were asked for, then {many}");
}

fn durable(memory: &Machine, at: usize, value: u64) {
    memory.store_u64(at, value);
    memory.flush(at..at + 8);
    memory.sfence();
}

#[test]
fn crashes_cost_the_same_however_much_was_done_before_them() {
    for profile in Profile::ALL {
        for strong in [false, true] {
            let check = |len| {
                let check = Check::new(profile, len);
                if strong { check.clflush() } else { check }
            };
            let two_words = |memory: &Machine| {
                memory.load_u64(0);
                memory.load_u64(8);
                Ok(())
            };
            is_linear(&format!("{profile}, fenced stores"), |count| {
                check(8 * count).run(
                    |memory| (0..count).for_each(|word| durable(memory, 8 * word, 1)),
                    two_words,
                )
            });
            is_linear(&format!("{profile}, acknowledged stores to one word"), |count| {
                let program = |memory: &Machine| {
                    for value in 1..=count as u64 {
                        durable(memory, 16, value);
                        memory.acknowledge(value);
                    }
                };
                check(64).run(program, two_words)
            });
            is_linear(&format!("{profile}, stores that nothing flushes"), |count| {
                let program = |memory: &Machine| {
                    for word in 2..2 + count {
                        memory.store_u64(8 * word, 1);
                        memory.mark(1);
                    }
                };
                check(8 * count + 16).run(program, two_words)
            });
        }
    }
    is_linear("marks", |count| {
        let program = |memory: &Machine| (0..count as u64).for_each(|mark| memory.mark(mark));
        Check::new(Profile::IntelAdr, 64).run(program, |_| Ok(()))
    });
    is_linear("half a word", |count| {
        let program = |memory: &Machine| {
            for value in 0..count as u32 {
                memory.store(4, &value.to_le_bytes());
                memory.flush(4..8);
                memory.sfence();
            }
        };
        Check::new(Profile::IntelAdr, 64).run(program, |_| Ok(()))
    });
    is_linear("processes that die", |count| {
        let program = |memory: &Machine| (0..count).for_each(|word| durable(memory, 8 * word, 1));
        Check::new(Profile::IntelAdr, 8 * count).kills().run(program, |memory| {
            memory.load_u64(0);
            Ok(())
        })
    });
}

#[test]
fn crashes_of_a_later_life_cost_the_same_too() {
    is_linear("a life behind a crash", |count| {
        let life = |memory: &Machine, from: usize| {
            (from..count).for_each(|word| durable(memory, 8 * word, 1))
        };
        Check::new(Profile::IntelAdr, 8 * count).crashes(2).run(
            |memory| durable(memory, 0, 1),
            |memory| {
                if memory.marks().is_empty() && memory.load_u64(0) == 1 {
                    memory.mark(1);
                    life(memory, 1);
                }
                Ok(())
            },
        )
    });
}

#[test]
fn a_queue_is_sound_and_each_of_its_states_costs_the_same() {
    for profile in Profile::ALL {
        for crashes in 1..=2 {
            let cost = |operations: usize| {
                let mut states = 0;
                let check = Check::new(profile, queue::len(operations)).crashes(crashes);
                let (asked, _) = bytes(|| {
                    let report =
                        check.run(|memory| queue::run(memory, operations), queue::recovery);
                    report.expect_sound();
                    states = report.states;
                });
                asked / states
            };
            let (few, many) = (cost(64), cost(512));
            // All marks are handed to each recovery, 8 bytes each.
            assert!(
                many < few * 3 / 2 + 512 * 8,
                "{profile}: {few} bytes for a state, then {many}"
            );
        }
    }
}

const TERABYTE: usize = 1 << 40;

#[test]
fn a_terabyte_costs_what_is_touched() {
    let (_, most) = bytes(|| {
        for profile in Profile::ALL {
            let last = TERABYTE - 8;
            let report =
                Check::new(profile, TERABYTE).crashes(2).kills().name(last..TERABYTE, "last").run(
                    |memory| {
                        durable(memory, last, 1);
                        memory.acknowledge(1);
                        durable(memory, TERABYTE / 2, 2);
                        memory.store_nt(0, &3u64.to_le_bytes());
                    },
                    |memory| {
                        let found = [0, TERABYTE / 2, last].map(|at| memory.load_u64(at));
                        assert!(!memory.marks().contains(&1) || found[2] == 1);
                        // Words that only their high bits tell apart.
                        assert_eq!(memory.load_u64(TERABYTE / 4), 0);
                        if memory.marks().len() < 2 {
                            durable(memory, TERABYTE / 4 + 8, 4);
                            memory.mark(2);
                        }
                        Ok(())
                    },
                );
            report.expect_sound();
        }
    });
    assert!(most < 1 << 20, "{most} bytes were in use");
}

#[test]
fn words_that_only_high_bits_tell_apart_are_told_by_their_names() {
    let (last, stored) = (TERABYTE - 64, Cell::new(0));
    let report = Check::new(Profile::IntelAdr, TERABYTE)
        .array(0, 64, TERABYTE / 64, "slot", &[(0..8, "count")])
        .run(
            |memory| {
                // 2^32 words apart.
                memory.store_u64(last - (8 << 32), 1);
                memory.store_u64(last, 2);
                stored.set(line!() - 1);
                memory.acknowledge(1);
            },
            |memory| {
                let lost = memory.load_u64(last) == 0 && !memory.marks().is_empty();
                if lost { Err("lost".into()) } else { Ok(()) }
            },
        );
    let violation = report.violation.expect("nothing was flushed");
    let told = violation.to_string();
    assert!(told.contains(&format!("slot[{}].count = 2", last / 64)), "{told}");
    assert!(told.contains(&format!("slot[{}].count = 1", (last - (8 << 32)) / 64)), "{told}");
    assert_eq!(violation.fix.expect("a flush and a fence do").after().line(), stored.get());
    assert!(report.lints.iter().any(|lint| lint.bytes == (last..last + 8)), "{:?}", report.lints);
}

#[test]
fn a_range_outside_of_a_terabyte_is_refused() {
    let refused = catch_unwind(AssertUnwindSafe(|| {
        Check::new(Profile::IntelAdr, TERABYTE)
            .run(|memory| memory.store_u64(TERABYTE, 1), |_| Ok(()))
    }));
    assert!(refused.is_err());
}
