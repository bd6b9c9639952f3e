//! The journal: what was there before, and every step, written down before it is taken.
//!
//! A line of JSON each. The first is written whole to another file that is then renamed, so there is a
//! journal with everything in it or none. A last line that is cut short is a step that was not taken.
//! It lies in memory (`/run`): resctrl does not outlive a boot either.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::step::Step;
use crate::error::Error;
use crate::kernel::Thread;
use crate::state::State;

/// The version of the format.
pub const SCHEMA: u32 = 1;

const REFUSED: &str = "refused";

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The boot during which it was written.
    pub boot: String,
    /// Where resctrl is mounted.
    pub place: String,
    /// Whether the transaction has mounted it.
    pub mounted: bool,
    /// The program.
    pub owner: Thread,
    /// What it is for, in words.
    pub purpose: String,
    /// Everything as it was.
    pub before: State,
}

/// A journal as read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its first line.
    pub header: Header,
    /// Its steps, the last of which may not have been taken.
    pub steps: Vec<Step>,
}

/// A journal that is written to.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    // Whether the last line was cut short.
    torn: bool,
}

fn failed(what: &str, path: &Path, source: io::Error) -> Error {
    let remedy = match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
            "run as root, or choose a folder that you may write to"
        }
        Some(libc::ENOSPC) => "free some space there",
        _ => "nothing was changed",
    };
    Error::Journal { tried: format!("{what} {}", path.display()), source, remedy: remedy.into() }
}

impl Journal {
    /// Begins a journal in place of none.
    pub fn begin(path: &Path, header: &Header) -> Result<Self, Error> {
        let new = path.with_extension("new");
        let write = || -> io::Result<File> {
            let mut file = OpenOptions::new().create(true).write(true).truncate(true).open(&new)?;
            write_line(&mut file, header)?;
            fs::rename(&new, path)?;
            Ok(file)
        };
        let file = write().map_err(|source| failed("beginning the journal", path, source))?;
        Ok(Self { file, path: path.to_owned(), torn: false })
    }

    /// Goes on with one that was left behind. A last line that was cut short is ended first.
    pub fn go_on(path: &Path) -> Result<Self, Error> {
        let open = || -> io::Result<File> {
            let whole = fs::read(path)?;
            let mut file = OpenOptions::new().append(true).open(path)?;
            if whole.last().is_some_and(|last| *last != b'\n') {
                file.write_all(b"\n")?;
            }
            Ok(file)
        };
        let file = open().map_err(|source| failed("opening the journal", path, source))?;
        Ok(Self { file, path: path.to_owned(), torn: false })
    }

    /// Notes a step that is about to be taken.
    pub fn note(&mut self, step: &Step) -> Result<(), Error> {
        self.write(step)
    }

    /// Notes that the kernel has refused the last step: it was not taken.
    pub fn refused(&mut self) -> Result<(), Error> {
        self.write(&REFUSED)
    }

    // A line that was cut short is ended before the next, which would be lost with it otherwise.
    fn write(&mut self, value: &impl Serialize) -> Result<(), Error> {
        let ended = if std::mem::replace(&mut self.torn, true) { self.file.write_all(b"\n") } else { Ok(()) };
        ended
            .and_then(|()| write_line(&mut self.file, value))
            .map_err(|source| failed("writing to the journal", &self.path, source))?;
        self.torn = false;
        Ok(())
    }

    /// Ends it: everything is as it was.
    pub fn end(self) -> Result<(), Error> {
        fs::remove_file(&self.path).map_err(|source| failed("removing the journal", &self.path, source))
    }

    /// Puts it away under another name.
    pub fn rename(self, to: &Path) -> Result<(), Error> {
        fs::rename(&self.path, to).map_err(|source| failed("renaming the journal to", to, source))
    }
}

fn write_line(file: &mut File, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    file.write_all(&line)?;
    file.sync_data()
}

/// The journal that lies there; `None` where there is none.
pub fn read(path: &Path) -> Result<Option<Record>, Error> {
    let text = match fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(failed("reading the journal", path, source)),
    };
    let content = |line: &str, why: String| Error::Content {
        path: path.to_owned(),
        text: line.chars().take(60).collect(),
        why: format!("{why}; remove the file once resctrl is as it should be"),
    };
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let header: Header =
        serde_json::from_str(first).map_err(|error| content(first, format!("no journal ({error})")))?;
    if header.schema != SCHEMA {
        return Err(content(first, format!("its schema is {}, this program knows {SCHEMA}", header.schema)));
    }
    // A line that cannot be read was cut short; a step that was noted after it, by whoever went on, counts.
    let mut steps = Vec::new();
    for line in lines {
        match serde_json::from_str(line) {
            Ok(step) => steps.push(step),
            Err(_) if serde_json::from_str::<&str>(line).is_ok_and(|word| word == REFUSED) => {
                steps.pop();
            }
            Err(_) => {}
        }
    }
    Ok(Some(Record { header, steps }))
}
