//! What a file lies on, here, and what its disks do while they are watched for a moment.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ringfence_machine::medium::{Medium, Reading};
use ringfence_machine::root::FsRoot;

// Long enough for a writer that writes all the time, short enough to wait for.
const WATCHED: Duration = Duration::from_millis(250);

/// Of a file or folder; `None` of a device, which no file system is above, and of what is gone by
/// now.
pub fn of(path: &Path) -> Option<Medium> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() && !metadata.is_dir() {
        return None;
    }
    let root = FsRoot::host();
    let mut medium = Medium::at(&root, path).ok()?;
    if !medium.disks().is_empty() {
        let (before, started) = (Reading::of(&root, &medium.disks()), Instant::now());
        thread::sleep(WATCHED);
        medium.load = before.until(&Reading::of(&root, &medium.disks()), started.elapsed());
    }
    Some(medium)
}
