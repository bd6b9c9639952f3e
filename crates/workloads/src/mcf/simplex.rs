//! The primal network simplex method, in steps that can be counted and paused.

use super::instance::{Arc, Instance};
use super::pricing::{BASIC, LOWER, NetArc, Pricing, UPPER, Verdict, touch_priced};
use super::tracer::{Access, Place, Tracer, Untraced};
use super::tree::{ARTIFICIAL, Entering, Tree, UNCAPPED};

/// How far a [`Solver`] has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// There is more to do.
    Running,
    /// The flow is feasible and no other costs less.
    Optimal,
    /// No flow meets all supplies.
    Infeasible,
    /// Arcs without capacity form a cycle of negative cost. Whether any flow meets the supplies
    /// is then left open.
    Unbounded,
}

/// What one call of [`Solver::run`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The number of arcs it priced.
    pub priced: u64,
    /// Where the solver stands after it.
    pub state: State,
}

/// Why an instance is not solved: its numbers might overflow, or have no place in 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooLarge {
    /// Flows could exceed 2^60.
    #[error("supplies and capacities sum to more than 2^60")]
    Flow,
    /// Potentials could exceed 2^61.
    #[error("the number of nodes times the greatest cost is more than 2^60")]
    Cost,
    /// There is no number for each node or arc.
    #[error("there are more nodes or arcs than 32 bits can number")]
    Count,
}

/// What sums are held to, so that no sum of a few of them overflows.
const LIMIT: i64 = 1 << 60;

/// Solves an [`Instance`] step by step, any number of times.
///
/// The data is an array of arcs and one of nodes, a cache line of 64 bytes for each of both,
/// after SPEC's `mcf`.
#[derive(Clone)]
pub struct Solver<T = Untraced> {
    arcs: Vec<NetArc>,
    tree: Tree,
    pricing: Pricing,
    state: State,
    pivots: u64,
    tracer: T,
}

impl Solver {
    /// A solver at its initial basis.
    ///
    /// Refused is an instance whose flows or potentials might overflow. A basis flow is at most the
    /// sum of all supplies and capacities, which must not exceed 2^60. The artificial arcs cost
    /// `big` = (nodes + 1) * (greatest cost + 1), more than any path of true arcs, so that the flow
    /// on them vanishes if it can. A potential, less the root's, is the cost of a path with one
    /// artificial arc, below 2 * `big`, and a reduced cost below 5 * `big`; `big` must not exceed
    /// 2^60.
    pub fn new(instance: &Instance) -> Result<Self, TooLarge> {
        Self::traced(instance, Untraced)
    }
}

impl<T: Tracer> Solver<T> {
    /// As [`Solver::new`], and a tracer is told which memory is touched by [`Solver::run`] and
    /// [`Solver::restart`]: arcs, and nodes of the tree, the root last. What is left out stays in
    /// the first cache, or is touched once a solution.
    ///
    /// # Errors
    /// As there.
    pub fn traced(instance: &Instance, tracer: T) -> Result<Self, TooLarge> {
        if instance.nodes() >= ARTIFICIAL - 1 || instance.arc_count() >= ARTIFICIAL as usize {
            return Err(TooLarge::Count);
        }
        let capacities =
            instance.arcs().map(|arc| arc.capacity).filter(|c| *c != Instance::UNCAPPED);
        let supplies = instance.supply().iter().map(|supply| i128::from(*supply).abs());
        if supplies.chain(capacities.map(i128::from)).sum::<i128>() > LIMIT.into() {
            return Err(TooLarge::Flow);
        }
        let greatest = instance.arcs().map(|arc| arc.cost.unsigned_abs()).max().unwrap_or(0);
        let big = (i128::from(instance.nodes()) + 1) * (i128::from(greatest) + 1);
        if big > LIMIT.into() {
            return Err(TooLarge::Cost);
        }
        let arcs = instance.arcs().map(|Arc { tail, head, capacity, cost }| {
            let capacity = if capacity == Instance::UNCAPPED { UNCAPPED } else { capacity };
            NetArc { cost, capacity, bound: LOWER, tail, head }
        });
        Ok(Self {
            arcs: arcs.collect(),
            tree: Tree::new(instance.supply(), big as i64),
            pricing: Pricing::new(instance.arc_count()),
            state: State::Running,
            pivots: 0,
            tracer,
        })
    }

