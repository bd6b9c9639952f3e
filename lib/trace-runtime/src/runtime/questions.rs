//! Asking the recorder, which decodes instructions, writes stubs and knows files.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::blocks::{block, shared};
use super::sys;
use crate::layout::{ANSWERED, ASKED, IDLE, ask};

/// Asks, and waits for the answer.
pub fn ask(kind: u32, arguments: [u64; 6]) -> [u64; 4] {
    let mailbox = &block().mailbox;
    mailbox.kind.set(kind);
    mailbox.arguments.set(arguments);
    mailbox.state.store(ASKED, Release);
    let shared = shared();
    shared.bell.fetch_add(1, Release);
    sys::wake(&shared.bell);
    let mut turns = 0;
    while mailbox.state.load(Acquire) != ANSWERED {
        sys::sleep_while(&mailbox.state, ASKED);
        turns += 1;
        if turns > 2 {
            end_with_recorder();
        }
    }
    mailbox.state.store(IDLE, Relaxed);
    mailbox.answer.get()
}

/// Tells why this cannot be recorded, and ends.
pub fn give_up(reason: u64, one: u64, other: u64) -> ! {
    ask(ask::STOP, [reason, one, other, 0, 0, 0]);
    sys::end()
}

/// Without the recorder nothing answers: the process ends as if killed.
pub fn end_with_recorder() {
    if sys::has_ended(shared().recorder.into()) {
        sys::end();
    }
}
