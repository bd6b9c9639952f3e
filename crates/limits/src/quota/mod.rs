//! A quota of CPU time: `cpu.max` of version 2 of control groups, `cpu.cfs_quota_us` of version 1
//! (kernel documentation, admin-guide/cgroup-v2 and scheduler/sched-bwc). It is a parameter of a
//! task; the engine makes the group of a program, and stops and continues where there is none.

mod lever;

use ringfence_experiment::units::Share;

use crate::setting::{CPU, GroupSettings, Version};

pub use lever::Quota;

/// The period in which a quota holds, µs. The kernel's default of 100 ms would be as long as a
/// window.
pub const PERIOD_US: u64 = 10_000;

/// At most this share of one CPU's time.
pub fn settings(share: Share) -> GroupSettings {
    let us = ((PERIOD_US as f64 * share.0).round() as u64).max(1000);
    GroupSettings::of(&CPU)
        .with(Version::Two, "cpu.max", format!("{us} {PERIOD_US}"))
        .with(Version::One, "cpu.cfs_period_us", PERIOD_US)
        .with(Version::One, "cpu.cfs_quota_us", us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_written_as_each_version_wants_it() {
        let quota = settings(Share(0.25));
        assert_eq!(quota.written(Version::Two), ["cpu.max = 2500 10000"]);
        assert_eq!(
            quota.written(Version::One),
            ["cpu.cfs_period_us = 10000", "cpu.cfs_quota_us = 2500"]
        );
    }
}
