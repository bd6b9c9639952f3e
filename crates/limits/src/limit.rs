//! The limits that a control group is made for, and the files of the kernel that hold them: a quota
//! of CPU time (`cpu.max` of version 2, `cpu.cfs_quota_us` of version 1), a weight (`cpu.weight`,
//! `cpu.shares`), a limit of what is written to disks (`io.max`,
//! `blkio.throttle.write_bps_device`), a weight for disks (`io.weight`, `io.bfq.weight`,
//! `blkio.bfq.weight`), the memory above which processes are throttled (`memory.high`), and the
//! CPUs that they may use (`cpuset.cpus`). Kernel documentation: admin-guide/cgroup-v2,
//! admin-guide/cgroup-v1/cpusets, scheduler/sched-bwc, scheduler/sched-design-CFS,
//! admin-guide/cgroup-v1/blkio-controller and block/bfq-iosched.

use ringfence_experiment::units::{Rate, Share};
use ringfence_machine::cpulist::CpuSet;
use ringfence_machine::units::Bytes;
use ringfence_system::changes::Entry;
use serde::{Deserialize, Serialize};

/// The period in which a quota holds, µs. The kernel's default of 100 ms would be as long as a
/// window.
pub const PERIOD_US: u64 = 10_000;

/// The weight of a group that was given none.
pub const DEFAULT_WEIGHT: u32 = 100;

/// What a group is made for.
#[derive(Debug, Clone, PartialEq)]
pub enum Limit {
    /// At most this share of one CPU's time.
    Quota(Share),
    /// The weight against other users of the CPU, 1 to 10000; others have 100.
    Weight(u32),
    /// The most bytes per second written to each of these disks, by `MAJOR:MINOR`; unlimited where
    /// none is given.
    Write {
        /// The disks.
        disks: Vec<String>,
        /// The rate.
        rate: Option<Rate>,
    },
    /// The weight against other users of a disk, 1 to 1000; others have 100.
    DiskWeight {
        /// What applies it.
        by: Weigher,
        /// The weight.
        weight: u32,
    },
    /// Processes of the group that make its memory more than this, cached pages included, are
    /// throttled until less is used; unlimited where none is given.
    MemoryHigh(Option<Bytes>),
    /// These CPUs and no others.
    Cpus(CpuSet),
}

/// What shares a disk by weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weigher {
    /// The scheduler bfq.
    Bfq,
    /// The controller's model of what requests cost (io.cost), of version 2.
    Cost,
}

impl Limit {
    /// The controller that it is a setting of.
    pub(super) fn controller(&self) -> Controller {
        match self {
            Limit::Quota(_) | Limit::Weight(_) => Controller::Cpu,
            Limit::Write { .. } | Limit::DiskWeight { .. } => Controller::Disk,
            Limit::MemoryHigh(_) => Controller::Memory,
            Limit::Cpus(_) => Controller::Cpus,
        }
    }

    /// Whether a version of control groups has it.
    pub fn is_of(&self, version: Version) -> bool {
        match self {
            Limit::MemoryHigh(_) | Limit::DiskWeight { by: Weigher::Cost, .. } => {
                version == Version::Two
            }
            _ => true,
        }
    }

    /// As [`Self::settings`], for a group that is not ours: of a file with a line for each disk,
    /// the entry that is set.
    pub fn entries(&self, version: Version) -> Vec<(&'static str, Option<Entry>, String)> {
        let Limit::Write { disks, rate } = self else {
            return self
                .settings(version)
                .into_iter()
                .map(|(file, text)| (file, None, text))
                .collect();
        };
        let (file, key, unset) = match version {
            Version::Two => ("io.max", Some("wbps".to_owned()), "max"),
            Version::One => (WRITE_BPS, None, "0"),
        };
        let value = rate.map_or(unset.into(), |rate| rate.0.0.to_string());
        let entry =
            |disk: &String| Entry { device: disk.clone(), key: key.clone(), unset: unset.into() };
        disks.iter().map(|disk| (file, Some(entry(disk)), value.clone())).collect()
    }

