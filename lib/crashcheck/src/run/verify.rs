//! Checksums: ranges of which much may be open fit them, or do not.

use std::hash::BuildHasher;

use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use super::Run;
use crate::bytes::{Bytes, masked, overlay};
use crate::event::WORD;
use crate::mismatches::{self, Mismatch};
use crate::values;

impl Run {
    /// Whether the words, of which each has those bytes that count, came out so that the checksum
    /// `fits`: as it was made for. Of what that is, see [`Contents`].
    pub(crate) fn verify(
        &mut self,
        words: &[(usize, u8)],
        mut fits: impl FnMut(&[Bytes]) -> bool,
    ) -> bool {
        let mut values_of: Vec<Bytes> = Vec::with_capacity(words.len());
        let (mut open, mut can_be) = (Vec::new(), Vec::new());
        for (number, (word, mask)) in words.iter().enumerate() {
            let mut known = self.content.read(*word, *mask);
            if known.is_none() {
                let values = values::values(&self.layers, *word, *mask, self.content.own(*word));
                known = only(&values);
                if known.is_none() {
                    open.push(number);
                    can_be.push(values);
                }
            }
            values_of.push(known.unwrap_or_default());
        }
        if open.is_empty() {
            return fits(&values_of);
        }
        let all = can_be.iter().try_fold(1usize, |all, values| all.checked_mul(values.len()));
        let mut contents = match all {
            Some(..=FEW) => Contents::all(&can_be),
            _ => self.contents(&open.iter().map(|number| words[*number].0).collect::<Vec<_>>()),
        };
        let own: SmallVec<[_; 8]> =
            open.iter().map(|number| self.content.own(words[*number].0)).collect();
        let mut version = Vec::with_capacity(open.len());
        while contents.next(&mut version) {
            for ((number, bytes), (own, mask)) in open.iter().zip(&version).zip(&own) {
                values_of[*number] = *bytes;
                overlay(&mut values_of[*number], *own, *mask);
            }
            if !fits(&values_of) {
                continue;
            }
            let target: Vec<(usize, Bytes, u8)> = open
                .iter()
                .zip(&version)
                .map(|(number, bytes)| {
                    let (word, wanted) = words[*number];
                    let mask = wanted & !self.content.own(word).1;
                    (word, masked(*bytes, mask), mask)
                })
                .collect();
            let mut solutions = Vec::new();
            mismatches::solutions(self.layers.clone(), &target, &self.mismatches, &mut solutions);
            if solutions.is_empty() {
                continue;
            }
            self.mismatches.push(Mismatch { depth: self.layers.len(), words: target });
            let may_be_otherwise = mismatches::refutable(&self.layers, &self.mismatches);
            let ways = solutions.len() + usize::from(may_be_otherwise);
            let chosen = self.choices.choose(ways, self.log.done());
            if chosen == solutions.len() {
                continue;
            }
            self.layers = solutions.swap_remove(chosen);
            let Mismatch { words, .. } = self.mismatches.pop().expect("just pushed");
            mismatches::tidy(&self.layers, &mut self.mismatches);
            let words: Vec<usize> = words.into_iter().map(|(word, ..)| word).collect();
            words.iter().for_each(|word| self.learn(*word));
            self.uncertain.verified.push((words, FxBuildHasher.hash_one(&values_of)));
            return true;
        }
        false
    }

    fn contents(&self, words: &[usize]) -> Contents {
        let versions = self.versions(words);
        let mixed = Mixed::of(words, &versions);
        Contents { versions: versions.into_iter(), mixed }
    }

