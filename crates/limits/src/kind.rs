//! The interface of a kind of isolation.

use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::task::Task;
use ringfence_experiment::{Arm, Error, Limit, Reason};

use crate::setting::GroupSettings;

/// The tasks that are isolated.
pub trait Tasks {
    /// The processes of a role that run now, with everything that they have started.
    fn processes(&self, role: usize) -> Vec<u32>;

    /// Processes that some role's program has started and left, so that their role is unknown.
    fn orphans(&self) -> Vec<u32>;
}

/// An isolation method, begun for one plan. [`Self::end`] restores what it changed on the machine.
/// If the program dies before that, [`super::recover`] does, called by the guardian and at the next
/// start.
pub trait Isolation {
    /// Called when all tasks of a trial run, before anything is measured in it.
    ///
    /// # Errors
    /// Where a task cannot be taken in.
    fn begin_trial(&mut self, tasks: &dyn Tasks) -> Result<(), Error>;

    /// Sets what an arm asks for; whether anything had to be changed that takes effect slowly.
    ///
    /// # Errors
    /// What is refused.
    fn set(&mut self, arm: usize, tasks: &dyn Tasks) -> Result<bool, Error>;

    /// Called when a trial has ended, its tasks still there.
    fn end_trial(&mut self, tasks: &dyn Tasks) {
        let _ = tasks;
    }

    /// Restores the previous state. Returns what the user should know, one sentence each: settings
    /// that another process has changed meanwhile and that were left so, settings that cannot be
    /// restored yet, tasks that were not where they belong.
    ///
    /// # Errors
    /// What could not be restored, and how to try again.
    fn end(self: Box<Self>) -> Result<Vec<String>, Error>;
}

/// An isolation that has begun, or none if the experiment does not use it.
pub type Begun = Result<Option<Box<dyn Isolation>>, Error>;

/// A kind of isolation, before it is used.
pub trait Kind {
    /// Whether an arm asks for it.
    fn wanted(&self, arm: &Arm) -> bool;

    /// Why an arm that asks for it cannot have it on this machine while these run, if so.
    fn missing(&self, plan: &Plan, arm: &Arm, active: &[Active]) -> Option<Reason>;

    /// Begins it for a plan that asks for it, and for which nothing is missing.
    ///
    /// # Errors
    /// Where it is in use by another process, or refuses.
    fn begin(&self, plan: &Plan) -> Begun;

    /// Restores the leftovers of programs that no longer run, except those in the journal of
    /// changes ([`ringfence_system::changes`]), which every kind may use. Returns what the user
    /// should know about it, one sentence each.
    ///
    /// # Errors
    /// What could not be restored.
    fn recover(&self) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    /// The settings of the control group that a task of ours is moved into because of a limit of
    /// this kind, if so.
    fn group(&self, limit: &Limit, task: &Task) -> Option<GroupSettings> {
        let _ = (limit, task);
        None
    }
}
