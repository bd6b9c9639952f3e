//! The runtime's first steps in a process, before the program's.

use core::sync::atomic::Ordering::Relaxed;

use super::actions::{Handler, install};
use super::blocks::shared;
use super::frame::OURS;
use super::lock::Held;
use super::questions::{ask, give_up};
use super::{calls, descriptors, faults, filter, mappings, sys, threads};
use crate::layout::{
    BLOCK, Block, MOST_THREADS, RING, SHARED, SHARED_SIZE, STUBS, STUBS_SIZE, TABLE, TABLE_SIZE,
    THREADS, ask, stop,
};

/// Sets up a process that has just begun to execute a program. `is_first` says whether it is the
/// first one, and so has no filter yet. Returns the thread's block.
///
/// # Safety
/// The recorder has mapped what is shared, and the thread is the only one of its process, which has
/// executed nothing else.
pub unsafe extern "C" fn process(is_first: u64) -> *const Block {
    let block = threads::new_block();
    threads::give_stacks(block);
    // SAFETY: the block was made for this thread, which has had none before.
    unsafe { threads::adopt(block) };
    threads::use_signal_stack(block);
    let table = sys::private_memory(TABLE, TABLE_SIZE, sys::PROT_READ | sys::PROT_WRITE);
    if table != TABLE {
        give_up(stop::SETUP, 5, table);
    }
    // None of it is the program's: where that dumps its core, this stays out.
    sys::leave_out_of_dumps(SHARED, SHARED_SIZE + RING);
    sys::leave_out_of_dumps(THREADS, BLOCK * MOST_THREADS);
    sys::leave_out_of_dumps(TABLE, TABLE_SIZE);
    take_signals();
    if !mappings::map_stubs(STUBS, STUBS_SIZE) {
        give_up(stop::SETUP, 6, 0);
    }
    if is_first != 0 {
        sys::give_up_privileges();
        let result = filter::install_first();
        if result != 0 {
            give_up(stop::SETUP, 3, result);
        }
    }
    if shared().files.load(Relaxed) != 0 || descriptors::records_output() {
        descriptors::begin();
    }
    let mut held = Held::acquire();
    for number in 0.. {
        let [start, length, ..] = ask(ask::START, [number, 0, 0, 0, 0, 0]);
        if length == 0 {
            break;
        }
        mappings::code(&mut held, start, length);
    }
    block
}

/// The signals that are ours.
fn take_signals() {
    let handlers: [(u64, Handler); 4] = [
        (sys::SIGSEGV, faults::on_fault),
        (sys::SIGBUS, faults::on_fault),
        (sys::SIGTRAP, faults::on_trap),
        (sys::SIGSYS, calls::on_call),
    ];
    for (signal, handler) in handlers {
        // Not those that we need ourselves while a handler of the program's runs within ours.
        let result = install(signal, handler, sys::SA_ONSTACK | sys::SA_NODEFER, !OURS);
        if result != 0 {
            give_up(stop::SETUP, 4, result);
        }
    }
}
