//! What the program writes to its standard output, where that is recorded.

use core::ptr;

use super::addresses::alias;
use super::blocks::block;
use super::lock::Held;
use super::questions::ask;
use super::ring::push_filled;
use super::routines::safe_copy;
use super::sys;
use crate::layout::{Head, MOST_DATA, ask, kind};

/// Records what a call has written there. `a` are its arguments as the program has made it.
pub fn wrote(number: u64, a: [u64; 6], result: u64) {
    let mut bytes = match number {
        sys::WRITE | sys::PWRITE => Bytes { start: a[1], length: result, list: 0 },
        _ => Bytes { start: 0, length: 0, list: a[1] },
    };
    let held = Held::acquire();
    let mut left = result;
    while left > 0 {
        let head = Head { size: left.min(MOST_DATA), ..Head::of(kind::OUTPUT, 0) };
        // SAFETY: as many bytes are written there as there is room for.
        unsafe { push_filled(&held, block(), &head, |to, size| bytes.copy(&held, to, size)) };
        left -= head.size;
    }
}

/// Refuses `sendfile` and `splice`, whose bytes the program does not have. Linux has terminals that
/// do so, too, and programs then use `write` (sendfile(2)).
pub fn refuse(number: u64) -> u64 {
    ask(ask::REFUSED, [number, 1, 0, 0, 0, 0]);
    sys::error(sys::EINVAL)
}

// What is yet to be copied: the rest of a buffer, and the list from the next one on.
struct Bytes {
    start: u64,
    length: u64,
    list: u64,
}

impl Bytes {
    // Copies that many. What cannot be read any more is zeros.
    fn copy(&mut self, held: &Held, to: *mut u8, size: usize) {
        let mut done = 0;
        while done < size {
            if self.length == 0 {
                let mut buffer = [0u64; 2];
                if !copy(held, (&raw mut buffer).cast(), self.list, size_of_val(&buffer)) {
                    break;
                }
                [self.start, self.length] = buffer;
                self.list += 16;
                continue;
            }
            let count = self.length.min((size - done) as u64);
            if !copy(held, to.wrapping_add(done), self.start, count as usize) {
                break;
            }
            (self.start, self.length) = (self.start + count, self.length - count);
            done += count as usize;
        }
        // SAFETY: there is room for `size` bytes.
        unsafe { ptr::write_bytes(to.wrapping_add(done), 0, size - done) };
    }
}

// Copies from where the program can read: there may be nothing.
fn copy(held: &Held, to: *mut u8, from: u64, count: usize) -> bool {
    let from = if held.region(from).is_some() { alias(from) } else { from };
    // SAFETY: the callers have room for as much.
    unsafe { safe_copy(to, from as *const u8, count) }
}
