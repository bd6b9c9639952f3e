//! Lines that left the caches and were not accepted by memory yet.

/// Places, so many that two lines under way at once rarely share one.
const PLACES: usize = 1 << 14;

/// How many there are in each place, and when the last of them arrives at memory. A line that
/// shares a place with one that is under way passes for one too: its flush, if it is clean, then
/// takes the way to memory.
pub struct UnderWay {
    counts: Vec<u16>,
    arrivals: Vec<u64>,
}

impl Default for UnderWay {
    fn default() -> Self {
        Self { counts: vec![0; PLACES], arrivals: vec![0; PLACES] }
    }
}

impl UnderWay {
    /// A line left, and arrives at a time.
    #[inline]
    pub fn add(&mut self, line: u32, arrival: u64) {
        let place = line as usize % PLACES;
        self.counts[place] += 1;
        self.arrivals[place] = self.arrivals[place].max(arrival);
    }

    /// A line was accepted.
    #[inline]
    pub fn remove(&mut self, line: u32) {
        self.counts[line as usize % PLACES] -= 1;
    }

    /// If a line may be under way, when it has arrived.
    #[inline]
    pub fn arrival(&self, line: u32) -> Option<u64> {
        let place = line as usize % PLACES;
        (self.counts[place] > 0).then_some(self.arrivals[place])
    }
}
