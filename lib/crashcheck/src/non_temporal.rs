//! Bytes that were stored non-temporally and wait for a fence: until then nothing may touch them
//! otherwise.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::event::{Kind, Source};

/// Ranges of bytes that do not meet: where each begins, its end, and the place that stored it
/// first.
#[derive(Debug, Default)]
pub(crate) struct Streaming(BTreeMap<usize, (usize, Source)>);

impl Streaming {
    pub(crate) fn stored(&mut self, range: Range<usize>, at: Source) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end, mut first) = (range.start, range.end, at);
        // With those that it meets it becomes one.
        while let Some((&other, &(other_end, other_at))) = self.0.range(..=end).next_back()
            && other_end >= start
        {
            self.0.remove(&other);
            (start, end, first) = (start.min(other), end.max(other_end), other_at);
        }
        self.0.insert(start, (end, first));
    }

    /// Fences and locked instructions wait for all of them.
    #[inline]
    pub(crate) fn done(&mut self, kind: Kind) {
        if !self.0.is_empty()
            && matches!(kind, Kind::Sfence | Kind::Mfence | Kind::Locked(_) | Kind::LockedOnly)
        {
            self.0.clear();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The place that stored some of these bytes and has not fenced since.
    #[inline]
    pub(crate) fn meets(&self, range: &Range<usize>) -> Option<Source> {
        if self.0.is_empty() {
            return None;
        }
        let (_, (end, at)) = self.0.range(..range.end).next_back()?;
        (*end > range.start && !range.is_empty()).then_some(*at)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use super::*;

    // Against a set of bytes, over all pairs of ranges within a few words.
    #[test]
    fn ranges_are_those_of_their_bytes() {
        let ranges = || (0..6usize).flat_map(|from| (from..=6).map(move |to| from..to));
        for (one, two, three) in ranges()
            .flat_map(|one| ranges().map(move |two| (one.clone(), two)))
            .flat_map(|(one, two)| ranges().map(move |three| (one.clone(), two.clone(), three)))
        {
            let mut streaming = Streaming::default();
            for range in [&one, &two] {
                streaming.stored(range.clone(), Location::caller());
            }
            let meets = three.clone().any(|byte| one.contains(&byte) || two.contains(&byte));
            assert_eq!(streaming.meets(&three).is_some(), meets, "{one:?} {two:?} {three:?}");
        }
    }

    #[test]
    fn it_ends_with_a_fence() {
        let mut streaming = Streaming::default();
        streaming.stored(0..8, Location::caller());
        streaming.done(Kind::Flushopt(0));
        streaming.done(Kind::Mark(1));
        assert!(streaming.meets(&(7..9)).is_some());
        streaming.done(Kind::LockedOnly);
        assert!(streaming.meets(&(7..9)).is_none());
    }
}
