//! A place for files that are to lie on a disk.

use std::fs;
use std::path::{Path, PathBuf};

use ringfence_machine::medium::Medium;
use ringfence_machine::root::FsRoot;
use ringfence_testbed::skip_here;

use super::{Folder, ringfence_in};

/// A folder on the disk that the tests are built on; none where that is no place for a log, which
/// is said.
pub fn on_disk(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", super::unique()));
    fs::create_dir(&folder).unwrap();
    let path = folder.to_str().unwrap();
    let way = ["commit", path, "--sync", "none", "--io", "buffered", "--layout", "append"];
    let tried =
        ringfence_in(Folder::new().path(), &[&way[..], &["--trials", "2", "--quiet"]].concat());
    if tried.stderr.contains("no log in") {
        skip_here("commit", tried.stderr.trim());
        return None;
    }
    tried.ok();
    Some(folder)
}

/// Whether nothing is left in it; it is removed then.
pub fn empty(folder: &Path) -> bool {
    fs::remove_dir(folder).is_ok()
}

/// Whether the kernel shows the disk below a folder, with its counts.
pub fn disk_is_shown(folder: &Path) -> bool {
    !Medium::at(&FsRoot::host(), folder).unwrap().disks().is_empty()
}
