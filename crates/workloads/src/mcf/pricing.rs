//! Choosing the arc to enter the basis: multiple partial pricing.
//!
//! Arcs are priced a group at a time. A group takes every `groups`-th arc of the array, so that
//! it samples the whole of it; the violating arcs go into a basket. When that holds enough, or
//! all groups have been through, the most violating arc enters, and after the pivot the best of
//! the rest are priced anew. This is the rule of SPEC's `mcf`, with its group and basket sizes,
//! and its large strides are much of that program's memory behaviour.

use std::cmp::Reverse;

use super::tracer::{Access, Place, Tracer};
use super::tree::Node;

/// An arc's place relative to the basis, as the sign that makes a violation of its reduced
/// cost negative. An arc of the basis never violates.
pub(super) const LOWER: i64 = 1;
pub(super) const UPPER: i64 = -1;
pub(super) const BASIC: i64 = 0;

/// An arc, padded to the cache line of 64 bytes that SPEC's `mcf` fills with one.
///
/// The flow of an arc outside the basis follows from `bound`; that of one inside is held by the
/// node below it.
#[derive(Clone)]
#[repr(C, align(64))]
pub(super) struct NetArc {
    pub(super) cost: i64,
    pub(super) capacity: i64,
    /// One of `LOWER`, `UPPER` and `BASIC`.
    pub(super) bound: i64,
    pub(super) tail: u32,
    pub(super) head: u32,
}

impl NetArc {
    /// Exact, although potentials may have wrapped: the result fits.
    #[inline]
    pub(super) fn reduced_cost(&self, nodes: &[Node]) -> i64 {
        let [tail, head] = [self.tail, self.head].map(|node| nodes[node as usize].potential);
        self.cost.wrapping_add(tail).wrapping_sub(head)
    }

    /// How much a unit of change in its flow saves; an arc can improve the flow where this is
    /// above 0.
    #[inline]
    fn violation(&self, nodes: &[Node]) -> i64 {
        -self.bound * self.reduced_cost(nodes)
    }
}

/// Tells of what pricing an arc touches: its cost, bound and ends, and a potential at each; and
/// whether what comes out is what mostly does.
#[inline(always)]
pub(super) fn touch_priced(tracer: &mut impl Tracer, number: u32, arc: &NetArc, surprise: bool) {
    tracer.touch(Place::Arc(number), Access::Load, 4);
    // Where a branch has to wait for it, the arc is there before its nodes are asked for.
    tracer.touch(Place::Node(arc.tail), if surprise { Access::Follow } else { Access::Load }, 1);
    tracer.touch(Place::Node(arc.head), Access::Load, 1);
    if surprise {
        tracer.surprise();
    }
}

/// The most arcs in a group.
const GROUP: usize = 300;
/// The number of violating arcs that is enough to choose from.
const BASKET: usize = 50;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Candidate {
    violation: i64,
    arc: u32,
}

impl Candidate {
    /// Orders by violation, then by the lower number, so that a choice is never left to how a
    /// library sorts.
    fn rank(&self) -> (i64, Reverse<u32>) {
        (self.violation, Reverse(self.arc))
    }
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Price on.
    Undecided,
    /// Pivot on this arc.
    Enter(u32),
    /// No arc violates.
    Optimal,
}

/// Where the pricing of arcs stands.
#[derive(Clone)]
pub(super) struct Pricing {
    arcs: usize,
    groups: usize,
    group: usize,
    /// The next arc of the group.
    cursor: usize,
    /// The groups priced to their ends since the last pivot.
    finished: usize,
    basket: Vec<Candidate>,
}

impl Pricing {
    pub(super) fn new(arcs: usize) -> Self {
        let groups = arcs.div_ceil(GROUP).max(1);
        Self {
            arcs,
            groups,
            group: 0,
            cursor: 0,
            finished: 0,
            basket: Vec::with_capacity(BASKET + GROUP),
        }
    }

    pub(super) fn reset(&mut self) {
        (self.group, self.cursor, self.finished) = (0, 0, 0);
        self.basket.clear();
    }

    /// The bytes of the basket.
    pub(super) fn footprint_bytes(&self) -> usize {
        self.basket.capacity() * size_of::<Candidate>()
    }

    /// Prices up to `most` arcs, not beyond the group's end; says how many.
    pub(super) fn price(
        &mut self,
        arcs: &[NetArc],
        nodes: &[Node],
        most: u64,
        tracer: &mut impl Tracer,
    ) -> (u64, Verdict) {
        let left = self.arcs.saturating_sub(self.cursor).div_ceil(self.groups);
        let count = left.min(usize::try_from(most).unwrap_or(usize::MAX));
        let group = (self.cursor..self.arcs).step_by(self.groups).take(count);
        for i in group {
            let violation = arcs[i].violation(nodes);
            touch_priced(tracer, i as u32, &arcs[i], violation > 0);
            if violation > 0 {
                self.basket.push(Candidate { violation, arc: i as u32 });
            }
        }
        self.cursor += count * self.groups;
        let verdict = if count == left { self.next_group() } else { Verdict::Undecided };
        (count as u64, verdict)
    }

    fn next_group(&mut self) -> Verdict {
        self.group = (self.group + 1) % self.groups;
        self.cursor = self.group;
        self.finished += 1;
        if self.basket.len() < BASKET && self.finished < self.groups {
            return Verdict::Undecided;
        }
        if self.basket.len() > BASKET {
            self.basket
                .select_nth_unstable_by_key(BASKET - 1, |candidate| Reverse(candidate.rank()));
            self.basket.truncate(BASKET);
        }
        match (0..self.basket.len()).max_by_key(|&i| self.basket[i].rank()) {
            Some(best) => Verdict::Enter(self.basket.swap_remove(best).arc),
            None => Verdict::Optimal,
        }
    }

    /// After a pivot: prices the basket anew and drops what violates no more. Says how many.
    pub(super) fn reprice(
        &mut self,
        arcs: &[NetArc],
        nodes: &[Node],
        tracer: &mut impl Tracer,
    ) -> u64 {
        let count = self.basket.len() as u64;
        self.basket.retain_mut(|candidate| {
            let arc = &arcs[candidate.arc as usize];
            candidate.violation = arc.violation(nodes);
            touch_priced(tracer, candidate.arc, arc, candidate.violation <= 0);
            candidate.violation > 0
        });
        self.finished = 0;
        count
    }
}
