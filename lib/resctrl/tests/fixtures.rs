//! Files as kernels of different machines show them, in trees that stand in for `/sys` and `/proc`.

use ringfence_resctrl::info::{IoAlloc, ThrottleMode, Unit};
use ringfence_resctrl::monitor::{Value, total};
use ringfence_resctrl::{
    Absent, Error, GroupId, Line, Mask, Mode, MountOptions, Options, Overview, Resctrl, Resource,
    Setting, State, Transaction,
};
use ringfence_system::fixture::FixtureTree;

const MOUNT: &str = "/sys/fs/resctrl";

/// A machine with these options of the mount, and files below it.
fn machine(vendor: &str, options: &str, files: &[(&str, &str)]) -> (FixtureTree, Resctrl) {
    let tree = FixtureTree::empty("resctrl");
    tree.write(
        "/proc/cpuinfo",
        format!("processor\t: 0\nvendor_id\t: {vendor}\nflags\t\t: fpu rdt_a cat_l3\n"),
    );
    tree.write(
        "/proc/mounts",
        format!("proc /proc proc rw 0 0\nresctrl {MOUNT} resctrl rw,relatime{options} 0 0\n"),
    );
    for (path, text) in files {
        tree.write(format!("{MOUNT}/{path}"), text);
    }
    let fs = Resctrl::find(&tree.root()).unwrap();
    (tree, fs)
}

/// The files of `info/` of a cache.
fn cache(
    tree: &FixtureTree,
    name: &str,
    closids: u32,
    mask: &str,
    (least, io): (u32, &str),
    usage: &str,
) {
    let write = |file: &str, text: String| {
        tree.write(format!("{MOUNT}/info/{name}/{file}"), text);
    };
    write("num_closids", format!("{closids}\n"));
    write("cbm_mask", format!("{mask}\n"));
    write("min_cbm_bits", format!("{least}\n"));
    write("shareable_bits", format!("{io}\n"));
    write("bit_usage", format!("{usage}\n"));
}

fn bandwidth(
    tree: &FixtureTree,
    name: &str,
    [closids, least, step, linear]: [u32; 4],
    throttle: Option<&str>,
) {
    let numbers = [
        ("num_closids", closids),
        ("min_bandwidth", least),
        ("bandwidth_gran", step),
        ("delay_linear", linear),
    ];
    for (file, number) in numbers {
        tree.write(format!("{MOUNT}/info/{name}/{file}"), format!("{number}\n"));
    }
    if let Some(throttle) = throttle {
        tree.write(format!("{MOUNT}/info/{name}/thread_throttle_mode"), format!("{throttle}\n"));
    }
}

fn monitoring(tree: &FixtureTree, rmids: u32, features: &str) {
    tree.write(format!("{MOUNT}/info/L3_MON/num_rmids"), format!("{rmids}\n"));
    tree.write(format!("{MOUNT}/info/L3_MON/mon_features"), features);
    tree.write(format!("{MOUNT}/info/L3_MON/max_threshold_occupancy"), "65536\n");
}

#[test]
fn why_there_is_none() {
    let tree = FixtureTree::empty("absent");
    // What a copy does not have says nothing.
    let why = Resctrl::find(&tree.root()).unwrap_err();
    assert_eq!(why, Absent::Unknown("/proc/cpuinfo"));
    assert!(why.to_string().contains("/proc/cpuinfo does not show it"), "{why}");
    tree.write("/proc/cpuinfo", "flags\t\t: fpu rdt_a\n");
    assert_eq!(Resctrl::find(&tree.root()).unwrap_err(), Absent::Unknown("/proc/filesystems"));
    let arm = FixtureTree::empty("absent");
    arm.write("/proc/cpuinfo", "processor : 0\nCPU implementer : 0x41\n");
    assert_eq!(Resctrl::find(&arm.root()).unwrap_err(), Absent::OtherProcessor("Arm"));
    tree.write("/proc/cpuinfo", "flags\t\t: fpu sse2\n");
    assert_eq!(Resctrl::find(&tree.root()).unwrap_err(), Absent::NoHardware);
    let tree = FixtureTree::empty("absent");
    tree.write("/proc/cpuinfo", "flags\t\t: fpu sse2\n")
        .write("/proc/filesystems", "nodev\tproc\n\text4\n");
    assert_eq!(Resctrl::find(&tree.root()).unwrap_err(), Absent::NoHardware);
    for flag in ["rdt_a", "cqm", "cat_l2", "mba"] {
        tree.write("/proc/cpuinfo", format!("flags\t\t: fpu {flag} sse2\n"));
        assert_eq!(Resctrl::find(&tree.root()).unwrap_err(), Absent::NoKernel, "{flag}");
    }
    tree.write("/proc/filesystems", "nodev\tproc\nnodev\tresctrl\n\text4\n");
    assert_eq!(Resctrl::find(&tree.root()).unwrap_err(), Absent::Unknown("/proc/mounts"));
    tree.write("/proc/mounts", "proc /proc proc rw 0 0\n");
    let why = Resctrl::find(&tree.root()).unwrap_err();
    assert_eq!(why, Absent::NotMounted);
    assert!(why.to_string().contains("mount -t resctrl resctrl /sys/fs/resctrl"));
    // Something else of that name is not it.
    tree.write("/proc/mounts", "resctrl /sys/fs/resctrl tmpfs rw 0 0\n");
    assert_eq!(Resctrl::find(&tree.root()).unwrap_err(), Absent::NotMounted);
}

