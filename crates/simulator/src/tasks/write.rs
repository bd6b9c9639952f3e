//! The writer: copies blocks, flushes them, and fences, in the order of the workload's own loops.

use crate::hardware::{Line, Op, Ps, Region, SetupError};
use ringfence_experiment::task::{FenceAt, FenceKind, Instruction, LineState, Pattern, Write};
use ringfence_persist::{Flush, LINE};

use super::place::Place;
use crate::actor::{Tally, Task};

// Lines prepared at once for a warm or cold start, as the workload does.
const PREPARED: u32 = (12 << 10) / LINE as u32;
// Lines for which a lone writer that flushes runs before it is measured: 4 MiB, far more than all
// buffers of DIMMs hold.
const WARM_UP: u64 = 1 << 16;
// Bytes between two waits of a paced writer.
const PACED: u64 = 4096;

/// A writer and where it stands.
pub struct Writer {
    region: Region,
    // A source of one block, where it does not stay in the first level.
    source: Option<Region>,
    // A line of its own, for locked fences.
    own: Line,
    lines: u32,
    blocks: u32,
    index: u32,
    random: Option<u64>,
    instruction: Instruction,
    whole: bool,
    // Whether copies are non-temporal stores.
    nt_copy: bool,
    fence: FenceKind,
    fence_at: FenceAt,
    batch: u32,
    unfenced: u32,
    state: LineState,
    pace: Option<Pace>,
    prepared: Prepared,
    // Lines that the last level holds, or fewer where there are not so many.
    caches: u64,
}

struct Pace {
    ps_per_block: f64,
    blocks: u32,
    left: u32,
    due: f64,
}

// Where a writer whose lines are prepared stands.
enum Prepared {
    Not,
    Since(Ps),
}

impl Writer {
    pub fn new(task: &Write, place: &mut Place) -> Result<Self, SetupError> {
        let region = place.written(&task.target, task.size)?;
        let own = place.setup.region(0, LINE as u64)?.line(0);
        // Loads of a source in the first level cost nothing beside the stores.
        let stays = task.block.0 <= u64::from(place.description.parts.l1.size_kib) * 1024 / 2;
        let source = if stays {
            None
        } else {
            Some(place.region(&ringfence_experiment::task::Target::Dram, task.block)?)
        };
        let blocks = (task.size.0 / task.block.0) as u32;
        let pace = task.pace.map(|rate| Pace {
            ps_per_block: task.block.0 as f64 / rate.0.0 as f64 * 1e12,
            blocks: (PACED / task.block.0).max(1) as u32,
            left: 0,
            due: 0.0,
        });
        let caches = place.llc_lines().min(task.size.0 / LINE as u64);
        Ok(Self {
            region,
            source,
            own,
            lines: (task.block.0 / LINE as u64) as u32,
            blocks,
            // Trials begin at places of their own.
            index: (place.seed % u64::from(blocks)) as u32,
            random: (task.pattern == Pattern::Random).then_some(place.seed | 1),
            instruction: task.instruction,
            whole: task.copies_by_movsb(),
            nt_copy: task.instruction == Instruction::Nt || task.copies_past_caches(),
            fence: task.fence,
            fence_at: task.fence_at,
            batch: task.batch,
            unfenced: 0,
            state: task.line,
            pace,
            prepared: Prepared::Not,
            caches,
        })
    }

    // The first line of a block, and the order's next state.
    fn block(&self, (index, random): (u32, Option<u64>)) -> (u32, (u32, Option<u64>)) {
        match random {
            // As the workload draws them.
            Some(state) => {
                let state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let index = ((u128::from(state) * u128::from(self.blocks)) >> 64) as u32;
                (index * self.lines, (index, Some(state)))
            }
            None => {
                (index * self.lines, (if index + 1 == self.blocks { 0 } else { index + 1 }, None))
            }
        }
    }

    fn advance(&mut self) -> u32 {
        let (first, order) = self.block((self.index, self.random));
        (self.index, self.random) = order;
        first
    }

    fn push_fence(&self, ops: &mut Vec<Op>) {
        ops.push(match self.fence {
            FenceKind::Sfence => Op::Sfence,
            FenceKind::Mfence => Op::Mfence,
            FenceKind::Locked => Op::Locked(self.own),
            FenceKind::Lfence => Op::Lfence,
        });
    }

