//! The lock of events, which all threads and processes of a recording share, and what may be used
//! with it alone: the state of the process.
//!
//! What holds the lock records an access and executes it, so that the order of the events is the
//! order in which stores took effect.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::forget;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::blocks::{block, ids, shared};
use super::questions::end_with_recorder;
use super::state::State;
use super::sys;
use crate::layout::Block;

struct Cell(UnsafeCell<State>);
// SAFETY: it is only used through `Held`, which one thread of all has at a time.
unsafe impl Sync for Cell {}
static STATE: Cell = Cell(UnsafeCell::new(State::NEW));

/// That this thread holds the lock, which it gives back when this is dropped. The process's state
/// can only be used by way of it.
pub struct Held {
    // Not for another thread.
    own: PhantomData<*mut ()>,
}

impl Held {
    /// Takes the lock, as soon as no other thread has it. A thread that has it already waits
    /// forever, and so there are never two of these.
    pub fn acquire() -> Self {
        acquire(block());
        Self { own: PhantomData }
    }

    /// The lock that this thread has kept.
    ///
    /// # Safety
    /// This thread has the lock. Other values of this type that it may have are not used until this
    /// one is gone.
    pub const unsafe fn resume() -> Self {
        Self { own: PhantomData }
    }

    /// The lock in a handler of a signal, which may have interrupted what has it, and whether it
    /// has.
    ///
    /// # Safety
    /// Where the thread has the lock, what the signal has interrupted does not go on before this is
    /// given to [`Held::hand_back`], or does not use its own value of this type again.
    pub unsafe fn interrupt() -> (Self, bool) {
        let was_mine = is_mine(block());
        if was_mine {
            // SAFETY: the thread has it; for the rest, the caller answers.
            (unsafe { Self::resume() }, true)
        } else {
            (Self::acquire(), false)
        }
    }

    /// Keeps the lock if the thread had it before [`Held::interrupt`], and gives it back if not.
    pub fn hand_back(self, was_mine: bool) {
        if was_mine {
            self.keep();
        }
    }

    /// Keeps the lock beyond this, until the thread continues with [`Held::resume`].
    pub const fn keep(self) {
        forget(self);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        shared().lock.store(0, Release);
    }
}

impl Deref for Held {
    type Target = State;

    fn deref(&self) -> &State {
        // SAFETY: this thread alone has the lock, and by this value alone; the reference lives no
        // longer than the borrow of it.
        unsafe { &*STATE.0.get() }
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut State {
        // SAFETY: as above; this value is borrowed mutably.
        unsafe { &mut *STATE.0.get() }
    }
}

fn acquire(block: &Block) {
    let (shared, mine) = (shared(), block.number.get() + 1);
    let mut turns = 0u32;
    let mut stopped = 0;
    while let Err(holder) = shared.lock.compare_exchange(0, mine, Acquire, Relaxed) {
        turns += 1;
        if turns < 64 {
            core::hint::spin_loop();
            continue;
        }
        sys::yield_now();
        // A thread that was killed in between does not give it back.
        if turns.is_multiple_of(256) && holder != 0 && sys::has_ended(ids(holder - 1)[1]) {
            let _ = shared.lock.compare_exchange(holder, 0, Relaxed, Relaxed);
        }
        if turns.is_multiple_of(4096) {
            end_with_recorder();
            // One that was stopped in between is resumed until it gives it back.
            if holder != 0 && matches!(sys::state_of(ids(holder - 1)[1]), b'T') {
                stopped = ids(holder - 1)[0];
                sys::kill(stopped, sys::SIGCONT);
            }
        }
    }
    if stopped != 0 {
        sys::kill(stopped, sys::SIGSTOP);
    }
}

/// Whether this thread holds the lock.
pub fn is_mine(block: &Block) -> bool {
    shared().lock.load(Relaxed) == block.number.get() + 1
}
