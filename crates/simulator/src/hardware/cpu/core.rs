//! A core: what its threads share, and which of them continues.

use super::buffers::{Buffers, Use};
use super::flushes::Flushes;
use super::thread::{Activity, Costs, Thread, Waits};
use crate::hardware::hierarchy::Hierarchy;
use crate::hardware::machine::Core as Description;
use crate::hardware::units::NEVER;

/// A core.
pub struct Core {
    /// Its number among the cores in use.
    pub number: usize,
    pub threads: Vec<Thread>,
    store_buffer: usize,
    pub(super) buffers: Buffers,
    /// Until when the ports are taken.
    pub(super) ports: u64,
    /// The thread that took them last: siblings that want them at once take turns.
    pub(super) last: usize,
    pub(super) costs: Costs,
    pub(super) clflush_ordered: bool,
    pub(super) rfo_past_fences: u32,
    pub(super) rfo_window: u32,
    pub(super) flushes: Flushes,
    /// From when on another flush may leave, another non-temporal line, and another store.
    pub(super) next_flush: u64,
    pub(super) next_nt: u64,
    pub(super) next_store: u64,
    /// When the run continues this core.
    pub scheduled: u64,
}

#[derive(Clone, Copy)]
enum Doing {
    Head,
    Ahead,
    Front,
}

impl Core {
    pub fn new(
        number: usize,
        description: &Description,
        costs: Costs,
        threads: Vec<Thread>,
    ) -> Self {
        let mut core = Self {
            number,
            threads,
            store_buffer: description.store_buffer as usize,
            buffers: Buffers::new(description.fill_buffers),
            ports: 0,
            last: 0,
            costs,
            clflush_ordered: description.clflush_ordered,
            rfo_past_fences: description.rfo_past_fences,
            rfo_window: description.rfo_window,
            flushes: Flushes::new(description.flush_buffers.unwrap_or(0)),
            next_flush: 0,
            next_nt: 0,
            next_store: 0,
            scheduled: NEVER,
        };
        core.divide();
        core
    }

    /// Divides the store buffer among the threads that run.
    pub fn divide(&mut self) {
        let runs = |thread: &&mut Thread| !thread.paused && !thread.ended;
        let each = self.store_buffer / self.threads.iter_mut().filter(runs).count().max(1);
        for thread in &mut self.threads {
            thread.limits.store_buffer = each.max(1);
        }
    }

    /// When any of its threads continues.
    #[inline]
    pub fn next(&self) -> u64 {
        self.threads.iter().map(Thread::next).min().unwrap_or(NEVER)
    }

    // Whose turn it is, and when: of siblings at the same time, the one that did not have the ports
    // last.
    #[inline]
    fn earliest(&self) -> (usize, u64) {
        if let [only] = &self.threads[..] {
            return (0, only.next());
        }
        let (before, after) = self.threads.split_at(self.last + 1);
        let (mut who, mut at) = (0, NEVER);
        for (turn, thread) in after.iter().chain(before).enumerate() {
            let next = thread.next();
            if next < at {
                (who, at) = ((self.last + 1 + turn) % self.threads.len(), next);
            }
        }
        (who, at)
    }

    /// Does everything that comes before a time, earliest first.
    pub fn run(&mut self, outside: &mut Hierarchy, until: u64) {
        loop {
            let (who, at) = self.earliest();
            if at >= until {
                return;
            }
            let thread = &mut self.threads[who];
            let doing = if thread.head.at == at {
                Doing::Head
            } else if thread.ahead.at == at {
                Doing::Ahead
            } else {
                Doing::Front
            };
            match doing {
                Doing::Head => self.head(who, outside, at),
                Doing::Ahead => self.fetch_ahead(who, outside, at),
                Doing::Front => self.front(who, outside, at),
            }
        }
    }

    // Memory has accepted something of a thread's; whether its fence waited for that.
    #[inline]
    fn accepted(&mut self, thread: u8, at: u64) -> bool {
        let thread = &mut self.threads[usize::from(thread)];
        thread.outgoing -= 1;
        thread.accepted = thread.accepted.max(at);
        let waited = thread.outgoing == 0 && thread.head.waits == Waits::ACCEPTANCE;
        if waited {
            thread.head = Activity::at(thread.accepted);
        }
        waited
    }

    /// Memory says when the use of a buffer ends, which is not yet. Whether anything waited for it.
    #[inline]
    pub fn answered(&mut self, outside: &mut Hierarchy, buffer: u8, at: u64) -> bool {
        if Flushes::are_for(buffer) {
            let owner = self.flushes.answered(buffer, at);
            let mut waited = self.accepted(owner, at);
            for thread in self.threads.iter_mut().filter(|thread| thread.head.waits == Waits::FLUSH)
            {
                thread.head.at = thread.head.at.min(at);
                waited = true;
            }
            return waited;
        }
        let (what, line) = self.buffers.answered(buffer, at);
        let mut waited = false;
        match what {
            Use::Miss(slot, _) => outside.filled(self.number, slot, line, at),
            Use::Outgoing(thread) => waited = self.accepted(thread, at),
            Use::Combining(..) => debug_assert!(false, "nobody was asked about this buffer"),
        }
        waited | self.ended(buffer, at)
    }

    /// The use of a buffer ends; whether anything waited for that.
    #[inline]
    pub(super) fn ended(&mut self, buffer: u8, at: u64) -> bool {
        let mut waited = false;
        for thread in &mut self.threads {
            waited |= thread.front.answered(buffer, at);
            waited |= thread.head.answered(buffer, at);
            waited |= thread.ahead.answered(buffer, at);
        }
        waited
    }
}
