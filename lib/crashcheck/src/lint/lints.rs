//! Lints of events as they come, for callers that do not hold them all at once.

use std::ops::Range;

use ringfence_persist::policy::Prices;

use super::finding::Lint;
use super::walk::Walk;
use crate::event::Event;
use crate::profile::Profile;

/// Finds what is wasteful or suspicious in a sequence of events, on memory that is durable at
/// first. It holds something for each line that is not durable, or was stored to past the caches.
///
/// ```
/// use ringfence_crashcheck::{At, Event, Kind, Lints, Profile, Rule, Write};
///
/// let mut lints = Lints::new(Profile::IntelAdr);
/// let write = Write { word: 0, bytes: [1; 8], mask: 0xff };
/// lints.step(&Event { kind: Kind::Store(write), at: At::Site(7) });
/// lints.step(&Event { kind: Kind::Sfence, at: At::Site(8) });
/// let found: Vec<_> = lints.finish().iter().map(|lint| (lint.rule, lint.at)).collect();
/// assert_eq!(found, [(Rule::NeverDurable, At::Site(7)), (Rule::RedundantFence, At::Site(8))]);
/// ```
#[derive(Debug)]
pub struct Lints(Walk<'static>);

impl Lints {
    /// Before any event.
    pub fn new(profile: Profile) -> Self {
        Self(Walk::new(profile, &[]))
    }

    /// The next event.
    pub fn step(&mut self, event: &Event) {
        self.0.step(event);
    }

    /// Something else than instructions makes these bytes durable, such as `msync`, or ends them:
    /// everything that was stored there, or only what was numbered up to `until`.
    pub fn settle(&mut self, bytes: Range<usize>, until: Option<u64>) {
        self.0.settle_all(bytes, until);
    }

    /// Numbers the events that follow, for [`Lints::settle`]. Numbers rise.
    pub fn number(&mut self, number: u64) {
        self.0.number = number;
    }

    /// What was found, by rule and place.
    pub fn finish(self) -> Vec<Lint> {
        self.0.finish()
    }
}

impl Lint {
    /// Says what it costs each time.
    pub fn priced(mut self, prices: &Prices) -> Self {
        self.price(prices);
        self
    }
}
