//! What is wasteful or suspicious in the instructions of one run, whatever a crash makes of it.

use std::panic::Location;

use crate::event::Event;
use crate::profile::Profile;

/// What may be the matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Stored, and not durable at the end.
    NeverDurable,
    /// Stored, and not durable when it was acknowledged.
    AcknowledgedTooEarly,
    /// Flushed, or stored by non-temporal stores, and not fenced before an acknowledgement or the end.
    MissingFence,
    /// Flushed again though nothing was stored to the line since, without a fence in between.
    RedundantFlush,
    /// A flush of a line that nothing was stored to since it was last durable.
    CleanFlush,
    /// One line flushed twice between two fences, with a store in between.
    FlushedTwice,
    /// A flush where caches are in the persistence domain.
    FlushUnderEadr,
    /// A fence with nothing to wait for.
    RedundantFence,
    /// A long write that covers one of its 256-byte blocks only in part.
    PartialBlock,
    /// Recovery read bytes that were stored with those of a checksum, and that the checksum does not cover.
    UncoveredField,
}

/// One finding, for all its occurrences at one place of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lint {
    /// What is the matter.
    pub rule: Rule,
    /// The instruction concerned.
    pub at: &'static Location<'static>,
    /// How often it happened there.
    pub count: usize,
}

pub(crate) fn of(_profile: Profile, _events: &[Event]) -> Vec<Lint> {
    Vec::new()
}

impl std::fmt::Display for Lint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {:?}", self.at.file(), self.at.line(), self.rule)
    }
}
