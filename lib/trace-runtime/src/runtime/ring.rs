//! The order of events: one lock for all threads and processes of a recording, and the ring behind it.
//!
//! Whoever holds the lock records an access and executes it, so that the order of the events is the order in which
//! stores took effect.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::layout;
use crate::layout::{Block, Head, MOST_DATA, RING, SHARED, SHARED_SIZE, Shared, THREADS, kind};
use crate::runtime::sys;

/// What all processes of the recording share.
pub fn shared() -> &'static Shared {
    // SAFETY: mapped there before anything of ours runs.
    unsafe { &*(SHARED as *const Shared) }
}

/// This thread's block.
pub fn block() -> &'static mut Block {
    let own: u64;
    // SAFETY: every thread's `gs` points to its block, and nobody else writes to it while the thread runs.
    unsafe {
        core::arch::asm!("mov {}, gs:[0]", out(reg) own, options(nostack, readonly, preserves_flags));
        &mut *(own as *mut Block)
    }
}

/// Takes the lock.
pub fn lock(block: &Block) {
    let (shared, mine) = (shared(), block.number + 1);
    let mut turns = 0u32;
    let mut stopped = 0;
    while let Err(holder) = shared.lock.compare_exchange(0, mine, Acquire, Relaxed) {
        turns += 1;
        if turns < 64 {
            core::hint::spin_loop();
            continue;
        }
        sys::call0(sys::SCHED_YIELD);
        // A thread that was killed in between does not give it back.
        if turns.is_multiple_of(256) && holder != 0 && is_gone(holder - 1) {
            let _ = shared.lock.compare_exchange(holder, 0, Relaxed, Relaxed);
        }
        if turns.is_multiple_of(4096) {
            crate::runtime::questions::end_with_recorder();
            // One that was stopped in between goes on until it gives it back.
            if holder != 0 && matches!(sys::state_of(ids(holder - 1)[1]), b'T') {
                stopped = ids(holder - 1)[0];
                sys::call2(sys::KILL, stopped, sys::SIGCONT);
            }
        }
    }
    if stopped != 0 {
        sys::call2(sys::KILL, stopped, sys::SIGSTOP);
    }
}

// The system's numbers of a thread's process and of itself.
fn ids(number: u32) -> [u64; 2] {
    let holder = (THREADS + u64::from(number) * layout::BLOCK) as *const Block;
    // SAFETY: the blocks of all threads are mapped.
    unsafe {
        [&raw const (*holder).process, &raw const (*holder).thread]
            .map(|one| ptr::read_volatile(one).into())
    }
}

fn is_gone(number: u32) -> bool {
    sys::has_ended(ids(number)[1])
}

/// Gives it back.
pub fn unlock() {
    shared().lock.store(0, Release);
}

/// Whether this thread holds it.
pub fn is_mine(block: &Block) -> bool {
    shared().lock.load(Relaxed) == block.number + 1
}

/// Puts an event into the ring, with as many of the bytes at `data` as it has. The caller holds the lock.
pub fn push(block: &Block, head: &Head, data: *const u8) {
    let (mut rest, mut data, mut head) = (head.size, data, *head);
    head.thread = block.number;
    head.callers = if head.site == 0 { 0 } else { block.callers };
    if head.length() <= size_of::<Head>() as u64 + 8
        || matches!(head.kind, kind::LOAD | kind::MSYNC | kind::SYNC_RANGE)
    {
        return put(&head, data);
    }
    while rest > 0 {
        head.size = rest.min(MOST_DATA);
        put(&head, data);
        (rest, head.offset) = (rest - head.size, head.offset + head.size);
        data = data.wrapping_add(head.size as usize);
    }
}

fn put(head: &Head, data: *const u8) {
    let shared = shared();
    let length = head.length();
    let mut at = shared.head.load(Relaxed);
    let left = RING - at % RING;
    if left < length {
        room(shared, at + left);
        if left >= size_of::<Head>() as u64 {
            let skip = Head { size: left, ..Head::of(kind::SKIP, 0) };
            // SAFETY: `room` says that these bytes are free.
            unsafe { place(at).cast::<Head>().write(skip) };
        }
        at += left;
    }
    room(shared, at + length);
    // SAFETY: `room` says that these bytes are free; the data are as long as the event says.
    unsafe {
        place(at).cast::<Head>().write(*head);
        ptr::copy_nonoverlapping(data, place(at).add(size_of::<Head>()), data_length(head));
    }
    shared.head.store(at + length, Release);
}

fn data_length(head: &Head) -> usize {
    match head.kind {
        kind::STORE | kind::NON_TEMPORAL | kind::LOCKED | kind::WRITE => head.size as usize,
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
        let timeout = [0u64, 50_000];
        sys::call2(35, timeout.as_ptr() as u64, 0);
        crate::runtime::questions::end_with_recorder();
    }
}
