//! The streamer: lines brought into the second level before anybody asks for them.
//!
//! It watches what the first level asks for, page by page, and runs ahead of whoever walks a page upwards (Intel
//! Optimization Reference Manual, "Data Prefetch to L2 and L3").

use super::fetch::Want;
use super::state::{Hierarchy, each};
use crate::event::Request;
use crate::machine::Prefetcher;
use crate::units::NEVER;

/// Lines of a page of 4 KiB, which no stream leaves.
const PAGE: u32 = 64;
/// Pages that are watched, one for each value of a page's last bits.
const STREAMS: usize = 32;
/// Buffers with this number or a higher one are the streamer's.
const FIRST: u8 = 64;

/// A core's streamer.
pub struct Streamer {
    /// How far it runs ahead of what is asked for; 0 where there is none.
    distance: u32,
    /// How many lines one after the other make a stream.
    steps: u32,
    streams: [Stream; STREAMS],
    coming: Vec<Coming>,
    /// Lines that may still be on their way come no later than this.
    last: u64,
}

#[derive(Clone, Copy)]
struct Stream {
    page: u32,
    /// The line that was asked for last, and the first one that was not fetched ahead, both within the page.
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
        let nothing = Stream { page: u32::MAX, at: 0, next: 0, steps: 0 };
        let none = || Coming { line: u32::MAX, until: 0, waits: 0 };
        Self {
            distance,
            steps,
            streams: [nothing; STREAMS],
            coming: std::iter::repeat_with(none).take(lines as usize).collect(),
            last: 0,
        }
    }

    /// Whether memory's answer is for a streamer.
    #[inline]
    pub fn is_for(buffer: u8) -> bool {
        buffer >= FIRST && buffer != Request::NOBODY
    }

    /// Memory says when a line is there; the fill buffers that wait for it.
    pub fn answered(&mut self, buffer: u8, at: u64) -> impl Iterator<Item = usize> + use<> {
        let coming = &mut self.coming[usize::from(buffer - FIRST)];
        coming.until = at;
        self.last = self.last.max(at);
        each(std::mem::take(&mut coming.waits).into())
    }

    /// When a line that the second level has a place for is there, if it is still on its way. Where memory has not
    /// said, the fill buffer is told when it does.
    #[inline]
    pub fn comes(&mut self, line: u32, buffer: u8, at: u64) -> Option<u64> {
        if self.last <= at {
            return None;
        }
        let coming = self.coming.iter_mut().find(|coming| coming.line == line && coming.until > at)?;
        if coming.until == NEVER {
            coming.waits |= 1 << buffer;
        }
        Some(coming.until)
    }

    // What is fetched ahead when a line is asked for: up to which line.
    #[inline]
    fn step(&mut self, line: u32) -> Option<(u32, u32)> {
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
}

impl Hierarchy {
    /// A core asked for a line that its first level does not have: what follows may be fetched ahead. Where lines are written
    /// without being read, there is nothing to fetch.
    #[inline]
    pub(super) fn run_ahead(&mut self, core: usize, class: usize, (line, want): (u32, Want), at: u64) {
        let streamer = &mut self.cores[core].streamer;
        if streamer.distance == 0 || want == Want::Whole {
            return;
        }
        let Some((from, end)) = streamer.step(line) else { return };
        let first = line / PAGE * PAGE;
        for offset in from..end {
            if !self.prefetch(core, class, first + offset, at) {
                return;
            }
            let streamer = &mut self.cores[core].streamer;
            streamer.streams[(line / PAGE) as usize % STREAMS].next = offset + 1;
        }
    }

    // Brings a line into the second level; whether the streamer could.
    fn prefetch(&mut self, core: usize, class: usize, line: u32, at: u64) -> bool {
        if self.cores[core].l2.find(line).is_some() {
            return true;
        }
        let streamer = &self.cores[core].streamer;
        let Some(free) = streamer.coming.iter().position(|coming| coming.until <= at) else { return false };
        if self.pages.touch(line, core) != 0 {
            // Other cores may be writing it.
            return true;
        }
        let at = self.throttle(core, class, at);
        let (ready, dirty) = self.bring(core, class, (line, Want::Read), (0, FIRST + free as u8), at);
        self.counters[core].prefetches += 1;
        self.fill_second(core, class, line, dirty, at);
        let until = ready.unwrap_or(NEVER);
        let streamer = &mut self.cores[core].streamer;
        streamer.coming[free] = Coming { line, until, waits: 0 };
        streamer.last = streamer.last.max(until);
        true
    }
}
