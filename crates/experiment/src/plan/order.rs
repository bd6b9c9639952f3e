//! The order of windows in a trial.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::{Case, Plan};

/// One trial of the metric's role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// Its rounds, each with every measured case once.
    pub rounds: Vec<Vec<Step>>,
}

/// What is measured between two ping-pongs: a pair of windows, with what lies between them, or one
/// where there is no baseline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The case that the step is for.
    pub case: usize,
    /// The cases of its windows, in order.
    pub windows: Vec<usize>,
}

/// The order of one trial, drawn from the experiment's seed and the trial's number alone: a trial
/// is the same however many others there are.
pub fn trial(plan: &Plan, number: u32) -> Trial {
    let seed = plan.experiment.seed ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let measured = plan.measured();
    let round = |rng: &mut Xoshiro256PlusPlus| {
        let mut order = measured.clone();
        for i in (1..order.len()).rev() {
            order.swap(i, below(rng, i + 1));
        }
        let step = |case: usize, rng: &mut Xoshiro256PlusPlus| {
            let Case { baseline, between, .. } = &plan.cases[case];
            let mut windows: Vec<usize> =
                baseline.iter().chain(between).copied().chain([case]).collect();
            if windows.len() > 1 && below(rng, 2) == 1 {
                windows.reverse();
            }
            Step { case, windows }
        };
        order.into_iter().map(|case| step(case, rng)).collect()
    };
    Trial { rounds: (0..plan.experiment.measure.rounds).map(|_| round(&mut rng)).collect() }
}

// Uniform below `n` up to 2^-64, by multiplication: the same on every platform and version.
fn below(rng: &mut Xoshiro256PlusPlus, n: usize) -> usize {
    ((u128::from(rng.next_u64()) * n as u128) >> 64) as usize
}
