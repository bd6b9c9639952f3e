//! What runs inside a recorded process: it stands in for the program's accesses to the files that are recorded.
//!
//! What needs a decoder is asked of the recorder.

mod callers;
mod calls;
mod descriptors;
mod emulation;
mod entry;
mod faults;
mod filter;
mod intrinsics;
mod lists;
mod mappings;
mod questions;
mod ring;
mod signals;
mod start;
mod state;
mod stubs;
mod syncs;
mod sys;
mod threads;
mod vectors;

#[cfg_attr(executable, panic_handler)]
fn panic(info: &core::panic::PanicInfo) -> ! {
    let line = info.location().map_or(0, core::panic::Location::line);
    let file = info.location().map_or(0, |place| place.file().as_ptr() as u64);
    questions::give_up(crate::layout::stop::PANIC, u64::from(line), file)
}
