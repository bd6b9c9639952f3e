//! What happens, in order.

use std::collections::BTreeSet;

use super::refusal::{self, SetupError, Thread};
use crate::hardware::counters::{ChannelCounters, CoreCounters};
use crate::hardware::cpu::Core;
use crate::hardware::event::{Event, Request};
use crate::hardware::hierarchy::{Hierarchy, Streamer, each};
use crate::hardware::machine::Machine;
use crate::hardware::memory::Memory;
use crate::hardware::program::{Line, Region};
use crate::hardware::record::Record;
use crate::hardware::time::Ps;
use crate::hardware::units::NEVER;

/// Channels come after cores when both have something to do at a time.
const AFTER_CORES: u32 = 1 << 16;

/// A machine with its programs running.
///
/// Time passes in [`Run::until`]. What is read out between two calls is what a window adds.
pub struct Run {
    outside: Hierarchy,
    cores: Vec<Core>,
    memory: Memory,
    /// The core of each thread, and its place there.
    threads: Vec<(usize, usize)>,
    /// Ways of the second and of the last level.
    second: u32,
    ways: u32,
    now: u64,
    /// A core may run ahead of the others by so much.
    ahead: u64,
}

impl Run {
    pub(super) fn new(
        machine: &Machine,
        seed: u64,
        outside: Hierarchy,
        cores: Vec<Core>,
        threads: Vec<(usize, usize)>,
    ) -> Self {
        let ahead = outside.times.to_memory.min(outside.times.from_memory).max(1);
        let topology = &machine.topology;
        let slices = topology.cores_per_llc * topology.llcs_per_socket;
        let memory = Memory::new(&machine.nodes, slices as usize, seed);
        let (second, ways) = (machine.l2.ways, machine.llc.ways);
        let mut run = Self { outside, cores, memory, threads, second, ways, now: 0, ahead };
        (0..run.cores.len()).for_each(|core| run.schedule(core));
        run
    }

    /// Lets time pass until a moment. Whatever the calls, the same happens: a core may be ahead of
    /// the moment by less than the time from a core to memory.
    pub fn until(&mut self, moment: Ps) {
        while let Some((at, event)) = self.outside.log.wheel.pop_before(moment.0) {
            match event {
                Event::Core(core) => self.run_core(core.into(), at, moment.0),
                Event::Read(request) => {
                    let node = self.outside.pages.node(request.line);
                    let (channel, there) = self.memory.read(node, request.line, at);
                    self.answer(request, node, there);
                    self.settle(channel, at);
                }
                Event::Write(request) => {
                    let node = self.outside.pages.node(request.line);
                    let (channel, accepted) = self.memory.write(node, at, request);
                    if accepted {
                        self.accept(request, node, at);
                    }
                    self.settle(channel, at);
                }
                Event::Channel(channel) => {
                    self.memory.alarmed(channel.into(), at);
                    self.settle(channel.into(), at);
                }
            }
        }
        self.now = self.now.max(moment.0);
    }

    fn run_core(&mut self, number: usize, mut at: u64, until: u64) {
        let core = &mut self.cores[number];
        // An event from before something else came up earlier.
        if core.scheduled != at {
            return;
        }
        loop {
            core.run(&mut self.outside, at + self.ahead);
            at = core.next();
            // What comes before everything else need not wait its turn.
            if at >= until || at >= self.outside.log.wheel.earliest() {
                break;
            }
        }
        core.scheduled = NEVER;
        self.schedule(number);
    }

    // A core's next event, unless there is one that is as early.
    #[inline]
    fn schedule(&mut self, number: usize) {
        let core = &mut self.cores[number];
        let next = core.next();
        if next < core.scheduled {
            core.scheduled = next;
            self.outside.log.wheel.push(next, number as u32, Event::Core(number as u8));
        }
    }

