//! Which methods of the workload `record` survive every crash, by the crash checker: the very code
//! that is timed.

use ringfence_crashcheck::{Check, Machine, Profile};
use ringfence_experiment::task::{PAYLOADS, RecordMethod};
use ringfence_persist::record::Record;
use ringfence_workloads::record::method;

const RECORDS: u64 = 3;

fn payload(number: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|byte| (byte as u64 * 7 + number) as u8 | 1).collect()
}

// A record is there whole or not at all, and once it was acknowledged it is there.
fn survives(method: RecordMethod, bytes: usize, profile: Profile) -> bool {
    let room = method::room(method, bytes);
    let write = |memory: &Machine| {
        for number in 0..RECORDS {
            method::write(method, memory, number as usize * room, &payload(number, bytes));
            memory.acknowledge(number);
        }
    };
    let recover = |memory: &Machine| {
        for number in 0..RECORDS {
            let mut found = vec![0; bytes];
            let there = method::read(method, memory, number as usize * room, &mut found);
            if there && found != payload(number, bytes) {
                return Err(format!("record {number} is torn"));
            }
            if !there && memory.marks().contains(&number) {
                return Err(format!("record {number} is lost"));
            }
        }
        Ok(())
    };
    let report = Check::new(profile, RECORDS as usize * room).run(write, recover);
    report.violation.is_none()
}

#[test]
fn all_but_the_one_that_nothing_orders_survive_every_crash() {
    for profile in Profile::ALL {
        for (method, bytes) in RecordMethod::ALL
            .iter()
            .flat_map(|method| PAYLOADS.map(|bytes| (*method, bytes as usize)))
        {
            if method == RecordMethod::Slots || method.in_one_line() && bytes > 56 {
                continue;
            }
            let sound = method != RecordMethod::SameLineNt;
            assert_eq!(
                survives(method, bytes, profile),
                sound,
                "{method:?} of {bytes} B under {profile}"
            );
        }
    }
}

// As the workload uses them: replaced in place, by the library.
#[test]
fn slots_keep_the_old_value_or_the_new_one() {
    for profile in Profile::ALL {
        let value = |number: u64| <[u8; 56]>::try_from(payload(number, 56)).expect("56 bytes");
        let report = Check::new(profile, 256).run(
            |memory| {
                let mut record = Record::create(memory, [0, 128], 1, &value(0));
                memory.acknowledge(0);
                for number in 1..RECORDS {
                    record.write(memory, &value(number));
                    memory.acknowledge(number);
                }
            },
            |memory| {
                let acknowledged = memory.marks().last().copied();
                let found = Record::<56>::open(memory, [0, 128], 1).map(|(_, value)| value);
                let right = match (acknowledged, found) {
                    (None, None) => true,
                    (last, Some(found)) => {
                        let next = last.map_or(0, |last| last + 1);
                        [last, Some(next)]
                            .into_iter()
                            .flatten()
                            .any(|number| found == value(number))
                    }
                    (Some(_), None) => false,
                };
                if right {
                    Ok(())
                } else {
                    Err(format!("acknowledged {acknowledged:?}, found {found:?}"))
                }
            },
        );
        report.expect_sound();
    }
}
