//! A channel: a bus that carries one line at a time, a write pending queue, and a device. DIMMs of
//! two kinds on one channel are two of these with one bus.
//!
//! Reads are served when they arrive. Writes leave the queue when the bus has nothing else to do,
//! and ahead of reads once the queue is nearly full; as nothing can change that afterwards, they
//! are carried out late, at the next access to the channel. Writes beyond the queue wait for
//! acceptance and are woken one by one, so that no request's place on the bus is taken early.

use super::dimm::Dimm;
use crate::hardware::counters::ChannelCounters;
use crate::hardware::event::Request;
use crate::hardware::machine::{Device, Dram, Node};
use crate::hardware::ring::Ring;
use crate::hardware::units::{NEVER, ps, transfer};

/// A write that had to wait, and when there was room for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    pub at: u64,
    pub write: Request,
}

/// The wires of a channel, which carry one line at a time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bus {
    /// Until when they are taken.
    free: u64,
    last_wrote: bool,
}

/// A channel.
pub struct Channel {
    line_ps: u64,
    turnaround: u64,
    /// Accepted writes: the line on this channel, and when it was accepted.
    queue: Ring<(u32, u64)>,
    lines: usize,
    high: usize,
    writes_per_read: u32,
    /// Writes that arrived when the queue was full.
    waiting: Waiting,
    /// Those that were let in, until they are told.
    let_in: Ring<Accepted>,
    alarm_set: u64,
    /// Transfers whose turn has not come: when it does, and whether they write.
    promised: Ring<(u64, bool)>,
    device: Medium,
    counters: ChannelCounters,
}

/// Requests on their way into a queue that is full: in order at each slice of the mesh, and slice
/// by slice in turn. Lines are spread over slices by a hash, so that neighbours may pass each
/// other.
struct Waiting {
    slices: Vec<Ring<(u32, Request)>>,
    turn: usize,
    count: usize,
}

