//! Which line of a set makes room.

use crate::machine::Replacement;

/// A set out of so many inserts by one fixed rule of DRRIP, and another by the other.
const LEADERS: u32 = 64;
/// The duel's counter goes from 0 to this.
const DUEL: u32 = 1023;
/// One insertion out of so many of the bimodal rule is for reuse.
const BIMODAL: u32 = 32;
/// Predicted to be used last, in two bits.
const DISTANT: u8 = 3;

/// What is known of the ways of all sets.
pub struct Policy {
    kind: Replacement,
    /// A byte a way: its place in the order of use for LRU, the prediction for DRRIP.
    ages: Vec<u8>,
    /// The bits of a set's tree, node n's children being 2n and 2n + 1.
    trees: Vec<u32>,
    /// Above the middle, the bimodal rule loses fewer lines.
    duel: u32,
    inserted: u32,
    ways: u32,
    /// Places of a set, as a power of two.
    shift: u32,
}

impl Policy {
    pub fn new(kind: Replacement, sets: u32, ways: u32, shift: u32) -> Self {
        let stride = 1 << shift;
        let ages = match kind {
            Replacement::Lru => {
                let set = (0..stride).map(|way| if way < ways { way as u8 } else { PADDING });
                set.collect::<Vec<_>>().repeat(sets as usize)
            }
            Replacement::Drrip => vec![DISTANT; (sets * stride) as usize],
            Replacement::TreePlru => Vec::new(),
        };
        let trees = if kind == Replacement::TreePlru { vec![0; sets as usize] } else { Vec::new() };
        Self { kind, ages, trees, duel: DUEL / 2, inserted: 0, ways, shift }
    }

    #[inline]
    fn set(&mut self, set: u32) -> &mut [u8] {
        let start = (set << self.shift) as usize;
        &mut self.ages[start..start + (1 << self.shift)]
    }

    /// A way was used.
    #[inline]
    pub fn used(&mut self, set: u32, way: u32) {
        match self.kind {
            Replacement::Lru => self.youngest(set, way),
            Replacement::TreePlru => self.point_away(set, way),
            Replacement::Drrip => self.set(set)[way as usize] = 0,
        }
    }

    /// A way got a new line.
    #[inline]
    pub fn filled(&mut self, set: u32, way: u32) {
        match self.kind {
            Replacement::Lru => self.youngest(set, way),
            Replacement::TreePlru => self.point_away(set, way),
            Replacement::Drrip => self.predict(set, way),
        }
    }

    /// A way lost its line.
    #[inline]
    pub fn emptied(&mut self, set: u32, way: u32) {
        match self.kind {
            Replacement::Lru => self.oldest(set, way),
            Replacement::TreePlru => {}
            Replacement::Drrip => self.set(set)[way as usize] = DISTANT,
        }
    }

    /// The way of a mask that makes room: an empty one if there is one.
    #[inline]
    pub fn victim(&mut self, set: u32, mask: u32, empty: impl Fn(u32) -> bool) -> u32 {
        let all = !0 >> (32 - self.ways);
        let mask = mask & all;
        debug_assert!(mask != 0, "no way to insert into");
        if self.kind == Replacement::Lru && mask == all {
            // Empty ways are the oldest.
            let last = (self.ways - 1) as u8;
            return find_age(self.set(set), last);
        }
        let ways = (0..self.ways).filter(|way| mask & (1 << way) != 0);
        if let Some(way) = ways.clone().find(|way| empty(*way)) {
            return way;
        }
        match self.kind {
            Replacement::Lru => {
                let ages = self.set(set);
                ways.max_by_key(|way| ages[*way as usize]).unwrap_or_default()
            }
            Replacement::TreePlru => self.follow(set, mask),
            Replacement::Drrip => {
                let ages = self.set(set);
                let oldest = ways.clone().map(|way| ages[way as usize]).max().unwrap_or_default();
                ways.clone().for_each(|way| ages[way as usize] += DISTANT - oldest);
                ways.clone().find(|way| ages[*way as usize] == DISTANT).unwrap_or_default()
            }
        }
    }

    #[inline]
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

    #[inline]
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
    fn point_away(&mut self, set: u32, way: u32) {
        let levels = self.levels();
        let tree = &mut self.trees[set as usize];
        let mut node = 1;
        for level in (0..levels).rev() {
            let right = way >> level & 1;
            *tree = *tree & !(1 << node) | (1 - right) << node;
            node = 2 * node + right;
        }
    }

    // Where the bits point, except into a half that the mask has nothing of.
    #[inline]
    fn follow(&self, set: u32, mask: u32) -> u32 {
        let tree = self.trees[set as usize];
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

    /// A line of a set was looked for in vain. That speaks against the rule that the set tries out. What is inserted says
    /// nothing of it: a victim cache takes back what it gave up when it was hit.
    #[inline]
    pub fn missed(&mut self, set: u32) {
        match set % LEADERS {
            0 => self.duel = (self.duel + 1).min(DUEL),
            1 => self.duel = self.duel.saturating_sub(1),
            _ => {}
        }
    }

    #[inline]
    fn predict(&mut self, set: u32, way: u32) {
        self.inserted += 1;
        let bimodal = match set % LEADERS {
            0 => false,
            1 => true,
            _ => self.duel > DUEL / 2,
        };
        let near = !bimodal || self.inserted.is_multiple_of(BIMODAL);
        self.set(set)[way as usize] = if near { DISTANT - 1 } else { DISTANT };
    }
}

/// The age of what only pads a set: older than everything, and never counted up.
const PADDING: u8 = 255;

// The first byte with a value, eight at a time.
#[inline]
fn find_age(ages: &[u8], age: u8) -> u32 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    for (group, eight) in ages.as_chunks::<8>().0.iter().enumerate() {
        let differing = u64::from_le_bytes(*eight) ^ (LOW * u64::from(age));
        let zero = differing.wrapping_sub(LOW) & !differing & HIGH;
        if zero != 0 {
            return group as u32 * 8 + zero.trailing_zeros() / 8;
        }
    }
    unreachable!("ages are an order of all ways")
}
