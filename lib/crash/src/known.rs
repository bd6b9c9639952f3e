//! What recovery did on images, by what it read of them: where it would read the same, it does the
//! same.

use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::image::Image;
use crate::journal::{Entry, Journal};
use crate::oracle::Outcome;
use crate::worker::ReadWords;

/// Sets of words that runs have read, at most: each image is looked up by all of them.
const MOST_SETS: usize = 64;

/// What recovery did on an image.
#[derive(Debug, Clone)]
pub struct Recovery {
    /// How it came out.
    pub outcome: Arc<Outcome>,
    /// What it read.
    pub read: Arc<ReadWords>,
}

impl Recovery {
    // Whether it is known which of these words were read.
    fn tells_apart(&self, open: &[u32]) -> bool {
        !open.iter().any(|place| self.read.assumed.binary_search(place).is_ok())
    }
}

/// All that is known.
#[derive(Debug, Default)]
pub struct Known {
    images: FxHashMap<u64, Recovery>,
    // By what runs have read. The latest is the last.
    sets: Vec<Set>,
    // Reads were missed: only an equal image predicts what recovery does, and everything counts as
    // read.
    is_distrusted: bool,
    // Where runs are kept, for an examination that goes on later.
    journal: Option<Journal>,
}

// Runs that have read the same words: from the contents to what they did.
type Set = (Arc<ReadWords>, FxHashMap<u64, Arc<Outcome>>);

impl Known {
    /// Keeps runs in a file, and takes over those that are in it: how many.
    ///
    /// # Errors
    /// What the kernel reports.
    pub fn keep(&mut self, path: &Path) -> io::Result<u64> {
        let (journal, entries) = Journal::open(path)?;
        let mut count = 0;
        for entry in entries {
            match entry {
                Entry::Distrust => self.distrust(),
                Entry::Run { key, contents, read, outcome } => {
                    self.insert(key, contents, Arc::new(outcome), read);
                    count += 1;
                }
            }
        }
        self.journal = Some(journal);
        Ok(count)
    }

    /// What recovery does on an image, if that is known, and also which of the open words it reads.
    pub fn find(&mut self, image: &Image, open: &[u32]) -> Option<Recovery> {
        let key = image.key();
        if let Some(found) = self.images.get(&key).filter(|found| found.tells_apart(open)) {
            return Some(found.clone());
        }
        if self.is_distrusted {
            return None;
        }
        let found = self.sets.iter().rev().find_map(|(read, outcomes)| {
            let outcome = outcomes.get(&contents(image, read))?.clone();
            let found = Recovery { outcome, read: read.clone() };
            found.tells_apart(open).then_some(found)
        })?;
        self.images.insert(key, found.clone());
        Some(found)
    }

    /// What recovery did on an image that it was run on.
    pub fn of(&self, image: &Image) -> Option<Recovery> {
        self.images.get(&image.key()).cloned()
    }

    /// Recovery was seen to depend on what it was not seen to read.
    pub fn distrust(&mut self) {
        self.append(&Entry::Distrust);
        let journal = self.journal.take();
        *self = Self { is_distrusted: true, journal, ..Self::default() };
    }

    /// Adds a run.
    pub fn add(&mut self, image: &Image, outcome: Outcome, read: ReadWords) -> Recovery {
        let read = match self.is_distrusted {
            true => {
                let words = (0..image.words.len() as u32).collect();
                ReadWords { words, covered: Vec::new(), ..read }
            }
            false => read,
        };
        self.insert(image.key(), contents(image, &read), Arc::new(outcome), read)
    }

    /// Keeps a run that was added.
    pub fn write(&mut self, image: &Image, run: &Recovery) {
        let Recovery { outcome, read } = run;
        self.append(&Entry::Run {
            key: image.key(),
            contents: contents(image, read),
            read: (**read).clone(),
            outcome: (**outcome).clone(),
        });
    }

    fn insert(
        &mut self,
        key: u64,
        contents: u64,
        outcome: Arc<Outcome>,
        read: ReadWords,
    ) -> Recovery {
        let at = self.sets.iter().position(|(known, _)| **known == read);
        let mut set = match at {
            Some(at) => self.sets.remove(at),
            None => (Arc::new(read), FxHashMap::default()),
        };
        if self.sets.len() == MOST_SETS {
            self.sets.remove(0);
        }
        let read = set.0.clone();
        set.1.insert(contents, outcome.clone());
        self.sets.push(set);
        let found = Recovery { outcome, read };
        self.images.insert(key, found.clone());
        found
    }

    // Without it, a later examination has to run recovery again.
    fn append(&mut self, entry: &Entry) {
        if self.journal.as_mut().is_some_and(|journal| journal.write(entry).is_err()) {
            self.journal = None;
        }
    }
}

// What an image has where that is read.
fn contents(image: &Image, read: &ReadWords) -> u64 {
    let mut hasher = FxBuildHasher.build_hasher();
    read.words.iter().for_each(|place| hasher.write_u64(image.words[*place as usize]));
    image.sizes.iter().for_each(|size| hasher.write_u64(*size));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::Status;

    #[test]
    fn images_that_differ_only_in_what_was_not_read_are_one() {
        let image = |words: [u64; 3]| Image { words: words.to_vec(), sizes: vec![24] };
        let outcome =
            Outcome { status: Status::Exited(0), lines: vec!["1".into()], errors: String::new() };
        let mut known = Known::default();
        let read = ReadWords { words: vec![2, 0], assumed: vec![2], ..ReadWords::default() };
        known.add(&image([1, 2, 3]), outcome, read);
        assert!(known.find(&image([1, 9, 3]), &[0, 1]).is_some());
        assert!(known.find(&image([1, 9, 3]), &[2]).is_none(), "it may be unread");
        assert!(known.find(&image([1, 2, 4]), &[]).is_none());
        let longer = Image { sizes: vec![25], ..image([1, 2, 3]) };
        assert!(known.find(&longer, &[]).is_none());
    }

    #[test]
    fn runs_are_known_again_from_their_file_and_half_a_line_is_none() {
        let image = |word| Image { words: vec![word], sizes: vec![8] };
        let outcome =
            Outcome { status: Status::Signal(11), lines: vec!["1".into()], errors: String::new() };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs");
        let mut known = Known::default();
        assert_eq!(known.keep(&path).unwrap(), 0);
        for word in [1, 2] {
            let read = ReadWords { words: vec![0], ..ReadWords::default() };
            let run = known.add(&image(word), outcome.clone(), read);
            known.write(&image(word), &run);
        }
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 3]).unwrap();
        let mut again = Known::default();
        assert_eq!(again.keep(&path).unwrap(), 1);
        assert_eq!(*again.find(&image(1), &[]).unwrap().outcome, outcome);
        assert!(again.find(&image(2), &[]).is_none());
        again.distrust();
        let mut last = Known::default();
        assert_eq!(last.keep(&path).unwrap(), 1, "half a line was cut off");
        assert!(last.find(&image(1), &[]).is_none() && last.is_distrusted);
    }
}
