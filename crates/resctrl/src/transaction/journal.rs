//! The journal: what was there before, and every step, written down before it is taken.
//!
//! A line of JSON each. The first is written whole to another file that is then renamed, so there is a
//! journal with everything in it or none. A last line that is cut short is a step that was not taken, and is
//! taken off by whoever goes on. It lies in memory (`/run`): resctrl does not outlive a boot either.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use ringfence_sysfs::whole::{self, WholeError};
use serde::{Deserialize, Serialize};

use super::place;
use super::step::Step;
use crate::error::Error;
use crate::id::GroupId;
use crate::kernel::{Identity, Thread};
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
    /// The mount of resctrl that it is about; journals of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Identity>,
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
    /// What the groups of that are known by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub identities: BTreeMap<GroupId, Identity>,
    /// Whether it holds that alone which could not be put back when the rest was.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rest: bool,
}

/// A journal as read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its first line.
    pub header: Header,
    /// Its steps, the last of which may not have been taken.
    pub steps: Vec<Step>,
    /// What groups are known by that were made.
    pub made: BTreeMap<GroupId, Identity>,
    // Those that were to be made last and may not have been.
    unsure: BTreeSet<GroupId>,
    /// Where threads were when they were moved that began after the first line was written; in the default group
    /// where nothing is said.
    pub from: BTreeMap<Thread, GroupId>,
    /// The numbers, from 1, of lines that make no sense.
    pub damaged: Vec<usize>,
}

impl Record {
    /// One without steps.
    pub fn new(header: Header) -> Self {
        let (made, unsure) = (BTreeMap::new(), BTreeSet::new());
        Self { header, steps: Vec::new(), made, unsure, from: BTreeMap::new(), damaged: Vec::new() }
    }

    /// A step is about to be taken.
    pub fn step(&mut self, step: Step) {
        if let Step::Create { group } = &step {
            self.unsure.insert(group.clone());
        }
        self.steps.push(step);
    }

    /// The last step was refused.
    pub fn refused(&mut self) {
        if let Some(Step::Create { group }) = self.steps.pop() {
            self.unsure.remove(&group);
        }
    }

    /// A group was made that is known by this.
    pub fn made(&mut self, group: GroupId, identity: Identity) {
        self.unsure.remove(&group);
        self.made.insert(group, identity);
    }

    /// Threads are about to be moved out of a group.
    pub fn from(&mut self, group: &GroupId, threads: &[Thread]) {
        for thread in threads {
            self.from.entry(*thread).or_insert_with(|| group.clone());
        }
    }

    /// The group of control that a thread was in: before, or when it was moved.
    pub fn home_of(&self, thread: Thread) -> GroupId {
        self.from.get(&thread).cloned().unwrap_or_else(|| self.header.before.control_of(thread))
    }

    /// Whether a step says that a group was to be made, and nothing what became of it.
    pub fn is_unsure(&self, group: &GroupId) -> bool {
        self.unsure.contains(group)
    }
}

/// A line that is no step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "note")]
enum Note {
    /// What a group is known by that was just made.
    Made { group: GroupId, identity: Identity },
    /// Where threads were that are about to be moved and began after everything was written down.
    From { group: GroupId, threads: Vec<Thread> },
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

/// A failure with what to do about it, which the errno says.
pub fn failed(what: &str, path: &Path, source: io::Error) -> Error {
    let remedy = match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => "run as root, or choose a folder that you may write to",
        Some(libc::EROFS) => "that is mounted read-only: choose a folder that can be written to",
        Some(libc::ENOSPC | libc::EDQUOT) => {
            "there is no room left: free some space there, or choose another folder"
        }
        Some(libc::EIO) => "the medium fails: choose another folder",
        _ => "nothing was changed",
    };
    Error::Journal { tried: format!("{what} {}", path.display()), source, remedy: remedy.into() }
}

impl Journal {
    /// Begins a journal in place of none.
    pub fn begin(path: &Path, header: &Header) -> Result<Self, Error> {
        let new = path.with_extension("new");
        let write = || -> io::Result<(File, u64)> {
            let mut file = place::create(&new)?;
            let len = write_line(&mut file, header)?;
            whole::put(&file, &new, path).map_err(WholeError::into_source)?;
            Ok((file, len))
        };
        let (file, len) = write().map_err(|source| failed("beginning the journal", path, source))?;
        Ok(Self { file, path: path.to_owned(), len, torn: false })
    }

