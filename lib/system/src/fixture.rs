//! Trees of files that replace the kernel's files in tests. Panics if the disk fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::root::FsRoot;

/// A tree of files that replaces a machine's; removed on drop.
#[derive(Debug)]
pub struct FixtureTree {
    base: PathBuf,
}

impl FixtureTree {
    /// An empty tree; `name` is part of its path.
    pub fn empty(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let unique = format!(
            "ringfence-fixture-{name}-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        // Thousands of small files: memory is much faster than some disks.
        let folders = [PathBuf::from("/dev/shm"), std::env::temp_dir()];
        let base = folders
            .iter()
            .map(|folder| folder.join(&unique))
            .find(|base| fs::create_dir(base).is_ok())
            .expect("a temporary folder takes a new fixture");
        Self { base }
    }

    /// What to hand to everything that reads.
    pub fn root(&self) -> FsRoot {
        FsRoot::at(&self.base)
    }

    /// Writes (or replaces) a file, such as `/proc/loadavg`.
    pub fn write(&self, path: impl AsRef<Path>, text: impl AsRef<str>) -> &Self {
        let path = self.root().path(path);
        fs::create_dir_all(path.parent().expect("a file lies in a folder"))
            .expect("the folder can be made");
        fs::write(&path, text.as_ref()).expect("the file can be written");
        self
    }

    /// Makes a folder with nothing in it.
    pub fn folder(&self, path: impl AsRef<Path>) -> &Self {
        fs::create_dir_all(self.root().path(path)).expect("the folder can be made");
        self
    }

    /// Links `path` to `target`, both as seen below the root; by a relative path, as the kernel's
    /// links are.
    pub fn link(&self, path: impl AsRef<Path>, target: impl AsRef<Path>) -> &Self {
        let (path, target) = (self.root().path(path), target.as_ref());
        let folder = path.parent().expect("a link lies in a folder");
        fs::create_dir_all(folder).expect("the folder can be made");
        let depth = folder
            .strip_prefix(&self.base)
            .expect("the link lies below the root")
            .components()
            .count();
        let up: PathBuf = std::iter::repeat_n("..", depth).collect();
        let target = up.join(target.strip_prefix("/").unwrap_or(target));
        std::os::unix::fs::symlink(target, &path).expect("the link can be made");
        self
    }

    /// Removes a file or a folder with all it holds, if it is there.
    pub fn remove(&self, path: impl AsRef<Path>) -> &Self {
        let path = self.root().path(path);
        if path.is_dir() {
            fs::remove_dir_all(&path).expect("the folder can be removed");
        } else if path.exists() {
            fs::remove_file(&path).expect("the file can be removed");
        }
        self
    }
}

impl Drop for FixtureTree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.base);
    }
}
