//! What is probed of a machine before it is surveyed, simulated.

use std::sync::{Arc, Mutex};

use crate::hardware::{Op, Program, Ps, Region, Run, Setup, Thread};
use ringfence_experiment::task::{Chase, Target, Task as Described};
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::probe::{PingPong, Reload};
use ringfence_machine::units::Bytes;
use ringfence_persist::{Flush, LINE};

use crate::actor::{Actor, Shared};
use crate::file::Description;
use crate::recordings::Recordings;
use crate::tasks::{self, Place, Regions, SetupError};

const SEED: u64 = 1;
// Loads that are timed once the caches hold what they can: their mean varies by less than a
// percent.
const TIMED: u64 = 20_000;
// Lines that are loaded again, as on a machine: few enough to stay in every second level.
const LINES: u32 = 512;
const ROUNDS: usize = 60;
// How much is simulated between two looks.
const LOOK: Ps = Ps::from_ns(20_000);

impl Description {
    /// ns per load of a random chase over a footprint, on a CPU, once caches hold what they can of
    /// it.
    ///
    /// # Errors
    /// Where the footprint does not fit into the described memory.
    pub fn load_ns(&self, cpu: CpuId, footprint: Bytes) -> Result<f64, SetupError> {
        let mut setup = Setup::new(&self.parts, SEED)?;
        let mut regions = Regions::default();
        let mut place = Place {
            description: self,
            setup: &mut setup,
            regions: &mut regions,
            recordings: &Recordings::default(),
            whose: (0, 0),
            share: (0, 1),
            cpu,
            seed: SEED,
        };
        let chase = Described::Chase(Chase { footprint, ..Chase::default() });
        let chase = tasks::build(&chase, &mut place)?.into_iter().collect();
        let actor = Actor::new(Arc::new(Shared::default()), chase);
        let thread = setup.program(self.thread(cpu), 0, actor)?;
        let mut run = setup.start();
        let lines = footprint.0 / LINE as u64;
        let (begun, before) = after(&mut run, thread, lines);
        let (ended, then) = after(&mut run, thread, before + TIMED);
        Ok((ended - begun).0 as f64 / 1000.0 / (then - before) as f64)
    }

    /// How long it takes to load lines again after a store, a flush and `mfence`; without a flush,
    /// after the store.
    ///
    /// # Errors
    /// Where the description allows no run.
    pub fn reload(&self, cpu: CpuId, flush: Option<Flush>) -> Result<Reload, SetupError> {
        let mut setup = Setup::new(&self.parts, SEED)?;
        let node = self.node(&Target::Dram, cpu).unwrap_or_default();
        let region = setup.region(node, u64::from(LINES) * LINE as u64)?;
        let found = Arc::new(Mutex::new(Vec::new()));
        setup.program(self.thread(cpu), 0, Again::new(region, flush, found.clone()))?;
        let mut run = setup.start();
        let rounds = || found.lock().map_or(ROUNDS, |found| found.len());
        while rounds() < ROUNDS {
            run.until(run.now() + LOOK);
        }
        let mut found = found.lock().map_or(Vec::new(), |found| found.clone());
        // In the first round the lines come from memory.
        found.remove(0);
        found.sort_by(f64::total_cmp);
        let at = |share: f64| found[((found.len() - 1) as f64 * share).round() as usize];
        Ok(Reload { median_ns: at(0.5), p10_ns: at(0.1), p90_ns: at(0.9), rounds: found.len() })
    }

    /// A round trip of a line between two CPUs, by what the description says of the ways between
    /// caches; no trip is timed.
    pub fn round_trip(&self, one: CpuId, other: CpuId) -> PingPong {
        let ns = self.round_trip_ns(one, other);
        PingPong { cpus: (one, other), median_ns: ns, p10_ns: ns, p90_ns: ns, round_trips: 0 }
    }
}

// Simulates until so many units are done: when that was, and how many they are.
fn after(run: &mut Run, thread: Thread, units: u64) -> (Ps, u64) {
    while run.units(thread) < units {
        run.until(run.now() + LOOK);
    }
    (run.counted(thread), run.units(thread))
}

// Stores to all lines, flushes them, and loads them one after the other in an unpredictable order.
struct Again {
    region: Region,
    flush: Option<Flush>,
    order: Vec<u32>,
    found: Arc<Mutex<Vec<f64>>>,
    ops: Vec<Op>,
    next: usize,
    phase: Phase,
}

// What the operations at hand are.
enum Phase {
    Begin,
    Stores,
    // Since then.
    Loads(Ps),
}

impl Again {
    fn new(region: Region, flush: Option<Flush>, found: Arc<Mutex<Vec<f64>>>) -> Self {
        let next = tasks::cycle(LINES, SEED);
        let order = std::iter::successors(Some(0), |line| Some(next[*line as usize]));
        let order = order.take(LINES as usize).collect();
        Self { region, flush, order, found, ops: Vec::new(), next: 0, phase: Phase::Begin }
    }

    fn stores(&mut self) {
        for line in (0..LINES).map(|line| self.region.line(line)) {
            self.ops.push(Op::Store(line));
            self.ops.extend(self.flush.map(|kind| Op::Flush { kind, line }));
        }
        self.ops.extend([Op::Mfence, Op::Lfence]);
    }

    fn loads(&mut self) {
        let loads = self
            .order
            .iter()
            .map(|line| Op::Load { line: self.region.line(*line), dependent: true });
        self.ops.extend(loads);
        self.ops.push(Op::Lfence);
    }
}

impl Program for Again {
    fn next(&mut self, now: Ps) -> Op {
        if self.next == self.ops.len() {
            self.ops.clear();
            self.next = 0;
            self.phase = match self.phase {
                Phase::Stores => {
                    self.loads();
                    Phase::Loads(now)
                }
                Phase::Begin => {
                    self.stores();
                    Phase::Stores
                }
                Phase::Loads(begun) => {
                    if let Ok(mut found) = self.found.lock() {
                        found.push((now - begun).0 as f64 / 1000.0 / f64::from(LINES));
                    }
                    self.stores();
                    Phase::Stores
                }
            };
        }
        self.next += 1;
        self.ops[self.next - 1]
    }
}