#[test]
fn mounted_elsewhere_and_how() {
    let tree = FixtureTree::empty("elsewhere");
    tree.write(
        "/proc/mounts",
        "none /mnt/my\\040rdt\\011x resctrl rw,nosuid,cdp,cdpl2,mba_MBps 0 0\n",
    );
    tree.write("/mnt/my rdt\tx/schemata", "L3DATA:0=f\nL3CODE:0=f\n")
        .write("/mnt/my rdt\tx/tasks", "1\n");
    let fs = Resctrl::find(&tree.root()).unwrap();
    assert_eq!(fs.options(), MountOptions { cdp: true, cdpl2: true, mba_mbps: true });
    assert!(fs.place().ends_with("/mnt/my rdt\tx"), "{}", fs.place());
    assert_eq!(fs.default_group().schemata().unwrap().mask(&Resource::L3Data, 0), Some(Mask(0xf)));
}

#[test]
fn cascade_lake() {
    let (tree, fs) = machine(
        "GenuineIntel",
        "",
        &[
            ("schemata", "    MB:0=100;1=100\n    L3:0=7ff;1=600\n"),
            ("size", "    MB:0=100;1=100\n    L3:0=40370176;1=7340032\n"),
            ("mode", "shareable\n"),
            ("tasks", "1\n2\n"),
            ("cpus_list", "0-47\n"),
            ("batch/tasks", "4711\n"),
            ("batch/cpus_list", "\n"),
            ("batch/mode", "exclusive\n"),
            ("batch/schemata", "    MB:0= 50;1= 10\n    L3:0=001;1=0f0\n"),
            ("batch/mon_groups/one/tasks", ""),
            ("batch/mon_groups/one/cpus_list", "\n"),
            ("mon_groups/two/tasks", ""),
            ("mon_groups/two/cpus_list", "\n"),
        ],
    );
    cache(&tree, "L3", 16, "7ff", (1, "600"), "0=XXSSSSSSSSS;1=HHEEEESSSSS");
    bandwidth(&tree, "MB", [8, 10, 10, 1], Some("max"));
    monitoring(&tree, 192, "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes\n");
    tree.write(format!("{MOUNT}/info/last_cmd_status"), "ok\n");
    let info = fs.info().unwrap();
    let l3 = &info.caches["L3"];
    assert_eq!((l3.cbm_mask.count(), l3.shareable_bits, l3.sparse_masks), (11, Mask(0x600), false));
    let usage = &l3.bit_usage[&1];
    assert_eq!(
        (usage.ways("E"), usage.ways("HX"), usage.ways("S")),
        (Mask(0x1e0), Mask(0x600), Mask(0x1f))
    );
    let mb = info.bandwidth().unwrap();
    assert_eq!((mb.throttle, mb.unit, mb.min_bandwidth), (ThrottleMode::Max, Unit::Percent, 10));
    // The fewest of all resources.
    assert_eq!(info.num_closids(), Some(8));
    let groups: Vec<String> =
        fs.groups().unwrap().iter().map(|group| group.id().to_string()).collect();
    assert_eq!(groups, ["default group", "mon_groups/two", "batch", "batch/mon_groups/one"]);
    let batch = fs.group(&GroupId::control("batch"));
    assert_eq!(batch.schemata().unwrap().to_string(), "L3:0=1;1=f0\nMB:0=50;1=10\n");
    assert_eq!((batch.mode().unwrap(), batch.cpus().unwrap().len()), (Some(Mode::Exclusive), 0));
    assert_eq!(batch.tasks().unwrap(), [4711]);
    let sizes = fs.default_group().size().unwrap();
    assert_eq!(
        sizes.iter().find(|size| size.domain == 1 && size.resource == Resource::L3).unwrap().amount,
        7 << 20
    );
    assert_eq!(fs.last_status(), None);
    // Nothing below /proc is of this machine: no thread is known there.
    assert!(State::read(&fs).unwrap().groups[batch.id()].threads.is_empty());
}