    // Memory tells a core.
    #[inline(always)]
    fn answer(&mut self, request: Request, node: usize, at: u64) {
        if request.buffer == Request::NOBODY {
            return;
        }
        let core = usize::from(request.core);
        let there = at + self.outside.times.from_memory + self.outside.way(core, node);
        let mut earlier = false;
        if Streamer::is_for(request.buffer) {
            for buffer in each(self.outside.cores[core].streamer.answered(request.buffer, there)) {
                earlier |= self.cores[core].answered(&mut self.outside, buffer as u8, there);
            }
        } else {
            earlier = self.cores[core].answered(&mut self.outside, request.buffer, there);
        }
        if earlier {
            self.schedule(core);
        }
    }

    #[inline(always)]
    fn accept(&mut self, request: Request, node: usize, at: u64) {
        if !request.probe {
            self.outside.under_way.remove(request.line);
            self.outside.log.record(Record::Accepted { line: Line(request.line), at: Ps(at) });
        }
        self.answer(request, node, at);
    }

    // Tells whose writes were let in, and sees to it that the rest are.
    #[inline(always)]
    fn settle(&mut self, channel: usize, at: u64) {
        if !self.memory.is_settled(channel) {
            self.let_in(channel, at);
        }
        for place in 0..self.memory.mates(channel).len() {
            let mate = self.memory.mates(channel)[place] as usize;
            if !self.memory.is_settled(mate) {
                self.let_in(mate, at);
            }
        }
    }

    fn let_in(&mut self, channel: usize, at: u64) {
        while let Some(accepted) = self.memory.accepted(channel) {
            let node = self.outside.pages.node(accepted.write.line);
            self.accept(accepted.write, node, accepted.at.max(at));
        }
        if let Some(alarm) = self.memory.alarm(channel, at) {
            self.outside.log.wheel.push(
                alarm,
                AFTER_CORES + channel as u32,
                Event::Channel(channel as u16),
            );
        }
    }

    /// The moment that was last asked for.
    pub fn now(&self) -> Ps {
        Ps(self.now)
    }

    /// Units of work that a thread has done.
    pub fn units(&self, thread: Thread) -> u64 {
        let (core, place) = self.threads[thread.0];
        self.cores[core].threads[place].units
    }

    /// When the last of these were counted.
    pub fn counted(&self, thread: Thread) -> Ps {
        let (core, place) = self.threads[thread.0];
        Ps(self.cores[core].threads[place].counted)
    }

    /// Whether a thread's program has ended.
    pub fn ended(&self, thread: Thread) -> bool {
        let (core, place) = self.threads[thread.0];
        self.cores[core].threads[place].ended
    }

    /// Takes no more operations from a thread's program until it is resumed. What it has begun goes
    /// on.
    pub fn pause(&mut self, thread: Thread) {
        let (core, place) = self.threads[thread.0];
        self.cores[core].threads[place].paused = true;
        self.cores[core].divide();
    }

    /// Goes on with a program that was paused.
    pub fn resume(&mut self, thread: Thread) {
        let (core, place) = self.threads[thread.0];
        self.cores[core].threads[place].resume(self.now);
        self.cores[core].divide();
        self.schedule(core);
    }

    /// From now on a class fills these ways of the last-level cache only, and the second level of a
    /// core in it passes on a request no sooner than so long after the one before. Nothing is
    /// evicted for it.
    ///
    /// # Errors
    /// No such class, or a mask without a way.
    pub fn set_class(&mut self, class: usize, ways: u32, gap_ns: f64) -> Result<(), SetupError> {
        let (ways, gap) = refusal::class(class, ways, self.ways, gap_ns)?;
        let classes = &mut self.outside.classes[class];
        (classes.ways, classes.gap) = (ways, gap);
        Ok(())
    }

    /// From now on a class fills these ways of its cores' second levels only. Nothing is evicted
    /// for it.
    ///
    /// # Errors
    /// No such class, or a mask without a way.
    pub fn set_second(&mut self, class: usize, ways: u32) -> Result<(), SetupError> {
        let (ways, _) = refusal::class(class, ways, self.second, 0.0)?;
        self.outside.classes[class].second = ways;
        Ok(())
    }

