//! How deep a run may recurse: a stack that overflows takes the whole process with it, and no story is told.

use std::cell::Cell;

/// Left for the checker itself and for unwinding; of a stack with less than four times as much, a quarter.
const LEFT: usize = 256 << 10;

/// Bytes of stack that a run may use: `most`, or all that is left of this thread's but a rest.
pub(crate) fn left(most: usize) -> usize {
    let all = here().saturating_sub(lowest());
    most.min(all - LEFT.min(all / 4))
}

/// About where the stack ends now.
#[inline]
pub(crate) fn here() -> usize {
    let local = 0u8;
    std::hint::black_box(&raw const local) as usize
}

// Where this thread's stack begins; 0 if that is not known.
fn lowest() -> usize {
    thread_local! {
        static LOWEST: Cell<Option<usize>> = const { Cell::new(None) };
    }
    LOWEST.get().unwrap_or_else(|| {
        let lowest = ask().unwrap_or(0);
        LOWEST.set(Some(lowest));
        lowest
    })
}

fn ask() -> Option<usize> {
    // SAFETY: all zeros is a value of it; it is filled before it is read.
    let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
    // SAFETY: the calling thread is alive, and the pointer is to a value of ours.
    if unsafe { libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) } != 0 {
        return None;
    }
    let (mut lowest, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes were filled just now, and the pointers are to values of ours.
    let failed =
        unsafe { libc::pthread_attr_getstack(&raw const attributes, &raw mut lowest, &raw mut size) };
    // SAFETY: filled above, and not used any more.
    unsafe { libc::pthread_attr_destroy(&raw mut attributes) };
    (failed == 0).then_some(lowest as usize)
}
