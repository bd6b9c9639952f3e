//! The network simplex as a workload: instances solved in turn, again and again.

use ringfence_experiment::task::Mcf;
use ringfence_machine::units::Bytes;

use super::mcf::{Solver, State, timetable, trips_for_footprint};
use crate::workload::{Latencies, SetupError, Work, Workload};

const PORTION: u64 = 64;

/// Solvers that begin anew whenever they have found the optimum. Each call works on the next one, so
/// that a window of a few milliseconds sees them all, each at another point of its solution.
pub struct Pricer {
    solvers: Vec<Solver>,
    next: usize,
}

impl Pricer {
    /// Generates the instances, and brings each to its own point.
    pub fn new(task: &Mcf) -> Result<Self, SetupError> {
        let count = task.instance_count();
        let trips = trips_for_footprint(Bytes(task.footprint.0 / u64::from(count)));
        let mut solvers = Vec::with_capacity(count as usize);
        for number in 0..count {
            let instance = timetable(trips, task.seed.wrapping_add(u64::from(number)));
            let mut solver = Solver::new(&instance).map_err(|error| SetupError::Other(error.to_string()))?;
            let whole = if count > 1 { arcs_priced_until_optimal(&mut solver) } else { 0 };
            advance(&mut solver, whole * u64::from(number) / u64::from(count));
            solvers.push(solver);
        }
        Ok(Self { solvers, next: 0 })
    }
}

fn arcs_priced_until_optimal(solver: &mut Solver) -> u64 {
    let mut total = 0;
    loop {
        let progress = solver.run(u64::from(u32::MAX));
        total += progress.priced;
        if progress.state != State::Running {
            solver.restart();
            return total;
        }
    }
}

fn advance(solver: &mut Solver, arcs: u64) {
    if arcs > 0 && solver.run(arcs).state != State::Running {
        solver.restart();
    }
}

impl Workload for Pricer {
    fn work(&mut self, amount: u64, _: &dyn Latencies) -> Work {
        let count = self.solvers.len();
        let solver = &mut self.solvers[self.next];
        self.next = (self.next + 1) % count;
        let progress = solver.run(amount * PORTION);
        if progress.state != State::Running {
            solver.restart();
        }
        Work { units: progress.priced, untimed: 0 }
    }

    // A round: as many arcs as all instances have.
    fn settle_units(&self) -> u64 {
        self.solvers.iter().map(|solver| solver.footprint_bytes() / 64).sum()
    }
}
