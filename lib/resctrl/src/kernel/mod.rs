//! What this library asks of the kernel, as a trait: the real one, and for tests a model in memory.

mod holders;
mod host;
#[cfg(any(test, feature = "model"))]
pub mod model;

use std::io;
use std::path::{Path, PathBuf};

use ringfence_system::cpulist::CpuSet;
use serde::{Deserialize, Serialize};

pub use host::HostKernel;
pub(crate) use host::is_resctrl;
pub use ringfence_system::changes::thread::Thread;

/// The identity of a resctrl folder, which differs from that of an earlier or later one of the same
/// name.
///
/// Linux before 6.6 numbers the folders of resctrl from boot to shutdown, and never gives a number
/// twice (64 bits, `kernfs_new_node`). Later versions start again at each mount, and give each
/// mount its own number (`kernfs_statfs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The mount's number (`f_fsid` of statvfs(3)).
    pub fs: u64,
    /// The inode's.
    pub ino: u64,
}

/// Why a file was not written.
#[derive(Debug)]
pub struct WriteError {
    /// Whether it was opened, so that what the kernel says of the last command may be about this
    /// one.
    pub opened: bool,
    /// The errno.
    pub source: io::Error,
}

/// A lock that is held until it is dropped.
pub type Held = Box<dyn std::any::Any + Send>;

/// Access to resctrl and the process table. Paths of resctrl are relative to its mount point.
pub trait Kernel: Send + Sync {
    /// The text of a file.
    ///
    /// # Errors
    /// The errno.
    fn read(&self, path: &Path) -> io::Result<String>;

    /// Writes a text to a file that exists, in one `write(2)`.
    ///
    /// # Errors
    /// The errno, and whether the file was opened.
    fn write(&self, path: &Path, text: &str) -> Result<(), WriteError>;

    /// Makes a folder.
    ///
    /// # Errors
    /// The errno.
    fn make_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes a folder with a mark that is there from the start: the sticky bit of its mode, which
    /// Linux takes from mkdir(2) (`mkdir_rdt_prepare`) and which has no other effect here. Only
    /// transactions make such folders, and remove the mark once the journal holds the folder's
    /// inode.
    ///
    /// # Errors
    /// The errno.
    fn make_marked_dir(&self, path: &Path) -> io::Result<()>;

    /// Whether a folder has that mark.
    ///
    /// # Errors
    /// The errno.
    fn is_marked(&self, path: &Path) -> io::Result<bool>;

    /// Takes the mark from a folder.
    ///
    /// # Errors
    /// The errno.
    fn unmark(&self, path: &Path) -> io::Result<()>;

    /// Removes a folder.
    ///
    /// # Errors
    /// The errno.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// The names of the folders in a folder, sorted, as [`crate::GroupId`] has them.
    ///
    /// # Errors
    /// The errno.
    fn dirs(&self, path: &Path) -> io::Result<Vec<String>>;

    /// Whether a file or folder exists.
    fn exists(&self, path: &Path) -> bool;

    /// Takes the lock that programs agree upon for resctrl as a whole: `flock(2)` on its root
    /// (kernel documentation, x86/resctrl, "Locking"). `None` where it is held elsewhere.
    ///
    /// # Errors
    /// The errno.
    fn try_lock(&self, exclusive: bool) -> io::Result<Option<Held>>;

    /// Takes the lock that this library's transactions hold from begin to end: `flock(2)` on
    /// `info`, whichever program asks and wherever the journal lies. The root's lock, which other
    /// programs wait for, would keep them out for as long as a measurement takes. `None` where it
    /// is held elsewhere.
    ///
    /// # Errors
    /// The errno.
    fn try_lock_changes(&self) -> io::Result<Option<Held>>;

    /// The process that holds that lock, as far as it can be seen.
    fn holder_of_changes(&self) -> Option<u32>;

    /// Where journals of programs that change this resctrl may lie, as far as folders are known.
    fn journal_folders(&self) -> Vec<PathBuf>;

    /// Where resctrl is mounted, for messages.
    fn place(&self) -> String;

    /// When a thread was started; `None` when there is no such thread.
    fn started(&self, tid: u32) -> Option<u64>;

    /// Whether a process runs, or could: one that has ended and was not collected does not.
    fn lives(&self, process: Thread) -> bool {
        self.started(process.tid) == Some(process.start)
    }

    /// The threads of a process, by id; none when it has ended.
    fn threads(&self, pid: u32) -> Vec<u32>;

    /// The process that a thread belongs to, and that one's parent.
    fn process_and_parent(&self, tid: u32) -> Option<(u32, u32)>;

    /// Processes that have a device open or mapped, by id, as far as they can be seen.
    fn users_of(&self, path: &Path) -> Vec<u32>;

    /// Why there may be users that [`Kernel::users_of`] does not see; `None` where there are none.
    fn unseen(&self) -> Option<String>;

    /// The CPUs that are online; `None` where that is not known.
    fn online(&self) -> Option<CpuSet>;

    /// What a folder is known by. `info` is made at each mount, and stands for it.
    ///
    /// # Errors
    /// The errno; `ENOTSUP` where something else than resctrl lies there.
    fn identity(&self, path: &Path) -> io::Result<Identity>;

    /// Changes with every boot.
    fn boot_id(&self) -> String;
}
