//! Regions that are kept: files and devices that are created, opened and opened again.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use ringfence_system::whole;
use rustix::mm::MapFlags;

use super::devdax::Shape;
use super::medium::{Facts, Kind, MapSync};
use super::room::{room_in_file_system, room_in_memory};
use super::scratch::allocate_new;
use super::{Durability, Region, RegionError, descriptor, facts_of};
use crate::kernel::Mapping;

impl Region {
    /// Makes a file of `len` bytes and maps it whole, or maps the first `len` bytes of a device-DAX
    /// device.
    ///
    /// The file is new, with mode 0600 (less the umask), its blocks are allocated, and it reads as
    /// zeros. On return it and its entry in the directory are durable (fsync of both), and every
    /// page is present; its length stays `len` for good. Where the file system is mounted with DAX
    /// it is mapped with `MAP_SYNC`, else through the page cache, if `least` allows that. A device
    /// keeps what it holds: only the caller overwrites it.
    ///
    /// `len` is any number of bytes for a file, a multiple of the device's alignment for a device
    /// (2 MiB as a rule). [`Region::base`] is aligned to 4096 bytes at least.
    ///
    /// # Errors
    /// [`RegionError`]: no bytes at all; a path that exists (a link that leads nowhere included) or
    /// cannot be made; too little room in the file system or in memory; a length that the device
    /// does not align to or does not have; something less durable than `least`. A file that was
    /// begun is removed again; only a process that is killed meanwhile leaves it.
    #[doc(alias("pmem_map_file", "pmem2_map_new"))]
    pub fn create(
        path: impl AsRef<Path>,
        len: usize,
        least: Durability,
    ) -> Result<Region, RegionError> {
        let path = path.as_ref();
        check_len(len)?;
        if std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_char_device()) {
            let (file, shape) = open_devdax(path)?;
            shape.check(path, len as u64)?;
            return Self::of_device(file, path, len, least);
        }
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|error| not_created(path, error))?;
        let mut unfinished = Unfinished { path, keep: false };
        allocate_new(&file, path, len)?;
        let region = Self::of_named(file, path, len, least)?;
        let synced = region
            .file()
            .map_or(Ok(()), File::sync_all)
            .and_then(|()| whole::sync_folder(whole::folder_of(path)));
        synced.map_err(|error| {
            RegionError::kernel(
                format!("making {} durable (fsync)", path.display()),
                error,
                "check the disk",
            )
        })?;
        unfinished.keep = true;
        Ok(region)
    }

    /// Maps an existing file whole, at the length that it has, or a device-DAX device.
    ///
    /// Holes in the file are given blocks, so that no store meets a full disk; contents and length
    /// stay. Every page is present on return. If the file is shrunk while it is mapped, the next
    /// touch of the lost pages ends in SIGBUS: see [`Region::intact`].
    ///
    /// # Errors
    /// [`RegionError`]: a path that is not there, a folder, a link loop, a file that is empty or
    /// may not be read and written, a read-only file system, no room for its holes, something that
    /// is neither a file nor a device-DAX device, something less durable than `least`. A caller
    /// that needs a certain length compares [`Region::len`].
    #[doc(alias("pmem_map_file", "pmem2_map_new"))]
    pub fn open(path: impl AsRef<Path>, least: Durability) -> Result<Region, RegionError> {
        let path = path.as_ref();
        let meta = std::fs::metadata(path).map_err(|error| not_opened(path, error))?;
        if meta.file_type().is_char_device() {
            let (file, shape) = open_devdax(path)?;
            let len = shape.whole(path)?;
            return Self::of_device(file, path, len, least);
        }
        refuse_kind(path, &meta)?;
        // It may have become something else meanwhile: never wait for a pipe's other end.
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path);
        let file = file.map_err(|error| not_opened(path, error))?;
        let meta = file.metadata().map_err(|error| not_opened(path, error))?;
        refuse_kind(path, &meta)?;
        let refuse = |reason: &str| RegionError::Path { path: path.into(), reason: reason.into() };
        if meta.len() == 0 {
            return Err(refuse(
                "is empty: there is nothing to map; remove it and create it with a length",
            ));
        }
        let len = usize::try_from(meta.len()).map_err(|_| refuse("is too long to be mapped"))?;
        check_len(len)?;
        fill_holes(&file, path, &meta)?;
        Self::of_named(file, path, len, least)
    }

    /// A file of `len` bytes in memory, without a name, whose length is sealed: no process can
    /// shrink it. It is shared with children, and with any process that opens `/proc/PID/fd/N`. It
    /// reads as zeros, and every page is present.
    ///
    /// # Errors
    /// [`RegionError`]: no bytes at all, too little memory, or a `least` other than
    /// [`Durability::Volatile`].
    pub fn memfd(len: usize, least: Durability) -> Result<Region, RegionError> {
        check_len(len)?;
        room_in_memory(len as u64)?;
        let failed = |what: &str, error| {
            RegionError::kernel(
                format!("{what} a memfd of {len} bytes"),
                error,
                "ask for a smaller size",
            )
        };
        let file = descriptor::memfd().map_err(|error| failed("making", error))?;
        descriptor::allocate(&file, len, false).map_err(|error| failed("allocating", error))?;
        descriptor::seal_length(&file).map_err(|error| failed("sealing", error))?;
        let mapping = Mapping::of_file(&file, len, MapFlags::SHARED)
            .map_err(|error| failed("mapping", error))?;
        Self::of_memory(mapping, Some(file), Facts::of_memory(Kind::Memfd))?.at_least(least)
    }

    /// `len` bytes of this process's own memory. They read as zeros, and every page is present; a
    /// child gets a copy.
    ///
    /// # Errors
    /// [`RegionError`]: no bytes at all, too little memory, or a `least` other than
    /// [`Durability::Volatile`].
    pub fn anonymous(len: usize, least: Durability) -> Result<Region, RegionError> {
        check_len(len)?;
        room_in_memory(len as u64)?;
        let mapping = Mapping::anonymous(len, MapFlags::NORESERVE).map_err(|error| {
            RegionError::kernel(
                format!("mapping {len} bytes of memory"),
                error,
                "ask for a smaller size",
            )
        })?;
        Self::of_memory(mapping, None, Facts::of_memory(Kind::Anonymous))?.at_least(least)
    }

    // With MAP_SYNC where the kernel takes it, through the page cache where not.
    fn of_named(
        file: File,
        path: &Path,
        len: usize,
        least: Durability,
    ) -> Result<Region, RegionError> {
        let facts = facts_of(&file, path);
        let (mapping, map_sync) =
            match Mapping::of_file(&file, len, MapFlags::SHARED_VALIDATE | MapFlags::SYNC) {
                Ok(mapping) => (mapping, MapSync::Accepted),
                Err(refused) => {
                    let mapping =
                        Mapping::of_file(&file, len, MapFlags::SHARED).map_err(|error| {
                            let what = format!("mapping {len} bytes of {}", path.display());
                            RegionError::kernel(
                                what,
                                error,
                                "use a file system whose files can be mapped to share",
                            )
                        })?;
                    (mapping, MapSync::Refused(refused.raw_os_error().unwrap_or(0)))
                }
            };
        // Refused before it is touched.
        super::at_least(super::judge(path.display().to_string(), &facts, &map_sync), least)?;
        Self::of_file(mapping, len, file, path, &facts, &map_sync)
    }

    fn of_device(
        file: File,
        path: &Path,
        len: usize,
        least: Durability,
    ) -> Result<Region, RegionError> {
        let facts = facts_of(&file, path);
        let map_sync = MapSync::NotTried("a device has no need of it".into());
        super::at_least(super::judge(path.display().to_string(), &facts, &map_sync), least)?;
        let mapping = Mapping::of_file(&file, len, MapFlags::SHARED).map_err(|error| {
            let what = format!("mapping {len} bytes of {}", path.display());
            RegionError::kernel(what, error, "'daxctl list' shows whether it is in devdax mode")
        })?;
        Self::of_file(mapping, len, file, path, &facts, &map_sync)
    }
}

