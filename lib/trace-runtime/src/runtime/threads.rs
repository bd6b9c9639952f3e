//! Threads and processes: each thread has a block and stacks of its own from its first instruction on.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use crate::layout::{BLOCK, Block, MOST_THREADS, TABLE, THREADS, ask, register, stop};
use crate::runtime::entry::{clone_thread, end_thread, stub_enter, stub_leave};
use crate::runtime::questions::{ask, give_up};
use crate::runtime::ring::{block, lock, shared, unlock};
use crate::runtime::signals::{mask_of, registers_of, set_mask};
use crate::runtime::sys;

/// Whether the process has ever had more than one thread.
pub static MANY: AtomicBool = AtomicBool::new(false);

// Handlers of the program's may run on the first of them.
const STACK: u64 = 256 << 10;
const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_THREAD: u64 = 0x1_0000;
const CLONE_SETTLS: u64 = 0x8_0000;

/// A block for a thread that is yet to start.
pub fn new_block() -> &'static mut Block {
    let number = shared().threads.fetch_add(1, Relaxed);
    if u64::from(number) >= MOST_THREADS {
        give_up(stop::THREADS, 0, 0);
    }
    let at = THREADS + u64::from(number) * BLOCK;
    // SAFETY: mapped, and this number is nobody else's.
    let block = unsafe { &mut *(at as *mut Block) };
    block.own = at;
    block.table = TABLE;
    block.number = number;
    block.enter = stub_enter as *const () as u64;
    block.leave = stub_leave as *const () as u64;
    block
}

/// Its stacks: for signals, and for stubs.
pub fn give_stacks(block: &mut Block) {
    let at = sys::private_memory(0, 2 * STACK, sys::PROT_READ | sys::PROT_WRITE);
    if sys::is_error(at) {
        give_up(stop::SETUP, 2, at);
    }
    block.own_signal_stack = [at, sys::SS_AUTODISARM, STACK];
    block.stack = at + 2 * STACK - 64;
}

/// From here on, the calling thread is the block's.
pub fn adopt(block: &mut Block) {
    const SET_GS: u64 = 0x1001;
    sys::call2(sys::ARCH_PRCTL, SET_GS, block.own);
    block.process = sys::call0(sys::GETPID) as u32;
    block.thread = sys::call0(sys::GETTID) as u32;
}

/// Has signals delivered on the block's stack.
pub fn use_signal_stack(block: &Block) -> u64 {
    sys::call2(sys::SIGALTSTACK, block.own_signal_stack.as_ptr() as u64, 0)
}

// Whether a stack pointer is on the stack for signals, or that for stubs.
fn is_own(block: &Block, rsp: u64) -> bool {
    (block.own_signal_stack[0]..block.own_signal_stack[0] + 2 * STACK).contains(&rsp)
}

/// Whether a stack pointer is on the program's signal stack.
pub fn is_on_signal_stack(block: &Block, rsp: u64) -> bool {
    let [at, _, size] = block.signal_stack;
    block.has_signal_stack != 0 && rsp > at && rsp - at <= size
}

/// The signal stack to give to the kernel: the program's if it has one, so that its handlers run there.
pub const fn signal_stack(block: &Block) -> [u64; 3] {
    let [at, _, size] = block.signal_stack;
    if block.has_signal_stack != 0 {
        [at, sys::SS_AUTODISARM, size]
    } else {
        block.own_signal_stack
    }
}

/// Restores the signal stack after a handler was left by a jump, which leaves it disarmed.
pub fn rearm(block: &Block, frame: *mut u64) {
    let rsp = registers_of(frame).get(register::RSP);
    // SAFETY: the kernel's frame, where `uc_stack` stands.
    let stack = unsafe { &mut *frame.add(2).cast::<[u64; 3]>() };
    if stack[2] == 0 && !is_own(block, rsp) && !is_on_signal_stack(block, rsp) {
        *stack = signal_stack(block);
    }
}

/// `clone`, `fork` and `vfork`.
pub fn clone(number: u64, a: [u64; 6], frame: *mut u64) -> u64 {
    let flags = match number {
        sys::FORK => 17,
        sys::VFORK => 17 | CLONE_VFORK,
        _ => a[0],
    };
    let stack = if number == sys::CLONE { a[1] } else { 0 };
    if flags & CLONE_VM != 0 && stack != 0 {
        return thread(a, frame);
    }
    // A child on the parent's stack gets memory of its own, as with `fork`.
    process([flags & !(CLONE_VM | CLONE_VFORK), stack, a[2], a[3], a[4], 0])
}

fn process(a: [u64; 6]) -> u64 {
    let parent = block();
    lock(parent);
    let number = parent.number;
    let has_stack = parent.has_signal_stack;
    let stacks = (parent.signal_stack, parent.own_signal_stack, parent.stack);
    let mailbox_mask = parent.mask;
    let child = new_block();
    // Blocks are shared by all processes, and so the child takes what it needs before it owns its own.
    (child.signal_stack, child.own_signal_stack, child.stack) = stacks;
    (child.has_signal_stack, child.mask) = (has_stack, mailbox_mask);
    let result = sys::call(sys::CLONE, a);
    if result == 0 {
        adopt(child);
        ask(ask::CHILD, [u64::from(number), 0, 0, 0, 0, 0]);
        return 0;
    }
    unlock();
    result
}

// A thread, or a child that shares memory until it executes another program.
fn thread(a: [u64; 6], frame: *mut u64) -> u64 {
    let registers = registers_of(frame);
    let parent = block();
    let new = new_block();
    give_stacks(new);
    MANY.store(true, Relaxed);
    for at in 0..18 {
        new.start[at] = registers.get(at);
    }
    new.start[register::RSP] = a[1];
    if a[0] & CLONE_SETTLS == 0 {
        // The kernel takes it from the register only where it is asked to.
        new.start[register::R8] = a[4];
    }
    new.mask = *mask_of(frame);
    new.parent = parent.number;
    new.borrows = u32::from(a[0] & CLONE_THREAD == 0);
    // SAFETY: the call's own arguments; the new thread begins in `born`.
    unsafe { clone_thread(a[0], a[1], a[2], a[3], new.own, sys::CLONE) }
}

/// The first thing that a new thread does, on its own stack.
pub extern "C" fn born(block: &mut Block) {
    adopt(block);
    use_signal_stack(block);
    ask(ask::CHILD, [u64::from(block.parent), 1, 0, 0, 0, 0]);
    set_mask(block.mask);
}

/// `exit`: the thread's stacks go with it.
pub fn exit(status: u64) -> ! {
    let block = block();
    let stacks = block.own_signal_stack[0];
    // SAFETY: it runs on none of its stacks from there on.
    unsafe { end_thread(stacks, 2 * STACK, status) }
}
