//! What is written to disks, limited by control groups: `blkio.throttle.write_bps_device` of
//! version 1, `io.max` of version 2 (kernel documentation, admin-guide/cgroup-v1/blkio-controller
//! and admin-guide/cgroup-v2).
//!
//! The limit applies to what the group's processes submit to the disk themselves: around the page
//! cache, or by a sync of what they wrote. What the kernel's threads write back is charged to no
//! such group in version 1. In version 2 it is charged to the group in which a page was first
//! cached, and a process that is moved takes no pages along (there, "Memory Ownership" and
//! "Writeback").

mod lever;

use std::collections::BTreeSet;

use ringfence_experiment::task::Attached;
use ringfence_experiment::units::Rate;
use ringfence_experiment::{Limit, Reason};
use ringfence_system::changes::Entry;

use crate::disk::{self, Disk};
use crate::groups::GroupKind;
use crate::setting::{self, GroupSettings, Version};

pub use lever::IoLimit;

/// The file of version 1 in which bytes written a second are limited, disk by disk.
const WRITE_BPS: &str = "blkio.throttle.write_bps_device";

/// Isolation by a limit of what is written.
pub const KIND: GroupKind = GroupKind {
    is: |limit| matches!(limit, Limit::DiskWrite(_)),
    word: "disk-limit",
    what: "a limit on disk writes",
    settings: |root, tasks, limit| {
        let mut disks = Vec::new();
        for task in tasks {
            disks.extend(disk::disks_of(root, task)?);
        }
        let rate = match limit {
            Some(Limit::DiskWrite(rate)) => Some(*rate),
            _ => None,
        };
        Ok(settings(&disks, rate))
    },
};

/// The same for running processes.
pub fn in_place(attached: &Attached, limit: &Limit) -> Option<Result<GroupSettings, Reason>> {
    let Limit::DiskWrite(rate) = limit else { return None };
    Some(disk::of_attached(attached).map(|disks| settings(&disks, Some(*rate))))
}

// The most bytes a second that are written to each of these disks; unlimited where none is given.
fn settings(disks: &[Disk], rate: Option<Rate>) -> GroupSettings {
    let numbers: BTreeSet<&String> = disks.iter().map(|disk| &disk.number).collect();
    // The kernel takes one disk by a write, and 0 takes a limit away in version 1.
    let all = GroupSettings::of(&setting::DISK);
    numbers.into_iter().fold(all, |all, disk| {
        let entry = |key: Option<&str>, unset: &str| {
            let (key, unset) = (key.map(str::to_owned), unset.to_owned());
            Some(Entry { device: disk.clone(), key, unset })
        };
        let value = |unset: &str| rate.map_or(unset.into(), |rate| rate.0.0.to_string());
        all.with_entry(Version::Two, "io.max", entry(Some("wbps"), "max"), value("max")).with_entry(
            Version::One,
            WRITE_BPS,
            entry(None, "0"),
            value("0"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_to_disks_is_limited_disk_by_disk_and_let_go_again() {
        let disk = |number: &str| Disk { name: "d".into(), number: number.into(), scheduler: None };
        let written = |rate: Option<&str>, version| {
            let rate = rate.map(|rate| rate.parse().unwrap());
            settings(&[disk("8:0"), disk("259:3"), disk("8:0")], rate).written(version)
        };
        let one = |lines: [&str; 2]| lines.map(|line| format!("{WRITE_BPS} = {line}"));
        assert_eq!(written(Some("5MiB/s"), Version::One), one(["259:3 5242880", "8:0 5242880"]));
        assert_eq!(written(None, Version::One), one(["259:3 0", "8:0 0"]));
        assert_eq!(
            written(Some("1KiB/s"), Version::Two),
            ["io.max = 259:3 wbps=1024", "io.max = 8:0 wbps=1024"]
        );
        assert_eq!(
            written(None, Version::Two),
            ["io.max = 259:3 wbps=max", "io.max = 8:0 wbps=max"]
        );
    }
}
