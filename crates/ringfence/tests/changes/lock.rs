//! `lock`, where no region can be locked: of this machine, and of others that stand in as folders.

use ringfence_machine::fixtures::{self, FixtureTree, ResctrlSpec};
use ringfence_persist::{Flush, isa};
use ringfence_resctrl::Resctrl;
use serde_json::Value;

use crate::support::{Folder, Output, cpus, ringfence, ringfence_in, skip};

fn run(tree: &FixtureTree, args: &[&str]) -> Output {
    let root = tree.root().path("/");
    ringfence(&[&["lock"], args, &["--root", root.to_str().unwrap()]].concat())
}

// A Broadwell-X with ways of 1 MiB.
fn broadwell() -> (FixtureTree, ResctrlSpec) {
    let tree = fixtures::xeon_2s64t();
    let spec = ResctrlSpec {
        cbm_mask: "fffff",
        shareable_bits: "c0000",
        way: 1 << 20,
        ..ResctrlSpec::default()
    };
    tree.remove("/sys/fs/resctrl");
    spec.mount(&tree);
    tree.write(
        "/proc/cpuinfo",
        "processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\nmodel : 79\nmodel name : A \
         Broadwell\n",
    );
    (tree, spec)
}

#[test]
fn the_plan_of_a_region_is_told() {
    let (tree, _) = broadwell();
    let said = run(&tree, &["create", "hot", "--size", "300KiB", "--cpu", "1", "--dry-run"])
        .ok()
        .to_owned();
    assert_eq!(
        said,
        "These steps would lock a region of 1MiB:\n  set L3:1=ffffe in default group\n  make group \
         hot\n  \
         make hot pseudo-locksetup\n  set L3:1=1 in hot\n"
    );
    let there = run(&tree, &["create", "hot", "--size", "2MiB", "--cache", "0", "--dry-run"])
        .ok()
        .to_owned();
    assert!(there.contains("set L3:0=3 in hot"), "{there}");
    assert!(!tree.root().exists("/sys/fs/resctrl/hot"));
}

#[test]
fn regions_are_listed() {
    let (tree, spec) = broadwell();
    assert_eq!(run(&tree, &["list"]).ok(), "no region is locked\n");
    assert_eq!(run(&tree, &["list", "--json"]).json()["regions"], Value::Array(Vec::new()));
    spec.group(&tree, "hot", "pseudo-locked", "3", "0-31", "");
    tree.write("/sys/fs/resctrl/hot/schemata", "L3:1=3\n")
        .write("/sys/fs/resctrl/hot/size", "L3:1=2097152\n");
    let json = run(&tree, &["list", "--json"]).json();
    let region = &json["regions"][0];
    assert_eq!(
        (&region["name"], &region["cache"], &region["mask"]),
        (&"hot".into(), &"L3:1".into(), &"3".into())
    );
    assert_eq!((&region["bytes"], &region["ours"]), (&(2 << 20).into(), &false.into()));
    let text = run(&tree, &["list"]).ok().to_owned();
    assert!(text.contains("2MiB  0-31  none seen  others"), "{text}");
}

#[test]
fn what_makes_no_sense_is_refused_in_a_line() {
    let (tree, spec) = broadwell();
    let cases: &[(&[&str], &str)] = &[
        (&["create", "hot", "--size", "5MiB"], "at most 4 MiB"),
        (&["create", "hot", "--size", "0B"], "at least one byte"),
        (&["create", "hot", "--size", "big"], "--size: 'big' is not a size"),
        (&["create", "info", "--size", "1MiB", "--dry-run"], "cannot be the name"),
        (&["create", "hot", "--size", "1MiB", "--cpu", "99"], "there is no CPU 99 here"),
        (&["create", "hot", "--size", "1MiB", "--cache", "7", "--dry-run"], "allocate L3 cache 7"),
        (&["create", "hot", "--size", "1MiB", "--level", "2", "--dry-run"], "L2"),
        (&["misses", "--size", "1MiB,much"], "'much' is not a size"),
        (&["remove", "hot"], "there is no region 'hot'"),
        (&["remove", "theirs"], "was not created by 'ringfence lock create'"),
    ];
    spec.group(&tree, "theirs", "shareable", "f", "", "");
    for (args, part) in cases {
        let folder = tree.root().path("/run/ringfence");
        let args = [args, &["--folder", folder.to_str().unwrap()][..]].concat();
        let output = run(&tree, &args);
        assert_eq!(output.code(), Some(2), "{args:?}: {}{}", output.stdout, output.stderr);
        assert!(output.stderr.contains(part), "{args:?}: {}", output.stderr);
        assert_eq!((output.stdout.as_str(), output.stderr.lines().count()), ("", 1), "{args:?}");
    }
    for args in [
        &["lock", "create", "hot", "--size", "1MiB", "--level", "4"][..],
        &["lock", "misses", "--repeats", "0"],
    ] {
        assert_eq!(ringfence(args).code(), Some(2));
    }
}

