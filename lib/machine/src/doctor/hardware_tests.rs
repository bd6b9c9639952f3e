//! Heat, modules and PMDK, each where it fires and where it does not.

use crate::fixtures::{self, FixtureTree};
use crate::targets;
use crate::topology::Topology;

use super::{Finding, Severity, examine};

fn finding(tree: &FixtureTree, id: &str) -> Option<Finding> {
    let root = tree.root();
    let topology = Topology::read(&root).unwrap();
    examine(&root, &topology, &targets::find(&root, &topology))
        .into_iter()
        .find(|finding| finding.id == id)
}

#[test]
fn a_processor_that_was_too_hot() {
    let tree = fixtures::xeon_2s64t();
    let dir = |cpu: u32| format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle");
    for cpu in 0..64 {
        tree.write(format!("{}/package_throttle_count", dir(cpu)), "0\n")
            .write(format!("{}/core_throttle_count", dir(cpu)), "0\n");
    }
    assert_eq!(finding(&tree, "thermal-throttling"), None);
    tree.write(format!("{}/package_throttle_count", dir(3)), "17\n")
        .write(format!("{}/package_throttle_total_time_ms", dir(3)), "420\n");
    let found = finding(&tree, "thermal-throttling").unwrap();
    assert_eq!(found.severity, Severity::Warning);
    for part in ["cpu3/thermal_throttle/package_throttle_count is 17", "420 ms"] {
        assert!(found.evidence.contains(part), "{found:?}");
    }
    tree.write(format!("{}/core_throttle_count", dir(5)), "2\n");
    assert!(
        finding(&tree, "thermal-throttling")
            .unwrap()
            .evidence
            .contains("cpu5/thermal_throttle/core_throttle_count is 2")
    );
    assert_eq!(finding(&fixtures::vm_2cpu(), "thermal-throttling"), None);
}

#[test]
fn modules_that_are_not_well() {
    let tree = fixtures::xeon_2s64t();
    assert_eq!(finding(&tree, "nvdimm-temperature"), None);
    let module = |number: u32, file: &str| format!("/sys/bus/nd/devices/nmem{number}/nfit/{file}");
    for number in 0..2 {
        tree.write(module(number, "flags"), "\n").write(module(number, "dirty_shutdown"), "0\n");
    }
    assert_eq!(finding(&tree, "nvdimm-health"), None);
    assert_eq!(finding(&tree, "nvdimm-dirty-shutdown"), None);
    let unseen = finding(&tree, "nvdimm-temperature").unwrap();
    assert!(
        unseen.remedy.contains("ndctl list -DH") && unseen.evidence.contains("nmem0, nmem1"),
        "{unseen:?}"
    );
    tree.write(module(1, "flags"), "smart_notify \n");
    assert_eq!(finding(&tree, "nvdimm-health").unwrap().severity, Severity::Warning);
    tree.write(module(1, "flags"), "flush_fail not_armed smart_event \n")
        .write(module(0, "dirty_shutdown"), "3\n");
    let health = finding(&tree, "nvdimm-health").unwrap();
    assert_eq!(health.severity, Severity::Serious);
    assert_eq!(health.evidence, "nmem1: flush_fail not_armed smart_event");
    assert_eq!(
        finding(&tree, "nvdimm-dirty-shutdown").unwrap().evidence,
        "nmem0: dirty_shutdown is 3"
    );
    // As on POWER, and flags that are not a matter of health.
    let papr = fixtures::vm_2cpu();
    papr.write("/sys/bus/nd/devices/nmem0/papr/flags", "encrypted locked\n");
    assert_eq!(finding(&papr, "nvdimm-health"), None);
    assert!(finding(&papr, "nvdimm-temperature").is_some());
}

#[test]
fn a_mount_that_forgot_dax() {
    let tree = fixtures::xeon_2s64t();
    assert_eq!(finding(&tree, "pmem-without-dax"), None);
    tree.write(
        "/proc/self/mountinfo",
        "41 1 259:0 / /mnt/pmem0 rw,relatime shared:9 - xfs /dev/pmem0 rw,attr2,inode64\n\
         43 1 259:1 / /mnt/disk rw,relatime - ext4 /dev/pmem1s rw\n42 1 8:2 / / rw - ext4 \
         /dev/sda2 rw\n",
    );
    assert_eq!(
        finding(&tree, "pmem-without-dax").unwrap().evidence,
        "/mnt/pmem0 (xfs on /dev/pmem0)"
    );
}

