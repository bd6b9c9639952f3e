//! Minimum-cost flow by the network simplex method: a cache-sensitive victim.
//!
//! Pricing walks an array of arcs with a large stride and, for each arc, looks up the
//! potentials of two nodes; pivoting then chases tree links through the nodes. Neither helps a
//! prefetcher, which is why SPEC's `mcf`, the same method on vehicle schedules of this kind, is
//! a usual victim in studies of cache sharing. The code here is written from the textbook method
//! and shares nothing with SPEC's but the shape of its data and its pricing rule.
//!
//! Progress counts arcs priced. Its rate is not even over a solution: trees start flat, and a
//! pivot in the deep ones of the middle moves up to half of all nodes. Rates compare only over
//! the same arcs, or over whole solutions.
//!
//! ```
//! use ringfence_workloads::mcf::{Solver, State, timetable};
//! let mut solver = Solver::new(&timetable(50, 1)).unwrap();
//! while solver.run(256).state == State::Running {}
//! let first = solver.cost();
//! solver.restart();
//! while solver.run(1000).state == State::Running {}
//! assert_eq!(solver.cost(), first);
//! ```

mod dimacs;
mod draw;
mod generate;
mod instance;
mod pricing;
mod simplex;
mod tracer;
mod tree;
mod verify;

pub use dimacs::DimacsError;
pub use generate::{RandomShape, random, timetable, trips_for_footprint};
pub use instance::{Arc, Instance};
pub use simplex::{Progress, Solver, State, TooLarge};
pub use tracer::{Access, Place, Tracer, Untraced};
pub use verify::{Violation, verify};
