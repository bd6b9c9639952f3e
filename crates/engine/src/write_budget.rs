//! What built-in tasks write to disks, in all of a run, and the limit for it: disks wear out.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ringfence_experiment::Error;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::Task;
use ringfence_machine::medium::Medium;
use ringfence_machine::root::{self, FsRoot};
use ringfence_machine::units::Bytes;

/// What a run may write unless more is allowed.
pub const LIMIT: Bytes = Bytes(20 << 30);

static ALLOWED: AtomicU64 = AtomicU64::new(LIMIT.0);
// By engines that have ended.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Sets the number of bytes that this run may write.
pub fn allow(bytes: Bytes) {
    ALLOWED.store(bytes.0, Ordering::Relaxed);
}

/// What a run may write.
fn limit() -> Bytes {
    Bytes(ALLOWED.load(Ordering::Relaxed))
}

/// What built-in tasks of a plan write at most: what it comes to on a fast disk, or what is allowed
/// in a run. `None` where they write to no disk.
pub fn at_most(plan: &Plan) -> Option<Bytes> {
    let about = plan.writes_about()?;
    // What cannot be written there is refused, and nothing is written.
    let mut tasks = plan.variants.iter().flatten().map(|variant| &variant.task);
    tasks.all(can_be_written).then(|| rounded(about).min(limit()))
}

// As far as it can be seen without writing; also that it lies on a disk.
fn can_be_written(task: &Task) -> bool {
    let Some(path) = task.writes_to() else { return true };
    let is_new_file = task.works_in().is_none() && !path.exists();
    let folder = if path.is_dir() { Some(path) } else { path.parent().filter(|_| is_new_file) };
    let Some(folder) =
        folder.map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
    else {
        return false;
    };
    let free = rustix::fs::statvfs(folder).map_or(0, |of| of.f_bavail.saturating_mul(of.f_frsize));
    let size = task.size().map_or(1, |size| size.0.max(1));
    size <= free
        && Medium::at(&FsRoot::host(), folder).is_ok_and(|at| !at.file_system.below.is_empty())
}

// To a figure that a person would say.
fn rounded(bytes: Bytes) -> Bytes {
    let unit = if bytes.0 >= 1 << 30 { 1 << 30 } else { 1 << 20 };
    Bytes(bytes.0.div_ceil(unit) * unit)
}

/// What the processes of an engine have written.
#[derive(Default)]
pub(crate) struct Written {
    // `write_bytes` of `/proc/PID/io`, at the last look.
    by_process: BTreeMap<i32, u64>,
    looked: Option<Instant>,
}

impl Written {
    /// Looks at processes of built-in tasks. What one has written between the last look and its end
    /// is not seen.
    pub fn look(&mut self, root: &FsRoot, processes: impl Iterator<Item = i32>) {
        for process in processes {
            let text = root.read_opt(format!("/proc/{process}/io"));
            let bytes = text.and_then(|text| root::field(&text, "write_bytes")?.parse().ok());
            if let Some(bytes) = bytes {
                let known = self.by_process.entry(process).or_default();
                *known = (*known).max(bytes);
            }
        }
        self.looked = Some(Instant::now());
    }

    /// Whether the last look is less than so long ago.
    pub fn was_looked_at_within(&self, time: Duration) -> bool {
        self.looked.is_some_and(|at| at.elapsed() < time)
    }

    /// Whether no process has written anything.
    pub fn is_nothing(&self) -> bool {
        self.by_process.values().all(|bytes| *bytes == 0)
    }

    // Of pages the kernel counts more than reaches the disk, so that the disks' own count bounds
    // it, where that is known.
    fn bytes(&self, by_disks: Option<u64>) -> u64 {
        let all: u64 = self.by_process.values().sum();
        by_disks.map_or(all, |disks| all.min(disks))
    }

    /// Whether more may be written. `by_disks` is what all disks wrote meanwhile, where tasks write
    /// to no other.
    ///
    /// # Errors
    /// That a limit was reached, otherwise.
    pub fn may_go_on(&self, by_disks: Option<u64>) -> Result<(), Error> {
        let earlier = WRITTEN.load(Ordering::Relaxed);
        within(earlier + self.bytes(by_disks), ALLOWED.load(Ordering::Relaxed))
    }

    /// Counts it for the run, once its engine ends.
    pub fn end(&self, by_disks: Option<u64>) {
        WRITTEN.fetch_add(self.bytes(by_disks), Ordering::Relaxed);
    }
}

fn within(written: u64, allowed: u64) -> Result<(), Error> {
    if written < allowed {
        return Ok(());
    }
    let (wrote, more) =
        (rounded(Bytes(written)), rounded(Bytes(allowed.max(written).saturating_mul(2))));
    Err(Error::limit(format!(
        "built-in tasks have written {wrote} to disks, and the limit for a run is {}; raise it \
         with --write-limit {more}",
        Bytes(allowed)
    )))
}

#[cfg(test)]
mod tests {
    use ringfence_machine::fixtures::FixtureTree;

    use super::*;

    #[test]
    fn what_processes_wrote_adds_up_and_the_disks_bound_it() {
        let io = |bytes: u64| format!("rchar: 5\nwrite_bytes: {bytes}\ncancelled_write_bytes: 0\n");
        let mut written = Written::default();
        let tree = FixtureTree::empty("written");
        tree.write("/proc/7/io", io(100)).write("/proc/8/io", io(50));
        written.look(&tree.root(), [7, 8, 9].into_iter());
        assert_eq!((written.bytes(None), written.bytes(Some(120))), (150, 120));
        // One has ended; the other has written more.
        let tree = FixtureTree::empty("written");
        tree.write("/proc/7/io", io(300));
        written.look(&tree.root(), [7, 8].into_iter());
        assert_eq!(written.bytes(None), 350);
    }

    #[test]
    fn at_the_limit_it_ends_and_says_how_to_allow_more() {
        assert_eq!(within((20 << 30) - 1, 20 << 30), Ok(()));
        let why = within(21 << 30, 20 << 30).unwrap_err().to_string();
        assert_eq!(
            why,
            "a limit was reached: built-in tasks have written 21GiB to disks, and the limit for a \
             run is 20GiB; raise it with --write-limit 42GiB"
        );
    }
}
