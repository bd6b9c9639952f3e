//! Stores keep what their names promise: durable on return, published whole, in order, and nothing
//! else touched.

use std::ops::Range;

use ringfence_crashcheck::{Check, Machine};
use ringfence_persist::{Memory, Methods, Stores};

use crate::in_all_ways;

fn stores(memory: &Machine, nt_threshold: usize) -> Stores<&Machine> {
    Stores::over(memory, Methods { nt_threshold, ..Methods::of_processor() })
}

fn bytes(memory: &Machine, range: Range<usize>) -> Vec<u8> {
    let mut bytes = vec![0; range.len()];
    memory.load(range.start, &mut bytes);
    bytes
}

// The last number that was marked.
fn last(memory: &Machine) -> u64 {
    memory.marks().last().copied().unwrap_or(0)
}

fn expect(what: &str, found: Vec<u8>, wanted: &[u8]) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("{what} is {found:?} instead of {wanted:?}")) }
}

// A payload elsewhere, then the word that says so.
#[test]
fn a_word_is_published_behind_what_was_durable() {
    for nt_threshold in [0, usize::MAX] {
        in_all_ways(
            "publish",
            |profile| Check::new(profile, 256).name(0..8, "word").name(64..256, "payload"),
            |memory| {
                let mut stores = stores(memory, nt_threshold);
                for number in 1..4u8 {
                    _ = stores.copy(64 * usize::from(number), &[number; 24]).unwrap();
                    _ = stores.publish(0, u64::from(number)).unwrap();
                    memory.mark(u64::from(number));
                }
            },
            |memory| {
                let number = memory.load_u64(0);
                if number < last(memory) || number > last(memory) + 1 {
                    return Err(format!("{number} after {}", last(memory)));
                }
                (1..=number as u8).try_for_each(|number| {
                    let at = 64 * usize::from(number);
                    expect("payload", bytes(memory, at..at + 24), &[number; 24])
                })
            },
        );
    }
}

// Again and again into one line: an old flag may stand beside a part of the next payload, a new one
// never.
#[test]
fn a_line_is_published_with_its_payload() {
    for len in [0, 5, 24, 56] {
        in_all_ways(
            "publish line",
            |profile| Check::new(profile, 192).name(64..64 + len, "payload").name(120..128, "flag"),
            |memory| {
                let mut stores = stores(memory, 0);
                for number in 1..4u8 {
                    memory.mark(100 + u64::from(number));
                    _ = stores.publish_line(64, &vec![number; len], u64::from(number)).unwrap();
                    memory.mark(u64::from(number));
                }
            },
            |memory| {
                let begun =
                    memory.marks().into_iter().filter(|mark| *mark > 100).max().unwrap_or(100)
                        - 100;
                let last = memory.marks().into_iter().filter(|mark| *mark < 100).max().unwrap_or(0);
                let flag = memory.load_u64(120);
                if flag != last && flag != begun {
                    return Err(format!("flag {flag} after {last}"));
                }
                let payload = bytes(memory, 64..64 + len);
                if flag == begun {
                    return expect("payload", payload, &vec![flag as u8; len]);
                }
                let new = payload.iter().take_while(|byte| u64::from(**byte) == begun).count();
                if payload[new..].iter().all(|byte| u64::from(*byte) == flag) {
                    Ok(())
                } else {
                    Err(format!("{payload:?} beside {flag}"))
                }
            },
        );
    }
}

// Between bytes of others, which stay.
fn copied(
    what: &str,
    ranges: &[Range<usize>],
    copy: impl Fn(&mut Stores<&Machine>, &Range<usize>, u8),
) {
    for nt_threshold in [0, usize::MAX] {
        in_all_ways(
            what,
            |profile| Check::new(profile, 8192),
            |memory| {
                let mut stores = stores(memory, nt_threshold);
                for (number, range) in ranges.iter().enumerate() {
                    let (before, behind) = (range.start - 9..range.start, range.end..range.end + 9);
                    _ = stores.fill(before.start..behind.end, 99).unwrap();
                    memory.mark(2 * number as u64 + 1);
                    copy(&mut stores, range, number as u8 + 1);
                    memory.mark(2 * number as u64 + 2);
                }
            },
            |memory| {
                let (done, begun) = (last(memory) as usize / 2, last(memory).div_ceil(2) as usize);
                for (number, range) in ranges[..begun].iter().enumerate() {
                    expect(
                        "the part before",
                        bytes(memory, range.start - 9..range.start),
                        &[99; 9],
                    )?;
                    expect("the part behind", bytes(memory, range.end..range.end + 9), &[99; 9])?;
                    if number < done {
                        let wanted = vec![number as u8 + 1; range.len()];
                        expect("the copy", bytes(memory, range.clone()), &wanted)?;
                    }
                }
                Ok(())
            },
        );
    }
}

#[test]
fn a_copy_is_durable_on_return() {
    // Aligned and not, within a word, a line and beyond.
    copied(
        "copy",
        &[64..72, 131..134, 261..290, 333..400, 512..512 + 130],
        |stores, range, byte| {
            _ = stores.copy(range.start, &vec![byte; range.len()]).unwrap();
        },
    );
}

#[test]
fn a_fill_is_durable_on_return() {
    // Beyond a page, too.
    copied("fill", &[67..75, 192..260, 4090..4170], |stores, range, byte| {
        _ = stores.fill(range.clone(), byte).unwrap();
    });
}

#[test]
fn what_was_stored_flushed_and_fenced_is_durable() {
    copied("store, flush, fence", &[67..75, 192..260], |stores, range, byte| {
        let half = range.len() / 2;
        let one = stores.store(range.start, &vec![byte; half]);
        let other = stores.store(range.start + half, &vec![byte; range.len() - half]);
        let flushed = [stores.flush(one), stores.flush(other)];
        _ = stores.fence(flushed).unwrap();
    });
    copied("persist", &[67..75, 192..260], |stores, range, byte| {
        stores.memory().store(range.start, &vec![byte; range.len()]);
        _ = stores.persist(range.clone()).unwrap();
    });
}

#[test]
fn a_batch_is_durable_on_return() {
    copied("batch", &[64..72, 131..230, 320..400], |stores, range, byte| {
        let half = (range.len() / 2) & !7;
        let batch = stores.batch(|batch| {
            batch.copy(range.start, &vec![byte; half]);
            batch.copy(range.start + half, &vec![byte; range.len() - half]);
        });
        assert_eq!(batch.unwrap().1.bytes(), range.len());
    });
}
