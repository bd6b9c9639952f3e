//! Runs by round, for a picture: where there are more than it has room for, several in a row are
//! one.

use std::collections::BTreeMap;

use crate::estimate;
use crate::order::Slot;
use crate::run::{Quantity, Run};

/// Runs of one command in a row, all of them warm-up or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The command's number.
    pub case: usize,
    /// The first round.
    pub round: u32,
    /// Runs.
    pub runs: u32,
    /// How many of them did not end with exit code 0.
    pub failed: u32,
    /// Time of the median, the least and the greatest run, ns, without the shell's start.
    pub ns: [u64; 3],
}

/// At most about so many stretches, by round.
pub fn stretches(runs: &[Run], most: usize) -> Vec<Stretch> {
    let several = runs.len().div_ceil(most).max(1) as u32;
    // Any level: the value is the same.
    let start = estimate::shell(runs, Quantity::Wall, 0.95).and_then(Result::ok);
    let start = start.map_or(0, |start| start.value as u64);
    let mut found: BTreeMap<_, Vec<&Run>> = BTreeMap::new();
    for run in runs {
        if let Slot::Case(case) = run.slot {
            found.entry(((run.round - 1) / several, !run.warm_up, case)).or_default().push(run);
        }
    }
    let stretch = |((.., case), runs): ((u32, bool, usize), Vec<&Run>)| {
        let mut ns: Vec<u64> =
            runs.iter().map(|run| run.took.wall_ns.saturating_sub(start)).collect();
        ns.sort_unstable();
        let last = ns.len() - 1;
        let failed = runs.iter().filter(|run| !run.took.succeeded()).count();
        Stretch {
            case,
            round: runs[0].round,
            runs: ns.len() as u32,
            failed: failed as u32,
            ns: [ns[last / 2], ns[0], ns[last]],
        }
    };
    found.into_iter().map(stretch).collect()
}
