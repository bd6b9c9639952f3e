use ringfence_system::fixture::FixtureTree;

use super::*;
use crate::kernel::model::{Hardware, Model};
use crate::transaction::{Options, Transaction};

fn machine(vendor: &str, family: u32, model: u32, options: &str) -> FixtureTree {
    let tree = FixtureTree::empty("pseudo");
    let cpuinfo = format!(
        "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel \
         name\t: A Processor\n"
    );
    tree.write("/proc/cpuinfo", cpuinfo);
    tree.write(
        "/proc/mounts",
        format!("resctrl /sys/fs/resctrl resctrl rw,relatime{options} 0 0\n"),
    );
    tree
}

#[test]
fn three_models_can() {
    for (vendor, family, model, options, expected) in [
        ("GenuineIntel", 6, 79, "", Ok("Broadwell-X")),
        ("GenuineIntel", 6, 92, "", Ok("Goldmont")),
        ("GenuineIntel", 6, 122, "", Ok("Goldmont Plus")),
        ("GenuineIntel", 6, 85, "", Err("caches of A Processor, only on Broadwell-X, Goldmont")),
        ("GenuineIntel", 15, 79, "", Err("exclusive ways with preloaded data")),
        ("AuthenticAMD", 6, 79, "", Err("exclusive ways with preloaded data")),
        ("GenuineIntel", 6, 79, ",cdp", Err("mount it without cdp")),
        ("GenuineIntel", 6, 92, ",cdpl2", Err("mount it without cdp")),
    ] {
        match (support(&machine(vendor, family, model, options).root()), expected) {
            (Support::Can(name), Ok(expected)) => assert_eq!(name, expected),
            (Support::Cannot(why), Err(part)) => assert!(why.contains(part), "{why}"),
            (other, _) => panic!("{vendor} {family} {model} {options}: {other:?}"),
        }
    }
    let tree = machine("GenuineIntel", 6, 79, "");
    tree.write("/proc/mounts", "proc /proc proc rw 0 0\n")
        .write("/proc/filesystems", "nodev\tresctrl\n");
    assert!(matches!(support(&tree.root()), Support::Cannot(why) if why.contains("not mounted")));
}

fn planned(model: &Model, name: &str, at: (u32, Domain), bytes: u64) -> Result<RegionPlan, Error> {
    let (fs, tree, hardware) = (model.resctrl(), FixtureTree::empty("topology"), model.hardware());
    for (index, level, spec) in [(2, 2, &hardware.l2), (3, 3, &hardware.l3)] {
        for domain in spec.iter().flat_map(|spec| &spec.domains) {
            for cpu in hardware.cpus_of(level, *domain).iter() {
                let cache = format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
                tree.write(format!("{cache}/level"), format!("{level}\n"));
                tree.write(format!("{cache}/id"), format!("{domain}\n"));
            }
        }
    }
    let cache = Cache::read(&tree.root(), &fs, at.0, at.1)?;
    assert_eq!(cache.cpus, hardware.cpus_of(at.0, at.1));
    RegionPlan::new(&GroupId::control(name), (&fs.info()?, &State::read(&fs)?), at, &cache, bytes)
}

fn why(result: Result<RegionPlan, Error>) -> String {
    let error = result.unwrap_err();
    assert!(error.is_usage());
    error.to_string()
}

#[test]
fn a_plan_is_carried_out_and_undone() {
    let model = Model::new(Hardware::broadwell());
    let (fs, folder) = (model.resctrl(), tempfile::tempdir().unwrap());
    let options = Options { folder: Some(folder.path().into()), ..Options::default() };
    let before = State::read(&fs).unwrap();
    let plan = planned(&model, "lock", (3, 0), (1 << 20) + 1).unwrap();
    assert_eq!((plan.mask, plan.bytes), (Mask(3), 2 << 20));
    let said: Vec<String> = plan.steps.iter().map(Step::to_string).collect();
    assert_eq!(
        said,
        [
            "set L3:0=ffffc in default group",
            "make group lock",
            "make lock pseudo-locksetup",
            "set L3:0=3 in lock"
        ]
    );
    let mut change = Transaction::begin(&fs, "a region", &options).unwrap();
    for step in plan.steps {
        change.apply(step).unwrap();
    }
    let group = fs.group(&plan.group);
    assert_eq!(group.mode().unwrap(), Some(Mode::PseudoLocked));
    assert_eq!(group.size().unwrap()[0].amount, plan.bytes);
    assert!(why(planned(&model, "second", (3, 0), 1)).contains("lock has a region in this cache"));
    // In use, it is neither removed nor put back.
    model.use_device("lock", &[4711]);
    assert!(group.remove().unwrap_err().to_string().contains("in use by process 4711"));
    assert!(change.restore().is_err());
    model.use_device("lock", &[]);
    drop(change);
    crate::transaction::recover(&fs, &options).unwrap();
    assert_eq!(State::read(&fs).unwrap(), before);
}

