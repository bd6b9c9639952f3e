//! From samples to figures with intervals: pure functions, no clock, no machine.
//!
//! # What is estimated
//!
//! An experiment has *trials* (one start of the victim each); a trial has pairs of adjacent
//! windows, one alone (the *baseline*) and one beside the co-runner (the *arm*), in random order.
//! The primary figure is
//!
//! ```text
//! slowdown = (baseline's units / baseline's ns) / (arm's units / arm's ns)
//! ```
//!
//! that is, the time that a unit of work takes beside, over the time that it takes alone: 1.00 is
//! unchanged, 12.0 twelve times slower, 0.9 faster. *Slower by x %* means that the time per unit
//! grew by x % (x = 100 (slowdown - 1)), *faster by x %* that it fell by x %. Every percentage
//! follows from this formula.
//!
//! # Where the interval comes from
//!
//! Windows of one trial share its memory layout and the machine's drift, so they are not
//! independent observations; trials are. Each trial gives one log-ratio of *total* work per time (a
//! trimmed mean would throw away the stalls in which a neighbour's harm often lies), and Student's
//! t over trials gives the interval (Kalibera and Jones, "Rigorous benchmarking in reasonable
//! time", ISMM 2013: repeat at the highest level that varies). Its target is the geometric mean,
//! over the trials that could have been started, of a trial's slowdown.
//!
//! To look at the data before the end, look at [`Looks`] that were fixed in advance, and report the
//! interval at [`Looks::level_after`] so many trials, whichever look was the last one.
//!
//! The same figure of two datasets is compared by [`ratio_between`]: their trials have nothing to
//! do with each other, so it is Welch's t over both groups of trials.
//!
//! A figure that cannot be had, or that says nothing (of fewer than [`FEWEST_TRIALS`] trials, or
//! with an interval beyond a factor of [`WIDEST`] to either side), is a [`NotEstimable`] with its
//! reason and what it would take; no function here returns NaN or infinity.

mod aa;
mod by_class;
mod two_groups;

mod counts;
mod diagnostics;
mod difference;
mod interval;
mod looks;
mod modes;
mod quantiles;
mod range;
mod rate;
mod requirements;
mod slowdown;
mod student;
mod verdict;
mod window;

pub use aa::{AaSummary, POWER, Proportion, most_spread};
pub use by_class::{ByClass, ClassEstimate, by_class, quantile_by_class};
pub use counts::interpolated;
pub use diagnostics::{Diagnostics, TRIMMED_SHARE, diagnostics};
pub use difference::{Difference, arithmetic_rate, difference};
pub use interval::{Estimate, FEWEST_TRIALS, Interval, NotEstimable, Unknown, WIDEST};
pub use interval::{serialize_estimate, serialize_estimate_if_any, serialize_unknown};
pub use looks::{BadLooks, Decision, Goal, Looks, SHARE_OF_EFFECT, StopReason};
pub use modes::{MODES_APART_BY, Mode, SMALLEST_MODE_GAP, modes};
pub use quantiles::{
    FEWEST_BEYOND, LatencyPair, Logs, MOST_GROUPS, fewest_latencies, quantile_between,
    quantile_logs, quantile_observed, quantile_of, quantile_ratio, quantile_ratio_logs,
    quantile_ratio_observed,
};
pub use range::Observed;
pub use rate::{rate, rate_logs, rate_ratio};
pub use slowdown::{slowdown, slowdown_logs};
pub use student::{MOST_TRIALS, trials_needed};
pub(crate) use student::{t_probability, t_quantile_at, t_two_sided};
pub use two_groups::ratio_between;
pub use verdict::{Finding, Verdict};
pub use window::{Pair, Window};
