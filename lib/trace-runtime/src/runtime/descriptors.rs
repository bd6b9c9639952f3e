//! Files that are written by way of descriptors, whichever of theirs it is, and the standard output
//! that is recorded.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use super::blocks::{block, shared};
use super::frame::Frame;
use super::lock::Held;
use super::questions::give_up;
use super::ring::{push, push_data};
use super::{callers, filter, sys};
use crate::layout::{Head, kind, stop};

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
    let status = sys::status(number, what)?;
    Some(([status[0], status[1]], status[6]))
}

/// Device and inode of what a descriptor is of.
pub fn identity(descriptor: u64) -> Option<[u64; 2]> {
    about(sys::FSTAT, descriptor).map(|(identity, _)| identity)
}

/// What is recorded of what is written to a descriptor.
#[derive(Clone, Copy)]
pub enum Target {
    /// A file, by its number.
    File(u8),
    /// The standard output.
    Output,
}

/// Whether what the program writes to its standard output is recorded.
pub fn records_output() -> bool {
    shared().output != [0; 2]
}

/// What a descriptor is of, if that is recorded.
pub fn target(descriptor: u64) -> Option<Target> {
    if shared().files.load(Acquire) == 0 && !records_output() {
        return None;
    }
    let identity = identity(descriptor)?;
    if records_output() && identity == shared().output {
        return Some(Target::Output);
    }
    file_of(identity).map(Target::File)
}

/// The recorded file at a path.
pub fn file_at(path: u64) -> Option<u8> {
    if shared().files.load(Acquire) == 0 {
        return None;
    }
    file_of(about(sys::STAT, path)?.0)
}

/// From now on, what writes to such a descriptor comes to us.
fn watch(descriptor: u64) {
    if let Some(word) = FILTERED.get(descriptor as usize / 64) {
        let bit = 1 << (descriptor % 64);
        // A child that borrows this memory has filters of its own, which its parent lacks.
        let borrows = block().borrows.get() != 0;
        let noted = if borrows { word.load(Relaxed) } else { word.fetch_or(bit, Relaxed) };
        if noted & bit != 0 {
            return;
        }
    }
    if sys::is_error(filter::install_for_descriptor(descriptor)) {
        give_up(stop::SETUP, 7, descriptor);
    }
}

/// Something is recorded by this process: all of its descriptors are looked for.
pub fn begin() {
    for descriptor in 0..NOTED {
        if target(descriptor).is_some() {
            watch(descriptor);
        }
    }
}

/// A descriptor was opened, or is another's double; `emptied` says whether its file was.
pub fn opened(descriptor: u64, emptied: bool) {
    if sys::is_error(descriptor) {
        return;
    }
    let Some(target) = target(descriptor) else { return };
    watch(descriptor);
    if let (Target::File(file), true) = (target, emptied) {
        resized(file, 0);
    }
}

/// A file has a new size.
pub fn resized(file: u8, size: u64) {
    let held = Held::acquire();
    push(&held, block(), &Head { file, size, ..Head::of(kind::TRUNCATE, 0) });
}

/// A call has written to a descriptor of a recorded file. `a` are its arguments as we have made it,
/// `out` what stands where a pointer to an offset leads.
///
/// # Safety
/// What `write` and `pwrite` were given can still be read.
pub unsafe fn wrote(
    number: u64,
    a: [u64; 6],
    file: u8,
    out: Option<u64>,
    result: u64,
    frame: &Frame,
) {
    const APPENDS: u64 = 0o2000;
    const RWF_APPEND: u64 = 0x10;
    let descriptor = filter::written(number, a).unwrap_or(u64::MAX);
    let size = || about(sys::FSTAT, descriptor).map_or(0, |(_, size)| size);
    let position = || sys::position(descriptor);
    let appends = sys::flags(descriptor) & APPENDS != 0;
    let end = match number {
        sys::FTRUNCATE => return resized(file, a[1]),
        sys::FALLOCATE => return allocated(descriptor, a, file, size()),
        // Linux appends wherever such a call points (pwrite(2), "BUGS").
        sys::PWRITE | sys::PWRITEV | sys::PWRITEV2 if appends => size(),
        sys::PWRITEV2 if a[5] & RWF_APPEND != 0 => size(),
        sys::PWRITEV2 if a[3] == u64::MAX => position(),
        sys::PWRITE | sys::PWRITEV | sys::PWRITEV2 => a[3].wrapping_add(result),
        sys::SPLICE | sys::COPY_FILE_RANGE => out.unwrap_or_else(position),
        _ => position(),
    };
    let offset = end.wrapping_sub(result);
    let mut held = Held::acquire();
    let site = callers::of_call(&mut held, block(), &frame.registers);
    let head = Head { file, offset, size: result, ..Head::of(kind::WRITE, site) };
    if matches!(number, sys::WRITE | sys::PWRITE) {
        // SAFETY: the kernel has just read as many bytes there; the caller answers for the rest.
        unsafe { push_data(&held, block(), &head, a[1] as *const u8) };
    } else {
        read_back(&held, descriptor, head);
    }
    if is_durable_at_once(number, a, descriptor) {
        push(&held, block(), &Head { file, offset, size: result, ..Head::of(kind::MSYNC, site) });
    }
}

// Whether a write ends once it is on the medium (open(2), pwritev2(2)). `O_SYNC` has the bit of
// `O_DSYNC`, too.
fn is_durable_at_once(number: u64, a: [u64; 6], descriptor: u64) -> bool {
    const O_DSYNC: u64 = 0o10000;
    const RWF_DSYNC: u64 = 2;
    const RWF_SYNC: u64 = 4;
    sys::flags(descriptor) & O_DSYNC != 0
        || number == sys::PWRITEV2 && a[5] & (RWF_DSYNC | RWF_SYNC) != 0
}

// `fallocate`: a file has a new size, and perhaps zeros.
fn allocated(descriptor: u64, [_, mode, start, length, ..]: [u64; 6], file: u8, size: u64) {
    const KEEP_SIZE: u64 = 1;
    const PUNCH_HOLE: u64 = 2;
    const ZERO_RANGE: u64 = 0x10;
    // What else there is moves the rest of the file to and fro.
    if mode & !(KEEP_SIZE | PUNCH_HOLE | ZERO_RANGE) != 0 {
        give_up(stop::CALL, sys::FALLOCATE, mode);
    }
    resized(file, size);
    if mode & (PUNCH_HOLE | ZERO_RANGE) != 0 && start < size {
        let length = length.min(size - start);
        let head = Head { file, offset: start, size: length, ..Head::of(kind::WRITE, 0) };
        read_back(&Held::acquire(), descriptor, head);
    }
}

// What a file holds now, where the program's own buffers are many or none.
fn read_back(held: &Held, descriptor: u64, mut head: Head) {
    const PIECE: usize = 1 << 14;
    const CLOSE_ON_EXEC: u64 = 0o2000000;
    let again = sys::open(&sys::path(b"/proc/self/fd/", descriptor, b""), CLOSE_ON_EXEC);
    if sys::is_error(again) {
        give_up(stop::CALL, sys::OPEN, descriptor);
    }
    let mut piece = [0u8; PIECE];
    let mut left = head.size;
    while left > 0 {
        let wanted = left.min(PIECE as u64) as usize;
        let read = sys::read_at(again, &mut piece[..wanted], head.offset);
        if sys::is_error(read) || read == 0 {
            break;
        }
        head.size = read;
        // SAFETY: the kernel has just put as many bytes there.
        unsafe { push_data(held, block(), &head, piece.as_ptr()) };
        head.offset += read;
        left -= read;
    }
    sys::close(again);
}