#[test]
fn broadwell_with_code_and_data_apart() {
    let (tree, fs) = machine(
        "GenuineIntel",
        ",cdp",
        &[("schemata", "L3DATA:0=fffff;1=fffff\nL3CODE:0=fffff;1=000ff\n")],
    );
    for name in ["L3DATA", "L3CODE"] {
        cache(
            &tree,
            name,
            8,
            "fffff",
            (1, "c0000"),
            "0=XXSSSSSSSSSSSSSSSSSS;1=XXSSSSSSSSSSSSSSSSSS",
        );
    }
    let info = fs.info().unwrap();
    assert!(info.cdp(3) && !info.cdp(2) && fs.options().cdp);
    assert_eq!(info.of_level(3), [Resource::L3Code, Resource::L3Data]);
    assert_eq!((info.num_closids(), &info.monitoring), (Some(8), &None));
    assert_eq!(fs.default_group().schemata().unwrap().mask(&Resource::L3Code, 1), Some(Mask(0xff)));
}

#[test]
fn epyc() {
    let text = "  SMBA:0=2048;1=2048\n    MB:0=2048;1=  80\n    L3:0=ffff;1=8001\n";
    let (tree, fs) = machine("AuthenticAMD", "", &[("schemata", text)]);
    cache(&tree, "L3", 16, "ffff", (1, "0"), "0=SSSSSSSSSSSSSSSS;1=SSSSSSSSSSSSSSSS");
    tree.write(format!("{MOUNT}/info/L3/sparse_masks"), "1\n");
    bandwidth(&tree, "MB", [16, 0, 1, 0], None);
    bandwidth(&tree, "SMBA", [16, 0, 1, 0], None);
    monitoring(
        &tree,
        256,
        "llc_occupancy\nmbm_total_bytes\nmbm_total_bytes_config\nmbm_local_bytes\n",
    );
    let info = fs.info().unwrap();
    assert!(info.caches["L3"].sparse_masks);
    let mb = info.bandwidth().unwrap();
    assert_eq!(
        (mb.unit, mb.throttle, mb.delay_linear),
        (Unit::EighthsOfGigabyte, ThrottleMode::Unknown, false)
    );
    assert_eq!(mb.unit.say(80), "10.000 GB/s");
    assert_eq!(info.bandwidths["SMBA"].unit, Unit::EighthsOfGigabyte);
    let schemata = fs.default_group().schemata().unwrap();
    assert_eq!(
        (schemata.mask(&Resource::L3, 1), schemata.amount(&Resource::Smba, 0)),
        (Some(Mask(0x8001)), Some(2048))
    );
}

/// Zen 5 on Linux 6.19, made after the kernel's documentation of `io_alloc` (SDCIAE) and
/// `mbm_assign_mode` (ABMC); the kernel of the testbed has neither.
fn turin() -> (FixtureTree, Resctrl) {
    let (tree, fs) = machine(
        "AuthenticAMD",
        "",
        &[
            ("schemata", "    MB:0=2048;1=2048\n    L3:0=ffff;1=ffff\n"),
            ("mode", "shareable\n"),
            ("tasks", "1\n"),
            ("cpus_list", "0-15\n"),
            ("info/L3/io_alloc", "disabled\n"),
        ],
    );
    cache(&tree, "L3", 16, "ffff", (1, "0"), "0=SSSSSSSSSSSSSSSS;1=SSSSSSSSSSSSSSSS");
    tree.write(format!("{MOUNT}/info/L3/sparse_masks"), "1\n");
    bandwidth(&tree, "MB", [16, 0, 1, 0], None);
    monitoring(&tree, 4096, "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes\n");
    tree.write(format!("{MOUNT}/info/L3_MON/mbm_assign_mode"), "[mbm_event]\ndefault\n");
    (tree, fs)
}

