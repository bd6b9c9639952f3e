//! Words that a checksum covers: of all that a crash can leave of them, few contents stand for the
//! others, which an ideal checksum refuses alike.

use ringfence_crashcheck::{Content, Leaves};
use rustc_hash::FxHashMap;

use crate::points::newest;
use crate::program::Program;
use crate::worker::ReadWords;

/// So many contents of the words that one call reads are examined; if there are more, some are left
/// out.
const MOST: usize = 3;

/// The words that a run has read in the functions of `--checksum` only, by their calls.
#[derive(Debug, Default)]
pub struct Covered {
    calls: FxHashMap<u32, Vec<usize>>,
    of: FxHashMap<usize, u32>,
}

impl Covered {
    /// Of a run; in the order in which it read them.
    pub fn of(program: &Program, read: &ReadWords) -> Self {
        let mut all = Self::default();
        for place in &read.words {
            let Ok(at) = read.covered.binary_search_by_key(place, |(place, _)| *place) else {
                continue;
            };
            let (word, call) = (program.words[*place as usize], read.covered[at].1);
            all.calls.entry(call).or_default().push(word);
            all.of.insert(word, call);
        }
        all
    }

    /// The words of the call that a word belongs to, if more contents of them are open than are
    /// examined.
    pub fn bounded(&self, leaves: &Leaves, word: usize) -> Option<Vec<usize>> {
        let call = self.of.get(&word)?;
        let is_open = |word: &usize| leaves.word(*word).is_none();
        let words: Vec<usize> = self.calls[call].iter().copied().filter(is_open).collect();
        are_many(leaves, &words).then_some(words)
    }
}

// Whether words can have come out in more ways than are examined.
fn are_many(leaves: &Leaves, words: &[usize]) -> bool {
    let mut ways = vec![leaves.clone()];
    for word in words {
        let each = |one: &Leaves| -> Vec<Leaves> {
            one.contents(*word).iter().map(|content| deciding(one, content)).collect()
        };
        ways = ways.iter().flat_map(each).collect();
        if ways.len() > MOST {
            return true;
        }
    }
    false
}

/// Other contents of words, all of which are open: the oldest one, and a torn one.
pub fn others(leaves: &Leaves, words: &[usize]) -> Vec<Leaves> {
    let mut oldest = leaves.clone();
    for word in words {
        let contents = oldest.contents(*word);
        oldest.decide_word(contents.last().expect("there is one"));
    }
    let old = contents(&oldest, words);
    let new = contents(&newest(leaves.clone()), words);
    let mut all = vec![oldest];
    'torn: for word in words {
        for content in leaves.contents(*word).iter().skip(1) {
            let mut torn = deciding(leaves, content);
            let decided = newest(torn.clone());
            let own = contents(&decided, words);
            if own != old && own != new {
                as_in(&mut torn, &decided, words);
                all.push(torn);
                break 'torn;
            }
        }
    }
    all
}

/// Decides words as they came out in a run.
pub fn as_in(leaves: &mut Leaves, decided: &Leaves, words: &[usize]) {
    for word in words {
        let contents = leaves.contents(*word);
        if let Some(own) = contents.iter().find(|content| decided.has(content)) {
            leaves.decide_word(own);
        }
    }
}

fn contents(decided: &Leaves, words: &[usize]) -> Vec<Option<([u8; 8], u8)>> {
    words.iter().map(|word| decided.word(*word)).collect()
}

fn deciding(leaves: &Leaves, content: &Content) -> Leaves {
    let mut decided = leaves.clone();
    decided.decide_word(content);
    decided
}

#[cfg(test)]
mod tests {
    use ringfence_crashcheck::{Kind, Profile, Recorded, Write, WrittenBack};

    use super::*;

    // Words of lines, each stored to twice: first 1, then 2.
    fn stored(words: &[usize]) -> Leaves {
        let mut recorded = Recorded::new(WrittenBack::ByLines(Profile::IntelAdr));
        for value in [1u64, 2] {
            for word in words {
                let bytes = value.to_le_bytes();
                recorded.step(0, Kind::Store(Write { word: *word, bytes, mask: 0xff }));
            }
        }
        recorded.leaves()
    }

    fn values(leaves: &Leaves, words: &[usize]) -> Vec<u64> {
        let value = |word: &usize| leaves.word(*word).map(|(bytes, _)| u64::from_le_bytes(bytes));
        words.iter().map(|word| value(word).unwrap()).collect()
    }

    fn covered(words: &[usize]) -> Covered {
        Covered {
            calls: FxHashMap::from_iter([(1, words.to_vec())]),
            of: words.iter().map(|word| (*word, 1)).collect(),
        }
    }

    #[test]
    fn few_contents_stand_for_many() {
        let words = [0, 1, 8, 16];
        let leaves = stored(&words);
        assert_eq!(covered(&words).bounded(&leaves, 8).unwrap(), words);
        let others = others(&leaves, &words);
        assert_eq!(others.len(), 2);
        assert_eq!(values(&others[0], &words), [0, 0, 0, 0]);
        // The second store to word 1 came after that to word 0.
        assert_eq!(values(&others[1], &words), [1, 1, 2, 2]);
    }

    #[test]
    fn few_contents_are_all_examined() {
        let leaves = stored(&[0, 8]);
        assert!(covered(&[8]).bounded(&leaves, 8).is_none(), "it is 0, 1 or 2");
        assert!(covered(&[8]).bounded(&leaves, 0).is_none(), "it is not covered");
        assert!(covered(&[0, 8]).bounded(&leaves, 0).is_some());
    }

    #[test]
    fn a_torn_content_is_neither_the_oldest_nor_the_newest() {
        // One line: without the first store, there is none of the others.
        let mut recorded = Recorded::new(WrittenBack::ByLines(Profile::IntelAdr));
        for word in 0..4 {
            let bytes = 7u64.to_le_bytes();
            recorded.step(0, Kind::Store(Write { word, bytes, mask: 0xff }));
        }
        let others = others(&recorded.leaves(), &[0, 1, 2, 3]);
        let all: Vec<_> = others.iter().map(|one| values(one, &[0, 1, 2, 3])).collect();
        assert_eq!(all, [[0, 0, 0, 0], [7, 0, 0, 0]]);
    }
}
