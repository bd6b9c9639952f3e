//! Files that are created, written, renamed and removed, in a folder of their own.
//!
//! Renamed files have a name, so that a task that is killed leaves its folder, and at most one file
//! in it. The folder is locked (`flock(2)`) for as long as the task lives. The process that ends
//! the task, and the next task in the same place, remove the folders that no process has locked
//! ([`sweep`]).

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ringfence_experiment::Reason;
use ringfence_experiment::task::{Churn, Parameters};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};

use crate::files::{self, Buffer};
use crate::workload::{Latencies, SetupError, Work, Workload};

const PREFIX: &str = ".ringfence-churn-";
const CREATED: &str = "created";
const RENAMED: &str = "renamed";

/// Creates, writes, renames and removes.
pub struct Churner {
    folder: Folder,
    content: Buffer,
    failure: Option<String>,
}

impl Churner {
    /// Makes its folder.
    ///
    /// # Errors
    /// Where it cannot be made, or should not.
    pub fn new(task: &Churn, seed: u64) -> Result<Self, SetupError> {
        task.check().map_err(SetupError::Other)?;
        files::fits(&task.dir, task.size.0, "file")?;
        sweep(&task.dir);
        let folder = Folder::make(&task.dir).map_err(files::failed(&task.dir, "folder"))?;
        Ok(Self { folder, content: Buffer::new(task.size.0 as usize, seed), failure: None })
    }

    fn turn(&mut self) -> io::Result<()> {
        let folder = &self.folder.file;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(folder, CREATED, flags, Mode::RUSR | Mode::WUSR)?;
        let content = self.content.get();
        if rustix::io::write(&file, content)? < content.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        drop(file);
        rustix::fs::renameat(folder, CREATED, folder, RENAMED)?;
        Ok(rustix::fs::unlinkat(folder, RENAMED, AtFlags::empty())?)
    }

    fn failed(&mut self, error: &io::Error) {
        self.failure = Some(format!("files in {}: {error}", self.folder.path.display()));
    }
}

impl Workload for Churner {
    fn work(&mut self, amount: u64, _: &dyn Latencies) -> Work {
        let mut work = Work::default();
        for _ in 0..amount {
            if self.failure.is_some() {
                break;
            }
            match self.turn() {
                Ok(()) => work.units += 1,
                Err(error) => self.failed(&error),
            }
        }
        work
    }

    // What was done to the folder is in the file system's journal, and is to be on the device.
    fn paused(&mut self) {
        if let Err(error) = rustix::fs::fsync(&self.folder.file) {
            self.failed(&error.into());
        }
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

/// Makes and removes one file in a task's way, and leaves nothing.
///
/// # Errors
/// Why it cannot be had here.
pub fn try_out(task: &Churn) -> Result<(), Reason> {
    let mut churner = Churner::new(task, 1).map_err(|error| error.to_string())?;
    churner.turn().map_err(|error| format!("files in {}: {error}", task.dir.display()).into())
}

/// Removes the folders that tasks which were killed have left in a place. Those of tasks that live,
/// and what others have put into one, stay.
pub fn sweep(dir: &Path) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    for name in names.filter(|name| name.starts_with(PREFIX)) {
        // A folder that cannot be taken belongs to another task or user.
        if let Some(folder) = Folder::take(dir.join(name)) {
            drop(folder);
        }
    }
}

/// A folder that is held, and removed when it is dropped.
struct Folder {
    path: PathBuf,
    file: OwnedFd,
}

impl Folder {
    fn make(dir: &Path) -> io::Result<Self> {
        // Several tasks may run in one process, and another process may sweep before the lock is
        // taken.
        for number in 0..1000 {
            let path = dir.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match rustix::fs::mkdir(&path, Mode::RWXU) {
                Err(rustix::io::Errno::EXIST) => continue,
                made => made?,
            }
            if let Some(folder) = Self::take(path) {
                return Ok(folder);
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    // If it is this user's, and no process has locked it.
    fn take(path: PathBuf) -> Option<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open(&path, flags, Mode::empty()).ok()?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        let (held, named) =
            (rustix::fs::fstat(&file).ok()?, std::fs::symlink_metadata(&path).ok()?);
        let own = held.st_uid == rustix::process::geteuid().as_raw();
        (own && (held.st_dev, held.st_ino) == (named.dev(), named.ino()))
            .then_some(Self { path, file })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for name in [CREATED, RENAMED] {
            let _ = rustix::fs::unlinkat(&self.file, name, AtFlags::empty());
        }
        // If it holds anything else, another program uses it by now.
        let _ = std::fs::remove_dir(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;
    impl Latencies for Nobody {
        fn count(&self, _: u64) {}
    }

    fn names(dir: &Path) -> usize {
        std::fs::read_dir(dir).unwrap().count()
    }

    #[test]
    fn files_come_and_go_and_so_does_their_folder() {
        let Some(dir) = crate::files::tests::on_a_disk("churn") else { return };
        let task = Churn { dir: dir.path().into(), ..Churn::default() };
        let mut one = Churner::new(&task, 7).unwrap();
        let other = Churner::new(&task, 7).unwrap();
        assert_eq!(names(dir.path()), 2, "each has its own, although the second swept");
        assert_eq!((one.work(20, &Nobody).units, one.failure()), (20, None));
        one.paused();
        assert_eq!(one.failure(), None);
        assert_eq!(names(&one.folder.path), 0);
        drop((one, other));
        assert_eq!(names(dir.path()), 0);
        assert_eq!((try_out(&task), names(dir.path())), (Ok(()), 0));
    }

    #[test]
    fn what_a_killed_task_left_is_swept_and_nothing_else() {
        let Some(dir) = crate::files::tests::on_a_disk("churn") else { return };
        let make = |name: &str, file: &str| {
            let folder = dir.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join(file), "x").unwrap();
            folder
        };
        let left = make(&format!("{PREFIX}1-0"), RENAMED);
        let used = make(&format!("{PREFIX}2-0"), "somebody's");
        let other = make("another", CREATED);
        let linked = dir.path().join(format!("{PREFIX}3-0"));
        std::os::unix::fs::symlink(&other, &linked).unwrap();
        sweep(dir.path());
        assert!(!left.exists());
        assert!(
            used.join("somebody's").exists() && other.join(CREATED).exists() && linked.is_symlink()
        );
    }

    #[test]
    fn what_cannot_be_had_says_why() {
        let Some(dir) = crate::files::tests::on_a_disk("churn") else { return };
        for (place, part) in [
            (PathBuf::from("/dev/shm"), "in memory"),
            (dir.path().join("none"), "No such file or directory"),
        ] {
            let error = try_out(&Churn { dir: place, ..Churn::default() }).expect_err(part);
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        }
    }
}
