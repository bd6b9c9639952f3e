//! What a thread sends to memory between two fences, block by block.

use rustc_hash::FxHashMap;

use super::lines::Number;
use crate::events::{LINE, Place};

/// Bytes that Optane's media write as a whole (Intel, 248966, section 12.1 "Intel Optane DC
/// persistent memory").
pub const BLOCK: u64 = 256;

const LINES: usize = (BLOCK / LINE) as usize;

/// Of each block, which bytes of its lines were sent.
#[derive(Debug, Default)]
pub struct Blocks(FxHashMap<Number, [u64; LINES]>);

impl Blocks {
    /// A line was written back.
    pub fn line(&mut self, (file, line): Number) {
        self.masks(file, line)[line as usize % LINES] = u64::MAX;
    }

    /// Bytes were stored past the caches. Returns of how many lines these are the first ones.
    pub fn bytes(&mut self, at: Place, size: u64) -> u64 {
        let mut first_of = 0;
        let mut offset = at.offset;
        let end = offset.saturating_add(size);
        while offset < end {
            let line = offset / LINE;
            let (first, last) = (offset % LINE, (end - line * LINE).min(LINE));
            let mask = (u64::MAX >> (LINE - (last - first))) << first;
            let known = &mut self.masks(at.file, line)[line as usize % LINES];
            first_of += u64::from(*known == 0);
            *known |= mask;
            offset = (line + 1) * LINE;
        }
        first_of
    }

    fn masks(&mut self, file: u32, line: u64) -> &mut [u64; LINES] {
        self.0.entry((file, line / LINES as u64)).or_default()
    }

    /// Ends with a fence: how many lines and blocks there were, and how many of the blocks are not
    /// covered whole.
    pub fn take(&mut self) -> (u64, u64, u64) {
        let lines = self.0.values().flatten().filter(|mask| **mask != 0).count();
        let partial =
            self.0.values().filter(|masks| masks.iter().any(|mask| *mask != u64::MAX)).count();
        let all = self.0.len();
        self.0.clear();
        (lines as u64, all as u64, partial as u64)
    }
}