    // All words as they were at one time of some run, the newest first. Where a durable store hides
    // earlier ones, its value was there from the beginning.
    fn versions(&self, words: &[usize]) -> Vec<Vec<Bytes>> {
        let mut start = vec![[0; WORD]; words.len()];
        let mut versions = vec![start.clone()];
        for layer in &self.layers {
            let mut writes: Vec<_> = words
                .iter()
                .enumerate()
                .flat_map(|(number, word)| {
                    layer.writes(*word, true).into_iter().map(move |(time, w)| (time, number, w))
                })
                .collect();
            writes.sort_unstable_by_key(|(time, ..)| *time);
            let mut now = start.clone();
            for (number, word) in words.iter().enumerate() {
                if let Some(write) = layer.hides(*word) {
                    now[number] = write.bytes;
                }
            }
            versions.push(now.clone());
            for (_, number, write) in &writes {
                let before = now[*number];
                overlay(&mut now[*number], write.bytes, write.mask);
                if now[*number] != before {
                    versions.push(now.clone());
                }
            }
            // The next run found what this one left.
            for (number, word) in words.iter().enumerate() {
                for (_, write) in layer.writes(*word, false) {
                    overlay(&mut start[number], write.bytes, write.mask);
                }
            }
            versions.push(start.clone());
        }
        versions.reverse();
        versions.dedup();
        versions
    }
}

/// So many contents are all tried for a checksum, whatever was in memory at one time.
const FEW: usize = 64;
/// And so many of lines, each as it was at a time of its own.
const MANY: usize = 1024;
const LINE: usize = 8;

/// The contents that a checksum may have been made for. Where there are too many to try all: first
/// what was in memory at one time, and then, if they are not too many, lines of different times,
/// since a program can work a checksum out before it stores the rest, and store something else in
/// between.
struct Contents {
    versions: std::vec::IntoIter<Vec<Bytes>>,
    mixed: Mixed,
}

impl Contents {
    // Every combination of what the words can be.
    fn all(can_be: &[SmallVec<[Bytes; 4]>]) -> Self {
        let mut mixed = Mixed::default();
        can_be.iter().for_each(|values| mixed.part(1, values));
        Self { versions: Vec::new().into_iter(), mixed }
    }

    // Whether there was another one.
    fn next(&mut self, version: &mut Vec<Bytes>) -> bool {
        match self.versions.next() {
            Some(next) => *version = next,
            None if self.mixed.is_over => return false,
            None => self.mixed.next(version),
        }
        true
    }
}

/// Every combination of what some words together, such as those of a line, can be.
#[derive(Default)]
struct Mixed {
    parts: SmallVec<[Part; 8]>,
    // What each part can be, all words of the first and then all of the next.
    values: Vec<Bytes>,
    is_over: bool,
}

struct Part {
    words: usize,
    first: usize,
    // How many there are to choose from, and which of them comes next.
    count: usize,
    next: usize,
}

impl Mixed {
    // Words are in order of their numbers, and so are lines.
    fn of(words: &[usize], versions: &[Vec<Bytes>]) -> Self {
        let mut mixed = Self::default();
        let (mut first, mut all) = (0, 1);
        for line in words.chunk_by(|a, b| a / LINE == b / LINE) {
            let mut held: Vec<&[Bytes]> = Vec::new();
            for version in versions {
                let part = &version[first..first + line.len()];
                if !held.contains(&part) {
                    held.push(part);
                }
            }
            first += line.len();
            all *= held.len();
            if all > MANY {
                return Self { is_over: true, ..Self::default() };
            }
            mixed.part(line.len(), &held.concat());
        }
        // A line by itself was as it was at one time.
        mixed.is_over = mixed.parts.len() < 2;
        mixed
    }

    fn part(&mut self, words: usize, values: &[Bytes]) {
        self.parts.push(Part {
            words,
            first: self.values.len(),
            count: values.len() / words,
            next: 0,
        });
        self.values.extend_from_slice(values);
    }

    fn next(&mut self, version: &mut Vec<Bytes>) {
        version.clear();
        for part in &self.parts {
            let first = part.first + part.next * part.words;
            version.extend_from_slice(&self.values[first..first + part.words]);
        }
        self.is_over = !self.parts.iter_mut().any(|part| {
            part.next = (part.next + 1) % part.count;
            part.next != 0
        });
    }
}

fn only(values: &[Bytes]) -> Option<Bytes> {
    match values {
        [one] => Some(*one),
        _ => None,
    }
}