impl Waiting {
    fn new(slices: usize) -> Self {
        Self { slices: vec![Ring::new(1, (0, Request::NOTHING)); slices], turn: 0, count: 0 }
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn push(&mut self, line: u32, write: Request) {
        let slice = (hash(write.line) % self.slices.len() as u32) as usize;
        self.slices[slice].push_back((line, write));
        self.count += 1;
    }

    // Whose turn it is.
    fn next(&mut self) -> Option<(u32, Request)> {
        if self.count == 0 {
            return None;
        }
        while self.slices[self.turn].is_empty() {
            self.pass();
        }
        self.slices[self.turn].front().copied()
    }

    fn pop(&mut self) {
        self.slices[self.turn].pop_front();
        self.count -= 1;
        self.pass();
    }

    fn pass(&mut self) {
        self.turn += 1;
        if self.turn == self.slices.len() {
            self.turn = 0;
        }
    }
}

// Spreads lines evenly (Fibonacci hashing).
fn hash(line: u32) -> u32 {
    (u64::from(line).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

enum Medium {
    Dram(Banks),
    Dimm(Box<Dimm>),
}

/// Banks of DRAM, over which lines are spread by a hash.
struct Banks {
    latency: u64,
    /// How long a bank is taken by a request.
    busy: u64,
    /// Until when each is taken.
    free: Vec<u64>,
}

/// Writes that may wait for one bank while others go ahead.
const WRITES_OF_A_BANK: u64 = 4;

impl Banks {
    fn new(dram: &Dram) -> Self {
        Self {
            latency: ps(dram.latency_ns),
            busy: ps(dram.bank_ns),
            free: vec![0; dram.banks as usize],
        }
    }

    #[inline]
    fn of(&self, line: u32) -> usize {
        (hash(line) >> 8) as usize & (self.free.len() - 1)
    }

    // Occupies a line's bank; returns when it begins to answer.
    #[inline]
    fn take(&mut self, line: u32, at: u64) -> u64 {
        let bank = self.of(line);
        let start = at.max(self.free[bank]);
        self.free[bank] = start + self.busy;
        start
    }

    // The time from which a write may be handed to its bank.
    #[inline]
    fn write_ready(&self, line: u32) -> u64 {
        self.free[self.of(line)].saturating_sub(WRITES_OF_A_BANK * self.busy)
    }
}

impl Channel {
    pub fn new(node: &Node, slices: usize, seed: u64) -> Self {
        let device = match &node.device {
            Device::Dram(dram) => Medium::Dram(Banks::new(dram)),
            Device::Optane(optane) => Medium::Dimm(Box::new(Dimm::new(optane, seed))),
        };
        let lines = node.write_queue.lines as usize;
        Self {
            line_ps: transfer(crate::hardware::units::LINE, node.bus_gb_per_s),
            turnaround: ps(node.turnaround_ns),
            queue: Ring::new(lines, (0, 0)),
            lines,
            high: node.write_queue.high as usize,
            writes_per_read: node.write_queue.writes_per_read,
            waiting: Waiting::new(slices),
            let_in: Ring::new(lines, Accepted { at: 0, write: Request::NOTHING }),
            alarm_set: NEVER,
            promised: Ring::new(64, (0, false)),
            device,
            counters: ChannelCounters::default(),
        }
    }

    // When the bus can carry something that is there from a time on.
    #[inline]
    fn start(&self, bus: Bus, from: u64, write: bool) -> u64 {
        let turn = if write == bus.last_wrote { 0 } else { self.turnaround };
        from.max(bus.free + turn)
    }

    /// When the oldest write in the queue can go.
    #[inline]
    pub fn next_write(&self, bus: Bus) -> Option<u64> {
        let (line, accepted) = *self.queue.front()?;
        let ready = match &self.device {
            Medium::Dram(banks) => banks.write_ready(line),
            Medium::Dimm(dimm) => dimm.write_ready(),
        };
        Some(self.start(bus, accepted.max(ready), true))
    }

    // Takes the bus, and counts what it carries once that has begun.
    #[inline]
    fn carry(&mut self, bus: &mut Bus, start: u64, write: bool, at: u64) {
        *bus = Bus { free: start + self.line_ps, last_wrote: write };
        if start > at {
            self.promised.push_back((start, write));
        } else {
            self.count(write);
        }
    }

    #[inline]
    fn count(&mut self, write: bool) {
        self.counters.lines_written += u64::from(write);
        self.counters.lines_read += u64::from(!write);
    }

    /// Takes the oldest write out of the queue.
    pub fn carry_write(&mut self, bus: &mut Bus, start: u64, at: u64) {
        let Some((line, _)) = self.queue.pop_front() else { return };
        self.carry(bus, start, true, at);
        match &mut self.device {
            Medium::Dram(banks) => _ = banks.take(line, start),
            Medium::Dimm(dimm) => dimm.write(line, start),
        }
        // Admits one write, and the probes that only waited for the writes before them.
        while let Some((line, write)) = self.waiting.next() {
            if !write.probe {
                if self.queue.len() == self.lines {
                    break;
                }
                self.queue.push_back((line, start));
            }
            self.waiting.pop();
            self.let_in.push_back(Accepted { at: start, write });
        }
    }

    /// Counts what has begun by a time.
    #[inline]
    pub fn keep_promises(&mut self, at: u64) {
        while let Some((_, write)) =
            self.promised.front().copied().filter(|(start, _)| *start <= at)
        {
            self.promised.pop_front();
            self.count(write);
        }
    }

    /// Carries the writes whose turn came before a time.
    #[inline]
    pub fn advance(&mut self, bus: &mut Bus, at: u64) {
        self.keep_promises(at);
        while let Some(start) = self.next_write(*bus).filter(|start| *start < at) {
            self.carry_write(bus, start, at);
        }
    }

    /// Carries writes that go ahead of a read at a time, where the queue is nearly full.
    #[inline]
    pub fn make_room(&mut self, bus: &mut Bus, at: u64) {
        if self.queue.len() >= self.high {
            for _ in 0..self.writes_per_read {
                // Only writes that hold nothing up: those that the device takes as soon as the bus
                // is free.
                let Some(start) =
                    self.next_write(*bus).filter(|start| *start <= self.start(*bus, at, true))
                else {
                    break;
                };
                self.carry_write(bus, start, at);
            }
        }
    }

    /// A read arrives, once all writes before it were carried and room was made; when its data is
    /// there.
    #[inline(always)]
    pub fn read(&mut self, bus: &mut Bus, line: u32, at: u64) -> u64 {
        if self.queue.iter().any(|(queued, _)| *queued == line) {
            // The queue answers.
            self.counters.reads_from_queue += 1;
            return at;
        }
        let start = self.start(*bus, at, false);
        self.carry(bus, start, false, at);
        self.line_ps
            + match &mut self.device {
                Medium::Dram(banks) => banks.take(line, start) + banks.latency,
                Medium::Dimm(dimm) => dimm.read(line, start),
            }
    }

    /// As [`Dimm::backlog`]; DRAM has none.
    #[inline]
    pub fn backlog(&self, at: u64) -> (u64, u64) {
        match &self.device {
            Medium::Dram(_) => (0, 0),
            Medium::Dimm(dimm) => dimm.backlog(at),
        }
    }

    /// A write arrives, once all writes before it were carried; whether it is accepted at once.
    #[inline(always)]
    pub fn write(&mut self, line: u32, at: u64, write: Request) -> bool {
        let room = self.waiting.is_empty() && (write.probe || self.queue.len() < self.lines);
        if room && !write.probe {
            self.queue.push_back((line, at));
        } else if !room {
            self.counters.writes_that_waited += 1;
            self.waiting.push(line, write);
        }
        room
    }

    #[inline]
    pub fn is_settled(&self) -> bool {
        self.waiting.is_empty() && self.let_in.is_empty()
    }

    #[inline]
    pub fn alarm(&mut self, bus: Bus, now: u64) -> Option<u64> {
        if self.waiting.is_empty() || self.alarm_set != NEVER {
            return None;
        }
        self.alarm_set = self.next_write(bus)?.max(now);
        Some(self.alarm_set)
    }

    pub fn alarmed(&mut self) {
        self.alarm_set = NEVER;
    }

    #[inline]
    pub fn accepted(&mut self) -> Option<Accepted> {
        self.let_in.pop_front()
    }

    /// What was carried when it last advanced.
    pub fn counters(&self) -> ChannelCounters {
        let mut counters = self.counters;
        if let Medium::Dimm(dimm) = &self.device {
            dimm.count(&mut counters);
        }
        counters
    }
}
