//! A hardware thread: its program, its store buffer, and what it waits for.

use ringfence_persist::Flush;

use super::buffers::Ticket;
use crate::hardware::cache::Slot;
use crate::hardware::machine::Core as Description;
use crate::hardware::program::{Op, Program};
use crate::hardware::ring::Ring;
use crate::hardware::time::Ps;
use crate::hardware::units::{NEVER, ps};

/// What a thread may have at once.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub store_buffer: usize,
    pub load_window: u64,
}

/// A hardware thread.
pub struct Thread {
    /// Its place in the run.
    pub number: u32,
    pub class: usize,
    pub program: Box<dyn Program>,
    /// An operation that was asked for and could not be taken yet.
    pub held: Option<Op>,
    pub front: Activity,
    pub head: Activity,
    pub ahead: Activity,
    pub limits: Limits,
    /// What waits to leave in order, the head first.
    pub store_buffer: Ring<Entry>,
    /// How many of these, from the head on, have had their line fetched or need none.
    pub fetched: usize,
    /// How many of these store.
    pub stores_fetched: u32,
    /// How many of these are fences.
    pub fences_passed: u32,
    /// Up to when the head has worked.
    pub head_free: u64,
    /// Operations that the front end took.
    pub taken: u64,
    /// Misses of loads, the oldest first, with the number of the operation.
    pub misses: Ring<(Ticket, u64)>,
    pub last_load: Loaded,
    /// Flushes and write-combining buffers that memory has not said anything of.
    pub outgoing: u32,
    /// By when those are accepted of which it has.
    pub accepted: u64,
    pub units: u64,
    /// When the last of them were counted.
    pub counted: u64,
    pub paused: bool,
    pub ended: bool,
}

/// When something continues, and what it waits for if that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    pub at: u64,
    pub waits: Waits,
}

/// What something waits for: nothing but its time, the end of some buffers' use, a bit each, or one
/// of the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits(u64);

impl Waits {
    const NO: Waits = Waits(0);
    /// Any buffer that ends.
    pub const ANY_BUFFER: Waits = Waits((1 << 32) - 1);
    /// Acceptance of everything outgoing.
    pub const ACCEPTANCE: Waits = Waits(1 << 32);
    /// Room in the store buffer.
    pub const ROOM: Waits = Waits(1 << 33);
    /// The head, which has a fence to let through.
    pub const HEAD: Waits = Waits(1 << 34);
    /// A place for a flush.
    pub const FLUSH: Waits = Waits(1 << 35);
}

/// When the data of the last load is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loaded {
    At(u64),
    Ticket(Ticket),
}

/// An entry of the store buffer, in 16 bytes: the store buffers of many cores are much of what a
/// run touches.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub what: What,
    /// It was written when it came back, before its turn could come.
    pub written: bool,
    /// The buffer that it waits for, if any.
    buffer: u8,
    use_of_it: u32,
    /// The line, or how many units.
    pub line: u32,
    /// The place in the first level that the line was found in or fetched to.
    pub slot: Slot,
}

/// What waits to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Store,
    /// A store of all of a line that says so.
    Whole,
    Locked,
    NtStore(u8),
    Flush(Flush),
    Sfence,
    Mfence,
    Units,
}

impl Activity {
    pub const IDLE: Activity = Activity { at: NEVER, waits: Waits::NO };

    #[inline]
    pub fn at(at: u64) -> Self {
        Self { at, waits: Waits::NO }
    }

    /// Waits for something at a time that is not known.
    #[inline]
    pub fn until(waits: Waits) -> Self {
        Self { at: NEVER, waits }
    }

    /// Waits for the end of a use that is known, or not.
    #[inline]
    pub fn end(buffer: u8, at: u64) -> Self {
        Self { at, waits: Waits(1 << buffer) }
    }

