//! Recovery reads what it may not rely on: the classes of XFDetector (ASPLOS 2020).

use ringfence_persist::Memory;

use crate::case::{ADR, ALL, CASE, Case, ensure, has, last, persist, put};

pub const CASES: &[Case] = &[
    Case {
        name: "recovery reads a length that was not persisted",
        source: "XFDetector (ASPLOS 2020): a race across the failure",
        found_under: ADR,
        program: |m, buggy| {
            // The flag is durable, and the length that goes with it is not.
            let (flag, length, data) = (0, 64, 128);
            put(m, data, 7);
            m.store_u64(length, 8);
            if !buggy {
                m.flush(length..length + 8);
            }
            m.sfence();
            put(m, flag, 1);
            m.acknowledge(1);
        },
        recovery: |m, _| {
            if m.load_u64(0) == 0 {
                return Ok(());
            }
            let mut found = vec![0; m.load_u64(64) as usize];
            m.load(128, &mut found);
            ensure(
                found == 7u64.to_le_bytes(),
                format!("the flag promises 8 bytes, there are {found:?}"),
            )
        },
        ..CASE
    },
    Case {
        name: "recovery trusts a hint that lags behind",
        source: "XFDetector (ASPLOS 2020), Witcher (SOSP 2021)",
        found_under: ALL,
        program: |m, _| {
            let hint = 0;
            for number in 1..=3 {
                put(m, 64 + number as usize * 8, number);
                m.acknowledge(number);
                put(m, hint, number);
            }
        },
        recovery: |m, buggy| {
            let scanned =
                (1..=3).take_while(|number| m.load_u64(64 + number * 8) != 0).count() as u64;
            let newest = if buggy { m.load_u64(0) } else { scanned };
            ensure(newest >= last(m), format!("recovery finds {newest} of {}", last(m)))
        },
        ..CASE
    },
    Case {
        name: "recovery takes the flag of a backup the other way round",
        source: "XFDetector (ASPLOS 2020): a semantic bug across the failure",
        found_under: ALL,
        program: |m, _| {
            let (data, backup, valid) = (0, 64, 128);
            for number in 1..=2u64 {
                let mut old = [0; 16];
                m.load(data, &mut old);
                m.store(backup, &old);
                persist(m, backup..backup + 16);
                put(m, valid, 1);
                m.store(data, &[number as u8; 16]);
                persist(m, data..data + 16);
                put(m, valid, 0);
                m.acknowledge(number);
            }
        },
        recovery: |m, buggy| {
            let mut data = [0; 16];
            let roll_back = m.load_u64(128) == if buggy { 0 } else { 1 };
            m.load(if roll_back { 64 } else { 0 }, &mut data);
            ensure(data == [data[0]; 16], format!("torn: {data:?}"))?;
            ensure(u64::from(data[0]) >= last(m), "acknowledged and lost")
        },
        ..CASE
    },
    Case {
        name: "magic number durable before the rest of the header",
        source: "XFDetector (ASPLOS 2020): creation of a pool",
        found_under: ALL,
        program: |m, buggy| {
            let (magic, size) = (0, 64);
            if buggy {
                put(m, magic, 0x706f_6f6c);
            }
            put(m, size, 1024);
            if !buggy {
                put(m, magic, 0x706f_6f6c);
            }
            m.acknowledge(1);
        },
        recovery: |m, _| {
            if m.load_u64(0) != 0x706f_6f6c {
                return ensure(!has(m, 1), "the pool is gone");
            }
            ensure(m.load_u64(64) == 1024, "a pool of no size")
        },
        ..CASE
    },
    Case {
        name: "recovery reads a field that creation never initialised",
        source: "XFDetector (ASPLOS 2020): memory of an earlier use",
        found_under: ALL,
        program: |m, buggy| {
            // The place was used before.
            let (used, root) = (64, 0);
            m.store_u64(used, 3);
            m.store_u64(used + 8, 5);
            persist(m, used..used + 16);
            m.store_u64(used, 7);
            if !buggy {
                m.store_u64(used + 8, 0);
            }
            persist(m, used..used + 16);
            put(m, root, used as u64);
        },
        recovery: |m, _| {
            let object = m.load_u64(0) as usize;
            ensure(object == 0 || m.load_u64(object + 8) == 0, "a new object has entries")
        },
        ..CASE
    },
];
