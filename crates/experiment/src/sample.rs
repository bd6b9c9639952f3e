//! One measured window of one task.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::class::Class;
use crate::histogram::Histogram;
use crate::stretch::Stretch;

/// A window that lasted longer than this many times the requested length is in no figure.
///
/// A slowdown compares two windows that lie side by side and are about as long as each other: what
/// drifts then hits both alike, and each counts for as much as any other in its trial's sum. A
/// window of three times the length counts for three, and its pair spans four windows in place of
/// two; that much the estimates bear.
pub const LONGEST_WINDOW: u32 = 3;

/// A window that is late by no more than this counts, however short it was meant to be: a few turns
/// of a busy scheduler, and far less than the seconds in which machines drift.
pub const SLIGHTLY_LATE: Duration = Duration::from_millis(20);

/// One window, one task. A window in which three tasks run gives three samples with the same
/// `trial`, `round`, `step` and `position`. It consists of a [`Place`] and of what was [`Measured`]
/// there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Which start of the metric's role, from 0.
    pub trial: u32,
    /// Which round of the trial, from 0.
    pub round: u32,
    /// Which step of the round, from 0: a pair of windows, with what runs between them, or a single
    /// one.
    pub step: u32,
    /// The window's place in the step, from 0.
    pub position: u32,
    /// The case that the step measures.
    pub step_case: u32,
    /// The case that ran in this window: `step_case`, its baseline, or what runs between both.
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
    /// How much longer than requested the window was open because its ends came late, ns: the
    /// program that measures was kept from running. Time in which a window is held open for a task
    /// that has reported nothing is not late. The same for all tasks of a window; absent where a
    /// run's own length is the window's, and in older datasets.
    pub late_ns: Option<u64>,
    /// Whether nothing was measured: the window was simulated, on a machine that a file describes.
    /// Absent in older datasets, all of which were measured.
    pub simulated: Option<bool>,
    /// The units of these that were done in an episode's tail, after the others had stopped. Absent
    /// in windows.
    pub tail_units: Option<u64>,
    /// The part of `busy_ns` that lies in an episode's tail, ns. Absent in windows.
    pub tail_busy_ns: Option<u64>,
    /// Latencies of single units, where the task counts them and there were any: as many as
    /// `units`. In a dataset they are kept apart from the other fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latencies: Option<Histogram>,
    /// Where any task of the plan uses a disk: what the disk and the page cache did in the window,
    /// in the samples of the metric's first instance. Kept apart as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stretches: Option<Arc<[Stretch]>>,
}

/// What an engine knows of one task in one window. Its fields are those of [`Sample`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// The role's index in the experiment.
    pub role: usize,
    /// Which of the role's instances.
    pub instance: u32,
    /// The CPU it was pinned to.
    pub cpu: u32,
    /// Start of the window, ns since the engine's start.
    pub start_ns: u64,
    /// [`Sample::length_ns`].
    pub length_ns: u64,
    /// [`Sample::busy_ns`].
    pub busy_ns: u64,
    /// [`Sample::units`].
    pub units: u64,
    /// [`Sample::cycles`].
    pub cycles: Option<u64>,
    /// [`Sample::instructions`].
    pub instructions: Option<u64>,
    /// [`Sample::llc_misses`].
    pub llc_misses: Option<u64>,
    /// [`Sample::late_ns`].
    pub late_ns: Option<u64>,
    /// Whether nothing was measured: the window was simulated.
    pub simulated: bool,
    /// [`Sample::tail_units`].
    pub tail_units: Option<u64>,
    /// [`Sample::tail_busy_ns`].
    pub tail_busy_ns: Option<u64>,
    /// [`Sample::latencies`].
    pub latencies: Option<Histogram>,
    /// [`Sample::stretches`], whose starts are since the engine's.
    pub stretches: Option<Arc<[Stretch]>>,
}

