//! A minimum-cost-flow problem, as a list of supplies and arcs.

/// One arc of an [`Instance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arc {
    /// The node the flow comes from.
    pub tail: u32,
    /// The node the flow goes to.
    pub head: u32,
    /// The most flow it carries, or [`Instance::UNCAPPED`]; the least is always 0.
    pub capacity: i64,
    /// The cost of a unit of flow; may be negative.
    pub cost: i64,
}

/// A network with supplies: find the cheapest flow that takes every supply to the demands.
///
/// Nodes are numbered from 0. Every node's outflow less its inflow must equal its supply
/// exactly, so that supplies which do not sum to 0 make a problem infeasible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    supply: Vec<i64>,
    tail: Vec<u32>,
    head: Vec<u32>,
    capacity: Vec<i64>,
    cost: Vec<i64>,
}

impl Instance {
    /// The capacity of an arc without one.
    pub const UNCAPPED: i64 = i64::MAX;

    /// A network of `nodes` nodes without supplies or arcs.
    pub fn new(nodes: u32) -> Self {
        Self::with_arc_capacity(nodes, 0)
    }

    /// As [`Instance::new`], with room for `arcs` arcs.
    pub fn with_arc_capacity(nodes: u32, arcs: usize) -> Self {
        Self {
            supply: vec![0; nodes as usize],
            tail: Vec::with_capacity(arcs),
            head: Vec::with_capacity(arcs),
            capacity: Vec::with_capacity(arcs),
            cost: Vec::with_capacity(arcs),
        }
    }

    /// The number of nodes.
    pub fn nodes(&self) -> u32 {
        self.supply.len() as u32
    }

    /// What each node supplies; negative where it demands.
    pub fn supply(&self) -> &[i64] {
        &self.supply
    }

    /// Sets what a node supplies.
    ///
    /// # Panics
    ///
    /// Where there is no such node.
    pub fn set_supply(&mut self, node: u32, supply: i64) {
        self.supply[node as usize] = supply;
    }

    /// Adds an arc after those already there. Loops and parallel arcs are allowed.
    ///
    /// # Panics
    ///
    /// Where one of its ends is not a node, or its capacity is negative.
    pub fn add_arc(&mut self, arc: Arc) {
        let Arc { tail, head, capacity, cost } = arc;
        assert!(tail < self.nodes() && head < self.nodes(), "an end of {arc:?} is not a node");
        assert!(capacity >= 0, "the capacity of {arc:?} is negative");
        self.tail.push(tail);
        self.head.push(head);
        self.capacity.push(capacity);
        self.cost.push(cost);
    }

    /// The number of arcs.
    pub fn arc_count(&self) -> usize {
        self.tail.len()
    }

    /// The arcs in the order they were added.
    pub fn arcs(&self) -> impl ExactSizeIterator<Item = Arc> + '_ {
        (0..self.arc_count()).map(|i| Arc {
            tail: self.tail[i],
            head: self.head[i],
            capacity: self.capacity[i],
            cost: self.cost[i],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_it_was_given() {
        let mut instance = Instance::new(3);
        instance.set_supply(0, 4);
        instance.set_supply(2, -4);
        let arcs = [
            Arc { tail: 0, head: 2, capacity: Instance::UNCAPPED, cost: -1 },
            Arc { tail: 2, head: 2, capacity: 0, cost: 7 },
        ];
        arcs.into_iter().for_each(|arc| instance.add_arc(arc));
        assert_eq!((instance.nodes(), instance.supply()), (3, [4, 0, -4].as_slice()));
        assert_eq!(instance.arcs().collect::<Vec<_>>(), arcs);
    }

    #[test]
    #[should_panic(expected = "is not a node")]
    fn refuses_an_arc_to_nowhere() {
        Instance::new(2).add_arc(Arc { tail: 0, head: 2, capacity: 1, cost: 1 });
    }

    #[test]
    #[should_panic(expected = "is negative")]
    fn refuses_a_negative_capacity() {
        Instance::new(2).add_arc(Arc { tail: 0, head: 1, capacity: -1, cost: 1 });
    }
}