    /// Prices about `max_priced` arcs, pivoting on the way, and stops early only where it is
    /// done. It prices more by at most what follows a pivot, fewer than 50 arcs.
    ///
    /// How the work is divided into calls does not change its course. Nothing is allocated.
    // Not inlined into its callers, whose variables would take registers from its loops.
    #[inline(never)]
    pub fn run(&mut self, max_priced: u64) -> Progress {
        let mut priced = 0;
        while self.state == State::Running && priced < max_priced {
            let (arcs, nodes) = (&self.arcs, self.tree.nodes());
            let (count, verdict) =
                self.pricing.price(arcs, nodes, max_priced - priced, &mut self.tracer);
            priced += count;
            match verdict {
                Verdict::Undecided => {}
                Verdict::Optimal => self.state = self.outcome(),
                Verdict::Enter(arc) => {
                    self.pivot(arc);
                    priced += self.pricing.reprice(&self.arcs, self.tree.nodes(), &mut self.tracer);
                }
            }
        }
        Progress { priced, state: self.state }
    }

    /// Goes back to the initial basis, in the memory it has: one pass over all of it.
    pub fn restart(&mut self) {
        for (number, arc) in self.arcs.iter_mut().enumerate() {
            self.tracer.touch(Place::Arc(number as u32), Access::Store, 1);
            arc.bound = LOWER;
        }
        self.tree.reset(&mut self.tracer);
        self.pricing.reset();
        self.state = State::Running;
        self.pivots = 0;
    }

    /// The tracer, which records each memory access.
    pub fn tracer(&mut self) -> &mut T {
        &mut self.tracer
    }

    /// The number of pivots since the initial basis.
    pub fn pivots(&self) -> u64 {
        self.pivots
    }

    /// The cost of the present flow; of a cheapest one where the state is [`State::Optimal`].
    pub fn cost(&self) -> i128 {
        let product = |arc: &NetArc, flow| i128::from(arc.cost) * i128::from(flow);
        let full =
            self.arcs.iter().filter(|arc| arc.bound == UPPER).map(|arc| product(arc, arc.capacity));
        let basic = self.basis().map(|(arc, flow)| product(&self.arcs[arc as usize], flow));
        full.chain(basic).sum()
    }

    /// The present flow on each arc. Until the state is [`State::Optimal`], it may not meet the
    /// supplies: artificial arcs, not among these, carry the rest.
    pub fn flows(&self) -> Vec<i64> {
        let outside = |arc: &NetArc| if arc.bound == UPPER { arc.capacity } else { 0 };
        let mut flows: Vec<i64> = self.arcs.iter().map(outside).collect();
        self.basis().for_each(|(arc, flow)| flows[arc as usize] = flow);
        flows
    }

    /// The potential of each node, with which [`verify`](super::verify) proves an optimum.
    pub fn potentials(&self) -> Vec<i64> {
        let (root, nodes) = self.tree.nodes().split_last().expect("a tree has a root");
        nodes.iter().map(|node| node.potential.wrapping_sub(root.potential)).collect()
    }

    /// The memory that solving touches.
    pub fn footprint_bytes(&self) -> u64 {
        let arrays = size_of_val(self.arcs.as_slice()) + size_of_val(self.tree.nodes());
        (arrays + self.pricing.footprint_bytes()) as u64
    }

