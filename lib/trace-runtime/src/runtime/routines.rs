//! The routines in assembly, which [`super::entry`] defines: what they are called with, and the
//! labels in them.

use super::frame::Frame;
use crate::layout::{Block, Site};

unsafe extern "C" {
    /// What stubs call before an instruction.
    ///
    /// # Safety
    /// It is for stubs alone, as are all labels here: only their addresses are used.
    pub fn stub_enter();
    /// What they call behind it.
    pub fn stub_leave();
    /// Executes an instruction by [`super::emulation::execute`], and returns whether that has
    /// failed.
    ///
    /// # Safety
    /// All three are valid, and the thread has the lock and does not use its token meanwhile. Where
    /// it fails, nothing of `execute` is undone or dropped.
    pub fn guarded(block: *const Block, site: *const Site, frame: *mut Frame) -> bool;
    /// Where [`guarded`] goes on when its instruction has failed.
    ///
    /// # Safety
    /// The thread is inside [`guarded`].
    pub fn guard_failed() -> !;
    /// Reads eight bytes, and returns whether it could.
    ///
    /// # Safety
    /// `value` can be written to.
    pub fn safe_read(address: u64, value: *mut u64) -> bool;
    /// Copies bytes, and returns whether it could. Some may be copied where it could not.
    ///
    /// # Safety
    /// Nothing that Rust code relies on is at `to`, unless all of these bytes may be replaced.
    pub fn safe_copy(to: *mut u8, from: *const u8, count: usize) -> bool;
    /// The instruction of [`safe_copy`] that may fail.
    pub fn copying();
    /// Where a handler has [`safe_read`] and [`safe_copy`] go on when they fail.
    pub fn unreadable();
    /// The end of a signal's handler.
    pub fn restorer();
    /// Starts a thread by the system call `number`, with its other arguments, and the address of
    /// the thread's block.
    ///
    /// # Safety
    /// The block is that of a thread that has not started. It has a stack, and the registers in
    /// `start` are those with which the program's new thread is to begin.
    pub fn clone_thread(
        flags: u64,
        stack: u64,
        parent: u64,
        child: u64,
        block: u64,
        number: u64,
    ) -> u64;
    /// Makes a system call with another mask of signals, and puts back the one that it stores at
    /// `before`.
    ///
    /// # Safety
    /// As for [`super::sys::call`]; the mask can be read, and `before` written to. No token of the
    /// lock is live: handlers of the program may run.
    pub fn interruptible(
        number: u64,
        arguments: *const u64,
        mask: *const u64,
        before: *mut u64,
    ) -> u64;
    /// The first instruction of [`interruptible`] at which a handler may run.
    pub fn interruptible_begin();
    /// The first behind them.
    pub fn interruptible_end();
    /// Ends a thread, whose stacks lie at `stack`, of `size` bytes.
    ///
    /// # Safety
    /// Nothing but this thread uses the stacks, which are gone afterwards.
    pub fn end_thread(stack: u64, size: u64, status: u64) -> !;
}
