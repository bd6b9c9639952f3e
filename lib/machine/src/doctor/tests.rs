//! Every finding on a fixture where it fires and on one where it does not.

use crate::fixtures::{self, FixtureTree};
use crate::targets;
use crate::topology::Topology;

use super::smt::{busy_siblings, busy_siblings_finding};
use super::stat::StatSnapshot;
use super::{Finding, Severity, examine};

fn findings(tree: &FixtureTree) -> Vec<Finding> {
    let root = tree.root();
    let topology = Topology::read(&root).unwrap();
    examine(&root, &topology, &targets::find(&root, &topology))
}

fn ids(tree: &FixtureTree) -> Vec<String> {
    findings(tree).into_iter().map(|finding| finding.id).collect()
}

#[track_caller]
fn fires(there: &[String], id: &str, elsewhere: &[String]) {
    assert!(there.iter().any(|known| known == id), "{id} is missing among {there:?}");
    assert!(!elsewhere.iter().any(|known| known == id), "{id} is out of place among {elsewhere:?}");
}

#[test]
fn a_machine_prepared_for_measurements_has_remarks_only() {
    let found = findings(&fixtures::xeon_2s64t());
    let ids: Vec<&str> = found.iter().map(|finding| finding.id.as_str()).collect();
    assert_eq!(
        ids,
        ["smt-on", "resctrl", "cache-shared-with-io", "mba-throttles-siblings", "mbm-unreliable"]
    );
    assert!(found.iter().all(|finding| finding.severity == Severity::Info), "{found:?}");
}

#[test]
fn each_fires_where_it_should() {
    let (xeon, zen) = (ids(&fixtures::xeon_2s64t()), ids(&fixtures::zen_multi_llc()));
    let (cxl, laptop) = (ids(&fixtures::cxl_node()), ids(&fixtures::hybrid_laptop()));
    let (vm, container) = (ids(&fixtures::vm_2cpu()), ids(&fixtures::one_cpu()));
    fires(&laptop, "smt-on", &vm);
    fires(&zen, "frequency-governor", &xeon);
    fires(&laptop, "frequency-governor", &vm);
    fires(&zen, "cpu-boost", &xeon);
    fires(&laptop, "cpu-boost", &vm);
    fires(&zen, "deep-c-states", &xeon);
    fires(&zen, "thp", &xeon);
    fires(&cxl, "numa-balancing", &xeon);
    fires(&vm, "virtual-machine", &zen);
    fires(&vm, "steal-time", &xeon);
    fires(&vm, "clocksource", &xeon);
    fires(&vm, "tsc-not-invariant", &xeon);
    fires(&vm, "no-perf-counters", &laptop);
    fires(&container, "cpus-restricted", &vm);
    fires(&container, "one-cpu", &vm);
    fires(&container, "cpu-quota", &vm);
    fires(&container, "little-memory", &vm);
    fires(&container, "load", &vm);
    fires(&container, "topology-incomplete", &vm);
    fires(&laptop, "swap-on", &vm);
    fires(&cxl, "no-persistent-memory", &xeon);
    fires(&xeon, "resctrl", &zen);
    fires(&zen, "resctrl-not-mounted", &xeon);
    fires(&cxl, "no-resctrl", &zen);
    fires(&vm, "no-resctrl", &xeon);
    fires(&xeon, "mba-throttles-siblings", &vm);
    fires(&xeon, "cache-shared-with-io", &zen);
}

#[test]
fn the_worst_comes_first() {
    let severities: Vec<Severity> =
        findings(&fixtures::one_cpu()).iter().map(|finding| finding.severity).collect();
    assert_eq!(severities[0], Severity::Serious);
    assert!(severities.is_sorted());
}