    /// The files that hold it, and what is written there, in this order; none in a version that
    /// does not have it.
    pub fn settings(&self, version: Version) -> Vec<(&'static str, String)> {
        match (self, version) {
            (Limit::Quota(quota), version) => {
                let us = ((PERIOD_US as f64 * quota.0).round() as u64).max(1000);
                match version {
                    Version::Two => vec![("cpu.max", format!("{us} {PERIOD_US}"))],
                    Version::One => vec![
                        ("cpu.cfs_period_us", PERIOD_US.to_string()),
                        ("cpu.cfs_quota_us", us.to_string()),
                    ],
                }
            }
            (Limit::Weight(weight), Version::Two) => vec![("cpu.weight", weight.to_string())],
            // 1024 is the default there.
            (Limit::Weight(weight), Version::One) => {
                vec![("cpu.shares", (u64::from(*weight) * 1024 / 100).max(2).to_string())]
            }
            // The kernel takes one disk by a write.
            (Limit::Write { disks, rate }, Version::Two) => {
                let rate = rate.map_or("max".into(), |rate| rate.0.0.to_string());
                disks.iter().map(|disk| ("io.max", format!("{disk} wbps={rate}"))).collect()
            }
            // 0 takes a limit away there.
            (Limit::Write { disks, rate }, Version::One) => {
                let rate = rate.map_or(0, |rate| rate.0.0);
                disks.iter().map(|disk| (WRITE_BPS, format!("{disk} {rate}"))).collect()
            }
            (Limit::DiskWeight { by, weight }, Version::Two) => {
                let file = if *by == Weigher::Bfq { "io.bfq.weight" } else { "io.weight" };
                vec![(file, format!("default {weight}"))]
            }
            (Limit::DiskWeight { by: Weigher::Bfq, weight }, Version::One) => {
                vec![(BFQ_WEIGHT, weight.to_string())]
            }
            (Limit::MemoryHigh(bytes), Version::Two) => {
                vec![("memory.high", bytes.map_or("max".into(), |bytes| bytes.0.to_string()))]
            }
            (Limit::Cpus(cpus), _) => vec![("cpuset.cpus", cpus.to_string())],
            (Limit::MemoryHigh(_) | Limit::DiskWeight { by: Weigher::Cost, .. }, Version::One) => {
                Vec::new()
            }
        }
    }
}

/// The file of version 1 in which bytes written a second are limited, disk by disk.
pub const WRITE_BPS: &str = "blkio.throttle.write_bps_device";

/// The file of version 1 in which bfq's weight is.
pub const BFQ_WEIGHT: &str = "blkio.bfq.weight";

/// What shares something out among groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Controller {
    /// The CPU's time.
    Cpu,
    /// What is given to disks.
    Disk,
    /// Memory, and what is cached in it.
    Memory,
    /// Which CPUs there are.
    Cpus,
}

impl Controller {
    /// What the kernel calls it.
    pub const fn name(self, version: Version) -> &'static str {
        match (self, version) {
            (Controller::Cpu, _) => "cpu",
            (Controller::Disk, Version::One) => "blkio",
            (Controller::Disk, Version::Two) => "io",
            (Controller::Memory, _) => "memory",
            (Controller::Cpus, _) => "cpuset",
        }
    }

    /// Why no group has it, where none does.
    pub const fn not_there(self) -> &'static str {
        match self {
            Controller::Cpu => {
                "no CPU controller of control groups is mounted, or none is delegated to a group"
            }
            Controller::Disk => {
                "blkio of cgroup v1 is not mounted, and io of cgroup v2 is not delegated to a \
                 group (as root: 'echo +io > /sys/fs/cgroup/cgroup.subtree_control')"
            }
            Controller::Cpus => {
                "no cpuset of control groups is mounted, or none is delegated to a group"
            }
            Controller::Memory => {
                "memory of cgroup v2 is not delegated to a group (as root: 'echo +memory > \
                 /sys/fs/cgroup/cgroup.subtree_control'), and cgroup v1 has no memory.high"
            }
        }
    }
}

