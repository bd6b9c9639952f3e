//! What shows in the instructions alone, without a recovery: waste, and what is never made durable.

use ringfence_crashcheck::{Profile, Rule};
use ringfence_persist::Memory;

use crate::case::{ADR, ALL, AMD, By, CASE, Case, OLD_AMD, persist, put};

pub const CASES: &[Case] = &[
    Case {
        name: "line flushed again with nothing stored between",
        source: "PMTest (ASPLOS 2019), Agamotto (OSDI 2020): redundant flush",
        found_under: ADR,
        found_by: By::Lint(Rule::RedundantFlush),
        program: |m, buggy| {
            m.store_u64(0, 7);
            m.flush(0..8);
            if buggy {
                m.flush(0..8);
            }
            m.sfence();
            m.acknowledge(1);
        },
        ..CASE
    },
    Case {
        name: "ranges that overlap flushed one by one",
        source: "PMTest (ASPLOS 2019): one object logged twice",
        found_under: ADR,
        found_by: By::Lint(Rule::RedundantFlush),
        program: |m, buggy| {
            m.store(0, &[7; 100]);
            let ranges = if buggy { [0..80, 40..100] } else { [0..100, 0..0] };
            ranges.into_iter().for_each(|range| m.flush(range));
            m.sfence();
            m.acknowledge(1);
        },
        ..CASE
    },
    Case {
        name: "line flushed after each of its fields",
        source: "Agamotto (OSDI 2020): redundant flush",
        found_under: ADR,
        found_by: By::Lint(Rule::FlushedTwice),
        program: |m, buggy| {
            m.store_u64(0, 7);
            if buggy {
                m.flush(0..8);
            }
            m.store_u64(8, 7);
            m.flush(0..16);
            m.sfence();
            m.acknowledge(1);
        },
        ..CASE
    },
    Case {
        name: "flush on a path that only reads",
        source: "PMTest (ASPLOS 2019), Agamotto (OSDI 2020): flush of unmodified data",
        found_under: ADR,
        found_by: By::Lint(Rule::CleanFlush),
        program: |m, buggy| {
            put(m, 0, 7);
            for value in [7, 8] {
                let is_new = m.load_u64(0) != value;
                if is_new {
                    m.store_u64(0, value);
                }
                if is_new || buggy {
                    persist(m, 0..8);
                }
            }
            m.acknowledge(1);
        },
        ..CASE
    },
    Case {
        name: "whole object flushed where one line of it changed",
        source: "PMTest (ASPLOS 2019): flush of unmodified data",
        found_under: ADR,
        found_by: By::Lint(Rule::CleanFlush),
        program: |m, buggy| {
            m.store_u64(128, 7);
            persist(m, if buggy { 64..256 } else { 128..136 });
            m.acknowledge(1);
        },
        ..CASE
    },
    Case {
        name: "flush behind a non-temporal copy",
        source: "Agamotto (OSDI 2020), PMDK's pmem_memcpy: drained, and not flushed",
        found_under: ADR,
        found_by: By::Lint(Rule::CleanFlush),
        program: |m, buggy| {
            m.store_nt(0, &[7; 64]);
            if buggy {
                m.flush(0..64);
            }
            m.sfence();
            m.acknowledge(1);
        },
        ..CASE
    },
    Case {
        name: "fence behind a fence",
        source: "Agamotto (OSDI 2020): redundant fence",
        found_under: ADR,
        found_by: By::Lint(Rule::RedundantFence),
        program: |m, buggy| {
            put(m, 0, 7);
            if buggy {
                m.sfence();
            }
            m.acknowledge(1);
        },
        ..CASE
    },
    Case {
        name: "flush where caches are durable",
        source: "Intel's eADR (2020): a flush is not wanted",
        found_under: &[Profile::Eadr],
        found_by: By::Lint(Rule::FlushUnderEadr),
        program: |m, buggy| {
            if buggy {
                m.store_u64(0, 7);
                m.flush(0..8);
            } else {
                m.store_nt(0, &7u64.to_le_bytes());
            }
            m.sfence();
            m.acknowledge(1);
        },
        ..CASE
    },
    Case {
        name: "long copy that ends inside two blocks",
        source: "Yang et al. (FAST 2020): the medium writes 256 bytes",
        found_under: ALL,
        found_by: By::Lint(Rule::PartialBlock),
        program: |m, buggy| {
            m.store_nt(if buggy { 320 } else { 256 }, &[7; 256]);
            m.sfence();
            m.acknowledge(1);
        },
        ..CASE
    },
    Case {
        name: "field that no path flushes",
        source: "Agamotto (OSDI 2020): missing flush",
        found_under: ADR,
        found_by: By::Lint(Rule::NeverDurable),
        program: |m, buggy| {
            put(m, 0, 7);
            m.store_u64(64, 1);
            if !buggy {
                persist(m, 64..72);
            }
        },
        ..CASE
    },
    Case {
        name: "flushed and fenced after the acknowledgement",
        source: "PMTest (ASPLOS 2019): isPersist",
        found_under: ADR,
        found_by: By::Lint(Rule::AcknowledgedTooEarly),
        program: |m, buggy| {
            m.store_u64(0, 7);
            if buggy {
                // A fence for eADR, which asks for no more.
                m.sfence();
                m.acknowledge(1);
            }
            persist(m, 0..8);
            if !buggy {
                m.acknowledge(1);
            }
        },
        ..CASE
    },
    Case {
        name: "acknowledged between the flush and its fence",
        source: "PMTest (ASPLOS 2019), Agamotto (OSDI 2020): missing fence",
        found_under: ALL,
        found_by: By::Lint(Rule::MissingFence),
        program: |m, buggy| {
            m.store_u64(0, 7);
            m.flush(0..8);
            if buggy {
                m.acknowledge(1);
            }
            m.sfence();
            if !buggy {
                m.acknowledge(1);
            }
        },
        ..CASE
    },
    Case {
        name: "non-temporal store at the end without a fence",
        source: "PMTest (ASPLOS 2019), Intel SDM volume 1, section 10.4.6.2",
        found_under: ALL,
        found_by: By::Lint(Rule::MissingFence),
        program: |m, buggy| {
            m.store_nt(0, &[7; 64]);
            if !buggy {
                m.sfence();
            }
        },
        ..CASE
    },
    Case {
        name: "clflush completed by sfence alone",
        source: "AMD APM volume 3, \"CLFLUSH\": before CLFLUSHOPT mfence alone orders it",
        found_under: OLD_AMD,
        found_by: By::Lint(Rule::MissingFence),
        program: |m, buggy| {
            m.store_u64(0, 7);
            m.clflush(0);
            if buggy {
                m.sfence();
            } else {
                m.mfence();
            }
            m.acknowledge(1);
        },
        ..CASE
    },
    Case {
        name: "clflush completed by a locked instruction alone",
        source: "AMD APM volume 3, \"CLFLUSH\"",
        found_under: AMD,
        found_by: By::Lint(Rule::MissingFence),
        program: |m, buggy| {
            m.store_u64(0, 7);
            if buggy {
                m.clflush(0);
            } else {
                m.clwb(0);
            }
            m.compare_exchange_u64(64, 1, 2).unwrap_err();
            m.acknowledge(1);
        },
        ..CASE
    },
];
