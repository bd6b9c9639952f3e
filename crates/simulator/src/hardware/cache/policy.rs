//! Which line of a set makes room.

use super::order::Order;
use crate::hardware::bytes::{ONES, maybe_zero};
use crate::hardware::machine::Replacement;

/// A set out of so many inserts by one fixed rule of DRRIP, and another by the other.
const LEADERS: u32 = 64;
/// The duel's counter goes from 0 to this.
const DUEL: u32 = 1023;
/// One insertion out of so many of the bimodal rule is for reuse.
const BIMODAL: u32 = 32;
/// The low and the high bit of a way's prediction. Both are set for what is predicted to be used
/// last.
const LOW: u64 = 1;
const HIGH: u64 = 1 << 32;

/// What is known of the ways of all sets. What fits into a number of 64 bits a set, the cache keeps
/// beside its lines: the [`Order`] of LRU; the bits of a tree, node n's children being 2n and 2n +
/// 1; or DRRIP's predictions, of two bits each, all low ones before all high ones.
pub struct Policy {
    kind: Kind,
    /// A byte a way: its place in the order of use where there are more ways than an [`Order`] has.
    ages: Vec<u8>,
    /// The bits of a tree on the way to each leaf, and those of them that then point elsewhere.
    paths: Vec<(u32, u32)>,
    /// Above the middle, the bimodal rule loses fewer lines.
    duel: u32,
    inserted: u32,
    ways: u32,
    /// A bit for each way.
    all: u32,
    /// Places of a set, as a power of two.
    shift: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Order,
    Ages,
    TreePlru,
    Drrip,
}

impl Policy {
    pub fn new(replacement: Replacement, sets: u32, ways: u32, shift: u32) -> Self {
        let stride = 1 << shift;
        let kind = match replacement {
            Replacement::Lru if ways <= Order::MOST => Kind::Order,
            Replacement::Lru => Kind::Ages,
            Replacement::TreePlru => Kind::TreePlru,
            Replacement::Drrip => Kind::Drrip,
        };
        let ages = match kind {
            Kind::Order | Kind::TreePlru | Kind::Drrip => Vec::new(),
            Kind::Ages => {
                let set = (0..stride).map(|way| if way < ways { way as u8 } else { PADDING });
                set.collect::<Vec<_>>().repeat(sets as usize)
            }
        };
        let levels = ways.next_power_of_two().trailing_zeros();
        let paths = (0..ways).map(|way| path(levels, way)).collect();
        let all = !0 >> (32 - ways);
        Self { kind, ages, paths, duel: DUEL / 2, inserted: 0, ways, all, shift }
    }

    /// What a set's number is at first.
    pub fn word(&self) -> u64 {
        match self.kind {
            Kind::Order => Order::new().0,
            Kind::Ages | Kind::TreePlru => 0,
            Kind::Drrip => !0,
        }
    }

    #[inline]
    fn set(&mut self, set: u32) -> &mut [u8] {
        let start = (set << self.shift) as usize;
        &mut self.ages[start..start + (1 << self.shift)]
    }

    /// A way was used.
    #[inline]
    pub fn used(&mut self, word: &mut u64, set: u32, way: u32) {
        match self.kind {
            Kind::Order => *word = Order(*word).youngest(way).0,
            Kind::Ages => self.youngest(set, way),
            Kind::TreePlru => self.point_away(word, way),
            Kind::Drrip => *word &= !((LOW | HIGH) << way),
        }
    }

    /// A way lost its line.
    #[inline]
    pub fn emptied(&mut self, word: &mut u64, set: u32, way: u32) {
        match self.kind {
            Kind::Order => *word = Order(*word).oldest(way, self.ways).0,
            Kind::Ages => self.oldest(set, way),
            Kind::TreePlru => {}
            Kind::Drrip => *word |= (LOW | HIGH) << way,
        }
    }

    /// The way of a mask that makes room, an empty one if there is one, gets a new line.
    #[inline]
    pub fn replace(&mut self, word: &mut u64, set: u32, mask: u32, empty: u32) -> u32 {
        if !self.wants_empty(mask) && self.kind == Kind::Order {
            let (order, way) = Order(*word).replace_last(self.ways);
            *word = order.0;
            return way;
        }
        let way = self.victim(word, set, mask & self.all, empty);
        match self.kind {
            Kind::Order => *word = Order(*word).youngest(way).0,
            Kind::Ages => self.youngest(set, way),
            Kind::TreePlru => self.point_away(word, way),
            Kind::Drrip => self.predict(word, set, way),
        }
        way
    }

    /// The way that makes room next if all have lines, where that takes no search.
    #[inline]
    pub fn next(&self, word: u64) -> Option<u32> {
        match self.kind {
            Kind::Order => Some(Order(word).last(self.ways)),
            Kind::TreePlru => Some(self.follow(word as u32, self.all)),
            Kind::Drrip => {
                let last = (word & word >> 32) as u32 & self.all;
                (last != 0).then_some(last.trailing_zeros())
            }
            Kind::Ages => None,
        }
    }