fn give_io(tree: &FixtureTree, masks: &str) {
    tree.write(format!("{MOUNT}/info/L3/io_alloc"), "enabled\n")
        .write(format!("{MOUNT}/info/L3/io_alloc_cbm"), masks);
}

#[test]
fn ways_and_the_closid_that_io_was_given_are_not_free() {
    let (tree, fs) = turin();
    let plan = |ways: u32| {
        let (info, state) = (fs.info().unwrap(), State::read(&fs).unwrap());
        ringfence_resctrl::plan::isolate(&info, &state, 3, &[0, 1], ways)
    };
    assert_eq!(fs.info().unwrap().caches["L3"].io_alloc, IoAlloc::Disabled);
    assert_eq!(Overview::read(&fs).closids_free(), Some(15));
    assert_eq!(plan(4).unwrap().alone.to_string(), "L3:0=f;1=f\n");
    give_io(&tree, "0=00ff;1=f00f\n");
    let l3 = &fs.info().unwrap().caches["L3"];
    assert_eq!(
        (l3.io_ways(0), l3.io_ways(1), l3.shareable_bits),
        (Mask(0xff), Mask(0xf00f), Mask(0))
    );
    assert_eq!(Overview::read(&fs).closids_free(), Some(14));
    let isolation = plan(4).unwrap();
    assert_eq!(isolation.alone.to_string(), "L3:0=f000;1=f0\n");
    assert!(isolation.splits.values().all(|split| !split.with_io));
    // Where there is no other way, it is said.
    assert!(plan(10).unwrap().splits.values().all(|split| split.with_io));
    // With CDP both resources show the same, and it is one CLOSID all the same.
    for name in ["L3CODE", "L3DATA"] {
        cache(&tree, name, 8, "ffff", (1, "0"), "0=SSSSSSSSSSSSSSSS;1=SSSSSSSSSSSSSSSS");
        tree.write(format!("{MOUNT}/info/{name}/io_alloc"), "enabled\n")
            .write(format!("{MOUNT}/info/{name}/io_alloc_cbm"), "0=00ff;1=f00f\n");
    }
    tree.remove(format!("{MOUNT}/info/L3"));
    assert_eq!(Overview::read(&fs).closids_free(), Some(6));
    // Other caches of the machine.
    tree.write(format!("{MOUNT}/info/L3CODE/io_alloc"), "not supported\n");
    assert!(fs.info().unwrap().caches["L3CODE"].io_alloc.is_unsupported());
    tree.write(format!("{MOUNT}/info/L3CODE/io_alloc"), "perhaps\n");
    assert!(fs.info().unwrap_err().to_string().contains("io_alloc holds 'perhaps'"));
}

#[test]
fn settings_of_resctrl_as_a_whole_that_somebody_changes_are_said() {
    let (tree, fs) = turin();
    let mode = fs.info().unwrap().monitoring.unwrap().mbm_assign_mode;
    assert_eq!(mode.as_deref(), Some("mbm_event"));
    let folder = tempfile::tempdir().unwrap();
    let options = Options { folder: Some(folder.path().to_owned()), ..Options::default() };
    let mut change = Transaction::begin(&fs, "a test", &options).unwrap();
    assert_eq!(change.before().whole["L3_MON/mbm_assign_mode"], "mbm_event");
    tree.write(format!("{MOUNT}/info/L3_MON/mbm_assign_mode"), "mbm_event\n[default]\n");
    give_io(&tree, "0=ffff;1=ffff\n");
    let left = change.restore().unwrap().left;
    let expected = [
        "info/L3/io_alloc is now enabled for 0=ffff;1=ffff, was disabled before",
        "info/L3_MON/mbm_assign_mode is now default, was mbm_event before",
    ];
    assert_eq!(left, expected);
    // Nothing of it on kernels that have neither.
    let (old, fs) = machine(
        "GenuineIntel",
        "",
        &[("schemata", "L3:0=1\n"), ("tasks", ""), ("cpus_list", "0\n")],
    );
    cache(&old, "L3", 16, "1", (1, "0"), "0=S");
    assert!(State::read(&fs).unwrap().whole.is_empty());
}

