//! Hash tables: the classes that Witcher (SOSP 2021) found in Level Hashing, CCEH and P-CLHT.

use ringfence_crashcheck::Machine;
use ringfence_persist::Memory;

use crate::case::{ADR, ALL, CASE, Case, ensure, has, last, persist, put};

// Level Hashing: a bit for each slot, slots of key and value.
const TOKENS: usize = 0;
const SLOTS: [usize; 2] = [64, 128];
const COUNT: usize = 192;

fn set_pair(m: &Machine, at: usize, key: u64, value: u64) {
    m.store_u64(at, key);
    m.store_u64(at + 8, value);
    m.flush(at..at + 16);
}

fn level_get(m: &Machine, key: u64) -> Option<u64> {
    let tokens = m.load_u64(TOKENS);
    let slot = (0..2).find(|slot| tokens >> slot & 1 == 1 && m.load_u64(SLOTS[*slot]) == key)?;
    Some(m.load_u64(SLOTS[slot] + 8))
}

// CCEH: a directory of two segments, by the last bit of the key; a segment is a line of keys.
const DIRECTORY: [usize; 2] = [0, 8];

fn cceh_has(m: &Machine, key: u64) -> bool {
    let segment = m.load_u64(DIRECTORY[key as usize % 2]) as usize;
    segment != 0 && (0..2).any(|slot| m.load_u64(segment + slot * 8) == key)
}

// P-CLHT: the table in use; a table is its number of buckets and one bucket, a key and its value.
const TABLE: usize = 0;

