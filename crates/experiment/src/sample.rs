//! One measured window of one task.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::class::Class;
use crate::histogram::Histogram;

/// One window, one task. A window in which three tasks run gives three samples with the same
/// `trial`, `round`, `step` and `position`.
///
/// The engine fills in what it measures, the runner the window's place in the plan; both take the rest from the
/// default, so that a new field changes nothing for them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Which start of the metric's role, from 0.
    pub trial: u32,
    /// Which round of the trial, from 0.
    pub round: u32,
    /// Which step of the round, from 0: a pair of windows, or a single one.
    pub step: u32,
    /// 0 for the first window of the step, 1 for the second.
    pub position: u32,
    /// The case that the step measures.
    pub step_case: u32,
    /// The case that ran in this window: `step_case`, or its baseline.
    pub case: u32,
    /// The task's role; the samples of a dataset share the text.
    pub role: Arc<str>,
    /// Which of the role's instances, from 0.
    pub instance: u32,
    /// The CPU it was pinned to.
    pub cpu: u32,
    /// How far apart the CPUs in use were, by ping-pong before and after the step.
    pub class: Class,
    /// Ping-pong round trip before the step, ns.
    pub ping_before_ns: Option<f64>,
    /// Ping-pong round trip after the step, ns.
    pub ping_after_ns: Option<f64>,
    /// Start of the window, ns since the dataset's start.
    pub start_ns: u64,
    /// Length of the window, ns, between the task's own first and last report in it.
    pub length_ns: u64,
    /// The part of it that the task counts as work, ns: less where it prepares lines untimed.
    pub busy_ns: u64,
    /// Units of work done.
    pub units: u64,
    /// Core cycles, where there are counters.
    pub cycles: Option<u64>,
    /// Instructions retired, where there are counters.
    pub instructions: Option<u64>,
    /// Last-level cache misses, where there are counters.
    pub llc_misses: Option<u64>,
    /// Latencies of single units, where the task counts them and there were any: as many as `units`. In
    /// a dataset they are kept apart from the other fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latencies: Option<Histogram>,
}

/// The steps of samples that are in their order.
pub fn steps(samples: &[Sample]) -> impl Iterator<Item = &[Sample]> {
    let place = |sample: &Sample| (sample.trial, sample.round, sample.step);
    samples.chunk_by(move |one, other| place(one) == place(other))
}

impl Sample {
    /// Units per ns of work; `None` for an empty window.
    pub fn rate(&self) -> Option<f64> {
        (self.busy_ns > 0).then(|| self.units as f64 / self.busy_ns as f64)
    }
}