    /// The true arcs in the basis and their flows.
    fn basis(&self) -> impl Iterator<Item = (u32, i64)> + '_ {
        self.tree
            .nodes()
            .iter()
            .filter(|node| node.arc != ARTIFICIAL)
            .map(|node| (node.arc, node.flow))
    }

    /// What it means that no arc can improve the flow.
    fn outcome(&self) -> State {
        let missed = |node: &super::tree::Node| node.arc == ARTIFICIAL && node.flow > 0;
        if self.tree.nodes().iter().any(missed) { State::Infeasible } else { State::Optimal }
    }

    fn pivot(&mut self, entering: u32) {
        let arc = &self.arcs[entering as usize];
        touch_priced(&mut self.tracer, entering, arc, false);
        let grows = arc.bound == LOWER;
        let (first, second) = if grows { (arc.tail, arc.head) } else { (arc.head, arc.tail) };
        let (capacity, saving) = (arc.capacity, arc.reduced_cost(self.tree.nodes()));
        let cycle = self.tree.cycle(first, second, capacity, &mut self.tracer);
        // More than all flows together: nothing on the cycle has a capacity.
        if cycle.amount > LIMIT {
            self.state = State::Unbounded;
            return;
        }
        self.pivots += 1;
        self.tree.augment(first, second, cycle, &mut self.tracer);
        self.tracer.touch(Place::Arc(entering), Access::Store, 1);
        let Some((cut, on_first)) = cycle.leaving else {
            self.arcs[entering as usize].bound = if grows { UPPER } else { LOWER };
            return;
        };
        self.tracer.touch(Place::Node(cut), Access::Load, 3);
        let leaving = &self.tree.nodes()[cut as usize];
        debug_assert!(leaving.flow == 0 || leaving.flow == leaving.capacity);
        if leaving.arc != ARTIFICIAL {
            self.tracer.touch(Place::Arc(leaving.arc), Access::Store, 1);
            self.arcs[leaving.arc as usize].bound = if leaving.flow == 0 { LOWER } else { UPPER };
        }
        self.arcs[entering as usize].bound = BASIC;
        let (inside, outside) = if on_first { (first, second) } else { (second, first) };
        // The arc leads up from the subtree where its tail is inside; then raising the
        // potentials there would raise its reduced cost, which must become 0.
        let up = on_first == grows;
        let flow = if grows { cycle.amount } else { capacity - cycle.amount };
        let arc = Entering { arc: entering, flow, capacity, up };
        let shift = if up { -saving } else { saving };
        self.tree.rehang((cut, inside, outside, cycle.join), arc, shift, &mut self.tracer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcf::{RandomShape, random, timetable};

    fn degenerate(seed: u64) -> Instance {
        let shape = RandomShape {
            nodes: 20,
            arcs: 90,
            max_capacity: 2,
            min_cost: -3,
            max_cost: 3,
            uncapped_one_in: 0,
            feasible: true,
        };
        random(shape, seed)
    }

    /// Runs to the end in calls of at most `chunk` arcs.
    fn finish<T: Tracer>(solver: &mut Solver<T>, chunk: u64) -> (u64, State) {
        let mut priced = 0;
        loop {
            let progress = solver.run(chunk);
            assert!(progress.priced < chunk.saturating_add(50));
            priced += progress.priced;
            if progress.state != State::Running {
                return (priced, progress.state);
            }
            assert!(progress.priced >= chunk);
        }
    }

    #[test]
    fn every_basis_is_a_strongly_feasible_tree() {
        let instances = (0..50).map(degenerate).chain([timetable(60, 1)]);
        for instance in instances {
            let mut solver = Solver::new(&instance).unwrap();
            let ends =
                |arcs: &[NetArc], arc: u32| (arcs[arc as usize].tail, arcs[arc as usize].head);
            let mut pivots = 0;
            while solver.run(1).state == State::Running {
                if solver.pivots > pivots {
                    pivots = solver.pivots;
                    solver.tree.check(|arc| ends(&solver.arcs, arc));
                    let nodes = solver.tree.nodes();
                    let basic = || nodes.iter().filter(|node| node.arc != ARTIFICIAL);
                    assert!(basic().all(|node| solver.arcs[node.arc as usize].bound == BASIC));
                    assert!(
                        basic().all(|node| solver.arcs[node.arc as usize].reduced_cost(nodes) == 0)
                    );
                }
            }
            assert!(pivots > 10);
        }
    }

    #[test]
    fn the_course_does_not_depend_on_the_calls() {
        let mut solver = Solver::new(&timetable(300, 3)).unwrap();
        let room = solver.footprint_bytes();
        let (priced, state) = finish(&mut solver, u64::MAX);
        let (pivots, flows, potentials) = (solver.pivots(), solver.flows(), solver.potentials());
        assert_eq!(state, State::Optimal);
        assert_eq!(solver.run(100), Progress { priced: 0, state });
        for chunk in [1, 7, 256, 1000] {
            solver.restart();
            assert_eq!(solver.run(0), Progress { priced: 0, state: State::Running });
            assert_eq!(finish(&mut solver, chunk), (priced, state));
            assert_eq!(solver.pivots(), pivots);
            assert!(solver.flows() == flows && solver.potentials() == potentials);
        }
        solver.restart();
        solver.run(priced / 2);
        solver.restart();
        assert_eq!(finish(&mut solver, 256), (priced, state));
        assert_eq!(solver.footprint_bytes(), room, "the basket has not grown");
    }

    #[derive(Default)]
    struct Counts {
        arcs: u64,
        nodes: u64,
        steps: u64,
        stores: u64,
        surprises: u64,
        beyond: bool,
        size: (u32, u32),
    }

    impl Tracer for Counts {
        fn surprise(&mut self) {
            self.surprises += 1;
        }

        fn touch(&mut self, place: Place, access: Access, fields: u32) {
            assert!(fields > 0);
            let within = match place {
                Place::Arc(number) => number < self.size.0,
                Place::Node(number) => number < self.size.1,
            };
            self.beyond |= !within;
            match (place, access) {
                (Place::Arc(_), Access::Load) => self.arcs += 1,
                (Place::Node(_), Access::Load) => self.nodes += 1,
                (_, Access::Follow) => self.steps += 1,
                (_, Access::Store) => self.stores += 1,
            }
        }
    }

    #[test]
    fn a_traced_solution_takes_the_same_course_and_tells_of_every_arc() {
        let instance = timetable(300, 3);
        let size = (instance.arc_count() as u32, instance.nodes() + 1);
        let mut plain = Solver::new(&instance).unwrap();
        let mut traced = Solver::traced(&instance, Counts { size, ..Counts::default() }).unwrap();
        let course = finish(&mut plain, 256);
        assert_eq!(course, finish(&mut traced, 256));
        assert_eq!((plain.cost(), plain.pivots()), (traced.cost(), traced.pivots()));
        let pivots = traced.pivots();
        let Counts { arcs, nodes, steps, stores, surprises, beyond, .. } = *traced.tracer();
        assert!(!beyond);
        // The entering arc is looked at once more.
        assert_eq!(arcs, course.0 + pivots);
        // A node is followed where a branch waits for it.
        assert!(
            nodes + steps >= 2 * arcs && steps > pivots && stores > pivots,
            "{nodes}, {steps}, {stores}"
        );
        assert!((pivots..arcs / 2).contains(&surprises), "{surprises} of {arcs}");
        traced.restart();
        assert_eq!(traced.tracer().stores - stores, u64::from(size.0 + size.1 - 1));
    }

    #[test]
    fn potentials_may_wrap() {
        let instance = timetable(100, 9);
        let mut solver = Solver::new(&instance).unwrap();
        let (priced, _) = finish(&mut solver, 256);
        let (cost, potentials) = (solver.cost(), solver.potentials());
        solver.restart();
        solver.tree.displace(i64::MAX - 5);
        assert_eq!(finish(&mut solver, 256), (priced, State::Optimal));
        assert_eq!((solver.cost(), solver.potentials()), (cost, potentials));
    }
}
