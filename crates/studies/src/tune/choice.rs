//! The choice: a pure function of measured costs.

use ringfence_analysis::results;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use ringfence_experiment::task::{Instruction, Task};
use ringfence_machine::units::Bytes;
use ringfence_persist::Flush;
use ringfence_persist::policy::Method;
use serde::{Serialize, Serializer};

use super::{BATCHES, BLOCKS};

/// PMDK's rule: non-temporal stores from so many bytes on (libpmem(7), `PMEM_MOVNT_THRESHOLD`).
pub const PMDK_THRESHOLD: u64 = 256;

/// A batch is worth it while it is cheaper by more than this.
const WORTH: f64 = 0.1;

/// Costs within this of each other are equal: on real machines an order of them would be noise.
const SAME: f64 = 0.02;

/// What a line costs, ns, by method and block, fenced after each block.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Costs {
    /// (instruction, block, batch, ns per line).
    pub all: Vec<(Instruction, Bytes, u32, f64)>,
}

impl Costs {
    /// Those of a measured experiment.
    pub fn new(plan: &Plan, samples: &[Sample]) -> Self {
        let estimates = results::main_estimates(plan, samples, 0.95);
        let cost = |(case, estimate): (usize, ringfence_analysis::estimate::Estimate)| match plan
            .metric_task(case)
        {
            Task::Write(write) => {
                Some((write.instruction, write.block, write.batch, estimate.ok()?.value))
            }
            _ => None,
        };
        Self { all: plan.measured().into_iter().zip(estimates).filter_map(cost).collect() }
    }

    fn of(&self, instruction: Instruction, block: Bytes, batch: u32) -> Option<f64> {
        let is_it = |known: &&(Instruction, Bytes, u32, f64)| {
            (known.0, known.1, known.2) == (instruction, block, batch)
        };
        self.all.iter().find(is_it).map(|known| known.3)
    }
}

/// What was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FlushChoice"))]
pub struct Choice {
    /// The instruction below the threshold.
    #[serde(serialize_with = "as_text")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    #[cfg_attr(feature = "schema", schemars(extend("enum" = Flush::ALL.map(Flush::name))))]
    pub instruction: Flush,
    /// Bytes from which on non-temporal stores are used.
    pub nt_threshold: Option<u64>,
    /// Blocks between two fences.
    pub batch: u32,
}

fn as_text<S: Serializer>(flush: &Flush, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(flush)
}

impl Choice {
    /// How a block is written.
    pub fn method(&self, block: Bytes) -> Method {
        match self.nt_threshold {
            Some(threshold) if block.0 >= threshold => Method::NonTemporal,
            _ => Method::Flush(self.instruction),
        }
    }

    /// PMDK's, with the best instruction that this processor has.
    pub fn pmdk(supported: impl Fn(Flush) -> bool) -> Self {
        let instruction = Flush::GENTLEST_FIRST
            .into_iter()
            .find(|flush| supported(*flush))
            .unwrap_or(Flush::Clflush);
        Self { instruction, nt_threshold: Some(PMDK_THRESHOLD), batch: 1 }
    }
}

/// The task parameter that stands for a method.
pub fn instruction(method: Method) -> Instruction {
    match method {
        Method::NonTemporal => Instruction::Nt,
        Method::Flush(flush) => Instruction::Flush(flush),
    }
}

