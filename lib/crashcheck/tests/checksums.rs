//! Checksums of other people's formats are verified as the library's own: torn is torn, in however
//! many ways.

use std::ops::Range;

use ringfence_crashcheck::{Check, Machine, Profile, Report};
use ringfence_persist::{Mapped, Memory, Region, Request, checksum};

// CRC-32 (IEEE 802.3, reflected, as in zlib), bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

const SUM: usize = 0;
const START: usize = 64;

fn payload(words: usize) -> Range<usize> {
    START..START + 8 * words
}

fn bytes(words: usize) -> Vec<u8> {
    (0..8 * words).map(|byte| (byte as u8).wrapping_mul(7) | 1).collect()
}

// Everything in non-temporal stores, so that each word is there or not.
fn write(memory: &impl Memory, words: usize) {
    let bytes = bytes(words);
    memory.store_nt(START, &bytes);
    memory.store_nt(SUM, &u64::from(crc32(&bytes)).to_le_bytes());
    memory.sfence();
}

fn check(words: usize, read: impl Fn(&Machine) -> bool) -> Report {
    Check::new(Profile::IntelAdr, START + 8 * words).run(
        |memory| {
            write(memory, words);
            memory.acknowledge(1);
        },
        |memory| {
            let whole = read(memory);
            let mut found = vec![0; 8 * words];
            if whole {
                memory.load(START, &mut found);
            }
            match (memory.marks().is_empty(), whole, found == bytes(words)) {
                (false, false, _) => Err("acknowledged, and not there".into()),
                (_, true, false) => Err("torn, and taken for whole".into()),
                _ => Ok(()),
            }
        },
    )
}

fn verified(memory: &impl Memory, words: usize) -> bool {
    let sum = memory.load_u64(SUM);
    sum != 0
        && memory
            .verify_with("CRC-32", [payload(words), 0..0], &|bytes| u64::from(crc32(bytes)) == sum)
}

#[test]
fn a_checksum_of_ones_own_leaves_few_states() {
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    for words in [3, 4, 5, 40, 400] {
        let report = check(words, |memory| verified(memory, words));
        report.expect_sound();
        assert!(report.states < 10, "{words} words: {} states", report.states);
        // As with the library's own checksum.
        let own = Check::new(Profile::IntelAdr, START + 8 * words).run(
            |memory| {
                let bytes = bytes(words);
                memory.store_nt(START, &bytes);
                memory.store_nt(SUM, &checksum::of(&bytes, 0).to_le_bytes());
                memory.sfence();
                memory.acknowledge(1);
            },
            |memory| {
                let sum = memory.load_u64(SUM);
                let whole = sum != 0 && memory.verify([payload(words), 0..0], 0, sum);
                if whole {
                    memory.load(START, &mut vec![0; 8 * words])
                }
                Ok(())
            },
        );
        assert_eq!(report.states, own.states, "{words} words");
    }
}

#[test]
fn by_hand_the_same_checksum_is_torn_in_every_way() {
    let by_hand = |memory: &Machine| {
        let mut bytes = vec![0; 64];
        memory.load(START, &mut bytes);
        let sum = memory.load_u64(SUM);
        sum != 0 && u64::from(crc32(&bytes)) == sum
    };
    let report = check(8, by_hand);
    report.expect_sound();
    assert!(report.states >= 512 && check(8, |memory| verified(memory, 8)).states < 10);
}

// A page written by ordinary stores, of which each line leaves a first part; one flush, one fence.
fn page(words: usize, read: impl Fn(&Machine) -> bool) -> Report {
    let end = START + 8 * words;
    Check::new(Profile::IntelAdr, end).run(
        |memory| {
            memory.store(START, &bytes(words));
            memory.store_u64(SUM, crc32(&bytes(words)).into());
            memory.flush(0..end);
            memory.sfence();
        },
        |memory| {
            read(memory);
            Ok(())
        },
    )
}

#[test]
fn pages_of_any_length_are_alike() {
    for words in [24, 32, 40, 400] {
        let states = page(words, |memory| verified(memory, words)).states;
        assert!(states < 10, "{words} words: {states} states");
    }
    let by_hand = page(24, |memory| {
        let mut bytes = vec![0; 8 * 24];
        memory.load(START, &mut bytes);
        u64::from(crc32(&bytes)) == memory.load_u64(SUM)
    });
    // Three lines of nine first parts, and the sum.
    assert!(by_hand.states >= 2 * 9 * 9 * 9, "{}", by_hand.states);
}

#[test]
fn a_range_that_is_too_short_is_found() {
    let report = check(5, |memory| {
        let sum = memory.load_u64(SUM);
        // Only the sum is asked for, and not what it is of.
        memory.verify_with("nothing", [SUM..SUM + 8, 0..0], &|bytes| bytes == sum.to_le_bytes())
            && sum != 0
    });
    assert!(report.violation.is_some(), "{report}");
}

#[test]
fn a_story_names_the_checksum() {
    let report = check(3, |memory| {
        verified(memory, 3) || !memory.marks().is_empty() || memory.load_u64(START) != 0
    });
    let story = report.to_string();
    assert!(
        report.violation.is_some() && story.contains("verify   CRC-32 of 24 bytes at 64"),
        "{story}"
    );
}

#[test]
fn real_memory_takes_the_bytes_as_they_are() {
    let memory = Mapped::new(Region::map(&Request::dram(4096)).unwrap()).unwrap();
    write(&memory, 5);
    assert!(verified(&memory, 5));
    // Pieces are one after the other; borrowed memory does the same.
    let pieces = [START..START + 3, START + 3..START + 40];
    assert!(Memory::verify_with(&&memory, "CRC-32", pieces, &|bytes| u64::from(crc32(bytes))
        == memory.load_u64(SUM)));
    memory.store(START + 20, &[0]);
    assert!(!verified(&memory, 5));
}

// A checksum of what was in memory at no one time: the second line follows once the first holds
// something newer. A crash can leave the older first line beside the second, which is just what the
// sum was made for.
#[test]
fn a_sum_over_lines_of_different_times_is_met() {
    let program = |m: &Machine| {
        let fill =
            |at: usize, value: u64| (0..5).for_each(|word| m.store_u64(at + 8 * word, value));
        let made_for: Vec<u8> =
            [1u64, 2].iter().flat_map(|value| value.to_le_bytes().repeat(5)).collect();
        fill(64, 1);
        fill(64, 3);
        fill(128, 2);
        m.store_u64(0, checksum::of(&made_for, 7));
        m.flush(0..8);
        m.sfence();
    };
    let pieces = || [64..104, 128..168];
    let ideal = |m: &Machine| {
        let sum = m.load_u64(0);
        let fits = |bytes: &[u8]| checksum::of(bytes, 7) == sum;
        if sum != 0 && m.verify_with("XXH3", pieces(), &fits) {
            Err("accepted".to_owned())
        } else {
            Ok(())
        }
    };
    let own = |m: &Machine| {
        let sum = m.load_u64(0);
        if sum != 0 && m.verify(pieces(), 7, sum) { Err("accepted".to_owned()) } else { Ok(()) }
    };
    for profile in [Profile::IntelAdr, Profile::Amd, Profile::OldAmd] {
        assert!(Check::new(profile, 256).run(program, ideal).violation.is_some(), "{profile}");
        assert!(Check::new(profile, 256).run(program, own).violation.is_some(), "{profile}");
    }
    Check::new(Profile::Eadr, 256).run(program, ideal).expect_sound();
}
