//! The store buffer: what is fetched ahead for it, and what its head waits for.

use ringfence_persist::Flush;

use super::buffers::{Ticket, Use};
use super::core::Core;
use super::thread::{Activity, Entry, Waits, What};
use crate::hardware::cache::Slot;
use crate::hardware::hierarchy::{Departure, Hierarchy, Source, Want};
use crate::hardware::program::{Line, Op};
use crate::hardware::record::Record;
use crate::hardware::time::Ps;
use crate::hardware::units::{LINE, NEVER};

impl Core {
    /// Asks for the lines of stores that wait, in their order, while there are buffers for it.
    pub(super) fn fetch_ahead(&mut self, who: usize, outside: &mut Hierarchy, at: u64) {
        self.threads[who].ahead = Activity::IDLE;
        loop {
            let thread = &self.threads[who];
            let Some(&entry) = thread.store_buffer.get(thread.fetched) else { return };
            let (writes, fence) = (entry.writes(), entry.is_fence());
            // Goes on when the head has left.
            if writes && thread.stores_fetched >= self.rfo_window
                || fence && thread.fences_passed >= self.rfo_past_fences
            {
                return;
            }
            if writes {
                let Some((slot, ticket)) = self.own(who, outside, &entry, at, true) else { return };
                let thread = &mut self.threads[who];
                let entry = &mut thread.store_buffer[thread.fetched];
                entry.slot = slot;
                entry.wait_for(ticket);
            }
            let thread = &mut self.threads[who];
            thread.fetched += 1;
            thread.stores_fetched += u32::from(writes);
            thread.fences_passed += u32::from(fence);
        }
    }

    // Finds or fetches a line that is to be written: its place, and the buffer that it waits for.
    // Nothing if there is no buffer for that.
    fn own(
        &mut self,
        who: usize,
        outside: &mut Hierarchy,
        entry: &Entry,
        at: u64,
        ahead: bool,
    ) -> Option<(Slot, Option<Ticket>)> {
        let line = entry.line;
        let private = &mut outside.cores[self.number];
        if let Some(slot) = private.l1.find(line) {
            private.l1.touch(slot);
            outside.counters[self.number].l1_hits += 1;
            let there = private.first[slot as usize].ready <= at;
            return Some((slot, if there { None } else { self.buffers.find_miss(line, at) }));
        }
        let buffer = match self.buffers.find_free(at) {
            Ok(buffer) => buffer,
            Err(soonest) => {
                let activity = self.await_buffer(outside, soonest, at);
                let thread = &mut self.threads[who];
                *(if ahead { &mut thread.ahead } else { &mut thread.head }) = activity;
                return None;
            }
        };
        let class = self.threads[who].class;
        let want = if entry.what == What::Whole { Want::Whole } else { Want::Own };
        let (source, slot) = outside.fetch(self.number, class, (line, want), buffer as u8, at);
        let until = match source {
            Source::Cache(ready) => ready,
            Source::Memory => NEVER,
        };
        Some((slot, Some(self.buffers.take_for_miss(buffer, line, slot, true, until))))
    }

    /// Lets out what is at the head, or finds out what it waits for.
    pub(super) fn head(&mut self, who: usize, outside: &mut Hierarchy, at: u64) {
        let Some(entry) = self.threads[who].store_buffer.front() else {
            self.threads[who].head = Activity::IDLE;
            return;
        };
        let line = entry.line;
        let left = match entry.what {
            What::Store | What::Whole if self.next_store > at => {
                self.threads[who].head = Activity::at(self.next_store);
                None
            }
            What::Store | What::Whole => {
                self.write(who, outside, at).map(|done| done - at + self.costs.commit)
            }
            What::Flush(kind) => self.flush(who, outside, (kind, line), at),
            What::NtStore(bytes) => self.nt_store(who, outside, (line, bytes), at),
            What::Units => {
                let thread = &mut self.threads[who];
                thread.units += u64::from(line);
                thread.counted = at;
                Some(0)
            }
            what @ (What::Sfence | What::Mfence | What::Locked) => {
                self.fence(who, outside, what, at)
            }
        };
        if let Some(cost) = left {
            self.pop(who, outside, cost, at);
        }
    }

