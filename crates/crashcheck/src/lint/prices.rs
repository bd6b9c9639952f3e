//! What a finding costs, by what was measured on a machine: never by a figure of ours.

use super::finding::{Lint, Rule};
use ringfence_persist::policy::Prices;

impl Lint {
    // Nanoseconds of one needless instruction. What is wrong, and not slow, has no price.
    pub(crate) fn price(&mut self, prices: &Prices) {
        self.ns = match self.rule {
            Rule::RedundantFlush | Rule::CleanFlush => prices.clean_flush_ns,
            Rule::FlushedTwice | Rule::FlushUnderEadr => prices.flush_ns,
            Rule::RedundantFence => prices.fence_ns,
            Rule::NeverDurable | Rule::AcknowledgedTooEarly | Rule::MissingFence => None,
            Rule::PartialBlock | Rule::UncoveredField => None,
        };
    }
}
