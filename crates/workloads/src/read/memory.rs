//! What a reader reads: anonymous memory, locked, or a pseudo-locked region of the kernel's.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::rc::Rc;

use ringfence_experiment::task::{Memory, Read};
use ringfence_machine::units::Bytes;

use super::super::SetupError;

/// Regions already mapped: readers that differ in nothing that concerns the mapping share one, so that
/// their memory is no difference between them, and a pseudo-locked region is mapped once only, since
/// the kernel fills it with zeros at every mmap (kernel, `pseudo_lock_dev_mmap`).
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
            known.0 == task.memory && known.1 == task.mlock && known.2.len == len
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

/// Memory that was mapped, and is unmapped at the end.
#[derive(Debug)]
pub struct Mapping {
    base: *mut u8,
    len: usize,
}

impl Mapping {
    fn new(len: usize, flags: i32, fd: i32) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, fd, 0) };
        if base == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(Self { base: base.cast(), len })
        }
    }

    /// The first byte: aligned to a page, readable and writable up to the length.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: unmaps what `new` mapped, once.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

// Touched page by page, so that each has memory of its own, and locked if asked.
fn anonymous(len: usize, lock: bool) -> Result<Mapping, SetupError> {
    let mapping = Mapping::new(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
        .map_err(|error| SetupError::Other(format!("mapping {} failed: {error}", Bytes(len as u64))))?;
    for offset in (0..len).step_by(64) {
        // SAFETY: inside the mapping.
        unsafe { mapping.base.add(offset).write_volatile(1) };
    }
    // SAFETY: the range of the mapping.
    if lock && unsafe { libc::mlock(mapping.base.cast(), len) } != 0 {
        return Err(SetupError::Other(not_locked(len, &io::Error::last_os_error(), limit())));
    }
    Ok(mapping)
}

fn not_locked(len: usize, error: &io::Error, limit: Option<u64>) -> String {
    let allowed = limit.map_or(String::new(), |limit| format!(" (this process may lock {})", Bytes(limit)));
    format!(
        "locking {} of memory failed: {error}{allowed}; raise the limit (ulimit -l, RLIMIT_MEMLOCK), or set mlock = false and \
         accept that pages may be moved or swapped out meanwhile",
        Bytes(len as u64)
    )
}

// RLIMIT_MEMLOCK, bytes; `None` where there is no limit or no answer.
fn limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the out-parameter outlives the call.
    let status = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    (status == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

fn pseudo_locked(path: &Path, len: usize) -> Result<Mapping, SetupError> {
    // Opening a terminal or a pipe by mistake must not wait.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
    let file = file.map_err(|error| SetupError::Other(refused(path, len, &error)))?;
    // MAP_SHARED, as the driver demands; the mapping keeps the device open.
    Mapping::new(len, libc::MAP_SHARED, file.as_raw_fd())
        .map_err(|error| SetupError::Other(refused(path, len, &error)))
}

// What the kernel means by each of its answers (arch/x86/kernel/cpu/resctrl/pseudo_lock.c).
fn refused(path: &Path, len: usize, error: &io::Error) -> String {
    let why = match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENXIO | libc::ENODEV) => {
            "there is no such pseudo-locked region: create it first".to_string()
        }
        Some(libc::EACCES | libc::EPERM) => {
            "the device belongs to root: run as root, or change its owner".to_string()
        }
        Some(libc::EINVAL) => {
            "the task must run on CPUs of the cache in which the region lies and on no others: name one of them with cpus"
                .to_string()
        }
        Some(libc::ENOSPC) => format!("the region is smaller than size = {}: use its size at most", Bytes(len as u64)),
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
        assert_eq!((one.base(), one.len()), (same.base(), 8192));
        assert_ne!(one.base(), other.base());
    }

    #[test]
    fn refusals_say_what_to_do() {
        let errno = io::Error::from_raw_os_error;
        let text = not_locked(1 << 18, &errno(libc::ENOMEM), Some(1 << 16));
        for part in ["256KiB", "may lock 64KiB", "ulimit -l", "mlock = false"] {
            assert!(text.contains(part), "{text}");
        }
        for (number, part) in [
            (libc::ENOENT, "create it first"),
            (libc::EACCES, "run as root"),
            (libc::EINVAL, "CPUs of the cache"),
            (libc::ENOSPC, "smaller than size = 256KiB"),
            (libc::EIO, "/dev/pseudo_lock"),
        ] {
            let text = refused(Path::new("/dev/pseudo_lock/a"), 1 << 18, &errno(number));
            assert!(text.contains(part) && text.contains("/dev/pseudo_lock/a"), "{text}");
        }
        let task = Read { memory: Memory::Locked("/dev/pseudo_lock/no such".into()), ..Read::default() };
        let error = Regions::default().get(&task).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains("create it first"), "{error}");
    }

    // The order of the checks in the driver is not ours to test here, but that a file is mapped whole and shared is.
    #[test]
    fn a_device_is_mapped_shared() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(8192).unwrap();
        let mapping = pseudo_locked(file.path(), 8192).unwrap();
        // SAFETY: inside the mapping.
        unsafe { mapping.base().write_volatile(7) };
        assert_eq!(std::fs::read(file.path()).unwrap()[0], 7);
    }
}