    /// Whether it matters which ways are empty when one of a mask makes room: in a whole order they
    /// are the oldest.
    #[inline]
    pub fn wants_empty(&self, mask: u32) -> bool {
        !(matches!(self.kind, Kind::Order | Kind::Ages) && mask & self.all == self.all)
    }

    #[inline]
    fn victim(&mut self, word: &mut u64, set: u32, mask: u32, empty: u32) -> u32 {
        debug_assert!(mask != 0, "no way to insert into");
        if self.kind == Kind::Ages && mask == self.all {
            let last = (self.ways - 1) as u8;
            return find_age(self.set(set), last);
        }
        let empty = empty & mask;
        if empty != 0 {
            return empty.trailing_zeros();
        }
        match self.kind {
            Kind::Order => Order(*word).last_of(self.ways, mask),
            Kind::Ages => {
                let ages = self.set(set);
                let ways = (0..ages.len() as u32).filter(|way| mask >> way & 1 != 0);
                ways.max_by_key(|way| ages[*way as usize]).unwrap_or_default()
            }
            Kind::TreePlru => self.follow(*word as u32, mask),
            Kind::Drrip => age(word, mask),
        }
    }

    fn youngest(&mut self, set: u32, way: u32) {
        let ages = self.set(set);
        let old = ages[way as usize];
        if old == 0 {
            return;
        }
        for eight in ages.as_chunks_mut::<8>().0 {
            for age in eight {
                *age += u8::from(*age < old);
            }
        }
        ages[way as usize] = 0;
    }

    fn oldest(&mut self, set: u32, way: u32) {
        let last = (self.ways - 1) as u8;
        let ages = self.set(set);
        let old = ages[way as usize];
        if old == last {
            return;
        }
        for eight in ages.as_chunks_mut::<8>().0 {
            for age in eight {
                *age -= u8::from(*age > old && *age <= last);
            }
        }
        ages[way as usize] = last;
    }

    fn levels(&self) -> u32 {
        self.ways.next_power_of_two().trailing_zeros()
    }

    #[inline]
    fn point_away(&self, tree: &mut u64, way: u32) {
        let (path, away) = self.paths[way as usize];
        *tree = *tree & !u64::from(path) | u64::from(away);
    }

    // Where the bits point, except into a half that the mask has nothing of.
    #[inline]
    fn follow(&self, tree: u32, mask: u32) -> u32 {
        let (mut node, mut first) = (1, 0);
        for level in (0..self.levels()).rev() {
            let half = 1 << level;
            let ways = |from: u32| (mask as u64 >> from) & ((1 << half) - 1) != 0;
            let mut right = tree >> node & 1;
            if !ways(first + right * half) {
                right = 1 - right;
            }
            first += right * half;
            node = 2 * node + right;
        }
        first
    }

    /// Whether it matters what is looked for in vain.
    #[inline]
    pub fn duels(&self) -> bool {
        self.kind == Kind::Drrip
    }

    /// A line of a set was looked for in vain. That speaks against the rule that the set tries out.
    /// What is inserted says nothing of it: a victim cache takes back what it gave up when it was
    /// hit.
    #[inline]
    pub fn missed(&mut self, set: u32) {
        match set % LEADERS {
            0 => self.duel = (self.duel + 1).min(DUEL),
            1 => self.duel = self.duel.saturating_sub(1),
            _ => {}
        }
    }

    #[inline]
    fn predict(&mut self, word: &mut u64, set: u32, way: u32) {
        self.inserted += 1;
        let bimodal = match set % LEADERS {
            0 => false,
            1 => true,
            _ => self.duel > DUEL / 2,
        };
        let near = !bimodal || self.inserted.is_multiple_of(BIMODAL);
        *word |= (LOW | HIGH) << way;
        if near {
            *word &= !(LOW << way);
        }
    }
}

// All ways of a mask grow older until one of them is distant: the first such.
#[inline]
fn age(word: &mut u64, mask: u32) -> u32 {
    let both = u64::from(mask) * (LOW | HIGH);
    loop {
        let distant = (*word >> 32) as u32 & *word as u32 & mask;
        if distant != 0 {
            return distant.trailing_zeros();
        }
        // A low bit that is set carries.
        *word = *word ^ both & (*word << 32 | u64::from(u32::MAX));
    }
}

/// The age of what only pads a set: older than everything, and never counted up.
const PADDING: u8 = 255;

// The nodes of a tree on the way to a leaf, and of these those whose bit then points away from it.
fn path(levels: u32, way: u32) -> (u32, u32) {
    let (mut node, mut path, mut away) = (1, 0, 0);
    for level in (0..levels).rev() {
        let right = way >> level & 1;
        path |= 1 << node;
        away |= (1 - right) << node;
        node = 2 * node + right;
    }
    (path, away)
}

// The first way with an age.
fn find_age(ages: &[u8], age: u8) -> u32 {
    for (group, eight) in ages.as_chunks::<8>().0.iter().enumerate() {
        let equal = maybe_zero(u64::from_le_bytes(*eight) ^ (ONES * u64::from(age)));
        if equal != 0 {
            return group as u32 * 8 + equal.trailing_zeros() / 8;
        }
    }
    unreachable!("ages are an order of all ways")
}
