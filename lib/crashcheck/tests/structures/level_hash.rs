//! A persistent hash table: level hashing, after "Write-Optimized and High-Performance Hashing
//! Index Scheme for Persistent Memory" (Zuo, Hua, Wu, OSDI 2018).
//!
//! A top level of 2^n buckets and a bottom level of half as many; a key has two places in each by
//! two hash functions. One bit for each slot of a bucket, its *token*, says whether the slot
//! counts, so that insertion, deletion and most updates commit by one store of 8 bytes without a
//! log. To expand, a level of 2^(n+1) buckets becomes the top, the top becomes the bottom, and what
//! was in the old bottom is rehashed.
//!
//! Where the paper leaves a crash open, or the published code was found wrong (Fu et al.,
//! "Witcher", SOSP 2021, whose numbers of bugs are given), this closes it: addresses and size of
//! the levels are one word, so that an expansion is published at once and its state survives; what
//! a movement left twice is removed by recovery.
//!
//! In memory, in bytes: a line of header, a line of log, then levels. A bucket has two lines: a
//! word of tokens, then up to three slots of 40 bytes, of which the first shares a line with the
//! tokens and the others do not.

use std::ops::Range;

use ringfence_persist::Memory;

/// Bytes of a value.
pub const VALUE: usize = 32;

const MAGIC: u64 = 0x4c45_5645_4c48_4153;
const AT_MAGIC: usize = 0;
const AT_GEOMETRY: usize = 8;
const AT_SLOTS: usize = 16;
const AT_COUNT: usize = 24;
// The log: where a value was overwritten, the value before it, and in the line's last word whether
// it counts.
const AT_LOG: usize = 64;
const AT_LOG_FLAG: usize = AT_LOG + 56;
const FIRST_LEVEL: usize = 2;

const LINE: usize = 64;
const BUCKET: usize = 128;
const SLOT: usize = 8 + VALUE;

/// What can be done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// The token is stored before the slot is durable (Witcher 7 to 16).
    TokenWithSlot,
    /// The line of the token is flushed, and the slot's others are not.
    SlotNotFlushed,
    /// An update turns the old token off and the new one on by two stores (Witcher 22, 23).
    TwoTokens,
    /// An update in place is not logged.
    NoLog,
    /// The log says that it counts before it is filled.
    LogFlagFirst,
    /// The log is cleared before the new value is durable.
    LogClearedEarly,
    /// A movement deletes the old item before the new one is durable.
    MoveDeletesEarly,
    /// Recovery leaves what a movement or a rehash left twice (Witcher 19 to 21).
    KeepTwice,
    /// The new size is published before the new level is (Witcher 17).
    SizeFirst,
    /// The new level is made the top before the bottom is rehashed.
    PublishBeforeRehash,
    /// The place of the new level is not noted until it is complete.
    InterimNotNoted,
    /// The new level is published though the lines of what was rehashed were not flushed.
    RehashNotFlushed,
    /// The number of items is kept in a word of its own, and believed.
    CountApart,
}

/// There is no memory left for another level, or items of one bucket that no level parts.
#[derive(Debug)]
pub struct Full;

/// A table over memory.
pub struct LevelHash<M> {
    memory: M,
    slots: usize,
    bug: Option<Bug>,
}

// Levels are given by their first line, 0 being none; `1 << size` buckets in the top.
#[derive(Debug, Clone, Copy)]
struct Geometry {
    size: u32,
    top: usize,
    bottom: usize,
    interim: usize,
}

#[derive(Debug, Clone, Copy)]
struct Level {
    line: usize,
    buckets: usize,
}

// A slot: its bucket's offset, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    bucket: usize,
    slot: usize,
}

impl Geometry {
    fn pack(self) -> u64 {
        u64::from(self.size)
            | (self.top as u64) << 8
            | (self.bottom as u64) << 24
            | (self.interim as u64) << 40
    }

    fn unpack(word: u64) -> Self {
        let line = |shift: u32| (word >> shift & 0xffff) as usize;
        Self { size: (word & 0xff) as u32, top: line(8), bottom: line(24), interim: line(40) }
    }

    fn levels(self) -> [Level; 2] {
        let top = Level { line: self.top, buckets: 1 << self.size };
        [top, Level { line: self.bottom, buckets: top.buckets / 2 }]
    }

    fn interim(self) -> Level {
        Level { line: self.interim, buckets: 2 << self.size }
    }
}

