//! What the caches are made of.

use super::in_flight::UnderWay;
use super::streamer::Streamer;
use crate::hardware::cache::{ALL_WAYS, Cache, Slot};
use crate::hardware::counters::CoreCounters;
use crate::hardware::event::{Event, Log, Request};
use crate::hardware::machine::{AfterClwb, Inclusion, Machine};
use crate::hardware::pages::Pages;
use crate::hardware::program::Line;
use crate::hardware::record::Record;
use crate::hardware::time::Ps;
use crate::hardware::units::ps;
use crate::hardware::wheel::Wheel;

/// Everything outside the cores that is not memory itself.
pub struct Hierarchy {
    pub pages: Pages,
    pub log: Log,
    pub cores: Vec<Private>,
    pub llcs: Vec<Shared>,
    pub classes: Vec<Class>,
    pub counters: Vec<CoreCounters>,
    pub times: Times,
    pub under_way: UnderWay,
    pub inclusion: Inclusion,
    pub clwb: AfterClwb,
    nodes: usize,
    /// What the way takes from each core to each node.
    ways: Vec<u64>,
}

/// Where a core is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its last-level cache, counted over those in use.
    pub llc: usize,
    /// Its socket.
    pub socket: u32,
}

/// A core's own caches.
pub struct Private {
    pub l1: Cache,
    /// What is known of the line in each place of the first level.
    pub first: Vec<First>,
    pub l2: Cache,
    pub streamer: Streamer,
    pub place: Place,
    /// From when on the throttle lets another request pass.
    pub throttled: u64,
}

/// What is known of a line in the first level.
#[derive(Debug, Clone, Copy, Default)]
pub struct First {
    /// When it is there.
    pub ready: u64,
    /// Its place in the second level, which has it as long as the first does.
    pub second: Slot,
}

/// A last-level cache.
pub struct Shared {
    pub cache: Cache,
    /// Lines by class.
    pub occupancy: Vec<u64>,
    /// Lines that made room.
    pub replaced: u64,
    /// When each class may read from memory again, where its reads are limited.
    pub limited: Vec<u64>,
    /// The cores below it.
    pub cores: u64,
}

/// What a class of service may do.
#[derive(Debug, Clone, Copy)]
pub struct Class {
    /// Ways of the last-level cache that it may fill.
    pub ways: u32,
    /// Ways of the second level that it may fill.
    pub second: u32,
    /// The least time between two requests of a core that pass its second level.
    pub gap: u64,
    /// The least time between two of its reads that a last-level cache passes on to memory.
    pub read_gap: u64,
}

/// Times of the description.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    pub l1: u64,
    pub l2: u64,
    pub llc: u64,
    pub to_memory: u64,
    pub from_memory: u64,
    pub flush: u64,
    pub clwb: u64,
    pub absent: u64,
    pub nt: u64,
    pub remote: u64,
    pub core_to_core: u64,
}

impl Hierarchy {
    /// Empty caches for the cores at these places, each place's last-level cache being counted from
    /// 0.
    pub fn new(machine: &Machine, places: &[Place], classes: usize) -> Self {
        let uncore = &machine.uncore;
        let count = places.iter().map(|place| place.llc + 1).max().unwrap_or(0);
        let private = |place: &Place| {
            let l1 = Cache::new(machine.l1.size_kib, machine.l1.ways, machine.l1.replacement);
            let l2 = Cache::new(machine.l2.size_kib, machine.l2.ways, machine.l2.replacement);
            let streamer = Streamer::new(machine.prefetcher.as_ref());
            let first = vec![First::default(); l1.slots()];
            Private { first, l1, l2, streamer, place: *place, throttled: 0 }
        };
        let shared = |llc: usize| {
            let cache = Cache::new(machine.llc.size_kib, machine.llc.ways, machine.llc.replacement);
            let below = places.iter().enumerate().filter(|(_, place)| place.llc == llc);
            Shared {
                cache,
                occupancy: vec![0; classes],
                replaced: 0,
                limited: vec![0; classes],
                cores: below.map(|(core, _)| 1 << core).sum(),
            }
        };
        let remote = ps(uncore.remote_ns);
        let ways = |place: &Place| {
            let socket = place.socket;
            machine.nodes.iter().map(move |node| if node.socket == socket { 0 } else { remote })
        };
        Self {
            pages: Pages::default(),
            log: Log { wheel: Wheel::new(Event::Core(0)), records: None },
            cores: places.iter().map(private).collect(),
            llcs: (0..count).map(shared).collect(),
            classes: vec![Class { ways: ALL_WAYS, second: ALL_WAYS, gap: 0, read_gap: 0 }; classes],
            counters: vec![CoreCounters::default(); places.len()],
            times: Times {
                l1: ps(machine.l1.latency_ns),
                l2: ps(machine.l2.latency_ns),
                llc: ps(machine.llc.latency_ns),
                to_memory: ps(uncore.to_memory_ns),
                from_memory: ps(uncore.from_memory_ns),
                flush: ps(uncore.flush_ns),
                clwb: ps(uncore.clwb_ns.unwrap_or(uncore.flush_ns)),
                absent: ps(uncore.absent_flush_ns.unwrap_or(machine.llc.latency_ns)),
                nt: ps(uncore.nt_ns),
                remote,
                core_to_core: ps(uncore.core_to_core_ns),
            },
            under_way: UnderWay::default(),
            inclusion: machine.llc.inclusion,
            clwb: machine.core.clwb,
            nodes: machine.nodes.len(),
            ways: places.iter().flat_map(ways).collect(),
        }
    }

