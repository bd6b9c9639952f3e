//! What a reader reads: anonymous memory, locked, or a pseudo-locked region of the kernel's.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::rc::Rc;

use ringfence_experiment::task::{Memory, Read};
use ringfence_machine::units::Bytes;
use ringfence_persist::LINE;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::super::SetupError;
use super::mapping::Mapping;

/// Regions already mapped: readers that differ in nothing that concerns the mapping share one, so
/// that their memory is not a difference between them, and a pseudo-locked region is mapped once
/// only, since the kernel fills it with zeros at every mmap (kernel, `pseudo_lock_dev_mmap`).
#[derive(Default)]
pub struct Regions {
    mapped: Vec<(Memory, bool, Rc<Mapping>)>,
}

impl Regions {
    /// The memory that a task reads.
    pub fn get(&mut self, task: &Read) -> Result<Rc<Mapping>, SetupError> {
        let len = usize::try_from(task.size.0)
            .map_err(|_| SetupError::Other(format!("size = {} cannot be mapped", task.size)))?;
        let same = |known: &&(Memory, bool, Rc<Mapping>)| {
            known.0 == task.memory && known.1 == task.mlock && known.2.bytes().len() == len
        };
        if let Some((_, _, known)) = self.mapped.iter().find(same) {
            return Ok(known.clone());
        }
        let mapping = Rc::new(match &task.memory {
            Memory::Malloc => anonymous(len, task.mlock)?,
            Memory::Locked(path) => pseudo_locked(path, len)?,
        });
        self.mapped.push((task.memory.clone(), task.mlock, mapping.clone()));
        Ok(mapping)
    }
}

// Touched page by page, so that each has memory of its own, and locked if asked.
fn anonymous(len: usize, lock: bool) -> Result<Mapping, SetupError> {
    let mapping = Mapping::anonymous(len).map_err(|error| {
        SetupError::Other(format!("mapping {} failed: {error}", Bytes(len as u64)))
    })?;
    mapping.bytes().iter().step_by(LINE).for_each(|byte| byte.set(1));
    if lock {
        mapping.lock().map_err(|error| SetupError::Other(not_locked(len, &error, limit())))?;
    }
    Ok(mapping)
}

fn not_locked(len: usize, error: &io::Error, limit: Option<u64>) -> String {
    let allowed =
        limit.map_or(String::new(), |limit| format!(" (this process may lock {})", Bytes(limit)));
    format!(
        "locking {} of memory failed: {error}{allowed}; raise the limit (ulimit -l, \
         RLIMIT_MEMLOCK), or set mlock = false and \
         accept that pages may be moved or swapped out meanwhile",
        Bytes(len as u64)
    )
}

// RLIMIT_MEMLOCK, bytes; `None` where there is no limit.
fn limit() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

fn pseudo_locked(path: &Path, len: usize) -> Result<Mapping, SetupError> {
    // Opening a terminal or a pipe by mistake must not wait.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
    let file = file.map_err(|error| SetupError::Other(refused(path, len, &error)))?;
    // MAP_SHARED, as the driver demands; the mapping keeps the device open.
    Mapping::shared(&file, len).map_err(|error| SetupError::Other(refused(path, len, &error)))
}

// What the kernel means by each of its answers (arch/x86/kernel/cpu/resctrl/pseudo_lock.c).
fn refused(path: &Path, len: usize, error: &io::Error) -> String {
    let why = match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NXIO | Errno::NODEV) => {
            "there is no such pseudo-locked region: create it first".to_string()
        }
        Some(Errno::ACCESS | Errno::PERM) => {
            "the device belongs to root: run as root, or change its owner".to_string()
        }
        Some(Errno::INVAL) => {
            "the task must run on CPUs of the cache in which the region lies and on no others: \
             name one of them with cpus"
                .to_string()
        }
        Some(Errno::NOSPC) => format!(
            "the region is smaller than size = {}: use its size at \
                                       most",
            Bytes(len as u64)
        ),
        _ => "name a device below /dev/pseudo_lock".to_string(),
    };
    format!("mapping {} failed: {error}; {why}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_readers_share_their_memory() {
        let mut regions = Regions::default();
        let task = Read { size: Bytes::kib(8), mlock: false, ..Read::default() };
        let one = regions.get(&task).unwrap();
        let same = regions.get(&Read { preload: true, ..task.clone() }).unwrap();
        let other = regions.get(&Read { size: Bytes::kib(12), ..task }).unwrap();
        assert_eq!((one.bytes().as_ptr(), one.bytes().len()), (same.bytes().as_ptr(), 8192));
        assert_ne!(one.bytes().as_ptr(), other.bytes().as_ptr());
    }

    #[test]
    fn refusals_say_what_to_do() {
        let errno = |errno: Errno| io::Error::from(errno);
        let text = not_locked(1 << 18, &errno(Errno::NOMEM), Some(1 << 16));
        for part in ["256KiB", "may lock 64KiB", "ulimit -l", "mlock = false"] {
            assert!(text.contains(part), "{text}");
        }
        for (number, part) in [
            (Errno::NOENT, "create it first"),
            (Errno::ACCESS, "run as root"),
            (Errno::INVAL, "CPUs of the cache"),
            (Errno::NOSPC, "smaller than size = 256KiB"),
            (Errno::IO, "/dev/pseudo_lock"),
        ] {
            let text = refused(Path::new("/dev/pseudo_lock/a"), 1 << 18, &errno(number));
            assert!(text.contains(part) && text.contains("/dev/pseudo_lock/a"), "{text}");
        }
        let task =
            Read { memory: Memory::Locked("/dev/pseudo_lock/no such".into()), ..Read::default() };
        let error = Regions::default().get(&task).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains("create it first"), "{error}");
    }

    // The order of the checks in the driver is not ours to test here, but that a file is mapped
    // whole and shared is.
    #[test]
    fn a_device_is_mapped_shared() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(8192).unwrap();
        let mapping = pseudo_locked(file.path(), 8192).unwrap();
        mapping.bytes()[0].set(7);
        assert_eq!(std::fs::read(file.path()).unwrap()[0], 7);
    }
}
