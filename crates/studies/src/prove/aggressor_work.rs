//! The aggressor's work next to the victim: if it did almost nothing, nothing was tested.

use ringfence_engine::Used;
use serde::{Deserialize, Serialize};

/// An aggressor that used less of a CPU than this, and shows no other work, did nothing.
pub const LEAST_SHARE: f64 = 0.01;
/// Bytes a second, read and written, that are a sign of work by themselves.
pub const LEAST_BYTES_PER_S: f64 = 64.0 * 1024.0;
/// What a start of a program may cost without being its work, ns of CPU time: loading and linking.
pub const START_NS: u64 = 3_000_000;

/// What the aggressor did in its windows of the baseline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Worked {
    /// What its processes used.
    pub used: Used,
    /// Units of work that it counted, where units tell that work was done.
    pub units: Option<u64>,
}

impl Worked {
    /// Both parts of a baseline that was resumed.
    pub fn and(self, other: Self) -> Self {
        let units = match (self.units, other.units) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        Self { used: self.used.and(other.used), units }
    }

    /// The share of a CPU that it used, of all its instances; `None` where it never ran.
    pub fn cpu_share(&self) -> Option<f64> {
        (self.used.windows_ns > 0).then(|| self.used.cpu_ns as f64 / self.used.windows_ns as f64)
    }

    /// Bytes a second that it read and wrote.
    pub fn bytes_per_s(&self) -> Option<f64> {
        (self.used.windows_ns > 0)
            .then(|| self.used.io_bytes as f64 / self.used.windows_ns as f64 * 1e9)
    }

    /// Bytes a second that it gave to disks, or to the page cache for them, all instances together.
    pub fn disk_bytes_per_s(&self) -> Option<f64> {
        (self.used.windows_ns > 0)
            .then(|| self.used.disk_bytes as f64 / self.used.windows_ns as f64 * 1e9)
    }

    /// Starts a second.
    pub fn restarts_per_s(&self) -> Option<f64> {
        (self.used.windows_ns > 0)
            .then(|| self.used.restarts as f64 / self.used.windows_ns as f64 * 1e9)
    }

    /// Whether it did next to nothing: less than `LEAST_SHARE` of a CPU besides being started,
    /// hardly a byte, and nothing that it counted.
    pub fn nothing(&self) -> bool {
        let Used { windows_ns, cpu_ns, restarts, .. } = self.used;
        let working = cpu_ns.saturating_sub(restarts.saturating_mul(START_NS));
        windows_ns > 0
            && (working as f64) < LEAST_SHARE * windows_ns as f64
            && self.bytes_per_s().is_some_and(|rate| rate < LEAST_BYTES_PER_S)
            && self.units.is_none_or(|units| units == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worked(cpu_ms: u64, io_bytes: u64, restarts: u64, units: Option<u64>) -> Worked {
        let used = Used {
            windows_ns: 2_000_000_000,
            cpu_ns: cpu_ms * 1_000_000,
            io_bytes,
            disk_bytes: 0,
            restarts,
        };
        Worked { used, units }
    }

    #[test]
    fn sleeping_and_starting_again_is_nothing() {
        assert!(worked(0, 0, 0, None).nothing(), "sleep 1000");
        assert!(worked(700, 0, 600, None).nothing(), "true, three hundred times a second");
        assert!(worked(19, 100_000, 0, Some(0)).nothing());
    }

    #[test]
    fn cpu_time_bytes_or_units_are_work() {
        assert!(!worked(20, 0, 0, None).nothing());
        assert!(!worked(0, 200_000, 0, None).nothing(), "it waits for a disk");
        assert!(!worked(0, 0, 0, Some(3)).nothing(), "it counted something");
        assert!(!worked(1000, 0, 10, None).nothing(), "it ends and works");
        assert!(!Worked::default().nothing(), "nothing is known");
    }

    #[test]
    fn shares_are_of_its_windows() {
        let worked = worked(500, 4096, 4, None);
        assert_eq!(worked.cpu_share(), Some(0.25));
        assert_eq!((worked.bytes_per_s(), worked.restarts_per_s()), (Some(2048.0), Some(2.0)));
        assert_eq!(worked.and(worked).cpu_share(), Some(0.25));
        assert_eq!(Worked::default().cpu_share(), None);
    }
}
