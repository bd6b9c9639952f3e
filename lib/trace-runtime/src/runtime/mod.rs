//! What runs inside a recorded process: it stands in for the program's accesses to the files that
//! are recorded.
//!
//! What needs a decoder is asked of the recorder. Nothing here calls a library, allocates, or uses
//! floating point. All of it may run in a handler of a signal.

mod actions;
mod addresses;
mod blocks;
mod buffers;
mod callers;
mod calls;
mod descriptors;
mod emulation;
mod entry;
mod events;
mod exits;
mod faults;
mod filter;
mod frame;
mod intrinsics;
mod lists;
mod lock;
mod mappings;
mod output;
mod questions;
mod ring;
mod routines;
mod signal_calls;
mod signals;
mod start;
mod state;
mod step;
mod strings;
mod stubs;
mod syncs;
mod sys;
mod threads;
mod unwinding;
mod vectors;

#[cfg_attr(executable, panic_handler)]
fn panic(info: &core::panic::PanicInfo) -> ! {
    let line = info.location().map_or(0, core::panic::Location::line);
    let file = info.location().map_or(0, |place| place.file().as_ptr() as u64);
    questions::give_up(crate::layout::stop::PANIC, u64::from(line), file)
}
