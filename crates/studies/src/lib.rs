//! Questions that take several experiments, or one and a conclusion of its own: one folder each.
//!
//! What they stand on is beside them: one way to choose an engine ([`engines`]), to measure an
//! experiment and keep what was measured ([`measure`]), to end early and to resume.

#![forbid(unsafe_code)]

mod carry_out;
pub mod claims;
pub mod compare;
pub mod describe;
pub mod digest;
pub mod engines;
pub mod findings;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
mod folder;
pub mod lock;
pub mod measure;
pub mod pair;
mod plan;
mod probes;
pub mod prove;
mod recordings;
pub mod reproduce;
pub mod sensitivity;
mod stage;
pub mod survey;
pub mod tune;
mod watch;
pub mod whatif;

pub use carry_out::{Done, Here, Planned, Study, carry_out};
pub use engines::few_trials;

pub use folder::{Kept, cut_short, datasets};
pub use plan::{plan, refuse_nothing, refuse_parts};
pub use probes::Prober;
pub use stage::Stage;
pub use watch::Watch;
