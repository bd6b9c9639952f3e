//! What sets tasks apart from one another while an arm runs: caches and bandwidth by resctrl, the CPU's time by
//! control groups.
//!
//! A way to isolate is an [`Isolation`] and a row in [`KINDS`]. An arm that asks for what no row knows cannot be
//! written, and one that asks for what this machine does not have is not run.

pub(crate) mod cgroup;
pub mod resctrl;
mod settings;
mod weight;

use std::time::Duration;

use ringfence_experiment::Arm;
use ringfence_experiment::plan::Plan;

use crate::EngineError;

/// Who is set apart.
pub trait Tasks {
    /// The processes of a role that run now, with everything that they have started.
    fn processes(&self, role: usize) -> Vec<u32>;

    /// Processes that some role's program has started and left, so that nobody knows whose they are.
    fn orphans(&self) -> Vec<u32>;
}

/// A way to set tasks apart, begun for one plan. What it changes on the machine it puts back in [`Self::end`]; and
/// where the program dies before that, [`Kind::recover`] does, called by the guardian and at the next start.
pub trait Isolation {
    /// Called when all tasks of a life run, before anything is measured in it.
    ///
    /// # Errors
    /// Where a task cannot be taken in.
    fn begin_life(&mut self, tasks: &dyn Tasks) -> Result<(), EngineError>;

    /// Sets what an arm asks for; whether anything had to be changed that takes effect slowly.
    ///
    /// # Errors
    /// What is refused.
    fn set(&mut self, arm: usize, tasks: &dyn Tasks) -> Result<bool, EngineError>;

    /// Called when a life has ended, its tasks still there.
    fn end_life(&mut self, tasks: &dyn Tasks) {
        let _ = tasks;
    }

    /// Puts back what was there before. Returned is what should be known, one sentence each: what somebody else has
    /// changed meanwhile and was left so, what cannot be put back yet, tasks that were not where they belong.
    ///
    /// # Errors
    /// What could not be put back, and how to try again.
    fn end(self: Box<Self>) -> Result<Vec<String>, EngineError>;
}

/// What is known of a way to isolate before it is used.
pub struct Kind {
    /// Whether an arm asks for it.
    pub wanted: fn(&Arm) -> bool,
    /// Why this machine does not have it, if so, to follow "because".
    pub missing: fn() -> Option<String>,
    /// Begins it for a plan that asks for it.
    pub begin: fn(&Plan) -> Result<Option<Box<dyn Isolation>>, EngineError>,
    /// Puts back what the program with this process id left behind, or any that lives no more.
    pub recover: fn(Option<u32>) -> Result<(), EngineError>,
}

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

/// How long whoever sets up resctrl waits for somebody else who is changing it.
pub(crate) const NO_WAIT: Duration = Duration::ZERO;
