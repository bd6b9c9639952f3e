//! The B+-tree under check.

use std::collections::BTreeMap;

use ringfence_crashcheck::{Machine, Profile, Report};

use crate::fast_fair::{Bug, FastFair, NODE};
use crate::history::{self, ADR, ALL, How, OLD_AMD, WEAK_CLFLUSH, expect};

const DELETE: u64 = 1 << 40;

fn insert(machine: &Machine, tree: &FastFair<&Machine>, key: u64) -> Result<(), String> {
    history::operate(machine, key, || match tree.insert(key, value(key)) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("{key} is there already")),
        Err(_) => Err(format!("no room for {key}")),
    })
}

fn delete(machine: &Machine, tree: &FastFair<&Machine>, key: u64) -> Result<(), String> {
    history::operate(machine, DELETE | key, || match tree.delete(key) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("{key} is not there to delete")),
        Err(_) => Err(format!("no room to delete {key}")),
    })
}

fn value(key: u64) -> u64 {
    1000 + key
}

fn left_by(operations: &[u64]) -> Vec<(u64, u64)> {
    let mut items = BTreeMap::new();
    for operation in operations {
        let key = operation & (DELETE - 1);
        if operation & DELETE != 0 {
            items.remove(&key)
        } else {
            items.insert(key, value(key))
        };
    }
    items.into_iter().collect()
}

fn verify(tree: &FastFair<&Machine>, complete: bool) -> Result<Vec<(u64, u64)>, String> {
    tree.check(complete)?;
    let items = tree.items();
    match items.iter().find(|(key, value)| tree.get(*key) != Some(*value)) {
        Some((key, _)) => Err(format!("{key} is there, and cannot be found")),
        None => Ok(items),
    }
}

fn recovery(machine: &Machine, bug: Option<Bug>) -> Result<(), String> {
    let past = history::past(machine);
    let tree = match FastFair::open(machine, bug) {
        None if past.created => return Err("the tree is gone".into()),
        None => return Ok(()),
        Some(tree) => tree,
    };
    history::settle(machine, &past, &verify(&tree, false)?, left_by)?;
    // Life goes on where the last insertion was, which may have left a split half done: its
    // neighbour is deleted, and another inserted.
    let last =
        past.begun.iter().rev().find(|operation| *operation & DELETE == 0).copied().unwrap_or(0);
    if let Some((key, _)) = tree.items().into_iter().find(|(key, _)| *key > last) {
        delete(machine, &tree, key)?;
    }
    insert(machine, &tree, last + 1)?;
    // What a writer found half done on its way is complete.
    let items = verify(&tree, true)?;
    if items != left_by(&history::past(machine).done) {
        return Err(format!("{items:?} after the next operations"));
    }
    Ok(())
}

fn check(profile: Profile, how: How, bug: Option<Bug>) -> Report {
    how.check(profile, 24 * NODE).run(
        |machine| {
            let tree = FastFair::create(machine, bug);
            history::created(machine);
            for operation in PROGRAM {
                match operation & DELETE {
                    0 => insert(machine, &tree, *operation),
                    _ => delete(machine, &tree, operation & (DELETE - 1)),
                }
                .unwrap();
            }
            // The root was split as a leaf, and as an inner node.
            assert_eq!(tree.height(), 3);
        },
        |machine| recovery(machine, bug),
    )
}

// Shifts from everywhere; the root is split twice, once as a leaf, once as an inner node.
const PROGRAM: &[u64] = &[
    50,
    30,
    40,
    10,
    20,
    DELETE | 10,
    60,
    15,
    DELETE | 30,
    70,
    80,
    90,
    100,
    110,
    35,
    120,
    130,
    DELETE | 90,
    140,
    85,
    95,
];

#[test]
fn fast_and_fair_survives_crashes() {
    for (how, wanted) in [(How::Once, &[][..]), (How::Twice, &[]), (How::Clflush, OLD_AMD)] {
        expect("FAST & FAIR", None::<Bug>, how, wanted, |profile| check(profile, how, None));
    }
}

#[test]
fn bugs_of_fast_and_fair_are_found() {
    for (bug, wanted, with_clflush) in [
        (Bug::ShiftNotFlushed, ADR, WEAK_CLFLUSH),
        (Bug::DeleteNotFlushed, ADR, WEAK_CLFLUSH),
        (Bug::PointerFirst, ALL, ALL),
        (Bug::DeleteBlind, ALL, ALL),
        (Bug::SiblingNotFlushed, ADR, ADR),
        (Bug::LinkNotDurable, ADR, WEAK_CLFLUSH),
        (Bug::CutFirst, ALL, ALL),
        (Bug::RootNotFlushed, ADR, ADR),
        (Bug::NotCompleted, ALL, ALL),
        (Bug::CountApart, ALL, ALL),
        (Bug::NextNotFlushed, ADR, ADR),
    ] {
        for (how, wanted) in [(How::Once, wanted), (How::Clflush, with_clflush)] {
            expect("FAST & FAIR", Some(bug), how, wanted, |profile| check(profile, how, Some(bug)));
        }
    }
}

#[test]
fn fast_and_fair_is_a_map() {
    let tree = FastFair::create(history::plain_memory(1 << 18), None);
    let (mut random, mut map) = (history::random(1), BTreeMap::new());
    for round in 0..4000 {
        let key = random(300);
        // Values differ between neighbours, and from one life of a key to the next.
        let value = 1000 * (round + 1) + key;
        if random(5) < 3 {
            let is_new = !map.contains_key(&key);
            assert_eq!(tree.insert(key, value).unwrap(), is_new, "round {round}");
            map.entry(key).or_insert(value);
        } else {
            assert_eq!(tree.delete(key).unwrap(), map.remove(&key).is_some(), "round {round}");
        }
        assert_eq!(tree.get(key), map.get(&key).copied());
    }
    tree.check(true).unwrap();
    assert_eq!(tree.items(), map.into_iter().collect::<Vec<_>>());
}
