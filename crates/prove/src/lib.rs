//! `prove`: does an aggressor slow a victim down more than a budget allows, which lever on the
//! aggressor helps, and what does the aggressor pay for it?
//!
//! Three stages, each a dataset of its own. The *baseline* decides whether anything is needed: victim
//! alone, and beside the aggressor. The *levers* compare everything that this machine offers in one
//! interleaved experiment. The *confirmation* measures the cheapest lever that seems to meet the
//! budget again, on fresh trials: whoever selects, confirms, and only that figure is the lever's.
//! A lever that fails is followed by the next one, [`ATTEMPTS`] times at most, over which the
//! permitted error is divided.

mod choice;
pub mod control;
mod experiments;
mod keep;
pub mod lever;
mod levers;
mod order;
mod proof;
mod question;
mod run;
#[cfg(test)]
#[path = "../tests/inside/simulated_proofs.rs"]
mod simulated;
pub mod time;
mod worked;

pub use choice::{Price, Tried};
pub use control::Control;
pub use keep::{Kept, keep};
pub use lever::{Candidate, started_in_group};
pub use levers::names as lever_names;
pub use proof::{CLEARLY_FASTER, Confirmation, Proof, Reached, Verdict};
pub use question::{Files, Question, Record};
pub use ringfence_isolation::adopted::Left as KeptLimit;
pub use ringfence_isolation::resctrl::Kept as KeptByResctrl;
pub use run::{KEEP_NOTHING, check_time, plan_of_baseline, precision, run};
pub use worked::{LEAST_BYTES_PER_S, Worked};

/// Confirmations at most.
pub const ATTEMPTS: usize = 2;

/// The victim's role, also the metric.
pub const VICTIM: &str = "victim";
/// The aggressor's role.
pub const AGGRESSOR: &str = "aggressor";
/// The arm without an aggressor.
pub const ALONE: &str = "alone";
/// The arm with the aggressor as it is.
pub const BESIDE: &str = "beside";
