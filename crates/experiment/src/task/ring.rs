//! The ring's parameters.

use ringfence_machine::units::Bytes;
use ringfence_persist::LINE;
use serde::{Deserialize, Serialize};

use super::Target;
use super::axes::axes;
use super::parameters::Parameters;
use crate::Reason;

/// A ring buffer: entries are pushed, each durable before the next one, and read again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Ring {
    /// Which ring.
    pub variant: RingVariant,
    /// Bytes of an entry's payload: 1 B to 2 MiB.
    pub entry: Bytes,
    /// Bytes of the ring that hold entries, what goes with each of them included.
    pub size: Bytes,
    /// Entries that are made durable together, by one fence; more than 1 for our ring alone.
    pub batch: u32,
    /// Whether entries are read before their space is given back. Without it, the slides' rings
    /// cost what their producer costs; ours verifies every entry that it gives back all the same.
    // Files in which it is true stay as they were before there was such a key.
    #[serde(skip_serializing_if = "Clone::clone")]
    pub read: bool,
    /// Where the memory comes from.
    pub target: Target,
    /// Whether it stays on its CPU; if not, the scheduler may move it to any that is allowed.
    pub pinned: bool,
}

/// Which ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum RingVariant {
    /// [`ringfence_persist::Ring`]: checksummed entries, one fence for each.
    Ringfence,
    /// The slides' first one: ordinary stores, `clflush` of every line and of the position.
    Naive,
    /// The slides' optimised one, as published: non-temporal stores that nothing orders before the
    /// position. Wrong between two cores and after a crash.
    Optimised,
    /// The same with a fence before the position too: two fences for each entry.
    Repaired,
}

impl Default for Ring {
    fn default() -> Self {
        Self {
            variant: RingVariant::Ringfence,
            entry: Bytes(64),
            size: Bytes::mib(64),
            batch: 1,
            read: true,
            target: Target::Dram,
            pinned: true,
        }
    }
}

// Room for so many batches: what waits to be read, what was read and is not yet given back, what is
// being pushed.
const BATCHES: u64 = 8;

impl Ring {
    /// Bytes that an entry takes up at the most, whichever the variant: its payload in whole lines,
    /// and what goes with it.
    pub fn slot(&self) -> u64 {
        (self.entry.0 + LINE as u64).next_multiple_of(LINE as u64)
    }
}

axes!(Ring: Rings, "ring" {
    variant: RingVariant,
    entry: Bytes,
    size: Bytes,
    batch: u32,
    read: bool,
    target: Target,
    pinned: bool,
});

impl Parameters for Ring {
    fn unit(&self) -> &'static str {
        "entries"
    }

    fn bytes_per_unit(&self) -> Option<u64> {
        Some(self.entry.0)
    }

    fn not_simulated(&self) -> Option<Reason> {
        None
    }

    fn pinned(&self) -> bool {
        self.pinned
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn size(&self) -> Option<Bytes> {
        Some(self.size)
    }

    fn check(&self) -> Result<(), String> {
        if self.entry.0 == 0 || self.entry.0 > 2 << 20 {
            return Err(format!(
                "entry = {} is not between 1B and 2MiB: choose such a size",
                self.entry
            ));
        }
        if self.batch == 0 {
            return Err("batch = 0 would never push: use at least 1".into());
        }
        if self.batch > 1 && self.variant != RingVariant::Ringfence {
            return Err(format!(
                "batch = {} applies only with variant = \"ringfence\": leave out one of them",
                self.batch
            ));
        }
        let least = Bytes(BATCHES * u64::from(self.batch) * self.slot());
        if self.size < least {
            return Err(format!(
                "size = {} is too small for entry = {} and batch = {}: at least {least}",
                self.size, self.entry, self.batch
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_rings_are_refused_with_the_remedy() {
        let four = Bytes::kib(4);
        let cases = [
            (Ring { entry: Bytes(0), ..Ring::default() }, "entry = 0B is not between"),
            (Ring { entry: Bytes::mib(4), ..Ring::default() }, "entry = 4MiB is not between"),
            (Ring { batch: 0, ..Ring::default() }, "would never push"),
            (
                Ring { batch: 2, variant: RingVariant::Repaired, ..Ring::default() },
                "only with variant",
            ),
            (Ring { entry: four, size: Bytes::kib(32), ..Ring::default() }, "at least 32.5KiB"),
            (
                Ring { entry: four, size: Bytes::kib(64), batch: 2, ..Ring::default() },
                "at least 65KiB",
            ),
        ];
        for (ring, part) in cases {
            let error = ring.check().expect_err(part);
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(Ring::default().check(), Ok(()));
        assert_eq!(Ring { entry: four, size: Bytes(33280), ..Ring::default() }.check(), Ok(()));
    }
}
