//! The kernel as a trait: the real one, and a model in memory for tests.

use std::collections::HashMap;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::root::FsRoot;
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, statat, unlinkat};
use rustix::io::Errno;
use rustix::process::{Resource, Signal, getrlimit, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::changes::thread::{self, Thread};

/// The identity of a folder, which differs from that of an earlier or later one of the same name:
/// the kernel gives no number of a control group twice in a boot (`kernfs_new_node`).
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
    /// Stops a process, or resumes it. One that has ended is not an error, and another one of its
    /// number is not hit.
    fn stop(&self, process: Thread) -> io::Result<()>;
    fn resume(&self, process: Thread) -> io::Result<()>;
    fn boot_id(&self) -> String;
}

/// Files below a root.
pub struct Host {
    root: FsRoot,
    // Processes that were signalled: signalling them again takes one system call.
    held: Mutex<HashMap<Thread, OwnedFd>>,
    most: usize,
}

impl Host {
    pub fn new(root: &FsRoot) -> Self {
        // The rest is for whatever else this program does.
        let most = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| most as usize) / 4;
        Self { root: root.clone(), held: Mutex::default(), most }
    }

    fn signal(&self, process: Thread, signal: Signal) -> io::Result<()> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if !held.contains_key(&process) {
            let Some(pidfd) = thread::hold(&self.root, process)? else { return Ok(()) };
            if held.len() >= self.most {
                held.clear();
            }
            held.insert(process, pidfd);
        }
        match pidfd_send_signal(&held[&process], signal) {
            Err(Errno::SRCH) => {
                held.remove(&process);
                Ok(())
            }
            sent => Ok(sent?),
        }
    }
}

impl Kernel for Host {
    fn read(&self, file: &Path) -> io::Result<String> {
        self.root.text(file)
    }

    fn write(&self, file: &Path, text: &str) -> io::Result<()> {
        // Nothing at all would not reach the kernel.
        let text = if text.is_empty() { "\n" } else { text };
        // The kernel's files take no notice of being cut; a copy of one does.
        self.root.open_file(file, OFlags::WRONLY | OFlags::TRUNC)?.write_all(text.as_bytes())
    }

    fn make_dir(&self, folder: &Path) -> io::Result<()> {
        let (above, name) = self.root.open_parent(folder)?;
        Ok(mkdirat(above, name, Mode::from_raw_mode(0o777))?)
    }

    fn remove_dir(&self, folder: &Path) -> io::Result<()> {
        let (above, name) = self.root.open_parent(folder)?;
        Ok(unlinkat(above, name, AtFlags::REMOVEDIR)?)
    }

    fn has_dirs(&self, folder: &Path) -> io::Result<bool> {
        Ok(!self.root.folders(folder)?.is_empty())
    }

    fn exists(&self, path: &Path) -> bool {
        self.root.exists(path)
    }

    fn identity(&self, folder: &Path) -> io::Result<Identity> {
        let (above, name) = self.root.open_parent(folder)?;
        let stat = statat(above, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Identity { dev: stat.st_dev, ino: stat.st_ino })
    }

    fn started(&self, pid: u32) -> Option<u64> {
        thread::started(&self.root, pid)
    }

    fn lives(&self, process: Thread) -> bool {
        thread::lives(&self.root, process)
    }

    fn stop(&self, process: Thread) -> io::Result<()> {
        self.signal(process, Signal::STOP)
    }

    fn resume(&self, process: Thread) -> io::Result<()> {
        self.signal(process, Signal::CONT)
    }

    fn boot_id(&self) -> String {
        self.root.read_opt("/proc/sys/kernel/random/boot_id").unwrap_or_default()
    }
}
