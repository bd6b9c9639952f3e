//! Recorded programs: what each did to files that it had mapped, line by line.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_persist::{Flush, LINE};

// What an access takes here is some 12 bytes.
const MOST: usize = 1 << 24;
// As far as lines of a file are counted.
const MOST_BYTES: u64 = 1 << 37;
const PAGE_LINES: u32 = 64;

/// What an event of a recording did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Did {
    /// Stored by an ordinary store. More than a line at once is a string instruction's, which reads
    /// no line that it writes as a whole.
    Store,
    /// Stored past the caches.
    NonTemporal,
    /// Loaded.
    Load,
    /// Flushed a line.
    Flush(Flush),
    /// `sfence`.
    Sfence,
    /// `mfence`.
    Mfence,
    /// Executed a locked instruction: on these bytes, or elsewhere.
    Locked,
}

/// Bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes {
    /// The file's number.
    pub file: u16,
    /// The first of them.
    pub offset: u64,
    /// How many.
    pub size: u64,
}

/// A recorded program: its accesses in one order for all its threads.
#[derive(Debug, Default)]
pub struct Recorded {
    accesses: Vec<Access>,
    // By number, in the order in which they came.
    threads: Vec<u32>,
    // The lines that were touched of each, whole pages.
    files: BTreeMap<u16, Range<u32>>,
    events: u64,
}

/// What is done to a line, or a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    pub what: What,
    // Of the recording's, by when it came.
    pub thread: u16,
    pub file: u16,
    pub line: u32,
    pub bytes: u8,
    /// Whether an event ends with it.
    pub ends: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Load,
    Store,
    StoreWhole,
    NtStore,
    Flush(Flush),
    Sfence,
    Mfence,
    Locked,
    LockedElsewhere,
}

impl Recorded {
    /// Adds an event of a thread, behind all others. Fences, and locked instructions elsewhere,
    /// have no bytes.
    ///
    /// # Errors
    /// Where there would be more than can be held.
    pub fn push(&mut self, thread: u32, did: Did, at: Option<Bytes>) -> Result<(), String> {
        let known = self.threads.iter().position(|known| *known == thread);
        let number = known.unwrap_or(self.threads.len());
        let Ok(thread_number) = u16::try_from(number) else {
            return Err("it has more than 65536 threads, which is more than is played".into());
        };
        let access = |what, file, line, bytes| Access {
            what,
            thread: thread_number,
            file,
            line,
            bytes,
            ends: false,
        };
        let before = self.accesses.len();
        match (did, at) {
            (Did::Sfence, _) => self.accesses.push(access(What::Sfence, 0, 0, 0)),
            (Did::Mfence, _) => self.accesses.push(access(What::Mfence, 0, 0, 0)),
            (Did::Locked, None) => self.accesses.push(access(What::LockedElsewhere, 0, 0, 0)),
            (_, None) => {}
            (_, Some(at)) => {
                let end = at.offset.checked_add(at.size).filter(|end| *end <= MOST_BYTES);
                let Some(end) = end else {
                    return Err(format!("it reaches beyond {} GiB of a file", MOST_BYTES >> 30));
                };
                if at.size / LINE as u64 > MOST as u64 {
                    return Err(too_many());
                }
                self.touch(at.file, at.offset, end);
                let mut offset = at.offset;
                while offset < end {
                    let next = (offset + 1).next_multiple_of(LINE as u64).min(end);
                    let bytes = (next - offset) as u8;
                    let whole = at.size > LINE as u64 && usize::from(bytes) == LINE;
                    let what = match did {
                        Did::Store if whole => What::StoreWhole,
                        Did::Store => What::Store,
                        Did::NonTemporal => What::NtStore,
                        Did::Load => What::Load,
                        Did::Flush(flush) => What::Flush(flush),
                        Did::Sfence | Did::Mfence | Did::Locked => What::Locked,
                    };
                    self.accesses.push(access(what, at.file, (offset / LINE as u64) as u32, bytes));
                    offset = next;
                }
            }
        }
        if self.accesses.len() > MOST {
            return Err(too_many());
        }
        if self.accesses.len() > before {
            if known.is_none() {
                self.threads.push(thread);
            }
            self.accesses.last_mut().expect("one was added").ends = true;
            self.events += 1;
        }
        Ok(())
    }

