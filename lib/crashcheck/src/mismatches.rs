//! What a checksum mismatch says about the bytes.

use crate::bytes::{Bytes, masked};
use crate::crash_image::CrashImage;
use crate::values::{settle, values, ways};

/// Bytes that did not all come out so: words as the first `depth` runs left them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Mismatch {
    pub depth: usize,
    pub words: Vec<(usize, Bytes, u8)>,
}

/// Drops what is refuted by now.
pub(crate) fn tidy(layers: &[CrashImage], mismatches: &mut Vec<Mismatch>) {
    mismatches.retain(|Mismatch { depth, words }| {
        words.iter().all(|(word, bytes, mask)| {
            values(&layers[..*depth], *word, *mask, Default::default())
                .contains(&masked(*bytes, *mask))
        })
    });
}

/// Whether there is a way in which all of them are refuted at once.
pub(crate) fn refutable(layers: &[CrashImage], mismatches: &[Mismatch]) -> bool {
    let Some((Mismatch { depth, words }, rest)) = mismatches.split_first() else { return true };
    words.iter().any(|(word, bytes, mask)| {
        ways(layers, *depth, *word, *mask, Default::default(), None).iter().any(
            |(layers, value)| {
                masked(*value, *mask) != masked(*bytes, *mask) && refutable(layers, rest)
            },
        )
    })
}

/// Every way in which words came out just so, and the others do not contradict `mismatches`.
pub(crate) fn solutions(
    mut layers: Vec<CrashImage>,
    words: &[(usize, Bytes, u8)],
    mismatches: &[Mismatch],
    into: &mut Vec<Vec<CrashImage>>,
) {
    for (number, (word, bytes, mask)) in words.iter().enumerate() {
        match settle(&mut layers, *word, *mask, *bytes) {
            Some(true) => {}
            Some(false) => return,
            None => {
                let ways =
                    ways(&layers, layers.len(), *word, *mask, Default::default(), Some(*bytes));
                for (layers, _) in ways {
                    solutions(layers, &words[number + 1..], mismatches, into);
                }
                return;
            }
        }
    }
    if refutable(&layers, mismatches) {
        into.push(layers);
    }
}