#[test]
fn nothing_that_a_name_or_a_journal_holds_steers_the_terminal() {
    let (tree, fs) = machine("GenuineIntel", "", &[("mode", "\x1b[31mmine\n")]);
    cache(&tree, "L3", 16, "1", (1, "0"), "0=S");
    let hostile = GroupId::control("a\x1b]0;title\x07");
    assert_eq!(hostile.to_string(), r"a\u{1b}]0;title\u{7}");
    assert_eq!(
        hostile.path().to_str(),
        Some("a\x1b]0;title\x07"),
        "the kernel is asked for what is there"
    );
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("resctrl.journal"), "\x1b[2Jno journal\n").unwrap();
    let options = Options { folder: Some(folder.path().to_owned()), ..Options::default() };
    let errors = [
        ringfence_resctrl::transaction::recover(&fs, &options).unwrap_err(),
        fs.default_group().mode().unwrap_err(),
        "x\x1b/y".parse::<GroupId>().unwrap_err(),
        fs.group(&hostile).set_mode(Mode::Exclusive).unwrap_err(),
        fs.group(&GroupId::control("b\x1b\n")).create().unwrap_err(),
    ];
    for error in errors {
        let text = error.to_string();
        assert!(text.contains(r"\u{1b}") && !text.contains(char::is_control), "{text:?}");
    }
}

#[test]
fn journals_are_not_written_through_links_nor_read_from_them() {
    let (tree, fs) = machine(
        "GenuineIntel",
        "",
        &[("schemata", "L3:0=1\n"), ("tasks", ""), ("cpus_list", "0\n")],
    );
    cache(&tree, "L3", 16, "1", (1, "0"), "0=S");
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("dear"), "dear").unwrap();
    std::os::unix::fs::symlink(path("dear"), path("resctrl.new")).unwrap();
    let options = Options { folder: Some(folder.path().to_owned()), ..Options::default() };
    let change = Transaction::begin(&fs, "a test", &options).unwrap();
    assert_eq!(std::fs::read_to_string(path("dear")).unwrap(), "dear");
    drop(change);
    std::os::unix::fs::symlink(path("dear"), path("resctrl.journal")).unwrap();
    let refused = Transaction::begin(&fs, "a test", &options).err().unwrap().to_string();
    assert!(refused.contains("resctrl.journal is a symbolic link"), "{refused}");
    std::fs::remove_file(path("resctrl.journal")).unwrap();
    std::fs::remove_file(path("resctrl.lock")).unwrap();
    std::os::unix::fs::symlink(path("dear"), path("resctrl.lock")).unwrap();
    assert!(Transaction::begin(&fs, "a test", &options).is_err());
    assert_eq!(std::fs::read_to_string(path("dear")).unwrap(), "dear");
}

#[test]
fn mpam() {
    // Domains begin anywhere; no vendor, and percentages.
    let tree = FixtureTree::empty("mpam");
    tree.write("/proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n");
    tree.write("/proc/mounts", format!("resctrl {MOUNT} resctrl rw,relatime 0 0\n"));
    tree.write(format!("{MOUNT}/schemata"), "MB:1=100;2=100\nL3:1=ffff;2=00ff\n");
    cache(&tree, "L3", 32, "ffff", (1, "0"), "1=SSSSSSSSSSSSSSSS;2=00000000SSSSSSSS");
    bandwidth(&tree, "MB", [32, 1, 1, 1], None);
    let fs = Resctrl::find(&tree.root()).unwrap();
    assert_eq!(fs.info().unwrap().bandwidth().unwrap().unit, Unit::Percent);
    assert_eq!(fs.info().unwrap().caches["L3"].bit_usage[&2].ways("0"), Mask(0xff00));
    assert_eq!(fs.default_group().schemata().unwrap().domains(&Resource::L3), [1, 2]);
}

#[test]
fn megabytes_per_second() {
    let (tree, fs) = machine(
        "GenuineIntel",
        ",mba_MBps",
        &[("schemata", "MB:0=4294967295;1=700\nL3:0=7ff;1=7ff\n")],
    );
    bandwidth(&tree, "MB", [8, 10, 10, 1], Some("per-thread"));
    let info = fs.info().unwrap();
    let mb = info.bandwidth().unwrap();
    assert_eq!((mb.unit, mb.throttle), (Unit::MegabytesPerSecond, ThrottleMode::PerThread));
    assert_eq!(mb.unit.say(700), "700 MB/s");
    assert_eq!(
        fs.default_group().schemata().unwrap().amount(&Resource::Mb, 0),
        Some(u32::MAX.into())
    );
}

