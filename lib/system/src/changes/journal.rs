//! A journal on disk: the state before the changes, and every step, written before it is taken.
//!
//! A line of JSON each. The first is written whole to another file that is then renamed, so there
//! is a journal with everything in it or none. A last line that is cut short is a step that was not
//! taken; the program that continues the journal removes it. It is in memory (`/run`): the changes
//! do not outlive a boot either.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::whole::{self, WholeError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::changes::error::{JournalError, failed};
use crate::changes::thread::Thread;
use crate::changes::{lock, place};

/// The extension of a journal that was restored except for some lines, and is kept.
pub(crate) const DAMAGED: &str = "damaged";

/// What every first line has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The version of the format: that of the [`Record`].
    pub schema: u32,
    /// The boot during which it was written.
    pub boot: String,
    /// The program.
    pub owner: Thread,
    /// What it is for, in words.
    pub purpose: String,
}

/// What the lines of a journal say, taken in one by one: each kind of journal has steps of its own.
pub trait Record: Sized {
    /// The first line.
    type Header: DeserializeOwned;
    /// The version of the format.
    const SCHEMA: u32;
    /// What is at stake, as in "remove the file once ... is as it should be".
    const ABOUT: &'static str;

    /// One without steps.
    fn begin(header: Self::Header) -> Self;

    /// Takes in a line; whether it makes sense.
    fn line(&mut self, line: &str) -> bool;

    /// The line of this number, from 1, makes none.
    fn damaged(&mut self, number: usize);
}

/// A journal that is written to.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    // Its whole lines.
    len: u64,
    // Whether there may be more behind them.
    torn: bool,
}

impl Journal {
    /// Begins a journal in place of none.
    ///
    /// # Errors
    /// What could not be written.
    pub fn begin(path: &Path, header: &impl Serialize) -> Result<Self, JournalError> {
        Self::begin_with(path, header, |_| Ok(()))
    }

    /// As [`Journal::begin`], with its lock ([`Journal::try_lock`]) taken before another process
    /// can see it.
    ///
    /// # Errors
    /// As of [`Journal::begin`].
    pub fn begin_locked(path: &Path, header: &impl Serialize) -> Result<Self, JournalError> {
        let busy = || io::Error::from(io::ErrorKind::WouldBlock);
        Self::begin_with(path, header, |file| {
            lock::flock(file, true)?.then_some(()).ok_or_else(busy)
        })
    }

    fn begin_with(
        path: &Path,
        header: &impl Serialize,
        made: impl FnOnce(&File) -> io::Result<()>,
    ) -> Result<Self, JournalError> {
        let new = path.with_extension("new");
        let write = || -> io::Result<(File, u64)> {
            let mut file = place::create(&new)?;
            made(&file)?;
            let len = write_line(&mut file, header)?;
            whole::put(&file, &new, path).map_err(WholeError::into_source)?;
            Ok((file, len))
        };
        let (file, len) =
            write().map_err(|source| failed("beginning the journal", path, source))?;
        Ok(Self { file, path: path.to_owned(), len, torn: false })
    }

    /// Continues the journal of an earlier program.
    ///
    /// # Errors
    /// If it cannot be opened or read.
    pub fn resume(path: &Path) -> Result<Self, JournalError> {
        let open = || -> io::Result<Self> {
            let mut file = place::open(path, OpenOptions::new().read(true).write(true))?;
            let mut whole = Vec::new();
            file.read_to_end(&mut whole)?;
            let len =
                whole.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last as u64 + 1);
            Ok(Self { file, path: path.to_owned(), len, torn: true })
        };
        open().map_err(|source| failed("opening the journal", path, source))
    }

    /// Takes the lock on it if it is not held elsewhere: it is held until the value is dropped, or
    /// the program ends.
    ///
    /// # Errors
    /// The errno.
    pub fn try_lock(&self) -> Result<bool, JournalError> {
        lock::flock(&self.file, true)
            .map_err(|source| failed("locking the journal", &self.path, source))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file still exists: another process may have removed it before the lock was
    /// taken.
    pub fn is_there(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        let same = || Some((fs::symlink_metadata(&self.path).ok()?, self.file.metadata().ok()?));
        same().is_some_and(|(there, here)| (there.dev(), there.ino()) == (here.dev(), here.ino()))
    }

    /// Adds a line, durably. One that was cut short is taken off before.
    ///
    /// # Errors
    /// What could not be written.
    pub fn write(&mut self, value: &impl Serialize) -> Result<(), JournalError> {
        let mut write = || -> io::Result<u64> {
            if std::mem::replace(&mut self.torn, true) {
                self.file.set_len(self.len)?;
                self.file.seek(SeekFrom::Start(self.len))?;
            }
            write_line(&mut self.file, value)
        };
        self.len +=
            write().map_err(|source| failed("writing to the journal", &self.path, source))?;
        self.torn = false;
        Ok(())
    }

    /// Ends it: everything is restored.
    ///
    /// # Errors
    /// Where it cannot be removed.
    pub fn end(self) -> Result<(), JournalError> {
        fs::remove_file(&self.path)
            .map_err(|source| failed("removing the journal", &self.path, source))
    }

    /// Puts it away under another name.
    ///
    /// # Errors
    /// Where it cannot be renamed.
    pub fn rename(self, to: &Path) -> Result<(), JournalError> {
        whole::put(&self.file, &self.path, to)
            .map_err(|error| failed("renaming the journal to", to, error.into_source()))
    }
}

fn write_line(file: &mut File, value: &impl Serialize) -> io::Result<u64> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    file.write_all(&line)?;
    file.sync_data()?;
    Ok(line.len() as u64)
}

#[derive(Deserialize)]
struct Version {
    schema: u32,
}

/// Reads the journal at a path; `None` if there is none.
///
/// # Errors
/// If it cannot be read, is not a journal, or has another version.
pub fn read<R: Record>(path: &Path) -> Result<Option<R>, JournalError> {
    let bytes = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        place::open(path, OpenOptions::new().read(true))?.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let text = match bytes() {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(failed("reading the journal", path, source)),
    };
    let content = |line: &str, why: String| JournalError::Content {
        path: path.to_owned(),
        text: line.chars().take(60).collect(),
        why: format!("{why}; check {}, then remove the file", R::ABOUT),
    };
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    // A newer one's first line may have other fields too.
    if let Ok(Version { schema }) = serde_json::from_str(first)
        && schema != R::SCHEMA
    {
        return Err(content(
            first,
            format!("its schema is {schema}, this program reads {}", R::SCHEMA),
        ));
    }
    let header = serde_json::from_str(first)
        .map_err(|error| content(first, format!("not a journal ({error})")))?;
    let mut record = R::begin(header);
    for (number, line) in lines.enumerate() {
        if !record.line(line) && line.ends_with('\n') {
            record.damaged(number + 2);
        }
    }
    Ok(Some(record))
}
