//! What is stored at once is taken to become durable at once.

use ringfence_crashcheck::Machine;
use ringfence_persist::{Memory, checksum};

use crate::case::{ALL, CASE, Case, ensure, last, persist, put};

// A slot of a record: checksum, sequence number, 16 bytes each of which is the sequence number. The
// checksum covers the slot from byte `from` on.
const SLOT: usize = 32;

fn write_slot(m: &Machine, at: usize, sequence: u64, from: usize) {
    let mut slot = [sequence as u8; SLOT];
    slot[8..16].copy_from_slice(&sequence.to_le_bytes());
    let sum = checksum::of(&slot[from..], 7);
    slot[..8].copy_from_slice(&sum.to_le_bytes());
    m.store_nt(at, &slot);
    m.sfence();
}

fn is_whole(m: &Machine, at: usize, from: usize) -> bool {
    m.verify([at + from..at + SLOT, 0..0], 7, m.load_u64(at))
}

// The newest of two slots that pass: at least what was acknowledged, and with its own value.
fn newest(m: &Machine, passes: impl Fn(usize) -> bool) -> Result<(), String> {
    let slots = [0, 64].into_iter().filter(|at| passes(*at));
    let Some(at) = slots.max_by_key(|at| m.load_u64(at + 8)) else {
        return ensure(last(m) == 0, "the record is gone");
    };
    let mut value = [0; 16];
    m.load(at + 16, &mut value);
    let sequence = m.load_u64(at + 8);
    ensure(value == [sequence as u8; 16], format!("number {sequence} has {value:?}"))?;
    ensure(sequence >= last(m), format!("number {sequence} after {}", last(m)))
}

pub const CASES: &[Case] = &[
    Case {
        name: "16 bytes taken to be stored at once",
        source: "BPFS (SOSP 2009): 8 bytes are",
        found_under: ALL,
        program: |m, buggy| {
            // A range as start and length, in a slot that a word selects.
            for number in 1..=2 {
                let slot = if buggy { 0 } else { number as usize % 2 * 64 };
                m.store_u64(64 + slot, number * 100);
                m.store_u64(72 + slot, number * 100);
                persist(m, 64 + slot..80 + slot);
                put(m, 0, slot as u64);
                m.acknowledge(number);
            }
        },
        recovery: |m, _| {
            let slot = m.load_u64(0) as usize;
            let (start, length) = (m.load_u64(64 + slot), m.load_u64(72 + slot));
            ensure(start == length, format!("start {start} with length {length}"))?;
            ensure(start >= last(m) * 100, "acknowledged and lost")
        },
        ..CASE
    },
    Case {
        name: "8 bytes across two lines taken to be stored at once",
        source: "Intel SDM volume 3A, section 8.1.1; Vinter (USENIX ATC 2022)",
        found_under: ALL,
        program: |m, buggy| {
            let at = if buggy { 60 } else { 64 };
            m.store(at, &[7; 8]);
            persist(m, at..at + 8);
            m.acknowledge(1);
        },
        recovery: |m, buggy| {
            let mut found = [0; 8];
            m.load(if buggy { 60 } else { 64 }, &mut found);
            ensure(found == [7; 8] || found == [0; 8] && last(m) == 0, format!("torn: {found:?}"))
        },
        ..CASE
    },
    Case {
        name: "non-temporal copy of a line taken to be stored at once",
        source: "Raad, Maranget, Vafeiadis (POPL 2022); Mnemosyne (ASPLOS 2011)",
        found_under: ALL,
        program: |m, buggy| {
            m.store_nt(64, &[7; 56]);
            if !buggy {
                m.sfence();
            }
            m.store_nt(120, &[7; 8]);
            m.sfence();
            m.acknowledge(1);
        },
        recovery: |m, _| {
            let mut found = [0; 64];
            m.load(64, &mut found);
            ensure(
                found[56] == 0 || found == [7; 64],
                format!("the last word is there: {found:?}"),
            )?;
            ensure(found[56] == 7 || last(m) == 0, "acknowledged and lost")
        },
        ..CASE
    },
    Case {
        name: "record without a checksum",
        source: "Mnemosyne (ASPLOS 2011), NOVA-Fortis (SOSP 2017): torn writes",
        found_under: ALL,
        program: |m, _| {
            for number in 1..=3 {
                write_slot(m, number as usize % 2 * 64, number, 8);
                m.acknowledge(number);
            }
        },
        recovery: |m, buggy| {
            newest(m, |at| if buggy { m.load_u64(at + 8) != 0 } else { is_whole(m, at, 8) })
        },
        ..CASE
    },
    Case {
        name: "record with a single slot",
        source: "Lampson, Sturgis (1979): stable storage is two copies, written in turn",
        found_under: ALL,
        program: |m, buggy| {
            for number in 1..=2 {
                let slot = if buggy { 0 } else { number as usize % 2 };
                write_slot(m, slot * 64, number, 8);
                m.acknowledge(number);
            }
        },
        recovery: |m, _| newest(m, |at| is_whole(m, at, 8)),
        ..CASE
    },
    Case {
        name: "checksum of a record leaves out the sequence number",
        source: "NOVA-Fortis (SOSP 2017): a field that is read and not covered",
        found_under: ALL,
        program: |m, buggy| {
            for number in 1..=3 {
                write_slot(m, number as usize % 2 * 64, number, if buggy { 16 } else { 8 });
                m.acknowledge(number);
            }
        },
        recovery: |m, buggy| newest(m, |at| is_whole(m, at, if buggy { 16 } else { 8 })),
        ..CASE
    },
];
