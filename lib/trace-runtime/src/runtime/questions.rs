//! Asking the recorder, which decodes instructions, writes stubs and knows files.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::layout::{ANSWERED, ASKED, IDLE, ask};
use crate::runtime::ring::{block, shared};
use crate::runtime::sys;

/// Asks, and waits for the answer.
pub fn ask(kind: u32, arguments: [u64; 6]) -> [u64; 4] {
    let mailbox = &mut block().mailbox;
    mailbox.kind = kind;
    mailbox.arguments = arguments;
    mailbox.state.store(ASKED, Release);
    let shared = shared();
    shared.bell.fetch_add(1, Release);
    sys::wake(shared.bell.as_ptr());
    let mut turns = 0;
    while mailbox.state.load(Acquire) != ANSWERED {
        sys::sleep_while(mailbox.state.as_ptr(), ASKED);
        turns += 1;
        if turns > 2 {
            end_with_recorder();
        }
    }
    mailbox.state.store(IDLE, Relaxed);
    mailbox.answer
}

/// Tells why this cannot be recorded, and ends.
pub fn give_up(reason: u64, one: u64, other: u64) -> ! {
    ask(ask::STOP, [reason, one, other, 0, 0, 0]);
    loop {
        sys::call2(sys::KILL, sys::call0(sys::GETPID), sys::SIGKILL);
    }
}

/// Without the recorder there is nobody to answer: the process ends as if killed.
pub fn end_with_recorder() {
    if sys::has_ended(shared().recorder.into()) {
        sys::call2(sys::KILL, sys::call0(sys::GETPID), sys::SIGKILL);
    }
}