    // The head leaves, and the next one may do so after a time.
    #[inline(always)]
    fn pop(&mut self, who: usize, outside: &mut Hierarchy, cost: u64, at: u64) {
        let thread = &mut self.threads[who];
        let Some(left) = thread.store_buffer.pop_front() else { return };
        thread.head_free = at + cost;
        thread.head =
            if thread.store_buffer.is_empty() { Activity::IDLE } else { Activity::at(at + cost) };
        if thread.front.waits == Waits::ROOM {
            thread.front = Activity::at(at);
        }
        let (writes, fence) = (left.writes(), left.is_fence());
        let waited = thread.fetched == 0 || writes || fence;
        if thread.fetched > 0 {
            thread.fetched -= 1;
            thread.stores_fetched -= u32::from(writes);
            thread.fences_passed -= u32::from(fence);
        }
        if waited && !thread.store_buffer.is_empty() {
            self.fetch_ahead(who, outside, at);
        }
    }

    // Waits for the line of the entry at the head, and writes it; when that is done, if it is. A
    // line that was lost again before its turn is written as soon as it is asked for anew, so that
    // cores that want the same get on.
    fn write(&mut self, who: usize, outside: &mut Hierarchy, at: u64) -> Option<u64> {
        let thread = &mut self.threads[who];
        let known = thread.fetched > 0;
        let entry = thread.store_buffer[0];
        let (line, mut slot, mut ticket) = (entry.line, entry.slot, entry.ticket());
        if let Some(ticket) = ticket {
            let end = self.buffers.end(ticket);
            if end > at {
                thread.head = Activity::end(ticket.buffer, end);
                return None;
            }
        }
        if entry.written {
            return Some(at);
        }
        let lost = ticket.is_some();
        let private = &outside.cores[self.number];
        let mut ready = private.first[slot as usize].ready;
        if !(known && private.l1.holds(slot, line) && ready <= at) {
            (slot, ticket) = self.own(who, outside, &entry, at, false)?;
            ready = outside.cores[self.number].first[slot as usize].ready;
        }
        let there = ready <= at;
        let mut done = at;
        // What was fetched ahead of a line may have taken its place at once, where a class has few
        // ways.
        let lost = lost && outside.cores[self.number].l1.holds(slot, line);
        if there || lost {
            let others = outside.pages.cores(line) & !(1 << self.number);
            if others != 0 {
                done = outside.own(self.number, line, others, at);
            }
            outside.cores[self.number].l1.dirty(slot);
            let thread = self.threads[who].number;
            outside.log.record(Record::Stored { thread, line: Line(line), at: Ps(at) });
        }
        if there {
            return Some(done);
        }
        let thread = &mut self.threads[who];
        if thread.fetched == 0 {
            (thread.fetched, thread.stores_fetched) = (1, 1);
        }
        let entry = &mut thread.store_buffer[0];
        (entry.slot, entry.written) = (slot, lost);
        entry.wait_for(ticket);
        thread.head = match ticket {
            Some(ticket) => Activity::end(ticket.buffer, self.buffers.end(ticket)),
            None => Activity::at(ready),
        };
        None
    }

    fn flush(
        &mut self,
        who: usize,
        outside: &mut Hierarchy,
        (kind, line): (Flush, u32),
        at: u64,
    ) -> Option<u64> {
        let ordered = kind == Flush::Clflush && self.clflush_ordered;
        if self.threads[who].store_buffer[0].ticket().is_some() {
            // An ordered one that was sent before, and is complete.
            return Some(self.costs.commit);
        }
        if self.next_flush > at {
            self.threads[who].head = Activity::at(self.next_flush);
            return None;
        }
        // An ordered one is waited for, in a fill buffer.
        if !ordered && self.flushes.are_there() {
            match self.flushes.find_free(at) {
                Ok(buffer) => {
                    if self.send_flush(who, outside, (kind, line), buffer, at) == NEVER {
                        self.flushes.take(buffer, who as u8);
                    }
                    return Some(self.costs.commit);
                }
                Err(soonest) => {
                    self.threads[who].head = Activity { at: soonest, waits: Waits::FLUSH };
                    return None;
                }
            }
        }
        let buffer = match self.buffers.find_free(at) {
            Ok(buffer) => buffer,
            Err(soonest) => {
                self.threads[who].head = self.await_buffer(outside, soonest, at);
                return None;
            }
        };
        let until = self.send_flush(who, outside, (kind, line), buffer as u8, at);
        let thread = &mut self.threads[who];
        let ticket = self.buffers.take_for(buffer, Use::Outgoing(who as u8), until);
        if ordered {
            thread.store_buffer[0].wait_for(Some(ticket));
            thread.head = Activity::end(ticket.buffer, until);
            return None;
        }
        Some(self.costs.commit)
    }

