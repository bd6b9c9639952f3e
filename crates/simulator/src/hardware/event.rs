//! What can happen.

use crate::hardware::record::Record;
use crate::hardware::wheel::Wheel;

/// A line on its way to memory, to be read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Which line.
    pub line: u32,
    /// The core that waits for the answer.
    pub core: u8,
    /// Its fill buffer, or [`Request::NOBODY`].
    pub buffer: u8,
    /// Whether it only asks that what went before is accepted.
    pub probe: bool,
}

impl Request {
    /// None: what places without one hold.
    pub const NOTHING: Request = Request { line: 0, core: 0, buffer: Self::NOBODY, probe: false };
    /// No fill buffer waits.
    pub const NOBODY: u8 = u8::MAX;
    /// From this number on it is not a fill buffer that waits, but the streamer.
    pub const PREFETCHES: u8 = 32;
    /// From this number on it is what left a core, in a place of its own.
    pub const FLUSHES: u8 = 96;
}

/// What happens at a time.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// A core has something to do.
    Core(u8),
    /// A read arrives at its channel.
    Read(Request),
    /// A write arrives at its channel.
    Write(Request),
    /// A channel may have room for a write that waits.
    Channel(u16),
}

/// What will happen, and what was noted down.
pub struct Log {
    /// What will happen.
    pub wheel: Wheel<Event>,
    /// What was recorded, if recording was requested.
    pub records: Option<Vec<Record>>,
}

impl Log {
    /// Notes something down.
    #[inline]
    pub fn record(&mut self, record: Record) {
        if let Some(records) = &mut self.records {
            records.push(record);
        }
    }
}
