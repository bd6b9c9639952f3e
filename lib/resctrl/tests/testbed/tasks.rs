//! Tasks, CPUs, counters, permissions, and groups that are not there.

use libc::{EACCES, EEXIST, EINVAL, ENOENT, EPERM, ESRCH};
use ringfence_resctrl::{Error, GroupId, Mode};
use ringfence_system::cpulist::CpuSet;

use crate::env::{Env, refused, set};

fn cpus(text: &str) -> CpuSet {
    text.parse().unwrap()
}

pub fn no_such_task(env: &dyn Env) {
    let (group, pid) = (env.make("a"), env.spawn());
    env.end(pid);
    let (tried, words) =
        (format!("writing '{pid}' to /sys/fs/resctrl/a/tasks"), format!("No task {pid}"));
    refused(group.add_thread(pid), &tried, ESRCH, &words, "has ended");
    group.remove().unwrap();
}

pub fn a_task_that_is_no_number(env: &dyn Env) {
    // What the status says is from before: the kernel has no words for it.
    let before = env.fs().last_status();
    assert_eq!(env.write("tasks", "one\n"), Err((EINVAL, before.clone())));
    assert_eq!(env.write("tasks", "-1\n"), Err((EINVAL, before)));
}

pub fn children_are_born_into_the_group(env: &dyn Env) {
    let (group, monitor) = (env.make("a"), env.make("a/mon_groups/m"));
    let pid = env.spawn();
    group.add_thread(pid).unwrap();
    monitor.add_thread(pid).unwrap();
    let child = env.fork(pid);
    let mut expected = [pid, child];
    expected.sort();
    for group in [&group, &monitor] {
        let mut tasks = group.tasks().unwrap();
        tasks.sort();
        assert_eq!(tasks, expected);
    }
    // A move to the group of control drops the monitor group.
    group.add_thread(child).unwrap();
    assert_eq!(monitor.tasks().unwrap(), [pid]);
    env.end(pid);
    env.end(child);
    group.remove().unwrap();
}

pub fn a_task_of_another_group_is_not_monitored(env: &dyn Env) {
    let (group, monitor, pid) = (env.make("a"), env.make("a/mon_groups/m"), env.spawn());
    let words = "Can't move task to different control group";
    let tried = "to /sys/fs/resctrl/a/mon_groups/m/tasks";
    refused(
        monitor.add_thread(pid),
        tried,
        EINVAL,
        words,
        "to the group above this monitor group first",
    );
    group.add_thread(pid).unwrap();
    monitor.add_thread(pid).unwrap();
    group.remove().unwrap();
}

pub fn a_removed_group_gives_back_tasks_and_cpus(env: &dyn Env) {
    let (default, group, pid) = (env.group(""), env.make("a"), env.spawn());
    group.add_thread(pid).unwrap();
    group.set_cpus(&cpus("1")).unwrap();
    assert!(!default.tasks().unwrap().contains(&pid) && !default.cpus().unwrap().contains(1));
    group.remove().unwrap();
    assert!(default.tasks().unwrap().contains(&pid) && default.cpus().unwrap().contains(1));
}

pub fn a_removed_monitor_group_gives_back_tasks(env: &dyn Env) {
    let (group, monitor, pid) = (env.make("a"), env.make("a/mon_groups/m"), env.spawn());
    group.add_thread(pid).unwrap();
    monitor.add_thread(pid).unwrap();
    monitor.remove().unwrap();
    assert_eq!(group.tasks().unwrap(), [pid]);
    group.remove().unwrap();
}

