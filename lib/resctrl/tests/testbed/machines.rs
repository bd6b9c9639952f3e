//! What only some machines refuse.

use libc::{EINVAL, ENOSPC};
use ringfence_resctrl::{Group, Mask, Mode, Overview, Resource};

use crate::env::{Env, free, refused, set};

fn make(env: &dyn Env, base: &str, count: usize) -> Vec<Group> {
    (0..count).map(|n| env.make(&format!("{base}g{n}"))).collect()
}

fn remove(groups: &[Group]) {
    groups.iter().for_each(|group| group.remove().unwrap());
}

pub fn out_of_closids(env: &dyn Env) {
    let groups = make(env, "", 3);
    let more = env.group("more");
    // Twice: what the kernel says of the second is not what it says of both.
    for _ in 0..2 {
        refused(
            more.create(),
            "making /sys/fs/resctrl/more",
            ENOSPC,
            "Out of CLOSIDs",
            "no longer needed",
        );
    }
    assert!(!more.exists());
    remove(&groups);
}

pub fn out_of_rmids(env: &dyn Env) {
    let (group, monitors) = (env.make("g"), make(env, "mon_groups/", 4));
    let remedy = "remove a group or monitor group";
    refused(env.group("g/mon_groups/m").create(), "making", ENOSPC, "Out of RMIDs", remedy);
    // A number for monitoring is asked for before one for control.
    refused(env.group("more").create(), "making", ENOSPC, "Out of RMIDs", remedy);
    remove(&monitors);
    group.remove().unwrap();
}

pub fn out_of_rmids_on_the_way_back(env: &dyn Env) {
    let group = env.make("a");
    // Its number for monitoring is given away.
    group.set_mode(Mode::PseudoLocksetup).unwrap();
    let monitors = make(env, "mon_groups/", 5);
    refused(group.set_mode(Mode::Shareable), "a/mode", ENOSPC, "Out of RMIDs", "remove a group");
    assert_eq!(group.mode().unwrap(), Some(Mode::PseudoLocksetup));
    remove(&monitors);
    group.remove().unwrap();
}

pub fn what_is_free_is_counted(env: &dyn Env) {
    let agree = || {
        let seen = Overview::read(&env.fs());
        let (closids, rmids) =
            (seen.closids_free().unwrap() as usize, seen.rmids_free().unwrap() as usize);
        let control = closids.min(rmids);
        assert_eq!(free(env), (control, rmids - control), "{seen:?}");
    };
    agree();
    set(&env.group(""), "L3:0=c").unwrap();
    let (group, monitor) = (env.make("a"), env.make("mon_groups/m"));
    agree();
    group.set_mode(Mode::PseudoLocksetup).unwrap();
    agree();
    set(&group, "L3:0=1").unwrap();
    agree();
    group.remove().unwrap();
    monitor.remove().unwrap();
    set(&env.group(""), "L3:0=f").unwrap();
}

pub fn no_ways_left(env: &dyn Env) {
    let default = env.group("");
    set(&default, "L3:0=3").unwrap();
    let group = env.make("a");
    set(&group, "L3:0=c").unwrap();
    group.set_mode(Mode::Exclusive).unwrap();
    default.set_mode(Mode::Exclusive).unwrap();
    refused(env.group("b").create(), "making", ENOSPC, "No space on L3:0", "free some first");
    default.set_mode(Mode::Shareable).unwrap();
    group.remove().unwrap();
    set(&default, "L3:0=f").unwrap();
}

pub fn a_status_that_is_full(env: &dyn Env) {
    let groups = make(env, "", 3);
    for _ in 0..40 {
        // Asked without this library, which clears it.
        assert!(env.fs().kernel().make_dir("more".as_ref()).is_err());
    }
    refused(env.group("more").create(), "making", ENOSPC, "Out of CLOSIDs", "no longer needed");
    remove(&groups);
}

pub fn half_as_many_groups(env: &dyn Env) {
    let info = env.fs().info().unwrap();
    assert!(info.cdp(3) && !info.caches.contains_key("L3"));
    assert_eq!(info.num_closids(), Some(8));
    let groups = make(env, "", 7);
    refused(env.group("more").create(), "making", ENOSPC, "Out of CLOSIDs", "no longer needed");
    remove(&groups);
}

pub fn code_overlaps_with_exclusive_data(env: &dyn Env) {
    let default = env.group("");
    set(&default, "L3CODE:0=f\nL3DATA:0=f").unwrap();
    let group = env.make("a");
    set(&group, "L3CODE:0=10\nL3DATA:0=20").unwrap();
    group.set_mode(Mode::Exclusive).unwrap();
    for (text, tried) in [("L3CODE:0=3f", "L3CODE:0=3f"), ("L3DATA:0=1f", "L3DATA:0=1f")] {
        refused(
            set(&default, text),
            tried,
            EINVAL,
            "Overlaps with exclusive group",
            "marks those with E",
        );
    }
    group.set_mode(Mode::Shareable).unwrap();
    set(&group, "L3CODE:0=10\nL3DATA:0=18").unwrap();
    refused(
        group.set_mode(Mode::Exclusive),
        "a/mode",
        EINVAL,
        "Schemata overlaps",
        "every other group first",
    );
    group.remove().unwrap();
    set(&default, "L3CODE:0=7ff\nL3DATA:0=7ff").unwrap();
}

