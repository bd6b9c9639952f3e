//! What is asked of the kernel, as a trait: the real one, and for tests a model in memory.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ringfence_sysfs::root::FsRoot;
use serde::{Deserialize, Serialize};

use crate::thread::{self, Thread};

/// What tells a folder from another one of its name, earlier or later: the kernel gives no number of a control group
/// twice in a boot (`kernfs_new_node`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The file system's device.
    pub dev: u64,
    /// The inode.
    pub ino: u64,
}

/// The file of a control group that lists its processes, and takes them.
pub const PROCS: &str = "cgroup.procs";

/// Paths are as seen below the root.
pub trait Kernel: Send + Sync {
    fn read(&self, file: &Path) -> io::Result<String>;
    /// To a file that exists.
    fn write(&self, file: &Path, text: &str) -> io::Result<()>;
    fn make_dir(&self, folder: &Path) -> io::Result<()>;
    fn remove_dir(&self, folder: &Path) -> io::Result<()>;
    /// Whether there are folders in a folder.
    fn has_dirs(&self, folder: &Path) -> io::Result<bool>;
    fn exists(&self, path: &Path) -> bool;
    fn identity(&self, folder: &Path) -> io::Result<Identity>;
    /// When a process was started; `None` where there is none.
    fn started(&self, pid: u32) -> Option<u64>;
    /// Whether it runs, or could.
    fn lives(&self, process: Thread) -> bool;
    fn boot_id(&self) -> String;
}

/// Files below a root.
pub struct Host(pub FsRoot);

impl Host {
    fn path(&self, path: &Path) -> PathBuf {
        self.0.path(path)
    }
}

impl Kernel for Host {
    fn read(&self, file: &Path) -> io::Result<String> {
        fs::read_to_string(self.path(file))
    }

    fn write(&self, file: &Path, text: &str) -> io::Result<()> {
        // The kernel's files take no notice of being cut; a copy of one does.
        OpenOptions::new().write(true).truncate(true).open(self.path(file))?.write_all(text.as_bytes())
    }

    fn make_dir(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir(self.path(folder))
    }

    fn remove_dir(&self, folder: &Path) -> io::Result<()> {
        fs::remove_dir(self.path(folder))
    }

    fn has_dirs(&self, folder: &Path) -> io::Result<bool> {
        for entry in fs::read_dir(self.path(folder))? {
            if entry?.file_type()?.is_dir() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn exists(&self, path: &Path) -> bool {
        self.path(path).exists()
    }

    fn identity(&self, folder: &Path) -> io::Result<Identity> {
        let meta = fs::symlink_metadata(self.path(folder))?;
        Ok(Identity { dev: meta.dev(), ino: meta.ino() })
    }

    fn started(&self, pid: u32) -> Option<u64> {
        thread::started(&self.0, pid)
    }

    fn lives(&self, process: Thread) -> bool {
        thread::lives(&self.0, process)
    }

    fn boot_id(&self) -> String {
        self.0.read_opt("/proc/sys/kernel/random/boot_id").unwrap_or_default()
    }
}
