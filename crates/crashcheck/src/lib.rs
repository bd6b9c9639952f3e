//! What a crash can leave behind: a model of x86's persistency, and an explorer of every state of memory after
//! a crash, for code written over [`ringfence_persist::Memory`].

mod choices;
mod event;
mod explore;
mod lint;
mod machine;
mod profile;
mod remains;
mod story;

pub use event::{Event, Kind, WORD, Write};
pub use explore::{Check, Report, Violation};
pub use lint::{BLOCK, Lint, Rule};
pub use machine::Machine;
pub use profile::Profile;
pub use ringfence_persist::policy::Prices;
pub use story::{Fate, Story};