    // A line's flush leaves the core; when it is known to be accepted, unless memory will say.
    fn send_flush(
        &mut self,
        who: usize,
        outside: &mut Hierarchy,
        (kind, line): (Flush, u32),
        buffer: u8,
        at: u64,
    ) -> u64 {
        let thread = &mut self.threads[who];
        outside.log.record(Record::Flushed {
            thread: thread.number,
            kind,
            line: Line(line),
            at: Ps(at),
        });
        match outside.flush(self.number, thread.class, (kind, line), buffer, at) {
            Departure::Sent => {
                self.next_flush = at + self.costs.flush_gap;
                self.next_store = at + self.costs.store_after_flush;
                thread.outgoing += 1;
                NEVER
            }
            Departure::Clean(known) => {
                thread.accepted = thread.accepted.max(known);
                known
            }
        }
    }

    fn nt_store(
        &mut self,
        who: usize,
        outside: &mut Hierarchy,
        (line, bytes): (u32, u8),
        at: u64,
    ) -> Option<u64> {
        let owner = who as u8;
        let (buffer, so_far) = match self.buffers.find_combining(owner, line) {
            Some(found) => found,
            None if self.next_nt > at => {
                self.threads[who].head = Activity::at(self.next_nt);
                return None;
            }
            None => match self.buffers.find_free(at) {
                Ok(buffer) => {
                    self.buffers.take_for(buffer, Use::Combining(owner, line, 0), NEVER);
                    (buffer, 0)
                }
                Err(soonest) => {
                    self.threads[who].head = self.await_buffer(outside, soonest, at);
                    return None;
                }
            },
        };
        let thread = self.threads[who].number;
        outside.log.record(Record::NtStored { thread, line: Line(line), at: Ps(at) });
        let bytes = so_far.saturating_add(bytes);
        self.buffers.becomes(buffer, Use::Combining(owner, line, bytes));
        if u64::from(bytes) >= LINE {
            self.close(outside, buffer, owner, (line, bytes), at);
        }
        Some(self.costs.commit)
    }

    /// A write-combining buffer leaves.
    pub(super) fn close(
        &mut self,
        outside: &mut Hierarchy,
        buffer: usize,
        owner: u8,
        (line, bytes): (u32, u8),
        at: u64,
    ) {
        let thread = &mut self.threads[usize::from(owner)];
        thread.outgoing += 1;
        outside.counters[self.number].partial_nt_lines += u64::from(u64::from(bytes) < LINE);
        let (from, class) = ((thread.number, line), thread.class);
        self.next_nt = at + self.costs.nt_gap;
        // A whole line goes on to a place of its own, where there is one; another collects in its
        // buffer.
        let place = if u64::from(bytes) >= LINE { self.flushes.find_free(at).ok() } else { None };
        outside.write_past(self.number, class, from, place.unwrap_or(buffer as u8), at);
        self.buffers.becomes(buffer, Use::Outgoing(owner));
        if let Some(place) = place {
            self.flushes.take(place, owner);
            self.buffers.end_now(buffer, at);
            self.ended(buffer as u8, at);
        }
    }

    // A fence, or a locked instruction, which is one: waits for acceptance of what is outgoing.
    fn fence(&mut self, who: usize, outside: &mut Hierarchy, what: What, at: u64) -> Option<u64> {
        while let Some((buffer, line, bytes)) = self.buffers.any_combining(who as u8) {
            self.close(outside, buffer, who as u8, (line, bytes), at);
        }
        let thread = &mut self.threads[who];
        if thread.outgoing > 0 {
            thread.head = Activity::until(Waits::ACCEPTANCE);
            return None;
        }
        if thread.accepted > at {
            thread.head = Activity::at(thread.accepted);
            return None;
        }
        let mut cost = self.costs.fence;
        if what == What::Locked {
            let done = self.write(who, outside, at)?;
            cost = done - at + self.costs.locked;
        }
        let thread = &mut self.threads[who];
        outside.log.record(Record::Fenced { thread: thread.number, at: Ps(at) });
        if what != What::Sfence {
            // Loads that came before must be complete too.
            thread.front = Activity::at(at + cost);
            thread.held = Some(Op::Lfence);
        }
        Some(cost)
    }
}