#[test]
fn goldmont() {
    let (tree, fs) = machine(
        "GenuineIntel",
        "",
        &[("schemata", "L2:0=ff;1=ff\n"), ("lock/schemata", "L2:1=3\n")],
    );
    tree.write(format!("{MOUNT}/lock/mode"), "pseudo-locked\n")
        .write(format!("{MOUNT}/lock/size"), "L2:1=262144\n");
    cache(&tree, "L2", 4, "ff", (1, "0"), "0=SSSSSSSS;1=SSSSSSPP");
    let info = fs.info().unwrap();
    assert_eq!((info.of_level(2), info.of_level(3)), (vec![Resource::L2], vec![]));
    assert_eq!(info.caches["L2"].bit_usage[&1].ways("P"), Mask(3));
    let group = fs.group(&GroupId::control("lock"));
    assert_eq!(
        (group.mode().unwrap(), group.size().unwrap()[0].amount),
        (Some(Mode::PseudoLocked), 256 << 10)
    );
    tree.write(format!("{MOUNT}/lock/mode"), "pseudo-locksetup\n")
        .write(format!("{MOUNT}/lock/schemata"), "L2:uninitialized\n");
    let schemata = group.schemata().unwrap();
    assert_eq!(schemata.lines().next(), Some((&Resource::L2, &Line::Uninitialized)));
}

#[test]
fn counters_and_why_there_is_none() {
    let (_tree, fs) = machine(
        "GenuineIntel",
        "",
        &[
            ("mon_data/mon_L3_00/llc_occupancy", "1228800\n"),
            ("mon_data/mon_L3_00/mbm_total_bytes", "Unavailable\n"),
            ("mon_data/mon_L3_00/mbm_local_bytes", "Error\n"),
            ("mon_data/mon_L3_01/llc_occupancy", "4096\n"),
            ("mon_data/mon_L3_01/mbm_total_bytes", "Unassigned\n"),
            ("mon_data/mon_L3_01/mbm_local_bytes", "1 2\n"),
            ("mon_data/other/llc_occupancy", "7\n"),
        ],
    );
    let readings = fs.default_group().monitored().unwrap();
    let value = |domain: u32, event: &str| {
        let mut found =
            readings.iter().filter(|reading| reading.domain == domain && reading.event == event);
        found.next().unwrap().value.clone()
    };
    assert_eq!(value(0, "mbm_total_bytes"), Value::Unavailable);
    assert_eq!(value(0, "mbm_local_bytes"), Value::Error);
    assert_eq!(value(1, "mbm_total_bytes"), Value::Unassigned);
    assert_eq!(value(1, "mbm_local_bytes"), Value::Other("1 2".into()));
    assert_eq!(total(&readings, "llc_occupancy"), Some(1228800 + 4096));
    // Where one of them has none, there is no sum, rather than a wrong one.
    assert_eq!((total(&readings, "mbm_total_bytes"), total(&readings, "no_such")), (None, None));
    assert_eq!(readings.len(), 6);
}

#[test]
fn clusters_of_a_socket_are_summed_up_by_the_kernel() {
    let (_tree, fs) = machine(
        "GenuineIntel",
        "",
        &[
            ("mon_data/mon_L3_00/llc_occupancy", "300\n"),
            ("mon_data/mon_L3_00/mon_sub_L3_00/llc_occupancy", "100\n"),
            ("mon_data/mon_L3_00/mon_sub_L3_01/llc_occupancy", "200\n"),
        ],
    );
    let readings = fs.default_group().monitored().unwrap();
    assert_eq!(total(&readings, "llc_occupancy"), Some(300));
}

#[test]
fn what_is_not_known_is_kept() {
    let text = "    L3:0=7ff\n   NEW:0=a,b;1=c\n";
    let (tree, fs) =
        machine("GenuineIntel", "", &[("schemata", text), ("info/NEW/what", "?\n"), ("tasks", "")]);
    cache(&tree, "L3", 16, "7ff", (1, "0"), "0=SSSSSSSSSSS");
    tree.write(format!("{MOUNT}/io_alloc"), "0\n");
    assert_eq!(fs.info().unwrap().others, ["NEW"]);
    let schemata = fs.default_group().schemata().unwrap();
    assert_eq!(schemata.get(&Resource::Other("NEW".into()), 0), Some(&Setting::Text("a,b".into())));
    assert_eq!(schemata.to_string(), "L3:0=7ff\nNEW:0=a,b;1=c\n");
    assert_eq!(fs.groups().unwrap().len(), 1);
}

