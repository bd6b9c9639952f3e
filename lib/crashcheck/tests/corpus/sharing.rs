//! What many look at: sequence locks, copies of a configuration, counts of references, queues; and
//! ranges that are flushed by a wrong length.

use ringfence_crashcheck::Machine;
use ringfence_persist::Memory;

use crate::case::{ADR, CASE, Case, ensure, has, persist, put};

// A value of two words on two lines, guarded by a sequence at 0.
fn sequenced(m: &Machine, _: bool) -> Result<(), String> {
    let sequence = m.load_u64(0);
    let (one, other) = (m.load_u64(64), m.load_u64(128));
    ensure(
        sequence % 2 == 1 || (one, other) == (sequence, sequence),
        format!("{sequence}: {one}, {other}"),
    )
}

fn fill(m: &Machine, value: u64) {
    m.store_u64(64, value);
    m.store_u64(128, value);
}

fn all_sevens(m: &Machine, at: usize, len: usize) -> bool {
    let mut found = vec![0; len];
    m.load(at, &mut found);
    found.iter().all(|byte| *byte == 7)
}

// Whether the whole of it is there once it is acknowledged.
fn kept(m: &Machine, at: usize, len: usize) -> Result<(), String> {
    ensure(!has(m, 1) || all_sevens(m, at, len), "acknowledged and lost")
}

