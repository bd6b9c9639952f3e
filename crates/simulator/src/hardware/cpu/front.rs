//! The front end: operations from the program to the ports, the first level and the store buffer.

use super::buffers::Ticket;
use super::core::Core;
use super::thread::{Activity, Entry, Loaded, Waits, What};
use crate::hardware::hierarchy::{Hierarchy, Source, Want};
use crate::hardware::program::Op;
use crate::hardware::time::Ps;
use crate::hardware::units::NEVER;

/// So long computes a thread at a stretch when a sibling may want the ports: 20 ns.
const STRETCH: u64 = 20_000;
/// What takes no time takes this, so that no program can keep time from passing.
const INSTANT: u64 = 1;

impl Core {
    /// Takes one operation, or finds out what it waits for.
    pub(super) fn front(&mut self, who: usize, outside: &mut Hierarchy, at: u64) {
        let thread = &mut self.threads[who];
        if thread.paused {
            thread.front = Activity::IDLE;
            return;
        }
        let op = thread.operation(at);
        // Counting takes no ports, and neither does rest.
        if self.ports > at && !matches!(op, Op::Units(_) | Op::Rest(_)) {
            (thread.front, thread.held) = (Activity::at(self.ports), Some(op));
            return;
        }
        let costs = &self.costs;
        let (what, line, cost) = match op {
            Op::Store(line) => (What::Store, line.number(), costs.store),
            Op::StoreWhole(line) => (What::Whole, line.number(), costs.store),
            Op::NtStore { line, bytes } => (What::NtStore(bytes), line.number(), costs.nt_store),
            Op::Flush { kind, line } => (What::Flush(kind), line.number(), costs.flush),
            Op::Sfence => (What::Sfence, 0, costs.issue_fence),
            Op::Mfence => (What::Mfence, 0, costs.issue_fence),
            Op::Locked(line) => (What::Locked, line.number(), costs.store),
            Op::Units(units) => (What::Units, units, INSTANT),
            Op::Load { .. } | Op::Lfence | Op::Compute(_) | Op::Rest(_) | Op::End => {
                return self.keep_out_of_store_buffer(who, outside, op, at);
            }
        };
        if thread.store_buffer.len() >= thread.limits.store_buffer {
            (thread.front, thread.held) = (Activity::until(Waits::ROOM), Some(op));
            return;
        }
        self.put(who, outside, (what, line), cost, at);
    }

    // What does not go through the store buffer.
    fn keep_out_of_store_buffer(&mut self, who: usize, outside: &mut Hierarchy, op: Op, at: u64) {
        let waits = match op {
            Op::Load { line, dependent } => self.load(who, outside, line.number(), dependent, at),
            Op::Lfence => self.await_loads(who, at),
            Op::Compute(span) => self.compute(who, span.0, at),
            Op::Rest(span) => {
                self.threads[who].front = Activity::at(at + span.0.max(INSTANT));
                None
            }
            _ => {
                self.threads[who].ended = true;
                self.threads[who].front = Activity::IDLE;
                self.divide();
                None
            }
        };
        if let Some(activity) = waits {
            self.threads[who].front = activity;
            self.threads[who].held = Some(op);
        }
    }

    // An operation takes the ports.
    #[inline]
    fn issue(&mut self, who: usize, cost: u64, at: u64) {
        self.ports = at + cost;
        self.last = who;
        let thread = &mut self.threads[who];
        thread.taken += 1;
        thread.front = Activity::at(at + cost);
    }

