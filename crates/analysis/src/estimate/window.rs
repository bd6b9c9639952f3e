//! What the estimators take in.

use ringfence_experiment::class::Class;
use serde::{Deserialize, Serialize};

/// Work done in a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Units of work done, in whatever unit the workload counts; zero when it stalled throughout.
    pub units: f64,
    /// Length in nanoseconds, above zero.
    pub ns: f64,
}

impl Window {
    /// Whether both fields can be measurements: finite, no negative work, some time.
    pub fn is_valid(&self) -> bool {
        self.units.is_finite() && self.units >= 0.0 && self.ns.is_finite() && self.ns > 0.0
    }
}

/// Two adjacent windows, in whichever order they were drawn: the victim alone and beside.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// The start of the victim that the pair belongs to; any number, equal within a trial.
    pub trial: u32,
    /// How close the CPUs in use were, by the probes around the pair.
    pub class: Class,
    /// The window of the case's baseline.
    pub baseline: Window,
    /// The window of the case itself.
    pub arm: Window,
}

/// Sums of the windows of one side of one trial.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Total {
    units: f64,
    ns: f64,
}

impl Total {
    pub(super) fn add(&mut self, window: &Window) {
        self.units += window.units;
        self.ns += window.ns;
    }

    pub(super) fn stalled(&self) -> bool {
        self.units == 0.0
    }

    /// Log of ns per unit. A difference of logs, since the quotient of two finite numbers may not
    /// be finite.
    pub(super) fn log_ns_per_unit(&self) -> f64 {
        self.ns.ln() - self.units.ln()
    }
}
