//! The network simplex: really solved, by the workload's own solver, and followed from line to
//! line.
//!
//! A node and an arc are a line each, as in the workload's memory. What stays in the first level,
//! such as the basket of arcs to choose from, is left out.
//!
//! Between two accesses stand other instructions, and a description says nothing of programs. In
//! the workload's release build (rustc 1.95, x86-64 without extensions, counted in the disassembly)
//! pricing an arc takes 25 instructions for six fields, a step up the tree that changes a flow 13
//! for three fields and a store, and shifting a node's potential 10 for two fields and a store:
//! four for each access. SPEC CPU2017's programs have about two (Singh and Awasthi, ICPE 2019:
//! about half of all instructions access memory). They are taken to run four in a cycle, what
//! Skylake allocates (Intel Optimization Reference Manual, Skylake microarchitecture).
//!
//! A processor has many arcs under way, until a branch is predicted wrongly: then nothing younger
//! counts before what decides the branch is loaded and the pipeline is filled anew (Karkhanis and
//! Smith, ISCA 2004). The solver says which branches these are.

use crate::hardware::{Op, Ps, Region};
use ringfence_experiment::task::{Mcf, Target};
use ringfence_machine::units::Bytes;
use ringfence_persist::LINE;
use ringfence_workloads::Workload;
use ringfence_workloads::mcf::{Access, Instance, Place as Touched, Tracer, trips_for_footprint};
use ringfence_workloads::pricer::Pricer;

use super::error::SetupError;
use super::place::Place;
use crate::actor::{Tally, Task};

const INSTRUCTIONS: f64 = 4.0;
const PER_CYCLE: f64 = 4.0;
// Fog, The microarchitecture of Intel, AMD and VIA CPUs: from 15 to 20 cycles to fill the pipeline
// anew on Skylake, and as long on Zen.
const REFILL_CYCLES: f64 = 16.0;
// A measured call takes some tens of microseconds before the next solver has its turn. Of 64 arcs
// each.
const AMOUNT: u64 = 32;
// Instructions are computed in stretches of this.
const STRETCH: f64 = 10_000.0;
// A trip has two nodes and at most 32 arcs, and an instance two nodes besides.
const LINES_PER_TRIP: u64 = 34;

/// Solvers in turn.
pub struct Simplex {
    pricer: Pricer<Follower>,
    // Where they stand when a trial begins.
    begin: Pricer<Follower>,
    round: u64,
}

/// Turns what a solver touches into operations.
#[derive(Clone)]
struct Follower {
    region: Region,
    // Lines of the region before the arcs, and before the nodes.
    arcs: u32,
    nodes: u32,
    // What is done before the first window is not simulated.
    awake: bool,
    ops: Vec<Op>,
    // Picoseconds of an access, and what an operation takes of the ports for itself.
    access: f64,
    load: f64,
    store: f64,
    refill: f64,
    // Computed, and not yet an operation.
    behind: f64,
}

impl Tracer for Follower {
    #[inline]
    fn touch(&mut self, place: Touched, access: Access, fields: u32) {
        if !self.awake {
            return;
        }
        let line = self.region.line(match place {
            Touched::Arc(number) => self.arcs + number,
            Touched::Node(number) => self.nodes + number,
        });
        let (op, ports) = match access {
            Access::Load => (Op::Load { line, dependent: false }, self.load),
            Access::Follow => (Op::Load { line, dependent: true }, self.load),
            Access::Store => (Op::Store(line), self.store),
        };
        self.ops.push(op);
        self.behind = (self.behind + f64::from(fields) * self.access - ports).max(0.0);
        if self.behind >= STRETCH {
            self.ops.push(Op::Compute(Ps(self.behind as u64)));
            self.behind = 0.0;
        }
    }

    #[inline]
    fn surprise(&mut self) {
        if self.awake {
            self.ops.extend([Op::Lfence, Op::Compute(Ps((self.behind + self.refill) as u64))]);
            self.behind = 0.0;
        }
    }
}

impl Simplex {
    pub fn new(task: &Mcf, place: &mut Place) -> Result<Self, SetupError> {
        let count = u64::from(task.instance_count());
        let trips = trips_for_footprint(Bytes(task.footprint.0 / count));
        let most = (u64::from(trips) * LINES_PER_TRIP + 2) * count;
        let region = place.region(&Target::Dram, Bytes(most * LINE as u64))?;
        let issue = &place.description.parts.core.issue;
        let (load, store) = (issue.load_ns * 1e3, issue.store_ns * 1e3);
        let cycle = 1e3 / place.description.processor.ghz;
        let (access, refill) = (INSTRUCTIONS / PER_CYCLE * cycle, REFILL_CYCLES * cycle);
        let mut taken = 0;
        let follow = |instance: &Instance| {
            let arcs = taken;
            let nodes = arcs + instance.arc_count() as u32;
            taken = nodes + instance.nodes() + 1;
            let (awake, ops, behind) = (false, Vec::new(), 0.0);
            Follower { region, arcs, nodes, awake, ops, access, load, store, refill, behind }
        };
        // Trials begin at points of their own.
        let later =
            (place.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64 / (1u64 << 53) as f64;
        let mut pricer = Pricer::traced(task, later, follow)?;
        pricer.tracers().for_each(|follower| follower.awake = true);
        let round = pricer.settle_units();
        Ok(Self { begin: pricer.clone(), pricer, round })
    }
}

impl Task for Simplex {
    fn portion(&mut self, _: Ps, _: &Tally, ops: &mut Vec<Op>) {
        let (priced, follower) = self.pricer.price(AMOUNT);
        ops.append(&mut follower.ops);
        ops.push(Op::Units(priced as u32));
    }

    fn round(&self, _: bool) -> u64 {
        self.round
    }

    fn goes_back(&self) -> bool {
        true
    }

    fn resumed(&mut self) {
        self.pricer = self.begin.clone();
    }
}
