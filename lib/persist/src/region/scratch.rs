//! Memory that the lab overwrites: files are unlinked while open, so that nothing is left of them.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::mm::{Advice, MapFlags};

use super::medium::{Facts, Kind, MapSync};
use super::room::{room_in_file_system, room_in_memory};
use super::{Medium, Pages, Region, RegionError, Request, descriptor, facts_of};
use crate::kernel::Mapping;

impl Region {
    /// Maps and prefaults scratch memory. The base is aligned to the page size.
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
                "huge pages can be asked for in dram and node targets only: a file's pages are its \
                 file system's"
                    .into(),
            ));
        }
        let unit = match (&request.medium, request.pages) {
            (Medium::DevDax(_), _) | (_, Pages::Huge2M | Pages::Transparent) => 2 << 20,
            _ => 4096,
        };
        let len = request.len.checked_next_multiple_of(unit);
        let len = len.ok_or_else(|| {
            RegionError::Request(format!("{} bytes cannot be mapped", request.len))
        })?;
        match &request.medium {
            Medium::Dram => Self::pages(len, request.pages, None),
            Medium::Node(node) => Self::pages(len, request.pages, Some(*node)),
            Medium::File(path) => {
                Self::scratch(scratch_file(path, len)?, len, path, MapFlags::SHARED)
            }
            Medium::Dax(path) => {
                let flags = MapFlags::SHARED_VALIDATE | MapFlags::SYNC;
                Self::scratch(scratch_file(path, len)?, len, path, flags)
            }
            Medium::DevDax(path) => Self::scratch(open_devdax(path)?, len, path, MapFlags::SHARED),
        }
    }

    fn pages(len: usize, pages: Pages, node: Option<u32>) -> Result<Region, RegionError> {
        if let Some(node) = node.filter(|node| *node >= 1024) {
            return Err(RegionError::Request(format!(
                "node {node} is beyond the 1024 NUMA nodes that Linux knows"
            )));
        }
        room_in_memory(len as u64)?;
        // Huge pages are reserved by the mapping: without, too few of them end in SIGBUS at the
        // first touch.
        let kind = match pages {
            Pages::Huge2M => MapFlags::HUGETLB | MapFlags::HUGE_2MB,
            Pages::Base | Pages::Transparent => MapFlags::NORESERVE,
        };
        let remedy = match pages {
            Pages::Huge2M => {
                "reserve 2 MiB pages with 'sysctl vm.nr_hugepages=N', or use pages = \"thp\""
            }
            _ => "ask for a smaller size",
        };
        // A huge page boundary to start from, or transparent huge pages never form at the ends.
        let slack = if pages == Pages::Transparent { 2 << 20 } else { 0 };
        let mapping = Mapping::anonymous(len + slack, kind).map_err(|error| {
            RegionError::kernel(format!("mapping {len} bytes of memory"), error, remedy)
        })?;
        if pages == Pages::Transparent {
            mapping.advise(Advice::LinuxHugepage).map_err(|error| {
                let what = "asking for transparent huge pages (madvise MADV_HUGEPAGE)";
                RegionError::kernel(what, error, "this kernel has none: use pages = \"4KiB\"")
            })?;
        }
        if let Some(node) = node {
            mapping.bind(node).map_err(|error| {
                let what = format!("binding memory to NUMA node {node} (mbind)");
                RegionError::kernel(
                    what,
                    error,
                    "'ringfence topology' lists the nodes that have memory",
                )
            })?;
        }
        Self::of_memory(mapping, None, Facts::of_memory(Kind::Anonymous))
    }

    pub(super) fn scratch(
        file: File,
        len: usize,
        path: &Path,
        flags: MapFlags,
    ) -> Result<Region, RegionError> {
        let sync = flags.contains(MapFlags::SYNC);
        let mapping = Mapping::of_file(&file, len, flags).map_err(|error| {
            let path = path.display();
            let remedy = if sync {
                format!(
                    "MAP_SYNC needs a file system mounted with -o dax on persistent memory; \
                     through the page cache, use file:{path}"
                )
            } else {
                "check the length and alignment of the device or file".into()
            };
            RegionError::kernel(format!("mapping {len} bytes of {path}"), error, &remedy)
        })?;
        let facts = facts_of(&file, path);
        let map_sync =
            if sync { MapSync::Accepted } else { MapSync::NotTried("nobody asked for it".into()) };
        Self::of_file(mapping, len, file, path, &facts, &map_sync)
    }
}

// An unlinked file of `len` allocated bytes: in `path` where that is a directory, else under that
// name, which must be new. An existing file is never overwritten.
fn scratch_file(path: &Path, len: usize) -> Result<File, RegionError> {
    let refuse = |reason: String| RegionError::Path { path: path.into(), reason };
    let file = match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => {
            unnamed(path).map_err(|error| refuse(format!("no file can be made there: {error}")))?
        }
        Ok(_) => {
            return Err(refuse(
                "exists already: name a directory, or a file that does not exist yet".into(),
            ));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_unlinked(path).map_err(|error| {
                refuse(format!("no file can be made there: {error}; name a directory that exists"))
            })?
        }
        Err(error) => return Err(refuse(error.to_string())),
    };
    allocate_new(&file, path, len)?;
    Ok(file)
}

/// A file without a name in the directory `dir`.
pub(super) fn unnamed(dir: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    match options.read(true).write(true).custom_flags(libc::O_TMPFILE).mode(0o600).open(dir) {
        // Some file systems have no O_TMPFILE.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {
            create_unlinked(&dir.join(format!(".ringfence-{}", std::process::id())))
        }
        made => made,
    }
}

fn create_unlinked(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

/// Gives a new, empty file `len` bytes, all of them allocated.
pub(super) fn allocate_new(file: &File, path: &Path, len: usize) -> Result<(), RegionError> {
    room_in_file_system(file, path, len as u64)?;
    let allocated = match descriptor::allocate(file, len, false) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => fill(file, len),
        done => done,
    };
    allocated.map_err(|error| {
        let what = format!("allocating {len} bytes in {}", path.display());
        RegionError::kernel(what, error, "ask for a smaller size, or make room")
    })
}

// Where blocks are allocated by writing alone.
fn fill(file: &File, len: usize) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    let zeros = vec![0u8; 1 << 20];
    for offset in (0..len).step_by(zeros.len()) {
        file.write_all_at(&zeros[..zeros.len().min(len - offset)], offset as u64)?;
    }
    Ok(())
}

fn open_devdax(path: &Path) -> Result<File, RegionError> {
    let refuse = |reason: &str| RegionError::Path { path: path.into(), reason: reason.into() };
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(|error| {
        refuse(&format!("cannot be opened: {error}; 'ndctl list' shows devdax devices"))
    })?;
    let is_device = file.metadata().is_ok_and(|meta| meta.file_type().is_char_device());
    if is_device {
        Ok(file)
    } else {
        Err(refuse("is not a character device: devdax: wants /dev/daxX.Y"))
    }
}
