//! `ringfence versus`: which of these commands is slower, and by how much.
//!
//! Commands are run whole, interleaved in rounds: each round runs every command once, those that
//! are compared next to each other in random order. A round gives one log-ratio, and Student's t
//! over rounds an interval.
//!
//! | part | what it is |
//! |---|---|
//! | [`case`], [`parameter`] | what is run: commands with their parameters filled in |
//! | [`order`], [`warm_up`], [`power`], [`estimate`] | design and statistics, functions of values |
//! | [`session`] | measuring round by round, against a trait, so that it is tested on made series |
//! | [`findings`], [`stretch`], [`export`] | what was found, and files of it |
//! | [`launcher`], [`launch`], [`shell`], [`same_output`], [`table`] | processes and files |
//! | `journal`, `keep` | what is kept of runs: while they are made, and at the end |
//! | [`Question`], [`mod@conduct`] | what is asked, and all of it together |

#![forbid(unsafe_code)]

pub mod case;
pub mod conduct;
pub mod estimate;
pub mod export;
mod files;
pub mod findings;
mod host;
mod journal;
pub mod launch;
pub mod launcher;
pub mod order;
pub mod parameter;
pub mod power;
pub mod question;
pub mod run;
pub mod same_output;
pub mod session;
pub mod shell;
pub mod stretch;
pub mod table;
pub mod warm_up;

pub use conduct::{Done, conduct};
pub use files::Files;
pub use findings::{Findings, Verdict};
pub use host::{Note, Watch};
pub use question::Question;