pub fn cpus_belong_to_one_group(env: &dyn Env) {
    let (default, a, b) = (env.group(""), env.make("a"), env.make("b"));
    let monitor = env.make("a/mon_groups/m");
    a.set_cpus(&cpus("0-1")).unwrap();
    monitor.set_cpus(&cpus("0-1")).unwrap();
    assert_eq!(default.cpus().unwrap(), CpuSet::new());
    b.set_cpus(&cpus("1")).unwrap();
    assert_eq!((a.cpus().unwrap(), monitor.cpus().unwrap()), (cpus("0"), cpus("0")));
    // A group's CPUs written anew are no longer its monitor groups'.
    a.set_cpus(&cpus("0")).unwrap();
    assert_eq!(monitor.cpus().unwrap(), CpuSet::new());
    a.set_cpus(&CpuSet::new()).unwrap();
    assert_eq!(default.cpus().unwrap(), cpus("0"));
    a.remove().unwrap();
    b.remove().unwrap();
}

pub fn the_default_group_keeps_its_cpus(env: &dyn Env) {
    let words = "Can't drop CPUs from default group";
    let tried = "writing '0' to /sys/fs/resctrl/cpus_list";
    refused(env.group("").set_cpus(&cpus("0")), tried, EINVAL, words, "to another group instead");
}

pub fn cpus_of_another_group_are_not_monitored(env: &dyn Env) {
    let (group, monitor) = (env.make("a"), env.make("a/mon_groups/m"));
    let words = "Can only add CPUs to mongroup that belong to parent";
    refused(monitor.set_cpus(&cpus("0")), "m/cpus_list", EINVAL, words, "to the group above first");
    group.remove().unwrap();
}

pub fn an_offline_cpu(env: &dyn Env) {
    let group = env.make("a");
    group.set_cpus(&cpus("1")).unwrap();
    env.set_online(1, false);
    assert_eq!(group.cpus().unwrap(), CpuSet::new());
    let words = "Can only assign online CPUs";
    refused(
        group.set_cpus(&cpus("1")),
        "writing '1' to",
        EINVAL,
        words,
        "leave out the CPUs that are offline",
    );
    env.set_online(1, true);
    assert!(env.group("").cpus().unwrap().contains(1));
    group.remove().unwrap();
}

pub fn a_list_that_is_none(env: &dyn Env) {
    let group = env.make("a");
    let (errno, words) = env.write("a/cpus_list", "one\n").unwrap_err();
    assert_eq!(errno, EINVAL);
    // It adds to what was there.
    assert!(words.is_some_and(|words| words.ends_with("Bad CPU list/mask")));
    group.remove().unwrap();
}

pub fn counters_are_read(env: &dyn Env) {
    let group = env.make("a");
    let first = group.monitored().unwrap();
    assert_eq!(first.len(), 3);
    assert!(
        first.iter().all(|reading| reading.domain == 0 && reading.value.bytes().is_some()),
        "{first:?}"
    );
    std::thread::sleep(std::time::Duration::from_millis(50));
    let second = group.monitored().unwrap();
    let total =
        |readings: &[_]| ringfence_resctrl::monitor::total(readings, "mbm_total_bytes").unwrap();
    assert!(total(&second) > total(&first), "{first:?} {second:?}");
    group.remove().unwrap();
}

pub fn a_user_without_permission(env: &dyn Env) {
    let (group, pid) = (env.make("a"), env.spawn());
    env.as_nobody(&mut || {
        let file = |file: &str| format!("chown YOU /sys/fs/resctrl/a/{file}");
        refused(set(&group, "L3:0=1"), "schemata", EACCES, "", &file("schemata"));
        refused(group.set_mode(Mode::Exclusive), "mode", EACCES, "", &file("mode"));
        refused(group.set_cpus(&cpus("1")), "cpus_list", EACCES, "", &file("cpus_list"));
        refused(group.add_thread(pid), "tasks", EACCES, "", &file("tasks"));
        let above = "permission to write to /sys/fs/resctrl: chown YOU /sys/fs/resctrl";
        refused(env.group("b").create(), "making /sys/fs/resctrl/b", EACCES, "", above);
        refused(group.remove(), "removing /sys/fs/resctrl/a", EACCES, "", above);
        let monitor = env.group("a/mon_groups/m").create();
        refused(monitor, "making", EACCES, "", "chown YOU /sys/fs/resctrl/a/mon_groups");
        // Reading takes no permission.
        assert!(group.schemata().is_ok() && group.tasks().is_ok() && env.fs().info().is_ok());
    });
    group.remove().unwrap();
}

