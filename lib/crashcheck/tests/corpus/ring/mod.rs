//! A ring of four lines, and each part of its recovery left out in turn.

mod scheme;

use ringfence_crashcheck::Machine;
use ringfence_persist::Memory;

use crate::case::{ADR, CASE, Case, ensure, has};
use scheme::*;

// Whatever was pushed and not popped is there, whole and in order, and nothing else; then the next
// life pushes two, and pops one.
fn check(m: &Machine, parts: Parts) -> Result<(), String> {
    if !has(m, FORMATTED) {
        return Ok(());
    }
    let (mut ring, entries) = Ring::recover(m, parts)?;
    let numbers: Vec<u64> = entries.iter().map(Entry::number).collect();
    ensure(numbers.is_sorted(), format!("out of order: {numbers:?}"))?;
    let torn = entries.iter().find(|entry| entry.payload != payload(entry.number()));
    ensure(torn.is_none(), format!("torn: {torn:?}"))?;
    let unknown = numbers.iter().find(|number| !has(m, BEGUN + **number));
    ensure(unknown.is_none(), format!("nobody pushed {unknown:?}"))?;
    let popped = marked(m, POPPED).max().unwrap_or(0);
    let revived = numbers.iter().find(|number| **number <= popped);
    ensure(revived.is_none(), format!("{popped} was popped durably, and {revived:?} is there"))?;
    let popping = marked(m, POPPING).max().unwrap_or(0);
    let lost = marked(m, PUSHED).find(|number| *number > popping && !numbers.contains(number));
    ensure(lost.is_none(), format!("{lost:?} was pushed and is lost, {numbers:?} are there"))?;
    // What is there is there for good.
    numbers.iter().for_each(|number| m.acknowledge(PUSHED + number));
    let next = marked(m, BEGUN).max().unwrap_or(0) + 1;
    ring.push(next);
    if !parts.life_first {
        ring.record_life();
    }
    ring.push(next + 1);
    // The one just pushed, where there was none before.
    let (number, lines) = entries.first().map_or((next, 1), |entry| (entry.number(), entry.lines));
    ring.pop_durably(number, lines);
    Ok(())
}

// Goes round once, and ends in a batch of two under one fence.
fn around(m: &Machine, parts: Parts) {
    let mut ring = Ring::format(m, parts);
    for number in 1..=5 {
        ring.push(number);
        ring.pop_durably(number, 1);
    }
    for number in 6..=7 {
        m.mark(BEGUN + number);
        ring.write(&payload(number));
    }
    m.sfence();
    (6..=7).for_each(|number| m.acknowledge(PUSHED + number));
}

const NO_LIFE: Parts = Parts { life: false, ..WHOLE };
const NO_START: Parts = Parts { start: false, ..WHOLE };
const NO_POSITION: Parts = Parts { covers: Covers::AllButPosition, ..WHOLE };
const NO_LENGTH: Parts = Parts { covers: Covers::AllButLength, ..WHOLE };
const NO_SALT: Parts = Parts { salt: 0, ..WHOLE };
const TWO_WORDS: Parts = Parts { one_record: false, ..WHOLE };
const LIFE_LAST: Parts = Parts { life_first: false, ..WHOLE };
const CACHED: Parts = Parts { cached: true, ..WHOLE };
const NOT_FLUSHED: Parts = Parts { accepted_flushed: false, ..CACHED };
const VOLATILE_CURSOR: Parts = Parts { behind_cursor: false, ..WHOLE };
const NO_FENCE: Parts = Parts { fenced: false, ..WHOLE };

fn only(buggy: bool, without: Parts) -> Parts {
    if buggy { without } else { WHOLE }
}

const RING: Case = Case { len: ENTRIES + LINES as usize * 64, ..CASE };

