//! Files that are written by way of descriptors, whichever of theirs it is.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::layout::{Head, kind, stop};
use crate::runtime::questions::give_up;
use crate::runtime::ring::{block, lock, push, shared, unlock};
use crate::runtime::{filter, sys};

// Descriptors that a filter is there for, a bit each.
const NOTED: u64 = 1024;
static FILTERED: [AtomicU64; NOTED as usize / 64] =
    [const { AtomicU64::new(0) }; NOTED as usize / 64];

/// The recorded file of a device and an inode.
fn file_of([device, inode]: [u64; 2]) -> Option<u8> {
    let count = shared().files.load(Acquire) as usize;
    let all = shared().identities.get(..count)?;
    let at = all
        .iter()
        .position(|[one, other]| one.load(Relaxed) == device && other.load(Relaxed) == inode)?;
    u8::try_from(at).ok()
}

// What `stat` and `fstat` tell: device and inode, and the size.
fn about(number: u64, what: u64) -> Option<([u64; 2], u64)> {
    // `struct stat`: the device, the inode, and, seventh, the size.
    let mut about = [0u64; 18];
    let result = sys::call2(number, what, about.as_mut_ptr() as u64);
    (!sys::is_error(result)).then_some(([about[0], about[1]], about[6]))
}

/// Device and inode of what a descriptor is of.
pub fn identity(descriptor: u64) -> Option<[u64; 2]> {
    about(sys::FSTAT, descriptor).map(|(identity, _)| identity)
}

/// The recorded file that a descriptor is of.
pub fn file(descriptor: u64) -> Option<u8> {
    if shared().files.load(Acquire) == 0 {
        return None;
    }
    file_of(about(sys::FSTAT, descriptor)?.0)
}

/// The recorded file at a path.
pub fn file_at(path: u64) -> Option<u8> {
    if shared().files.load(Acquire) == 0 {
        return None;
    }
    file_of(about(sys::STAT, path)?.0)
}

/// From now on, what writes to a descriptor of a recorded file comes to us.
fn watch(descriptor: u64) {
    if let Some(word) = FILTERED.get(descriptor as usize / 64) {
        let bit = 1 << (descriptor % 64);
        if word.fetch_or(bit, Relaxed) & bit != 0 {
            return;
        }
    }
    if sys::is_error(filter::install_for_descriptor(descriptor)) {
        give_up(stop::SETUP, 7, descriptor);
    }
}

/// A file is recorded by this process: all of its descriptors are looked for.
pub fn begin() {
    for descriptor in 0..NOTED {
        if file(descriptor).is_some() {
            watch(descriptor);
        }
    }
}

/// A descriptor was opened, or is another's double; `emptied` says whether its file was.
pub fn opened(descriptor: u64, emptied: bool) {
    if sys::is_error(descriptor) {
        return;
    }
    let Some(file) = file(descriptor) else { return };
    watch(descriptor);
    if emptied {
        resized(file, 0);
    }
}

/// A file has a new size.
pub fn resized(file: u8, size: u64) {
    lock(block());
    push(block(), &Head { file, size, ..Head::of(kind::TRUNCATE, 0) }, core::ptr::null());
    unlock();
}

/// A call has written to a descriptor of a recorded file. `a` are its arguments as we have made it, `out` what stands
/// where a pointer to an offset leads.
pub fn wrote(number: u64, a: [u64; 6], file: u8, out: Option<u64>, result: u64) {
    const F_GETFL: u64 = 3;
    const APPENDS: u64 = 0o2000;
    const RWF_APPEND: u64 = 0x10;
    let descriptor = filter::written(number, a).unwrap_or(u64::MAX);
    let size = || about(sys::FSTAT, descriptor).map_or(0, |(_, size)| size);
    let position = || sys::call3(sys::LSEEK, descriptor, 0, 1);
    let appends = sys::call2(sys::FCNTL, descriptor, F_GETFL) & APPENDS != 0;
    let end = match number {
        sys::FTRUNCATE => return resized(file, a[1]),
        sys::FALLOCATE => {
            const KEEP_SIZE: u64 = 1;
            const PUNCH_HOLE: u64 = 2;
            const ZERO_RANGE: u64 = 0x10;
            // What else there is moves the rest of the file to and fro.
            if a[1] & !(KEEP_SIZE | PUNCH_HOLE | ZERO_RANGE) != 0 {
                give_up(stop::CALL, number, a[1]);
            }
            let size = size();
            resized(file, size);
            if a[1] & (PUNCH_HOLE | ZERO_RANGE) != 0 && a[2] < size {
                let length = a[3].min(size - a[2]);
                lock(block());
                read_back(
                    descriptor,
                    Head { file, offset: a[2], size: length, ..Head::of(kind::WRITE, 0) },
                );
                unlock();
            }
            return;
        }
        // Linux appends wherever such a call points (pwrite(2), "BUGS").
        sys::PWRITE | sys::PWRITEV | sys::PWRITEV2 if appends => size(),
        sys::PWRITEV2 if a[5] & RWF_APPEND != 0 => size(),
        sys::PWRITEV2 if a[3] == u64::MAX => position(),
        sys::PWRITE | sys::PWRITEV | sys::PWRITEV2 => a[3].wrapping_add(result),
        sys::SPLICE | sys::COPY_FILE_RANGE => out.unwrap_or_else(position),
        _ => position(),
    };
    let head =
        Head { file, offset: end.wrapping_sub(result), size: result, ..Head::of(kind::WRITE, 0) };
    lock(block());
    if matches!(number, sys::WRITE | sys::PWRITE) {
        push(block(), &head, a[1] as *const u8);
    } else {
        read_back(descriptor, head);
    }
    unlock();
}

// What a file holds now, where the program's own buffers are many or none. The caller holds the lock.
fn read_back(descriptor: u64, mut head: Head) {
    const PIECE: usize = 1 << 14;
    const READ_ONLY: u64 = 0o2000000;
    let path = sys::path(b"/proc/self/fd/", descriptor, b"");
    let again = sys::call3(sys::OPEN, path.as_ptr() as u64, READ_ONLY, 0);
    if sys::is_error(again) {
        give_up(stop::CALL, sys::OPEN, descriptor);
    }
    let mut piece = [0u8; PIECE];
    let mut left = head.size;
    while left > 0 {
        let size = left.min(PIECE as u64);
        let read =
            sys::call(sys::PREAD, [again, piece.as_mut_ptr() as u64, size, head.offset, 0, 0]);
        if sys::is_error(read) || read == 0 {
            break;
        }
        head.size = read;
        push(block(), &head, piece.as_ptr());
        head.offset += read;
        left -= read;
    }
    sys::call2(sys::CLOSE, again, 0);
}