pub fn exclusive_without_ways(env: &dyn Env) {
    assert!(env.fs().info().unwrap().caches.is_empty());
    let group = env.make("a");
    let words = "Cannot be exclusive without CAT/CDP";
    refused(group.set_mode(Mode::Exclusive), "a/mode", EINVAL, words, "keep the group shareable");
    group.remove().unwrap();
}

pub fn regions_in_two_l2(env: &dyn Env) {
    let default = env.group("");
    let domains = default.schemata().unwrap().domains(&Resource::L2);
    assert_eq!(domains.len(), 2);
    let all = |mask: &str| {
        domains.iter().map(|domain| format!("{domain}={mask}")).collect::<Vec<_>>().join(";")
    };
    set(&default, &format!("L2:{}", all("f0"))).unwrap();
    let groups = make(env, "", 2);
    // Set up, the other one's ways do not count.
    groups.iter().for_each(|group| group.set_mode(Mode::PseudoLocksetup).unwrap());
    for (group, domain) in groups.iter().zip(&domains) {
        set(group, &format!("L2:{domain}=3")).unwrap();
        assert_eq!(group.size().unwrap()[0].amount, 256 << 10);
        assert_eq!(group.cpus().unwrap().len(), 2);
    }
    let third = env.make("third");
    third.set_mode(Mode::PseudoLocksetup).unwrap();
    let words = "Pseudo-locked region in hierarchy";
    refused(
        set(&third, &format!("L2:{}=c", domains[1])),
        "L2:",
        EINVAL,
        words,
        "remove that group first",
    );
    third.remove().unwrap();
    remove(&groups);
    set(&default, &format!("L2:{}", all("ff"))).unwrap();
}

pub fn nothing_is_monitored(env: &dyn Env) {
    assert_eq!(env.fs().info().unwrap().monitoring, None);
    let group = env.make("a");
    assert_eq!(group.monitored().unwrap(), []);
    let monitor = env.group("a/mon_groups/m");
    assert!(monitor.create().is_err() && !monitor.exists());
    group.remove().unwrap();
}

fn two(env: &dyn Env) -> (u32, u32) {
    let domains = env.group("").schemata().unwrap().domains(&Resource::L3);
    let [first, second] = domains[..] else { panic!("{domains:?}") };
    (first, second)
}

pub fn exclusive_in_one_socket_alone(env: &dyn Env) {
    let (default, (first, second)) = (env.group(""), two(env));
    set(&default, &format!("L3:{first}=ff;{second}=ff")).unwrap();
    let group = env.make("a");
    // In the other socket it still shares.
    set(&group, &format!("L3:{first}=f00")).unwrap();
    let tried = "writing 'exclusive'";
    refused(
        group.set_mode(Mode::Exclusive),
        tried,
        EINVAL,
        "Schemata overlaps",
        "from every other group first",
    );
    set(&group, &format!("L3:{second}=f000")).unwrap();
    group.set_mode(Mode::Exclusive).unwrap();
    // The other socket's ways do not count.
    set(&default, &format!("L3:{first}=ff000")).unwrap();
    let words = "Overlaps with exclusive group";
    refused(
        set(&default, &format!("L3:{second}=ff000")),
        "schemata",
        EINVAL,
        words,
        "marks those with E",
    );
    assert_eq!(default.schemata().unwrap().mask(&Resource::L3, second), Some(Mask(0xff)));
    group.remove().unwrap();
    set(&default, &format!("L3:{first}=fffff;{second}=fffff")).unwrap();
}

pub fn a_region_in_each_socket(env: &dyn Env) {
    let (default, (first, second)) = (env.group(""), two(env));
    set(&default, &format!("L3:{first}=fff00;{second}=fff00")).unwrap();
    let groups = make(env, "", 2);
    groups.iter().for_each(|group| group.set_mode(Mode::PseudoLocksetup).unwrap());
    for (group, domain) in groups.iter().zip([first, second]) {
        set(group, &format!("L3:{domain}=f")).unwrap();
    }
    assert!(groups[0].cpus().unwrap().is_disjoint(&groups[1].cpus().unwrap()));
    remove(&groups);
    set(&default, &format!("L3:{first}=fffff;{second}=fffff")).unwrap();
}

pub fn bandwidth_in_megabytes(env: &dyn Env) {
    assert!(env.fs().options().mba_mbps);
    let group = env.make("a");
    // The kernel knows no limit, and keeps every amount.
    for amount in [1, 700, 2005, 123_456] {
        let found = group.set_schemata_checked(&format!("MB:0={amount}").parse().unwrap()).unwrap();
        assert_eq!(found.amount(&Resource::Mb, 0), Some(amount));
    }
    assert_eq!(env.fs().info().unwrap().bandwidth().unwrap().unit.say(700), "700 MB/s");
    group.remove().unwrap();
}