#[test]
fn a_process_that_is_kept_from_the_memorys_node() {
    let tree = fixtures::xeon_2s64t();
    assert_eq!(finding(&tree, "pmem-far"), None);
    // The odd CPUs are those of node 1; /mnt/pmem0 is on node 0.
    tree.write("/proc/self/status", "Name:\ttest\nCpus_allowed_list:\t1,3,5\n");
    let found = finding(&tree, "pmem-far").unwrap();
    assert!(
        found.evidence.contains("dax:/mnt/pmem0 is on node 0")
            && !found.evidence.contains("dax1.0"),
        "{found:?}"
    );
}

#[test]
fn the_debug_build_of_pmdk() {
    let tree = fixtures::xeon_2s64t();
    tree.write("/usr/lib/x86_64-linux-gnu/pmdk_debug/libpmem.so.1", "")
        .write("/proc/self/environ", "PATH=/usr/bin\0LD_LIBRARY_PATH=/opt/lib\0");
    assert_eq!(finding(&tree, "pmdk-debug"), None, "installed is not loaded");
    tree.write(
        "/proc/self/environ",
        "LD_LIBRARY_PATH=/opt/lib:/usr/lib/x86_64-linux-gnu/pmdk_debug/\0A=b\0",
    );
    let found = finding(&tree, "pmdk-debug").unwrap();
    assert_eq!(found.severity, Severity::Serious);
    assert!(found.evidence.ends_with("names /usr/lib/x86_64-linux-gnu/pmdk_debug/"), "{found:?}");
    tree.write("/proc/self/environ", "LD_PRELOAD=/home/someone/pmdk_debug/libpmem.so.1\0");
    let found = finding(&tree, "pmdk-debug").unwrap();
    assert!(
        found.evidence.contains("LD_PRELOAD") && !found.evidence.contains("someone"),
        "{found:?}"
    );
    tree.write("/proc/self/environ", "A=b\0")
        .write("/etc/ld.so.conf.d/pmdk.conf", "# x\n/usr/lib64/pmdk_debug\n");
    assert!(finding(&tree, "pmdk-debug").unwrap().evidence.contains("/etc/ld.so.conf.d/pmdk.conf"));
}

#[test]
fn pmdk_that_logs() {
    let tree = fixtures::xeon_2s64t();
    tree.write("/proc/self/environ", "PMEM_LOG_LEVEL=0\0PMEMOBJ_LOG_FILE=/tmp/x\0");
    assert_eq!(finding(&tree, "pmdk-log"), None);
    tree.write("/proc/self/environ", "PMEM_LOG_LEVEL=4\0");
    assert_eq!(finding(&tree, "pmdk-log").unwrap().severity, Severity::Info);
    tree.write("/proc/self/environ", "PMEM_LOG_LEVEL=4\0LD_LIBRARY_PATH=/usr/lib/pmdk_debug\0");
    let found = finding(&tree, "pmdk-log").unwrap();
    assert_eq!((found.severity, found.evidence.as_str()), (Severity::Serious, "PMEM_LOG_LEVEL=4"));
}

#[test]
fn pools_that_are_not_touched_first() {
    let tree = fixtures::xeon_2s64t();
    assert_eq!(finding(&tree, "pmdk-prefault"), None, "without libpmemobj nobody is concerned");
    tree.write("/usr/lib64/libpmemobj.so.1", "");
    let evidence = |environ: &str| {
        tree.write("/proc/self/environ", environ);
        finding(&tree, "pmdk-prefault").map(|finding| finding.evidence)
    };
    let neither = evidence("A=b\0").unwrap();
    assert!(neither.ends_with("do not set prefault.at_create and prefault.at_open"), "{neither}");
    let one = evidence("PMEMOBJ_CONF=prefault.at_create=1;\0").unwrap();
    assert!(one.ends_with("do not set prefault.at_open"), "{one}");
    assert_eq!(evidence("PMEMOBJ_CONF=prefault.at_create=1;prefault.at_open=1\0"), None);
    assert!(
        evidence("PMEMOBJ_CONF=prefault.at_create=1;prefault.at_open=1;prefault.at_open=0\0")
            .is_some()
    );
    tree.write(
        "/etc/pmemobj.conf",
        "# pools\nprefault.at_create = 1; # yes\nprefault.at_open = 1;\n",
    );
    assert_eq!(evidence("PMEMOBJ_CONF_FILE=/etc/pmemobj.conf\0"), None);
    tree.write("/proc/self/environ", "A=b\0");
    assert_eq!(finding(&tree, "pmdk-prefault").unwrap().severity, Severity::Warning);
    let dram = fixtures::vm_2cpu();
    dram.write("/usr/local/lib/libpmemobj.so.1", "");
    assert_eq!(finding(&dram, "pmdk-prefault").unwrap().severity, Severity::Info);
}
