//! Sparse files: reading and copying the parts that are not holes.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// Calls `each` with every part of a file that may hold something, in order. Where the file system
/// knows no holes, that is all of it, and the end is beyond the file's. Moves the descriptor's
/// position.
///
/// # Errors
/// What `each` returns.
pub fn parts(file: &File, mut each: impl FnMut(Range<u64>) -> io::Result<()>) -> io::Result<()> {
    let mut at = 0;
    loop {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            // Nothing behind it.
            Err(Errno::NXIO) => return Ok(()),
            Err(_) => return each(at..u64::MAX),
        };
        let end = match seek(file, SeekFrom::Hole(start)) {
            Ok(end) => end,
            // It has become shorter.
            Err(Errno::NXIO) => return Ok(()),
            Err(_) => return each(start..u64::MAX),
        };
        each(start..end)?;
        at = end;
    }
}

/// Reads a part of a file piece by piece, up to its end or the file's.
///
/// # Errors
/// What the kernel reports, and what `each` returns.
pub fn read(
    file: &File,
    part: Range<u64>,
    buffer: &mut [u8],
    mut each: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut at = part.start;
    while at < part.end {
        let most = usize::try_from(part.end - at).unwrap_or(usize::MAX).min(buffer.len());
        let count = file.read_at(&mut buffer[..most], at)?;
        if count == 0 {
            break;
        }
        each(at, &buffer[..count])?;
        at += count as u64;
    }
    Ok(())
}

/// Copies the first `size` bytes of a file into an empty one. Holes and zeros become holes.
///
/// # Errors
/// What the kernel reports.
pub fn copy(from: &File, to: &File, size: u64) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    to.set_len(size)?;
    parts(from, |part| {
        read(from, part.start..part.end.min(size), &mut buffer, |at, bytes| {
            if bytes.iter().any(|byte| *byte != 0) { to.write_all_at(bytes, at) } else { Ok(()) }
        })
    })
}
