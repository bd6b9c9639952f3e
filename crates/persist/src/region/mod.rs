//! Mapped memory of fixed length, and what it is mapped from.
//!
//! A [`Region`] is created with its contents undefined (zero where the kernel gives fresh pages),
//! every page present and writable before [`Region::map`] returns, and everything it made in a file
//! system gone as soon as the process ends, however it ends: files are unlinked while open.

mod error;
mod request;
mod room;
mod scratch;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

pub use error::RegionError;
pub use request::{Medium, Pages, Request};

use error::kernel;
use room::room_in_memory;
use scratch::{open_devdax, scratch_file};

/// A mapping, unmapped when dropped.
#[derive(Debug)]
pub struct Region {
    base: *mut u8,
    len: usize,
    // Held for msync of file mappings and to keep the unlinked file alive.
    file: Option<File>,
}

// SAFETY: a region is a plain range of memory, valid in every thread until it is dropped; all
// accesses to it go through raw pointers, whose users state their own synchronisation.
unsafe impl Send for Region {}
// SAFETY: as above; no method changes the region itself through a shared reference.
unsafe impl Sync for Region {}

impl Region {
    /// Maps and prefaults what is asked for. The base is aligned to the page size.
    ///
    /// # Errors
    /// See [`RegionError`]; nothing is left behind.
    pub fn map(request: &Request) -> Result<Region, RegionError> {
        if request.len == 0 {
            return Err(RegionError::Request("a region of zero bytes cannot be mapped".into()));
        }
        let anonymous = matches!(request.medium, Medium::Dram | Medium::Node(_));
        if request.pages != Pages::Base && !anonymous {
            return Err(RegionError::Request(
                "huge pages can be asked for in dram and node targets only: a file's pages are its file system's"
                    .into(),
            ));
        }
        let unit = match (&request.medium, request.pages) {
            (Medium::DevDax(_), _) | (_, Pages::Huge2M | Pages::Transparent) => 2 << 20,
            _ => 4096,
        };
        let len = request.len.next_multiple_of(unit);
        match &request.medium {
            Medium::Dram => Self::anonymous(len, request.pages, None),
            Medium::Node(node) => Self::anonymous(len, request.pages, Some(*node)),
            Medium::File(path) => Self::of_file(scratch_file(path, len)?, len, path, libc::MAP_SHARED),
            Medium::Dax(path) => {
                let flags = libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC;
                Self::of_file(scratch_file(path, len)?, len, path, flags)
            }
            Medium::DevDax(path) => Self::of_file(open_devdax(path)?, len, path, libc::MAP_SHARED),
        }
    }

