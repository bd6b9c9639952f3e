//! Memory that is shared with the recorder: one part for all, and a block for each thread.

use core::arch::asm;

use crate::layout::{BLOCK, Block, SHARED, Shared, THREADS};

/// What all processes of the recording share.
pub fn shared() -> &'static Shared {
    // SAFETY: the recorder maps it there before it has a process execute anything of ours, and it
    // is never unmapped. What changes while a process runs is atomic.
    unsafe { &*(SHARED as *const Shared) }
}

/// This thread's block.
pub fn block() -> &'static Block {
    let own: u64;
    // SAFETY: `adopt` has `gs` point to the thread's block before anything else, and the block
    // begins with its own address.
    unsafe {
        asm!("mov {}, gs:[0]", out(reg) own, options(nostack, readonly, preserves_flags));
    }
    // SAFETY: blocks are never unmapped. All fields are cells or atomic, and only this thread has
    // references to it: a `Block` is not `Sync`. The recorder writes to the mailbox alone, while
    // the thread waits.
    unsafe { &*(own as *const Block) }
}

/// Where the block of a number is.
pub const fn block_at(number: u32) -> *const Block {
    (THREADS + number as u64 * BLOCK) as *const Block
}

/// The system's numbers of a thread's process and of the thread itself.
pub fn ids(number: u32) -> [u64; 2] {
    let block = block_at(number);
    // SAFETY: the blocks of all numbers are mapped. These two are set before the thread takes the
    // lock for the first time, and are read whole, whatever they are.
    let read = |one: *const u32| unsafe { one.read_volatile() };
    // SAFETY: as above; only places are computed.
    let places = unsafe { [&raw const (*block).process, &raw const (*block).thread] };
    places.map(|one| read(one.cast()).into())
}
