//! A disk, shared by weight among those that want it at once: by the scheduler bfq (`io.bfq.weight`
//! of version 2 of control groups, `blkio.bfq.weight` of version 1), or by version 2's cost model,
//! where it is enabled for the disk (`io.weight`, `io.cost.qos`; kernel documentation,
//! block/bfq-iosched and admin-guide/cgroup-v2). Other schedulers support no weights.

mod lever;

use ringfence_experiment::{Limit, Reason};
use ringfence_machine::root::FsRoot;

use crate::cgroup;
use crate::disk::{self, Disk};
use crate::groups::GroupKind;
use crate::setting::{self, GroupSettings, Version};

pub use lever::IoWeight;

/// The file of version 1 in which bfq's weight is.
const BFQ_WEIGHT: &str = "blkio.bfq.weight";

/// Isolation by a weight for disks.
pub const KIND: GroupKind = GroupKind {
    is: |limit| matches!(limit, Limit::DiskWeight(_)),
    word: "disk-weight",
    what: "a weight for disks",
    settings: |root, tasks, limit| {
        let mut disks = Vec::new();
        for task in tasks {
            disks.extend(disk::disks_of(root, task)?);
        }
        let weight = match limit {
            Some(Limit::DiskWeight(weight)) => *weight,
            // What a group has that was given none.
            _ => 100,
        };
        Ok(settings(weigher(root, &disks)?, weight))
    },
};

// What shares a disk by weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weigher {
    // The scheduler bfq.
    Bfq,
    // The controller's model of what requests cost (io.cost), of version 2.
    Cost,
}

impl Weigher {
    // The file of version 2 that has its weight.
    fn file(self) -> &'static str {
        match self {
            Weigher::Bfq => "io.bfq.weight",
            Weigher::Cost => "io.weight",
        }
    }
}

fn settings(by: Weigher, weight: u32) -> GroupSettings {
    let two = GroupSettings::of(&setting::DISK).with(
        Version::Two,
        by.file(),
        format!("default {weight}"),
    );
    match by {
        Weigher::Bfq => two.with(Version::One, BFQ_WEIGHT, weight),
        Weigher::Cost => two,
    }
}

// What applies a weight on all of these disks.
fn weigher(root: &FsRoot, disks: &[Disk]) -> Result<Weigher, Reason> {
    let costs = enabled(root);
    let neither = |by: Weigher, disk: &Disk| match by {
        Weigher::Bfq => disk.scheduler.as_deref() != Some("bfq"),
        Weigher::Cost => !costs.contains(&disk.number),
    };
    let heeds = |by: &Weigher| !disks.iter().any(|disk| neither(*by, disk));
    [Weigher::Bfq, Weigher::Cost].into_iter().find(heeds).ok_or_else(|| {
        let other = disks.iter().find(|disk| neither(Weigher::Bfq, disk));
        let (name, scheduler) =
            other.map_or(("its disk", None), |disk| (&*disk.name, disk.scheduler.as_deref()));
        format!(
            "the scheduler of {name} is {}, which has no weights; bfq has them, and so does cgroup \
             v2 if io.cost.qos enables them for all disks of the folder",
            scheduler.unwrap_or("not said")
        )
        .into()
    })
}

// The disks, by their numbers, for which the controller has a model of what requests cost that is
// in use.
fn enabled(root: &FsRoot) -> Vec<String> {
    let mounts = cgroup::mounted(root, &setting::DISK).into_iter();
    let two = mounts.filter(|(_, version)| *version == Version::Two);
    let text: String = two.filter_map(|(at, _)| root.read_opt(at.join("io.cost.qos"))).collect();
    let number = |line: &str| {
        let mut words = line.split_whitespace();
        let number = words.next()?;
        words.any(|word| word == "enable=1").then(|| number.to_owned())
    };
    text.lines().filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_machine::fixtures::FixtureTree;

    fn disk(number: &str, scheduler: &str) -> Disk {
        Disk { name: "sda".into(), number: number.into(), scheduler: Some(scheduler.into()) }
    }

    #[test]
    fn whoever_heeds_a_weight_on_all_disks_is_asked() {
        let tree = FixtureTree::empty("disk-weights");
        tree.write(
            "/proc/self/mounts",
            "cgroup2 /cg cgroup2 rw 0 0\ncgroup /b cgroup rw,blkio 0 \
                                         0\n",
        )
        .write(
            "/cg/io.cost.qos",
            "8:0 enable=1 ctrl=auto rpct=0.00 rlat=25000\n8:16 enable=0 ctrl=auto rpct=0.00 \
             rlat=25000\n",
        );
        let root = tree.root();
        let asked = |disks: &[Disk]| weigher(&root, disks);
        assert_eq!(asked(&[disk("8:16", "bfq"), disk("8:32", "bfq")]), Ok(Weigher::Bfq));
        assert_eq!(asked(&[disk("8:0", "none")]), Ok(Weigher::Cost));
        for disks in
            [&[disk("8:16", "mq-deadline")][..], &[disk("8:0", "none"), disk("8:16", "none")]]
        {
            let why = asked(disks).unwrap_err();
            assert!(
                why.contains("the scheduler of sda is") && why.contains("io.cost.qos"),
                "{why}"
            );
        }
    }

    #[test]
    fn disks_are_shared_out_by_whoever_heeds_a_weight() {
        let written = |by, version| settings(by, 10).written(version);
        assert_eq!(written(Weigher::Bfq, Version::One), ["blkio.bfq.weight = 10"]);
        assert_eq!(written(Weigher::Bfq, Version::Two), ["io.bfq.weight = default 10"]);
        assert_eq!(written(Weigher::Cost, Version::Two), ["io.weight = default 10"]);
        assert_eq!(written(Weigher::Cost, Version::One), [""; 0]);
    }
}
