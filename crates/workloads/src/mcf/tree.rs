//! The spanning tree of a basis: nodes linked to parents, children and siblings.
//!
//! As in SPEC's `mcf`, a node holds its potential, the links of the tree, the arc to its parent
//! with the flow on it, and the size of its subtree; but links are numbers of nodes, and a node
//! takes one cache line of 64 bytes instead of 104 bytes. The root is one node more than the
//! instance has, linked to the others by artificial arcs which no array holds.

use super::tracer::{Access, Place, Tracer, Untraced};

/// Stands for no node.
pub(super) const NONE: u32 = u32::MAX;
/// Stands for the artificial arc between a node and the root.
pub(super) const ARTIFICIAL: u32 = u32::MAX;
/// The capacity of an arc without one. No flow exceeds a quarter of it; see
/// [`Solver::new`](super::Solver::new).
pub(super) const UNCAPPED: i64 = i64::MAX / 2;

/// A node and its arc to its parent.
#[derive(Clone)]
#[repr(C, align(64))]
pub(super) struct Node {
    /// The node's potential, up to a constant that is the same for all nodes and modulo 2^64.
    pub(super) potential: i64,
    /// The flow on the arc to the parent.
    pub(super) flow: i64,
    pub(super) capacity: i64,
    pub(super) supply: i64,
    /// The arc to the parent, or `ARTIFICIAL`.
    pub(super) arc: u32,
    pub(super) parent: u32,
    child: u32,
    next: u32,
    previous: u32,
    /// How many nodes the subtree has, this one included.
    size: u32,
    /// Whether the arc leads from this node to its parent.
    up: bool,
}

const _: () = assert!(size_of::<Node>() == 64);

/// How a pivot changes flows: around the cycle that the entering arc closes.
#[derive(Clone, Copy)]
pub(super) struct Cycle {
    /// Where the two paths from the ends of the entering arc meet.
    pub(super) join: u32,
    /// How much more flow goes around.
    pub(super) amount: i64,
    /// The node whose arc to its parent leaves the tree, and whether it lies on the path from
    /// `first`; nothing where the entering arc itself is what limits the flow.
    pub(super) leaving: Option<(u32, bool)>,
}

/// What joins the tree at a pivot.
#[derive(Clone, Copy)]
pub(super) struct Entering {
    pub(super) arc: u32,
    pub(super) flow: i64,
    pub(super) capacity: i64,
    /// Whether it leads from the subtree cut off to the rest.
    pub(super) up: bool,
}

/// A strongly feasible spanning tree: every node can send some flow to the root along it.
///
/// Choosing among blocking arcs so that this stays true (Cunningham 1976) rules out cycling.
#[derive(Clone)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    big: i64,
}

impl Tree {
    /// The initial tree, all artificial arcs of cost `big`.
    pub(super) fn new(supply: &[i64], big: i64) -> Self {
        let blank = Node {
            potential: 0,
            flow: 0,
            capacity: 0,
            supply: 0,
            arc: ARTIFICIAL,
            parent: NONE,
            child: NONE,
            next: NONE,
            previous: NONE,
            size: 1,
            up: false,
        };
        let mut nodes = vec![blank; supply.len() + 1];
        nodes.iter_mut().zip(supply).for_each(|(node, supply)| node.supply = *supply);
        let mut tree = Self { nodes, big };
        tree.reset(&mut Untraced);
        tree
    }

    /// Goes back to the initial tree.
    pub(super) fn reset(&mut self, tracer: &mut impl Tracer) {
        let root = self.nodes.len() as u32 - 1;
        let big = self.big;
        for (i, node) in (0..root).zip(&mut self.nodes) {
            // Without supply the arc leads up, so that the tree is strongly feasible.
            tracer.touch(Place::Node(i), Access::Store, 11);
            let up = node.supply >= 0;
            *node = Node {
                potential: if up { -big } else { big },
                flow: node.supply.abs(),
                capacity: UNCAPPED,
                supply: node.supply,
                arc: ARTIFICIAL,
                parent: root,
                child: NONE,
                next: if i + 1 < root { i + 1 } else { NONE },
                previous: if i > 0 { i - 1 } else { NONE },
                size: 1,
                up,
            };
        }
        let node = &mut self.nodes[root as usize];
        node.potential = 0;
        node.child = if root > 0 { 0 } else { NONE };
        node.size = root + 1;
    }

