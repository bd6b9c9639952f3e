//! What the streamer does with the caches.

use super::fetch::Want;
use super::state::Hierarchy;
use super::streamer::PAGE;
use crate::hardware::units::NEVER;

impl Hierarchy {
    /// A core asked for a line that its first level does not have: what follows may be fetched
    /// ahead. Where lines are written without being read, there is nothing to fetch.
    #[inline]
    pub(super) fn run_ahead(
        &mut self,
        core: usize,
        class: usize,
        (line, want): (u32, Want),
        at: u64,
    ) {
        if want != Want::Whole && self.cores[core].streamer.is_there() {
            self.follow(core, class, (line, want), at);
        }
    }

    #[inline(never)]
    fn follow(&mut self, core: usize, class: usize, (line, want): (u32, Want), at: u64) {
        let Some((from, end)) = self.cores[core].streamer.step(line) else { return };
        let first = line / PAGE * PAGE;
        for offset in from..end {
            if !self.prefetch(core, class, (first + offset, want), at) {
                return;
            }
            self.cores[core].streamer.reached(line / PAGE, offset + 1);
        }
    }

    // Fetches a line into the second level ahead of a load or a store; returns whether the streamer
    // had a place for it.
    fn prefetch(&mut self, core: usize, class: usize, (line, want): (u32, Want), at: u64) -> bool {
        if self.cores[core].l2.find(line).is_some() {
            return true;
        }
        let of_store = want == Want::Own;
        let Some((place, buffer)) = self.cores[core].streamer.free(of_store, at) else {
            return false;
        };
        if self.pages.touch(line, core) != 0 {
            // Other cores may be writing it.
            return true;
        }
        let at = self.throttle(core, class, at);
        let (ready, dirty) = self.bring(core, class, (line, Want::Read), (0, buffer), at);
        self.counters[core].prefetches += 1;
        self.fill_second(core, class, line, dirty, at);
        let until = ready.unwrap_or(NEVER);
        self.cores[core].streamer.asked(place, line, until);
        true
    }
}
