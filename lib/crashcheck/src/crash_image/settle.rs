//! What follows from the ties, once something is decided.

use super::parts::Interval;
use super::stores::CrashImage;

impl CrashImage {
    // Draws the conclusions of the ties. One pass does: what a tie brings along came before it, and
    // so concerns no tie that the last store in memory does not; and what it leaves out came after
    // it. Then any count within any one interval is possible: the stores that it asks for came
    // before, and ask for none after it.
    pub(super) fn settle(&mut self) -> bool {
        let Some(ties) = self.ties.clone() else { return true };
        let last_of = |(line, first, times): &(usize, u32, Vec<u32>)| {
            let behind = self.interval(*line).lo.checked_sub(*first + 1)?;
            Some(times[behind as usize])
        };
        if let Some(last) = ties.times.iter().filter_map(last_of).max() {
            for tie in ties.ties.iter().filter(|tie| tie.time <= last) {
                let Interval { lo, hi } = self.interval(tie.line);
                self.set_interval(tie.line, Interval { lo: lo.max(tie.need), hi });
            }
        }
        let lost = ties.ties.iter().filter(|tie| self.interval(tie.line).hi < tie.need);
        if let Some(first) = lost.map(|tie| tie.time).min() {
            for (line, ..) in &ties.times {
                let Interval { lo, hi } = self.interval(*line);
                self.set_interval(
                    *line,
                    Interval { lo, hi: hi.min(ties.stores_before(*line, first)) },
                );
            }
        }
        let lines =
            ties.times.iter().map(|(line, ..)| *line).chain(ties.ties.iter().map(|tie| tie.line));
        lines.map(|line| self.interval(line)).all(|interval| interval.lo <= interval.hi)
    }

    /// Feeds the ties that still say something.
    pub(crate) fn ties_key(&self, feed: &mut impl FnMut(u64)) {
        let Some(ties) = &self.ties else { return };
        for tie in &ties.ties {
            let Interval { lo, hi } = self.interval(tie.line);
            if lo >= tie.need {
                continue;
            }
            [tie.line as u64, u64::from(tie.need - lo), u64::from(hi - lo)]
                .into_iter()
                .for_each(&mut *feed);
            for (line, ..) in &ties.times {
                let Interval { lo, hi } = self.interval(*line);
                if hi > lo {
                    let before = ties.stores_before(*line, tie.time).saturating_sub(lo);
                    [*line as u64, u64::from(before), u64::from(hi - lo)]
                        .into_iter()
                        .for_each(&mut *feed);
                }
            }
        }
    }
}
