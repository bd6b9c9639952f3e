//! File systems, log-structured stores and allocators.

use ringfence_persist::{Memory, checksum};

use crate::case::{ADR, CASE, Case, ensure, has, persist, put};

pub const CASES: &[Case] = &[
    Case {
        name: "NOVA: rename moves two log tails without the journal",
        source: "NOVA (FAST 2016), Chipmunk (EuroSys 2023)",
        program: |m, buggy| {
            // Directories of which one has the file; both tails are journaled: a bit for each.
            let (from, to, journal) = (64, 128, 192);
            put(m, from, 1);
            m.mark(1);
            if !buggy {
                put(m, journal, 1);
            }
            put(m, from, 0);
            put(m, to, 1);
            if !buggy {
                put(m, journal, 0);
            }
        },
        recovery: |m, _| {
            if m.load_u64(192) == 1 {
                put(m, 64, 1);
                put(m, 128, 0);
                put(m, 192, 0);
            }
            let names = m.load_u64(64) + m.load_u64(128);
            ensure(!has(m, 1) || names == 1, format!("the file has {names} names"))
        },
        ..CASE
    },
    Case {
        name: "unlink lowers the count of links before the name is gone",
        source: "Soft updates (TOCS 2000): never point at what is not initialised; SquirrelFS \
                 (OSDI 2024)",
        program: |m, buggy| {
            let (links, name) = (64, 128);
            put(m, links, 1);
            put(m, name, 64);
            m.mark(1);
            for at in if buggy { [links, name] } else { [name, links] } {
                put(m, at, 0);
            }
        },
        recovery: |m, _| {
            let (links, name) = (m.load_u64(64), m.load_u64(128));
            ensure(name == 0 || links > 0, "a name of a file that is free")
        },
        ..CASE
    },
    Case {
        name: "truncation frees the block before the size is durable",
        source: "PMFS (EuroSys 2014), Chipmunk (EuroSys 2023)",
        found_under: ADR,
        program: |m, buggy| {
            let (size, bitmap) = (64, 128);
            put(m, bitmap, 1);
            put(m, size, 4096);
            m.store_u64(size, 0);
            m.flush(size..size + 8);
            if !buggy {
                m.sfence();
            }
            put(m, bitmap, 0);
        },
        recovery: |m, _| {
            ensure(m.load_u64(64) == 0 || m.load_u64(128) == 1, "a file over a free block")
        },
        ..CASE
    },
    Case {
        name: "journal's line made invalid, and filled by non-temporal stores at once",
        source: "Raad, Maranget, Vafeiadis (POPL 2022): in one line the two kinds are not ordered",
        program: |m, buggy| {
            let fill = |value: u8| {
                m.store_nt(72, &[value; 16]);
                m.sfence();
            };
            fill(7);
            put(m, 64, 7);
            m.mark(1);
            m.store_u64(64, 0);
            if !buggy {
                persist(m, 64..72);
            }
            fill(9);
            put(m, 64, 9);
        },
        recovery: |m, _| {
            let valid = m.load_u64(64);
            let (one, other) = (m.load_u64(72), m.load_u64(80));
            let whole = u64::from_le_bytes([valid as u8; 8]);
            ensure(
                valid == 0 || (one, other) == (whole, whole),
                format!("{valid} over {one:x} {other:x}"),
            )
        },
        ..CASE
    },
    Case {
        name: "slab given to another class before the last free is fenced",
        source: "Makalu (OOPSLA 2016), Ralloc (ISMM 2020)",
        found_under: ADR,
        program: |m, buggy| {
            let (bitmap, class) = (64, 128);
            put(m, class, 32);
            put(m, bitmap, 2);
            m.store_u64(bitmap, 0);
            m.flush(bitmap..bitmap + 8);
            if !buggy {
                m.sfence();
            }
            put(m, class, 64);
        },
        recovery: |m, _| {
            let (bitmap, class) = (m.load_u64(64), m.load_u64(128));
            ensure(
                class != 64 || bitmap == 0,
                "an object of the old class in a slab of the new one",
            )
        },
        ..CASE
    },
    Case {
        name: "bump pointer raised behind the publication",
        source: "Makalu (OOPSLA 2016), nvm_malloc (ADMS 2015)",
        program: |m, buggy| {
            let (top, root) = (64, 128);
            put(m, top, 256);
            if !buggy {
                put(m, top, 320);
            }
            put(m, 256, 7);
            put(m, root, 256);
            if buggy {
                put(m, top, 320);
            }
        },
        recovery: |m, _| {
            let (top, root) = (m.load_u64(64), m.load_u64(128));
            ensure(root == 0 || top > root, "what is in use is handed out again")
        },
        ..CASE
    },
    Case {
        name: "cleaner frees the segment before the copy is fenced",
        source: "LFS (TOCS 1992), FlatStore (ASPLOS 2020)",
        found_under: ADR,
        program: |m, buggy| {
            let (old, new, free) = (256, 512, 64);
            put(m, old, 5);
            m.acknowledge(5);
            m.store_u64(new, 5);
            m.flush(new..new + 8);
            if !buggy {
                m.sfence();
            }
            put(m, free, 1);
        },
        recovery: |m, _| {
            let found = m.load_u64(512) == 5 || (m.load_u64(64) == 0 && m.load_u64(256) == 5);
            ensure(!has(m, 5) || found, "the live entry went with its segment")
        },
        ..CASE
    },
    Case {
        name: "recovery takes the version at the higher place for the newer one",
        source: "FlatStore (ASPLOS 2020): versions order entries, places do not",
        program: |m, _| {
            // Version and value, the second one at the place that had become free.
            for (at, version) in [(128, 1), (64, 2)] {
                m.store_u64(at + 8, 10 * version);
                m.store_u64(at, version);
                persist(m, at..at + 16);
                m.acknowledge(version);
            }
        },
        recovery: |m, buggy| {
            let entries = [64, 128].map(|at| (m.load_u64(at), m.load_u64(at + 8)));
            let newest = if buggy {
                entries.into_iter().rfind(|(version, _)| *version > 0)
            } else {
                entries.into_iter().max()
            };
            ensure(
                !has(m, 2) || newest == Some((2, 20)),
                format!("{newest:?} is taken for the newest"),
            )
        },
        ..CASE
    },
    Case {
        name: "manifest removes the old table and adds the new one in two edits",
        source: "SLM-DB (FAST 2019): a version changes at once",
        program: |m, buggy| {
            // A bit for each table that is live.
            put(m, 64, 0b01);
            m.acknowledge(1);
            if buggy {
                put(m, 64, 0b00);
            }
            put(m, 64, 0b10);
        },
        recovery: |m, _| ensure(!has(m, 1) || m.load_u64(64) != 0, "no table is live"),
        ..CASE
    },
    Case {
        name: "group commit answers for an entry that is flushed behind its fence",
        source: "Aether (VLDB 2010), Agamotto (OSDI 2020)",
        found_under: ADR,
        program: |m, buggy| {
            m.store_u64(64, 1);
            m.store_u64(128, 2);
            m.flush(64..72);
            if !buggy {
                m.flush(128..136);
            }
            m.sfence();
            m.acknowledge(1);
            m.acknowledge(2);
            if buggy {
                persist(m, 128..136);
            }
        },
        recovery: |m, _| {
            let lost = [1, 2]
                .into_iter()
                .find(|entry| has(m, *entry) && m.load_u64(64 * *entry as usize) == 0);
            ensure(lost.is_none(), format!("committed and lost: {lost:?}"))
        },
        ..CASE
    },
    Case {
        name: "write-ahead log: what lies behind a hole comes back behind a new entry",
        source: "ARIES (TODS 1992): the log is cut off at its end before anything is appended",
        crashes: 2,
        found_under: ADR,
        program: |m, _| {
            for entry in 1..=3 {
                m.store_u64(64 * entry, entry as u64);
                m.flush(64 * entry..64 * entry + 8);
            }
            m.sfence();
        },
        recovery: |m, buggy| {
            let end = (1..=4).find(|entry| m.load_u64(64 * entry) == 0).unwrap_or(5);
            if !has(m, 100) {
                if !buggy {
                    for entry in end + 1..=3 {
                        m.store_u64(64 * entry, 0);
                        m.flush(64 * entry..64 * entry + 8);
                    }
                    m.sfence();
                }
                put(m, 64 * end, 100);
                m.acknowledge(100);
                return Ok(());
            }
            let last = m.load_u64(64 * (end - 1));
            ensure(last == 100, format!("entry {last} of an earlier life follows"))
        },
        ..CASE
    },
    Case {
        name: "record's checksum leaves out its type, on a line of its own",
        source: "Mnemosyne (ASPLOS 2011), PMDK's user-space log",
        found_under: ADR,
        program: |m, buggy| {
            let payload = [7; 16];
            let covered = [&3u64.to_le_bytes()[..], &payload].concat();
            m.store_u64(64, 3);
            m.store_u64(128, checksum::of(if buggy { &payload } else { &covered }, 1));
            m.store(192, &payload);
            persist(m, 64..208);
        },
        recovery: |m, buggy| {
            let kind = if buggy { 64..64 } else { 64..72 };
            let sum = m.load_u64(128);
            if !m.verify([kind, 192..208], 1, sum) {
                return Ok(());
            }
            ensure(m.load_u64(64) == 3, "a record of no type")
        },
        ..CASE
    },
    Case {
        name: "undo entry across two lines, its count in the first",
        source: "NV-Heaps (ASPLOS 2011), PMTest (ASPLOS 2019)",
        found_under: ADR,
        program: |m, buggy| {
            // Count at 0, entry at 56: what, and at 64, the old value.
            put(m, 128, 10);
            m.store_u64(56, 128);
            m.store_u64(64, 10);
            if !buggy {
                persist(m, 56..72);
            }
            m.store_u64(0, 1);
            persist(m, 0..72);
            m.mark(1);
            put(m, 128, 11);
        },
        recovery: |m, _| {
            if m.load_u64(0) == 1 {
                let at = m.load_u64(56) as usize;
                put(m, at, m.load_u64(64));
            }
            ensure(
                [0, 10, 11].contains(&m.load_u64(128)) && (!has(m, 1) || m.load_u64(128) == 10),
                "undone to nothing",
            )?;
            ensure(m.load_u64(0) == 0 || m.load_u64(128) == 10, "undone to nothing")
        },
        ..CASE
    },
    Case {
        name: "epoch ended before the last of its stores is flushed",
        source: "Montage (ICPP 2021): buffered durability",
        found_under: ADR,
        program: |m, buggy| {
            for item in 1..=3 {
                m.store_u64(64 * item, 1);
            }
            m.flush(64..if buggy { 192 } else { 256 });
            m.sfence();
            put(m, 0, 1);
            persist(m, 192..200);
        },
        recovery: |m, _| {
            let whole = || (1..=3).all(|item| m.load_u64(64 * item) == 1);
            ensure(m.load_u64(0) == 0 || whole(), "the epoch is not whole")
        },
        ..CASE
    },
];
