//! The lock of a fleet: one process at a time looks for lost tasks and hands them in.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use ringfence_dataset::text_file;
use ringfence_experiment::Error;

use crate::error;
use crate::run::own_name;

const FILE: &str = "submitting";

/// A process that only looks has the file for a moment, so the lock is tried this often, this far
/// apart.
const TRIES: u32 = 10;
const APART: Duration = Duration::from_millis(20);

/// The right to hand in tasks of a fleet, or to run them here. The kernel takes it back when this
/// is dropped, and when the program ends, however it ends. A file system without locks has to do
/// without.
#[derive(Debug)]
pub struct Submitting(#[allow(dead_code)] Option<File>);

impl Submitting {
    /// Takes it, at once or not at all.
    ///
    /// # Errors
    /// Where another process has it; the error names that process.
    pub fn begin(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(FILE);
        let file =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
        let file = file.map_err(error::io("open", &path))?;
        for left in (0..TRIES).rev() {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if left > 0 => std::thread::sleep(APART),
                Err(TryLockError::WouldBlock) => {
                    return Err(Error::usage(format!(
                        "{} is submitting or running tasks of this fleet: wait for it to end, and \
                         try again",
                        holder(&path)
                    )));
                }
                Err(TryLockError::Error(_)) => return Ok(Self(None)),
            }
        }
        let host = own_name().map(|name| format!(" on {name}")).unwrap_or_default();
        let own = format!("process {}{host}", std::process::id());
        // This is information for users: the lock holds without it as well.
        let _ = file.set_len(0).and_then(|()| (&file).write_all(own.as_bytes()));
        Ok(Self(Some(file)))
    }

    /// The process that has it, if any.
    pub fn other(dir: &Path) -> Option<String> {
        let path = dir.join(FILE);
        let held =
            matches!(File::open(&path).ok()?.try_lock_shared(), Err(TryLockError::WouldBlock));
        held.then(|| holder(&path))
    }
}

fn holder(path: &Path) -> String {
    let told = text_file::read(path, 1 << 10).ok().filter(|text| !text.is_empty());
    told.unwrap_or_else(|| "another program".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_and_is_named() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Submitting::other(dir.path()), None);
        let own = Submitting::begin(dir.path()).unwrap();
        let name = format!("process {}", std::process::id());
        assert!(Submitting::other(dir.path()).unwrap().starts_with(&name));
        let refused = Submitting::begin(dir.path()).unwrap_err();
        assert!(refused.is_usage() && refused.text().starts_with(&name), "{refused}");
        drop(own);
        assert_eq!(Submitting::other(dir.path()), None);
        Submitting::begin(dir.path()).unwrap();
    }
}
