//! What every question of several stages stands on: one way to choose an engine, to measure an experiment, to keep
//! what was measured, to end early and to go on.

mod carry_out;
pub mod engines;
mod error;
mod folder;
pub mod measure;
mod probes;
mod recorded;
mod stage;
mod watch;

pub use carry_out::{Done, Here, Planned, Study, carry_out};
pub use engines::{few_trials, plan_of};
pub use error::StudyError;
pub use folder::{Kept, cut_short, datasets};
pub use probes::Prober;
pub use stage::Stage;
pub use watch::Watch;
