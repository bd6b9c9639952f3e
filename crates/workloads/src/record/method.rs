//! How a record is written and found again, over any memory: the bare instructions, or the crash
//! checker's.
//!
//! | method | layout |
//! |---|---|
//! | `flag` | payload in whole lines, then a line that begins with the flag |
//! | `checksum` | payload, its checksum (8 bytes), padding to whole lines |
//! | `same-line`, `same-line-nt` | 56 bytes of payload, the flag |
//!
//! A flag is 8 bytes and 1 where the record is there. `slots` is the library's own: see
//! [`ringfence_persist::record`].

use ringfence_experiment::task::RecordMethod;
use ringfence_persist::{LINE, Memory, checksum};

const SEED: u64 = 0x7265_636f_7264;
const THERE: u64 = 1;
// Payload and checksum of the longest, in whole lines.
const STAGE: usize = 192;

/// Bytes that a record takes up, in whole lines.
pub fn room(method: RecordMethod, payload: usize) -> usize {
    match method {
        RecordMethod::Flag => payload.next_multiple_of(LINE) + LINE,
        RecordMethod::Checksum => (payload + 8).next_multiple_of(LINE),
        RecordMethod::SameLine | RecordMethod::SameLineNt => LINE,
        RecordMethod::Slots => 2 * (payload + 16).next_multiple_of(LINE),
    }
}

// Where its flag is, or its checksum.
fn seal(method: RecordMethod, at: usize, payload: usize) -> usize {
    match method {
        RecordMethod::Flag => at + payload.next_multiple_of(LINE),
        RecordMethod::Checksum | RecordMethod::SameLine | RecordMethod::SameLineNt => at + payload,
        RecordMethod::Slots => unreachable!("the library seals these"),
    }
}

/// Writes a record at a multiple of 64 where none is yet, durable on return.
///
/// # Panics
/// For `slots`, which are not written so.
#[inline]
#[track_caller]
pub fn write<M: Memory>(method: RecordMethod, memory: &M, at: usize, payload: &[u8]) {
    let seal = seal(method, at, payload.len());
    match method {
        RecordMethod::Flag => {
            memory.store(at, payload);
            memory.flush(at..at + payload.len());
            memory.sfence();
            memory.store_u64(seal, THERE);
            memory.flush(seal..seal + 8);
        }
        RecordMethod::Checksum => {
            let mut stage = [0; STAGE];
            stage[..payload.len()].copy_from_slice(payload);
            stage[payload.len()..][..8].copy_from_slice(&checksum::of(payload, SEED).to_le_bytes());
            memory.store_nt(at, &stage[..room(method, payload.len())]);
        }
        RecordMethod::SameLine => {
            memory.store(at, payload);
            memory.store_u64(seal, THERE);
            memory.flush(at..at + LINE);
        }
        RecordMethod::SameLineNt => {
            memory.store(at, payload);
            memory.flush(at..at + payload.len());
            memory.store_nt(seal, &THERE.to_le_bytes());
        }
        RecordMethod::Slots => unreachable!("the library writes these"),
    }
    memory.sfence();
}

/// Finds a record; false where there is none.
///
/// # Panics
/// As [`write()`].
pub fn read<M: Memory>(method: RecordMethod, memory: &M, at: usize, payload: &mut [u8]) -> bool {
    let seal = seal(method, at, payload.len());
    let there = match method {
        RecordMethod::Checksum => {
            memory.verify([at..at + payload.len(), 0..0], SEED, memory.load_u64(seal))
        }
        RecordMethod::Slots => unreachable!("the library reads these"),
        RecordMethod::Flag | RecordMethod::SameLine | RecordMethod::SameLineNt => {
            memory.load_u64(seal) == THERE
        }
    };
    if there {
        memory.load(at, payload);
    }
    there
}