    fn anonymous(len: usize, pages: Pages, node: Option<u32>) -> Result<Region, RegionError> {
        room_in_memory(len)?;
        // Huge pages are reserved by the mapping: without, too few of them end in SIGBUS at the first touch.
        let kind = match pages {
            Pages::Huge2M => libc::MAP_HUGETLB | libc::MAP_HUGE_2MB,
            Pages::Base | Pages::Transparent => libc::MAP_NORESERVE,
        };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | kind;
        let what = format!("mapping {len} bytes of memory");
        let remedy = match pages {
            Pages::Huge2M => "reserve 2 MiB pages with 'sysctl vm.nr_hugepages=N', or use pages = \"thp\"",
            _ => "ask for a smaller size",
        };
        // A huge page boundary to start from, or transparent huge pages never form at the ends.
        let slack = if pages == Pages::Transparent { 2 << 20 } else { 0 };
        // SAFETY: a fresh private mapping at an address of the kernel's choice.
        let raw = unsafe {
            libc::mmap(std::ptr::null_mut(), len + slack, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if raw == libc::MAP_FAILED {
            return Err(kernel(what, remedy));
        }
        let (base, len) = (raw.cast::<u8>(), len + slack);
        let region = Region { base, len, file: None };
        if pages == Pages::Transparent {
            // SAFETY: advice on the mapping just made.
            if unsafe { libc::madvise(raw, len, libc::MADV_HUGEPAGE) } != 0 {
                return Err(kernel(
                    "asking for transparent huge pages (madvise MADV_HUGEPAGE)".into(),
                    "this kernel has none: use pages = \"4KiB\"",
                ));
            }
        }
        if let Some(node) = node {
            region.bind(node)?;
        }
        region.prefault();
        Ok(region)
    }

    fn bind(&self, node: u32) -> Result<(), RegionError> {
        const MPOL_BIND: libc::c_int = 2;
        const MPOL_MF_STRICT: libc::c_uint = 1;
        let mut mask = [0u64; 16];
        let word = mask.get_mut(node as usize / 64).ok_or_else(|| {
            RegionError::Request(format!("node {node} is beyond the 1024 NUMA nodes that Linux knows"))
        })?;
        *word |= 1 << (node % 64);
        // SAFETY: the mask outlives the call and its length in bits is stated; the range is ours.
        let status = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.base,
                self.len,
                MPOL_BIND,
                mask.as_ptr(),
                mask.len() * 64,
                MPOL_MF_STRICT,
            )
        };
        if status == 0 {
            return Ok(());
        }
        Err(kernel(
            format!("binding memory to NUMA node {node} (mbind)"),
            "'ringfence topology' lists the nodes that have memory",
        ))
    }

    fn of_file(file: File, len: usize, path: &Path, flags: libc::c_int) -> Result<Region, RegionError> {
        // SAFETY: a fresh mapping of an open file, at an address of the kernel's choice.
        let raw = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                file.as_raw_fd(),
                0,
            )
        };
        if raw == libc::MAP_FAILED {
            let remedy = if flags & libc::MAP_SYNC != 0 {
                "MAP_SYNC needs a file system mounted with -o dax on persistent memory; through the page cache, use file:"
            } else {
                "check the length and alignment of the device or file"
            };
            return Err(kernel(format!("mapping {len} bytes of {}", path.display()), remedy));
        }
        let region = Region { base: raw.cast(), len, file: Some(file) };
        region.prefault();
        Ok(region)
    }

    // A write fault, not a read fault: reading would map the shared zero page or leave file
    // blocks unallocated, and the first store would then be timed with the fault.
    fn prefault(&self) {
        for page in (0..self.len).step_by(4096) {
            // SAFETY: inside the mapping, which nobody else uses yet.
            unsafe {
                let p = self.base.add(page);
                p.write_volatile(p.read_volatile());
            }
        }
    }

    /// The first byte.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Bytes mapped: at least those asked for.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: a region has at least one page.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether a file or device is mapped, so that [`Region::msync`] means something.
    pub fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// Gives every page back to the kernel: the next store to each is the first one again, with its page
    /// fault, allocation and zeroing. What the region held is lost.
    ///
    /// # Errors
    /// What the kernel reports; devices and some file systems cannot give pages back.
    pub fn discard(&self) -> io::Result<()> {
        let advice = if self.is_file() { libc::MADV_REMOVE } else { libc::MADV_DONTNEED };
        // SAFETY: the range is ours, and raw memory of any content is still a region.
        let status = unsafe { libc::madvise(self.base.cast(), self.len, advice) };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Waits until the bytes in the range are on the file's medium (`msync(MS_SYNC)`); the range is
    /// widened to whole pages.
    ///
    /// # Errors
    /// A range beyond the region, or what the kernel reports.
    pub fn msync(&self, offset: usize, len: usize) -> io::Result<()> {
        let end = offset.checked_add(len).filter(|end| *end <= self.len);
        let end = end.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        let start = offset & !4095;
        // SAFETY: the range lies inside the mapping.
        let status = unsafe { libc::msync(self.base.add(start).cast(), end - start, libc::MS_SYNC) };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what was mapped, once.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}