    /// Goes on with one that was left behind.
    pub fn go_on(path: &Path) -> Result<Self, Error> {
        let open = || -> io::Result<Self> {
            let mut file = place::open(path, OpenOptions::new().read(true).write(true))?;
            let mut whole = Vec::new();
            file.read_to_end(&mut whole)?;
            let len = whole.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last as u64 + 1);
            Ok(Self { file, path: path.to_owned(), len, torn: true })
        };
        open().map_err(|source| failed("opening the journal", path, source))
    }

    /// Notes a step that is about to be taken.
    pub fn note(&mut self, step: &Step) -> Result<(), Error> {
        self.write(step)
    }

    /// Notes that the kernel has refused the last step: it was not taken.
    pub fn refused(&mut self) -> Result<(), Error> {
        self.write(&REFUSED)
    }

    /// Notes what a group is known by that was made.
    pub fn made(&mut self, group: &GroupId, identity: Identity) -> Result<(), Error> {
        self.write(&Note::Made { group: group.clone(), identity })
    }

    /// Notes where threads are that are about to be moved.
    pub fn from(&mut self, group: &GroupId, threads: &[Thread]) -> Result<(), Error> {
        self.write(&Note::From { group: group.clone(), threads: threads.to_vec() })
    }

    // A line that was cut short is taken off before the next.
    fn write(&mut self, value: &impl Serialize) -> Result<(), Error> {
        let mut write = || -> io::Result<u64> {
            if std::mem::replace(&mut self.torn, true) {
                self.file.set_len(self.len)?;
                self.file.seek(SeekFrom::Start(self.len))?;
            }
            write_line(&mut self.file, value)
        };
        self.len += write().map_err(|source| failed("writing to the journal", &self.path, source))?;
        self.torn = false;
        Ok(())
    }

    /// Ends it: everything is as it was.
    pub fn end(self) -> Result<(), Error> {
        fs::remove_file(&self.path).map_err(|source| failed("removing the journal", &self.path, source))
    }

    /// Puts it away under another name.
    pub fn rename(self, to: &Path) -> Result<(), Error> {
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

/// The journal that lies there; `None` where there is none.
pub fn read(path: &Path) -> Result<Option<Record>, Error> {
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
    let content = |line: &str, why: String| Error::Content {
        path: path.to_owned(),
        text: line.chars().take(60).collect(),
        why: format!("{why}; remove the file once resctrl is as it should be"),
    };
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    let header: Header =
        serde_json::from_str(first).map_err(|error| content(first, format!("no journal ({error})")))?;
    if header.schema != SCHEMA {
        return Err(content(first, format!("its schema is {}, this program knows {SCHEMA}", header.schema)));
    }
    let mut record = Record::new(header);
    for (number, line) in lines.enumerate() {
        if let Ok(step) = serde_json::from_str(line) {
            record.step(step);
        } else if serde_json::from_str::<&str>(line).is_ok_and(|word| word == REFUSED) {
            record.refused();
        } else if let Ok(note) = serde_json::from_str(line) {
            match note {
                Note::Made { group, identity } => record.made(group, identity),
                Note::From { group, threads } => record.from(&group, &threads),
            }
        } else if line.ends_with('\n') {
            record.damaged.push(number + 2);
        }
    }
    Ok(Some(record))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_errno_says_what_to_do() {
        for (errno, part) in [
            (
                libc::ENOSPC,
                "No space left on device (os error 28); there is no room left: free some space there",
            ),
            (libc::EDQUOT, "there is no room left"),
            (libc::EROFS, "mounted read-only"),
            (libc::EACCES, "run as root"),
        ] {
            let error = failed("locking", Path::new("/a/b"), io::Error::from_raw_os_error(errno));
            let text = error.to_string();
            assert!(text.starts_with("locking /a/b: ") && text.contains(part), "{text}");
            assert_eq!(error.errno(), Some(errno));
            assert_eq!(text.contains("root"), errno == libc::EACCES, "{text}");
        }
    }
}