pub fn a_group_that_is_there(env: &dyn Env) {
    let group = env.make("a");
    refused(group.create(), "making /sys/fs/resctrl/a", EEXIST, "", "choose another name");
    group.remove().unwrap();
}

pub fn a_group_that_is_gone(env: &dyn Env) {
    let group = env.make("a");
    group.remove().unwrap();
    assert!(!group.exists());
    refused(set(&group, "L3:0=1"), "a/schemata", ENOENT, "", "has been removed");
    refused(group.remove(), "removing /sys/fs/resctrl/a", ENOENT, "", "has been removed");
    refused(group.tasks(), "reading /sys/fs/resctrl/a/tasks", ENOENT, "", "has been removed");
    refused(env.group("a/mon_groups/m").create(), "making", ENOENT, "", "has been removed");
}

pub fn folders_that_are_no_groups(env: &dyn Env) {
    let (group, fs) = (env.make("a"), env.fs());
    let kernel = fs.kernel();
    for folder in ["a/b", "a/mon_data/b", "info/b", "mon_groups/mon_groups"] {
        assert_eq!(
            kernel.make_dir(folder.as_ref()).unwrap_err().raw_os_error(),
            Some(EPERM),
            "{folder}"
        );
    }
    for folder in ["info", "mon_groups", "a/mon_groups", "a/mon_data"] {
        assert_eq!(
            kernel.remove_dir(folder.as_ref()).unwrap_err().raw_os_error(),
            Some(EPERM),
            "{folder}"
        );
    }
    for name in ["info", "mon_data", "x\ny", ".."] {
        assert!(
            matches!(fs.group(&GroupId::control(name)).create(), Err(Error::Usage(_))),
            "{name}"
        );
    }
    let listed: Vec<String> =
        fs.groups().unwrap().iter().map(|group| group.id().to_string()).collect();
    assert_eq!(listed, ["default group", "a"]);
    group.remove().unwrap();
}

pub fn the_default_group_stays(env: &dyn Env) {
    let default = env.group("");
    for (done, part) in
        [(default.remove(), "cannot be removed"), (default.create(), "always exists")]
    {
        let error = done.unwrap_err();
        assert!(error.is_usage() && error.to_string().contains(part), "{error}");
    }
    assert!(env.fs().kernel().remove_dir("".as_ref()).is_err());
}

pub fn old_words_are_not_repeated(env: &dyn Env) {
    let group = env.make("a");
    assert!(set(&group, "L3:0=0").is_err());
    assert_eq!(env.fs().last_status().as_deref(), Some("Mask out of range"));
    refused(group.create(), "making", EEXIST, "", "another name");
    refused(env.group("b").remove(), "removing", ENOENT, "", "has been removed");
    let words = "Can't drop CPUs from default group";
    refused(
        env.group("").set_cpus(&cpus("0")),
        "cpus_list",
        EINVAL,
        words,
        "another group instead",
    );
    // And what was there is still there.
    assert_eq!(env.fs().last_status(), Some(format!("Mask out of range; {words}")));
    group.remove().unwrap();
}

pub fn two_programs_lock(env: &dyn Env) {
    let fs = env.fs();
    let held = fs.kernel().try_lock(true).unwrap().unwrap();
    assert!(
        fs.kernel().try_lock(true).unwrap().is_none()
            && fs.kernel().try_lock(false).unwrap().is_none()
    );
    drop(held);
    let shared = fs.kernel().try_lock(false).unwrap().unwrap();
    let second = fs.kernel().try_lock(false).unwrap().unwrap();
    assert!(fs.kernel().try_lock(true).unwrap().is_none());
    drop((shared, second));
}