    fn write(&mut self, ops: &mut Vec<Op>) {
        let first = self.advance();
        let (around, each) = (
            self.fence_at == FenceAt::Around,
            matches!(self.fence_at, FenceAt::Line | FenceAt::Around),
        );
        let flush = self.instruction.flush();
        for offset in 0..self.lines {
            let line = self.region.line(first + offset);
            if around && flush.is_none() {
                self.push_fence(ops);
            }
            if let Some(source) = self.source {
                ops.push(Op::Load { line: source.line(offset), dependent: false });
            }
            ops.push(match self.nt_copy {
                true => Op::NtStore { line, bytes: LINE as u8 },
                // Fast strings write whole lines without reading them (Intel Optimization Reference
                // Manual, "Enhanced REP MOVSB and STOSB Operation").
                false if self.whole => Op::StoreWhole(line),
                false => Op::Store(line),
            });
            if each && flush.is_none() {
                self.push_fence(ops);
            }
        }
        if let Some(kind) = flush {
            for offset in 0..self.lines {
                if around {
                    self.push_fence(ops);
                }
                ops.push(Op::Flush { kind, line: self.region.line(first + offset) });
                if each {
                    self.push_fence(ops);
                }
            }
        }
        if self.fence_at == FenceAt::Block {
            self.unfenced += 1;
            if self.unfenced >= self.batch {
                self.push_fence(ops);
                self.unfenced = 0;
            }
        }
        ops.push(Op::Units(self.lines));
    }

    // The blocks that are written next, brought into the state asked for.
    fn prepare(&self, blocks: u32, ops: &mut Vec<Op>) {
        let mut order = (self.index, self.random);
        for _ in 0..blocks {
            let (first, then) = self.block(order);
            order = then;
            for line in (first..first + self.lines).map(|line| self.region.line(line)) {
                ops.push(match self.state {
                    LineState::Cold => Op::Flush { kind: Flush::Clflushopt, line },
                    LineState::Warm | LineState::AsIs => Op::Load { line, dependent: false },
                });
            }
        }
        ops.extend([Op::Lfence, Op::Mfence]);
    }

    fn prepared(&mut self, now: Ps, tally: &Tally, ops: &mut Vec<Op>) {
        let blocks = (PREPARED / self.lines).max(1);
        match self.prepared {
            Prepared::Not => {
                self.prepare(blocks, ops);
                self.prepared = Prepared::Since(now);
            }
            Prepared::Since(begun) => {
                tally.untimed(now - begun);
                (0..blocks).for_each(|_| self.write(ops));
                // What is still in the store buffer belongs to this portion, not to the next
                // preparation.
                ops.push(Op::Mfence);
                self.prepared = Prepared::Not;
            }
        }
    }

    // Rests until so much may have been written; time that was lost is not made up for.
    fn rest(&mut self, now: Ps, ops: &mut Vec<Op>) {
        let Some(pace) = &mut self.pace else { return };
        if pace.left > 0 {
            pace.left -= 1;
            return;
        }
        pace.left = pace.blocks - 1;
        let now = now.0 as f64;
        if pace.due > now {
            ops.push(Op::Rest(Ps((pace.due - now) as u64)));
        }
        let late = now - pace.due > 1000.0 * pace.ps_per_block;
        pace.due = if late { now } else { pace.due } + f64::from(pace.blocks) * pace.ps_per_block;
    }
}

impl Task for Writer {
    fn portion(&mut self, now: Ps, tally: &Tally, ops: &mut Vec<Op>) {
        if self.state == LineState::AsIs {
            self.rest(now, ops);
            self.write(ops);
        } else {
            self.prepared(now, tally, ops);
        }
    }

    fn round(&self, alone: bool) -> u64 {
        match (self.instruction, alone) {
            // Lines that are flushed leave no evictions behind.
            (Instruction::Flush(_) | Instruction::Nt, true) => WARM_UP.min(self.caches),
            // Evictions come once what caches hold has been replaced.
            _ => self.caches,
        }
    }
}
