//! A run's memory: which node a page is on, and which cores have ever read it.
//!
//! Real machines know the cores of each line by a directory. Here it is the cores of each 4 KiB,
//! and only so that the caches of cores that cannot have a line are not searched: what is where,
//! the caches themselves say.

use crate::hardware::program::Region;

/// Lines in a page.
const PAGE: u32 = 64;

/// Pages, one after the other as they were given out.
#[derive(Debug, Default)]
pub struct Pages {
    cores: Vec<u64>,
    nodes: Vec<u8>,
}

impl Pages {
    /// The most lines of a run: 128 GiB.
    pub const MOST_LINES: u64 = (1 << 31) - PAGE as u64;

    /// Gives out so many lines on a node, rounded up to whole pages; nothing where there is no
    /// room.
    pub fn add(&mut self, node: u8, lines: u64) -> Option<Region> {
        let first = self.nodes.len() as u64 * u64::from(PAGE);
        let pages = lines.div_ceil(u64::from(PAGE));
        if first + pages * u64::from(PAGE) > Self::MOST_LINES {
            return None;
        }
        let length = self.nodes.len() + pages as usize;
        self.nodes.resize(length, node);
        self.cores.resize(length, 0);
        Some(Region { first: first as u32, lines: lines as u32 })
    }

    /// A line without an owner: in no region, of no core, and never requested. There are as many as
    /// a last-level cache has places.
    pub fn of_nobody(number: u32) -> u32 {
        (1 << 31) + number
    }

    /// Whether a line has no owner.
    #[inline]
    pub fn is_of_nobody(line: u32) -> bool {
        line >> 31 != 0
    }

    /// The node of a line.
    #[inline]
    pub fn node(&self, line: u32) -> usize {
        self.nodes[(line / PAGE) as usize].into()
    }

    /// Notes that a core reads a line; the other cores that may have it.
    #[inline]
    pub fn touch(&mut self, line: u32, core: usize) -> u64 {
        let cores = &mut self.cores[(line / PAGE) as usize];
        let others = *cores & !(1 << core);
        *cores |= 1 << core;
        others
    }

    /// The cores that may have a line.
    #[inline]
    pub fn cores(&self, line: u32) -> u64 {
        self.cores[(line / PAGE) as usize]
    }
}
