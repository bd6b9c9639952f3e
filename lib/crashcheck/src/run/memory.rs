//! Memory as runs left it, word by word, and a number for all of it.

use crate::content::Left;
use crate::crash_image::{CrashImage, mix, then};
use crate::trie::Trie;
use crate::values::certain;

/// Words as runs left them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    pub words: Trie<Left>,
    // The sum of the words' keys, since words come in any order.
    pub(super) key: u64,
}

impl Memory {
    // Of these words something else can have become.
    pub(super) fn update(
        &mut self,
        layers: &[CrashImage],
        last_is_undecided: bool,
        changed: &mut Vec<usize>,
    ) {
        changed.sort_unstable();
        changed.dedup();
        for word in changed.drain(..) {
            let before = self.words.get(word).copied().unwrap_or_default();
            let now = left(layers, last_is_undecided, word);
            if now != before {
                self.key = self.key.wrapping_sub(before.key).wrapping_add(now.key);
                self.words.set(word, now);
            }
        }
    }
}

// What is in the word.
pub(super) fn left(layers: &[CrashImage], last_is_undecided: bool, word: usize) -> Left {
    match certain(layers, word, 0xff).map(u64::from_le_bytes) {
        Some(0) => Left::default(),
        Some(bytes) => Left {
            bytes: bytes.to_le_bytes(),
            open: false,
            key: mix(mix(bytes).wrapping_add(word as u64)),
        },
        None => {
            Left { open: true, key: word_key(layers, last_is_undecided, word), ..Left::default() }
        }
    }
}

// What can have become of a word in all layers.
pub(super) fn word_key(layers: &[CrashImage], last_is_undecided: bool, word: usize) -> u64 {
    let mut key = mix(word as u64);
    for (number, layer) in layers.iter().enumerate().rev() {
        let undecided = last_is_undecided && number + 1 == layers.len();
        if let Some(one) = if undecided { layer.undecided_key(word) } else { layer.word_key(word) }
        {
            key = then(then(key, number as u64), one.key);
            if one.hides {
                break;
            }
        }
    }
    key
}
