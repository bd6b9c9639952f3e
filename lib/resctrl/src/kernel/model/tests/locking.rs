//! Regions that are locked, and what stands in their way.

use super::*;
use crate::state::State;

#[test]
fn a_region_is_locked() {
    let bench = Bench::new(Hardware::broadwell());
    set(&bench.fs.default_group(), "L3:0=ffff0").unwrap();
    let group = bench.make("a");
    bench.model.set_limbo(true);
    group.set_mode(Mode::PseudoLocksetup).unwrap();
    assert_eq!(bench.schemata("a"), "MB:uninitialized\nL3:uninitialized\n");
    State::read(&bench.fs).unwrap();
    // Root too is kept from these files until it is a group again.
    for file in ["tasks", "cpus", "cpus_list"] {
        assert_eq!(
            bench.model.read(&Path::new("a").join(file)).unwrap_err().raw_os_error(),
            Some(EACCES)
        );
        assert_eq!(bench.write(&format!("a/{file}"), "1\n").unwrap_err().0, EACCES);
    }
    let said = group.add_thread(1).unwrap_err().to_string();
    assert!(said.contains("takes no tasks") && !said.contains("run as root"), "{said}");
    refused(bench.group("a/mon_groups/m").create(), EINVAL, "Pseudo-locking in progress");
    refused(set(&group, "MB:0=50"), EINVAL, "Cannot pseudo-lock MBA resource");
    refused(set(&group, "L3:0=1f"), EINVAL, "Overlaps with other group");
    set(&group, "L3:0=f").unwrap();
    assert_eq!(group.mode().unwrap(), Some(Mode::PseudoLocked));
    assert_eq!(bench.schemata("a"), "L3:0=f\n");
    assert_eq!(bench.model.read(Path::new("a/size")).unwrap(), "L3:0=4194304\n");
    assert_eq!(group.cpus().unwrap(), cpus("0-3"));
    assert_eq!(State::read(&bench.fs).unwrap().groups[group.id()].cpus, CpuSet::new());
    refused(set(&group, "L3:0=7"), EINVAL, "Resource group is pseudo-locked");
    refused(group.set_mode(Mode::Shareable), EINVAL, "Cannot change pseudo-locked group");
    refused(
        set(&bench.fs.default_group(), "L3:0=ffff8"),
        EINVAL,
        "CBM overlaps with pseudo-locked region",
    );
    assert!(bench.fs.info().unwrap().caches["L3"].bit_usage[&0].0.ends_with("SPPPP"));
    let second = bench.make("b");
    assert_eq!(second.schemata().unwrap().mask(&Resource::L3, 0), Some(Mask(0xffff0)));
    second.set_mode(Mode::PseudoLocksetup).unwrap();
    refused(set(&second, "L3:0=10"), EINVAL, "Pseudo-locked region in hierarchy");
    bench.model.use_device("a", &[4711]);
    assert!(group.remove().unwrap_err().to_string().contains("process 4711"));
    bench.model.use_device("a", &[]);
    group.remove().unwrap();
    assert!(bench.fs.info().unwrap().caches["L3"].bit_usage[&0].0.ends_with("S0000"));
    second.remove().unwrap();
    // Its CLOSID came back: seven can be made again.
    (1..8).for_each(|n| drop(bench.make(&format!("g{n}"))));
    refused(bench.group("more").create(), ENOSPC, "Out of CLOSIDs");
}

#[test]
fn what_stands_in_the_way_of_locking() {
    let bench = Bench::new(Hardware::broadwell());
    let default = bench.fs.default_group();
    refused(default.set_mode(Mode::PseudoLocksetup), EINVAL, "Cannot pseudo-lock default group");
    let group = bench.make("a");
    let monitor = bench.make("a/mon_groups/m");
    let pid = bench.model.spawn();
    group.add_thread(pid).unwrap();
    group.set_cpus(&cpus("1")).unwrap();
    let enter = || group.set_mode(Mode::PseudoLocksetup);
    refused(enter(), EINVAL, "Monitoring in progress");
    monitor.remove().unwrap();
    refused(enter(), EINVAL, "Tasks assigned to resource group");
    default.add_thread(pid).unwrap();
    refused(enter(), EINVAL, "CPUs assigned to resource group");
    group.set_cpus(&CpuSet::new()).unwrap();
    enter().unwrap();
    set(&default, "L3:0=1").unwrap();
    refused(set(&group, "L3:0=3e"), E2BIG, "Requested region exceeds maximum size");
    bench.model.set_contiguous_memory(false);
    refused(set(&group, "L3:0=1e"), ENOMEM, "Unable to allocate memory");
    bench.model.set_contiguous_memory(true);
    // A mistake behind a good mask leaves the region half set up: it stands in its own way.
    assert!(bench.write("a/schemata", "L3:0=1e\nMB:0=50\n").is_err());
    refused(set(&group, "L3:0=1e"), EINVAL, "Pseudo-locked region in hierarchy");
    group.set_mode(Mode::Shareable).unwrap();
    enter().unwrap();
    set(&group, "L3:0=1e").unwrap();
    let other = Bench::new(Hardware::cascade_lake());
    refused(
        other.make("a").set_mode(Mode::PseudoLocksetup),
        EINVAL,
        "Pseudo-locking not supported",
    );
    assert_eq!(
        other.write("a/mode", "private\n").unwrap_err(),
        (EINVAL, "Unknown or unsupported mode\n".into())
    );
    let without = Bench::new(Hardware { l3: None, ..Hardware::broadwell() });
    let group = without.make("a");
    refused(group.set_mode(Mode::Exclusive), EINVAL, "Cannot be exclusive without CAT/CDP");
}

#[test]
fn leaving_locksetup_takes_a_number_again() {
    let bench = Bench::new(Hardware { rmids: 3, ..Hardware::broadwell() });
    let group = bench.make("a");
    group.set_mode(Mode::PseudoLocksetup).unwrap();
    bench.make("b");
    bench.make("c");
    refused(group.set_mode(Mode::Shareable), ENOSPC, "Out of RMIDs");
    bench.group("b").remove().unwrap();
    group.set_mode(Mode::Shareable).unwrap();
}
