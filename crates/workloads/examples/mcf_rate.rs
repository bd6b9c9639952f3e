//! Measures how fast the minimum-cost-flow workload is made and solved, by footprint.

use std::time::{Duration, Instant};

use ringfence_machine::units::Bytes;
use ringfence_workloads::mcf::{Solver, State, timetable, trips_for_footprint};

fn main() {
    let limit = Duration::from_secs(20);
    for mib in [1, 2, 8, 32, 64, 256] {
        let trips = trips_for_footprint(Bytes::mib(mib));
        let start = Instant::now();
        let instance = timetable(trips, 1);
        let generated = start.elapsed();
        let mut solver = Solver::new(&instance).expect("a timetable is small enough");
        let start = Instant::now();
        solver.restart();
        let restarted = start.elapsed();
        let (start, mut priced, mut slowest) = (Instant::now(), 0, Duration::ZERO);
        let state = loop {
            let chunk = Instant::now();
            let progress = solver.run(256);
            slowest = slowest.max(chunk.elapsed());
            priced += progress.priced;
            if progress.state != State::Running || start.elapsed() > limit {
                break progress.state;
            }
        };
        let solved = start.elapsed();
        println!(
            "{mib} MiB: {trips} trips, {} B; made in {generated:.1?}, reset in {restarted:.1?}, \
             {state:?} \
             after {solved:.1?}, {} pivots, {priced} arcs priced, {:.1} M/s, slowest 256 took \
             {slowest:.1?}",
            solver.footprint_bytes(),
            solver.pivots(),
            priced as f64 / solved.as_secs_f64() / 1e6,
        );
    }
}
