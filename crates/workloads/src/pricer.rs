//! The network simplex as a workload: instances solved in turn, again and again.

use ringfence_experiment::task::Mcf;
use ringfence_machine::units::Bytes;

use super::mcf::{Instance, Solver, State, Tracer, Untraced, timetable, trips_for_footprint};
use crate::workload::{Latencies, SetupError, Work, Workload};

const PORTION: u64 = 64;

/// Solvers that begin anew whenever they have found the optimum. Each call works on the next one,
/// so that a window of a few milliseconds sees them all, each at another point of its solution.
#[derive(Clone)]
pub struct Pricer<T = Untraced> {
    solvers: Vec<Solver<T>>,
    next: usize,
}

impl Pricer {
    /// Generates the instances, and brings each to its own point.
    ///
    /// # Errors
    /// Where an instance is too large to be solved.
    pub fn new(task: &Mcf) -> Result<Self, SetupError> {
        Self::traced(task, 0.0, |_| Untraced)
    }
}

impl<T: Tracer> Pricer<T> {
    /// As [`Pricer::new`], with a tracer for each solver. The points to which the solvers are
    /// brought are later by a share, from 0 to 1, of the distance between them, or of one round
    /// over the arcs where there is one solver alone.
    ///
    /// # Errors
    /// As there.
    pub fn traced(
        task: &Mcf,
        later: f64,
        mut tracer: impl FnMut(&Instance) -> T,
    ) -> Result<Self, SetupError> {
        let count = task.instance_count();
        let trips = trips_for_footprint(Bytes(task.footprint.0 / u64::from(count)));
        let mut solvers = Vec::with_capacity(count as usize);
        for number in 0..count {
            let instance = timetable(trips, task.seed.wrapping_add(u64::from(number)));
            let mut solver = Solver::traced(&instance, tracer(&instance))
                .map_err(|error| SetupError::Other(error.to_string()))?;
            let arcs = instance.arc_count() as u64;
            let whole = if count > 1 { arcs_priced_until_optimal(&mut solver) } else { arcs };
            let step = (later * whole as f64) as u64;
            advance(&mut solver, (whole * u64::from(number) + step) / u64::from(count));
            solvers.push(solver);
        }
        Ok(Self { solvers, next: 0 })
    }

    /// Works on the next solver: how many arcs were priced, and the solver's tracer.
    pub fn price(&mut self, amount: u64) -> (u64, &mut T) {
        let count = self.solvers.len();
        let solver = &mut self.solvers[self.next];
        self.next = (self.next + 1) % count;
        let progress = solver.run(amount * PORTION);
        if progress.state != State::Running {
            solver.restart();
        }
        (progress.priced, solver.tracer())
    }

    /// All solvers' tracers.
    pub fn tracers(&mut self) -> impl Iterator<Item = &mut T> {
        self.solvers.iter_mut().map(Solver::tracer)
    }
}

fn arcs_priced_until_optimal<T: Tracer>(solver: &mut Solver<T>) -> u64 {
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

fn advance<T: Tracer>(solver: &mut Solver<T>, arcs: u64) {
    if arcs > 0 && solver.run(arcs).state != State::Running {
        solver.restart();
    }
}

impl<T: Tracer> Workload for Pricer<T> {
    fn work(&mut self, amount: u64, _: &dyn Latencies) -> Work {
        Work { units: self.price(amount).0, untimed: 0 }
    }

    // A round: as many arcs as all instances have.
    fn settle_units(&self) -> u64 {
        self.solvers.iter().map(|solver| solver.footprint_bytes() / 64).sum()
    }
}