    /// All nodes, the root last.
    #[inline]
    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    #[inline]
    fn at(&self, node: u32) -> &Node {
        &self.nodes[node as usize]
    }

    #[inline]
    fn at_mut(&mut self, node: u32) -> &mut Node {
        &mut self.nodes[node as usize]
    }

    /// Finds the cycle closed by an arc that can take `room` more flow from `first` to
    /// `second`, and what blocks it: of all that do, the last one met when going around from
    /// the join in the direction of the flow.
    pub(super) fn cycle(
        &self,
        first: u32,
        second: u32,
        room: i64,
        tracer: &mut impl Tracer,
    ) -> Cycle {
        let (mut a, mut b) = (first, second);
        let (mut down, mut up) = ((i64::MAX, NONE), (i64::MAX, NONE));
        tracer.touch(Place::Node(first), Access::Load, 4);
        tracer.touch(Place::Node(second), Access::Load, 4);
        let mut side = None;
        while a != b {
            let (x, y) = (self.at(a), self.at(b));
            // The smaller subtree holds not the other node, so its root is not the join.
            if x.size < y.size {
                let room = if x.up { x.flow } else { x.capacity - x.flow };
                if room < down.0 {
                    down = (room, a);
                }
                a = x.parent;
                touch_side(tracer, &mut side, true);
                tracer.touch(Place::Node(a), Access::Follow, 4);
            } else {
                let room = if y.up { y.capacity - y.flow } else { y.flow };
                if room <= up.0 {
                    up = (room, b);
                }
                b = y.parent;
                touch_side(tracer, &mut side, false);
                tracer.touch(Place::Node(b), Access::Follow, 4);
            }
        }
        let (mut amount, mut leaving) = (room, None);
        if down.0 < amount {
            (amount, leaving) = (down.0, Some((down.1, true)));
        }
        if up.0 <= amount && up.1 != NONE {
            (amount, leaving) = (up.0, Some((up.1, false)));
        }
        Cycle { join: a, amount, leaving }
    }

    /// Sends flow around the cycle, except over the entering arc.
    pub(super) fn augment(
        &mut self,
        first: u32,
        second: u32,
        cycle: Cycle,
        tracer: &mut impl Tracer,
    ) {
        if cycle.amount == 0 {
            return;
        }
        for (start, sign) in [(first, -cycle.amount), (second, cycle.amount)] {
            let mut at = start;
            while at != cycle.join {
                touch_changed(tracer, at);
                let node = self.at_mut(at);
                node.flow += if node.up { sign } else { -sign };
                at = node.parent;
            }
        }
    }

    /// Cuts off the subtree of `cut` and hangs it to `outside`, by an arc from its node
    /// `inside`; potentials in it rise by `shift` against the others.
    pub(super) fn rehang(
        &mut self,
        (cut, inside, outside, join): (u32, u32, u32, u32),
        entering: Entering,
        shift: i64,
        tracer: &mut impl Tracer,
    ) {
        let size = self.at(cut).size;
        let mut at = self.at(cut).parent;
        while at != join {
            touch_changed(tracer, at);
            let node = self.at_mut(at);
            node.size -= size;
            at = node.parent;
        }
        at = outside;
        while at != join {
            touch_changed(tracer, at);
            let node = self.at_mut(at);
            node.size += size;
            at = node.parent;
        }
        // From `inside` up to `cut`, every node becomes its parent's parent and hands it the
        // arc between them.
        let (mut at, mut parent, mut arc, mut lost) = (inside, outside, entering, 0);
        loop {
            self.detach(at, tracer);
            self.attach(at, parent, tracer);
            tracer.touch(Place::Node(at), Access::Load, 6);
            tracer.touch(Place::Node(at), Access::Store, 6);
            let node = self.at_mut(at);
            let old =
                Entering { arc: node.arc, flow: node.flow, capacity: node.capacity, up: !node.up };
            (node.arc, node.flow, node.capacity, node.up) =
                (arc.arc, arc.flow, arc.capacity, arc.up);
            let above = std::mem::replace(&mut node.parent, parent);
            lost = std::mem::replace(&mut node.size, size - lost);
            if at == cut {
                break;
            }
            (parent, at, arc) = (at, above, old);
        }
        // Only differences count, so the smaller part moves; sums of shifts may then wrap.
        let root = self.nodes.len() as u32 - 1;
        if size as usize <= self.nodes.len() / 2 {
            self.shift(inside, NONE, shift, tracer);
        } else {
            self.shift(root, inside, shift.wrapping_neg(), tracer);
        }
    }