#[test]
fn kernels_before_4_19() {
    // Neither shareable_bits nor bit_usage, mode nor size.
    let (tree, fs) = machine(
        "GenuineIntel",
        "",
        &[("schemata", "L3:0=fffff\n"), ("tasks", ""), ("cpus_list", "0-1\n")],
    );
    for (file, text) in [("num_closids", "16\n"), ("cbm_mask", "fffff\n"), ("min_cbm_bits", "1\n")]
    {
        tree.write(format!("{MOUNT}/info/L3/{file}"), text);
    }
    let info = fs.info().unwrap();
    assert_eq!((info.caches["L3"].shareable_bits, info.caches["L3"].bit_usage.len()), (Mask(0), 0));
    let group = fs.default_group();
    assert_eq!((group.mode().unwrap(), group.size().unwrap()), (None, vec![]));
    assert!(State::read(&fs).is_ok() && fs.last_status().is_none());
}

#[test]
fn files_that_make_no_sense_are_named() {
    let (tree, fs) = machine(
        "GenuineIntel",
        "",
        &[("schemata", "L3=7ff\n"), ("mode", "mine\n"), ("cpus_list", "x\n")],
    );
    tree.write(format!("{MOUNT}/size"), "L3:0\n").write(format!("{MOUNT}/tasks"), "1 2\n");
    cache(&tree, "L3", 16, "0x7ff", (1, "0"), "0=SSS");
    let group = fs.default_group();
    let errors = [
        (group.schemata().map(drop), "schemata holds 'L3=7ff'"),
        (group.mode().map(drop), "mode holds 'mine'"),
        (group.cpus().map(drop), "cpus_list holds 'x'"),
        (group.size().map(drop), "size holds 'L3:0'"),
        (group.tasks().map(drop), "tasks holds '1 2'"),
        (fs.info().map(drop), "info/L3/cbm_mask holds '0x7ff': expected a mask"),
    ];
    for (result, part) in errors {
        let error = result.unwrap_err();
        let text = error.to_string();
        assert!(
            matches!(error, Error::Content { .. }) && text.contains(part) && !text.contains('\n'),
            "{text}"
        );
    }
    tree.remove(format!("{MOUNT}/info/L3/num_closids"));
    let text = fs.info().unwrap_err().to_string();
    assert!(text.starts_with("reading ") && text.contains("info/L3/num_closids"), "{text}");
}

#[test]
fn names_that_no_group_can_have() {
    let (_tree, fs) = machine("GenuineIntel", "", &[]);
    for name in ["", ".", "..", "info", "mon_groups", "mon_data", "a/b", "a\nb", &"x".repeat(256)] {
        let error = fs.group(&GroupId::control(name)).create().unwrap_err();
        assert!(matches!(error, Error::Usage(_)) && !error.to_string().is_empty(), "{name}");
    }
    for (text, expected) in [
        ("", ""),
        (".", ""),
        ("a", "a"),
        ("a/", "a"),
        ("mon_groups/m", "mon_groups/m"),
        ("a/mon_groups/m", "a/mon_groups/m"),
    ] {
        assert_eq!(text.parse::<GroupId>().unwrap().path().to_str(), Some(expected));
    }
    for text in ["a/b", "/a", "a/mon_groups", "a/mon_groups/m/n", "mon_groups"] {
        assert!(text.parse::<GroupId>().is_err(), "{text}");
    }
}

