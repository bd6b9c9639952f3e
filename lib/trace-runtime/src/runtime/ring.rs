//! The ring of events.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::blocks::shared;
use super::lock::Held;
use super::questions::end_with_recorder;
use super::sys;
use crate::layout::{Block, Head, MOST_DATA, RING, SHARED, SHARED_SIZE, Shared, kind};

/// Puts an event without data into the ring.
pub fn push(held: &Held, block: &Block, head: &Head) {
    assert!(data_length(head) == 0, "such an event has data");
    // SAFETY: there are no data.
    unsafe { push_data(held, block, head, ptr::null()) }
}

/// Puts an event into the ring, with as many of the bytes at `data` as it has.
///
/// # Safety
/// That many bytes can be read at `data`.
pub unsafe fn push_data(_held: &Held, block: &Block, head: &Head, data: *const u8) {
    let (mut rest, mut data, mut head) = (head.size, data, *head);
    head.thread = block.number.get();
    head.callers = if head.site == 0 { 0 } else { block.callers.get() };
    let is_short = head.length() <= size_of::<Head>() as u64 + 8;
    if is_short || matches!(head.kind, kind::LOAD | kind::MSYNC | kind::SYNC_RANGE) {
        // SAFETY: the caller's. The data are outside of the ring.
        return unsafe { put(&head, |to, size| ptr::copy_nonoverlapping(data, to, size)) };
    }
    while rest > 0 {
        head.size = rest.min(MOST_DATA);
        // SAFETY: as above, as this is a part of the event.
        unsafe { put(&head, |to, size| ptr::copy_nonoverlapping(data, to, size)) };
        (rest, head.offset) = (rest - head.size, head.offset + head.size);
        data = data.wrapping_add(head.size as usize);
    }
}

/// Puts an event of at most [`MOST_DATA`] bytes into the ring. `fill` gets the place and the size
/// of its data, and writes them.
///
/// # Safety
/// It writes nowhere else in the ring.
pub unsafe fn push_filled(
    _held: &Held,
    block: &Block,
    head: &Head,
    fill: impl FnOnce(*mut u8, usize),
) {
    assert!(head.size <= MOST_DATA, "it is one event");
    // SAFETY: the caller's, and it has the lock.
    unsafe { put(&Head { thread: block.number.get(), ..*head }, fill) }
}

/// Puts an event into the ring in one piece.
///
/// # Safety
/// As for [`push_filled`], and the thread has the lock.
unsafe fn put(head: &Head, fill: impl FnOnce(*mut u8, usize)) {
    let shared = shared();
    let length = head.length();
    let mut at = shared.head.load(Relaxed);
    let left = RING - at % RING;
    if left < length {
        room(shared, at + left);
        if left >= size_of::<Head>() as u64 {
            let skip = Head { size: left, ..Head::of(kind::SKIP, 0) };
            // SAFETY: `room` has seen that these bytes are free: only what has the lock writes
            // there, and the recorder reads nothing behind the head. All lengths are multiples of
            // 8, and so are places.
            unsafe { place(at).cast::<Head>().write(skip) };
        }
        at += left;
    }
    room(shared, at + length);
    // SAFETY: as above, for `length` bytes.
    unsafe { place(at).cast::<Head>().write(*head) };
    fill(place(at).wrapping_add(size_of::<Head>()), data_length(head));
    shared.head.store(at + length, Release);
}

fn data_length(head: &Head) -> usize {
    match head.kind {
        kind::STORE | kind::NON_TEMPORAL | kind::LOCKED | kind::WRITE | kind::OUTPUT => {
            head.size as usize
        }
        kind::MAP | kind::UNMAP => 8,
        _ => 0,
    }
}

fn place(at: u64) -> *mut u8 {
    (SHARED + SHARED_SIZE + at % RING) as *mut u8
}

// Waits until the ring is free up to `end`.
fn room(shared: &Shared, end: u64) {
    while end - shared.tail.load(Acquire) > RING {
        sys::sleep(50_000);
        end_with_recorder();
    }
}
