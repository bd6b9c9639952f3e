//! Files that people or programs hand in: ordinary ones of a sensible length.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// The longest file that is read whole, bytes: of a dataset's own texts none comes near it.
pub const LONGEST: u64 = 64 << 20;

/// The text of an ordinary file of at most `longest` bytes. A device or a pipe might never end, and
/// opening a pipe without a writer would block forever.
///
/// # Errors
/// The kernel's; [`io::ErrorKind::InvalidInput`] for what is not an ordinary file, and
/// [`io::ErrorKind::FileTooLarge`] for what is longer.
pub fn read(path: &Path, longest: u64) -> io::Result<String> {
    let file =
        OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(Errno::ISDIR.into());
    }
    if !kind.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is not an ordinary file"));
    }
    let mut bytes = Vec::new();
    file.take(longest + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > longest {
        let most = ringfence_machine::units::Bytes(longest);
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is longer than {most}"),
        ));
    }
    // As `std::fs::read_to_string` says it.
    String::from_utf8(bytes).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    #[test]
    fn only_ordinary_files_that_end_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "text").unwrap();
        assert_eq!(read(&path, 4).unwrap(), "text");
        assert_eq!(read(&path, 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        std::fs::write(&path, b"\xff").unwrap();
        assert_eq!(read(&path, 4).unwrap_err().kind(), io::ErrorKind::InvalidData);
        for device in ["/dev/zero", "/dev/null", "/dev/tty0"] {
            if Path::new(device).exists() {
                assert!(read(Path::new(device), LONGEST).is_err(), "{device}");
            }
        }
        let pipe = dir.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(read(&pipe, 4).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
