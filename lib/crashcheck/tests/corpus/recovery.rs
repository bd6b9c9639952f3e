//! The machine stops once more while recovery is at work, or behind it.

use ringfence_crashcheck::Machine;
use ringfence_persist::Memory;

use crate::case::{ADR, ALL, CASE, Case, ensure, has, persist, put};

const X: usize = 0;
const Y: usize = 64;
const LOG: usize = 128;

pub const CASES: &[Case] = &[
    Case {
        name: "redo that counts twice when it is repeated",
        source: "ARIES (TODS 1992): redo is repeated, and must be idempotent",
        crashes: 2,
        found_under: ALL,
        program: |m, buggy| {
            // Recovery is left to apply what is logged: by how much, or to what.
            put(m, X, 10);
            m.store_u64(LOG + 8, if buggy { 5 } else { 15 });
            m.store_u64(LOG, 1);
            persist(m, LOG..LOG + 16);
            m.acknowledge(1);
        },
        recovery: |m, buggy| {
            if m.load_u64(LOG) == 1 {
                let base = if buggy { m.load_u64(X) } else { 0 };
                put(m, X, base + m.load_u64(LOG + 8));
                put(m, LOG, 0);
            }
            let x = m.load_u64(X);
            ensure(
                [0, 10, 15].contains(&x) && (x == 15 || !has(m, 1)),
                format!("{x} comes of 10 and 5"),
            )
        },
        ..CASE
    },
    Case {
        name: "recovery clears the log before its repairs are durable",
        source: "Jaaru (ASPLOS 2021), ARIES (TODS 1992)",
        crashes: 2,
        found_under: ADR,
        program: |m, _| {
            m.store_u64(LOG, 1);
            persist(m, LOG..LOG + 8);
            m.store_u64(X, 1);
            m.store_u64(Y, 1);
            m.flush(X..X + 8);
            m.flush(Y..Y + 8);
            m.sfence();
            put(m, LOG, 0);
        },
        recovery: |m, buggy| {
            if m.load_u64(LOG) == 1 {
                m.store_u64(X, 0);
                m.store_u64(Y, 0);
                m.flush(X..X + 8);
                m.flush(Y..Y + 8);
                if !buggy {
                    m.sfence();
                }
                put(m, LOG, 0);
            }
            let (x, y) = (m.load_u64(X), m.load_u64(Y));
            ensure(x == y, format!("half a transaction: {x} and {y}"))
        },
        ..CASE
    },
    Case {
        name: "recovery hands out a number that is not durable",
        source: "Mnemosyne (ASPLOS 2011), Jaaru (ASPLOS 2021)",
        crashes: 2,
        found_under: ADR,
        program: |m, _| {
            put(m, X, 1);
            m.mark(1);
        },
        recovery: |m, buggy| {
            let number = m.load_u64(X) + 1;
            ensure(!has(m, number), format!("{number} is handed out again"))?;
            m.store_u64(X, number);
            if !buggy {
                m.flush(X..X + 8);
            }
            m.sfence();
            m.mark(number);
            Ok(())
        },
        ..CASE
    },
    Case {
        name: "pending free is done again",
        source: "Makalu (OOPSLA 2016), ARIES (TODS 1992)",
        crashes: 2,
        found_under: ALL,
        program: |m, _| {
            // Recovery is left to put the node into the free list.
            let (pending, node) = (LOG, 192);
            put(m, pending, node);
        },
        recovery: |m, buggy| {
            let (pending, free) = (LOG, X);
            let node = m.load_u64(pending);
            if node != 0 {
                if buggy || m.load_u64(free) != node {
                    put(m, node as usize, m.load_u64(free));
                    put(m, free, node);
                }
                put(m, pending, 0);
            }
            let first = m.load_u64(free);
            ensure(first == 0 || m.load_u64(first as usize) != first, "the free list has a cycle")
        },
        ..CASE
    },
    Case {
        name: "recovery starts over with a mark of its own left behind",
        source: "PMRace (ASPLOS 2022), RECIPE (SOSP 2019): a lock that recovery takes",
        crashes: 2,
        found_under: ALL,
        program: |m, _| put(m, Y, 1),
        recovery: |m, buggy| {
            let lock = X;
            if !buggy {
                put(m, lock, 0);
            }
            m.compare_exchange_u64(lock, 0, 1).map_err(|_| "recovery waits for itself")?;
            persist(m, lock..lock + 8);
            put(m, lock, 0);
            Ok(())
        },
        ..CASE
    },
    Case {
        name: "found again after the process was killed, and accepted without a flush",
        source: "David et al. (USENIX ATC 2018): whoever reads what may not be durable flushes it",
        found_under: ADR,
        program: |m, buggy| {
            // The process is killed right after this store: caches live on, and the next one
            // starts.
            m.store_u64(X, 1);
            reopen(m, buggy);
        },
        recovery: |m, _| ensure(!has(m, 1) || m.load_u64(X) == 1, "accepted and lost"),
        ..CASE
    },
];

fn reopen(m: &Machine, buggy: bool) {
    if m.load_u64(X) == 1 {
        if !buggy {
            m.flush(X..X + 8);
        }
        m.sfence();
        m.acknowledge(1);
    }
}
