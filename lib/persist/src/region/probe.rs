//! Explains a path without changing it.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::mm::MapFlags;

use super::devdax::Shape;
use super::medium::{Facts, MapSync};
use super::scratch::unnamed;
use super::{Explanation, RegionError, descriptor, facts_of, judge};
use crate::kernel::Mapping;

impl Explanation {
    /// What a region at `path` would be: of an existing file, which is opened to read and mapped
    /// untouched; of a device-DAX device, which is not opened; or of a file in a directory, for
    /// which one without a name is made for a moment.
    ///
    /// # Errors
    /// [`RegionError`]: a path that is not there or may not be read, or is none of these.
    pub fn of(path: impl AsRef<Path>) -> Result<Explanation, RegionError> {
        let path = path.as_ref();
        let subject = path.display().to_string();
        let failed = |error: io::Error| {
            let remedy = "name a file, a directory or a /dev/daxX.Y that is there and may be read";
            RegionError::kernel(format!("looking at {}", path.display()), error, remedy)
        };
        let meta = std::fs::metadata(path).map_err(failed)?;
        let unwritable = descriptor::unwritable(path).map(|error| error.to_string());
        if meta.file_type().is_char_device() {
            Shape::read(Path::new("/"), path, meta.rdev())?;
            let rdev = meta.rdev();
            let facts = Facts::of_devdax(Path::new("/"), libc::major(rdev), libc::minor(rdev));
            let map_sync = MapSync::NotTried("a device has no need of it".into());
            return Ok(judge(subject, &Facts { unwritable, ..facts }, &map_sync));
        }
        if meta.is_dir() {
            let opened = File::open(path).map_err(failed)?;
            let (map_sync, failed) = match unnamed(path) {
                Ok(file) => (ask(&file), None),
                Err(error) => (
                    MapSync::NoFile(format!("no file can be made there ({error})")),
                    Some(error.to_string()),
                ),
            };
            let facts = facts_of(&opened, path);
            return Ok(judge(
                subject,
                &Facts { unwritable: unwritable.or(failed), ..facts },
                &map_sync,
            ));
        }
        if let Some(reason) = kind_refused(&meta) {
            return Err(RegionError::Path { path: path.into(), reason });
        }
        let file = read_only(path).map_err(failed)?;
        let facts = facts_of(&file, path);
        Ok(judge(subject, &Facts { unwritable, ..facts }, &ask(&file)))
    }
}

// One page, which need not be there as long as nothing touches it.
fn ask(file: &File) -> MapSync {
    match Mapping::readable(file, 4096, MapFlags::SHARED_VALIDATE | MapFlags::SYNC) {
        Ok(_) => MapSync::Accepted,
        Err(error) => MapSync::Refused(error.raw_os_error().unwrap_or(0)),
    }
}

// Mapping a file counts as reading it: its owner can have the time of that left as it is.
fn read_only(path: &Path) -> io::Result<File> {
    let open = |flags| {
        OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | flags)
            .open(path)
    };
    match open(libc::O_NOATIME) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => open(0),
        opened => opened,
    }
}

/// Why something is neither a file nor a device-DAX device.
pub(super) fn kind_refused(meta: &Metadata) -> Option<String> {
    let kind = meta.file_type();
    let what = if kind.is_file() {
        return None;
    } else if kind.is_dir() {
        "is a directory: name a file in it"
    } else if kind.is_block_device() {
        "is a block device: name a file on its file system, or make it a devdax device with ndctl"
    } else if kind.is_fifo() {
        "is a pipe: name a file"
    } else if kind.is_socket() {
        "is a socket: name a file"
    } else {
        "is a character device: name a file, or a /dev/daxX.Y"
    };
    Some(what.into())
}
