//! Checksums: ranges of which much may be open fit them, or do not.

use std::hash::BuildHasher;

use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use super::Run;
use crate::content::{Bytes, masked, overlay};
use crate::event::WORD;
use crate::nots::{self, Not};
use crate::ways;

impl Run {
    /// Whether the words, of which each has those bytes that count, came out so that the checksum `fits`: as it was
    /// made for. Of what that is, see [`Contents`].
    pub(crate) fn verify(&mut self, words: &[(usize, u8)], mut fits: impl FnMut(&[Bytes]) -> bool) -> bool {
        let mut values_of: Vec<Bytes> = Vec::with_capacity(words.len());
        let (mut open, mut can_be) = (Vec::new(), Vec::new());
        for (number, (word, mask)) in words.iter().enumerate() {
            let mut known = self.content.read(*word, *mask);
            if known.is_none() {
                let values = ways::values(&self.layers, *word, *mask, self.content.own(*word));
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
        let contents = match all {
            Some(..=FEW) => Contents { versions: product(&can_be), mixed: Mixed::default() },
            _ => self.contents(&open.iter().map(|number| words[*number].0).collect::<Vec<_>>()),
        };
        for version in contents.versions.into_iter().chain(contents.mixed) {
            for (number, bytes) in open.iter().zip(&version) {
                let (own, mask) = self.content.own(words[*number].0);
                values_of[*number] = *bytes;
                overlay(&mut values_of[*number], own, mask);
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
            nots::solutions(self.layers.clone(), &target, &self.nots, &mut solutions);
            if solutions.is_empty() {
                continue;
            }
            self.nots.push(Not { depth: self.layers.len(), words: target });
            let may_be_otherwise = nots::refutable(&self.layers, &self.nots);
            let ways = solutions.len() + usize::from(may_be_otherwise);
            let chosen = self.choices.choose(ways, self.log.done());
            if chosen == solutions.len() {
                continue;
            }
            self.layers = solutions.swap_remove(chosen);
            let Not { words, .. } = self.nots.pop().expect("just pushed");
            nots::tidy(&self.layers, &mut self.nots);
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
        Contents { versions, mixed }
    }

    // All words as they were at one time of some run, the newest first. Where a durable store hides earlier ones, its value was there from the beginning.
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

/// The contents that a checksum may have been made for, where there are too many to try all: first what was in
/// memory at one time, and then, if they are not too many, lines of different times, since a program can work a
/// checksum out before it stores the rest, and store something else in between.
struct Contents {
    versions: Vec<Vec<Bytes>>,
    mixed: Mixed,
}

/// What each line held at some time, and which of it comes next.
#[derive(Default)]
struct Mixed {
    lines: Vec<Vec<Vec<Bytes>>>,
    next: Vec<usize>,
    is_over: bool,
}

impl Mixed {
    // Words are in order of their numbers, and so are lines.
    fn of(words: &[usize], versions: &[Vec<Bytes>]) -> Self {
        let mut lines: Vec<Vec<Vec<Bytes>>> = Vec::new();
        let mut first = 0;
        let mut all = 1;
        for line in words.chunk_by(|a, b| a / LINE == b / LINE) {
            let mut held: Vec<Vec<Bytes>> = Vec::new();
            for version in versions {
                let part = &version[first..first + line.len()];
                if !held.iter().any(|held| held == part) {
                    held.push(part.to_vec());
                }
            }
            first += line.len();
            all *= held.len();
            if all > MANY {
                return Self { is_over: true, ..Self::default() };
            }
            lines.push(held);
        }
        // A line by itself was as it was at one time.
        Self { next: vec![0; lines.len()], is_over: lines.len() < 2, lines }
    }
}

impl Iterator for Mixed {
    type Item = Vec<Bytes>;

    fn next(&mut self) -> Option<Vec<Bytes>> {
        if self.is_over || self.lines.is_empty() {
            return None;
        }
        let found = self.lines.iter().zip(&self.next).flat_map(|(held, which)| held[*which].iter().copied());
        let found = found.collect();
        self.is_over = !self.lines.iter().zip(&mut self.next).any(|(held, which)| {
            *which = (*which + 1) % held.len();
            *which != 0
        });
        Some(found)
    }
}

// Every combination of the values.
fn product(can_be: &[SmallVec<[Bytes; 4]>]) -> Vec<Vec<Bytes>> {
    let mut all = vec![Vec::with_capacity(can_be.len())];
    for values in can_be {
        all = all
            .into_iter()
            .flat_map(|one: Vec<Bytes>| values.iter().map(move |value| [&one[..], &[*value]].concat()))
            .collect();
    }
    all
}

fn only(values: &[Bytes]) -> Option<Bytes> {
    match values {
        [one] => Some(*one),
        _ => None,
    }
}
