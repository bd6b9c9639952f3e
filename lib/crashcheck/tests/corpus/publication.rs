//! A payload and the flag that says it is there.

use ringfence_crashcheck::Machine;
use ringfence_persist::Memory;

use crate::case::{ADR, ALL, CASE, Case, ensure, has, persist, put};

const PAYLOAD: usize = 0;
const FLAG: usize = 64;

// The flag, on a line of its own, promises the payload.
fn apart(m: &Machine, _: bool) -> Result<(), String> {
    promised(m, FLAG, PAYLOAD..PAYLOAD + 16)
}

// The flag is the last word of the payload's line.
fn together(m: &Machine, _: bool) -> Result<(), String> {
    promised(m, 56, 0..16)
}

fn promised(m: &Machine, flag: usize, payload: std::ops::Range<usize>) -> Result<(), String> {
    let flag = m.load_u64(flag);
    ensure(flag == 1 || !has(m, 1), "acknowledged, and the flag is lost")?;
    let mut found = vec![0; payload.len()];
    m.load(payload.start, &mut found);
    ensure(flag == 0 || found.iter().all(|byte| *byte == 7), format!("the flag promises {found:?}"))
}

pub const CASES: &[Case] = &[
    Case {
        name: "payload and flag under one fence",
        source: "PMTest (ASPLOS 2019), Jaaru (ASPLOS 2021)",
        found_under: ADR,
        program: |m, buggy| {
            m.store(PAYLOAD, &[7; 16]);
            if !buggy {
                persist(m, PAYLOAD..PAYLOAD + 16);
            }
            m.store_u64(FLAG, 1);
            m.flush(FLAG..FLAG + 8);
            if buggy {
                m.flush(PAYLOAD..PAYLOAD + 16);
            }
            m.sfence();
            m.acknowledge(1);
        },
        recovery: apart,
        ..CASE
    },
    Case {
        name: "no fence between the payload's flush and the flag",
        source: "Agamotto (OSDI 2020), Px86 (POPL 2020)",
        found_under: ADR,
        program: |m, buggy| {
            m.store(PAYLOAD, &[7; 16]);
            m.flush(PAYLOAD..PAYLOAD + 16);
            if !buggy {
                m.sfence();
            }
            put(m, FLAG, 1);
            m.acknowledge(1);
        },
        recovery: apart,
        ..CASE
    },
    Case {
        name: "fence without the payload's flush before the flag",
        source: "PMTest (ASPLOS 2019)",
        found_under: ADR,
        program: |m, buggy| {
            m.store(PAYLOAD, &[7; 16]);
            if !buggy {
                m.flush(PAYLOAD..PAYLOAD + 16);
            }
            m.sfence();
            put(m, FLAG, 1);
            if buggy {
                persist(m, PAYLOAD..PAYLOAD + 16);
            }
            m.acknowledge(1);
        },
        recovery: apart,
        ..CASE
    },
    Case {
        name: "flag before the payload in one line",
        source: "Px86 (POPL 2020): a line's stores reach memory in order",
        found_under: ALL,
        program: |m, buggy| {
            if buggy {
                m.store_u64(56, 1);
            }
            m.store(0, &[7; 16]);
            if !buggy {
                m.store_u64(56, 1);
            }
            persist(m, 0..64);
            m.acknowledge(1);
        },
        recovery: together,
        ..CASE
    },
    Case {
        name: "flag in the payload's line by a non-temporal store",
        source: "Raad, Maranget, Vafeiadis (POPL 2022)",
        found_under: ALL,
        program: |m, buggy| {
            m.store(0, &[7; 16]);
            if buggy {
                m.store_nt(56, &1u64.to_le_bytes());
            } else {
                m.store_u64(56, 1);
            }
            persist(m, 0..64);
            m.acknowledge(1);
        },
        recovery: together,
        ..CASE
    },
    Case {
        name: "flag in the payload's line where the payload spans two",
        source: "Px86 (POPL 2020): lines are independent",
        found_under: ADR,
        program: |m, buggy| {
            m.store(64, &[7; 72]);
            if !buggy {
                persist(m, 64..136);
            }
            m.store_u64(184, 1);
            persist(m, 64..192);
            m.acknowledge(1);
        },
        recovery: |m, _| promised(m, 184, 64..136),
        ..CASE
    },
    Case {
        name: "non-temporal copy without a fence",
        source: "PMTest (ASPLOS 2019), Intel SDM volume 1, section 10.4.6.2",
        found_under: ALL,
        program: |m, buggy| {
            m.store_nt(PAYLOAD, &[7; 16]);
            if !buggy {
                m.sfence();
            }
            m.acknowledge(1);
        },
        recovery: |m, _| {
            let mut found = [0; 16];
            m.load(PAYLOAD, &mut found);
            ensure(!has(m, 1) || found == [7; 16], "acknowledged and lost")
        },
        ..CASE
    },
    Case {
        name: "flag right behind a non-temporal copy",
        source: "Raad, Maranget, Vafeiadis (POPL 2022): a release store waits for no non-temporal \
                 one",
        found_under: ALL,
        program: |m, buggy| {
            m.store_nt(PAYLOAD, &[7; 16]);
            if !buggy {
                m.sfence();
            }
            put(m, FLAG, 1);
            m.acknowledge(1);
        },
        recovery: apart,
        ..CASE
    },
    Case {
        name: "flag by a non-temporal store behind a non-temporal copy",
        source: "Intel SDM volume 1, section 10.4.6.2: weakly ordered",
        found_under: ALL,
        program: |m, buggy| {
            m.store_nt(PAYLOAD, &[7; 16]);
            if !buggy {
                m.sfence();
            }
            m.store_nt(FLAG, &1u64.to_le_bytes());
            m.sfence();
            m.acknowledge(1);
        },
        recovery: apart,
        ..CASE
    },
    Case {
        name: "flush instead of a fence after a non-temporal copy",
        source: "Raad, Maranget, Vafeiadis (POPL 2022)",
        found_under: ALL,
        program: |m, buggy| {
            m.store_nt(PAYLOAD, &[7; 16]);
            if buggy {
                m.flush(PAYLOAD..PAYLOAD + 16);
            } else {
                m.sfence();
            }
            put(m, FLAG, 1);
            m.acknowledge(1);
        },
        recovery: apart,
        ..CASE
    },
    Case {
        name: "length raised before the data are appended",
        source: "Yat (USENIX ATC 2014), Chipmunk (EuroSys 2023)",
        found_under: ALL,
        program: |m, buggy| {
            let append = || {
                m.store(PAYLOAD, &[7; 16]);
                persist(m, PAYLOAD..PAYLOAD + 16);
            };
            let raise = || put(m, FLAG, 1);
            if buggy {
                raise();
                append();
            } else {
                append();
                raise();
            }
            m.acknowledge(1);
        },
        recovery: apart,
        ..CASE
    },
    Case {
        name: "length before the data in one line",
        source: "Px86 (POPL 2020): a line's stores reach memory in order",
        found_under: ALL,
        program: |m, buggy| {
            let (length, data) = (0, 8);
            if buggy {
                m.store_u64(length, 16);
            }
            m.store(data, &[7; 16]);
            if !buggy {
                m.store_u64(length, 16);
            }
            persist(m, 0..24);
            m.acknowledge(1);
        },
        recovery: |m, _| {
            let length = m.load_u64(0) as usize;
            let mut found = vec![0; length];
            m.load(8, &mut found);
            ensure(!has(m, 1) || length == 16, "acknowledged, and the length is lost")?;
            ensure(
                found.iter().all(|byte| *byte == 7),
                format!("{length} bytes, and they are {found:?}"),
            )
        },
        ..CASE
    },
];
