//! B+-trees: the classes that Witcher (SOSP 2021) found in FAST_FAIR and its kin.

use ringfence_crashcheck::Machine;
use ringfence_persist::Memory;

use crate::case::{ADR, ALL, CASE, Case, ensure, has, last, persist, put};

// A node: keys in order up to the first 0, at most seven in its line.
const LEFT: usize = 64;
const RIGHT: usize = 192;
const SIBLING: usize = LEFT + 56;
const COUNT: usize = 0;

fn keys(m: &Machine, node: usize, most: usize) -> Vec<u64> {
    (0..most).map(|slot| m.load_u64(node + slot * 8)).take_while(|key| *key != 0).collect()
}

fn set_keys(m: &Machine, node: usize, keys: &[u64]) {
    for (slot, key) in keys.iter().enumerate() {
        m.store_u64(node + slot * 8, *key);
    }
    m.flush(node..node + keys.len() * 8);
}

fn ensure_all(found: &[u64], wanted: impl IntoIterator<Item = u64>) -> Result<(), String> {
    ensure(found.is_sorted(), format!("out of order: {found:?}"))?;
    let lost = wanted.into_iter().find(|key| !found.contains(key));
    ensure(lost.is_none(), format!("{lost:?} is lost: {found:?}"))
}

pub const CASES: &[Case] = &[
    Case {
        name: "FAST_FAIR: keys shifted from the wrong end",
        source: "FAST_FAIR (FAST 2018)",
        found_under: ALL,
        program: |m, buggy| {
            set_keys(m, LEFT, &[10, 30, 50]);
            m.sfence();
            m.acknowledge(1);
            // Each step leaves one key twice, never one key out; from the other end it is the
            // reverse.
            let mut steps = [(3, 50), (2, 30), (1, 20)];
            if buggy {
                steps.reverse();
            }
            steps.iter().for_each(|(slot, key)| m.store_u64(LEFT + slot * 8, *key));
            persist(m, LEFT..LEFT + 32);
            m.acknowledge(2);
        },
        recovery: |m, _| {
            let found = keys(m, LEFT, 7);
            ensure_all(&found, [10, 30, 50].into_iter().filter(|_| has(m, 1)))?;
            ensure_all(&found, [20].into_iter().filter(|_| has(m, 2)))
        },
        ..CASE
    },
    Case {
        name: "FAST_FAIR: shift across two lines without a flush between",
        source: "FAST_FAIR (FAST 2018), Witcher (SOSP 2021)",
        found_under: ADR,
        program: |m, buggy| {
            set_keys(m, LEFT, &[1, 2, 3, 4, 5, 6, 7, 9]);
            m.sfence();
            m.acknowledge(1);
            m.store_u64(LEFT + 64, 9);
            if !buggy {
                persist(m, LEFT + 64..LEFT + 72);
            }
            m.store_u64(LEFT + 56, 8);
            persist(m, LEFT + 56..LEFT + 72);
        },
        recovery: |m, _| {
            ensure_all(
                &keys(m, LEFT, 9),
                [1, 2, 3, 4, 5, 6, 7, 9].into_iter().filter(|_| has(m, 1)),
            )
        },
        ..CASE
    },
    Case {
        name: "FAST_FAIR: split published before the copy is durable",
        source: "FAST_FAIR (FAST 2018), Witcher (SOSP 2021)",
        found_under: ADR,
        program: |m, buggy| {
            set_keys(m, LEFT, &[1, 2, 3, 4]);
            m.sfence();
            m.acknowledge(1);
            set_keys(m, RIGHT, &[3, 4]);
            if !buggy {
                m.sfence();
            }
            m.store_u64(SIBLING, RIGHT as u64);
            m.store_u64(LEFT + 16, 0);
            persist(m, LEFT..LEFT + 64);
        },
        recovery: |m, _| {
            let mut found = keys(m, LEFT, 7);
            if m.load_u64(SIBLING) != 0 {
                found.extend(keys(m, RIGHT, 7));
                found.sort_unstable();
            }
            ensure_all(&found, (1..=4).filter(|_| has(m, 1)))
        },
        ..CASE
    },
    Case {
        name: "FAST_FAIR: node truncated before its sibling is linked",
        source: "FAST_FAIR (FAST 2018)",
        found_under: ALL,
        program: |m, buggy| {
            set_keys(m, LEFT, &[1, 2, 3, 4]);
            m.sfence();
            m.acknowledge(1);
            set_keys(m, RIGHT, &[3, 4]);
            m.sfence();
            let mut steps = [(SIBLING, RIGHT as u64), (LEFT + 16, 0)];
            if buggy {
                steps.reverse();
            }
            steps.iter().for_each(|(at, value)| m.store_u64(*at, *value));
            persist(m, LEFT..LEFT + 64);
        },
        recovery: |m, _| {
            let mut found = keys(m, LEFT, 7);
            if m.load_u64(SIBLING) != 0 {
                found.extend(keys(m, RIGHT, 7));
                found.sort_unstable();
            }
            ensure_all(&found, (1..=4).filter(|_| has(m, 1)))
        },
        ..CASE
    },
    Case {
        name: "FAST_FAIR: count updated apart from the keys",
        source: "FAST_FAIR (FAST 2018), Witcher (SOSP 2021)",
        found_under: ADR,
        program: |m, buggy| {
            for number in 1..=2 {
                let at = LEFT + (number as usize - 1) * 8;
                m.store_u64(at, number);
                m.flush(at..at + 8);
                if !buggy {
                    m.sfence();
                }
                put(m, COUNT, number);
                m.acknowledge(number);
            }
        },
        recovery: |m, _| {
            let count = m.load_u64(COUNT);
            ensure(count >= last(m), "acknowledged and lost")?;
            ensure_all(&keys(m, LEFT, count as usize), 1..=count)
        },
        ..CASE
    },
    Case {
        name: "root replaced before it knows its children",
        source: "RECIPE (SOSP 2019), Witcher (SOSP 2021): a tree grows a level",
        found_under: ALL,
        program: |m, buggy| {
            let (root, new_root) = (COUNT, RIGHT);
            put(m, LEFT, 1);
            put(m, root, LEFT as u64);
            m.acknowledge(1);
            // An inner node has a 0 for its first key, then its child.
            let fill = || put(m, new_root + 8, LEFT as u64);
            if !buggy {
                fill();
            }
            put(m, root, new_root as u64);
            if buggy {
                fill();
            }
        },
        recovery: |m, _| {
            if !has(m, 1) {
                return Ok(());
            }
            let mut node = m.load_u64(COUNT) as usize;
            if m.load_u64(node) == 0 {
                node = m.load_u64(node + 8) as usize;
                ensure(node != 0, "the root has no child")?;
            }
            ensure(m.load_u64(node) == 1, "the key is lost")
        },
        ..CASE
    },
];
