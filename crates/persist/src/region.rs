//! Mapped memory of fixed length, and what it is mapped from.
//!
//! A [`Region`] is created with its contents undefined (zero where the kernel gives fresh pages),
//! every page present and writable before [`Region::map`] returns, and everything it made in a file
//! system gone as soon as the process ends, however it ends: files are unlinked while open.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where a region's memory comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Medium {
    /// Anonymous memory of this process.
    Dram,
    /// An unlinked file in this directory, or under this new name, through the page cache (or on
    /// tmpfs, which *is* the page cache).
    File(PathBuf),
    /// The same, on a file system mounted with DAX and mapped with `MAP_SYNC`: the stores reach the
    /// medium with no page cache between.
    Dax(PathBuf),
    /// A `/dev/daxX.Y` character device.
    DevDax(PathBuf),
    /// Anonymous memory bound to one NUMA node.
    Node(u32),
}

/// The pages a region is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// The kernel's base page, 4 KiB.
    Base,
    /// Transparent huge pages, asked for with `madvise(MADV_HUGEPAGE)`; the kernel may decline.
    Transparent,
    /// Reserved 2 MiB pages (`vm.nr_hugepages`); mapping fails where too few are free.
    Huge2M,
}

/// What to map.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where from.
    pub medium: Medium,
    /// Bytes; rounded up to whole pages.
    pub len: usize,
    /// Of which size; only [`Medium::Dram`] and [`Medium::Node`] can be other than [`Pages::Base`].
    pub pages: Pages,
}

impl Request {
    /// `len` bytes of anonymous memory in base pages.
    pub fn dram(len: usize) -> Self {
        Self { medium: Medium::Dram, len, pages: Pages::Base }
    }
}

/// Why a region could not be mapped.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// The request makes no sense on any machine.
    #[error("{0}")]
    Request(String),
    /// A path is missing, in use, or of the wrong kind.
    #[error("{path}: {reason}", path = .path.display())]
    Path {
        /// The path as given.
        path: PathBuf,
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// Too little room.
    #[error("{place} has {free} bytes free, {wanted} are needed: ask for a smaller size, or make room")]
    NoSpace {
        /// The file system or memory.
        place: String,
        /// Bytes free there.
        free: u64,
        /// Bytes asked for.
        wanted: u64,
    },
    /// The kernel refused.
    #[error("{what} failed: {source}; {remedy}")]
    Kernel {
        /// The call, with what it was for.
        what: String,
        /// What to do about it.
        remedy: String,
        /// The error number.
        source: io::Error,
    },
}

impl RegionError {
    /// Whether the request could not have worked on this machine as it is: a wrong path, too little
    /// room, no DAX, no huge pages, no such node. The opposite is a medium or a kernel that failed.
    pub fn is_usage(&self) -> bool {
        match self {
            RegionError::Kernel { source, .. } => matches!(
                source.raw_os_error(),
                Some(
                    libc::EOPNOTSUPP
                        | libc::EINVAL
                        | libc::ENODEV
                        | libc::ENOMEM
                        | libc::ENOSPC
                        | libc::EDQUOT
                        | libc::EFBIG
                        | libc::EPERM
                        | libc::EACCES
                )
            ),
            _ => true,
        }
    }
}

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

    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    pub(crate) fn caches_persist(&self) -> bool {
        false
    }

    pub(crate) fn needs_msync(&self) -> bool {
        false
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

fn kernel(what: String, remedy: &str) -> RegionError {
    RegionError::Kernel { what, remedy: remedy.into(), source: io::Error::last_os_error() }
}

// Over-committed memory is not refused by mmap; it ends in the kernel killing somebody.
fn room_in_memory(len: usize) -> Result<(), RegionError> {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    match available {
        Some(kib) if (kib << 10) < len as u64 => {
            Err(RegionError::NoSpace { place: "memory".into(), free: kib << 10, wanted: len as u64 })
        }
        _ => Ok(()),
    }
}

// An unlinked file of `len` allocated bytes: in `path` where that is a directory, else under that
// name, which must be new. Somebody's file is never overwritten.
fn scratch_file(path: &Path, len: usize) -> Result<File, RegionError> {
    let refuse = |reason: String| RegionError::Path { path: path.into(), reason };
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let file = match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => match options.custom_flags(libc::O_TMPFILE).mode(0o600).open(path) {
            Ok(file) => file,
            // Some file systems have no O_TMPFILE.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                create_unlinked(&path.join(format!(".ringfence-{}", std::process::id())))
                    .map_err(|error| refuse(format!("no file can be made there: {error}")))?
            }
            Err(error) => return Err(refuse(format!("no file can be made there: {error}"))),
        },
        Ok(_) => {
            return Err(refuse("exists already: name a directory, or a file that does not exist yet".into()));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => create_unlinked(path).map_err(|error| {
            refuse(format!("no file can be made there: {error}; name a directory that exists"))
        })?,
        Err(error) => return Err(refuse(error.to_string())),
    };
    let free = free_bytes(&file);
    if free.is_some_and(|free| free < len as u64) {
        let place = format!("the file system of {}", path.display());
        return Err(RegionError::NoSpace { place, free: free.unwrap_or(0), wanted: len as u64 });
    }
    // SAFETY: an open descriptor; allocates blocks so that a store cannot meet a full disk (SIGBUS).
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, len as libc::off_t) } {
        0 => Ok(file),
        errno => Err(RegionError::Kernel {
            what: format!("allocating {len} bytes in {}", path.display()),
            remedy: "ask for a smaller size, or make room".into(),
            source: io::Error::from_raw_os_error(errno),
        }),
    }
}

