//! What a file is stored on, as far as it decides what makes a store to a mapping of it durable.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxAttributes, StatxFlags, statfs, statx};

use crate::events::Medium;

// File systems in memory, from linux/magic.h: tmpfs, ramfs and hugetlbfs.
const IN_MEMORY: [u64; 3] = [0x0102_1994, 0x8584_58f6, 0x9584_58f6];

/// Of the file that a path names here. Where the program works on a copy in its own mount
/// namespace, that is the file that the copy stands for. `open` is what the program opened; it
/// counts where the path names nothing here, unless it lies in a copy of a folder that is stored on
/// another device.
pub(super) fn of(path: &Path, open: &Path) -> Option<Medium> {
    let file = if path.exists() { path } else { open };
    let about = fs::metadata(file).ok()?;
    if about.file_type().is_char_device() {
        // Such as /dev/dax0.0.
        return Some(Medium::Dax);
    }
    let device = |path: &Path| fs::metadata(path).ok().map(|about| about.dev());
    if file == open && path.ancestors().find_map(device).is_some_and(|folder| folder != about.dev())
    {
        return None;
    }
    if IN_MEMORY.contains(&(statfs(file).ok()?.f_type as u64 & 0xffff_ffff)) {
        return Some(Medium::Memory);
    }
    // Attributes that a file system or an older kernel does not report are absent from the mask.
    let about = statx(CWD, file, AtFlags::empty(), StatxFlags::TYPE).ok()?;
    if !about.stx_attributes_mask.contains(StatxAttributes::DAX) {
        return None;
    }
    match about.stx_attributes.contains(StatxAttributes::DAX) {
        true => Some(Medium::Dax),
        false => Some(Medium::PageCache),
    }
}

/// Of a file that would be made in a folder.
pub fn of_new_file(folder: &Path) -> Option<Medium> {
    // It has no name.
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR).ok()?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    of(Path::new(&path), Path::new(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_memory_differs_from_one_on_a_disk() {
        let shared = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = shared.path().join("file");
        fs::write(&path, "it").unwrap();
        assert_eq!(of(&path, Path::new("/no/such/file")), Some(Medium::Memory));
        // What the path does not name here is what the program opened.
        assert_eq!(of(&shared.path().join("other"), &path), Some(Medium::Memory));
        assert_eq!(of(Path::new("/no/such/file"), Path::new("/no/such/file")), None);
    }
}
