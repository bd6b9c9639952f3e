//! Tasks and CPUs.

use super::*;

#[test]
fn tasks_move_and_are_born_into_groups() {
    let bench = Bench::new(Hardware::broadwell());
    let (a, b) = (bench.make("a"), bench.make("b"));
    let (m, n) = (bench.make("a/mon_groups/m"), bench.make("a/mon_groups/n"));
    let pid = bench.model.spawn();
    refused(m.add_thread(pid), EINVAL, "Can't move task to different control group");
    a.add_thread(pid).unwrap();
    m.add_thread(pid).unwrap();
    // The group of control shows the tasks of its monitor groups too.
    assert_eq!((a.tasks().unwrap(), m.tasks().unwrap()), (vec![pid], vec![pid]));
    n.add_thread(pid).unwrap();
    assert_eq!((m.tasks().unwrap(), n.tasks().unwrap()), (vec![], vec![pid]));
    let child = bench.model.fork(pid);
    let thread = bench.model.start_thread(pid);
    assert_eq!(n.tasks().unwrap(), [pid, thread, child]);
    assert_eq!(bench.model.threads(pid), [pid, thread]);
    assert_eq!(bench.model.process_and_parent(child), Some((child, pid)));
    // One thread alone moves, and a move to the group of control drops the monitor group.
    a.add_thread(thread).unwrap();
    assert_eq!(n.tasks().unwrap(), [pid, child]);
    n.remove().unwrap();
    assert_eq!(a.tasks().unwrap(), [pid, thread, child]);
    b.add_thread(child).unwrap();
    a.remove().unwrap();
    assert_eq!(bench.fs.default_group().tasks().unwrap(), [1, pid, thread]);
    bench.model.end(child);
    refused(b.add_thread(child), ESRCH, &format!("No task {child}"));
    let before = bench.model.started(pid).unwrap();
    bench.model.reuse(pid);
    assert!(bench.model.started(pid).unwrap() > before);
    assert_eq!(bench.write("tasks", "-1\n").unwrap_err().0, EINVAL);
}

#[test]
fn only_ones_own_tasks() {
    let bench = Bench::new(Hardware::broadwell());
    let group = bench.make("a");
    let (own, other) = (bench.model.spawn_of(1000), bench.model.spawn());
    bench.model.ask_as(1000, true);
    group.add_thread(own).unwrap();
    refused(group.add_thread(other), EPERM, &format!("No permission to move task {other}"));
    bench.model.ask_as(1000, false);
    refused(group.add_thread(own), EACCES, "");
    for (refusal, file) in [
        (group.add_thread(own), "/sys/fs/resctrl/a/tasks"),
        (set(&group, "L3:0=f"), "/sys/fs/resctrl/a/schemata"),
        (bench.group("b").create(), "/sys/fs/resctrl"),
        (bench.group("a/mon_groups/m").create(), "/sys/fs/resctrl/a/mon_groups"),
        (group.remove(), "/sys/fs/resctrl"),
    ] {
        let said = refusal.unwrap_err().to_string();
        assert!(said.ends_with(&format!(" {file}: chown YOU {file}")), "{said}");
    }
}

#[test]
fn cpus_belong_to_one_group() {
    let hardware = Hardware { offline: cpus("3"), ..Hardware::broadwell() };
    let bench = Bench::new(hardware);
    let default = bench.fs.default_group();
    let (a, b) = (bench.make("a"), bench.make("b"));
    let m = bench.make("a/mon_groups/m");
    assert_eq!(default.cpus().unwrap(), cpus("0-2"));
    a.set_cpus(&cpus("1-2")).unwrap();
    assert_eq!(default.cpus().unwrap(), cpus("0"));
    m.set_cpus(&cpus("1-2")).unwrap();
    b.set_cpus(&cpus("2")).unwrap();
    assert_eq!((a.cpus().unwrap(), m.cpus().unwrap()), (cpus("1"), cpus("1")));
    refused(m.set_cpus(&cpus("2")), EINVAL, "Can only add CPUs to mongroup that belong to parent");
    refused(default.set_cpus(&cpus("1-2")), EINVAL, "Can't drop CPUs from default group");
    refused(b.set_cpus(&cpus("2-3")), EINVAL, "Can only assign online CPUs");
    assert_eq!(bench.write("b/cpus", "8\n").unwrap_err().0, EINVAL);
    assert!(bench.write("b/cpus_list", "x\n").unwrap_err().1.ends_with("Bad CPU list/mask\n"));
    // What it had goes to the default group; a write clears its monitor groups' CPUs.
    a.set_cpus(&cpus("1")).unwrap();
    assert_eq!(m.cpus().unwrap(), CpuSet::new());
    b.set_cpus(&CpuSet::new()).unwrap();
    assert_eq!(default.cpus().unwrap(), cpus("0,2"));
    a.remove().unwrap();
    assert_eq!(default.cpus().unwrap(), cpus("0-2"));
}
