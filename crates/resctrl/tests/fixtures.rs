//! Files as kernels of different machines show them, in trees that stand in for `/sys` and `/proc`.

use ringfence_kernel::fixture::FixtureTree;
use ringfence_resctrl::info::{ThrottleMode, Unit};
use ringfence_resctrl::monitor::{Value, total};
use ringfence_resctrl::{
    Absent, Error, GroupId, Line, Mask, Mode, MountOptions, Resctrl, Resource, Setting, State,
};

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
fn cache(tree: &FixtureTree, name: &str, closids: u32, mask: &str, (least, io): (u32, &str), usage: &str) {
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
    assert_eq!(Resctrl::find(&tree.root()).unwrap_err(), Absent::NoHardware);
    tree.write("/proc/cpuinfo", "flags\t\t: fpu sse2\n").write("/proc/filesystems", "nodev\tproc\n\text4\n");
    assert_eq!(Resctrl::find(&tree.root()).unwrap_err(), Absent::NoHardware);
    for flag in ["rdt_a", "cqm", "cat_l2", "mba"] {
        tree.write("/proc/cpuinfo", format!("flags\t\t: fpu {flag} sse2\n"));
        assert_eq!(Resctrl::find(&tree.root()).unwrap_err(), Absent::NoKernel, "{flag}");
    }
    tree.write("/proc/filesystems", "nodev\tproc\nnodev\tresctrl\n\text4\n");
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
    tree.write("/proc/mounts", "none /mnt/my\\040rdt resctrl rw,nosuid,cdp,cdpl2,mba_MBps 0 0\n");
    tree.write("/mnt/my rdt/schemata", "L3DATA:0=f\nL3CODE:0=f\n").write("/mnt/my rdt/tasks", "1\n");
    let fs = Resctrl::find(&tree.root()).unwrap();
    assert_eq!(fs.options(), MountOptions { cdp: true, cdpl2: true, mba_mbps: true });
    assert!(fs.place().ends_with("/mnt/my rdt"), "{}", fs.place());
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
    assert_eq!((usage.ways("E"), usage.ways("HX"), usage.ways("S")), (Mask(0x1e0), Mask(0x600), Mask(0x1f)));
    let mb = info.bandwidth().unwrap();
    assert_eq!((mb.throttle, mb.unit, mb.min_bandwidth), (ThrottleMode::Max, Unit::Percent, 10));
    // The fewest of all resources.
    assert_eq!(info.num_closids(), Some(8));
    let groups: Vec<String> = fs.groups().unwrap().iter().map(|group| group.id().to_string()).collect();
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
    let (tree, fs) =
        machine("GenuineIntel", ",cdp", &[("schemata", "L3DATA:0=fffff;1=fffff\nL3CODE:0=fffff;1=000ff\n")]);
    for name in ["L3DATA", "L3CODE"] {
        cache(&tree, name, 8, "fffff", (1, "c0000"), "0=XXSSSSSSSSSSSSSSSSSS;1=XXSSSSSSSSSSSSSSSSSS");
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
    monitoring(&tree, 256, "llc_occupancy\nmbm_total_bytes\nmbm_total_bytes_config\nmbm_local_bytes\n");
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
    let (tree, fs) =
        machine("GenuineIntel", ",mba_MBps", &[("schemata", "MB:0=4294967295;1=700\nL3:0=7ff;1=7ff\n")]);
    bandwidth(&tree, "MB", [8, 10, 10, 1], Some("per-thread"));
    let info = fs.info().unwrap();
    let mb = info.bandwidth().unwrap();
    assert_eq!((mb.unit, mb.throttle), (Unit::MegabytesPerSecond, ThrottleMode::PerThread));
    assert_eq!(mb.unit.say(700), "700 MB/s");
    assert_eq!(fs.default_group().schemata().unwrap().amount(&Resource::Mb, 0), Some(u32::MAX.into()));
}

#[test]
fn goldmont() {
    let (tree, fs) =
        machine("GenuineIntel", "", &[("schemata", "L2:0=ff;1=ff\n"), ("lock/schemata", "L2:1=3\n")]);
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
        let mut found = readings.iter().filter(|reading| reading.domain == domain && reading.event == event);
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
    let (tree, fs) =
        machine("GenuineIntel", "", &[("schemata", "L3:0=fffff\n"), ("tasks", ""), ("cpus_list", "0-1\n")]);
    for (file, text) in [("num_closids", "16\n"), ("cbm_mask", "fffff\n"), ("min_cbm_bits", "1\n")] {
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
    let (tree, fs) =
        machine("GenuineIntel", "", &[("schemata", "L3=7ff\n"), ("mode", "mine\n"), ("cpus_list", "x\n")]);
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
