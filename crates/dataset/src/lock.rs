//! The lock of a dataset: one program writes to it at a time.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ringfence_system::root::FsRoot;

use super::error::DatasetError;
use super::folder;

/// The right to write to a dataset's folder. The kernel takes it back when this is dropped, and
/// when the program ends, however it ends.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code)] Option<File>);

impl Lock {
    /// Takes it, at once or not at all. A file system without locks has to do without.
    ///
    /// # Errors
    /// Where another program has it.
    pub fn take(dir: &Path) -> Result<Self, DatasetError> {
        // A folder that cannot be opened is reported better by the code that reads it.
        let Ok(folder) = File::open(dir) else { return Ok(Self(None)) };
        match folder.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let process = holder(&FsRoot::host(), &folder);
                let who = process.map_or("another program".into(), |pid| format!("process {pid}"));
                let problem = format!(
                    "this is still being measured by {who}: wait until that ends, or name another \
                     folder"
                );
                Err(DatasetError::usage(dir, problem))
            }
            Err(TryLockError::Error(_)) => Ok(Self(None)),
            Ok(()) => Ok(Self(Some(folder))),
        }
    }
}

/// Refuses a folder that another program writes to, or whose sub-folders: of those a study has one
/// for each stage.
///
/// # Errors
/// As [`Lock::take`].
pub fn check_idle(dir: &Path) -> Result<(), DatasetError> {
    Lock::take(dir)?;
    let inside = folder::entries(dir)?.into_iter().filter(|path| folder::is_dataset(path));
    inside.into_iter().try_for_each(|path| match Lock::take(&path) {
        // It is the whole folder that was named.
        Err(DatasetError::Usage { problem, .. }) => Err(DatasetError::usage(dir, problem)),
        other => other.map(drop),
    })
}

// The process that holds the lock, from the kernel's list:
// `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`. Not found on file systems that report one
// device number to a caller of `stat` and list another one here.
fn holder(root: &FsRoot, folder: &File) -> Option<u32> {
    let file = folder.metadata().ok()?;
    let (major, minor) = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
    let asked = format!("{major:02x}:{minor:02x}:{}", file.ino());
    let locks = root.read_opt("proc/locks")?;
    let one = locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words.get(1) == Some(&"FLOCK") && words.get(5) == Some(&asked.as_str()))
            .then(|| words[4].parse())
    });
    // What runs in another PID namespace has none here.
    one?.ok().filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_measures_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let (outer, inner) = (dir.path().join("p"), dir.path().join("p/baseline"));
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(inner.join(crate::MANIFEST), "").unwrap();
        assert!(check_idle(&outer).is_ok());
        let lock = Lock::take(&inner).unwrap();
        let error = check_idle(&outer).unwrap_err();
        assert!(
            error.is_usage()
                && error.to_string().starts_with(&format!("{}: this is still", outer.display()))
        );
        drop(lock);
        assert!(check_idle(&outer).is_ok());
        let file = File::open(&inner).unwrap();
        let (dev, ino) = (file.metadata().unwrap().dev(), file.metadata().unwrap().ino());
        let at = format!("{:02x}:{:02x}", rustix::fs::major(dev), rustix::fs::minor(dev));
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let told = |who: &str| {
            let other = "1: POSIX  ADVISORY  WRITE 17 08:01:99 0 EOF\n";
            let line = format!("{other}2: FLOCK  ADVISORY  WRITE {who} {at}:{ino} 0 EOF\n");
            std::fs::write(root.path().join("proc/locks"), line).unwrap();
            holder(&FsRoot::at(root.path()), &file)
        };
        assert_eq!((told("1234"), told("-1"), told("0")), (Some(1234), None, None));
    }
}
