//! The streamer: lines brought into the second level before they are requested.
//!
//! It watches what the first level requests, page by page, and runs ahead of a thread that walks a
//! page upwards (Intel Optimization Reference Manual, "Data Prefetch to L2 and L3").

use crate::hardware::event::Request;
use crate::hardware::machine::Prefetcher;
use crate::hardware::units::NEVER;

/// Lines of a page of 4 KiB, which no stream leaves.
pub const PAGE: u32 = 64;
/// Pages that are watched, one for each value of a page's last bits.
const STREAMS: usize = 32;

/// A core's streamer.
pub struct Streamer {
    /// How far it runs ahead of what is asked for; 0 where there is none.
    distance: u32,
    /// How many lines one after the other make a stream.
    steps: u32,
    /// Places for lines that are fetched ahead of stores.
    for_stores: usize,
    streams: [Stream; STREAMS],
    coming: Vec<Coming>,
    /// Lines that may still be on their way come no later than this.
    last: u64,
}

#[derive(Clone, Copy)]
struct Stream {
    page: u32,
    /// The line that was asked for last, and the first one that was not fetched ahead, both within
    /// the page.
    at: u32,
    next: u32,
    steps: u32,
}

/// A line on its way to the second level.
struct Coming {
    line: u32,
    /// When it is there; [`NEVER`] while memory has not said.
    until: u64,
    /// Fill buffers that wait for it, too, a bit each.
    waits: u32,
}

impl Streamer {
    pub fn new(description: Option<&Prefetcher>) -> Self {
        let (steps, distance, lines) =
            description.map_or((0, 0, 0), |known| (known.steps, known.distance, known.lines));
        let for_stores = description.and_then(|known| known.lines_for_stores).unwrap_or(lines);
        let nothing = Stream { page: u32::MAX, at: 0, next: 0, steps: 0 };
        let none = || Coming { line: u32::MAX, until: 0, waits: 0 };
        Self {
            distance,
            steps,
            for_stores: for_stores as usize,
            streams: [nothing; STREAMS],
            coming: std::iter::repeat_with(none).take(lines as usize).collect(),
            last: 0,
        }
    }

    /// Whether memory's answer is for a streamer.
    #[inline]
    pub fn is_for(buffer: u8) -> bool {
        (Request::PREFETCHES..Request::FLUSHES).contains(&buffer)
    }

    /// Memory says when a line is there; the fill buffers that wait for it, a bit each.
    pub fn answered(&mut self, buffer: u8, at: u64) -> u64 {
        let coming = &mut self.coming[usize::from(buffer - Request::PREFETCHES)];
        coming.until = at;
        self.last = self.last.max(at);
        std::mem::take(&mut coming.waits).into()
    }

    /// When a line that the second level has a place for is there, if it is still on its way. Where
    /// memory has not said, the fill buffer is told when it does.
    #[inline]
    pub fn comes(&mut self, line: u32, buffer: u8, at: u64) -> Option<u64> {
        if self.last <= at {
            return None;
        }
        let coming =
            self.coming.iter_mut().find(|coming| coming.line == line && coming.until > at)?;
        if coming.until == NEVER {
            coming.waits |= 1 << buffer;
        }
        Some(coming.until)
    }

    /// Whether there is one.
    #[inline]
    pub fn is_there(&self) -> bool {
        self.distance > 0
    }

    /// Lines of its page, from one to before another, that are fetched ahead when a line is asked
    /// for, if any.
    #[inline]
    pub fn step(&mut self, line: u32) -> Option<(u32, u32)> {
        let (page, offset) = (line / PAGE, line % PAGE);
        let stream = &mut self.streams[page as usize % STREAMS];
        if stream.page != page {
            *stream = Stream { page, at: offset, next: offset + 1, steps: 0 };
            return None;
        }
        if offset == stream.at {
            return None;
        }
        stream.steps = if offset == stream.at + 1 { stream.steps + 1 } else { 0 };
        stream.at = offset;
        if stream.steps < self.steps {
            stream.next = offset + 1;
            return None;
        }
        let end = (offset + self.distance + 1).min(PAGE);
        let from = stream.next.max(offset + 1);
        (from < end).then_some((from, end))
    }

    /// A free place for a line that is fetched ahead of a store or of a load, and the number that
    /// memory's answer will carry.
    #[inline]
    pub fn free(&self, of_store: bool, at: u64) -> Option<(usize, u8)> {
        let places = if of_store { self.for_stores } else { self.coming.len() };
        let free = self.coming[..places].iter().position(|coming| coming.until <= at)?;
        Some((free, Request::PREFETCHES + free as u8))
    }

    /// A line was asked for from a place, and is there at a time, or when memory says so.
    pub fn asked(&mut self, place: usize, line: u32, until: u64) {
        self.coming[place] = Coming { line, until, waits: 0 };
        self.last = self.last.max(until);
    }

    /// The stream of a page has got so far.
    #[inline]
    pub fn reached(&mut self, page: u32, next: u32) {
        self.streams[page as usize % STREAMS].next = next;
    }
}
