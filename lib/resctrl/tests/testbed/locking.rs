//! Pseudo-locking: everything that stands in its way, and what a region keeps others from.

use libc::{E2BIG, EACCES, EINVAL};
use ringfence_resctrl::pseudo::{Cache, RegionPlan};
use ringfence_resctrl::transaction::Options;
use ringfence_resctrl::{Group, GroupId, Mode, Resource, State, Transaction};
use ringfence_system::root::FsRoot;

use crate::env::{Env, refused, set};

const SETUP: Mode = Mode::PseudoLocksetup;

pub fn the_default_group_is_not_locked(env: &dyn Env) {
    let words = "Cannot pseudo-lock default group";
    let tried = "writing 'pseudo-locksetup' to /sys/fs/resctrl/mode";
    refused(env.group("").set_mode(SETUP), tried, EINVAL, words, "a group of its own");
}

pub fn monitoring_in_progress(env: &dyn Env) {
    let (group, _) = (env.make("a"), env.make("a/mon_groups/m"));
    refused(
        group.set_mode(SETUP),
        "a/mode",
        EINVAL,
        "Monitoring in progress",
        "remove the monitor groups",
    );
    group.remove().unwrap();
}

pub fn tasks_in_the_way(env: &dyn Env) {
    let (group, pid) = (env.make("a"), env.spawn());
    group.add_thread(pid).unwrap();
    refused(
        group.set_mode(SETUP),
        "a/mode",
        EINVAL,
        "Tasks assigned to resource group",
        "move its tasks",
    );
    group.remove().unwrap();
}

pub fn cpus_in_the_way(env: &dyn Env) {
    let group = env.make("a");
    group.set_cpus(&"1".parse().unwrap()).unwrap();
    refused(
        group.set_mode(SETUP),
        "a/mode",
        EINVAL,
        "CPUs assigned to resource group",
        "give its CPUs to",
    );
    group.remove().unwrap();
}

pub fn not_with_cdp(env: &dyn Env) {
    let group = env.make("a");
    refused(group.set_mode(SETUP), "a/mode", EINVAL, "CDP enabled", "mount it without cdp");
    group.remove().unwrap();
    let why = plan(env, "b", 1 << 20).unwrap_err().to_string();
    assert!(why.contains("mount resctrl without cdp"), "{why}");
}

pub fn not_by_this_processor(env: &dyn Env) {
    let group = env.make("a");
    let words = "Pseudo-locking not supported";
    refused(group.set_mode(SETUP), "a/mode", EINVAL, words, "exclusive ways with preloading");
    group.remove().unwrap();
}

/// A group that is set up, with so many ways left by the default group.
fn set_up(env: &dyn Env, name: &str) -> Group {
    set(&env.group(""), "L3:0=fff00").unwrap();
    let group = env.make(name);
    group.set_mode(SETUP).unwrap();
    group
}

fn take_down(env: &dyn Env, groups: &[&Group]) {
    groups.iter().for_each(|group| group.remove().unwrap());
    set(&env.group(""), "L3:0=fffff").unwrap();
}

pub fn more_than_four_mebibytes(env: &dyn Env) {
    let group = set_up(env, "a");
    let words = "Requested region exceeds maximum size";
    refused(set(&group, "L3:0=1f"), "writing 'L3:0=1f'", E2BIG, words, "at most 4 MiB");
    assert_eq!(group.mode().unwrap(), Some(SETUP));
    // It can be tried again.
    set(&group, "L3:0=f").unwrap();
    assert_eq!(group.size().unwrap()[0].amount, 4 << 20);
    take_down(env, &[&group]);
    let why = plan(env, "b", 5 << 20).unwrap_err().to_string();
    assert!(why.contains("locks at most 4 MiB"), "{why}");
}

pub fn ways_of_others(env: &dyn Env) {
    let group = set_up(env, "a");
    let words = "Overlaps with other group";
    refused(set(&group, "L3:0=380"), "L3:0=380", EINVAL, words, "from every other group first");
    take_down(env, &[&group]);
}

pub fn bandwidth_is_not_locked(env: &dyn Env) {
    let group = set_up(env, "a");
    refused(
        set(&group, "MB:0=50"),
        "MB:0=50",
        EINVAL,
        "Cannot pseudo-lock MBA resource",
        "L2 or L3 line",
    );
    take_down(env, &[&group]);
}

pub fn a_second_region(env: &dyn Env) {
    let group = set_up(env, "a");
    set(&group, "L3:0=3").unwrap();
    let second = set_up(env, "b");
    let words = "Pseudo-locked region in hierarchy";
    refused(set(&second, "L3:0=c"), "writing 'L3:0=c'", EINVAL, words, "remove that group first");
    let why = plan(env, "c", 1 << 20).unwrap_err().to_string();
    assert!(why.contains("a has a region in this cache"), "{why}");
    take_down(env, &[&second, &group]);
}