pub const CASES: &[Case] = &[
    Case {
        name: "sequence lock: even again before the data are durable",
        source: "Boehm (MSPC 2012): sequence locks; Px86 (POPL 2020): lines are independent",
        found_under: ADR,
        program: |m, buggy| {
            put(m, 0, 1);
            fill(m, 2);
            m.flush(64..136);
            if !buggy {
                m.sfence();
            }
            put(m, 0, 2);
        },
        recovery: sequenced,
        ..CASE
    },
    Case {
        name: "sequence lock: odd only in the cache",
        source: "Boehm (MSPC 2012): sequence locks; Jaaru (ASPLOS 2021)",
        found_under: ADR,
        program: |m, buggy| {
            m.store_u64(0, 1);
            if !buggy {
                persist(m, 0..8);
            }
            fill(m, 2);
            persist(m, 64..136);
            put(m, 0, 2);
        },
        recovery: sequenced,
        ..CASE
    },
    Case {
        name: "both copies of a configuration under way at once",
        source: "ZFS's uberblocks, XFDetector (ASPLOS 2020): redundant copies",
        found_under: ADR,
        program: |m, buggy| {
            for copy in [64, 192] {
                m.store_u64(copy, 1);
                m.store_u64(copy + 64, 1);
                m.flush(copy..copy + 72);
                if !buggy {
                    m.sfence();
                }
            }
            m.sfence();
        },
        recovery: |m, _| {
            let whole = |copy: usize| m.load_u64(copy) == m.load_u64(copy + 64);
            ensure(whole(64) || whole(192), "both copies are torn")
        },
        ..CASE
    },
    Case {
        name: "reference stored before its count is raised",
        source: "PMDK's shared pointers; Corundum (ASPLOS 2021)",
        program: |m, buggy| {
            let (count, reference) = (64, 128);
            if !buggy {
                put(m, count, 1);
            }
            put(m, reference, 256);
            put(m, count, 1);
        },
        recovery: |m, _| {
            ensure(m.load_u64(128) == 0 || m.load_u64(64) > 0, "a reference that nobody counted")
        },
        ..CASE
    },
    Case {
        name: "count of references lowered before the reference is gone",
        source: "Corundum (ASPLOS 2021)",
        program: |m, buggy| {
            let (count, reference) = (64, 128);
            put(m, count, 1);
            put(m, reference, 256);
            for at in if buggy { [count, reference] } else { [reference, count] } {
                put(m, at, 0);
            }
        },
        recovery: |m, _| {
            ensure(m.load_u64(128) == 0 || m.load_u64(64) > 0, "a reference that nobody counted")
        },
        ..CASE
    },
    Case {
        name: "slot used again before its new version is durable",
        source: "ABA after a crash: a handle fits by its version",
        found_under: ADR,
        program: |m, buggy| {
            let (version, handle, object) = (64, 128, 192);
            put(m, object, 10);
            put(m, version, 1);
            put(m, handle, 1);
            m.store_u64(version, 2);
            if !buggy {
                persist(m, version..version + 8);
            }
            put(m, object, 20);
            persist(m, version..version + 8);
        },
        recovery: |m, _| {
            let fits = m.load_u64(128) == 1 && m.load_u64(64) == 1;
            ensure(!fits || m.load_u64(192) == 10, "an old handle opens a new object")
        },
        ..CASE
    },
    Case {
        name: "queue: delivered before the node is marked as taken",
        source: "Friedman et al. (PPoPP 2018): the durable queue",
        program: |m, buggy| {
            // The value, which thread took it, and where it is delivered.
            let (node, taken, delivered) = (64, 128, 192);
            put(m, node, 5);
            if !buggy {
                put(m, taken, 1);
            }
            put(m, delivered, 5);
            put(m, taken, 1);
        },
        recovery: |m, _| {
            let (taken, delivered) = (m.load_u64(128), m.load_u64(192));
            // What was not taken is given to the next.
            ensure(taken == 1 || delivered == 0, "delivered twice")
        },
        ..CASE
    },
    Case {
        name: "flag of a hand-off by clflush, taken for a fence behind the data's clwb",
        source: "Px86 (POPL 2020): a store is not ordered behind clflushopt of another line",
        found_under: ADR,
        program: |m, buggy| {
            m.store_u64(0, 7);
            m.clwb(0);
            if !buggy {
                m.sfence();
            }
            m.store_u64(64, 1);
            m.clflush(64);
            m.mfence();
            m.acknowledge(1);
        },
        recovery: |m, _| {
            ensure(m.load_u64(64) == 0 || m.load_u64(0) == 7, "handed over empty")?;
            ensure(!has(m, 1) || m.load_u64(64) == 1, "acknowledged and lost")
        },
        ..CASE
    },
    Case {
        name: "tail of a non-temporal copy stored ordinarily and not flushed",
        source: "PMDK's pmem_memcpy, Pmemcheck",
        found_under: ADR,
        program: |m, buggy| {
            m.store_nt(64, &[7; 64]);
            m.store(128, &[7; 5]);
            if !buggy {
                m.flush(128..133);
            }
            m.sfence();
            m.acknowledge(1);
            persist(m, 128..133);
        },
        recovery: |m, _| kept(m, 64, 69),
        ..CASE
    },
    Case {
        name: "head of an unaligned copy flushed, and its last line not",
        source: "Pmemcheck, PMTest (ASPLOS 2019): a struct that spans lines",
        found_under: ADR,
        program: |m, buggy| {
            m.store(60, &[7; 24]);
            persist(m, if buggy { 60..64 } else { 60..84 });
            m.acknowledge(1);
            persist(m, 60..84);
        },
        recovery: |m, _| kept(m, 60, 24),
        ..CASE
    },
    Case {
        name: "length in words taken for one in bytes",
        source: "Agamotto (OSDI 2020): wrong range",
        found_under: ADR,
        program: |m, buggy| {
            let words = 16;
            m.store(64, &[7; 128]);
            persist(m, 64..64 + if buggy { words } else { 8 * words });
            m.acknowledge(1);
            persist(m, 64..192);
        },
        recovery: |m, _| kept(m, 64, 128),
        ..CASE
    },
    Case {
        name: "flush begins at the next line",
        source: "Agamotto (OSDI 2020): an address rounded up",
        found_under: ADR,
        program: |m, buggy| {
            m.store(96, &[7; 64]);
            let from: usize = if buggy { 96usize.next_multiple_of(64) } else { 96 };
            persist(m, from..160);
            m.acknowledge(1);
            persist(m, 96..160);
        },
        recovery: |m, _| kept(m, 96, 64),
        ..CASE
    },
    Case {
        name: "acknowledged behind a fence that came before the flush of the second line",
        source: "PMTest (ASPLOS 2019): missing fence on one path",
        found_under: ADR,
        program: |m, buggy| {
            m.store(64, &[7; 128]);
            m.flush(64..128);
            if buggy {
                m.sfence();
            }
            m.flush(128..192);
            if !buggy {
                m.sfence();
            }
            m.acknowledge(1);
            m.sfence();
        },
        recovery: |m, _| kept(m, 64, 128),
        ..CASE
    },
    Case {
        name: "non-temporal fill goes on behind the fence",
        source: "PMDK's pmem_memset_nodrain: the drain is the caller's",
        program: |m, buggy| {
            m.store_nt(64, &[7; 64]);
            if buggy {
                m.sfence();
            }
            m.store_nt(128, &[7; 64]);
            if !buggy {
                m.sfence();
            }
            m.acknowledge(1);
            m.sfence();
        },
        recovery: |m, _| kept(m, 64, 128),
        ..CASE
    },
];