pub const CASES: &[Case] = &[
    Case {
        name: "ring: push returns without a fence",
        source: "Mnemosyne (ASPLOS 2011): a log of non-temporal stores is fenced",
        program: |m, buggy| around(m, only(buggy, NO_FENCE)),
        recovery: |m, buggy| check(m, only(buggy, NO_FENCE)),
        ..RING
    },
    Case {
        name: "ring: entries do not say in which life they were pushed",
        source: "Raft (USENIX ATC 2014): a term in each entry; docs/reference/one-fence.md",
        crashes: 2,
        program: |m, buggy| around(m, only(buggy, NO_LIFE)),
        recovery: |m, buggy| check(m, only(buggy, NO_LIFE)),
        ..RING
    },
    Case {
        name: "ring: recovery takes entries of any earlier life",
        source: "docs/reference/one-fence.md: behind the start entries are of this life",
        crashes: 2,
        program: |m, buggy| around(m, only(buggy, NO_START)),
        recovery: |m, buggy| check(m, only(buggy, NO_START)),
        ..RING
    },
    Case {
        name: "ring: checksum leaves out the position",
        source: "docs/reference/one-fence.md; NOVA-Fortis (SOSP 2017): field read, not covered",
        program: |m, buggy| around(m, only(buggy, NO_POSITION)),
        recovery: |m, buggy| check(m, only(buggy, NO_POSITION)),
        ..RING
    },
    Case {
        name: "ring: checksum leaves out the length",
        source: "docs/reference/one-fence.md; NOVA-Fortis (SOSP 2017): field read, not covered",
        program: |m, buggy| around(m, only(buggy, NO_LENGTH)),
        recovery: |m, buggy| check(m, only(buggy, NO_LENGTH)),
        ..RING
    },
    Case {
        name: "ring: checksum without a salt, and a payload that looks like an entry",
        source: "docs/reference/one-fence.md; SQLite's WAL format: a salt in each header",
        program: |m, buggy| {
            let mut ring = Ring::format(m, only(buggy, NO_SALT));
            ring.push(IMITATOR);
            ring.push(IMITATOR + 1);
            ring.pop_durably(IMITATOR, 2);
            ring.push(IMITATOR + 2);
            // Over the imitator's first line, with the imitation next.
            ring.push(IMITATOR + 3);
        },
        recovery: |m, buggy| check(m, only(buggy, NO_SALT)),
        ..RING
    },
    Case {
        name: "ring: life and start recorded word by word",
        source: "BPFS (SOSP 2009): 8 bytes are stored at once, not 16",
        crashes: 2,
        program: |m, buggy| around(m, only(buggy, TWO_WORDS)),
        recovery: |m, buggy| check(m, only(buggy, TWO_WORDS)),
        ..RING
    },
    Case {
        name: "ring: pushed before the new life is recorded",
        source: "docs/reference/one-fence.md; Raft (USENIX ATC 2014): the term is durable first",
        crashes: 2,
        program: |m, buggy| around(m, only(buggy, LIFE_LAST)),
        recovery: |m, buggy| check(m, only(buggy, LIFE_LAST)),
        ..RING
    },
    Case {
        name: "ring: new life recorded before what was accepted is flushed",
        source: "docs/reference/one-fence.md: what is read back is not yet durable",
        found_under: ADR,
        program: |m, buggy| {
            let parts = if buggy { NOT_FLUSHED } else { CACHED };
            let mut ring = Ring::format(m, parts);
            m.mark(BEGUN + 1);
            ring.write(&payload(1));
            // The process is killed before its flush: caches live on, and the next one starts.
            let (_, entries) = Ring::recover(m, parts).expect("a ring");
            assert_eq!(entries.len(), 1);
            m.acknowledge(PUSHED + 1);
        },
        recovery: |m, _| check(m, CACHED),
        ..RING
    },
    Case {
        name: "ring: space used again behind a cursor that is not durable",
        source: "docs/reference/one-fence.md; Mnemosyne (ASPLOS 2011): truncation of a log",
        program: |m, buggy| {
            let mut ring = Ring::format(m, only(buggy, VOLATILE_CURSOR));
            (1..=LINES).for_each(|number| ring.push(number));
            m.mark(POPPING + 1);
            ring.pop(1);
            // Full, as far as is durable. eADR does not help: the entry may overtake the cursor,
            // for it is written by non-temporal stores.
            ring.push(LINES + 1);
            ring.commit();
            m.acknowledge(POPPED + 1);
        },
        recovery: |m, buggy| check(m, only(buggy, VOLATILE_CURSOR)),
        ..RING
    },
    Case {
        name: "ring: cursor durable before the entry was processed",
        source: "docs/reference/one-fence.md; Friedman et al. (PPoPP 2018): durable dequeue",
        program: |m, buggy| {
            let mut ring = Ring::format(m, WHOLE);
            for number in 1..=2 {
                ring.push(number);
                if buggy {
                    ring.pop_durably(number, 1);
                }
                m.mark(PROCESSED + number);
                if !buggy {
                    ring.pop_durably(number, 1);
                }
            }
        },
        recovery: |m, _| {
            if !has(m, FORMATTED) {
                return Ok(());
            }
            let (_, entries) = Ring::recover(m, WHOLE)?;
            let is_there = |number| entries.iter().any(|entry| entry.number() == number);
            let lost =
                marked(m, PUSHED).find(|number| !has(m, PROCESSED + number) && !is_there(*number));
            ensure(lost.is_none(), format!("{lost:?} is gone, and nobody has processed it"))
        },
        ..RING
    },
];