    /// What the way between a core and a node takes because they are on different sockets.
    #[inline]
    pub fn way(&self, core: usize, node: usize) -> u64 {
        self.ways[core * self.nodes + node]
    }

    /// The same for a line's memory.
    #[inline]
    pub fn distance(&self, core: usize, line: u32) -> u64 {
        self.way(core, self.pages.node(line))
    }

    /// When a request that is made at a time may pass the throttle between the second and the last
    /// level.
    #[inline]
    pub fn throttle(&mut self, core: usize, class: usize, at: u64) -> u64 {
        let gap = self.classes[class].gap;
        if gap == 0 {
            return at;
        }
        let free = &mut self.cores[core].throttled;
        let start = at.max(*free);
        *free = start + gap;
        start
    }

    /// When a read that leaves a last-level cache at a time may continue to memory.
    #[inline]
    pub fn limit(&mut self, llc: usize, class: usize, at: u64) -> u64 {
        let gap = self.classes[class].read_gap;
        if gap == 0 {
            return at;
        }
        let free = &mut self.llcs[llc].limited[class];
        let start = at.max(*free);
        *free = start + gap;
        start
    }

    /// Sends a line to memory, from a cache or a thread's write-combining buffer, which takes so
    /// much longer.
    #[inline]
    pub fn send(&mut self, request: Request, thread: Option<u32>, at: u64, longer: u64) {
        let arrival = self.ask(request, at + longer, 0);
        self.under_way.add(request.line, arrival);
        self.log.record(Record::Left { line: Line(request.line), thread, at: Ps(at) });
    }

    /// Asks memory for what is not a read, and is not there before a time; when it arrives.
    #[inline]
    pub(super) fn ask(&mut self, request: Request, at: u64, earliest: u64) -> u64 {
        let arrival = at + self.times.to_memory + self.distance(request.core.into(), request.line);
        let arrival = arrival.max(earliest);
        self.log.wheel.push(arrival, request.core.into(), Event::Write(request));
        arrival
    }

    /// The line that a place of a core's first level waits for is there at a time.
    #[inline]
    pub fn filled(&mut self, core: usize, slot: Slot, line: u32, at: u64) {
        let private = &mut self.cores[core];
        if private.l1.holds(slot, line) {
            private.first[slot as usize].ready = at;
        }
    }
}

impl Private {
    /// Takes a line out of both levels; whether it was there, and dirty.
    #[inline]
    pub fn take(&mut self, line: u32) -> Option<bool> {
        let Some(slot) = self.l1.find(line) else {
            let second = self.l2.find(line)?;
            return Some(self.l2.remove(second));
        };
        let dirty = self.l1.remove(slot);
        Some(self.l2.remove(self.first[slot as usize].second) || dirty)
    }

    /// Makes a line clean in both levels; whether it was there, and dirty.
    #[inline]
    pub fn clean(&mut self, line: u32) -> Option<bool> {
        let Some(slot) = self.l1.find(line) else {
            let second = self.l2.find(line)?;
            return Some(self.l2.clean(second));
        };
        let dirty = self.l1.clean(slot);
        Some(self.l2.clean(self.first[slot as usize].second) || dirty)
    }
}

impl Shared {
    /// Takes a place's line out; whether it was dirty.
    #[inline]
    pub fn remove(&mut self, slot: Slot) -> bool {
        self.occupancy[usize::from(self.cache.owner(slot))] -= 1;
        self.cache.remove(slot)
    }
}

/// The numbers of the bits that are set.
#[inline]
pub fn each(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = bits.trailing_zeros();
        bits &= bits.checked_sub(1)?;
        Some(next as usize)
    })
}
