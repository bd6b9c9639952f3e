//! Counters, and versions that tell readers to wait.

use ringfence_persist::Memory;

use crate::case::{ALL, CASE, Case, ensure, has, last, persist, put};

pub const CASES: &[Case] = &[
    Case {
        name: "counter of two words, carried word by word",
        source: "BPFS (SOSP 2009): 8 bytes are stored at once, not 16",
        found_under: ALL,
        program: |m, buggy| {
            // Two words in base 4; the twin writes beside what it replaces, and then selects it.
            let (selected, copies) = (0, [64, 128]);
            for number in 1..=5 {
                let side = if buggy { 0 } else { number as usize % 2 };
                m.store_u64(copies[side], number % 4);
                m.store_u64(copies[side] + 8, number / 4);
                persist(m, copies[side]..copies[side] + 16);
                put(m, selected, side as u64);
                m.acknowledge(number);
            }
        },
        recovery: |m, _| {
            let copy = [64, 128][m.load_u64(0) as usize];
            let number = m.load_u64(copy) + 4 * m.load_u64(copy + 8);
            let wanted = last(m)..=last(m) + 1;
            ensure(wanted.contains(&number), format!("{number} after {}", last(m)))
        },
        ..CASE
    },
    Case {
        name: "two copies of a counter, raised one after the other, the second believed",
        source: "Lampson, Sturgis (1979): of two copies the first to be written goes",
        found_under: ALL,
        program: |m, _| {
            for number in 1..=2 {
                put(m, 0, number);
                m.acknowledge(number);
                put(m, 64, number);
            }
        },
        recovery: |m, buggy| {
            let number = m.load_u64(if buggy { 64 } else { 0 });
            ensure(number >= last(m), format!("{number} after {}", last(m)))
        },
        ..CASE
    },
    Case {
        name: "version left odd",
        source: "RECIPE (SOSP 2019), PMRace (ASPLOS 2022): readers wait for whoever is gone",
        found_under: ALL,
        program: |m, _| {
            let (version, value) = (0, 8);
            for number in 1..=2 {
                m.store_u64(version, number * 2 - 1);
                m.store_u64(value, number);
                m.store_u64(version, number * 2);
                persist(m, version..value + 8);
                m.acknowledge(number);
            }
        },
        recovery: |m, buggy| {
            let version = m.load_u64(0);
            if !buggy && version % 2 == 1 {
                put(m, 0, version + 1);
            }
            ensure(m.load_u64(0).is_multiple_of(2), "readers wait for ever")?;
            ensure(m.load_u64(8) >= last(m), "acknowledged and lost")
        },
        ..CASE
    },
    Case {
        name: "number handed out before the counter is durable",
        source: "Mnemosyne (ASPLOS 2011), Witcher (SOSP 2021)",
        found_under: ALL,
        program: |m, buggy| {
            for _ in 0..2 {
                let number = m.load_u64(0) + 1;
                if buggy {
                    m.mark(number);
                }
                put(m, 0, number);
                if !buggy {
                    m.mark(number);
                }
            }
        },
        recovery: |m, _| {
            let number = m.load_u64(0) + 1;
            ensure(!has(m, number), format!("{number} is handed out again"))
        },
        ..CASE
    },
];