#[test]
fn a_processor_that_cannot_lock_says_so_first() {
    for tree in [fixtures::xeon_2s64t(), fixtures::vm_2cpu(), fixtures::zen_multi_llc()] {
        for args in [&["create", "hot", "--size", "1MiB"][..], &["misses"]] {
            let output = run(&tree, args);
            assert_eq!(output.code(), Some(2));
            assert!(
                output.stderr.contains("Broadwell-X, Goldmont, Goldmont Plus"),
                "{}",
                output.stderr
            );
            assert!(output.stderr.contains("exclusive ways"), "{}", output.stderr);
        }
    }
}

#[test]
fn without_resctrl_the_malloc_rows_run_and_the_rest_says_why_not() {
    if Resctrl::find(&ringfence_machine::root::FsRoot::host()).is_ok() {
        return skip("resctrl is mounted here: measuring would change it");
    }
    let folder = Folder::new();
    let args = [
        "--size",
        "64KiB",
        "--interval",
        "1ms",
        "--trials",
        "2",
        "--window",
        "80ms",
        "--settle",
        "80ms",
    ];
    let args = [&["lock", "measure", "--probe", "0ms", "--json", "--out", "m"], &args[..]].concat();
    let said = ringfence_in(folder.path(), &args).json();
    assert!(
        said["notes"][0].as_str().unwrap().contains("does not lock regions"),
        "{}",
        said["notes"]
    );
    let one = &said["experiments"][0];
    assert!(said["experiments"][1].is_null());
    let latencies = one["latencies"].as_array().unwrap();
    let counted: Vec<&str> = latencies.iter().map(|one| one["arm"].as_str().unwrap()).collect();
    let mut expected = vec!["malloc"];
    if cpus().len() > 1 {
        expected.push("malloc, noise");
    }
    expected.extend(["malloc, clflush", "malloc, clflushopt", "malloc, clwb"]);
    // What this processor lacks is not run.
    let absent = |arm: &&str| {
        let flush = arm.rsplit(", ").next().unwrap();
        flush.parse::<Flush>().map_or(true, isa::supports)
    };
    expected.retain(absent);
    assert_eq!(counted, expected);
    let reasons: Vec<&str> = one["not_run"]
        .as_array()
        .unwrap()
        .iter()
        .map(|not| not["reason"].as_str().unwrap())
        .collect();
    assert!(reasons.iter().any(|why| why.contains("does not lock regions")), "{reasons:?}");
    assert!(
        reasons.iter().any(|why| why.contains("RDT") || why.contains("resctrl")),
        "{reasons:?}"
    );
    // It is there again, and can be run again.
    assert!(ringfence_in(folder.path(), &["show", "-v", "m"]).ok().contains("malloc, clflush"));
}

#[test]
fn measurements_that_make_no_sense_are_refused() {
    for (args, part) in [
        (&["--size", "100B"][..], "at least 4KiB"),
        (&["--interval", "2min"], "1min at most"),
        (&["--noise", "strem"], "did you mean 'stream'"),
        (&["--cpu", "4096"], "4096"),
        (&["--window", "1ms"], "too short for the work of role"),
    ] {
        let output = ringfence(&[&["lock", "measure", "--save", "x.toml"], args].concat());
        assert_eq!(output.code(), Some(2), "{args:?}: {}", output.stderr);
        assert!(output.stderr.contains(part), "{args:?}: {}", output.stderr);
    }
}

#[test]
fn a_time_that_holds_no_figure_is_refused_before_anything_is_printed() {
    if Resctrl::find(&ringfence_machine::root::FsRoot::host()).is_ok() {
        return skip("resctrl is mounted here: measuring would change it");
    }
    let folder = Folder::new();
    for more in [&[][..], &["-v"]] {
        let words = [&["lock", "measure", "--time", "1s", "--out", "m"], more].concat();
        let output = ringfence_in(folder.path(), &words);
        assert_eq!((output.code(), output.stdout.as_str()), (Some(2), ""), "{}", output.stderr);
        assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
        assert!(output.stderr.contains("a time of 1s is too short"), "{}", output.stderr);
        assert!(folder.entries().is_empty());
    }
}