pub const CASES: &[Case] = &[
    Case {
        name: "Level Hashing: token durable before its slot",
        source: "Level Hashing (OSDI 2018), Witcher (SOSP 2021)",
        found_under: ADR,
        program: |m, buggy| {
            set_pair(m, SLOTS[0], 5, 50);
            if !buggy {
                m.sfence();
            }
            put(m, TOKENS, 1);
            m.acknowledge(1);
        },
        recovery: |m, _| {
            let found = level_get(m, 5);
            ensure(m.load_u64(TOKENS) == 0 || found == Some(50), "a token without its pair")?;
            ensure(!has(m, 1) || found == Some(50), "acknowledged and lost")
        },
        ..CASE
    },
    Case {
        name: "Level Hashing: old token cleared before the new one is set",
        source: "Level Hashing (OSDI 2018), Witcher (SOSP 2021)",
        found_under: ALL,
        program: |m, buggy| {
            set_pair(m, SLOTS[0], 5, 50);
            m.sfence();
            put(m, TOKENS, 0b01);
            m.acknowledge(1);
            set_pair(m, SLOTS[1], 5, 51);
            m.sfence();
            if buggy {
                put(m, TOKENS, 0b00);
            }
            put(m, TOKENS, 0b10);
            m.acknowledge(2);
        },
        recovery: |m, _| {
            let found = level_get(m, 5);
            ensure(!has(m, 1) || found.is_some(), "acknowledged and lost")?;
            ensure(!has(m, 2) || found == Some(51), "the update is lost")
        },
        ..CASE
    },
    Case {
        name: "Level Hashing: count updated apart",
        source: "Level Hashing (OSDI 2018), Witcher (SOSP 2021)",
        found_under: ALL,
        program: |m, _| {
            for (slot, at) in SLOTS.into_iter().enumerate() {
                set_pair(m, at, 5 + slot as u64, 50);
                m.sfence();
                put(m, TOKENS, m.load_u64(TOKENS) | 1 << slot);
                put(m, COUNT, slot as u64 + 1);
            }
        },
        recovery: |m, buggy| {
            let there = u64::from(m.load_u64(TOKENS).count_ones());
            if !buggy {
                put(m, COUNT, there);
            }
            ensure(
                m.load_u64(COUNT) == there,
                format!("{} counted, {there} there", m.load_u64(COUNT)),
            )
        },
        ..CASE
    },
    Case {
        name: "CCEH: key stored before its value",
        source: "CCEH (FAST 2019), Witcher (SOSP 2021)",
        found_under: ALL,
        program: |m, buggy| {
            let (key, value) = (64, 72);
            if buggy {
                m.store_u64(key, 5);
            }
            m.store_u64(value, 50);
            if !buggy {
                m.store_u64(key, 5);
            }
            persist(m, key..value + 8);
            m.acknowledge(1);
        },
        recovery: |m, _| {
            let found = (m.load_u64(64) == 5).then(|| m.load_u64(72));
            ensure(found.is_none_or(|value| value == 50), format!("the key has {found:?}"))?;
            ensure(!has(m, 1) || found.is_some(), "acknowledged and lost")
        },
        ..CASE
    },
    Case {
        name: "CCEH: split published before the copy is durable",
        source: "CCEH (FAST 2019), Witcher (SOSP 2021)",
        found_under: ADR,
        program: |m, buggy| {
            let (old, new) = (64, 128);
            m.store_u64(old, 2);
            m.store_u64(old + 8, 3);
            persist(m, old..old + 16);
            DIRECTORY.iter().for_each(|entry| m.store_u64(*entry, old as u64));
            persist(m, 0..16);
            m.acknowledge(1);
            m.store_u64(new + 8, 3);
            m.flush(new..new + 16);
            if !buggy {
                m.sfence();
            }
            put(m, DIRECTORY[1], new as u64);
            put(m, old + 8, 0);
        },
        recovery: |m, _| {
            ensure(!has(m, 1) || cceh_has(m, 2) && cceh_has(m, 3), "a key is lost in the split")
        },
        ..CASE
    },
    Case {
        name: "CCEH: depth updated apart from the directory",
        source: "CCEH (FAST 2019), Witcher (SOSP 2021)",
        found_under: ALL,
        program: |m, buggy| {
            // A directory starts with its depth; the buggy form goes by one beside the pointer.
            let (pointer, depth) = (0, 64);
            let (old, new) = (128, 192);
            put(m, old + 8, 1);
            put(m, pointer, old as u64);
            m.store_u64(new, 1);
            m.store_u64(new + 8, 1);
            m.store_u64(new + 16, 1);
            persist(m, new..new + 24);
            if buggy {
                put(m, depth, 1);
            }
            put(m, pointer, new as u64);
        },
        recovery: |m, buggy| {
            let directory = m.load_u64(0) as usize;
            if directory == 0 {
                return Ok(());
            }
            let depth = m.load_u64(if buggy { 64 } else { directory });
            let is_there = |number: usize| m.load_u64(directory + 8 + number * 8) == 1;
            ensure((0..1 << depth).all(is_there), format!("no directory of depth {depth}"))
        },
        ..CASE
    },
    Case {
        name: "P-CLHT: lock left in memory",
        source: "RECIPE (SOSP 2019), Witcher (SOSP 2021), PMRace (ASPLOS 2022)",
        found_under: ALL,
        program: |m, _| {
            let (lock, key, value) = (64, 72, 80);
            m.compare_exchange_u64(lock, 0, 1).unwrap();
            m.store_u64(value, 50);
            m.store_u64(key, 5);
            persist(m, lock..value + 8);
            put(m, lock, 0);
        },
        recovery: |m, buggy| {
            if !buggy {
                put(m, 64, 0);
            }
            m.compare_exchange_u64(64, 0, 1)
                .map_err(|_| "whoever wants the lock waits for ever")?;
            put(m, 64, 0);
            Ok(())
        },
        ..CASE
    },
    Case {
        name: "P-CLHT: swap of the table not durable before the old one is freed",
        source: "RECIPE (SOSP 2019), Witcher (SOSP 2021)",
        found_under: ADR,
        program: |m, buggy| {
            let (old, new) = (64, 128);
            put(m, old, 5);
            put(m, TABLE, old as u64);
            m.acknowledge(1);
            put(m, new, 5);
            m.store_u64(TABLE, new as u64);
            if !buggy {
                m.flush(TABLE..TABLE + 8);
            }
            m.sfence();
            put(m, old, 0);
            persist(m, TABLE..TABLE + 8);
        },
        recovery: |m, _| {
            ensure(
                !has(m, 1) || m.load_u64(m.load_u64(TABLE) as usize) == 5,
                "the table in use was freed",
            )
        },
        ..CASE
    },
    Case {
        name: "P-CLHT: constructor's stores not flushed",
        source: "RECIPE (SOSP 2019), Jaaru (ASPLOS 2021), Witcher (SOSP 2021)",
        found_under: ADR,
        program: |m, buggy| {
            let table = 64;
            m.store_u64(table, 4);
            if !buggy {
                m.flush(table..table + 8);
            }
            m.sfence();
            put(m, TABLE, table as u64);
        },
        recovery: |m, _| {
            let table = m.load_u64(TABLE) as usize;
            if table != 0 {
                // By zero, where the number of buckets is lost.
                let bucket = 5 % m.load_u64(table);
                ensure(bucket < 4, "no such bucket")?;
            }
            Ok(())
        },
        ..CASE
    },
    Case {
        name: "deletion acknowledged before the slot is cleared durably",
        source: "Witcher (SOSP 2021): the outcome is not that of a prefix of the operations",
        found_under: ADR,
        program: |m, buggy| {
            put(m, SLOTS[0], 5);
            m.acknowledge(1);
            m.store_u64(SLOTS[0], 0);
            if !buggy {
                m.flush(SLOTS[0]..SLOTS[0] + 8);
            }
            m.sfence();
            m.acknowledge(2);
        },
        recovery: |m, _| {
            ensure(last(m) != 2 || m.load_u64(SLOTS[0]) == 0, "what was deleted is back")
        },
        ..CASE
    },
];
