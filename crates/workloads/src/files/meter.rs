//! Bytes that a task has a device write, and a limit for them.

use ringfence_machine::root::{self, FsRoot};

/// Holds a thread to a limit.
///
/// No more reaches the device than was handed to the kernel, but for what a journal adds. It is
/// less where pages are written over while they are dirty: the kernel counts those that become
/// dirty, and what goes past the page cache (`write_bytes` in `proc(5)`, `/proc/PID/io`). On ext4
/// it counts several times too many, so that the lesser of the two counts. The kernel is asked only
/// once what was handed over reaches the limit.
pub struct Meter {
    root: FsRoot,
    limit: u64,
    // The kernel's count at the start; absent where it counts nothing.
    start: Option<u64>,
    // Handed over since the start.
    handed: u64,
    // Of that, what the kernel did not count when it was asked last.
    spared: u64,
}

impl Meter {
    /// Counts from now on.
    pub fn new(root: FsRoot, limit: u64) -> Self {
        let mut meter = Self { root, limit, start: None, handed: 0, spared: 0 };
        meter.begin();
        meter
    }

    /// Starts again.
    pub fn begin(&mut self) {
        (self.start, self.handed, self.spared) = (counted(&self.root), 0, 0);
    }

    /// Whether so many bytes more are within the limit; they count from then on.
    pub fn allows(&mut self, bytes: u64) -> bool {
        if self.handed - self.spared + bytes > self.limit {
            if let (Some(start), Some(now)) = (self.start, counted(&self.root)) {
                self.spared = self.handed.saturating_sub(now.saturating_sub(start));
            }
            if self.handed - self.spared + bytes > self.limit {
                return false;
            }
        }
        self.handed += bytes;
        true
    }
}

fn counted(root: &FsRoot) -> Option<u64> {
    root::field(&root.read_opt("/proc/thread-self/io")?, "write_bytes")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_over_counts_where_the_kernel_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let mut meter = Meter::new(FsRoot::at(dir.path()), 10);
        assert!(meter.allows(4) && meter.allows(6) && !meter.allows(1));
        meter.begin();
        assert!(meter.allows(10) && !meter.allows(1));
    }

    #[test]
    fn what_the_kernel_counts_is_what_is_limited() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("proc/thread-self/io");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let counted = |bytes: u64| {
            std::fs::write(
                &file,
                format!("rchar: 9\nwrite_bytes: {bytes}\ncancelled_write_bytes: 0\n"),
            )
            .unwrap();
        };
        counted(1000);
        let mut meter = Meter::new(FsRoot::at(dir.path()), 10);
        assert!(meter.allows(10));
        // Of these, four were written over while they were dirty.
        counted(1006);
        assert!(meter.allows(4) && !meter.allows(5));
        counted(1010);
        assert!(!meter.allows(5));
        meter.begin();
        assert!(meter.allows(10));
        // More than was handed over cannot be written.
        meter.begin();
        assert!(meter.allows(6));
        counted(2000);
        assert!(meter.allows(4) && !meter.allows(1));
    }
}