#[test]
fn what_cannot_be_is_refused_before_the_kernel_is_asked() {
    let model = Model::new(Hardware::broadwell());
    let said = why(planned(&model, "a", (3, 0), (4 << 20) + 1));
    assert!(
        said.contains("way of this cache has 1 MiB, which makes 5 MiB")
            && said.contains("at most 4 MiB"),
        "{said}"
    );
    assert!(why(planned(&model, "a", (2, 0), 1)).contains("cannot allocate L2 cache 0"));
    assert!(why(planned(&model, "a", (3, 0), 0)).contains("at least one byte"));
    model.resctrl().group(&GroupId::control("a")).create().unwrap();
    assert!(why(planned(&model, "a", (3, 0), 1)).contains("it needs a new control group"));
    let cdp = Model::new(Hardware::broadwell().with_cdp());
    assert!(why(planned(&cdp, "a", (3, 0), 1)).contains("without cdp"));
    let large = Hardware {
        l3: Some(crate::kernel::model::CacheSpec::plain(4, 8 << 20, 4)),
        ..Hardware::broadwell()
    };
    assert!(why(planned(&Model::new(large), "a", (3, 0), 1)).contains("not even one fits"));
    let mut shared = Hardware::broadwell();
    shared.l3.as_mut().unwrap().shareable = Mask(0xffffe);
    assert!(why(planned(&Model::new(shared), "a", (3, 0), 2 << 20)).contains("no device uses"));
}

#[test]
fn regions_of_other_levels_count_where_cpus_are_shared() {
    let both = Hardware { l2: Hardware::goldmont().l2, ..Hardware::broadwell() };
    let model = Model::new(both);
    let plan = planned(&model, "l2", (2, 1), 128 << 10).unwrap();
    let fs = model.resctrl();
    for step in &plan.steps {
        step.execute(&fs).unwrap();
    }
    assert!(planned(&model, "other", (2, 0), 128 << 10).is_ok());
    assert!(why(planned(&model, "same", (2, 1), 1)).contains("l2 has a region"));
    assert!(why(planned(&model, "l3", (3, 0), 1)).contains("l2 has a region"));
}

#[test]
fn traces_are_read() {
    let trace = "# tracer: nop\n#\n\
        pseudo_lock_mea-1672  [002] ....  3132.860500: pseudo_lock_mem_latency: latency=52\n\
        pseudo_lock_mea-1672  [002] ....  3132.860501: pseudo_lock_mem_latency: latency=17\n";
    assert_eq!(measure::read(trace, What::Latency, 2), Ok(Measured::Latency(vec![52, 17])));
    assert!(measure::read(trace, What::Latency, 4).unwrap_err().contains("expected 4"));
    let trace =
        " pseudo_lock_mea-1672  [002] ....  3132.860500: pseudo_lock_l2: hits=4097 miss=0\n";
    assert_eq!(
        measure::read(trace, What::L2, 0),
        Ok(Measured::Residency { hits: 4097, misses: 0 })
    );
    assert!(measure::read(trace, What::L3, 0).unwrap_err().contains("performance counters"));
    let trace = " pseudo_lock_mea-1672  [002] ....  3132.860500: pseudo_lock_l3: hits=0 miss=0\n";
    assert!(measure::read(trace, What::L3, 0).unwrap_err().contains("counted nothing"));
}

#[test]
fn groups_that_stand_for_no_region_are_not_mapped_or_measured() {
    let model = Model::new(Hardware::broadwell());
    let group = model.resctrl().default_group();
    assert!(Mapped::open(&group).unwrap_err().to_string().contains("nothing to map"));
    let root = FixtureTree::empty("measure");
    assert!(
        measure(&root.root(), &group, What::L3)
            .unwrap_err()
            .to_string()
            .contains("nothing to measure")
    );
    for step in planned(&model, "lock", (3, 0), 1).unwrap().steps {
        step.execute(&model.resctrl()).unwrap();
    }
    let group = model.resctrl().group(&GroupId::control("lock"));
    let said = measure(&root.root(), &group, What::L3).unwrap_err().to_string();
    assert!(said.contains("mount -t debugfs"), "{said}");
}
