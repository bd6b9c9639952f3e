//! Lines that left the caches and were not accepted by memory yet.

/// Places, so many that two lines under way at once rarely share one.
const PLACES: usize = 1 << 14;

/// How many there are in each place. A line that shares a place with one that is under way passes for one too: its
/// flush, if it is clean, then takes the way to memory.
pub struct UnderWay(Vec<u16>);

impl Default for UnderWay {
    fn default() -> Self {
        Self(vec![0; PLACES])
    }
}

impl UnderWay {
    /// A line left.
    #[inline]
    pub fn add(&mut self, line: u32) {
        self.0[line as usize % PLACES] += 1;
    }

    /// A line was accepted.
    #[inline]
    pub fn remove(&mut self, line: u32) {
        self.0[line as usize % PLACES] -= 1;
    }

    /// Whether a line may be under way.
    #[inline]
    pub fn has(&self, line: u32) -> bool {
        self.0[line as usize % PLACES] > 0
    }
}