/// Where in a plan a window was measured, and how far apart the CPUs were. Its fields are those of
/// [`Sample`].
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// [`Sample::trial`].
    pub trial: u32,
    /// [`Sample::round`].
    pub round: u32,
    /// [`Sample::step`].
    pub step: u32,
    /// [`Sample::position`].
    pub position: u32,
    /// [`Sample::step_case`].
    pub step_case: u32,
    /// [`Sample::case`].
    pub case: u32,
    /// [`Sample::class`].
    pub class: Class,
    /// [`Sample::ping_before_ns`].
    pub ping_before_ns: Option<f64>,
    /// [`Sample::ping_after_ns`].
    pub ping_after_ns: Option<f64>,
    /// From the dataset's start to the engine's, ns.
    pub offset_ns: u64,
}

impl Place {
    /// What was measured of a role here.
    pub fn sample(&self, role: Arc<str>, measured: Measured) -> Sample {
        let later = |one: &Stretch| Stretch { start_ns: self.offset_ns + one.start_ns, ..*one };
        Sample {
            trial: self.trial,
            round: self.round,
            step: self.step,
            position: self.position,
            step_case: self.step_case,
            case: self.case,
            role,
            instance: measured.instance,
            cpu: measured.cpu,
            class: self.class,
            ping_before_ns: self.ping_before_ns,
            ping_after_ns: self.ping_after_ns,
            start_ns: self.offset_ns + measured.start_ns,
            length_ns: measured.length_ns,
            busy_ns: measured.busy_ns,
            units: measured.units,
            cycles: measured.cycles,
            instructions: measured.instructions,
            llc_misses: measured.llc_misses,
            late_ns: measured.late_ns,
            simulated: Some(measured.simulated),
            tail_units: measured.tail_units,
            tail_busy_ns: measured.tail_busy_ns,
            latencies: measured.latencies,
            stretches: measured.stretches.map(|all| all.iter().map(later).collect()),
        }
    }
}

/// The steps of samples that are in their order.
pub fn steps(samples: &[Sample]) -> impl Iterator<Item = &[Sample]> {
    let place = |sample: &Sample| (sample.trial, sample.round, sample.step);
    samples.chunk_by(move |one, other| place(one) == place(other))
}

impl Sample {
    /// Whether its window, meant to be of a length, was open for longer than [`LONGEST_WINDOW`]
    /// allows.
    pub fn lasted_too_long(&self, window: Duration) -> bool {
        let allowed = (window * (LONGEST_WINDOW - 1)).max(SLIGHTLY_LATE);
        self.late_ns.is_some_and(|late| u128::from(late) > allowed.as_nanos())
    }

    /// Units per ns of work; `None` for an empty window.
    pub fn rate(&self) -> Option<f64> {
        (self.busy_ns > 0).then(|| self.units as f64 / self.busy_ns as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(ms: u64) -> Sample {
        Sample { late_ns: Some(ms * 1_000_000), ..Sample::default() }
    }

    #[test]
    fn a_window_of_more_than_three_times_its_length_lasted_too_long() {
        let window = Duration::from_millis(100);
        for (ms, expected) in [(0, false), (200, false), (201, true), (60_000, true)] {
            assert_eq!(late(ms).lasted_too_long(window), expected, "{ms} ms late");
        }
    }

    #[test]
    fn a_few_turns_of_the_scheduler_are_not_too_long_for_a_short_window() {
        let window = Duration::from_millis(2);
        assert!(!late(20).lasted_too_long(window));
        assert!(late(21).lasted_too_long(window));
    }

    // A task with long units may hold a window open for seconds: that is its own pace.
    #[test]
    fn length_alone_is_not_too_long() {
        let held_open = Sample { length_ns: 2_000_000_000, ..late(1) };
        assert!(!held_open.lasted_too_long(Duration::from_millis(20)));
        let older = Sample { length_ns: 2_000_000_000, ..Sample::default() };
        assert!(!older.lasted_too_long(Duration::from_millis(20)));
    }
}
