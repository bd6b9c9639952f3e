//! What is wasteful or suspicious in the instructions of one run, whatever a crash makes of it.
//!
//! Two kinds of findings: what is not durable when it should be ([`Rule::NeverDurable`],
//! [`Rule::AcknowledgedTooEarly`], [`Rule::MissingFence`]), by the same rules of what completes
//! what as the explorer's; and what costs time without need (the others). They say what one run
//! did: another path through the program may do something else.

mod advice;
mod finding;
mod lints;
#[cfg(test)]
mod tests;
mod walk;

use std::ops::Range;

use crate::event::Event;
use crate::profile::Profile;

pub use advice::{Drops, DurableBy, Scope};
pub use finding::{BLOCK, Lint, Rule};
pub(crate) use finding::{Proposal, uncovered};
pub use lints::Lints;

/// The findings in one run from memory that is durable at first, by rule and place. What is stored
/// to `volatile` bytes need not be durable.
pub(crate) fn of(profile: Profile, events: &[Event], volatile: &[Range<usize>]) -> Vec<Lint> {
    let mut walk = walk::Walk::new(profile, volatile);
    events.iter().for_each(|event| walk.step(event));
    walk.finish()
}