    /// A buffer's use ends; whether this was waited for.
    #[inline]
    pub fn answered(&mut self, buffer: u8, at: u64) -> bool {
        let meant = self.waits.0 >> buffer & 1 != 0;
        if meant {
            self.at = self.at.min(at);
        }
        meant
    }
}

impl Entry {
    const NO_BUFFER: u8 = u8::MAX;

    #[inline]
    pub fn new(what: What, line: u32) -> Self {
        Self { what, written: false, buffer: Self::NO_BUFFER, use_of_it: 0, line, slot: 0 }
    }

    /// The use of a buffer that it waits for.
    #[inline]
    pub fn ticket(&self) -> Option<Ticket> {
        let ticket = Ticket { buffer: self.buffer, use_of_it: self.use_of_it };
        (self.buffer != Self::NO_BUFFER).then_some(ticket)
    }

    /// From now on it waits for this.
    #[inline]
    pub fn wait_for(&mut self, ticket: Option<Ticket>) {
        (self.buffer, self.use_of_it) = match ticket {
            Some(ticket) => (ticket.buffer, ticket.use_of_it),
            None => (Self::NO_BUFFER, 0),
        };
    }

    /// Whether reads for ownership may have to wait for it.
    #[inline]
    pub fn is_fence(&self) -> bool {
        matches!(self.what, What::Sfence | What::Mfence)
    }

    /// Whether it needs a line of its own in the first level.
    #[inline]
    pub fn writes(&self) -> bool {
        matches!(self.what, What::Store | What::Whole | What::Locked)
    }
}

impl Thread {
    pub fn new(number: u32, class: usize, limits: Limits, program: Box<dyn Program>) -> Self {
        Self {
            number,
            class,
            program,
            held: None,
            front: Activity::at(0),
            head: Activity::IDLE,
            ahead: Activity::IDLE,
            limits,
            store_buffer: Ring::new(limits.store_buffer + 1, Entry::new(What::Units, 0)),
            fetched: 0,
            stores_fetched: 0,
            fences_passed: 0,
            head_free: 0,
            taken: 0,
            misses: Ring::new(1, (Ticket { buffer: 0, use_of_it: 0 }, 0)),
            last_load: Loaded::At(0),
            outgoing: 0,
            accepted: 0,
            units: 0,
            counted: 0,
            paused: false,
            ended: false,
        }
    }

    /// When any of its activities continues.
    #[inline]
    pub fn next(&self) -> u64 {
        self.front.at.min(self.head.at).min(self.ahead.at)
    }

    /// Goes on after a pause.
    pub fn resume(&mut self, at: u64) {
        self.paused = false;
        if self.front == Activity::IDLE && !self.ended {
            self.front = Activity::at(at);
        }
    }

    /// The next operation: the one that could not be taken before, or another.
    #[inline]
    pub fn operation(&mut self, at: u64) -> Op {
        self.held.take().unwrap_or_else(|| self.program.next(Ps(at)))
    }
}

/// What operations take, in picoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    pub load: u64,
    pub store: u64,
    pub nt_store: u64,
    pub flush: u64,
    pub issue_fence: u64,
    pub compute_share: f64,
    pub commit: u64,
    pub flush_gap: u64,
    pub nt_gap: u64,
    pub store_after_flush: u64,
    pub fence: u64,
    pub locked: u64,
}

impl Costs {
    pub fn of(core: &Description) -> Self {
        let issue = &core.issue;
        Self {
            load: ps(issue.load_ns),
            store: ps(issue.store_ns),
            nt_store: ps(issue.nt_store_ns),
            flush: ps(issue.flush_ns),
            issue_fence: ps(issue.fence_ns),
            compute_share: issue.compute_share,
            commit: ps(core.commit_ns),
            flush_gap: ps(core.flush_gap_ns),
            nt_gap: ps(core.nt_gap_ns.unwrap_or(0.0)),
            store_after_flush: ps(core.store_after_flush_ns),
            fence: ps(core.fence_ns),
            locked: ps(core.locked_ns),
        }
    }
}
