//! Threads and processes: each thread has a block and stacks of its own from its first instruction
//! on.

use core::sync::atomic::Ordering::Relaxed;

use super::blocks::{block, block_at, shared};
use super::frame::Frame;
use super::lock::Held;
use super::questions::{ask, give_up};
use super::routines::{clone_thread, end_thread, stub_enter, stub_leave};
use super::state::HAS_HAD_THREADS;
use super::sys;
use crate::layout::{Block, MOST_THREADS, TABLE, ask, register, stop};

// Handlers of the program may run on the first of them.
const STACK: u64 = 256 << 10;
const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_THREAD: u64 = 0x1_0000;
const CLONE_SETTLS: u64 = 0x8_0000;

/// A block for a thread that is yet to start.
pub fn new_block() -> &'static Block {
    let number = shared().threads.fetch_add(1, Relaxed);
    if u64::from(number) >= MOST_THREADS {
        give_up(stop::THREADS, 0, 0);
    }
    let at = block_at(number);
    // SAFETY: mapped for as many threads, for good, and filled with zeros. This number is given
    // out once, and so there is no other reference to the block until its thread starts.
    let block = unsafe { &*at };
    block.own.set(at as u64);
    block.table.set(TABLE);
    block.number.set(number);
    block.enter.set(stub_enter as *const () as u64);
    block.leave.set(stub_leave as *const () as u64);
    block
}

/// Its stacks: for signals, and for stubs.
pub fn give_stacks(block: &Block) {
    let at = sys::private_memory(0, 2 * STACK, sys::PROT_READ | sys::PROT_WRITE);
    if sys::is_error(at) {
        give_up(stop::SETUP, 2, at);
    }
    block.own_signal_stack.set([at, sys::SS_AUTODISARM, STACK]);
    block.stack.set(at + 2 * STACK - 64);
}

/// From here on, the calling thread is the block's.
///
/// # Safety
/// No other thread is, and this one keeps no reference to the block that was its own before.
pub unsafe fn adopt(block: &Block) {
    const SET_GS: u64 = 0x1001;
    // SAFETY: the runtime alone uses `gs`, for the address of the thread's block.
    unsafe { sys::call2(sys::ARCH_PRCTL, SET_GS, block.own.get()) };
    block.process.set(sys::process_id() as u32);
    block.thread.set(sys::thread_id() as u32);
}

/// Has signals delivered on the block's stack.
pub fn use_signal_stack(block: &Block) {
    let stack = block.own_signal_stack.get();
    // SAFETY: this memory was mapped for that, and only the block's thread uses it.
    unsafe { sys::call2(sys::SIGALTSTACK, stack.as_ptr() as u64, 0) };
}

// Whether a stack pointer is on the stack for signals, or that for stubs.
fn is_own(block: &Block, rsp: u64) -> bool {
    let [at, ..] = block.own_signal_stack.get();
    (at..at + 2 * STACK).contains(&rsp)
}

/// Whether a stack pointer is on the program's signal stack.
pub fn is_on_signal_stack(block: &Block, rsp: u64) -> bool {
    let [at, _, size] = block.signal_stack.get();
    block.has_signal_stack.get() != 0 && rsp > at && rsp - at <= size
}

/// The signal stack to give to the kernel: the program's if it has one, so that its handlers run
/// there.
pub fn signal_stack(block: &Block) -> [u64; 3] {
    if block.has_signal_stack.get() == 0 {
        return block.own_signal_stack.get();
    }
    let [at, _, size] = block.signal_stack.get();
    [at, sys::SS_AUTODISARM, size]
}

/// Restores the signal stack after a handler was left by a jump, which leaves it disarmed.
pub fn rearm(block: &Block, frame: &mut Frame) {
    let rsp = frame.registers.get(register::RSP);
    if frame.stack[2] == 0 && !is_own(block, rsp) && !is_on_signal_stack(block, rsp) {
        frame.stack = signal_stack(block);
    }
}