    fn touch(&mut self, file: u16, begin: u64, end: u64) {
        if begin == end {
            return;
        }
        let (first, last) = ((begin / LINE as u64) as u32, end.div_ceil(LINE as u64) as u32);
        let (first, last) = (first / PAGE_LINES * PAGE_LINES, last.next_multiple_of(PAGE_LINES));
        let touched = self.files.entry(file).or_insert(first..last);
        *touched = touched.start.min(first)..touched.end.max(last);
    }

    /// How many events there are.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// How many threads did something.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// The instructions that it flushes by, in no order.
    pub(crate) fn flushes(&self) -> impl Iterator<Item = Flush> {
        let has =
            |wanted: &Flush| self.accesses.iter().any(|access| access.what == What::Flush(*wanted));
        Flush::ALL.into_iter().filter(has)
    }

    pub(crate) fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    /// The lines of each file that were touched.
    pub(crate) fn files(&self) -> impl Iterator<Item = (u16, Range<u32>)> {
        self.files.iter().map(|(file, lines)| (*file, lines.clone()))
    }
}

fn too_many() -> String {
    format!("it has more than {MOST} accesses to lines, which is more than is played")
}

/// Recorded programs by their folders.
#[derive(Debug, Clone, Default)]
pub struct Recordings(BTreeMap<PathBuf, Arc<Recorded>>);

impl Recordings {
    /// Adds one.
    pub fn add(&mut self, folder: &Path, recorded: Recorded) {
        self.0.insert(folder.into(), Arc::new(recorded));
    }

    /// Whether it is among them.
    pub fn has(&self, folder: &Path) -> bool {
        self.0.contains_key(folder)
    }

    pub(crate) fn get(&self, folder: &Path) -> Option<&Arc<Recorded>> {
        self.0.get(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(offset: u64, size: u64) -> Option<Bytes> {
        Some(Bytes { file: 3, offset, size })
    }

    #[test]
    fn events_become_accesses_to_lines() {
        let mut recorded = Recorded::default();
        recorded.push(7, Did::Store, of(60, 8)).unwrap();
        recorded.push(9, Did::Store, of(4096 + 32, 64 + 64)).unwrap();
        recorded.push(7, Did::Flush(Flush::Clwb), of(64, 1)).unwrap();
        recorded.push(7, Did::Sfence, None).unwrap();
        recorded.push(9, Did::Locked, None).unwrap();
        recorded.push(9, Did::Load, of(0, 0)).unwrap();
        let found: Vec<(u16, What, u32, u8, bool)> = recorded
            .accesses()
            .iter()
            .map(|access| (access.thread, access.what, access.line, access.bytes, access.ends))
            .collect();
        assert_eq!(
            found,
            [
                (0, What::Store, 0, 4, false),
                (0, What::Store, 1, 4, true),
                (1, What::Store, 64, 32, false),
                (1, What::StoreWhole, 65, 64, false),
                (1, What::Store, 66, 32, true),
                (0, What::Flush(Flush::Clwb), 1, 1, true),
                (0, What::Sfence, 0, 0, true),
                (1, What::LockedElsewhere, 0, 0, true),
            ]
        );
        assert_eq!((recorded.events(), recorded.threads()), (5, 2));
        assert_eq!(recorded.files().collect::<Vec<_>>(), [(3, 0..128)]);
        assert_eq!(recorded.flushes().collect::<Vec<_>>(), [Flush::Clwb]);
    }

    #[test]
    fn what_is_too_large_is_refused() {
        let mut recorded = Recorded::default();
        assert!(
            recorded.push(1, Did::Store, of(u64::MAX, 2)).unwrap_err().contains("beyond 128 GiB")
        );
        assert!(recorded.push(1, Did::Store, of(0, 1 << 34)).unwrap_err().contains("accesses"));
    }
}
