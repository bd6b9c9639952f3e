//! The CPUs of running processes: those of their own control group, narrowed, where that can be
//! undone exactly (`cpuset.cpus`; kernel documentation, admin-guide/cgroup-v1/cpusets and
//! admin-guide/cgroup-v2).

mod lever;

use std::path::Path;

use ringfence_experiment::task::Attached;
use ringfence_experiment::{Limit, Reason};
use ringfence_machine::cpulist::CpuSet;
use ringfence_machine::root::{FsRoot, field};
use ringfence_system::attach::Process;

use crate::setting::{Controller, GroupSettings, Version};
use crate::{attachment, own_group};

pub use lever::Cpuset;

const CPUS: Controller = Controller {
    one: "cpuset",
    two: "cpuset",
    not_there: "no cpuset of control groups is mounted, or none is delegated to a group",
};

/// What running processes are given in their own group.
pub fn in_place(attached: &Attached, limit: &Limit) -> Option<Result<GroupSettings, Reason>> {
    match limit {
        Limit::Cpuset(cpus) => Some(settings(attached, cpus).map(|(settings, _)| settings)),
        _ => None,
    }
}

// These CPUs and no others, in a version of control groups.
fn settings(attached: &Attached, cpus: &CpuSet) -> Result<(GroupSettings, Version), Reason> {
    let versions = [Version::One, Version::Two].into_iter();
    let settings = versions.fold(GroupSettings::of(&CPUS), |settings, version| {
        settings.with(version, "cpuset.cpus", cpus)
    });
    let found = attachment::found(attached)?;
    let (folder, version) = own_group::own_group(&found, &settings)?;
    check(&FsRoot::host(), &folder, version, &found.processes, cpus)?;
    Ok((settings, version))
}

// Whether a group's CPUs can be narrowed to these, and its processes have back what they had
// afterwards; in an error: why not.
fn check(
    root: &FsRoot,
    folder: &Path,
    version: Version,
    processes: &[Process],
    cpus: &CpuSet,
) -> Result<(), Reason> {
    let group = folder.display();
    let effective = match version {
        Version::Two => "cpuset.cpus.effective",
        Version::One => "cpuset.effective_cpus",
    };
    let text = root.read_opt(folder.join(effective)).unwrap_or_default();
    let has: CpuSet =
        text.parse().map_err(|why| format!("{effective} of {group} is '{text}': {why}"))?;
    if cpus.is_empty() || !cpus.is_subset(&has) {
        return Err(
            format!("its control group {group} has the CPUs {has}, and not all of {cpus}").into()
        );
    }
    if version == Version::Two {
        let partition = root.read_opt(folder.join("cpuset.cpus.partition")).unwrap_or_default();
        if !matches!(partition.as_str(), "" | "member") {
            return Err(format!(
                "its control group {group} owns its CPUs as a partition ('{partition}')"
            )
            .into());
        }
        // The kernel refuses that with ENOSPC (kernel/cgroup/cpuset.c, validate_change).
        if root.read_opt(folder.join("cpuset.cpus")).is_none_or(|own| own.trim().is_empty()) {
            return Err(format!(
                "{group}/cpuset.cpus is empty, which the kernel does not accept while processes \
                 are in the group, so it could not be restored: write '{has}' to it first, which \
                 changes nothing now"
            )
            .into());
        }
        return keeps_affinities(root, processes, &has);
    }
    // There, a group may not have fewer than a group below it.
    if root.list_opt(folder).iter().any(|name| root.exists(folder.join(name).join("cpuset.cpus"))) {
        return Err(format!(
            "there are control groups below {group}, whose CPUs would have to change as well"
        )
        .into());
    }
    keeps_affinities(root, processes, &has)
}