impl Level {
    fn bucket(self, number: usize) -> usize {
        self.line * LINE + number * BUCKET
    }

    // The two buckets of a key: one in each half. A level of one bucket has but that.
    fn candidates(self, key: u64) -> [usize; 2] {
        let half = self.buckets / 2;
        if half == 0 {
            return [self.bucket(0); 2];
        }
        let number = |seed: u64| (hash(key, seed) % half as u64) as usize;
        [self.bucket(number(1)), self.bucket(half + number(2))]
    }
}

impl Place {
    fn range(self) -> Range<usize> {
        let at = self.bucket + 8 + self.slot * SLOT;
        at..at + SLOT
    }

    // Stores to the line of the tokens reach memory in order.
    fn beside_tokens(self) -> bool {
        self.range().end <= self.bucket + LINE
    }
}

// The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
fn hash(key: u64, seed: u64) -> u64 {
    let z = key.wrapping_add(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl<M: Memory> LevelHash<M> {
    /// Makes an empty table with `1 << size` buckets of 1 to 3 slots in its top level, durable on
    /// return. The memory must be zero.
    pub fn create(memory: M, size: u32, slots: usize, bug: Option<Bug>) -> Self {
        assert!((1..=3).contains(&slots) && size >= 1);
        let lines = (BUCKET / LINE) << size;
        let geometry =
            Geometry { size, top: FIRST_LEVEL + lines / 2, bottom: FIRST_LEVEL, interim: 0 };
        memory.store_u64(AT_SLOTS, slots as u64);
        memory.store_u64(AT_GEOMETRY, geometry.pack());
        memory.store_u64(AT_MAGIC, MAGIC);
        let table = Self { memory, slots, bug };
        table.persist(0..LINE);
        table
    }

    /// Finds a table and repairs what a crash left half done: `None` if there is none.
    pub fn open(memory: M, bug: Option<Bug>) -> Option<Result<Self, Full>> {
        if memory.load_u64(AT_MAGIC) != MAGIC {
            return None;
        }
        let slots = memory.load_u64(AT_SLOTS) as usize;
        let table = Self { memory, slots, bug };
        table.undo_update();
        let geometry = table.geometry();
        if geometry.interim != 0 && table.rehash(geometry).is_err() {
            return Some(Err(Full));
        }
        if bug != Some(Bug::KeepTwice) {
            table.remove_twins();
        }
        Some(Ok(table))
    }

    /// The value of a key.
    pub fn get(&self, key: u64) -> Option<[u8; VALUE]> {
        self.find(key).map(|place| self.item(place).1)
    }

    /// Adds a key that is not there yet; durable on return.
    pub fn insert(&self, key: u64, value: &[u8; VALUE]) -> Result<(), Full> {
        loop {
            let levels = self.geometry().levels();
            let empty = levels.iter().find_map(|level| self.empty(level.candidates(key)));
            if let Some(place) = empty.or_else(|| self.make_room(key)) {
                self.fill(place, key, value);
                self.count(1);
                return Ok(());
            }
            self.expand()?;
        }
    }

    /// Replaces the value of a key; durable on return. False if it is not there.
    pub fn update(&self, key: u64, value: &[u8; VALUE]) -> bool {
        let Some(old) = self.find(key) else { return false };
        let Some(new) = self.empty([old.bucket; 2]) else {
            self.update_in_place(old, value);
            return true;
        };
        self.write_slot(new, key, value);
        let tokens = self.memory.load_u64(old.bucket);
        if self.bug == Some(Bug::TwoTokens) {
            self.memory.store_u64(old.bucket, tokens & !(1 << old.slot));
        }
        // Both tokens change at once.
        self.set_tokens(old.bucket, tokens & !(1 << old.slot) | 1 << new.slot);
        true
    }

    /// Removes a key; durable on return. False if it is not there.
    pub fn delete(&self, key: u64) -> bool {
        let Some(place) = self.find(key) else { return false };
        self.clear(place);
        self.count(-1);
        true
    }

    /// Everything that is there, in order of keys.
    pub fn items(&self) -> Vec<(u64, [u8; VALUE])> {
        let mut items: Vec<_> =
            self.places(&self.geometry().levels()).map(|place| self.item(place)).collect();
        items.sort_unstable();
        items
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        match self.bug {
            Some(Bug::CountApart) => self.memory.load_u64(AT_COUNT) as usize,
            _ => self.places(&self.geometry().levels()).count(),
        }
    }

    fn geometry(&self) -> Geometry {
        Geometry::unpack(self.memory.load_u64(AT_GEOMETRY))
    }

    fn publish(&self, geometry: Geometry) {
        self.memory.store_u64(AT_GEOMETRY, geometry.pack());
        self.persist(AT_GEOMETRY..AT_GEOMETRY + 8);
    }

    fn persist(&self, range: Range<usize>) {
        self.memory.flush(range);
        self.memory.sfence();
    }

    fn count(&self, change: i64) {
        if self.bug == Some(Bug::CountApart) {
            let count = self.memory.load_u64(AT_COUNT).wrapping_add_signed(change);
            self.memory.store_u64(AT_COUNT, count);
            self.persist(AT_COUNT..AT_COUNT + 8);
        }
    }

    // Slots that count, of all buckets of these levels.
    fn places<'a>(&'a self, levels: &'a [Level]) -> impl Iterator<Item = Place> + 'a {
        let buckets =
            levels.iter().flat_map(|level| (0..level.buckets).map(|number| level.bucket(number)));
        buckets.flat_map(|bucket| self.taken(bucket))
    }

    fn taken(&self, bucket: usize) -> impl Iterator<Item = Place> + use<M> {
        let tokens = self.memory.load_u64(bucket);
        (0..self.slots)
            .filter(move |slot| tokens >> slot & 1 == 1)
            .map(move |slot| Place { bucket, slot })
    }

    fn item(&self, place: Place) -> (u64, [u8; VALUE]) {
        let mut value = [0; VALUE];
        self.memory.load(place.range().start + 8, &mut value);
        (self.memory.load_u64(place.range().start), value)
    }

    fn find(&self, key: u64) -> Option<Place> {
        self.find_in(&self.geometry().levels(), key)
    }

    fn find_in(&self, levels: &[Level], key: u64) -> Option<Place> {
        let buckets = levels.iter().flat_map(|level| level.candidates(key));
        buckets
            .flat_map(|bucket| self.taken(bucket))
            .find(|place| self.memory.load_u64(place.range().start) == key)
    }

    // A free slot in the emptier of two buckets.
    fn empty(&self, buckets: [usize; 2]) -> Option<Place> {
        let bucket = buckets.into_iter().min_by_key(|bucket| self.taken(*bucket).count())?;
        let tokens = self.memory.load_u64(bucket);
        (0..self.slots).find(|slot| tokens >> slot & 1 == 0).map(|slot| Place { bucket, slot })
    }

    fn set_tokens(&self, bucket: usize, tokens: u64) {
        self.memory.store_u64(bucket, tokens);
        self.persist(bucket..bucket + 8);
    }

    fn clear(&self, place: Place) {
        self.set_tokens(place.bucket, self.memory.load_u64(place.bucket) & !(1 << place.slot));
    }

    // Fills a slot, so that its token can be set.
    fn write_slot(&self, place: Place, key: u64, value: &[u8; VALUE]) {
        let range = place.range();
        self.memory.store_u64(range.start, key);
        self.memory.store(range.start + 8, value);
        if place.beside_tokens() || self.bug == Some(Bug::SlotNotFlushed) {
            return;
        }
        self.memory.flush(range);
        if self.bug != Some(Bug::TokenWithSlot) {
            self.memory.sfence();
        }
    }

    fn fill(&self, place: Place, key: u64, value: &[u8; VALUE]) {
        self.write_slot(place, key, value);
        self.set_tokens(place.bucket, self.memory.load_u64(place.bucket) | 1 << place.slot);
    }

    // No slot is free: what was there before is kept in the log until the new value is durable.
    fn update_in_place(&self, place: Place, value: &[u8; VALUE]) {
        let at = place.range().start + 8;
        let old = self.item(place).1;
        let store = |value: &[u8; VALUE]| {
            self.memory.store(at, value);
            self.memory.flush(at..at + VALUE);
        };
        if self.bug == Some(Bug::NoLog) {
            store(value);
            self.memory.sfence();
            return;
        }
        if self.bug == Some(Bug::LogFlagFirst) {
            self.memory.store_u64(AT_LOG_FLAG, 1);
        }
        self.memory.store_u64(AT_LOG, at as u64);
        self.memory.store(AT_LOG + 8, &old);
        // In the same line as the rest, and last.
        self.memory.store_u64(AT_LOG_FLAG, 1);
        self.persist(AT_LOG..AT_LOG + LINE);
        store(value);
        if self.bug != Some(Bug::LogClearedEarly) {
            self.memory.sfence();
        }
        self.memory.store_u64(AT_LOG_FLAG, 0);
        self.persist(AT_LOG_FLAG..AT_LOG_FLAG + 8);
    }

    fn undo_update(&self) {
        if self.memory.load_u64(AT_LOG_FLAG) == 0 {
            return;
        }
        let at = self.memory.load_u64(AT_LOG) as usize;
        let mut old = [0; VALUE];
        self.memory.load(AT_LOG + 8, &mut old);
        self.memory.store(at, &old);
        self.persist(at..at + VALUE);
        self.memory.store_u64(AT_LOG_FLAG, 0);
        self.persist(AT_LOG_FLAG..AT_LOG_FLAG + 8);
    }

    // Moves one item out of the key's buckets: to its other bucket of the same level, or from the
    // bottom to the top.
    fn make_room(&self, key: u64) -> Option<Place> {
        let [top, bottom] = self.geometry().levels();
        for (from, to) in [(top, top), (bottom, bottom), (bottom, top)] {
            for place in from.candidates(key).into_iter().flat_map(|bucket| self.taken(bucket)) {
                let (other, value) = self.item(place);
                if let Some(free) = self.empty(to.candidates(other)) {
                    self.move_item(place, free, other, &value);
                    return Some(place);
                }
            }
        }
        None
    }

    // For a moment the item is there twice, and never not at all.
    fn move_item(&self, from: Place, to: Place, key: u64, value: &[u8; VALUE]) {
        if self.bug == Some(Bug::MoveDeletesEarly) {
            self.write_slot(to, key, value);
            self.memory.store_u64(to.bucket, self.memory.load_u64(to.bucket) | 1 << to.slot);
            self.memory.flush(to.bucket..to.bucket + 8);
        } else {
            self.fill(to, key, value);
        }
        self.clear(from);
    }

    // A key counts where it is found first.
    fn remove_twins(&self) {
        let levels = self.geometry().levels();
        let places: Vec<Place> = self.places(&levels).collect();
        for place in places {
            let (key, _) = self.item(place);
            if self.find_in(&levels, key) != Some(place) {
                self.clear(place);
            }
        }
    }

    fn expand(&self) -> Result<(), Full> {
        let old = self.geometry();
        // Behind the top, which was the last before: what a crash leaves here unnoted is used
        // again.
        let [top, _] = old.levels();
        let interim = top.bucket(top.buckets) / LINE;
        let geometry = Geometry { interim, ..old };
        let level = geometry.interim();
        if level.bucket(level.buckets) > self.memory.len() {
            return Err(Full);
        }
        if self.bug == Some(Bug::SizeFirst) {
            self.publish(Geometry { size: old.size + 1, ..old });
        }
        match self.bug {
            Some(Bug::InterimNotNoted) => {}
            Some(Bug::PublishBeforeRehash) => self.publish(expanded(geometry)),
            _ => self.publish(geometry),
        }
        self.rehash(geometry)
    }

    // Moves what is still in the bottom to the new level, and then makes that the top. It may have
    // begun earlier.
    fn rehash(&self, geometry: Geometry) -> Result<(), Full> {
        let (bottom, interim) = (geometry.levels()[1], geometry.interim());
        let places: Vec<Place> = self.places(&[bottom]).collect();
        for place in places {
            let (key, value) = self.item(place);
            if self.find_in(&[interim], key).is_none() {
                let free = self.empty(interim.candidates(key)).ok_or(Full)?;
                if self.bug == Some(Bug::RehashNotFlushed) {
                    self.memory.store_u64(free.range().start, key);
                    self.memory.store(free.range().start + 8, &value);
                    self.memory
                        .store_u64(free.bucket, self.memory.load_u64(free.bucket) | 1 << free.slot);
                } else {
                    self.fill(free, key, &value);
                }
            }
            self.clear(place);
        }
        self.publish(expanded(geometry));
        Ok(())
    }
}

fn expanded(old: Geometry) -> Geometry {
    Geometry { size: old.size + 1, top: old.interim, bottom: old.top, interim: 0 }
}
