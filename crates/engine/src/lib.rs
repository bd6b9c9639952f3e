//! What runs a plan: an engine starts trials, pauses and resumes tasks, and measures windows.
//!
//! [`host::HostEngine`] does it on this machine, with one process per task. Everything above it,
//! the runner included, sees only [`Engine`], so that scheduling is tested without time.

pub mod available;
mod before_exec;
mod disks;
pub mod guardian;
pub mod host;
mod priority;
mod process;
pub mod program;
pub mod runner;
mod shm;
mod usage;
pub mod worker;
pub mod write_budget;

use std::time::Duration;

use ringfence_experiment::Error;
use ringfence_machine::cpulist::CpuId;

pub use before_exec::end_with_us;
pub use ringfence_workloads::probe::is_routine;
pub use usage::Used;

use ringfence_experiment::plan::Active;
pub use ringfence_experiment::sample::Measured;
use ringfence_experiment::start::Start;

/// Runs tasks and measures them.
pub trait Engine {
    /// How long it is since the engine's start: the clock by which budgets of time are kept.
    fn elapsed(&self) -> Duration;

    /// Sets the time, by [`Engine::elapsed`], at which a running window is aborted, with an error
    /// that says so. Windows of a stated length may end first: only those that last as long as a
    /// run does cannot be foreseen.
    fn give_up_at(&mut self, at: Option<Duration>) {
        let _ = at;
    }

    /// From now on the metric's programs are stopped half of the time in their windows, in turns,
    /// or no longer.
    fn stop_half_of_the_time(&mut self, stop: bool) {
        let _ = stop;
    }

    /// What a role's processes, other than the metric's, have used in all windows so far.
    fn used(&self, role: usize) -> Used {
        let _ = role;
        Used::default()
    }

    /// Restarts the metric's role, and starts all other roles that do not run yet; all are paused.
    ///
    /// # Errors
    /// Where a task cannot be started.
    fn begin_trial(&mut self, trial: u32) -> Result<(), Error>;

    /// What the victims that have just been started measured of themselves meanwhile; each start is
    /// reported once.
    fn starts(&mut self) -> Vec<Start> {
        Vec::new()
    }

    /// Pauses all tasks and measures the round trip between the first of these CPUs and the others,
    /// in ns; the largest where there are several. `None` where there is only one CPU or no probe
    /// is wanted.
    ///
    /// # Errors
    /// Where a task does not pause.
    fn probe(&mut self, cpus: &[CpuId]) -> Result<Option<f64>, Error>;

    /// Applies the settings of a case's arm (see [`ringfence_limits`]) before its window.
    ///
    /// # Errors
    /// Where that is refused, and where an arm wants what this engine cannot arrange: it must not
    /// be measured without under its name.
    fn arrange(&mut self, case: usize) -> Result<(), Error>;

    /// Runs exactly the tasks given, lets them settle, and measures one window.
    ///
    /// # Errors
    /// Where a task ends or does not run.
    fn window(&mut self, active: &[Active]) -> Result<Vec<Measured>, Error>;

    /// Ends all tasks and restores what was changed on the machine. Returns what the user should
    /// know, one sentence each: settings that another process has changed meanwhile and that were
    /// left so, settings that cannot be restored yet, and tasks that were not where they belong.
    ///
    /// # Errors
    /// What could not be restored, and how to try again.
    fn end(self: Box<Self>) -> Result<Vec<String>, Error>;
}
