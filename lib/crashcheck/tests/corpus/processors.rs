//! What one processor promises and another does not.

use ringfence_crashcheck::Machine;
use ringfence_persist::Memory;

use crate::case::{ADR, ALL, AMD, CASE, Case, OLD_AMD, ensure, has};

const DATA: usize = 0;
const FLAG: usize = 64;
const LOCK: usize = 128;

fn flag_promises(m: &Machine, _: bool) -> Result<(), String> {
    let (flag, data) = (m.load_u64(FLAG), m.load_u64(DATA));
    ensure(flag == 0 || data == 7, "the flag is there, and not what it promises")?;
    ensure(!has(m, 1) || flag == 1, "acknowledged and lost")
}

// Durable on every processor.
fn raise(m: &Machine) {
    m.store_u64(FLAG, 1);
    m.clflush(FLAG);
    m.mfence();
    m.acknowledge(1);
}

pub const CASES: &[Case] = &[
    Case {
        name: "clflush taken to be ordered with the stores behind it",
        source: "Intel SDM volume 2A and AMD APM volume 3, \"CLFLUSH\": Intel's is",
        found_under: AMD,
        program: |m, buggy| {
            m.store_u64(DATA, 7);
            m.clflush(DATA);
            if !buggy {
                m.mfence();
            }
            raise(m);
        },
        recovery: flag_promises,
        ..CASE
    },
    Case {
        name: "sfence behind a clflush",
        source: "AMD APM volume 3, \"CLFLUSH\": before CLFLUSHOPT mfence alone orders it",
        found_under: OLD_AMD,
        program: |m, buggy| {
            m.store_u64(DATA, 7);
            m.clflush(DATA);
            if buggy {
                m.sfence();
            } else {
                m.mfence();
            }
            raise(m);
        },
        recovery: flag_promises,
        ..CASE
    },
    Case {
        name: "locked instruction as the fence behind a clflush",
        source: "AMD APM volume 3, \"CLFLUSH\"",
        found_under: AMD,
        program: |m, buggy| {
            m.store_u64(DATA, 7);
            if buggy {
                m.clflush(DATA);
            } else {
                m.clwb(DATA);
            }
            m.compare_exchange_u64(LOCK, 0, 1).unwrap();
            m.clwb(LOCK);
            raise(m);
        },
        recovery: flag_promises,
        ..CASE
    },
    Case {
        name: "compare-exchange that fails as the fence behind a clflush",
        source: "AMD APM volume 3, \"CLFLUSH\"",
        found_under: AMD,
        program: |m, buggy| {
            m.store_u64(DATA, 7);
            m.clflush(DATA);
            m.compare_exchange_u64(LOCK, 1, 2).unwrap_err();
            if !buggy {
                m.mfence();
            }
            raise(m);
        },
        recovery: flag_promises,
        ..CASE
    },
    Case {
        name: "clflush without a fence before the acknowledgement",
        source: "Khyzha, Lahav (POPL 2021): ordered is not yet done",
        found_under: ALL,
        program: |m, buggy| {
            m.store_u64(DATA, 7);
            m.clflush(DATA);
            if !buggy {
                m.mfence();
            }
            m.acknowledge(1);
        },
        recovery: |m, _| ensure(!has(m, 1) || m.load_u64(DATA) == 7, "acknowledged and lost"),
        ..CASE
    },
    Case {
        name: "clwb taken to be ordered as Intel's clflush is",
        source: "Intel SDM volume 2A, \"CLWB\"; Px86 (POPL 2020)",
        found_under: ADR,
        program: |m, buggy| {
            m.store_u64(DATA, 7);
            m.clwb(DATA);
            if !buggy {
                m.sfence();
            }
            raise(m);
        },
        recovery: flag_promises,
        ..CASE
    },
    Case {
        name: "flush left out as under eADR, where caches are lost",
        source: "PMDK's PMEM_NO_FLUSH, set where the platform has no eADR",
        found_under: ADR,
        program: |m, buggy| {
            let is_eadr = buggy;
            m.store_u64(DATA, 7);
            if !is_eadr {
                m.clwb(DATA);
            }
            m.sfence();
            raise(m);
        },
        recovery: flag_promises,
        ..CASE
    },
    Case {
        name: "fence left out with the flush under eADR",
        source: "Intel SDM volume 3A, section 8.2: a store waits in the store buffer",
        found_under: ALL,
        program: |m, buggy| {
            m.store_u64(DATA, 7);
            if !buggy {
                m.clwb(DATA);
                m.sfence();
            }
            m.acknowledge(1);
        },
        recovery: |m, _| ensure(!has(m, 1) || m.load_u64(DATA) == 7, "acknowledged and lost"),
        ..CASE
    },
    Case {
        name: "non-temporal store left without a fence under eADR",
        source: "Intel SDM volume 1, section 10.4.6.2: it waits in a write-combining buffer",
        found_under: ALL,
        program: |m, buggy| {
            m.store_nt(DATA, &7u64.to_le_bytes());
            if !buggy {
                m.sfence();
            }
            raise(m);
        },
        recovery: flag_promises,
        ..CASE
    },
];