    fn load(
        &mut self,
        who: usize,
        outside: &mut Hierarchy,
        line: u32,
        dependent: bool,
        at: u64,
    ) -> Option<Activity> {
        if dependent {
            match self.threads[who].last_load {
                Loaded::At(there) if there > at => return Some(Activity::at(there)),
                Loaded::Ticket(ticket) if self.buffers.end(ticket) > at => {
                    return Some(self.await_end(ticket));
                }
                _ => {}
            }
        }
        if let Some(ticket) = self.oldest_miss(who, at)
            && self.threads[who].taken - self.threads[who].misses[0].1
                >= self.threads[who].limits.load_window
        {
            return Some(self.await_end(ticket));
        }
        let private = &mut outside.cores[self.number];
        let mut waits_for = None;
        let mut there = at + outside.times.l1;
        let found = private.l1.find(line);
        if let Some(slot) = found {
            private.l1.touch(slot);
            outside.counters[self.number].l1_hits += 1;
            if private.first[slot as usize].ready > at {
                waits_for = self.buffers.find_miss(line, at);
                there = there.max(private.first[slot as usize].ready);
            }
        } else {
            waits_for = self.buffers.find_miss(line, at);
            if waits_for.is_none() {
                let buffer = match self.buffers.find_free(at) {
                    Ok(buffer) => buffer,
                    Err(soonest) => return Some(self.await_buffer(outside, soonest, at)),
                };
                let class = self.threads[who].class;
                let (source, slot) =
                    outside.fetch(self.number, class, (line, Want::Read), buffer as u8, at);
                let until = match source {
                    Source::Cache(ready) => ready,
                    Source::Memory => NEVER,
                };
                waits_for = Some(self.buffers.take_for_miss(buffer, line, slot, false, until));
            }
        }
        let thread = &mut self.threads[who];
        match waits_for {
            Some(ticket) => {
                thread.misses.push_back((ticket, thread.taken));
                thread.last_load = Loaded::Ticket(ticket);
            }
            None => thread.last_load = Loaded::At(there),
        }
        self.issue(who, self.costs.load, at);
        None
    }

    // The oldest load whose data is missing.
    #[inline]
    fn oldest_miss(&mut self, who: usize, at: u64) -> Option<Ticket> {
        let misses = &mut self.threads[who].misses;
        while let Some((ticket, _)) = misses.front() {
            if self.buffers.end(*ticket) > at {
                return Some(*ticket);
            }
            misses.pop_front();
        }
        None
    }

    #[inline]
    fn await_end(&self, ticket: Ticket) -> Activity {
        Activity::end(ticket.buffer, self.buffers.end(ticket))
    }

    /// Waits for a buffer. If all of them collect bytes, one leaves.
    pub(super) fn await_buffer(
        &mut self,
        outside: &mut Hierarchy,
        soonest: u64,
        at: u64,
    ) -> Activity {
        if let Some((buffer, thread, line, bytes)) = self.buffers.all_combining() {
            self.close(outside, buffer, thread, (line, bytes), at);
        }
        Activity { at: soonest, waits: Waits::ANY_BUFFER }
    }

    fn await_loads(&mut self, who: usize, at: u64) -> Option<Activity> {
        if let Some(ticket) = self.oldest_miss(who, at) {
            return Some(self.await_end(ticket));
        }
        if let Loaded::At(there) = self.threads[who].last_load
            && there > at
        {
            return Some(Activity::at(there));
        }
        self.issue(who, self.costs.issue_fence, at);
        None
    }

    fn compute(&mut self, who: usize, span: u64, at: u64) -> Option<Activity> {
        let span = span.max(INSTANT);
        if self.threads.len() == 1 {
            self.issue(who, span, at);
            return None;
        }
        let now = span.min(STRETCH);
        self.issue(who, now, at);
        self.ports = at + (now as f64 * self.costs.compute_share) as u64;
        if now < span {
            self.threads[who].taken -= 1;
            self.threads[who].held = Some(Op::Compute(Ps(span - now)));
        }
        None
    }

    // Into the store buffer, which has room.
    #[inline(always)]
    fn put(
        &mut self,
        who: usize,
        outside: &mut Hierarchy,
        (what, line): (What, u32),
        cost: u64,
        at: u64,
    ) {
        let thread = &mut self.threads[who];
        if thread.store_buffer.is_empty() {
            thread.head = Activity::at(thread.head_free.max(at));
        }
        thread.store_buffer.push_back(Entry::new(what, line));
        let done = at + cost;
        if what != What::Units {
            (self.ports, self.last) = (done, who);
            thread.taken += 1;
        }
        thread.front = Activity::at(done);
        if matches!(what, What::Mfence | What::Locked) {
            thread.front = Activity::until(Waits::HEAD);
        } else if thread.store_buffer.len() >= thread.limits.store_buffer {
            // What comes next is asked for early, to see whether it has to wait.
            let next = thread.program.next(Ps(done));
            thread.held = Some(next);
            if !matches!(next, Op::Load { .. } | Op::Lfence | Op::Compute(_) | Op::End) {
                thread.front = Activity::until(Waits::ROOM);
            }
        }
        if thread.fetched + 1 == thread.store_buffer.len() {
            self.fetch_ahead(who, outside, at);
        }
    }
}