#[test]
fn a_mark_is_there_from_the_first_moment_until_it_is_taken() {
    let (_tree, fs) = machine("GenuineIntel", "", &[("tasks", "")]);
    let kernel = fs.kernel();
    kernel.make_marked_dir("ours".as_ref()).unwrap();
    kernel.make_dir("theirs".as_ref()).unwrap();
    let marked = |name: &str| kernel.is_marked(name.as_ref());
    assert!(marked("ours").unwrap() && !marked("theirs").unwrap());
    kernel.unmark("ours".as_ref()).unwrap();
    assert!(!marked("ours").unwrap());
    assert_eq!(marked("gone").unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn nothing_outside_of_another_root_is_read_or_changed() {
    let (tree, fs) = machine("GenuineIntel", "", &[("tasks", ""), ("mode", "shareable\n")]);
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("file"), "dear\n").unwrap();
    let at = |path: &str| tree.root().path(format!("{MOUNT}/{path}"));
    let link = |target: &std::path::Path, path: &str| {
        std::os::unix::fs::symlink(target, at(path)).unwrap()
    };
    link("/dev/zero".as_ref(), "schemata");
    link(&outside.path().join("file"), "size");
    link(outside.path(), "mon_groups");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at("cpus_list"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let group = fs.default_group();
    assert!(
        group.schemata().is_ok_and(|schemata| schemata.is_empty()),
        "the link leads nowhere inside"
    );
    assert!(group.size().unwrap().is_empty());
    assert!(group.cpus().unwrap_err().to_string().contains("not a regular file"));
    assert!(group.set_cpus(&"0".parse().unwrap()).is_err());
    assert!(group.set_schemata(&"L3:0=1".parse().unwrap()).is_err());
    let kernel = fs.kernel();
    assert!(
        kernel.write("size".as_ref(), "x").is_err()
            && kernel.make_dir("mon_groups/m".as_ref()).is_err()
    );
    assert!(kernel.remove_dir("mon_groups".as_ref()).is_err());
    let left: Vec<_> = std::fs::read_dir(outside.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["file"]);
    assert_eq!(std::fs::read_to_string(outside.path().join("file")).unwrap(), "dear\n");
}

#[test]
fn a_group_whose_name_is_not_utf_8_is_a_group() {
    use std::os::unix::ffi::OsStrExt;
    let files =
        [("schemata", "L3:0=1\n"), ("tasks", ""), ("cpus_list", "0\n"), ("mode", "shareable\n")];
    let (tree, fs) = machine("GenuineIntel", "", &files);
    cache(&tree, "L3", 16, "1", (1, "0"), "0=S");
    let dir = tree.root().path(MOUNT).join(std::ffi::OsStr::from_bytes(b"g\xff"));
    std::fs::create_dir(&dir).unwrap();
    files.iter().for_each(|(file, text)| std::fs::write(dir.join(file), text).unwrap());
    let seen = Overview::read(&fs);
    assert_eq!(
        (seen.groups[1].group.to_string(), seen.closids_free()),
        (r"g\xff".into(), Some(14))
    );
    let group = fs.group(&r"g\xff".parse().unwrap());
    group.set_cpus(&"0".parse().unwrap()).unwrap();
    assert!(group.place("tasks").ends_with(r"/g\xff/tasks"), "{}", group.place("tasks"));
    assert!(State::read(&fs).unwrap().groups.contains_key(group.id()));
}

#[test]
fn what_cannot_be_understood_hides_nothing_else() {
    let files = [("schemata", "L3:0=1\n"), ("tasks", "1\n"), ("mode", "isolated\n")];
    let (tree, fs) = machine("GenuineIntel", "", &files);
    cache(&tree, "L3", 16, "1", (1, "0"), "0=S");
    for (file, text) in
        [("tasks", "x\n"), ("cpus_list", "0-\n"), ("schemata", "what\n"), ("mode", "exclusive\n")]
    {
        tree.write(format!("{MOUNT}/a/{file}"), text);
    }
    let seen = Overview::read(&fs);
    let [default, a] = &seen.groups[..] else { panic!("{seen:?}") };
    assert_eq!((default.mode, default.cpus.clone(), default.tasks), (None, None, Some(1)));
    assert_eq!(default.schemata.mask(&Resource::L3, 0), Some(Mask(1)));
    let said =
        |unread: &[String], what: &str| unread.iter().filter(|why| why.contains(what)).count();
    assert_eq!((default.unread.len(), said(&default.unread, "an unknown mode")), (2, 1));
    assert_eq!((a.mode, a.cpus.clone(), a.tasks), (Some(Mode::Exclusive), None, None));
    assert_eq!((a.unread.len(), a.schemata.is_empty()), (3, true));
    // Groups are counted all the same; those of a resource of which too little is known are not.
    assert_eq!((seen.closids_free(), seen.unread.len()), (Some(14), 0));
    tree.write(format!("{MOUNT}/info/L3/bit_usage"), "?\n")
        .write(format!("{MOUNT}/mon_groups"), "no folder\n");
    let seen = Overview::read(&fs);
    assert_eq!((seen.closids_free(), seen.rmids_free(), seen.groups.len()), (None, None, 2));
    assert_eq!((said(&seen.unread, "bit_usage"), said(&seen.unread, "mon_groups")), (1, 1));
    assert_eq!(seen.all_unread().count(), 7);
    let read: Overview = serde_json::from_str(&serde_json::to_string(&seen).unwrap()).unwrap();
    assert_eq!(read, seen);
}