#[test]
fn quota_of_a_group_above_in_the_old_hierarchy() {
    let tree = fixtures::vm_2cpu();
    tree.write("/proc/self/cgroup", "3:cpuset:/\n4:cpu,cpuacct:/a/b\n0::/a/b\n")
        .write("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n")
        .write("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "50000\n");
    fires(&ids(&tree), "cpu-quota", &ids(&fixtures::vm_2cpu()));
    let finding = findings(&tree).into_iter().find(|finding| finding.id == "cpu-quota").unwrap();
    assert!(
        finding.evidence.contains("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us"),
        "{finding:?}"
    );
}

#[test]
fn huge_pages_forbidden_are_worth_a_remark_only() {
    let tree = fixtures::vm_2cpu();
    tree.write("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    let finding = findings(&tree).into_iter().find(|finding| finding.id == "thp").unwrap();
    assert_eq!(finding.severity, Severity::Info);
}

#[test]
fn siblings_that_are_busy() {
    let tree = fixtures::xeon_2s64t();
    let topology = Topology::read(&tree.root()).unwrap();
    let before = StatSnapshot::read(&tree.root()).unwrap();
    tree.write(
        "/proc/stat",
        "cpu2 200 0 50 100000 10 0 0 0 0 0\ncpu34 190 0 50 100010 10 0 0 0 0 0\n\
         cpu35 200 0 50 100000 10 0 0 0 0 0\n",
    );
    let after = StatSnapshot::read(&tree.root()).unwrap();
    let used = "2-3".parse().unwrap();
    let busy = busy_siblings(&topology, &used, &before, &after, 0.95);
    assert_eq!(busy, [(35, 1.0)]);
    assert_eq!(busy_siblings(&topology, &used, &before, &after, 0.05).len(), 2);
    let finding = busy_siblings_finding(&busy).unwrap();
    assert_eq!(finding.evidence, "CPU 35 100 %");
    assert!(busy_siblings_finding(&[]).is_none());
}

#[test]
fn nothing_to_read_is_nothing_found() {
    let tree = FixtureTree::empty("bare");
    tree.write("/proc/cpuinfo", "processor : 0\nprocessor : 1\n");
    let found = ids(&tree);
    assert!(found.contains(&"topology-incomplete".to_string()), "{found:?}");
    // What the files do not show is not claimed.
    for id in [
        "no-perf-counters",
        "tsc-not-invariant",
        "no-resctrl",
        "resctrl-not-mounted",
        "no-persistent-memory",
    ] {
        assert!(!found.contains(&id.to_string()), "{id} is out of place among {found:?}");
    }
    let topology =
        findings(&tree).into_iter().find(|finding| finding.id == "topology-incomplete").unwrap();
    let said = format!("{topology:?}");
    assert!(!said.contains("run outside") && !said.contains("allowed CPUs"), "{said}");
}

#[test]
fn flags_of_another_machine_vouch_for_its_tsc() {
    let tree = FixtureTree::empty("tsc");
    let write = |flags: &str| {
        tree.write(
            "/proc/cpuinfo",
            format!("processor : 0\nvendor_id : GenuineIntel\nflags : {flags}\n"),
        );
        ids(&tree)
    };
    fires(&write("fpu constant_tsc"), "tsc-not-invariant", &write("fpu constant_tsc nonstop_tsc"));
}

#[test]
fn another_kind_of_processor_is_one_finding() {
    let tree = fixtures::vm_2cpu();
    tree.write(
        "/proc/cpuinfo",
        "processor : 0\nBogoMIPS : 50.00\nFeatures : fp asimd\nCPU implementer : 0x41\n",
    );
    let found = findings(&tree);
    assert_eq!(found[0].id, "not-x86-64");
    let said = format!("{:?}", &found[1..]);
    for word in ["TSC", "KVM", "RDT", "resctrl", "PMU", "memmap", "hypervisor"] {
        assert!(!said.contains(word), "{word} is in {said}");
    }
}

#[test]
fn a_virtual_machine_that_hides_the_flag_is_a_finding() {
    let machine = fixtures::xeon_2s64t();
    machine.write("/sys/class/dmi/id/product_name", "VirtualBox\n");
    let found = findings(&machine);
    let finding = found.iter().find(|finding| finding.id == "virtual-machine").unwrap();
    assert_eq!(finding.cause, "a hypervisor runs below the kernel: VirtualBox");
    assert_eq!(finding.evidence, "/sys/class/dmi/id/product_name is 'VirtualBox'");
}

#[test]
fn a_contradictory_topology_is_a_finding() {
    let machine = fixtures::xeon_2s64t();
    machine.write("/sys/devices/system/node/node0/distance", "10 10\n");
    let found = findings(&machine);
    let finding = found.iter().find(|finding| finding.id == "topology-contradictory").unwrap();
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(finding.evidence, "node 0 is as near to node 1 as to itself (distance 10)");
    assert!(!ids(&fixtures::xeon_2s64t()).contains(&finding.id));
}
