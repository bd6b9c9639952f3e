//! Fields that recovery reads beside a checksum that does not cover them.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::bytes::Bytes;
use crate::event::{Source, WORD};
use crate::lint::{self, Lint};
use crate::run::Run;

/// Words that came out one way or the other while a checksum made with them was found to fit.
#[derive(Debug, Default)]
pub(crate) struct Uncovered {
    // By place, word and checksum, within one state: what was found first.
    found: FxHashMap<(Source, usize, u64), Bytes>,
    // A word for each.
    places: FxHashMap<Source, usize>,
}

impl Uncovered {
    /// Another state.
    pub(crate) fn begin(&mut self) {
        self.found.clear();
    }

    /// A path to its end.
    pub(crate) fn path(&mut self, run: &Run) {
        let uncertain = &run.uncertain;
        let Some(layer) = run.layers.last().filter(|_| !uncertain.verified.is_empty()) else {
            return;
        };
        for (words, sum) in &uncertain.verified {
            // Stored between the same fences as what the checksum was found to fit, which leaves it
            // open.
            let mut fences: SmallVec<[u32; 2]> = SmallVec::new();
            for fence in words.iter().filter_map(|word| layer.fences_before(*word)) {
                if !fences.contains(&fence) {
                    fences.push(fence);
                }
            }
            for (at, word, bytes) in
                uncertain.loads.iter().filter(|(_, word, _)| !words.contains(word))
            {
                let beside =
                    layer.fences_before(*word).is_some_and(|fence| fences.contains(&fence));
                if beside && *self.found.entry((at, *word, *sum)).or_insert(*bytes) != *bytes {
                    self.places.entry(at).or_insert(*word);
                }
            }
        }
    }

    pub(crate) fn lints(&self) -> Vec<Lint> {
        self.places
            .iter()
            .map(|(at, word)| lint::uncovered(at, word * WORD..(word + 1) * WORD))
            .collect()
    }
}