/// `clone`, `fork` and `vfork`.
///
/// # Safety
/// The program has made the call, with these arguments.
pub unsafe fn clone(number: u64, a: [u64; 6], frame: &Frame) -> u64 {
    const SIGCHLD: u64 = 17;
    let flags = match number {
        sys::FORK => SIGCHLD,
        sys::VFORK => SIGCHLD | CLONE_VFORK,
        _ => a[0],
    };
    let stack = if number == sys::CLONE { a[1] } else { 0 };
    if flags & CLONE_VM != 0 && stack != 0 {
        // SAFETY: the caller's.
        return unsafe { thread(a, frame) };
    }
    // A child on the parent's stack gets memory of its own, as with `fork`.
    // SAFETY: the caller's; without `CLONE_VM`.
    unsafe { process([flags & !(CLONE_VM | CLONE_VFORK), stack, a[2], a[3], a[4], 0]) }
}

/// A child process.
///
/// # Safety
/// As for [`clone`], and the child has memory of its own.
unsafe fn process(a: [u64; 6]) -> u64 {
    let parent = block();
    // The child's copy of the state is as it is when nothing uses it.
    let held = Held::acquire();
    let child = new_block();
    // Blocks are shared by all processes, and so the child takes what it needs before it owns its
    // own.
    child.signal_stack.set(parent.signal_stack.get());
    child.own_signal_stack.set(parent.own_signal_stack.get());
    child.stack.set(parent.stack.get());
    child.has_signal_stack.set(parent.has_signal_stack.get());
    child.mask.set(parent.mask.get());
    let number = parent.number.get();
    // SAFETY: the program's own call: the caller answers for that. The child goes on here, with
    // copies of our stacks.
    let result = unsafe { sys::call(sys::CLONE, a) };
    if result == 0 {
        // The lock is the parent's.
        held.keep();
        // SAFETY: the block was made for this child, which does not use the parent's again.
        unsafe { adopt(child) };
        ask(ask::CHILD, [u64::from(number), 0, 0, 0, 0, 0]);
    }
    result
}

/// A thread, or a child that shares memory until it executes another program.
///
/// # Safety
/// As for [`clone`].
unsafe fn thread(a: [u64; 6], frame: &Frame) -> u64 {
    let new = new_block();
    give_stacks(new);
    HAS_HAD_THREADS.store(true, Relaxed);
    for (to, from) in new.start.iter().zip(frame.registers.all()) {
        to.set(*from);
    }
    new.start[register::RSP].set(a[1]);
    if a[0] & CLONE_SETTLS == 0 {
        // The kernel takes it from the register only where it is asked to.
        new.start[register::R8].set(a[4]);
    }
    new.mask.set(frame.mask);
    new.parent.set(block().number.get());
    new.borrows.set(u32::from(a[0] & CLONE_THREAD == 0));
    // SAFETY: the call's own arguments; the new thread begins in `born`, with the block that was
    // made for it.
    unsafe { clone_thread(a[0], a[1], a[2], a[3], new.own.get(), sys::CLONE) }
}

/// The first thing that a new thread does, on its own stack.
///
/// # Safety
/// The block is the one that was made for this thread.
pub unsafe extern "C" fn born(block: &Block) {
    // SAFETY: the caller's; the thread has had none before.
    unsafe { adopt(block) };
    use_signal_stack(block);
    ask(ask::CHILD, [u64::from(block.parent.get()), 1, 0, 0, 0, 0]);
    sys::set_mask(block.mask.get());
}

/// `exit`: the thread's stacks go with it.
pub fn exit(status: u64) -> ! {
    let [stacks, ..] = block().own_signal_stack.get();
    // SAFETY: these are the stacks that this thread was given, which no other uses. It runs on none
    // of them from there on.
    unsafe { end_thread(stacks, 2 * STACK, status) }
}
