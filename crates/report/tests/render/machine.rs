//! Topology, doctor and targets of known machines, and a histogram.

use std::time::Duration;

use ringfence_machine::doctor::{self, Busiest, Busy, Finding, Severity};
use ringfence_machine::fixtures::{self, FixtureTree};
use ringfence_machine::root::FsRoot;
use ringfence_machine::targets;
use ringfence_machine::topology::Topology;
use ringfence_report::Style;

use crate::golden::{check, check_both};

fn machines() -> [(&'static str, FixtureTree); 6] {
    [
        ("xeon", fixtures::xeon_2s64t()),
        ("zen", fixtures::zen_multi_llc()),
        ("cxl", fixtures::cxl_node()),
        ("laptop", fixtures::hybrid_laptop()),
        ("vm", fixtures::vm_2cpu()),
        ("container", fixtures::one_cpu()),
    ]
}

#[test]
fn topologies() {
    for (name, tree) in machines() {
        let topology = Topology::read(&tree.root()).unwrap();
        check(&format!("topology-{name}"), |style| ringfence_report::topology(&topology, style));
    }
}

// All of it comes from the fixture's files: the processor that this runs on is not asked.
fn findings(tree: &FixtureTree) -> Vec<Finding> {
    let root = tree.root();
    let topology = Topology::read(&root).unwrap();
    let found = doctor::examine(&root, &topology, &targets::find(&root, &topology));
    // A fixture lies in a folder of a different name each time.
    let base = root.path("/").display().to_string();
    let base = base.trim_end_matches('/');
    let strip = |text: String| text.replace(base, "");
    found
        .into_iter()
        .map(|finding| Finding {
            cause: strip(finding.cause),
            consequence: strip(finding.consequence),
            remedy: strip(finding.remedy),
            evidence: strip(finding.evidence),
            ..finding
        })
        .collect()
}

#[test]
fn doctors() {
    for (name, tree) in machines() {
        let findings = findings(&tree);
        let root = tree.root();
        let targets = targets::find(&root, &Topology::read(&root).unwrap());
        check_both(&format!("doctor-{name}"), |style| {
            ringfence_report::doctor(&findings, &targets, None, style)
        });
        check(&format!("doctor-brief-{name}"), |style| {
            ringfence_report::doctor_brief(&findings, style)
        });
    }
}

#[test]
fn a_doctor_without_findings_or_with_hostile_ones() {
    check_both("doctor-nothing", |style| ringfence_report::doctor(&[], &[], None, style));
    let hostile = Finding {
        id: "x".repeat(100),
        severity: Severity::Serious,
        title: "A title\x1b[31m in red, which is longer than a narrow terminal is wide".into(),
        cause: "/sys/devices/".repeat(12),
        consequence: String::new(),
        remedy: "none".into(),
        evidence: String::new(),
    };
    let findings = [hostile];
    let idle =
        Busiest { over: Duration::from_millis(500), cpu: vec![], writers: vec![], hidden: 0 };
    check_both("doctor-hostile", |style| {
        ringfence_report::doctor(&findings, &[], Some(&idle), style)
    });
    check("doctor-brief-hostile", |style| ringfence_report::doctor_brief(&findings, style));
}

#[test]
fn a_doctor_of_a_busy_machine_names_processes() {
    let busy = |pid: u32, name: &str, cpus: f64, written_per_s: Option<f64>| Busy {
        pid,
        name: name.into(),
        cpus,
        written_per_s,
    };
    let busiest = Busiest {
        over: Duration::from_millis(501),
        cpu: vec![
            busy(31_337, "rustc", 3.92, Some(0.0)),
            busy(812, "postgres", 0.46, None),
            busy(77, "kworker/0:1\x1b", 0.02, None),
        ],
        writers: vec![busy(4711, "cp", 0.01, Some(3.4e8))],
        hidden: 12,
    };
    let container = findings(&fixtures::one_cpu());
    check_both("doctor-busy", |style| {
        ringfence_report::doctor(&container, &[], Some(&busiest), style)
    });
}

#[test]
fn target_lists() {
    for (name, tree) in machines() {
        let root = tree.root();
        let found = targets::find(&root, &Topology::read(&root).unwrap());
        check(&format!("targets-{name}"), |style| ringfence_report::targets(&found, style));
    }
}

#[test]
fn histograms() {
    let far_tail: Vec<(u64, u64)> = [
        (2, 120_000),
        (72, 4_000_000),
        (80, 2_500_000),
        (88, 90_000),
        (320, 40_000),
        (2_048, 700),
        (1 << 20, 1),
    ]
    .into();
    check("histogram", |style| ringfence_report::histogram(&far_tail, |_| true, style));
    let narrow: Vec<(u64, u64)> = (64..=72).step_by(4).map(|floor| (floor, floor * 1000)).collect();
    check("histogram-narrow", |style| ringfence_report::histogram(&narrow, |_| true, style));
    check("histogram-extreme", |style| {
        ringfence_report::histogram(&[(u64::MAX, u64::MAX), (0, u64::MAX)], |_| true, style)
    });
    check("histogram-none", |style| ringfence_report::histogram(&[(64, 0)], |_| true, style));
}

#[test]
fn this_machine_renders() {
    let root = FsRoot::host();
    let topology = Topology::read(&root).unwrap();
    let style = Style { color: true, width: 100, unicode: true, details: false };
    assert!(!ringfence_report::topology(&topology, &style).is_empty());
}

fn page(tree: &FixtureTree) -> String {
    let style = Style { color: false, width: 110, unicode: false, details: false };
    ringfence_report::topology(&Topology::read(&tree.root()).unwrap(), &style)
}

#[test]
fn contradictions_are_listed() {
    let xeon = fixtures::xeon_2s64t();
    assert!(!page(&xeon).contains("Contradictory"));
    xeon.write("/sys/devices/system/node/node1/distance", "10 10\n");
    let expected = "Contradictory\n  node 1 is as near to node 0 as to itself (distance 10)\n";
    assert!(page(&xeon).contains(expected), "{}", page(&xeon));
}

#[test]
fn cpus_outside_of_a_node_are_named_by_their_nodes() {
    let zen = fixtures::zen_multi_llc();
    zen.write("/sys/devices/system/node/node0/cpulist", "0-5,8-63\n");
    let text = page(&zen);
    assert!(text.contains("(shared with CPUs 6-7 of no known node)"), "{text}");
    assert!(text.contains("(shared with CPUs 0-5,32-39 of node 0)"), "{text}");
}

#[test]
fn nodes_without_cpus_and_nodes_with_offline_ones_differ() {
    let xeon = fixtures::xeon_2s64t();
    let evens: Vec<String> = (0..64).step_by(2).map(|cpu| cpu.to_string()).collect();
    xeon.write("/sys/devices/system/cpu/online", evens.join(",") + "\n");
    let node = "/sys/devices/system/node/node1";
    assert!(page(&xeon).contains("no CPU online (CPUs 1-63:2 offline)"), "{}", page(&xeon));
    xeon.write(format!("{node}/cpulist"), "\n");
    assert!(page(&xeon).contains("CPUs not known"), "{}", page(&xeon));
    let cxl = fixtures::cxl_node();
    cxl.write("/sys/devices/system/node/node2/meminfo", "Node 2 MemTotal: 0 kB\n");
    assert!(page(&cxl).contains("no memory; no CPUs"), "{}", page(&cxl));
}

#[test]
fn a_cluster_has_several_cores() {
    let zen = fixtures::zen_multi_llc();
    for cpu in 0..64 {
        let dir = format!("/sys/devices/system/cpu/cpu{cpu}/cache");
        zen.write(format!("{dir}/index2/shared_cpu_list"), "0-63\n");
        zen.write(
            format!("{dir}/index3/shared_cpu_list"),
            format!("{},{}\n", cpu % 32, cpu % 32 + 32),
        );
    }
    let text = page(&zen);
    assert!(text.contains("Contradictory") && !text.contains("cluster"), "{text}");
}

#[test]
fn strides_have_a_legend() {
    let second = "a-b:2 is every second CPU from a to b";
    assert!(page(&fixtures::xeon_2s64t()).contains(second));
    assert!(!page(&fixtures::zen_multi_llc()).contains("taskset"));
    let fours = fixtures::xeon_2s64t();
    for node in 0..4 {
        let cpus: Vec<String> = (0..16).map(|n| (n * 4 + node).to_string()).collect();
        fours
            .write(format!("/sys/devices/system/node/node{node}/cpulist"), cpus.join(",") + "\n")
            .write(
                format!("/sys/devices/system/node/node{node}/meminfo"),
                "MemTotal: 1048576 kB\n",
            );
    }
    assert!(page(&fours).contains("a-b:n is every n-th CPU from a to b"), "{}", page(&fours));
    // One that only the list of CPUs that are switched off needs.
    let off = fixtures::zen_multi_llc();
    off.write("/sys/devices/system/cpu/present", "0-63,70,72,74,76,78\n");
    assert!(
        page(&off).contains("offline      CPUs 70-78:2") && page(&off).contains(second),
        "{}",
        page(&off)
    );
}

#[test]
fn dies_clusters_and_unknown_cores_are_shown() {
    let vm = fixtures::vm_2cpu();
    vm.write("/sys/devices/system/cpu/cpu1/topology/die_id", "1\n");
    assert!(page(&vm).contains("; package 0; die 0 (CPU 0), die 1 (CPU 1)\n"), "{}", page(&vm));
    vm.write("/sys/devices/system/node/node0/cpulist", "0\n");
    assert!(page(&vm).contains("; package 0; die 0\n"), "{}", page(&vm));
    assert!(page(&vm).contains("No node  CPU 1; die 1\n"), "{}", page(&vm));
    let laptop = page(&fixtures::hybrid_laptop());
    assert!(
        laptop.contains("clusters of CPUs 12-15 and 16-17, each with an L2 of 2MiB\n"),
        "{laptop}"
    );
    vm.remove("/sys/devices/system/cpu/cpu1/topology");
    vm.write("/sys/devices/system/node/node0/cpulist", "0-1\n");
    assert!(
        page(&vm).contains("1 core, CPUs 0-1, the cores of CPU 1 not known\n"),
        "{}",
        page(&vm)
    );
    assert!(!page(&vm).contains("(1 core)"), "{}", page(&vm));
}
