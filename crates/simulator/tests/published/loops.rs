//! The loops of the published microbenchmarks.

use ringfence_persist::Flush;
use ringfence_simulator::hardware::machine::Machine;
use ringfence_simulator::hardware::{HardwareThread, Line, Op, Program, Ps, Region, Setup};

/// What a loop does with each block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Loads its lines, the first one's address depending on the block before.
    Chase,
    /// Loads its lines.
    Load,
    /// Stores to its lines.
    Store,
    /// Stores past the caches.
    Nt,
    /// Stores to its lines, then flushes them.
    StoreFlush,
    /// Stores to a line and flushes it, then the next.
    FlushEach,
}

/// A loop over a thread's own memory.
#[derive(Debug, Clone, Copy)]
pub struct Loop {
    pub access: Access,
    pub flush: Flush,
    pub fence: bool,
    pub random: bool,
    /// How long it rests after each block, ns.
    pub rest: u64,
}

// What each thread uses: at random, or where evictions matter, far more than caches hold and DIMMs
// have translations of.
const BYTES: [u64; 2] = [64 << 20, 2 << 30];

struct Runner {
    of: Loop,
    region: Region,
    state: Line,
    lines: u32,
    block: u32,
    lot: u64,
    ops: Vec<Op>,
    next: usize,
}

impl Runner {
    fn block(&mut self) {
        let blocks = self.region.lines() / self.lines;
        self.lot = self
            .lot
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.block = match self.of.random {
            true => ((u128::from(self.lot) * u128::from(blocks)) >> 64) as u32,
            false => (self.block + 1) % blocks,
        };
        let (first, region) = (self.block * self.lines, self.region);
        let lines = (first..first + self.lines).map(|line| region.line(line));
        let kind = self.of.flush;
        let ops = &mut self.ops;
        if self.of.random {
            // The generator's state is in memory.
            ops.push(Op::Store(self.state));
        }
        match self.of.access {
            Access::Chase => ops
                .extend(lines.enumerate().map(|(at, line)| Op::Load { line, dependent: at == 0 })),
            Access::Load => ops.extend(lines.map(|line| Op::Load { line, dependent: false })),
            Access::Store => ops.extend(lines.map(Op::Store)),
            Access::Nt => ops.extend(lines.map(|line| Op::NtStore { line, bytes: 64 })),
            Access::StoreFlush => {
                ops.extend(lines.clone().map(Op::Store));
                ops.extend(lines.map(|line| Op::Flush { kind, line }));
            }
            Access::FlushEach => {
                ops.extend(lines.flat_map(|line| [Op::Store(line), Op::Flush { kind, line }]))
            }
        }
        if self.of.fence {
            ops.push(Op::Sfence);
        }
        if self.of.rest > 0 {
            ops.push(Op::Rest(Ps::from_ns(self.of.rest)));
        }
        ops.push(Op::Units(1));
    }
}

impl Program for Runner {
    fn next(&mut self, _: Ps) -> Op {
        if self.next == self.ops.len() {
            self.ops.clear();
            self.block();
            self.next = 0;
        }
        self.next += 1;
        self.ops[self.next - 1]
    }
}

/// Blocks a nanosecond that all threads together get through.
pub fn rate(machine: &Machine, node: usize, of: Loop, block: u32, threads: u32) -> f64 {
    rates(machine, &[Task { node, of, block, threads }])[0]
}

/// Threads that run a loop over memory of a node.
#[derive(Debug, Clone, Copy)]
pub struct Task {
    pub node: usize,
    pub of: Loop,
    pub block: u32,
    pub threads: u32,
}

/// The same of several tasks at once, one after the other.
pub fn rates(machine: &Machine, tasks: &[Task]) -> Vec<f64> {
    let mut setup = Setup::new(machine, 1).unwrap();
    let cores = machine.topology.cores_per_llc;
    let start = |thread: u32, task: &Task, setup: &mut Setup| {
        let Task { node, of, block, .. } = *task;
        let region = setup
            .region(node, BYTES[usize::from(of.random || of.access == Access::Store)])
            .unwrap();
        let lot = u64::from(thread + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let lines = block / 64;
        // Threads of one program do not walk in step.
        let at = (lot >> 40) as u32 % (region.lines() / lines);
        let state = setup.region(0, 64).unwrap().line(0);
        let runner = Runner { of, region, state, lines, block: at, lot, ops: Vec::new(), next: 0 };
        setup
            .program(HardwareThread { core: thread % cores, sibling: thread / cores }, 0, runner)
            .unwrap()
    };
    let mut next = 0..;
    let all: Vec<Vec<_>> = tasks
        .iter()
        .map(|task| {
            let threads = next.by_ref().take(task.threads as usize);
            threads.map(|thread| start(thread, task, &mut setup)).collect()
        })
        .collect();
    let mut run = setup.start();
    // Evictions come once caches are full.
    let stores = tasks.iter().any(|task| task.of.access == Access::Store);
    let (warm, window) = if stores { (60_000_000, 5_000_000) } else { (400_000, 1_000_000) };
    let done = |run: &ringfence_simulator::hardware::Run| -> Vec<u64> {
        all.iter().map(|of| of.iter().map(|thread| run.units(*thread)).sum()).collect()
    };
    run.until(Ps::from_ns(warm));
    let before = done(&run);
    run.until(Ps::from_ns(warm + window));
    let rate = |(after, before): (u64, u64)| (after - before) as f64 / window as f64;
    done(&run).into_iter().zip(before).map(rate).collect()
}
