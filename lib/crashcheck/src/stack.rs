//! The limit on recursion of a run: a stack overflow would end the whole process without a report.

use std::cell::Cell;

use crate::raw::lowest_of_stack;

/// Left for the checker itself and for unwinding; of a stack with less than four times as much, a
/// quarter.
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
        let lowest = lowest_of_stack().unwrap_or(0);
        LOWEST.set(Some(lowest));
        lowest
    })
}
