//! Line fill buffers: misses, flushes and write-combining buffers that are under way.

use crate::hardware::bytes::{ONES, hash, maybe_zero};
use crate::hardware::cache::Slot;
use crate::hardware::hierarchy::each;
use crate::hardware::units::NEVER;

/// The most that a core has.
const MOST: usize = 32;
/// No line: what loads and stores do not find.
const NOTHING: u32 = u32::MAX;

/// The buffers of a core.
pub struct Buffers {
    count: usize,
    /// Those that are known to be free, a bit each. Others may have become free since.
    idle: u32,
    /// Those that are write-combining buffers and collect, a bit each.
    combining: u32,
    /// Nothing that is not idle is free before this.
    soonest: u64,
    /// A hash of the line that each waits for, never zero, or zero where there is none.
    hashes: [u8; MOST],
    all: [Buffer; MOST],
}

#[derive(Clone, Copy)]
struct Buffer {
    /// From when on it is free; [`NEVER`] while memory has not said.
    free: u64,
    what: Use,
    /// The line that a miss waits for.
    line: u32,
    /// How often it was taken, to tell one use from the next.
    taken: u32,
}

/// What a buffer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// A miss, for this place of the first level; whether it is a read for ownership.
    Miss(Slot, bool),
    /// A flush, or a write-combining buffer that left, of this thread.
    Outgoing(u8),
    /// A write-combining buffer of this thread that collects bytes of a line.
    Combining(u8, u32, u8),
}

/// One use of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    pub buffer: u8,
    pub(super) use_of_it: u32,
}

impl Buffers {
    pub fn new(count: u32) -> Self {
        Self {
            count: count as usize,
            idle: !0 >> (MOST as u32 - count),
            combining: 0,
            soonest: NEVER,
            hashes: [0; MOST],
            all: [Buffer { free: 0, what: Use::Miss(0, false), line: NOTHING, taken: 0 }; MOST],
        }
    }

    /// A buffer that is free, or when one will be: [`NEVER`] if memory has not said so of any.
    #[inline]
    pub fn find_free(&mut self, at: u64) -> Result<usize, u64> {
        if self.idle == 0 && !self.look(at) {
            return Err(self.soonest);
        }
        Ok(self.idle.trailing_zeros() as usize)
    }

    // Finds out what became free; whether anything did.
    #[inline]
    fn look(&mut self, at: u64) -> bool {
        if at < self.soonest {
            return false;
        }
        let (mut idle, mut soonest) = (self.idle, NEVER);
        for (number, buffer) in self.all[..self.count].iter().enumerate() {
            if buffer.free <= at {
                idle |= 1 << number;
            } else {
                soonest = soonest.min(buffer.free);
            }
        }
        (self.idle, self.soonest) = (idle, soonest);
        idle != 0
    }

    /// Takes a free buffer for a miss of a line.
    #[inline]
    pub fn take_for_miss(
        &mut self,
        buffer: usize,
        line: u32,
        slot: Slot,
        own: bool,
        until: u64,
    ) -> Ticket {
        self.hashes[buffer] = hash(line);
        self.take(buffer, Use::Miss(slot, own), line, until)
    }

    /// Takes a free buffer for something that is no miss.
    #[inline]
    pub fn take_for(&mut self, buffer: usize, what: Use, until: u64) -> Ticket {
        self.hashes[buffer] = 0;
        self.combining |= u32::from(matches!(what, Use::Combining(..))) << buffer;
        self.take(buffer, what, NOTHING, until)
    }

    #[inline]
    fn take(&mut self, number: usize, what: Use, line: u32, until: u64) -> Ticket {
        self.soonest = self.soonest.min(until);
        self.idle &= !(1 << number);
        let buffer = &mut self.all[number];
        let taken = buffer.taken.wrapping_add(1);
        *buffer = Buffer { free: until, what, line, taken };
        Ticket { buffer: number as u8, use_of_it: taken }
    }

    /// When a use ends: [`NEVER`] while memory has not said.
    #[inline]
    pub fn end(&self, ticket: Ticket) -> u64 {
        let buffer = &self.all[usize::from(ticket.buffer)];
        if buffer.taken == ticket.use_of_it { buffer.free } else { 0 }
    }

    /// The miss of a line that is under way.
    #[inline]
    pub fn find_miss(&self, line: u32, at: u64) -> Option<Ticket> {
        let hash = u64::from(hash(line)) * ONES;
        let groups = self.hashes.as_chunks::<8>().0.iter().zip((0..self.count).step_by(8));
        for (hashes, first) in groups {
            let mut likely = maybe_zero(u64::from_le_bytes(*hashes) ^ hash);
            while likely != 0 {
                let number = first + likely.trailing_zeros() as usize / 8;
                let buffer = &self.all[number];
                if buffer.line == line && buffer.free > at {
                    return Some(Ticket { buffer: number as u8, use_of_it: buffer.taken });
                }
                likely &= likely - 1;
            }
        }
        None
    }

    /// Memory says when a use ends; what for, and of which line if it is a miss.
    #[inline]
    pub fn answered(&mut self, buffer: u8, at: u64) -> (Use, u32) {
        self.soonest = self.soonest.min(at);
        let buffer = &mut self.all[usize::from(buffer)];
        buffer.free = at;
        (buffer.what, buffer.line)
    }

    /// What a buffer held has gone elsewhere.
    #[inline]
    pub fn end_now(&mut self, buffer: usize, at: u64) {
        self.all[buffer].free = at;
        self.soonest = self.soonest.min(at);
        self.idle |= 1 << buffer;
    }

    // Those that collect, with what they are for.
    #[inline]
    fn collecting(&self) -> impl Iterator<Item = (usize, Use)> {
        each(self.combining.into()).map(|buffer| (buffer, self.all[buffer].what))
    }

    /// The write-combining buffer of a thread that collects a line, and how many bytes it has.
    #[inline]
    pub fn find_combining(&self, thread: u8, line: u32) -> Option<(usize, u8)> {
        self.collecting().find_map(|(buffer, what)| match what {
            Use::Combining(by, to, bytes) if by == thread && to == line => Some((buffer, bytes)),
            _ => None,
        })
    }

    /// Any write-combining buffer of a thread that still collects; with its line and bytes.
    #[inline]
    pub fn any_combining(&self, thread: u8) -> Option<(usize, u32, u8)> {
        self.collecting().find_map(|(buffer, what)| match what {
            Use::Combining(by, line, bytes) if by == thread => Some((buffer, line, bytes)),
            _ => None,
        })
    }

    /// The first buffer, its thread, line and bytes, if all of them collect, so that none would
    /// ever become free.
    #[inline]
    pub fn all_combining(&self) -> Option<(usize, u8, u32, u8)> {
        match self.all[0].what {
            Use::Combining(thread, line, bytes)
                if self.combining.count_ones() as usize == self.count =>
            {
                Some((0, thread, line, bytes))
            }
            _ => None,
        }
    }

    /// Changes what a buffer that collects is for.
    #[inline]
    pub fn becomes(&mut self, buffer: usize, what: Use) {
        self.all[buffer].what = what;
        if !matches!(what, Use::Combining(..)) {
            self.combining &= !(1 << buffer);
        }
    }
}