/// Removes a file that was not finished.
struct Unfinished<'a> {
    path: &'a Path,
    keep: bool,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.keep {
            let _ = std::fs::remove_file(self.path);
        }
    }
}

fn check_len(len: usize) -> Result<(), RegionError> {
    if len == 0 {
        return Err(RegionError::Request("a region of zero bytes cannot be mapped".into()));
    }
    // Pointers into a region must be able to differ by its length.
    if len > isize::MAX as usize - 4096 {
        return Err(RegionError::Request(format!("{len} bytes cannot be mapped: ask for less")));
    }
    Ok(())
}

fn refuse_kind(path: &Path, meta: &std::fs::Metadata) -> Result<(), RegionError> {
    super::probe::kind_refused(meta)
        .map_or(Ok(()), |reason| Err(RegionError::Path { path: path.into(), reason }))
}

fn open_devdax(path: &Path) -> Result<(File, Shape), RegionError> {
    let meta = std::fs::metadata(path).map_err(|error| not_opened(path, error))?;
    // Asked before it is opened: opening some devices does things.
    let shape = Shape::read(Path::new("/"), path, meta.rdev())?;
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.map_err(|error| not_opened(path, error))?;
    Ok((file, shape))
}

fn fill_holes(file: &File, path: &Path, meta: &std::fs::Metadata) -> Result<(), RegionError> {
    let holes = meta.len().saturating_sub(meta.blocks().saturating_mul(512));
    if holes == 0 {
        return Ok(());
    }
    room_in_file_system(file, path, holes)?;
    match descriptor::allocate(file, meta.len() as usize, true) {
        // Populating the mapping then reports what cannot be had.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
        Err(error) => {
            let what = format!("allocating the holes of {}", path.display());
            Err(RegionError::kernel(what, error, "make room"))
        }
        Ok(()) => Ok(()),
    }
}

fn not_created(path: &Path, error: io::Error) -> RegionError {
    let remedy = match error.raw_os_error() {
        Some(libc::EEXIST) => "open it, or name a new file: an existing file is never overwritten",
        Some(libc::ENOENT | libc::ENOTDIR) => "name a directory that exists",
        Some(libc::EISDIR) => "name a file in it",
        _ => remedy(&error),
    };
    RegionError::kernel(format!("creating {}", path.display()), error, remedy)
}

fn not_opened(path: &Path, error: io::Error) -> RegionError {
    let remedy = remedy(&error);
    RegionError::kernel(format!("opening {}", path.display()), error, remedy)
}

fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) => "create it first, or name one that exists",
        Some(libc::EACCES | libc::EPERM) => "this user must be allowed to read and write it",
        Some(libc::EROFS) => {
            "the file system is mounted read-only: mount it read-write, or use another"
        }
        Some(libc::ELOOP) => "its links lead round in a circle: name the file itself",
        Some(libc::ETXTBSY) => "it is a program that runs: name another file",
        Some(libc::ENXIO | libc::ENODEV) => {
            "no driver stands behind the device: 'daxctl list' shows its mode"
        }
        Some(libc::ENOSPC | libc::EDQUOT) => "make room",
        _ => "check the path and the disk",
    }
}
