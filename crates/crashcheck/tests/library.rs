//! The persistence library under check: its records, its lines and its ring.

use ringfence_crashcheck::{Check, Machine, Profile};
use ringfence_persist::record::Record;
use ringfence_persist::ring::{Consumer, Producer, Shape, format, recover};

#[test]
fn a_record_is_replaced_whole_or_not_at_all() {
    for profile in Profile::ALL {
        let report = Check::new(profile, 1024).crashes(2).run(
            |memory| {
                let mut record = Record::<24>::create(memory, [0, 256], 7, &[1; 24]);
                memory.mark(1);
                for value in 2..5 {
                    record.write(memory, &[value; 24]);
                    memory.mark(u64::from(value));
                }
            },
            |memory| {
                let last = memory.marks().last().copied().unwrap_or(0);
                match Record::<24>::open(memory, [0, 256], 7) {
                    None if last == 0 => Ok(()),
                    None => Err("the record is gone".into()),
                    Some((mut record, value)) => {
                        let number = u64::from(value[0]);
                        if value != [value[0]; 24] || number < last || number > last + 1 {
                            return Err(format!("{value:?} after {last}"));
                        }
                        memory.mark(number);
                        if number < 6 {
                            record.write(memory, &[value[0] + 1; 24]);
                            memory.mark(number + 1);
                        }
                        Ok(())
                    }
                }
            },
        );
        println!(
            "{profile}: {} crashes, {} paths, {} merged",
            report.crash_points, report.states, report.merged
        );
        assert!(
            report.violation.is_none(),
            "{profile}: {:?}",
            report.violation.map(|v| format!("{}\n{}", v.message, v.story))
        );
        assert!(!report.bounded);
    }
}

// Marks: 1000 + number: begun; 2000 + number: acknowledged; 4000 + number: being popped; 3000 + number: durably
// popped.
fn payload(number: u64) -> Vec<u8> {
    vec![number as u8; [5, 45, 3, 60][number as usize % 4]]
}

fn push(memory: &Machine, producer: &mut Producer<&Machine>, number: u64) {
    memory.mark(1000 + number);
    if producer.try_push(&payload(number)).is_ok() {
        memory.mark(2000 + number);
    }
}

fn ring(memory: &Machine) -> Result<(), String> {
    let marks = memory.marks();
    let of = |kind: u64| marks.iter().filter(move |mark| *mark / 1000 == kind).map(|mark| mark % 1000);
    if of(9).next().is_none() {
        return Ok(());
    }
    recover(&memory).map_err(|error| error.to_string())?;
    let mut consumer = Consumer::attach(memory).map_err(|error| error.to_string())?;
    let mut there = Vec::new();
    consumer
        .scan(|entry| {
            there.push((u64::from(entry[0]), entry.to_vec()));
            std::ops::ControlFlow::Continue(())
        })
        .map_err(|error| error.to_string())?;
    if !there.is_sorted_by(|one, other| one.0 < other.0)
        || there.iter().any(|(number, bytes)| *bytes != payload(*number))
    {
        return Err(format!("torn or out of order: {there:?}"));
    }
    let popped = of(3).max().unwrap_or(0);
    if let Some((number, _)) = there.iter().find(|(number, _)| *number <= popped) {
        return Err(format!("{number} came again, though {popped} was popped durably"));
    }
    let popping = of(4).max().unwrap_or(0);
    for number in of(2).filter(|number| *number > popping) {
        if !there.iter().any(|(other, _)| *other == number) {
            return Err(format!("{number} was acknowledged and is lost; there are {there:?}"));
        }
    }
    // The next life: what is there now is there for good.
    there.iter().for_each(|(number, _)| memory.mark(2000 + number));
    let mut producer = Producer::attach(memory).map_err(|error| error.to_string())?;
    if let Some(entry) = consumer.try_read().map_err(|error| error.to_string())? {
        let number = u64::from(entry[0]);
        memory.mark(4000 + number);
        entry.pop_durably().map_err(|error| error.to_string())?;
        memory.mark(3000 + number);
    }
    let next = of(1).max().unwrap_or(0) + 1;
    push(memory, &mut producer, next);
    // Dropping a consumer commits; a crash does not.
    std::mem::forget(consumer);
    Ok(())
}

#[test]
fn the_ring_loses_nothing_and_revives_nothing() {
    for profile in Profile::ALL {
        let start = std::time::Instant::now();
        let report = Check::new(profile, 4096 + 64 * 8).crashes(2).run(
            |memory| {
                format(memory, &Shape::new(64 * 6, 64, 99).unwrap()).unwrap();
                memory.mark(9000);
                recover(memory).unwrap();
                let (mut producer, mut consumer) =
                    (Producer::attach(memory).unwrap(), Consumer::attach(memory).unwrap());
                for number in 1..=8 {
                    if number == 4 {
                        let mut batch = producer.batch().unwrap();
                        memory.mark(1004);
                        batch.push(&payload(4)).unwrap();
                        memory.mark(1005);
                        batch.push(&payload(5)).unwrap();
                        batch.commit().unwrap();
                        memory.mark(2004);
                        memory.mark(2005);
                    } else if number != 5 {
                        push(memory, &mut producer, number);
                    }
                    if number >= 3 {
                        let entry = consumer.try_read().unwrap().unwrap();
                        let number = u64::from(entry[0]);
                        memory.mark(4000 + number);
                        entry.pop_durably().unwrap();
                        memory.mark(3000 + number);
                    }
                }
                std::mem::forget(consumer);
            },
            ring,
        );
        println!(
            "{profile}: {} crashes, {} paths, {} merged, {:?}",
            report.crash_points,
            report.states,
            report.merged,
            start.elapsed()
        );
        assert!(
            report.violation.is_none(),
            "{profile}: {}",
            report.violation.map(|v| format!("{}\n{}", v.message, v.story)).unwrap()
        );
        assert!(!report.bounded);
    }
}
