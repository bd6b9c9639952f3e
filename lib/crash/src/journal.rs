//! Runs of recovery, in a file, each in a line as it ends.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::oracle::Outcome;
use crate::worker::ReadWords;

/// A line.
#[derive(Debug, Serialize, Deserialize)]
pub enum Entry {
    /// A run.
    Run {
        /// Of the image.
        key: u64,
        /// Of what it holds where that was read.
        contents: u64,
        /// What was read.
        read: ReadWords,
        /// What recovery did.
        outcome: Outcome,
    },
    /// All runs before are worth nothing.
    Distrust,
}

/// A file that lines are added to.
#[derive(Debug)]
pub struct Journal(File);

impl Journal {
    /// Opens one, or makes it; and the lines in it. What does not end with a line is cut off.
    ///
    /// # Errors
    /// What the kernel reports.
    pub fn open(path: &Path) -> io::Result<(Self, Vec<Entry>)> {
        let options = &mut File::options();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        let (mut entries, mut whole) = (Vec::new(), 0);
        let mut lines = BufReader::new(&file);
        let mut line = String::new();
        while lines.read_line(&mut line)? > 0 && line.ends_with('\n') {
            let Ok(entry) = serde_json::from_str(&line) else { break };
            entries.push(entry);
            whole += line.len() as u64;
            line.clear();
        }
        file.set_len(whole)?;
        file.seek(SeekFrom::Start(whole))?;
        Ok((Self(file), entries))
    }

    /// Adds a line.
    ///
    /// # Errors
    /// What the kernel reports.
    pub fn write(&mut self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        self.0.write_all(&line)
    }
}