    /// From now on each last-level cache passes on reads of a class to memory no sooner than so
    /// long after the one before. 0 takes the limit away.
    ///
    /// # Errors
    /// No such class.
    pub fn limit_reads(&mut self, class: usize, gap_ns: f64) -> Result<(), SetupError> {
        let (_, gap) = refusal::class(class, !0, self.ways, gap_ns)?;
        self.outside.classes[class].read_gap = gap;
        Ok(())
    }

    /// From now on a thread is of another class. What it has filled stays counted for the one that
    /// it was of.
    ///
    /// # Errors
    /// No such class.
    pub fn assign(&mut self, thread: Thread, class: usize) -> Result<(), SetupError> {
        refusal::class(class, !0, self.ways, 0.0)?;
        let (core, place) = self.threads[thread.0];
        self.cores[core].threads[place].class = class;
        Ok(())
    }

    /// Empties the ways that a class may fill of the last-level cache below a thread and reads a
    /// region into them, in no time: what pseudo-locking does before it takes the ways from all
    /// classes. The region's lines are removed from everywhere else.
    ///
    /// # Errors
    /// No such class.
    pub fn fill(&mut self, thread: Thread, class: usize, region: Region) -> Result<(), SetupError> {
        refusal::class(class, !0, self.ways, 0.0)?;
        let (core, _) = self.threads[thread.0];
        self.outside.empty(core, class, self.now);
        for line in 0..region.lines() {
            self.outside.refill(core, class, region.line(line).0, self.now);
        }
        Ok(())
    }

    /// Lines of the last-level cache below a thread that a class filled.
    pub fn occupancy(&self, thread: Thread, class: usize) -> u64 {
        let (core, _) = self.threads[thread.0];
        let llc = &self.outside.llcs[self.outside.cores[core].place.llc];
        llc.occupancy.get(class).copied().unwrap_or_default()
    }

    /// Lines that made room for others in the last-level cache below a thread, since the start of
    /// the run.
    pub fn replaced(&self, thread: Thread) -> u64 {
        let (core, _) = self.threads[thread.0];
        self.outside.llcs[self.outside.cores[core].place.llc].replaced
    }

    /// Lines of the second level of a thread's core that a class filled: all are looked through.
    pub fn second_occupancy(&self, thread: Thread, class: usize) -> u64 {
        let (core, _) = self.threads[thread.0];
        self.outside.cores[core].l2.owners().filter(|owner| usize::from(*owner) == class).count()
            as u64
    }

    /// What the core of a thread counted. Siblings share it.
    pub fn core_counters(&self, thread: Thread) -> CoreCounters {
        self.outside.counters[self.threads[thread.0].0]
    }

    /// What each channel of a node counted until now.
    pub fn channel_counters(&mut self, node: usize) -> Vec<ChannelCounters> {
        let channels = self.memory.channels(node);
        let now = self.now;
        channels
            .map(|channel| {
                self.memory.advance(channel, now);
                self.memory.counters(channel)
            })
            .collect()
    }

    /// Notes down from now on what matters to durability.
    pub fn record(&mut self) {
        self.outside.log.records.get_or_insert_default();
    }

    /// Takes what was noted down.
    pub fn take_records(&mut self) -> Vec<Record> {
        self.outside.log.records.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The lines that caches have newer content of than memory was sent.
    pub fn dirty_lines(&self) -> BTreeSet<Line> {
        let private =
            self.outside.cores.iter().flat_map(|core| core.l1.lines().chain(core.l2.lines()));
        let shared = self.outside.llcs.iter().flat_map(|llc| llc.cache.lines());
        private.chain(shared).filter(|line| line.dirty).map(|line| Line(line.line)).collect()
    }
}
