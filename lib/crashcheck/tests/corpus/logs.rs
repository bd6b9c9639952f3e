//! Undo and redo logs.

use ringfence_crashcheck::Machine;
use ringfence_persist::Memory;

use crate::case::{ADR, ALL, CASE, Case, ensure, last, persist, put};

// Two values that a transaction raises together.
const X: usize = 0;
const Y: usize = 64;
// A log: how many entries it has, then pairs of address and value, all in one line.
const LOG: usize = 128;
const COMMIT: usize = 192;

fn add_to_log(m: &Machine, number: usize, at: usize, value: u64) {
    m.store_u64(LOG + 8 + number * 16, at as u64);
    m.store_u64(LOG + 16 + number * 16, value);
}

fn play_log(m: &Machine) {
    for number in 0..m.load_u64(LOG) as usize {
        let at = m.load_u64(LOG + 8 + number * 16) as usize;
        put(m, at, m.load_u64(LOG + 16 + number * 16));
    }
}

fn set_both(m: &Machine, value: u64) {
    m.store_u64(X, value);
    m.store_u64(Y, value);
    m.flush(X..X + 8);
    m.flush(Y..Y + 8);
}

// A transaction: its entries, then its count, durable.
fn log_both(m: &Machine, values: [u64; 2]) {
    add_to_log(m, 0, X, values[0]);
    add_to_log(m, 1, Y, values[1]);
    m.store_u64(LOG, 2);
    persist(m, LOG..LOG + 40);
}

fn both_or_none(m: &Machine) -> Result<(), String> {
    let (x, y) = (m.load_u64(X), m.load_u64(Y));
    ensure(x == y, format!("half a transaction: {x} and {y}"))?;
    ensure(x >= last(m), format!("{} was acknowledged, {x} is there", last(m)))
}

fn undo(m: &Machine, _: bool) -> Result<(), String> {
    play_log(m);
    put(m, LOG, 0);
    both_or_none(m)
}

fn redo(m: &Machine, _: bool) -> Result<(), String> {
    if m.load_u64(COMMIT) == 1 {
        play_log(m);
        put(m, COMMIT, 0);
    }
    both_or_none(m)
}

