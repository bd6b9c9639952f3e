//! The hash table under check.

use std::collections::BTreeMap;

use ringfence_crashcheck::{Machine, Profile, Report};

use crate::history::{self, ADR, ALL, How, OLD_AMD, WEAK_CLFLUSH, expect};
use crate::level_hash::{Bug, LevelHash, VALUE};

const INSERT: u64 = 1;
const UPDATE: u64 = 2;
const DELETE: u64 = 3;

fn operate(
    machine: &Machine,
    table: &LevelHash<&Machine>,
    (kind, key, value): (u64, u64, u8),
) -> Result<(), String> {
    history::operate(machine, kind << 16 | key << 8 | u64::from(value), || match kind {
        INSERT => table.insert(key, &[value; VALUE]).map_err(|_| format!("no room for {key}")),
        UPDATE => table
            .update(key, &[value; VALUE])
            .then_some(())
            .ok_or(format!("{key} is not there to update")),
        _ => table.delete(key).then_some(()).ok_or(format!("{key} is not there to delete")),
    })
}

fn left_by(operations: &[u64]) -> Vec<(u64, u8)> {
    let mut items = BTreeMap::new();
    for operation in operations {
        let (kind, key, value) = (operation >> 16, operation >> 8 & 0xff, *operation as u8);
        if kind == DELETE {
            items.remove(&key)
        } else {
            items.insert(key, value)
        };
    }
    items.into_iter().collect()
}

fn verify(table: &LevelHash<&Machine>) -> Result<Vec<(u64, u8)>, String> {
    let items = table.items();
    if table.len() != items.len() {
        return Err(format!("{} items are counted, and {} there", table.len(), items.len()));
    }
    let whole = |(key, value): &(u64, [u8; VALUE])| match table.get(*key) {
        None => Err(format!("{key} is there, and cannot be found")),
        Some(_) if *value != [value[0]; VALUE] => {
            Err(format!("the value of {key} is torn: {value:?}"))
        }
        Some(found) if found != *value => Err(format!("{key} is there with two values")),
        Some(_) => Ok((*key, value[0])),
    };
    items.iter().map(whole).collect()
}

fn recovery(machine: &Machine, bug: Option<Bug>) -> Result<(), String> {
    let past = history::past(machine);
    let table = match LevelHash::open(machine, bug) {
        None if past.created => return Err("the table is gone".into()),
        None => return Ok(()),
        Some(table) => table.map_err(|_| "the table cannot be expanded any more")?,
    };
    history::settle(machine, &past, &verify(&table)?, left_by)?;
    // Life goes on.
    let fresh = 100 + past.begun.len() as u64;
    operate(machine, &table, (INSERT, fresh, 7))?;
    if let Some((key, _)) = table.items().first() {
        operate(machine, &table, (DELETE, *key, 0))?;
    }
    let now = history::past(machine);
    let items = verify(&table)?;
    if items != left_by(&now.done) {
        return Err(format!("{items:?} after the next operations"));
    }
    Ok(())
}

fn check(profile: Profile, how: How, bug: Option<Bug>) -> Report {
    how.check(profile, 4096).run(
        |machine| {
            let table = LevelHash::create(machine, 1, 2, bug);
            history::created(machine);
            for operation in PROGRAM {
                operate(machine, &table, *operation).unwrap();
            }
        },
        |machine| recovery(machine, bug),
    )
}

// Six slots in three buckets are filled; both ways to update; then an expansion, and movements in
// the new table.
const PROGRAM: &[(u64, u64, u8)] = &[
    (INSERT, 1, 1),
    (INSERT, 2, 2),
    (INSERT, 3, 3),
    (INSERT, 4, 4),
    (INSERT, 5, 5),
    (INSERT, 6, 6),
    (UPDATE, 3, 13),
    (DELETE, 2, 0),
    (UPDATE, 4, 14),
    (UPDATE, 1, 11),
    (INSERT, 7, 7),
    (INSERT, 8, 8),
    (INSERT, 15, 15),
    (INSERT, 9, 9),
    (INSERT, 10, 10),
    (INSERT, 14, 14),
    (INSERT, 18, 18),
    (INSERT, 19, 19),
];

#[test]
fn level_hashing_survives_crashes() {
    for (how, wanted) in [(How::Once, &[][..]), (How::Twice, &[]), (How::Clflush, OLD_AMD)] {
        expect("level hash", None::<Bug>, how, wanted, |profile| check(profile, how, None));
    }
}

#[test]
fn bugs_of_level_hashing_are_found() {
    for (bug, wanted, with_clflush) in [
        (Bug::TokenWithSlot, ADR, WEAK_CLFLUSH),
        (Bug::SlotNotFlushed, ADR, ADR),
        (Bug::TwoTokens, ALL, ALL),
        (Bug::NoLog, ALL, ALL),
        (Bug::LogFlagFirst, ALL, ALL),
        (Bug::LogClearedEarly, ADR, WEAK_CLFLUSH),
        (Bug::MoveDeletesEarly, ADR, WEAK_CLFLUSH),
        (Bug::KeepTwice, ALL, ALL),
        (Bug::SizeFirst, ALL, ALL),
        (Bug::PublishBeforeRehash, ALL, ALL),
        (Bug::InterimNotNoted, ALL, ALL),
        (Bug::RehashNotFlushed, ADR, ADR),
        (Bug::CountApart, ALL, ALL),
    ] {
        for (how, wanted) in [(How::Once, wanted), (How::Clflush, with_clflush)] {
            expect("level hash", Some(bug), how, wanted, |profile| check(profile, how, Some(bug)));
        }
    }
}

#[test]
fn level_hashing_is_a_map() {
    let table = LevelHash::create(history::plain_memory(1 << 18), 1, 3, None);
    let (mut random, mut map) = (history::random(2), BTreeMap::new());
    for round in 0..4000 {
        let (key, value) = (random(300), [random(256) as u8; VALUE]);
        let is_there = map.contains_key(&key);
        match random(5) {
            0 => assert_eq!(table.delete(key), map.remove(&key).is_some(), "round {round}"),
            _ if is_there => {
                assert!(table.update(key, &value), "round {round}");
                map.insert(key, value);
            }
            _ => {
                table.insert(key, &value).unwrap();
                map.insert(key, value);
            }
        }
        assert_eq!(table.get(key), map.get(&key).copied(), "round {round}");
    }
    assert_eq!(table.len(), map.len());
    assert_eq!(table.items(), map.into_iter().collect::<Vec<_>>());
}
