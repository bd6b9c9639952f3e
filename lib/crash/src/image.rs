//! What the files hold in a state: the words that the program ever stored to, over what was there
//! before.

use std::hash::{BuildHasher, Hasher};

use ringfence_crashcheck::{Kind, WORD};
use rustc_hash::FxBuildHasher;

use crate::program::{Did, Program};

/// The contents of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// By [`Program::words`].
    pub words: Vec<u64>,
    /// The size of each file; none: it is not there.
    pub sizes: Vec<Option<u64>>,
}

impl Image {
    /// Before the program's first step.
    pub fn initial(program: &Program) -> Self {
        let sizes = program.files.iter().map(|file| Some(file.size)).collect();
        Self { words: program.initial.clone(), sizes }
    }

    /// A number that tells it from others.
    pub fn key(&self) -> u64 {
        let mut hasher = FxBuildHasher.build_hasher();
        self.words.iter().for_each(|word| hasher.write_u64(*word));
        for size in &self.sizes {
            hasher.write_u64(size.map_or(u64::MAX, |size| size));
        }
        hasher.finish()
    }

    /// Another step of a program whose stores are all there: what a kill leaves.
    pub fn step(&mut self, program: &Program, did: Did) {
        match did {
            Did::Instruction(kind) => self.store(program, kind),
            Did::Size(file, size) => self.sizes[file] = Some(size),
            Did::SyncBegins(..) | Did::SyncEnds(_) | Did::Acknowledged(_) => {}
        }
    }

    fn store(&mut self, program: &Program, kind: Kind) {
        let Some(write) = kind.write() else { return };
        let Some(place) = program.place(write.word) else { return };
        let mut bytes = self.words[place].to_le_bytes();
        for byte in (0..WORD).filter(|byte| write.mask >> byte & 1 == 1) {
            bytes[byte] = write.bytes[byte];
        }
        self.words[place] = u64::from_le_bytes(bytes);
    }
}
