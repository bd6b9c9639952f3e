//! Memory of a process that is changed here first, and written back at once: thousands of small
//! writes to another process take seconds.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const PAGE: usize = 4096;

pub(super) struct Staged {
    start: u64,
    bytes: Vec<u8>,
    changed: BTreeSet<usize>,
}

impl Staged {
    /// `size` bytes from `start` on, as far as they can be read.
    pub(super) fn read_from(memory: &File, start: u64, size: u64) -> Self {
        let mut bytes = vec![0; size as usize];
        let mut count = 0;
        while let Ok(more @ 1..) = memory.read_at(&mut bytes[count..], start + count as u64) {
            count += more;
        }
        bytes.truncate(count);
        Self { start, bytes, changed: BTreeSet::new() }
    }

    fn place(&self, at: u64, size: usize) -> Option<usize> {
        let from = usize::try_from(at.checked_sub(self.start)?).ok()?;
        (from.checked_add(size)? <= self.bytes.len()).then_some(from)
    }

    /// Reads, if all of it is here.
    pub(super) fn read(&self, at: u64, size: usize) -> Option<Vec<u8>> {
        let from = self.place(at, size)?;
        Some(self.bytes[from..from + size].to_vec())
    }

    /// Writes, if all of it is here; whether it is.
    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) -> bool {
        let Some(from) = self.place(at, bytes.len()) else { return false };
        self.bytes[from..from + bytes.len()].copy_from_slice(bytes);
        self.changed.extend(from / PAGE..=(from + bytes.len().max(1) - 1) / PAGE);
        true
    }

    /// Writes back what was changed: pages that follow each other at once.
    pub(super) fn put_back(&self, memory: &File) -> io::Result<()> {
        let mut pages = self.changed.iter().copied().peekable();
        while let Some(first) = pages.next() {
            let mut last = first;
            while pages.next_if(|page| *page == last + 1).is_some() {
                last += 1;
            }
            let (from, to) = (first * PAGE, ((last + 1) * PAGE).min(self.bytes.len()));
            memory.write_all_at(&self.bytes[from..to], self.start + from as u64)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_is_written_back_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory");
        std::fs::write(&path, vec![1; 5 * PAGE + 100]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let mut staged = Staged::read_from(&file, 0, 6 * PAGE as u64);
        assert_eq!(staged.bytes.len(), 5 * PAGE + 100);
        assert!(staged.write(PAGE as u64 - 1, &[7, 8]) && staged.write(5 * PAGE as u64 + 99, &[9]));
        assert!(!staged.write(5 * PAGE as u64 + 99, &[9, 9]));
        assert_eq!(staged.read(PAGE as u64 - 2, 3).unwrap(), [1, 7, 8]);
        // Others' changes to other pages stay.
        file.write_all_at(&[5], 3 * PAGE as u64).unwrap();
        staged.put_back(&file).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(
            (bytes[PAGE - 1], bytes[PAGE], bytes[3 * PAGE], bytes[5 * PAGE + 99]),
            (7, 8, 5, 9)
        );
        assert_eq!(bytes.iter().filter(|byte| **byte == 1).count(), bytes.len() - 4);
    }
}
