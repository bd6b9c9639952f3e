//! The program's memory in system calls: read, written to, and recorded where it is a file's.

use core::mem::MaybeUninit;

use super::actions::interruptible;
use super::addresses::alias;
use super::blocks::block;
use super::frame::Frame;
use super::lock::Held;
use super::ring::push_data;
use super::routines::safe_copy;
use super::sys::{self, Action};
use crate::layout::{Head, kind};

/// Values that any bytes are.
///
/// # Safety
/// They consist of numbers, without room between them.
pub unsafe trait Numbers: Copy {}
// SAFETY: a number.
unsafe impl Numbers for u8 {}
// SAFETY: a number.
unsafe impl Numbers for u64 {}
// SAFETY: numbers side by side.
unsafe impl<const N: usize> Numbers for [u64; N] {}
// SAFETY: four numbers of 8 bytes each.
unsafe impl Numbers for Action {}

/// Where the program's memory can be accessed: a file's, at its alias.
pub fn place(at: u64) -> u64 {
    let is_recorded = Held::acquire().region(at).is_some();
    if is_recorded { alias(at) } else { at }
}

/// What the program has given the address of. There may be nothing.
pub fn read<T: Numbers>(at: u64) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: there is room for as much as is copied.
    let is_there =
        unsafe { safe_copy(value.as_mut_ptr().cast(), place(at) as *const u8, size_of::<T>()) };
    // SAFETY: all of it was copied, and any bytes are such a value.
    is_there.then(|| unsafe { value.assume_init() })
}

/// The result of a call that puts something where the program wants it, if it wants it at all.
pub fn put<T: Numbers>(at: u64, value: T) -> u64 {
    if at == 0 {
        return 0;
    }
    let size = size_of::<T>();
    // SAFETY: the program gave this address to be written to by its call. Where it cannot be
    // written to, that is all that happens.
    let is_done = unsafe { safe_copy(place(at) as *mut u8, (&raw const value).cast(), size) };
    if !is_done {
        return sys::error(sys::EFAULT);
    }
    stored(at, size as u64);
    0
}

/// Records what the kernel has stored in a mapping.
pub fn stored(start: u64, length: u64) {
    let held = Held::acquire();
    let (mut at, end) = (start, start.saturating_add(length));
    while at < end {
        let Some(region) = held.region(at) else { break };
        let size = region.end.min(end) - at;
        let offset = region.offset + (at - region.start);
        let head = Head { file: region.file, size, offset, ..Head::of(kind::WRITE, 0) };
        // SAFETY: the part lies in one mapping, whose alias is mapped, and has just been stored.
        unsafe { push_data(&held, block(), &head, alias(at) as *const u8) };
        at += size;
    }
}

// Where a call puts what it returns: which argument points there. The result says how much.
const fn output(number: u64) -> Option<usize> {
    match number {
        sys::READ | sys::PREAD | sys::RECVFROM | sys::READLINK | sys::GETDENTS64 => Some(1),
        sys::GETCWD | sys::GETRANDOM => Some(0),
        sys::READLINKAT => Some(2),
        _ => None,
    }
}

/// A call with arguments that may point into a file.
///
/// # Safety
/// The program has made it, with these arguments.
pub unsafe fn pointing(number: u64, program: [u64; 6], frame: &Frame) -> u64 {
    let a = program.map(place);
    if let Some(at) = output(number) {
        // SAFETY: the program's own call, which the caller answers for, at the aliases.
        let result = unsafe { interruptible(number, a, frame) };
        if !sys::is_error(result) {
            stored(program[at], result);
        }
        return result;
    }
    // What the call stores is not known: what has changed behind its pointers.
    const MOST: usize = 4096;
    let mut before = [[0u8; MOST]; 6];
    let mut lengths = [0usize; 6];
    let held = Held::acquire();
    for at in 0..6 {
        if let Some(region) = held.region(program[at]) {
            let length = ((region.end - program[at]) as usize).min(MOST);
            // SAFETY: there is room for as much, and what is beyond the file's end is not read.
            let is_there =
                unsafe { safe_copy(before[at].as_mut_ptr(), a[at] as *const u8, length) };
            lengths[at] = if is_there { length } else { 0 };
        }
    }
    drop(held);
    // SAFETY: as above.
    let result = unsafe { interruptible(number, a, frame) };
    for at in 0..6 {
        changed(program[at], &before[at][..lengths[at]]);
    }
    result
}

// Records where a mapping's bytes are others than before.
fn changed(start: u64, before: &[u8]) {
    let mut byte = 0;
    while byte < before.len() {
        let from = byte;
        while byte < before.len() && read::<u8>(start + byte as u64) != Some(before[byte]) {
            byte += 1;
        }
        if from < byte {
            stored(start + from as u64, (byte - from) as u64);
        }
        byte += 1;
    }
}