    /// Takes a node from its parent's children.
    fn detach(&mut self, node: u32, tracer: &mut impl Tracer) {
        tracer.touch(Place::Node(node), Access::Follow, 3);
        let Node { parent, next, previous, .. } = *self.at(node);
        let holder = if previous == NONE { parent } else { previous };
        tracer.touch(Place::Node(holder), Access::Store, 1);
        if previous == NONE {
            self.at_mut(parent).child = next;
        } else {
            self.at_mut(previous).next = next;
        }
        if next != NONE {
            tracer.touch(Place::Node(next), Access::Store, 1);
            self.at_mut(next).previous = previous;
        }
    }

    /// Adds a node to a parent's children. The link up is left to the caller.
    fn attach(&mut self, node: u32, parent: u32, tracer: &mut impl Tracer) {
        tracer.touch(Place::Node(parent), Access::Load, 1);
        tracer.touch(Place::Node(parent), Access::Store, 1);
        let next = std::mem::replace(&mut self.at_mut(parent).child, node);
        if next != NONE {
            tracer.touch(Place::Node(next), Access::Store, 1);
            self.at_mut(next).previous = node;
        }
        let node = self.at_mut(node);
        (node.next, node.previous) = (next, NONE);
    }

    /// Adds to the potentials of the subtree of `top`, except in that of `except`.
    fn shift(&mut self, top: u32, except: u32, shift: i64, tracer: &mut impl Tracer) {
        let mut at = top;
        loop {
            if at != except {
                touch_changed(tracer, at);
                let node = self.at_mut(at);
                node.potential = node.potential.wrapping_add(shift);
                if node.child != NONE {
                    at = node.child;
                    continue;
                }
            }
            loop {
                if at == top {
                    return;
                }
                tracer.touch(Place::Node(at), Access::Follow, 1);
                let node = self.at(at);
                if node.next != NONE {
                    at = node.next;
                    break;
                }
                at = node.parent;
            }
        }
    }
}

/// Tells of a step of the search for a cycle that is not from the same end as the one before.
#[inline(always)]
fn touch_side(tracer: &mut impl Tracer, last: &mut Option<bool>, now: bool) {
    if last.replace(now).is_some_and(|last| last != now) {
        tracer.surprise();
    }
}

/// Tells of a step up or down the tree that changes a node: the next step's address comes out of
/// it.
#[inline(always)]
fn touch_changed(tracer: &mut impl Tracer, node: u32) {
    tracer.touch(Place::Node(node), Access::Follow, 3);
    tracer.touch(Place::Node(node), Access::Store, 1);
}

#[cfg(test)]
impl Tree {
    /// Adds to all potentials, which changes nothing that counts.
    pub(super) fn displace(&mut self, by: i64) {
        self.nodes.iter_mut().for_each(|node| node.potential = node.potential.wrapping_add(by));
    }

    /// Checks links, sizes, flows and strong feasibility; `ends` gives an arc's tail and head.
    pub(super) fn check(&self, ends: impl Fn(u32) -> (u32, u32)) {
        let root = self.nodes.len() as u32 - 1;
        let mut sizes = vec![1; self.nodes.len()];
        // Children come after their parents in this order.
        let mut order = vec![root];
        for i in 0..self.nodes.len() {
            let parent = *order.get(i).expect("the tree spans all nodes");
            let (mut child, mut previous) = (self.at(parent).child, NONE);
            while child != NONE {
                let node = self.at(child);
                assert_eq!((node.parent, node.previous), (parent, previous));
                let between = if node.up { (child, parent) } else { (parent, child) };
                assert!(node.arc == ARTIFICIAL && parent == root || ends(node.arc) == between);
                assert!((0..=node.capacity).contains(&node.flow));
                assert!(if node.up { node.flow < node.capacity } else { node.flow > 0 });
                order.push(child);
                (child, previous) = (node.next, child);
            }
        }
        assert_eq!(order.len(), self.nodes.len());
        for node in order.into_iter().rev() {
            assert_eq!(self.at(node).size, sizes[node as usize]);
            if node != root {
                sizes[self.at(node).parent as usize] += sizes[node as usize];
            }
        }
    }
}
