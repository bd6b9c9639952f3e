//! An Optane DIMM: a write-combining buffer and a read buffer before media of 256 B blocks, address
//! translations, and wear levelling.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::blocks::Blocks;
use crate::hardware::counters::ChannelCounters;
use crate::hardware::machine::{BlockVictim, Optane};
use crate::hardware::ring::Ring;
use crate::hardware::units::{BLOCK, NEVER, ps, transfer};

/// Lines of a block.
const LINES: u32 = 4;
const WHOLE: u8 = (1 << LINES) - 1;
/// Blocks of an address translation.
const TRANSLATED: u32 = 4096 / BLOCK as u32;
/// Regions whose writes are counted at once.
const REGIONS: u32 = 4096;

/// A DIMM.
pub struct Dimm {
    writes: Blocks<Combined>,
    /// Blocks in the order in which they became whole, and when they did. Blocks that have left the
    /// buffer since then may still be listed.
    whole: Ring<(u32, u64)>,
    /// The length from which that list is tidied: twice the buffer's blocks.
    most_whole: usize,
    reads: Blocks<Read>,
    victim: BlockVictim,
    whole_for: u64,
    buffer_latency: u64,
    media_latency: u64,
    read_ps: u64,
    write_ps: u64,
    partial_ps: u64,
    translations: Vec<u32>,
    translation_miss: u64,
    wear: Option<Regions>,
    /// Until when the media is taken.
    media_free: u64,
    /// From when on the buffer takes another line.
    ready: u64,
    /// Counts what entered the buffers, to tell what is oldest.
    age: u64,
    lot: Xoshiro256PlusPlus,
    reads_hit: u64,
    combined: u64,
    blocks_read: u64,
    blocks_written: u64,
    partial: u64,
    translation_misses: u64,
    moves: u64,
}

/// What the write-combining buffer has of a block.
#[derive(Debug, Clone, Copy, Default)]
struct Combined {
    lines: u8,
    /// Its other lines, too, are here from this time on, or never.
    known: u64,
    age: u64,
    whole_at: u64,
}

/// When a block came into the read buffer.
#[derive(Debug, Clone, Copy, Default)]
struct Read {
    ready: u64,
    age: u64,
}

struct Regions {
    /// Which region a place counts, and how often it was written.
    counts: Vec<(u32, u32)>,
    /// Blocks of a region, as a power of two.
    shift: u32,
    writes: u32,
    stall: u64,
}

impl Dimm {
    pub fn new(optane: &Optane, seed: u64) -> Self {
        let wear = optane.wear.as_ref().map(|wear| Regions {
            counts: vec![(u32::MAX, 0); REGIONS as usize],
            shift: (wear.region_bytes / BLOCK as u32).trailing_zeros(),
            writes: wear.writes,
            stall: ps(wear.stall_ns),
        });
        let most_whole = 2 * optane.write_buffer_blocks as usize;
        Self {
            writes: Blocks::new(optane.write_buffer_blocks, optane.write_buffer_ways),
            whole: Ring::new(most_whole, (0, 0)),
            most_whole,
            reads: Blocks::new(optane.read_buffer_blocks, optane.read_buffer_ways),
            victim: optane.victim,
            whole_for: ps(optane.whole_block_ns),
            buffer_latency: ps(optane.buffer_latency_ns),
            media_latency: ps(optane.media_latency_ns),
            read_ps: transfer(BLOCK, optane.media_read_gb_per_s),
            write_ps: transfer(BLOCK, optane.media_write_gb_per_s),
            partial_ps: ps(optane.partial_block_ns),
            translations: vec![u32::MAX; optane.translations as usize],
            translation_miss: ps(optane.translation_miss_ns),
            wear,
            media_free: 0,
            ready: 0,
            age: 0,
            lot: Xoshiro256PlusPlus::seed_from_u64(seed),
            reads_hit: 0,
            combined: 0,
            blocks_read: 0,
            blocks_written: 0,
            partial: 0,
            translation_misses: 0,
            moves: 0,
        }
    }

    /// From when on the buffer takes another line.
    #[inline]
    pub fn write_ready(&self) -> u64 {
        self.ready
    }

    /// Lines that wait for the media at a time, and how long the media take to read one.
    pub fn backlog(&self, at: u64) -> (u64, u64) {
        let (lines, wait) = (u64::from(LINES), self.media_free.saturating_sub(at));
        (lines * wait / self.read_ps.max(1), self.read_ps / lines)
    }

    // Writes the whole blocks whose time has come, in the order in which they became whole: all
    // that the media could begin before `at`.
    #[inline]
    fn write_due(&mut self, at: u64) {
        while let Some((block, whole_at)) = self.whole.front().copied() {
            let start = (whole_at + self.whole_for).max(self.media_free);
            if start >= at {
                break;
            }
            self.whole.pop_front();
            if self.is_here(block, whole_at) {
                self.writes.remove(block);
                self.media_write(block, true, start);
            }
        }
    }

    // Whether the block that became whole at this time is still in the buffer.
    fn is_here(&mut self, block: u32, whole_at: u64) -> bool {
        let found = self.writes.find(block);
        found.is_some_and(|state| state.lines == WHOLE && state.whole_at == whole_at)
    }

