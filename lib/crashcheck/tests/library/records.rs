//! Records are replaced whole or not at all.

use ringfence_crashcheck::{Check, Machine};
use ringfence_persist::Memory;
use ringfence_persist::record::Record;

use crate::in_all_ways;

const SLOTS: [usize; 2] = [0, 256];
const SEED: u64 = 7;

// One after the other; each is marked once it is durable.
fn write<const N: usize>(memory: &Machine, record: &mut Record<N>, values: std::ops::Range<u8>) {
    for value in values {
        record.write(memory, &[value; N]);
        memory.mark(u64::from(value));
    }
}

fn goes_on<const N: usize>(memory: &Machine) -> Result<(), String> {
    let last = memory.marks().last().copied().unwrap_or(0);
    let Some((mut record, value)) = Record::<N>::open(memory, SLOTS, SEED) else {
        return if last == 0 { Ok(()) } else { Err("the record is gone".into()) };
    };
    let number = u64::from(value[0]);
    if value != [value[0]; N] || number < last || number > last + 1 {
        return Err(format!("{value:?} after {last}"));
    }
    // What was seen stays.
    memory.mark(number);
    if number < 6 {
        write(memory, &mut record, value[0] + 1..value[0] + 2);
    }
    Ok(())
}

fn replaced<const N: usize>() {
    in_all_ways(
        &format!("record of {N}"),
        |profile| {
            Check::new(profile, 512).array(0, 256, 2, "slot", &[(0..8, "sum"), (8..16, "sequence")])
        },
        |memory| {
            let mut record = Record::<N>::create(memory, SLOTS, SEED, &[1; N]);
            memory.mark(1);
            write(memory, &mut record, 2..5);
        },
        goes_on::<N>,
    );
}

#[test]
fn a_record_of_a_word_is_replaced_whole_or_not_at_all() {
    replaced::<1>();
    replaced::<8>();
}

#[test]
fn a_record_of_a_line_is_replaced_whole_or_not_at_all() {
    replaced::<24>();
    replaced::<48>();
}

#[test]
fn a_record_of_two_lines_is_replaced_whole_or_not_at_all() {
    replaced::<49>();
}

// The next writer is the first to fence.
#[test]
fn a_value_that_was_put_is_there_behind_the_fence() {
    in_all_ways(
        "record put",
        |profile| Check::new(profile, 512),
        |memory| {
            let mut record = Record::<24>::create(memory, SLOTS, SEED, &[1; 24]);
            memory.mark(1);
            for value in 2..5 {
                record.put(memory, &[value; 24]);
                memory.sfence();
                memory.mark(u64::from(value));
            }
        },
        goes_on::<24>,
    );
}

// What was on its way and found missing stays away, though the next value has some of its words.
#[test]
fn a_value_that_was_torn_never_comes() {
    const BEGUN: u64 = 1000;
    let write = |memory: &Machine, record: &mut Record<24>, number: u8| {
        let mut value = [5; 24];
        value[8] = number;
        memory.mark(BEGUN + u64::from(number));
        record.write(memory, &value);
        memory.mark(u64::from(number));
    };
    in_all_ways(
        "torn record",
        |profile| {
            Check::new(profile, 512).array(0, 256, 2, "slot", &[(0..8, "sum"), (8..16, "sequence")])
        },
        |memory| {
            let mut record = Record::<24>::create(memory, SLOTS, SEED, &[5; 24]);
            memory.mark(5);
            (6..9).for_each(|number| write(memory, &mut record, number));
        },
        |memory| {
            let marks = memory.marks();
            let Some(last) = marks.iter().rev().find(|mark| **mark < BEGUN) else { return Ok(()) };
            let begun = marks.last().and_then(|mark| mark.checked_sub(BEGUN));
            let (mut record, value) =
                Record::<24>::open(memory, SLOTS, SEED).ok_or("the record is gone")?;
            let number = u64::from(value[8]);
            if number != *last && Some(number) != begun {
                return Err(format!("{value:?} after {last} and in {begun:?}"));
            }
            memory.mark(number);
            let next = 1 + marks.iter().map(|mark| mark % BEGUN).max().unwrap_or(0);
            write(memory, &mut record, next as u8);
            Ok(())
        },
    );
}

const MAKING: u64 = 1000;

// Over a record that was there: with its seed, or with another, which tells the two apart even
// while the new one is being made.
fn made_anew(seed: u64) {
    in_all_ways(
        &format!("record made anew with seed {seed}"),
        |profile| Check::new(profile, 512),
        |memory| {
            let mut record = Record::<24>::create(memory, SLOTS, SEED, &[1; 24]);
            write(memory, &mut record, 2..5);
            memory.mark(MAKING);
            let mut record = Record::<24>::create(memory, SLOTS, seed, &[11; 24]);
            memory.mark(11);
            write(memory, &mut record, 12..13);
        },
        |memory| {
            let marks = memory.marks();
            if !marks.contains(&MAKING) {
                return Ok(());
            }
            let last = marks.last().copied().filter(|mark| *mark != MAKING);
            let found = Record::<24>::open(memory, SLOTS, seed).map(|(_, value)| value);
            match (last, found) {
                (None, None) => Ok(()),
                (None, Some(value)) if value == [11; 24] => Ok(()),
                (None, Some(value)) if seed == SEED && value[0] <= 4 && value == [value[0]; 24] => {
                    Ok(())
                }
                (Some(last), Some(value))
                    if value == [value[0]; 24]
                        && (last..=last + 1).contains(&u64::from(value[0])) =>
                {
                    Ok(())
                }
                (last, found) => Err(format!("{found:?} is there after {last:?}")),
            }
        },
    );
}

#[test]
fn a_record_made_anew_forgets_the_old_one() {
    made_anew(SEED);
}

#[test]
fn a_record_made_anew_is_told_from_the_old_one_by_its_seed() {
    made_anew(SEED + 1);
}