/// A version of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Version {
    /// A hierarchy for each controller.
    One,
    /// One hierarchy.
    Two,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_written_as_each_version_wants_them() {
        let quota = Limit::Quota(Share(0.25));
        assert_eq!(quota.settings(Version::Two), [("cpu.max", "2500 10000".to_string())]);
        assert_eq!(quota.settings(Version::One)[1], ("cpu.cfs_quota_us", "2500".to_string()));
        let weights = [1, 10, 100, 10_000].map(Limit::Weight);
        let written =
            |version| weights.each_ref().map(|weight| weight.settings(version)[0].1.clone());
        assert_eq!(written(Version::Two), ["1", "10", "100", "10000"]);
        assert_eq!(written(Version::One), ["10", "102", "1024", "102400"]);
    }

    #[test]
    fn what_is_written_to_disks_is_limited_disk_by_disk_and_let_go_again() {
        let limit = |rate: Option<&str>| Limit::Write {
            disks: vec!["8:0".into(), "259:3".into()],
            rate: rate.map(|rate| rate.parse().unwrap()),
        };
        let written = |rate, version| {
            let settings = limit(rate).settings(version);
            assert!(settings.iter().all(|(file, _)| *file == settings[0].0));
            (settings[0].0, settings.into_iter().map(|(_, text)| text).collect::<Vec<_>>())
        };
        let text =
            |file: &'static str, lines: [&str; 2]| (file, lines.map(str::to_string).to_vec());
        let one = "blkio.throttle.write_bps_device";
        assert_eq!(
            written(Some("5MiB/s"), Version::One),
            text(one, ["8:0 5242880", "259:3 5242880"])
        );
        assert_eq!(written(None, Version::One), text(one, ["8:0 0", "259:3 0"]));
        assert_eq!(
            written(Some("1KiB/s"), Version::Two),
            text("io.max", ["8:0 wbps=1024", "259:3 wbps=1024"])
        );
        assert_eq!(written(None, Version::Two), text("io.max", ["8:0 wbps=max", "259:3 wbps=max"]));
    }

    #[test]
    fn in_a_group_of_others_one_entry_of_a_disk_is_set() {
        let rate = Some("1MiB/s".parse().unwrap());
        let limit = Limit::Write { disks: vec!["8:0".into(), "259:3".into()], rate };
        for version in [Version::One, Version::Two] {
            let lines: Vec<(&str, String)> = limit
                .entries(version)
                .into_iter()
                .map(|(file, entry, value)| (file, entry.unwrap().line(&value)))
                .collect();
            assert_eq!(lines, limit.settings(version));
        }
        let quota = Limit::Quota(Share(0.25)).entries(Version::One);
        let files: Vec<&str> = quota.iter().map(|(file, ..)| *file).collect();
        assert_eq!(files, ["cpu.cfs_period_us", "cpu.cfs_quota_us"]);
        assert!(quota.iter().all(|(_, entry, _)| entry.is_none()));
    }

    #[test]
    fn disks_are_shared_out_by_whoever_heeds_a_weight() {
        let written = |by, version| Limit::DiskWeight { by, weight: 10 }.settings(version);
        assert_eq!(written(Weigher::Bfq, Version::One), [("blkio.bfq.weight", "10".to_string())]);
        assert_eq!(
            written(Weigher::Bfq, Version::Two),
            [("io.bfq.weight", "default 10".to_string())]
        );
        assert_eq!(written(Weigher::Cost, Version::Two), [("io.weight", "default 10".to_string())]);
    }

    #[test]
    fn what_version_1_does_not_have_is_not_made_there() {
        let limits = [Limit::MemoryHigh(None), Limit::DiskWeight { by: Weigher::Cost, weight: 10 }];
        for limit in limits {
            assert!(!limit.is_of(Version::One) && limit.is_of(Version::Two));
            assert!(limit.settings(Version::One).is_empty());
        }
        let high = |bytes| Limit::MemoryHigh(bytes).settings(Version::Two);
        assert_eq!(high(Some(Bytes::mib(64))), [("memory.high", "67108864".to_string())]);
        assert_eq!(high(None), [("memory.high", "max".to_string())]);
    }
}
