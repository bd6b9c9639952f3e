//! The network simplex as a workload: solved again and again.

use super::mcf::{Solver, State, timetable, trips_for_footprint};
use super::{Latencies, SetupError, Work, Workload};
use crate::task::Mcf;

const PORTION: u64 = 64;

/// A solver that begins anew whenever it has found the optimum.
pub struct Pricer(Solver);

impl Pricer {
    /// Generates the instance.
    pub fn new(task: &Mcf) -> Result<Self, SetupError> {
        let instance = timetable(trips_for_footprint(task.footprint), task.seed);
        let solver = Solver::new(&instance).map_err(|error| SetupError::Other(error.to_string()))?;
        Ok(Self(solver))
    }
}

impl Workload for Pricer {
    fn work(&mut self, amount: u64, _: &dyn Latencies) -> Work {
        let progress = self.0.run(amount * PORTION);
        if progress.state != State::Running {
            self.0.restart();
        }
        Work { units: progress.priced, untimed: 0 }
    }

    // One pass over the arcs brings in all that pricing looks at.
    fn settle_units(&self) -> u64 {
        self.0.footprint_bytes() / 64
    }
}
