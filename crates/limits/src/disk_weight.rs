//! A disk, shared by weight among those that want it at once: by the scheduler bfq (`io.bfq.weight`
//! of version 2 of control groups, `blkio.bfq.weight` of version 1), or by version 2's cost model,
//! where it is enabled for the disk (`io.weight`, `io.cost.qos`; kernel documentation,
//! block/bfq-iosched and admin-guide/cgroup-v2). Other schedulers support no weights.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ringfence_experiment::plan::{Active, Plan};
use ringfence_experiment::task::Task;
use ringfence_experiment::{Arm, Reason};
use ringfence_machine::root::FsRoot;

use super::cgroup;
use super::disk::{self, Disk};
use super::groups::{self, Grouped};
use super::kind::Kind;
use super::limit::{Controller, DEFAULT_WEIGHT, Limit, Version, Weigher};
use crate::Error;

pub use super::limit::BFQ_WEIGHT;

/// Isolation by a weight for disks.
pub const KIND: Kind = Kind {
    wanted: |arm| !arm.disk_weight.is_empty(),
    missing,
    begin: |plan| Ok(Some(Box::new(begin(plan)?))),
    // The journal of changes has it.
    recover: || Ok(Vec::new()),
};

/// How a task's disks can be shared out here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Here {
    /// What applies the weight.
    pub by: Weigher,
    /// The version of control groups that has it.
    pub version: Version,
    /// The group below which one can be made.
    pub parent: PathBuf,
}

/// How the disks below a task's folder can be shared out by weight: a group is made for that, and
/// removed.
///
/// # Errors
/// Why they cannot.
pub fn here(task: &Task) -> Result<Here, Reason> {
    let root = FsRoot::host();
    let by = weigher(&root, &disk::disks_of(&root, task)?)?;
    let limit = Limit::DiskWeight { by, weight: DEFAULT_WEIGHT };
    let group = cgroup::try_make(&root, &limit).map_err(no_group)?;
    let parent = group.path().parent().unwrap_or(Path::new("/")).to_owned();
    Ok(Here { by, version: group.version(), parent })
}

fn no_group(why: String) -> Reason {
    format!("no control group with a weight for disks can be created here: {why}").into()
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
    let mounts = cgroup::mounted(root, Controller::Disk).into_iter();
    let two = mounts.filter(|(_, version)| *version == Version::Two);
    let text: String = two.filter_map(|(at, _)| root.read_opt(at.join("io.cost.qos"))).collect();
    let number = |line: &str| {
        let mut words = line.split_whitespace();
        let number = words.next()?;
        words.any(|word| word == "enable=1").then(|| number.to_owned())
    };
    text.lines().filter_map(number).collect()
}

fn missing(plan: &Plan, arm: &Arm, active: &[Active]) -> Option<Reason> {
    let root = FsRoot::host();
    active.iter().find_map(|active| {
        let name = &plan.experiment.roles[active.role].name;
        let weight = *arm.disk_weight.get(name)?;
        let variant = &plan.variants[active.role][active.variant];
        let by = match disk::disks_of(&root, &variant.task).and_then(|disks| weigher(&root, &disks))
        {
            Ok(by) => by,
            Err(why) => return Some(why),
        };
        let limit = Limit::DiskWeight { by, weight };
        groups::refused(&root, &limit, no_group, &groups::others(arm, name, variant, "disk_weight"))
    })
}

fn begin(plan: &Plan) -> Result<Grouped, Error> {
    let root = FsRoot::host();
    let wanted = |arm: &Arm, role: &str| arm.disk_weight.contains_key(role);
    let disks = groups::found(plan, wanted, |task| disk::disks_of(&root, task)).map_err(|why| {
        Error::Usage(format!("the time of a disk cannot be divided by weight: {why}"))
    })?;
    let mut by = BTreeMap::new();
    for (role, disks) in disks {
        by.insert(role, weigher(&root, &disks.concat()).map_err(|why| Error::Usage(why.into()))?);
    }
    // Others are of arms that are not run.
    let of_role = |role: usize| by.get(&role).copied().unwrap_or(Weigher::Bfq);
    let limit =
        |role: usize, weight: &u32| Limit::DiskWeight { by: of_role(role), weight: *weight };
    let mut arms = groups::by_arm(plan, |arm| &arm.disk_weight, limit);
    arms.iter_mut().for_each(|roles| roles.retain(|role, _| by.contains_key(role)));
    let at_rest = |limit: &Limit| match limit {
        Limit::DiskWeight { by, .. } => Limit::DiskWeight { by: *by, weight: DEFAULT_WEIGHT },
        other => other.clone(),
    };
    Grouped::begin(&root, &plan.experiment.name, "disk-weight", arms, at_rest)
        .map_err(|why| Error::Usage(no_group(why).into()))
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
}
