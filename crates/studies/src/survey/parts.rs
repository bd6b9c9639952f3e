//! What the cost of a durable write is made of, by measured differences.
//!
//! On a 4 KiB block of lines that were flushed out of the cache beforehand (untimed):
//!
//! - *copy*: ordinary stores to lines already held in the cache;
//! - *read for ownership*: what the same stores cost more on cold lines, which must be read first;
//! - *instruction*: what flushing adds, without any fence; for non-temporal stores, what they cost
//!   more than the copy, since they need no ownership;
//! - *ordering*: what a fence after each block adds, and one after each line;
//! - *invalidation*: what loading the line again costs more afterwards than loading a cached line.

use ringfence_analysis::estimate::{
    Difference, NotEstimable, Window, arithmetic_rate, difference, serialize_estimate,
    serialize_estimate_if_any,
};
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use ringfence_experiment::task::{FenceAt, Instruction, LineState, Task};
use serde::Serialize;

use super::probes::Reloads;

/// A difference, or why there is none.
pub type Part = Result<Difference, NotEstimable>;

/// The parts of one instruction's cost, ns per line.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CostParts"))]
pub struct Parts {
    /// The instruction, as the tables name it.
    pub instruction: &'static str,
    /// Stores to lines in the cache, absolute.
    #[serde(serialize_with = "serialize_estimate")]
    pub copy: Part,
    /// Reading cold lines before they are stored to; absent for non-temporal stores.
    #[serde(serialize_with = "serialize_estimate_if_any")]
    pub ownership: Option<Part>,
    /// The instruction itself.
    #[serde(serialize_with = "serialize_estimate")]
    pub flush: Part,
    /// A fence after every 4 KiB block.
    #[serde(serialize_with = "serialize_estimate")]
    pub fence_per_block: Part,
    /// A fence after every line.
    #[serde(serialize_with = "serialize_estimate")]
    pub fence_per_line: Part,
    /// Loading the line again, in ns more than a cached line: the median, no interval. Absent where
    /// it was not probed.
    pub reload: Option<f64>,
}

/// Takes the parts out of the samples of the survey's cost experiment.
pub fn parts(plan: &Plan, samples: &[Sample], reloads: &Reloads, level: f64) -> Vec<Parts> {
    let windows =
        |instruction: Instruction, line: LineState, fence_at: FenceAt| -> Vec<(u32, Window)> {
            let is_it = |case: usize| match plan.metric_task(case) {
                Task::Write(write) => {
                    write.instruction == instruction
                        && write.line == line
                        && write.fence_at == fence_at
                        && write.block.0 == 4096
                }
                _ => false,
            };
            samples
                .iter()
                .filter(|sample| is_it(sample.case as usize))
                .map(|sample| {
                    (sample.trial, Window { units: sample.units as f64, ns: sample.busy_ns as f64 })
                })
                .collect()
        };
    let warm = windows(Instruction::None, LineState::Warm, FenceAt::None);
    let cold = windows(Instruction::None, LineState::Cold, FenceAt::None);
    let mut all = Vec::new();
    for instruction in Instruction::flushing() {
        let name = instruction.label();
        let unfenced = windows(instruction, LineState::Cold, FenceAt::None);
        if unfenced.is_empty() {
            continue;
        }
        let stream = instruction == Instruction::Nt;
        let before = if stream { &warm } else { &cold };
        let fenced = |at| difference(&windows(instruction, LineState::Cold, at), &unfenced, level);
        let after = reloads
            .after
            .iter()
            .find(|(flush, _)| flush == name)
            .map(|(_, reload)| reload.median_ns);
        all.push(Parts {
            instruction: name,
            copy: arithmetic_rate(&warm, level),
            ownership: (!stream).then(|| difference(&cold, &warm, level)),
            flush: difference(&unfenced, before, level),
            fence_per_block: fenced(FenceAt::Block),
            fence_per_line: fenced(FenceAt::Line),
            reload: after
                .zip(reloads.cached.as_ref())
                .map(|(after, cached)| after - cached.median_ns),
        });
    }
    all
}
