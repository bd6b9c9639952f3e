//! One store is to be durable, and what should make it so is missing or aims elsewhere.

use ringfence_persist::Memory;

use crate::case::{ADR, ALL, CASE, Case, ensure, has, persist, put};

const LOST: &str = "acknowledged and lost";

pub const CASES: &[Case] = &[
    Case {
        name: "flush missing",
        source: "PMTest (ASPLOS 2019), Agamotto (OSDI 2020)",
        found_under: ADR,
        program: |m, buggy| {
            m.store_u64(0, 7);
            if !buggy {
                m.flush(0..8);
            }
            m.sfence();
            m.acknowledge(1);
        },
        recovery: |m, _| ensure(!has(m, 1) || m.load_u64(0) == 7, LOST),
        ..CASE
    },
    Case {
        name: "fence missing",
        source: "PMTest (ASPLOS 2019), Agamotto (OSDI 2020)",
        found_under: ALL,
        program: |m, buggy| {
            m.store_u64(0, 7);
            m.flush(0..8);
            if !buggy {
                m.sfence();
            }
            m.acknowledge(1);
        },
        recovery: |m, _| ensure(!has(m, 1) || m.load_u64(0) == 7, LOST),
        ..CASE
    },
    Case {
        name: "flush of a part of the range",
        source: "PMTest (ASPLOS 2019)",
        found_under: ADR,
        program: |m, buggy| {
            m.store(56, &[7; 24]);
            persist(m, 56..if buggy { 64 } else { 80 });
            m.acknowledge(1);
        },
        recovery: |m, _| {
            let mut object = [0; 24];
            m.load(56, &mut object);
            ensure(!has(m, 1) || object == [7; 24], LOST)
        },
        ..CASE
    },
    Case {
        name: "flush of the wrong line of an object of two",
        source: "Agamotto (OSDI 2020)",
        found_under: ADR,
        program: |m, buggy| {
            let (object, field) = (64, 128);
            m.store_u64(field, 7);
            let flushed = if buggy { object } else { field };
            persist(m, flushed..flushed + 8);
            m.acknowledge(1);
        },
        recovery: |m, _| ensure(!has(m, 1) || m.load_u64(128) == 7, LOST),
        ..CASE
    },
    Case {
        name: "flush of the pointer and not of what it points at",
        source: "PMTest (ASPLOS 2019)",
        found_under: ADR,
        program: |m, buggy| {
            let pointer = 0;
            put(m, pointer, 128);
            let object = m.load_u64(pointer) as usize;
            m.store_u64(object, 7);
            let flushed = if buggy { pointer } else { object };
            persist(m, flushed..flushed + 8);
            m.acknowledge(1);
        },
        recovery: |m, _| ensure(!has(m, 1) || m.load_u64(m.load_u64(0) as usize) == 7, LOST),
        ..CASE
    },
    Case {
        name: "last line left out where the length is divided",
        source: "Yat (USENIX ATC 2014), PMTest (ASPLOS 2019)",
        found_under: ADR,
        program: |m, buggy| {
            m.store(0, &[7; 100]);
            let lines = if buggy { 100 / 64 } else { 100usize.div_ceil(64) };
            (0..lines).for_each(|line| m.clwb(line * 64));
            m.sfence();
            m.acknowledge(1);
        },
        recovery: |m, _| {
            let mut object = [0; 100];
            m.load(0, &mut object);
            ensure(!has(m, 1) || object == [7; 100], LOST)
        },
        ..CASE
    },
    Case {
        name: "flush before the store",
        source: "PMTest (ASPLOS 2019), Px86 (POPL 2020)",
        found_under: ADR,
        program: |m, buggy| {
            if buggy {
                m.clwb(0);
            }
            m.store_u64(0, 7);
            if !buggy {
                m.clwb(0);
            }
            m.sfence();
            m.acknowledge(1);
        },
        recovery: |m, _| ensure(!has(m, 1) || m.load_u64(0) == 7, LOST),
        ..CASE
    },
    Case {
        name: "fence before the flush",
        source: "PMTest (ASPLOS 2019), Px86 (POPL 2020)",
        found_under: ADR,
        program: |m, buggy| {
            m.store_u64(0, 7);
            if buggy {
                m.sfence();
            }
            m.clwb(0);
            if !buggy {
                m.sfence();
            }
            m.acknowledge(1);
        },
        recovery: |m, _| ensure(!has(m, 1) || m.load_u64(0) == 7, LOST),
        ..CASE
    },
    Case {
        name: "store to the line again after its flush",
        source: "Px86 (POPL 2020)",
        found_under: ADR,
        program: |m, buggy| {
            m.store_u64(0, 7);
            m.clwb(0);
            m.store_u64(8, 7);
            if !buggy {
                m.clwb(0);
            }
            m.sfence();
            m.acknowledge(1);
        },
        recovery: |m, _| ensure(!has(m, 1) || (m.load_u64(0), m.load_u64(8)) == (7, 7), LOST),
        ..CASE
    },
    Case {
        name: "flush forgotten on the path that updates in place",
        source: "Agamotto (OSDI 2020), Witcher (SOSP 2021)",
        found_under: ADR,
        program: |m, buggy| {
            let (key, value) = (64, 72);
            for number in 1..=2 {
                let is_new = m.load_u64(key) == 0;
                m.store_u64(value, number);
                if is_new {
                    m.store_u64(key, 5);
                }
                if is_new || !buggy {
                    m.flush(key..value + 8);
                }
                m.sfence();
                m.acknowledge(number);
            }
        },
        recovery: |m, _| ensure(!has(m, 2) || m.load_u64(72) == 2, LOST),
        ..CASE
    },
];