/// The instruction and threshold whose costs are least over all block sizes, each size counting
/// alike (the sum of their logarithms), and the batch at which a further one brings little. `None`
/// where costs are missing.
pub fn choose(costs: &Costs) -> Option<Choice> {
    let log = |method: Method, block: Bytes| costs.of(instruction(method), block, 1).map(f64::ln);
    let mut best: Option<(f64, Choice)> = None;
    for flush in Flush::GENTLEST_FIRST {
        for first_nt in (0..=BLOCKS.len()).rev() {
            let method = |index: usize| {
                if index < first_nt { Method::Flush(flush) } else { Method::NonTemporal }
            };
            let total: Option<f64> =
                (0..BLOCKS.len()).map(|index| log(method(index), BLOCKS[index])).sum();
            let Some(total) = total else { continue };
            let threshold = BLOCKS.get(first_nt).map(|block| block.0);
            let choice = Choice { instruction: flush, nt_threshold: threshold, batch: 1 };
            // The gentlest come first; a later one must be better by more than noise, at each size.
            let same = SAME.ln_1p() * BLOCKS.len() as f64;
            if best.as_ref().is_none_or(|(least, _)| total < least - same) {
                best = Some((total, choice));
            }
        }
    }
    let (_, choice) = best?;
    Some(Choice { batch: batch(costs, choice.method(BLOCKS[0])).unwrap_or(1), ..choice })
}

fn batch(costs: &Costs, method: Method) -> Option<u32> {
    let cost = |batch: u32| costs.of(instruction(method), BLOCKS[0], batch);
    let least = BATCHES.into_iter().filter_map(cost).min_by(f64::total_cmp)?;
    BATCHES.into_iter().find(|batch| cost(*batch).is_some_and(|cost| cost <= least * (1.0 + WORTH)))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Costs by a rule: a fence costs 100 ns a block, a line `flush` or `nt` ns besides.
    fn costs(flush: [f64; 3], nt: f64, nt_fence: f64) -> Costs {
        let mut all = Vec::new();
        for block in BLOCKS {
            let lines = block.0 as f64 / 64.0;
            for (kind, own) in Flush::GENTLEST_FIRST.into_iter().zip(flush) {
                all.push((instruction(Method::Flush(kind)), block, 1, own + 100.0 / lines));
            }
            all.push((Instruction::Nt, block, 1, nt + nt_fence / lines));
        }
        for batch in &BATCHES[1..] {
            for (kind, own) in Flush::GENTLEST_FIRST.into_iter().zip(flush) {
                all.push((
                    instruction(Method::Flush(kind)),
                    BLOCKS[0],
                    *batch,
                    own + 100.0 / f64::from(*batch),
                ));
            }
            all.push((Instruction::Nt, BLOCKS[0], *batch, nt + nt_fence / f64::from(*batch)));
        }
        Costs { all }
    }

    #[test]
    fn the_threshold_lies_where_the_costs_cross() {
        // 20 + 100/n against 5 + 400/n: equal at n = 20 lines, so from 2 KiB on among the sizes.
        let choice = choose(&costs([20.0, 20.0, 150.0], 5.0, 400.0)).unwrap();
        assert_eq!((choice.instruction, choice.nt_threshold), (Flush::Clwb, Some(2048)));
        // By hand: 120, 70, 45, 32.5, 26.25 ns at 1, 2, 4, 8, 16: only 16 is within a tenth of
        // 26.25.
        assert_eq!(choice.batch, 16);
    }

    #[test]
    fn always_never_and_another_instruction() {
        assert_eq!(choose(&costs([20.0, 20.0, 150.0], 5.0, 90.0)).unwrap().nt_threshold, Some(64));
        assert_eq!(choose(&costs([20.0, 20.0, 150.0], 50.0, 400.0)).unwrap().nt_threshold, None);
        let choice = choose(&costs([20.0, 10.0, 150.0], 50.0, 400.0)).unwrap();
        assert_eq!(choice.instruction, Flush::Clflushopt);
        assert_eq!(choose(&Costs::default()), None);
    }

    #[test]
    fn pmdk_takes_the_best_instruction_there_is() {
        assert_eq!(Choice::pmdk(|_| true).instruction, Flush::Clwb);
        assert_eq!(Choice::pmdk(|flush| flush == Flush::Clflush).instruction, Flush::Clflush);
        assert_eq!(Choice::pmdk(|_| true).method(Bytes(255)), Method::Flush(Flush::Clwb));
        assert_eq!(Choice::pmdk(|_| true).method(Bytes(256)), Method::NonTemporal);
    }
}
