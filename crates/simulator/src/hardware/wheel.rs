//! What happens next: a timing wheel of buckets of 1,024 ps, with a heap for what lies beyond its
//! reach of 4.2 us.
//!
//! Adding and taking an event costs the same however many there are, so that a line takes no longer
//! with many threads. Events come out by time, then by rank, then in the order in which they were
//! added.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::hardware::units::NEVER;

const BUCKETS: usize = 4096;
/// A bucket spans two to this power of picoseconds.
const SHIFT: u32 = 10;
const NONE: u32 = u32::MAX;

/// Events of one kind.
pub struct Wheel<E> {
    buckets: Box<[Bucket; BUCKETS]>,
    // One bit for each bucket that has events, and one for each word of these that is not zero.
    occupied: [u64; BUCKETS / 64],
    words: u64,
    nodes: Vec<Node<E>>,
    free: u32,
    /// The bucket of what came out last, counted from the start of time.
    tick: u64,
    far: BinaryHeap<Far<E>>,
    far_tick: u64,
    added: u64,
}

/// The first and the last event of a bucket.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    first: u32,
    last: u32,
}

struct Node<E> {
    at: u64,
    rank: u32,
    next: u32,
    event: E,
}

/// An event beyond the wheel's reach. The greatest is what comes first.
struct Far<E> {
    order: Reverse<(u64, u32, u64)>,
    event: E,
}

impl<E> Far<E> {
    fn at(&self) -> u64 {
        self.order.0.0
    }
}

impl<E> PartialEq for Far<E> {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl<E> Eq for Far<E> {}

impl<E> PartialOrd for Far<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Far<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.cmp(&other.order)
    }
}

impl<E: Copy> Wheel<E> {
    /// Nothing to happen. What unused places hold is never seen.
    pub fn new(nothing: E) -> Self {
        Self {
            buckets: Box::new([Bucket { first: NONE, last: NONE }; BUCKETS]),
            occupied: [0; BUCKETS / 64],
            words: 0,
            nodes: vec![Node { at: 0, rank: 0, next: NONE, event: nothing }],
            free: 0,
            tick: 0,
            far: BinaryHeap::with_capacity(64),
            far_tick: NEVER,
            added: 0,
        }
    }

    /// Adds an event at a time that is not before what came out last.
    #[inline]
    pub fn push(&mut self, at: u64, rank: u32, event: E) {
        let tick = at >> SHIFT;
        debug_assert!(tick >= self.tick, "an event in the past");
        if tick - self.tick < BUCKETS as u64 {
            self.insert(at, rank, event);
        } else {
            self.push_far(at, rank, event);
        }
    }

    #[inline(never)]
    fn push_far(&mut self, at: u64, rank: u32, event: E) {
        self.added += 1;
        self.far.push(Far { order: Reverse((at, rank, self.added)), event });
        self.far_tick = self.far_tick.min(at >> SHIFT);
    }

    /// When the earliest event comes.
    #[inline]
    pub fn earliest(&self) -> u64 {
        if self.words == 0 {
            return self.far.peek().map_or(NEVER, Far::at);
        }
        self.nodes[self.buckets[self.first()].first as usize].at
    }

    /// Takes the earliest event if it comes before a time.
    #[inline]
    pub fn pop_before(&mut self, limit: u64) -> Option<(u64, E)> {
        if self.words == 0 {
            let at = self.far.peek()?.at();
            if at >= limit {
                return None;
            }
            self.tick = at >> SHIFT;
            self.come_near();
        }
        let bucket = self.first();
        let index = self.buckets[bucket].first;
        let node = &mut self.nodes[index as usize];
        if node.at >= limit {
            return None;
        }
        let (at, event, next) = (node.at, node.event, node.next);
        node.next = self.free;
        self.free = index;
        self.buckets[bucket].first = next;
        if next == NONE {
            self.occupied[bucket / 64] &= !(1 << (bucket % 64));
            if self.occupied[bucket / 64] == 0 {
                self.words &= !(1 << (bucket / 64));
            }
        }
        self.tick = at >> SHIFT;
        if self.far_tick - self.tick < BUCKETS as u64 {
            self.come_near();
        }
        Some((at, event))
    }

