//! A ring of the persistence library under check: a life with pushes, a batch and pops, and what must hold
//! after a crash of it.

use std::ops::ControlFlow;

use ringfence_crashcheck::{Check, Machine, Profile};
use ringfence_persist::ring::{Consumer, Producer, Shape, format, recover};

const ENTRIES: usize = 4096;
const LINES: usize = 6;

// What is marked, with the number of the entry.
const BEGUN: u64 = 1000;
const PUSHED: u64 = 2000;
const POPPED: u64 = 3000;
const BEING_POPPED: u64 = 4000;
const FORMATTED: u64 = 9000;

pub fn check(profile: Profile, pushes: u64) -> Check {
    assert!(pushes < 250, "a number is told by one byte, and recovery adds some");
    Check::new(profile, ENTRIES + 64 * LINES)
        .name(0..64, "head")
        .array(
            256,
            256,
            2,
            "epoch record",
            &[(0..8, "sum"), (8..16, "sequence"), (16..24, "epoch"), (24..32, "start")],
        )
        .array(768, 256, 2, "cursor record", &[(0..8, "sum"), (8..16, "sequence"), (16..24, "cursor")])
        .name(1280..1288, "published")
        .name(1536..1544, "freed")
        .array(
            ENTRIES,
            64,
            LINES,
            "line",
            &[(0..8, "sum"), (8..16, "position"), (16..24, "epoch"), (24..28, "length")],
        )
}

// One line or two.
fn payload(number: u64) -> Vec<u8> {
    vec![number as u8; [5, 45, 3, 60][number as usize % 4]]
}

fn push(memory: &Machine, producer: &mut Producer<&Machine>, number: u64) {
    memory.mark(BEGUN + number);
    if producer.try_push(&payload(number)).is_ok() {
        memory.mark(PUSHED + number);
    }
}

fn pop(memory: &Machine, consumer: &mut Consumer<&Machine>) -> Result<(), String> {
    let Some(entry) = consumer.try_read().map_err(|error| error.to_string())? else { return Ok(()) };
    let number = u64::from(entry[0]);
    memory.mark(BEING_POPPED + number);
    entry.pop_durably().map_err(|error| error.to_string())?;
    memory.mark(POPPED + number);
    Ok(())
}

/// Makes a ring, and pushes so many entries, the fourth and fifth in a batch; once three are in, one is popped
/// for each push, so that the ring wraps around.
pub fn life(memory: &Machine, pushes: u64) {
    format(memory, &Shape::new(64 * LINES, 64, 99).unwrap()).unwrap();
    memory.mark(FORMATTED);
    recover(memory).unwrap();
    let (mut producer, mut consumer) = (Producer::attach(memory).unwrap(), Consumer::attach(memory).unwrap());
    for number in 1..=pushes {
        match number {
            4 if pushes > 4 => {
                let mut batch = producer.batch().unwrap();
                for number in [4, 5] {
                    memory.mark(BEGUN + number);
                    batch.push(&payload(number)).unwrap();
                }
                batch.commit().unwrap();
                [4, 5].iter().for_each(|number| memory.mark(PUSHED + number));
            }
            5 => {}
            _ => push(memory, &mut producer, number),
        }
        if number >= 3 {
            pop(memory, &mut consumer).unwrap();
        }
    }
    // Dropping a consumer commits; a crash does not.
    std::mem::forget(consumer);
}

/// Opens the ring again, compares it with what was marked, and lives on: pops an entry, pushes one.
pub fn recovery(memory: &Machine) -> Result<(), String> {
    let marks = memory.marks();
    let of = |kind: u64| marks.iter().filter(move |mark| *mark / 1000 == kind / 1000).map(|mark| mark % 1000);
    if of(FORMATTED).next().is_none() {
        return Ok(());
    }
    recover(&memory).map_err(|error| error.to_string())?;
    let mut consumer = Consumer::attach(memory).map_err(|error| error.to_string())?;
    let mut there = Vec::new();
    consumer
        .scan(|entry| {
            there.push((u64::from(entry[0]), entry.to_vec()));
            ControlFlow::Continue(())
        })
        .map_err(|error| error.to_string())?;
    if !there.is_sorted_by(|one, other| one.0 < other.0)
        || there.iter().any(|(number, bytes)| *bytes != payload(*number))
    {
        return Err(format!("torn or out of order: {there:?}"));
    }
    let popped = of(POPPED).max().unwrap_or(0);
    if let Some((number, _)) = there.iter().find(|(number, _)| *number <= popped) {
        return Err(format!("{number} came again, though {popped} was popped durably"));
    }
    let being_popped = of(BEING_POPPED).max().unwrap_or(0);
    for number in of(PUSHED).filter(|number| *number > being_popped) {
        if !there.iter().any(|(other, _)| *other == number) {
            return Err(format!("{number} was acknowledged and is lost; there are {there:?}"));
        }
    }
    // The next life: what is there now is there for good.
    there.iter().for_each(|(number, _)| memory.mark(PUSHED + number));
    let mut producer = Producer::attach(memory).map_err(|error| error.to_string())?;
    pop(memory, &mut consumer)?;
    push(memory, &mut producer, of(BEGUN).max().unwrap_or(0) + 1);
    std::mem::forget(consumer);
    Ok(())
}
