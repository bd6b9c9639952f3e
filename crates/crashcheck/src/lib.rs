//! What a crash can leave behind: a model of x86's persistency, and an explorer of every state of memory after
//! a crash, for code written over [`ringfence_persist::Memory`].

mod check;
mod choices;
mod content;
mod event;
mod explore;
mod fix;
mod lint;
mod machine;
mod names;
mod nots;
mod profile;
mod remains;
mod run;
mod shrink;
mod story;
mod uncovered;

pub use check::{Check, Report, Violation, check};
pub use event::{Event, Kind, WORD, Write};
pub use fix::Fix;
pub use lint::{BLOCK, Lint, Rule};
pub use machine::Machine;
pub use profile::Profile;
pub use ringfence_persist::policy::Prices;
pub use story::{Fate, Story};