pub fn a_locked_group_is_not_changed(env: &dyn Env) {
    let group = set_up(env, "a");
    set(&group, "L3:0=3").unwrap();
    let words = "Resource group is pseudo-locked";
    refused(
        set(&group, "L3:0=1"),
        "writing 'L3:0=1'",
        EINVAL,
        words,
        "remove the group and make it again",
    );
    let words = "Cannot change pseudo-locked group";
    refused(group.set_mode(Mode::Shareable), "a/mode", EINVAL, words, "remove it");
    assert_eq!(group.mode().unwrap(), Some(Mode::PseudoLocked));
    take_down(env, &[&group]);
}

pub fn a_locked_group_takes_nobody(env: &dyn Env) {
    let (group, pid) = (set_up(env, "a"), env.spawn());
    let check = || {
        // Refused at open, and to root as well.
        let remedy = "takes no tasks, CPUs or monitor groups";
        refused(group.add_thread(pid), "a/tasks", EACCES, "", remedy);
        refused(group.set_cpus(&"1".parse().unwrap()), "a/cpus_list", EACCES, "", remedy);
        refused(group.tasks(), "reading /sys/fs/resctrl/a/tasks", EACCES, "", remedy);
        let monitor = env.group("a/mon_groups/m").create();
        refused(monitor, "making", EINVAL, "Pseudo-locking in progress", remedy);
        assert!(State::read(&env.fs()).unwrap().groups[group.id()].threads.is_empty());
    };
    check();
    set(&group, "L3:0=3").unwrap();
    check();
    take_down(env, &[&group]);
}

pub fn locked_ways_are_nobody_elses(env: &dyn Env) {
    let group = set_up(env, "a");
    set(&group, "L3:0=f").unwrap();
    let words = "CBM overlaps with pseudo-locked region";
    refused(set(&env.group(""), "L3:0=ffff8"), "schemata", EINVAL, words, "marks those with P");
    let usage = &env.fs().info().unwrap().caches["L3"].bit_usage[&0];
    assert_eq!(usage.0, "XXSSSSSSSSSS0000PPPP");
    let other = env.make("b");
    assert_eq!(other.schemata().unwrap().mask(&Resource::L3, 0).unwrap().to_string(), "ffff0");
    take_down(env, &[&other, &group]);
}

pub fn set_up_and_back(env: &dyn Env) {
    let (group, pid) = (set_up(env, "a"), env.spawn());
    assert!(group.schemata().unwrap().to_string().contains("L3:uninitialized"));
    assert!(group.size().unwrap().iter().all(|size| size.amount == 0));
    group.set_mode(Mode::Shareable).unwrap();
    group.add_thread(pid).unwrap();
    take_down(env, &[&group]);
}

pub fn a_mistake_stands_in_the_way(env: &dyn Env) {
    let group = set_up(env, "a");
    // The kernel keeps the good line of a text that it refuses, and then takes it for a region.
    assert!(env.write("a/schemata", "L3:0=3\nMB:0=50\n").is_err());
    let words = "Pseudo-locked region in hierarchy";
    refused(set(&group, "L3:0=3"), "L3:0=3", EINVAL, words, "remove it and make it again");
    take_down(env, &[&group]);
}

fn plan(env: &dyn Env, name: &str, bytes: u64) -> Result<RegionPlan, ringfence_resctrl::Error> {
    let fs = env.fs();
    let cache = Cache::read(&FsRoot::host(), &fs, 3, 0)?;
    RegionPlan::new(
        &GroupId::control(name),
        (&fs.info()?, &State::read(&fs)?),
        (3, 0),
        &cache,
        bytes,
    )
}

pub fn a_plan_is_carried_out_and_undone(env: &dyn Env) {
    let (fs, folder) = (env.fs(), tempfile::tempdir().unwrap());
    let options = Options { folder: Some(folder.path().into()), ..Options::default() };
    let plan = plan(env, "a", 2 << 20).unwrap();
    let mut change = Transaction::begin(&fs, "a region", &options).unwrap();
    for step in plan.steps {
        change.apply(step).unwrap();
    }
    let group = fs.group(&plan.group);
    assert_eq!(group.mode().unwrap(), Some(Mode::PseudoLocked));
    assert_eq!((plan.bytes, group.size().unwrap()[0].amount), (2 << 20, 2 << 20));
    change.restore().unwrap();
    assert!(!group.exists());
}
