//! What sets tasks apart from one another while an arm runs: caches and bandwidth by resctrl, the CPU's time by
//! control groups.
//!
//! A way to isolate is an [`Isolation`] and a row in [`KINDS`]. An arm that asks for what no row knows cannot be
//! written, and one that asks for what this machine does not have is not run.

pub(crate) mod cgroup;
mod kind;
pub mod resctrl;
mod settings;
mod weight;

use ringfence_experiment::Arm;
use ringfence_experiment::plan::Plan;

pub use kind::{Isolation, Kind, Tasks};

use crate::EngineError;

/// All of them.
pub const KINDS: [Kind; 2] = [resctrl::KIND, weight::KIND];

/// Those that a plan asks for, begun. Arms that this machine cannot hold are not run, and want nothing of it.
///
/// # Errors
/// Where one of them is not there, is in use by somebody else, or refuses.
pub fn begin(plan: &Plan) -> Result<Vec<Box<dyn Isolation>>, EngineError> {
    let measured = plan.measured();
    let run: Vec<usize> =
        measured.iter().flat_map(|case| [Some(*case), plan.cases[*case].baseline]).flatten().collect();
    let wanted = |kind: &&Kind| {
        let of_case = |case: &usize| {
            let name = &plan.cases[*case].arm;
            plan.experiment.arms.iter().any(|arm| arm.name == *name && (kind.wanted)(arm))
        };
        run.iter().any(of_case)
    };
    let begun = KINDS.iter().filter(wanted).filter_map(|kind| (kind.begin)(plan).transpose());
    begun.collect()
}

/// What this machine lacks for an arm, if anything, to follow "because".
pub fn missing(arm: &Arm) -> Option<String> {
    KINDS.iter().filter(|kind| (kind.wanted)(arm)).find_map(|kind| (kind.missing)())
}

/// Puts back what the program with this process id has left behind. What fails is left to the next start.
pub fn recover(owner: u32) {
    for kind in &KINDS {
        let _ = (kind.recover)(Some(owner));
    }
}
