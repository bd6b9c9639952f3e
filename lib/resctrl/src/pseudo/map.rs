//! A locked region in this process's memory: the calls that take `unsafe`.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU8;

use ringfence_system::cpulist::CpuSet;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;

use crate::error::{Error, Refused};
use crate::group::Group;
use crate::mode::Mode;

/// A pseudo-locked region, mapped. Unmapped on drop.
///
/// The kernel zeroes the region at each mapping (Linux 6.1, `pseudo_lock_dev_mmap`), whichever
/// process maps it: one process maps it, once. A group is not removed while it is mapped
/// ([`Group::remove`]).
#[derive(Debug)]
pub struct Mapped {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to no thread; what is done through the pointer is the caller's to
// order.
unsafe impl Send for Mapped {}

impl Mapped {
    /// Maps the region of a group, with the length of the group's `size`, in whole pages.
    ///
    /// # Errors
    /// [`Error::Usage`] if the group has no region, or if the calling thread may run on CPUs
    /// outside the region's cache: pin it first. Otherwise the kernel's refusal.
    pub fn open(group: &Group) -> Result<Self, Error> {
        let device = group.device();
        if group.mode()? != Some(Mode::PseudoLocked) {
            return Err(Error::Usage(format!(
                "{} is not a pseudo-locked region: there is nothing to map",
                group.id()
            )));
        }
        let bytes = group.size()?.first().map_or(0, |size| size.amount);
        let below = group.cpus()?;
        let here = affinity()
            .map_err(|source| Refused::new("reading this thread's CPUs", source, None))?;
        if !here.is_subset(&below) {
            return Err(Error::Usage(format!(
                "{} is in the cache of CPUs {below}, and this thread may run on {here}: the kernel \
                 only maps it for threads that stay on those CPUs; pin it first, such as with \
                 taskset -c {below}",
                device.display()
            )));
        }
        let len = usize::try_from(bytes).unwrap_or(0) / page_size() * page_size();
        if len == 0 {
            return Err(Error::Usage(format!(
                "{} has {bytes} bytes, less than a page: make it larger",
                device.display()
            )));
        }
        let start = map(&device, len).map_err(|source| {
            let remedy = |errno| match errno {
                libc::EACCES => {
                    Some(crate::remedy::forbidden("read and write", &device.display().to_string()))
                }
                libc::ENOENT => {
                    Some("devtmpfs or udev creates the device: mount devtmpfs at /dev".to_owned())
                }
                libc::ENODEV => {
                    Some("the region or its cache is gone: remove the group".to_owned())
                }
                _ => None,
            };
            let tried = format!("mapping {len} bytes of {}", device.display());
            Error::from(Refused::new(tried, source, None).unless_said(remedy))
        })?;
        Ok(Self { start, len })
    }

    /// Where it begins; page-aligned. Valid, readable and writable, for [`Mapped::len`] bytes until
    /// this is dropped.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The bytes themselves, which others may have mapped too.
    pub fn bytes(&self) -> &[AtomicU8] {
        // SAFETY: mapped to be read and written as long as this lives. Code that uses the pointer
        // above orders that with these.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.len) }
    }

    /// How many they are, a multiple of the page size.
    #[allow(clippy::len_without_is_empty)] // It never is.
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and no pointer into it is kept any longer than
        // this lives.
        _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

fn map(device: &Path, len: usize) -> io::Result<NonNull<u8>> {
    let file = OpenOptions::new().read(true).write(true).open(device)?;
    // SAFETY: a new mapping, at a place of the kernel's choice, of a device that is open.
    let start = unsafe {
        mmap(
            std::ptr::null_mut(),
            len,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            &file,
            0,
        )
    }?;
    NonNull::new(start.cast()).ok_or_else(|| io::Error::other("it was mapped at address 0"))
}

/// The CPUs on which the calling thread may run.
fn affinity() -> io::Result<CpuSet> {
    // 64 Ki CPUs, more than Linux can have (CONFIG_NR_CPUS is 8192 at most), and than the 1024 of
    // `rustix`.
    let mut words = [0u64; 1024];
    // SAFETY: the kernel writes no more than the given bytes, and any bit pattern is a u64.
    let bytes =
        unsafe { libc::sched_getaffinity(0, size_of_val(&words), words.as_mut_ptr().cast()) };
    if bytes < 0 {
        return Err(io::Error::last_os_error());
    }
    let cpus =
        (0..words.len() as u32 * 64).filter(|cpu| words[*cpu as usize / 64] >> (cpu % 64) & 1 == 1);
    Ok(cpus.collect())
}
