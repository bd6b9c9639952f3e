//! Rings to be compared with: those of the webinar "Performance guidelines for Intel Optane DC
//! persistent memory" (P. Balcer), over raw memory, and what measures them and ours alike.
//!
//! | | entry | position |
//! |---|---|---|
//! | [`Form::Naive`] | length and payload by stores, `clflush` on each line | store, `clflush` |
//! | [`Form::Published`] | payload by non-temporal stores, no fence | release store, flush, fence |
//! | [`Form::Repaired`] | payload by non-temporal stores, fence | release store, flush, fence |
//!
//! **The published form is wrong**: a release store does not order non-temporal stores before it,
//! so that a consumer on another core is told of entries that are not there yet and reads what was
//! there a lap ago.
//!
//! The two forms of the slides keep both positions in one line and flush it at the beginning of
//! each push, as the slides do ("flush after read to ensure persistence of visible data"). The
//! repaired form is made as fast as two fences allow: each position on a line of its own, each side
//! looks at the other's only when what it last saw is not enough, and there is no flush at the
//! beginning, since its consumer makes its position durable before it gives space back. No form has
//! a checksum, and only the naive one has a length.

// Bench and stress test use different parts.
#![allow(dead_code)]

pub mod ours;
pub mod payload;
pub mod primitives;
mod slides;

pub use slides::{Form, reader, writer};

use payload::Payload;
use std::ops::Range;

/// The side that pushes.
pub trait Writer: Send {
    /// Pushes one entry, waiting for room.
    fn push(&mut self, payload: &[u8]);

    /// Pushes those with these numbers; they may share fences, and are acknowledged when it
    /// returns.
    fn push_all(&mut self, numbers: Range<u64>, payload: &mut Payload) {
        numbers.for_each(|number| self.push(payload.numbered(number)));
    }
}

/// The side that reads.
pub trait Reader: Send {
    /// Lets the next entry be looked at, and pops it; false if there is none. Its position becomes
    /// durable, and the space is given back, once in so many entries.
    fn take(&mut self, look: impl FnMut(&[u8])) -> bool;
}