    #[inline]
    fn insert(&mut self, at: u64, rank: u32, event: E) {
        if self.free == NONE {
            self.grow();
        }
        let index = self.free;
        let node = &mut self.nodes[index as usize];
        self.free = node.next;
        *node = Node { at, rank, next: NONE, event };
        let place = (at >> SHIFT) as usize % BUCKETS;
        let bucket = &mut self.buckets[place];
        if bucket.first == NONE {
            *bucket = Bucket { first: index, last: index };
            self.occupied[place / 64] |= 1 << (place % 64);
            self.words |= 1 << (place / 64);
            return;
        }
        let last = &mut self.nodes[bucket.last as usize];
        if (last.at, last.rank) <= (at, rank) {
            (last.next, bucket.last) = (index, index);
        } else {
            self.insert_before_last(place, index);
        }
    }

    // Puts an event where it belongs in a bucket that has a later one.
    #[inline(never)]
    fn insert_before_last(&mut self, place: usize, index: u32) {
        let order = |node: &Node<E>| (node.at, node.rank);
        let (mut before, mut after) = (NONE, self.buckets[place].first);
        while order(&self.nodes[after as usize]) <= order(&self.nodes[index as usize]) {
            (before, after) = (after, self.nodes[after as usize].next);
        }
        self.nodes[index as usize].next = after;
        match before {
            NONE => self.buckets[place].first = index,
            before => self.nodes[before as usize].next = index,
        }
    }

    // The first bucket with events, going round from the present one. There is one.
    #[inline]
    fn first(&self) -> usize {
        let start = self.tick as usize % BUCKETS;
        let (word, bit) = (start / 64, start % 64);
        let here = self.occupied[word] & (!0 << bit);
        if here != 0 {
            return word * 64 + here.trailing_zeros() as usize;
        }
        let later = self.words & (!0 << word) & !(1 << word);
        let word = if later != 0 { later } else { self.words }.trailing_zeros() as usize;
        word * 64 + self.occupied[word].trailing_zeros() as usize
    }

    // Twice as many places for events.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let (first, event) = (self.nodes.len() as u32, self.nodes[0].event);
        for next in (1..=first).map(|more| if more < first { first + more } else { NONE }) {
            self.nodes.push(Node { at: 0, rank: 0, next, event });
        }
        self.free = first;
    }

    #[cold]
    fn come_near(&mut self) {
        while self.far.peek().is_some_and(|far| (far.at() >> SHIFT) - self.tick < BUCKETS as u64) {
            let Some(far) = self.far.pop() else { break };
            let Reverse((at, rank, _)) = far.order;
            self.insert(at, rank, far.event);
        }
        self.far_tick = self.far.peek().map_or(NEVER, |far| far.at() >> SHIFT);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        // Against sorting: whatever is added, on whichever side of the wheel's reach, comes out in
        // order.
        #[test]
        fn events_come_out_by_time_then_rank_then_age(
            steps in prop::collection::vec((0_u64..12_000_000, 0_u32..3, 0_u64..9_000_000), 1..200)
        ) {
            let mut wheel = Wheel::new(0);
            let mut model: Vec<(u64, u32, usize)> = Vec::new();
            let mut now = 0;
            for (number, (delay, rank, pause)) in steps.into_iter().enumerate() {
                // Small delays collide more often.
                let at = now + if number % 3 == 0 { delay % 2_000 } else { delay };
                wheel.push(at, rank, number);
                model.push((at, rank, number));
                prop_assert_eq!(wheel.earliest(), model.iter().min().unwrap().0);
                let limit = now + if number % 5 == 0 { pause } else { 0 };
                while let Some((at, event)) = wheel.pop_before(limit) {
                    let first = *model.iter().min().unwrap();
                    prop_assert_eq!((at, event), (first.0, first.2));
                    model.retain(|other| *other != first);
                    now = at;
                }
                prop_assert!(model.iter().all(|(at, ..)| *at >= limit));
            }
            model.sort();
            for (at, _, number) in model {
                prop_assert_eq!(wheel.pop_before(NEVER), Some((at, number)));
            }
            prop_assert_eq!(wheel.pop_before(NEVER), None);
        }
    }
}