fn create_unlinked(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

fn free_bytes(file: &File) -> Option<u64> {
    // SAFETY: a zeroed statvfs is a valid out-parameter, and the descriptor is open.
    unsafe {
        let mut stat: libc::statvfs = std::mem::zeroed();
        (libc::fstatvfs(file.as_raw_fd(), &mut stat) == 0).then(|| stat.f_bavail * stat.f_frsize)
    }
}

fn open_devdax(path: &Path) -> Result<File, RegionError> {
    let refuse = |reason: &str| RegionError::Path { path: path.into(), reason: reason.into() };
    let text = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| refuse("holds a zero byte"))?;
    // SAFETY: a terminated path and constant flags.
    let fd = unsafe { libc::open(text.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    if fd < 0 {
        let error = io::Error::last_os_error();
        return Err(refuse(&format!("cannot be opened: {error}; 'ndctl list' shows devdax devices")));
    }
    // SAFETY: the descriptor was just opened and is owned by nobody else.
    let file = unsafe { File::from_raw_fd(fd) };
    let is_device = file.metadata().is_ok_and(|meta| {
        use std::os::unix::fs::FileTypeExt;
        meta.file_type().is_char_device()
    });
    if is_device { Ok(file) } else { Err(refuse("is no character device: devdax: wants /dev/daxX.Y")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(medium: Medium, len: usize) -> Request {
        Request { medium, len, pages: Pages::Base }
    }

    #[test]
    fn memory_is_mapped_whole_and_writable() {
        for pages in [Pages::Base, Pages::Transparent] {
            let region = Region::map(&Request { pages, ..Request::dram(3 << 20) }).unwrap();
            assert!(region.len() >= 3 << 20);
            // SAFETY: the last byte of the region.
            unsafe { region.base().add(region.len() - 1).write(1) };
            assert!(!region.is_file());
        }
    }

    #[test]
    fn a_file_is_gone_from_its_directory_at_once_and_can_be_synced() {
        let dir = std::env::temp_dir().join(format!("ringfence-region-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let region = Region::map(&request(Medium::File(dir.clone()), 8192)).unwrap();
        let named = Region::map(&request(Medium::File(dir.join("new")), 5000)).unwrap();
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
        assert_eq!((region.len(), named.len()), (8192, 8192));
        region.msync(100, 5000).unwrap();
        assert_eq!(region.msync(8000, 500).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert!(region.msync(usize::MAX, 2).is_err());
        std::fs::remove_dir(&dir).unwrap();
    }

    #[test]
    fn pages_given_back_are_fresh_ones() {
        let regions = [
            Region::map(&Request::dram(8192)).unwrap(),
            Region::map(&request(Medium::File("/dev/shm".into()), 8192)).unwrap(),
        ];
        for region in regions {
            // SAFETY: the region's last byte, which nobody else uses.
            let last = unsafe {
                let p = region.base().add(8191);
                p.write_volatile(7);
                p
            };
            region.discard().unwrap();
            // SAFETY: as above.
            assert_eq!(unsafe { last.read_volatile() }, 0);
        }
        let device = Region::of_file(
            OpenOptions::new().read(true).write(true).open("/dev/zero").unwrap(),
            4096,
            Path::new("/dev/zero"),
            libc::MAP_PRIVATE,
        );
        assert!(device.unwrap().discard().is_err(), "a device has no pages to give back");
    }

    #[test]
    fn what_cannot_be_is_refused_in_a_sentence() {
        let file = std::env::temp_dir().join(format!("ringfence-there-{}", std::process::id()));
        std::fs::write(&file, "mine").unwrap();
        let cases = [
            (request(Medium::Dram, 0), "zero bytes"),
            (request(Medium::Dram, 1 << 60), "bytes free"),
            (request(Medium::File(file.clone()), 4096), "exists already"),
            (request(Medium::File("/nowhere/at/all".into()), 4096), "no file can be made there"),
            (request(Medium::DevDax("/dev/dax9.9".into()), 4096), "cannot be opened"),
            (request(Medium::DevDax("/dev/null/x".into()), 4096), "cannot be opened"),
            (request(Medium::DevDax(file.clone()), 4096), "is no character device"),
            (request(Medium::File(std::env::temp_dir()), 1 << 60), "bytes free"),
            (request(Medium::Node(5000), 4096), "beyond the 1024"),
            (request(Medium::Node(1023), 4096), "node 1023"),
            (
                Request { pages: Pages::Huge2M, ..request(Medium::File(std::env::temp_dir()), 4096) },
                "huge pages",
            ),
        ];
        for (wanted, part) in cases {
            let error = Region::map(&wanted).expect_err("must be refused").to_string();
            assert!(error.contains(part), "{wanted:?}: {error}");
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
        std::fs::remove_file(&file).unwrap();
    }
}