pub const CASES: &[Case] = &[
    Case {
        name: "undo log: entry not durable before the update in place",
        source: "PMTest (ASPLOS 2019), Pelley et al. (ISCA 2014)",
        found_under: ADR,
        program: |m, buggy| {
            for value in 1..=2 {
                add_to_log(m, 0, X, m.load_u64(X));
                add_to_log(m, 1, Y, m.load_u64(Y));
                m.store_u64(LOG, 2);
                m.flush(LOG..LOG + 40);
                if !buggy {
                    m.sfence();
                }
                set_both(m, value);
                m.sfence();
                put(m, LOG, 0);
                m.acknowledge(value);
            }
        },
        recovery: undo,
        ..CASE
    },
    Case {
        name: "undo log: truncated before the data are durable",
        source: "PMTest (ASPLOS 2019), XFDetector (ASPLOS 2020)",
        found_under: ADR,
        program: |m, buggy| {
            for value in 1..=2 {
                log_both(m, [m.load_u64(X), m.load_u64(Y)]);
                set_both(m, value);
                if !buggy {
                    m.sfence();
                }
                put(m, LOG, 0);
                m.acknowledge(value);
            }
        },
        recovery: undo,
        ..CASE
    },
    Case {
        name: "undo log: count raised before the entries",
        source: "PMTest (ASPLOS 2019), Px86 (POPL 2020)",
        found_under: ALL,
        program: |m, buggy| {
            for value in 1..=2 {
                let (x, y) = (m.load_u64(X), m.load_u64(Y));
                if buggy {
                    m.store_u64(LOG, 2);
                }
                add_to_log(m, 0, X, x);
                add_to_log(m, 1, Y, y);
                m.store_u64(LOG, 2);
                persist(m, LOG..LOG + 40);
                set_both(m, value);
                m.sfence();
                put(m, LOG, 0);
                m.acknowledge(value);
            }
        },
        recovery: undo,
        ..CASE
    },
    Case {
        name: "undo log: a field is changed and not logged",
        source: "PMTest (ASPLOS 2019), XFDetector (ASPLOS 2020): TX_ADD missing",
        found_under: ALL,
        program: |m, buggy| {
            add_to_log(m, 0, X, 0);
            add_to_log(m, 1, Y, 0);
            m.store_u64(LOG, if buggy { 1 } else { 2 });
            persist(m, LOG..LOG + 40);
            set_both(m, 1);
            m.sfence();
            put(m, LOG, 0);
            m.acknowledge(1);
        },
        recovery: undo,
        ..CASE
    },
    Case {
        name: "undo log: logged after the update",
        source: "XFDetector (ASPLOS 2020), Agamotto (OSDI 2020)",
        found_under: ALL,
        program: |m, buggy| {
            let update = |value| {
                set_both(m, value);
                m.sfence();
            };
            if buggy {
                update(1);
            }
            log_both(m, [m.load_u64(X), m.load_u64(Y)]);
            if !buggy {
                update(1);
            }
            put(m, LOG, 0);
            m.acknowledge(1);
        },
        recovery: undo,
        ..CASE
    },
    Case {
        name: "undo log: acknowledged before it is truncated durably",
        source: "Witcher (SOSP 2021), Agamotto (OSDI 2020)",
        found_under: ADR,
        program: |m, buggy| {
            log_both(m, [0, 0]);
            set_both(m, 1);
            m.sfence();
            m.store_u64(LOG, 0);
            if !buggy {
                m.flush(LOG..LOG + 8);
            }
            m.sfence();
            m.acknowledge(1);
        },
        recovery: undo,
        ..CASE
    },
    Case {
        name: "redo log: commit durable before the entries",
        source: "Mnemosyne (ASPLOS 2011), PMTest (ASPLOS 2019)",
        found_under: ADR,
        program: |m, buggy| {
            for value in 1..=2 {
                add_to_log(m, 0, X, value);
                add_to_log(m, 1, Y, value);
                m.store_u64(LOG, 2);
                m.flush(LOG..LOG + 40);
                if !buggy {
                    m.sfence();
                }
                put(m, COMMIT, 1);
                m.acknowledge(value);
                set_both(m, value);
                m.sfence();
                put(m, COMMIT, 0);
            }
        },
        recovery: redo,
        ..CASE
    },
    Case {
        name: "redo log: truncated before it is applied",
        source: "Mnemosyne (ASPLOS 2011)",
        found_under: ALL,
        program: |m, buggy| {
            log_both(m, [1, 1]);
            put(m, COMMIT, 1);
            m.acknowledge(1);
            let truncate = || put(m, COMMIT, 0);
            if buggy {
                truncate();
            }
            set_both(m, 1);
            m.sfence();
            if !buggy {
                truncate();
            }
        },
        recovery: redo,
        ..CASE
    },
    Case {
        name: "redo log: truncated before what was applied is durable",
        source: "Mnemosyne (ASPLOS 2011), PMTest (ASPLOS 2019)",
        found_under: ADR,
        program: |m, buggy| {
            log_both(m, [1, 1]);
            put(m, COMMIT, 1);
            m.acknowledge(1);
            set_both(m, 1);
            if !buggy {
                m.sfence();
            }
            put(m, COMMIT, 0);
        },
        recovery: redo,
        ..CASE
    },
    Case {
        name: "redo log: applied before its commit is durable",
        source: "Mnemosyne (ASPLOS 2011): write-ahead",
        found_under: ADR,
        program: |m, buggy| {
            log_both(m, [1, 1]);
            m.store_u64(COMMIT, 1);
            if !buggy {
                persist(m, COMMIT..COMMIT + 8);
            }
            set_both(m, 1);
            m.flush(COMMIT..COMMIT + 8);
            m.sfence();
            m.acknowledge(1);
            put(m, COMMIT, 0);
        },
        recovery: redo,
        ..CASE
    },
    Case {
        name: "log's tail, on a line of its own, moved before the entry is drained",
        source: "NOVA (FAST 2016), Chipmunk (EuroSys 2023)",
        found_under: ALL,
        program: |m, buggy| {
            let (tail, entries) = (0, 64);
            for number in 1..=2u64 {
                m.store_nt(entries + (number as usize - 1) * 16, &[number as u8; 16]);
                if !buggy {
                    m.sfence();
                }
                put(m, tail, number);
                m.acknowledge(number);
            }
        },
        recovery: |m, _| {
            let tail = m.load_u64(0);
            ensure(tail >= last(m), "acknowledged and lost")?;
            for number in 1..=tail {
                let mut entry = [0; 16];
                m.load(64 + (number as usize - 1) * 16, &mut entry);
                ensure(entry == [number as u8; 16], format!("entry {number} is {entry:?}"))?;
            }
            Ok(())
        },
        ..CASE
    },
];
