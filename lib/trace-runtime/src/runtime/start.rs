//! The runtime's first steps in a process, before the program's.

use core::sync::atomic::Ordering::Relaxed;

use crate::layout::{
    BLOCK, Block, MOST_THREADS, RING, SHARED, SHARED_SIZE, STUBS, STUBS_SIZE, TABLE, TABLE_SIZE,
    THREADS, ask, stop,
};
use crate::runtime::questions::{ask, give_up};
use crate::runtime::ring::{lock, shared, unlock};
use crate::runtime::signals::{OURS, install};
use crate::runtime::{calls, descriptors, faults, filter, mappings, sys, threads};

/// Sets up a process that has just begun to execute a program. `is_first` says whether it is the first one, and so has
/// no filter yet. Returns the thread's block.
pub extern "C" fn process(is_first: u64) -> *const Block {
    let block = threads::new_block();
    threads::give_stacks(block);
    threads::adopt(block);
    threads::use_signal_stack(block);
    let table = sys::private_memory(TABLE, TABLE_SIZE, sys::PROT_READ | sys::PROT_WRITE);
    if table != TABLE {
        give_up(stop::SETUP, 5, table);
    }
    // None of it is the program's: where that dumps its core, this stays out.
    const DONT_DUMP: u64 = 16;
    for (at, size) in
        [(SHARED, SHARED_SIZE + RING), (THREADS, BLOCK * MOST_THREADS), (TABLE, TABLE_SIZE)]
    {
        sys::call3(sys::MADVISE, at, size, DONT_DUMP);
    }
    take_signals();
    if !mappings::map_stubs(STUBS, STUBS_SIZE) {
        give_up(stop::SETUP, 6, 0);
    }
    if is_first != 0 {
        const NO_NEW_PRIVILEGES: u64 = 38;
        sys::call(sys::PRCTL, [NO_NEW_PRIVILEGES, 1, 0, 0, 0, 0]);
        let result = filter::install_first();
        if result != 0 {
            give_up(stop::SETUP, 3, result);
        }
    }
    if shared().files.load(Relaxed) != 0 {
        descriptors::begin();
    }
    lock(block);
    for number in 0.. {
        let [start, length, ..] = ask(ask::START, [number, 0, 0, 0, 0, 0]);
        if length == 0 {
            break;
        }
        mappings::code(start, length);
    }
    unlock();
    block
}

/// The signals that are ours.
fn take_signals() {
    let all = !0;
    let handlers = [
        (sys::SIGSEGV, faults::on_fault as *const () as u64),
        (sys::SIGBUS, faults::on_fault as *const () as u64),
        (sys::SIGTRAP, faults::on_trap as *const () as u64),
        (sys::SIGSYS, calls::on_call as *const () as u64),
    ];
    for (signal, handler) in handlers {
        // Not those that we need ourselves while a handler of the program's runs within ours.
        let result = install(signal, handler, sys::SA_ONSTACK | sys::SA_NODEFER, all & !OURS);
        if result != 0 {
            give_up(stop::SETUP, 4, result);
        }
    }
}