    fn note_whole(&mut self, block: u32, at: u64) {
        // While the media are never idle, blocks only leave by eviction, and stay in the list.
        if self.whole.len() == self.most_whole {
            for _ in 0..self.most_whole {
                let Some((block, whole_at)) = self.whole.pop_front() else { break };
                if self.is_here(block, whole_at) {
                    self.whole.push_back((block, whole_at));
                }
            }
        }
        self.whole.push_back((block, at));
    }

    /// A line arrives, not before the buffer is ready for it.
    pub fn write(&mut self, line: u32, at: u64) {
        self.write_due(at);
        let (block, bit) = (line / LINES, 1 << (line % LINES));
        self.age += 1;
        if let Some(found) = self.writes.find(block) {
            if found.lines == WHOLE && found.whole_at + self.whole_for <= at {
                // The media are already due to write that copy, so this line starts a new one.
                *found = Combined { lines: bit, known: NEVER, age: self.age, whole_at: 0 };
                self.ready = self.media_write(block, true, at);
                return;
            }
            self.combined += 1;
            let was = found.lines;
            found.lines |= bit;
            if was != WHOLE && found.lines == WHOLE {
                found.whole_at = at;
                self.note_whole(block, at);
            }
            return;
        }
        // A block that was read moves from one buffer to the other.
        let known = self.reads.remove(block).map_or(NEVER, |read| read.ready);
        let new = Combined { lines: bit, known, age: self.age, whole_at: 0 };
        let (victim, lot) = (self.victim, &mut self.lot);
        let replaced = self.writes.insert(block, new, |states| choose(states, victim, lot));
        if let Some((old, state)) = replaced {
            self.ready = self.media_write(old, state.lines == WHOLE, at);
        }
    }

    // Writes a block to the media at a time, or once they are free; returns when that starts.
    fn media_write(&mut self, block: u32, whole: bool, at: u64) -> u64 {
        let start = at.max(self.media_free);
        self.media_free = start + self.write_ps + if whole { 0 } else { self.partial_ps };
        self.blocks_written += 1;
        self.partial += u64::from(!whole);
        if let Some(regions) = &mut self.wear
            && regions.written(block)
        {
            self.media_free += regions.stall;
            self.moves += 1;
        }
        start
    }

    /// A line is asked for; when its data is there.
    #[inline(always)]
    pub fn read(&mut self, line: u32, at: u64) -> u64 {
        self.write_due(at);
        let block = line / LINES;
        if let Some(found) = self.writes.find(block) {
            let ready = if found.lines & 1 << (line % LINES) != 0 { 0 } else { found.known };
            if ready != NEVER {
                self.reads_hit += 1;
                return (at + self.buffer_latency).max(ready);
            }
        }
        if let Some(found) = self.reads.find(block) {
            self.reads_hit += 1;
            return (at + self.buffer_latency).max(found.ready);
        }
        let translation = block / TRANSLATED;
        let place = translation as usize & (self.translations.len() - 1);
        let known = &mut self.translations[place];
        let missed = std::mem::replace(known, translation) != translation;
        self.translation_misses += u64::from(missed);
        let start = at.max(self.media_free);
        self.media_free = start + self.read_ps;
        self.blocks_read += 1;
        let ready = start + self.media_latency + if missed { self.translation_miss } else { 0 };
        self.age += 1;
        self.reads
            .insert(block, Read { ready, age: self.age }, |states| oldest(states, |read| read.age));
        ready
    }

    /// Adds what the DIMM counted.
    pub fn count(&self, counters: &mut ChannelCounters) {
        counters.reads_from_buffers = self.reads_hit;
        counters.writes_combined = self.combined;
        counters.blocks_read = self.blocks_read;
        counters.blocks_written = self.blocks_written;
        counters.partial_blocks = self.partial;
        counters.translation_misses = self.translation_misses;
        counters.wear_moves = self.moves;
    }
}

impl Regions {
    // Counts a write; returns whether the region is moved for it. Counts start at zero, so writes
    // that are spread over many regions cause no stall. In OptaneStudy six DIMMs write six times as
    // fast as one, so such writes cannot stall a DIMM.
    fn written(&mut self, block: u32) -> bool {
        let region = block >> self.shift;
        let place = &mut self.counts[(region % REGIONS) as usize];
        if place.0 != region {
            *place = (region, 0);
        }
        place.1 += 1;
        let moved = place.1 >= self.writes;
        if moved {
            place.1 = 0;
        }
        moved
    }
}

// Of whole blocks one, or of all, if none is whole.
fn choose(states: &[Combined], victim: BlockVictim, lot: &mut Xoshiro256PlusPlus) -> usize {
    let whole = states.iter().filter(|state| state.lines == WHOLE).count();
    let mut among =
        states.iter().enumerate().filter(|(_, state)| whole == 0 || state.lines == WHOLE);
    match victim {
        BlockVictim::Oldest => {
            among.min_by_key(|(_, state)| state.age).map_or(0, |(place, _)| place)
        }
        BlockVictim::Random => {
            let count = if whole == 0 { states.len() } else { whole };
            among.nth(below(lot, count as u32) as usize).map_or(0, |(place, _)| place)
        }
    }
}

fn oldest<S>(states: &[S], age: impl Fn(&S) -> u64) -> usize {
    (0..states.len()).min_by_key(|place| age(&states[*place])).unwrap_or_default()
}

// A number below another, as good as evenly.
fn below(lot: &mut Xoshiro256PlusPlus, limit: u32) -> u32 {
    ((u64::from(lot.next_u32()) * u64::from(limit)) >> 32) as u32
}