// Until Linux 6.2 a change of a group's CPUs replaces what its threads have chosen by
// sched_setaffinity(2); since then, they have that back (kernel/sched/core.c, user_cpus_ptr).
fn keeps_affinities(root: &FsRoot, processes: &[Process], has: &CpuSet) -> Result<(), Reason> {
    if remembers_affinities(&root.read_opt("/proc/sys/kernel/osrelease").unwrap_or_default()) {
        return Ok(());
    }
    for process in processes {
        let threads = format!("/proc/{}/task", process.pid());
        for thread in root.list_opt(&threads) {
            let status = root.read_opt(format!("{threads}/{thread}/status")).unwrap_or_default();
            let Some(own) = field(&status, "Cpus_allowed_list") else { continue };
            if own.parse::<CpuSet>().is_ok_and(|own| own != *has) {
                return Err(format!(
                    "its thread {thread} has an affinity of its own, CPUs {own}, which Linux \
                     before 6.2 forgets when the CPUs of its control group change"
                )
                .into());
            }
        }
    }
    Ok(())
}

fn remembers_affinities(release: &str) -> bool {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 2)
}

#[cfg(test)]
mod tests {
    use ringfence_machine::fixtures::FixtureTree;

    use super::*;

    fn cpus(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    fn process(root: &FsRoot) -> Vec<Process> {
        let found = ringfence_system::attach::see(root, &"pid:42".parse().unwrap());
        found.unwrap().look(root)
    }

    fn tree(release: &str, own: &str) -> FixtureTree {
        let tree = FixtureTree::empty("cpusets");
        tree.write(
            "/proc/42/stat",
            "42 (a) S 1 42 42 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 99 1000 1",
        )
        .write("/proc/42/task/42/status", format!("Name:\ta\nCpus_allowed_list:\t{own}\n"))
        .write("/proc/sys/kernel/osrelease", format!("{release}\n"))
        .write("/cg/one/cpuset.effective_cpus", "0-3\n")
        .write("/cg/one/cpuset.cpus", "0-3\n")
        .write("/cg/two/cpuset.cpus", "0-3\n")
        .write("/cg/two/cpuset.cpus.effective", "0-3\n");
        tree
    }

    #[test]
    fn a_group_is_narrowed_to_cpus_that_it_has() {
        let tree = tree("6.1.0-18-amd64", "0-3");
        let root = tree.root();
        let all = process(&root);
        for (folder, version) in [("/cg/one", Version::One), ("/cg/two", Version::Two)] {
            let check = |text| check(&root, Path::new(folder), version, &all, &cpus(text));
            assert_eq!(check("1,3"), Ok(()));
            for text in ["", "3-4"] {
                assert!(
                    check(text).unwrap_err().contains("has the CPUs 0-3, and not all of"),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn what_could_not_be_put_back_exactly_is_refused() {
        let tree = tree("6.1.0-18-amd64", "2");
        let root = tree.root();
        let all = process(&root);
        let one = |root: &FsRoot| check(root, Path::new("/cg/one"), Version::One, &all, &cpus("1"));
        let why = one(&root).unwrap_err();
        assert!(
            why.contains(
                "its thread 42 has an affinity of its own, CPUs 2, which Linux before 6.2 forgets"
            ),
            "{why}"
        );
        tree.write("/proc/sys/kernel/osrelease", "6.2.1\n");
        assert_eq!(one(&root), Ok(()));
        tree.write("/cg/one/below/cpuset.cpus", "0\n");
        assert!(one(&root).unwrap_err().contains("control groups below /cg/one"));
        let two = || check(&root, Path::new("/cg/two"), Version::Two, &all, &cpus("1"));
        assert_eq!(two(), Ok(()));
        tree.write("/cg/two/cpuset.cpus.partition", "isolated\n");
        assert!(two().unwrap_err().contains("as a partition ('isolated')"));
        tree.write("/cg/two/cpuset.cpus.partition", "member\n").write("/cg/two/cpuset.cpus", "\n");
        let why = two().unwrap_err();
        assert!(
            why.contains("/cg/two/cpuset.cpus is empty") && why.contains("write '0-3' to it first"),
            "{why}"
        );
    }

    #[test]
    fn releases_are_compared_by_their_numbers() {
        let since = ["6.2.0", "6.18.5-fc", "7.0", "10.1-rc2"].map(remembers_affinities);
        let before =
            ["5.15.0-91-generic", "6.1.0-18-amd64", "4.18.0", ""].map(remembers_affinities);
        assert_eq!((since, before), ([true; 4], [false; 4]));
    }
}
