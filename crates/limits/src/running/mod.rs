//! Limits by resctrl for running processes: cache ways and memory bandwidth for processes, groups,
//! units and containers, for as long as the user wants, and how to undo them; and what they use.
//!
//! [`check`] goes from [`Limits`] as they are written to what resctrl takes, or says why not.
//! [`Targets`] are the processes that are meant. Changes are made in a
//! [`Transaction`](ringfence_resctrl::Transaction): [`make_group`] and [`move_into`] for limits,
//! [`watch::groups`] for watching. A [`Loan`] undoes them, even if this program is killed.
//!
//! What is limited is what [`ringfence_system::attach`] finds: nothing that the system or the way
//! in depends on. What is only watched may be that, too.

#![forbid(unsafe_code)]

mod limits;
pub mod loan;
mod membership;
mod targets;
pub mod watch;

pub use limits::{Checked, Limits, check};
pub use loan::Loan;
pub use membership::{Moved, check_for, make_group, move_into};
pub use ringfence_system::attach::Target;
pub use targets::{Targets, named};
