//! What the files hold in a state: the words that the program ever stored to, over what was there
//! before.

use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use ringfence_crashcheck::{Kind, WORD};
use ringfence_system::sparse;
use rustc_hash::FxBuildHasher;

use crate::program::{Did, Program};

/// The contents of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// By [`Program::words`].
    pub words: Vec<u64>,
    /// The size of each file.
    pub sizes: Vec<u64>,
}

impl Image {
    /// Before the program's first step.
    pub fn initial(program: &Program) -> Self {
        let sizes = program.files.iter().map(|file| file.size).collect();
        Self { words: program.initial.clone(), sizes }
    }

    /// A number that tells it from others.
    pub fn key(&self) -> u64 {
        let mut hasher = FxBuildHasher.build_hasher();
        self.words.iter().for_each(|word| hasher.write_u64(*word));
        self.sizes.iter().for_each(|size| hasher.write_u64(*size));
        hasher.finish()
    }

    /// Another step of a program whose stores are all there: what a kill leaves.
    pub fn step(&mut self, program: &Program, did: Did) {
        match did {
            Did::Instruction(kind) => self.store(program, kind),
            Did::Size(file, size) => self.sizes[file] = size,
            Did::SyncBegins(..) | Did::SyncEnds(_) | Did::Acknowledged(_) => {}
        }
    }

    fn store(&mut self, program: &Program, kind: Kind) {
        let Some(write) = kind.write() else { return };
        let Some(place) = program.place(write.word) else { return };
        self.words[place] = overlaid(self.words[place], write.bytes, write.mask);
    }

    /// Writes a file of it, over what the file held before.
    ///
    /// # Errors
    /// What the kernel reports.
    pub fn write(
        &self,
        program: &Program,
        file: usize,
        before: &Path,
        to: &Path,
    ) -> io::Result<()> {
        let (before, to) = (File::open(before)?, File::create(to)?);
        sparse::copy(&before, &to, self.sizes[file])?;
        for (place, content) in self.words.iter().enumerate() {
            let (of, offset) = Program::file_of(program.words[place]);
            if of == file && *content != program.initial[place] {
                to.write_all_at(&content.to_le_bytes(), offset)?;
            }
        }
        to.set_len(self.sizes[file])
    }
}

/// A word with some bytes replaced (bit `i` of the mask: byte `i`).
pub(crate) fn overlaid(word: u64, bytes: [u8; WORD], mask: u8) -> u64 {
    let mut all = word.to_le_bytes();
    for byte in (0..WORD).filter(|byte| mask >> byte & 1 == 1) {
        all[byte] = bytes[byte];
    }
    u64::from_le_bytes(all)
}
