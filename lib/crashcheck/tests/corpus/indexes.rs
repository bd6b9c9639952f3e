//! Indexes: radix trees, tries of B+-trees, skip lists, mapping tables.

use ringfence_crashcheck::Machine;
use ringfence_persist::Memory;

use crate::case::{ADR, CASE, Case, ensure, has, persist, put};

const ROOT: usize = 0;

fn implies(premise: bool, conclusion: bool, otherwise: &str) -> Result<(), String> {
    ensure(!premise || conclusion, otherwise)
}

pub const CASES: &[Case] = &[
    Case {
        name: "P-ART: prefix cut short before the node has its new parent",
        source: "RECIPE (SOSP 2019): path compression in two steps, of which readers bear one \
                 order",
        program: |m, buggy| {
            // A node of prefix 2; a parent of prefix 1 comes above it.
            put(m, 64, 2);
            put(m, ROOT, 64);
            m.acknowledge(1);
            m.store_u64(128, 1);
            persist(m, 128..136);
            if buggy {
                put(m, 64, 1);
            }
            put(m, ROOT, 128);
            if !buggy {
                put(m, 64, 1);
            }
        },
        recovery: |m, _| {
            // Below the parent the node's level says how much of its prefix is left.
            let found = m.load_u64(ROOT) == 128 || m.load_u64(64) == 2;
            implies(has(m, 1), found, "the key is not found")
        },
        ..CASE
    },
    Case {
        name: "P-ART: key byte and count durable before the child",
        source: "RECIPE (SOSP 2019), Witcher (SOSP 2021): P-ART",
        found_under: ADR,
        program: |m, buggy| {
            m.store_u64(192, 7);
            if !buggy {
                persist(m, 192..200);
            }
            m.store(136, b"k");
            m.store_u64(128, 1);
            m.flush(128..137);
            if buggy {
                m.flush(192..200);
            }
            m.sfence();
            m.acknowledge(1);
        },
        recovery: |m, _| {
            let count = m.load_u64(128);
            implies(count == 1, m.load_u64(192) == 7, "a child that points nowhere")?;
            implies(has(m, 1), count == 1, "the key is lost")
        },
        ..CASE
    },
    Case {
        name: "P-Masstree: permutation names a slot whose value is not flushed",
        source: "RECIPE (SOSP 2019), Witcher (SOSP 2021): P-Masstree",
        found_under: ADR,
        program: |m, buggy| {
            m.store_u64(64, 5);
            m.store_u64(128, 50);
            persist(m, if buggy { 64..72 } else { 64..136 });
            put(m, 0, 0x01);
            if buggy {
                persist(m, 128..136);
            }
            m.acknowledge(1);
        },
        recovery: |m, _| {
            let here = m.load_u64(0) == 1;
            implies(here, m.load_u64(64) == 5 && m.load_u64(128) == 50, "a slot half filled")?;
            implies(has(m, 1), here, "the key is lost")
        },
        ..CASE
    },
    Case {
        name: "P-Masstree: leaf trimmed before its right neighbour is linked",
        source: "RECIPE (SOSP 2019): splits of P-Masstree",
        program: |m, buggy| {
            // A leaf of four keys, by number; the right one takes two of them.
            put(m, 64, 4);
            m.acknowledge(1);
            put(m, 128, 2);
            if buggy {
                put(m, 64, 2);
            }
            put(m, 72, 128);
            if !buggy {
                put(m, 64, 2);
            }
        },
        recovery: |m, _| {
            let left = m.load_u64(64);
            // Keys that are in both are found in the left one.
            let right = if m.load_u64(72) == 128 { m.load_u64(128) } else { 0 };
            implies(has(m, 1), left == 4 || left + right == 4, "keys are lost in a split")
        },
        ..CASE
    },
    Case {
        name: "P-BwTree: delta record installed before its flush",
        source: "RECIPE (SOSP 2019): P-BwTree; a locked instruction completes flushes before it",
        found_under: ADR,
        program: |m, buggy| {
            m.store_u64(64, 9);
            if !buggy {
                m.flush(64..72);
            }
            // The locked operation is the fence.
            m.compare_exchange_u64(ROOT, 0, 64).unwrap();
            m.flush(ROOT..ROOT + 8);
            if buggy {
                m.flush(64..72);
            }
            m.sfence();
            m.acknowledge(1);
        },
        recovery: |m, _| {
            let delta = m.load_u64(ROOT);
            implies(delta == 64, m.load_u64(64) == 9, "the delta is empty")?;
            implies(has(m, 1), delta == 64, "the delta is lost")
        },
        ..CASE
    },
    Case {
        name: "compare-exchange fails, and what it found is taken for durable",
        source: "RECIPE (SOSP 2019): readers of what is not yet flushed; PMRace (ASPLOS 2022)",
        found_under: ADR,
        program: |m, buggy| {
            // Another thread has stored it, and is about to flush it.
            m.store_u64(ROOT, 1);
            if m.compare_exchange_u64(ROOT, 0, 1).is_err() && !buggy {
                persist(m, ROOT..ROOT + 8);
            }
            m.acknowledge(1);
            persist(m, ROOT..ROOT + 8);
        },
        recovery: |m, _| implies(has(m, 1), m.load_u64(ROOT) == 1, "found by one, and lost"),
        ..CASE
    },
    Case {
        name: "skip list: linked at the upper level first",
        source: "Pugh (CACM 1990): inserted from the bottom up; Yat (USENIX ATC 2014)",
        program: |m, buggy| {
            let (upper, lower) = (64, 128);
            put(m, 192, 5);
            for level in if buggy { [upper, lower] } else { [lower, upper] } {
                put(m, level, 192);
            }
        },
        recovery: |m, _| {
            implies(m.load_u64(64) != 0, m.load_u64(128) != 0, "on the express way only")
        },
        ..CASE
    },
    Case {
        name: "skip list: unlinked at the bottom first",
        source: "Pugh (CACM 1990): removed from the top down",
        program: |m, buggy| {
            let (upper, lower) = (64, 128);
            m.store_u64(upper, 192);
            m.store_u64(lower, 192);
            m.flush(upper..upper + 8);
            m.flush(lower..lower + 8);
            m.sfence();
            m.mark(1);
            for level in if buggy { [lower, upper] } else { [upper, lower] } {
                put(m, level, 0);
            }
        },
        recovery: |m, _| {
            let only_above = m.load_u64(64) != 0 && m.load_u64(128) == 0;
            implies(has(m, 1), !only_above, "on the express way only")
        },
        ..CASE
    },
    Case {
        name: "recovery takes the mark of a deletion for one of a dirty word",
        source: "Harris (DISC 2001), link-and-persist of David et al. (USENIX ATC 2018)",
        program: |m, _| {
            put(m, 64, 128);
            m.acknowledge(1);
            put(m, 64, 128 | 1);
            m.acknowledge(2);
        },
        recovery: |m, buggy| {
            let word = m.load_u64(64);
            let alive = if buggy { word & !1 == 128 } else { word == 128 };
            implies(has(m, 2), !alive, "what was deleted is back")
        },
        ..CASE
    },
    Case {
        name: "link-and-persist: dirty mark taken off before the flush",
        source: "David et al. (USENIX ATC 2018), PMwCAS (ICDE 2018)",
        found_under: ADR,
        program: |m, buggy| {
            m.store_u64(ROOT, 64 | 1);
            if !buggy {
                persist(m, ROOT..ROOT + 8);
            }
            m.store_u64(ROOT, 64);
            // What code does that believes in the word without a mark.
            put(m, 128, 64);
            persist(m, ROOT..ROOT + 8);
        },
        recovery: |m, _| {
            implies(m.load_u64(128) == 64, m.load_u64(ROOT) & !1 == 64, "relied upon, and lost")
        },
        ..CASE
    },
    Case {
        name: "wB+-tree: slot array of two words changed while it is valid",
        source: "Chen, Jin (VLDB 2015): a bit says that the slot array is not to be trusted",
        program: |m, buggy| {
            m.store(64, &[1; 16]);
            persist(m, 64..80);
            put(m, 0, 1);
            if !buggy {
                put(m, 0, 0);
            }
            m.store(64, &[2; 16]);
            persist(m, 64..80);
            if !buggy {
                put(m, 0, 1);
            }
        },
        recovery: |m, _| {
            implies(m.load_u64(0) == 1, m.load_u64(64) == m.load_u64(72), "a torn slot array")
        },
        ..CASE
    },
    Case {
        name: "FPTree: fingerprint not flushed with its entry",
        source: "Oukid et al. (SIGMOD 2016): recovery looks only where a fingerprint fits",
        found_under: ADR,
        program: |m, buggy| {
            m.store(8, &[0xaa]);
            m.store_u64(64, 5);
            persist(m, 64..72);
            if !buggy {
                persist(m, 8..9);
            }
            put(m, 128, 1);
            m.acknowledge(1);
            if buggy {
                persist(m, 8..9);
            }
        },
        recovery: |m, _| {
            let mut fingerprint = [0];
            m.load(8, &mut fingerprint);
            let found = m.load_u64(128) == 1 && fingerprint == [0xaa] && m.load_u64(64) == 5;
            implies(has(m, 1), found, "the key is not found")
        },
        ..CASE
    },
    Case {
        name: "open addressing: slot given another key while it is full",
        source: "CCEH (FAST 2019), Level Hashing (OSDI 2018): a slot is emptied before it is \
                 filled",
        program: |m, buggy| {
            let (state, key, value) = (0, 64, 128);
            put(m, key, 5);
            put(m, value, 50);
            put(m, state, 1);
            if !buggy {
                put(m, state, 2);
            }
            put(m, key, 6);
            put(m, value, 60);
            put(m, state, 1);
        },
        recovery: |m, _| {
            let fits = |m: &Machine| m.load_u64(128) == 10 * m.load_u64(64);
            implies(m.load_u64(0) == 1, fits(m), "one key with another's value")
        },
        ..CASE
    },
    Case {
        name: "hopscotch: moved entry cleared before its new place is fenced",
        source: "Herlihy, Shavit, Tzafrir (DISC 2008); Agamotto (OSDI 2020)",
        found_under: ADR,
        program: |m, buggy| {
            put(m, 64, 5);
            m.acknowledge(1);
            m.store_u64(192, 5);
            m.flush(192..200);
            if !buggy {
                m.sfence();
            }
            put(m, 64, 0);
        },
        recovery: |m, _| {
            implies(has(m, 1), [64, 192].iter().any(|at| m.load_u64(*at) == 5), "lost in a move")
        },
        ..CASE
    },
];
