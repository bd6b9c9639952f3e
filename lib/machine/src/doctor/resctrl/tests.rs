//! Every finding about resctrl, on a machine where it fires and on one where it does not.

use crate::doctor::{Finding, Severity, examine};
use crate::fixtures::{self, FixtureTree, ResctrlSpec};
use crate::targets;
use crate::topology::Topology;

fn findings(tree: &FixtureTree) -> Vec<Finding> {
    let root = tree.root();
    let topology = Topology::read(&root).unwrap();
    examine(&root, &topology, &targets::find(&root, &topology))
}

#[track_caller]
fn found(tree: &FixtureTree, id: &str) -> Finding {
    let all = findings(tree);
    let ids: Vec<String> = all.iter().map(|finding| finding.id.clone()).collect();
    let found = all.into_iter().find(|finding| finding.id == id);
    found.unwrap_or_else(|| panic!("{id} is missing among {ids:?}"))
}

#[track_caller]
fn quiet(tree: &FixtureTree, id: &str) {
    let all = findings(tree);
    assert!(all.iter().all(|finding| finding.id != id), "{id} is out of place among {all:?}");
}

fn with(spec: &ResctrlSpec) -> FixtureTree {
    let tree = fixtures::xeon_2s64t();
    tree.remove("/sys/fs/resctrl");
    spec.mount(&tree);
    tree
}

#[test]
fn absent_unmounted_or_unreadable() {
    let zen = found(&fixtures::zen_multi_llc(), "resctrl-not-mounted");
    assert_eq!(zen.remedy, "mount -t resctrl resctrl /sys/fs/resctrl (as root)");
    assert!(found(&fixtures::vm_2cpu(), "no-resctrl").cause.contains("hypervisor"));
    assert!(found(&fixtures::cxl_node(), "no-resctrl").remedy.contains("CONFIG_X86_CPU_RESCTRL"));
    let odd = fixtures::xeon_2s64t();
    quiet(&odd, "resctrl-unreadable");
    odd.write("/sys/fs/resctrl/info/L3/cbm_mask", "many\n");
    let finding = found(&odd, "resctrl-unreadable");
    assert!(finding.cause.contains("cbm_mask holds 'many'"), "{finding:?}");
    // What is missing for that reason is not taken for absent.
    quiet(&odd, "resctrl");
    quiet(&odd, "resctrl-switched-off");
    let odd = fixtures::xeon_2s64t();
    odd.write("/sys/fs/resctrl/mode", "isolated\n");
    assert!(found(&odd, "resctrl-unreadable").cause.contains("mode holds 'isolated'"));
    found(&odd, "resctrl");
}

#[test]
fn what_is_left_of_groups() {
    let tree = fixtures::xeon_2s64t();
    let room = found(&tree, "resctrl");
    assert_eq!(
        room.evidence,
        "L3: 11 ways in each of 2 caches; MB: from 10 % in steps of 10 %; 15 CLOSIDs and 143 RMIDs \
         free"
    );
    assert!(room.consequence.contains("Broadwell-X"), "{room:?}");
    quiet(&tree, "stale-resctrl");
    quiet(&tree, "resctrl-full");

    let few = ResctrlSpec { closids: 2, ..ResctrlSpec::default() };
    let tree = with(&few);
    few.group(&tree, "left-over", "exclusive", "f", "", "");
    let full = found(&tree, "resctrl-full");
    assert_eq!(full.severity, Severity::Warning);
    assert!(full.cause.contains("all CLOSIDs"), "{full:?}");
    assert_eq!(found(&tree, "stale-resctrl").evidence, "left-over (exclusive)");
    quiet(&tree, "resctrl");

    // A pseudo-locked region has given both of its numbers back.
    let tree = with(&few);
    few.group(&tree, "locked", "pseudo-locked", "f", "0-1", "");
    assert!(found(&tree, "resctrl").evidence.contains("1 CLOSIDs and 143 RMIDs"));

    let mute = ResctrlSpec { rmids: 2, ..ResctrlSpec::default() };
    let tree = with(&mute);
    mute.monitor(&tree, "mon_groups/probe", "", "");
    assert!(found(&tree, "resctrl-full").cause.contains("all RMIDs"));
    assert_eq!(found(&tree, "stale-resctrl").evidence, "mon_groups/probe");
}

#[test]
fn a_processor_that_can_pseudo_lock() {
    let tree = fixtures::xeon_2s64t();
    tree.write("/proc/cpuinfo", "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 79\n");
    assert!(found(&tree, "resctrl").consequence.ends_with("pseudo-locked"));
}

#[test]
fn less_than_everything() {
    let spec = ResctrlSpec::default();
    let tree = with(&spec);
    quiet(&tree, "resctrl-confined");
    spec.group(&tree, "", "shareable", "7f0", "0-63", "1\n");
    assert_eq!(found(&tree, "resctrl-confined").evidence, "L3:0=7f0 of 7ff, L3:1=7f0 of 7ff");
    tree.write("/sys/fs/resctrl/schemata", "L3:0=7ff;1=7ff\nMB:0=100;1= 50\n");
    assert_eq!(found(&tree, "resctrl-confined").evidence, "MB:1=50 of 100");
}

#[test]
fn code_and_data_and_io() {
    let tree =
        with(&ResctrlSpec { cdp: true, shareable_bits: "0", closids: 8, ..ResctrlSpec::default() });
    let cdp = found(&tree, "resctrl-cdp");
    assert_eq!(
        (cdp.cause.as_str(), cdp.evidence.as_str()),
        ("resctrl is mounted with cdp", "info/ has CODE and DATA for L3")
    );
    quiet(&tree, "cache-shared-with-io");
    let plain = fixtures::xeon_2s64t();
    quiet(&plain, "resctrl-cdp");
    assert_eq!(found(&plain, "cache-shared-with-io").evidence, "L3: ways 600 of 7ff");
}

// Made after the kernel's documentation (resctrl, "io_alloc"), not copied from such a machine.
#[test]
fn ways_that_io_was_given() {
    let tree = with(&ResctrlSpec { shareable_bits: "0", ..ResctrlSpec::default() });
    tree.write("/sys/fs/resctrl/info/L3/io_alloc", "disabled\n");
    quiet(&tree, "cache-shared-with-io");
    assert!(found(&tree, "resctrl").evidence.contains("15 CLOSIDs"));
    tree.write("/sys/fs/resctrl/info/L3/io_alloc", "enabled\n")
        .write("/sys/fs/resctrl/info/L3/io_alloc_cbm", "0=0ff;1=700\n");
    let shared = found(&tree, "cache-shared-with-io");
    assert_eq!(shared.evidence, "info/L3/io_alloc is enabled for 0=ff;1=700");
    assert!(
        shared.remedy.contains("io_alloc_cbm") && shared.cause.contains("CLOSID"),
        "{shared:?}"
    );
    assert!(found(&tree, "resctrl").evidence.contains("14 CLOSIDs"));
}

#[test]
fn throttled_siblings() {
    let tree = fixtures::xeon_2s64t();
    found(&tree, "mba-throttles-siblings");
    tree.write("/sys/fs/resctrl/info/MB/thread_throttle_mode", "per-thread\n");
    quiet(&tree, "mba-throttles-siblings");
    tree.remove("/sys/fs/resctrl/info/MB/thread_throttle_mode");
    assert!(found(&tree, "mba-throttles-siblings").cause.contains("does not report"));
    let single = fixtures::vm_2cpu();
    ResctrlSpec::default().mount(&single);
    quiet(&single, "mba-throttles-siblings");
}

#[test]
fn monitoring_by_processor() {
    let xeon = fixtures::xeon_2s64t();
    let corrected = found(&xeon, "mbm-unreliable");
    assert_eq!(corrected.severity, Severity::Info);
    xeon.write("/proc/sys/kernel/osrelease", "5.10.0-8-amd64\n");
    assert!(found(&xeon, "mbm-unreliable").remedy.contains("5.11"));
    quiet(&xeon, "no-occupancy");

    let known = |vendor: &str, family: u32, model: u32, stepping: u32| {
        let tree = fixtures::xeon_2s64t();
        let text = format!(
            "vendor_id : {vendor}\ncpu family : {family}\nmodel : {model}\nstepping : {stepping}\n"
        );
        tree.write("/proc/cpuinfo", text);
        tree
    };
    assert!(found(&known("GenuineIntel", 6, 85, 4), "mbm-unreliable").cause.contains("SKZ4"));
    assert!(found(&known("GenuineIntel", 6, 173, 1), "mbm-unreliable").cause.contains("GNR12"));
    let zen = known("AuthenticAMD", 25, 1, 1);
    assert!(found(&zen, "mbm-unreliable").consequence.contains("Unavailable"));
    zen.write("/sys/fs/resctrl/info/L3_MON/mbm_assign_mode", "[mbm_event]\ndefault\n");
    quiet(&zen, "mbm-unreliable");

    let ice_lake = known("GenuineIntel", 6, 106, 6);
    quiet(&ice_lake, "mbm-unreliable");
    ice_lake.write("/sys/fs/resctrl/mon_data/mon_L3_00/mbm_total_bytes", "Unavailable\n");
    let silent = found(&ice_lake, "mbm-unreliable");
    assert!(silent.evidence.ends_with("1 of 1 groups without a value"), "{silent:?}");
    assert_eq!(silent.severity, Severity::Warning);
}

#[test]
fn nothing_is_monitored() {
    let tree = with(&ResctrlSpec { rmids: 0, ..ResctrlSpec::default() });
    found(&tree, "no-occupancy");
    quiet(&tree, "mbm-unreliable");
    assert!(found(&tree, "resctrl").evidence.ends_with("15 CLOSIDs and no RMIDs free"));
}

const JOURNAL: &str = concat!(
    r#"{"schema":1,"boot":"","place":"/sys/fs/resctrl","mounted":false,"#,
    r#""owner":{"tid":1,"start":1},"purpose":"ringfence prove","before":{"groups":{}}}"#,
);

#[test]
fn what_was_left_behind_or_kept() {
    let tree = fixtures::xeon_2s64t();
    let left = |tree: &FixtureTree| {
        let mut ids: Vec<String> = findings(tree).into_iter().map(|finding| finding.id).collect();
        ids.retain(|id| {
            ["resctrl-unfinished", "resctrl-kept", "resctrl-changing"].contains(&id.as_str())
        });
        ids
    };
    assert!(left(&tree).is_empty());
    tree.write("/run/ringfence/resctrl.journal", JOURNAL);
    assert_eq!(left(&tree), ["resctrl-unfinished"]);
    assert!(found(&tree, "resctrl-unfinished").evidence.starts_with("ringfence prove in "));
    // The process that holds the lock is not dead.
    tree.write("/run/ringfence/resctrl.lock", "");
    let lock = std::fs::File::open(tree.root().path("/run/ringfence/resctrl.lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(left(&tree), ["resctrl-changing"]);
    drop(lock);
    tree.remove("/run/ringfence/resctrl.journal").write("/run/ringfence/resctrl.kept", JOURNAL);
    assert_eq!(left(&tree), ["resctrl-kept"]);
    tree.write("/run/ringfence/resctrl.kept-hot", JOURNAL);
    assert_eq!(left(&tree), ["resctrl-kept", "resctrl-kept"]);
    assert!(
        findings(&tree)
            .iter()
            .any(|finding| finding.remedy.starts_with("ringfence lock remove hot"))
    );
    tree.remove("/run/ringfence/resctrl.kept-hot");
    tree.write("/run/ringfence/resctrl.kept-ringfence-1", JOURNAL);
    assert!(
        findings(&tree)
            .iter()
            .any(|one| one.remedy.starts_with("ringfence resctrl undo ringfence-1 "))
    );
    tree.remove("/run/ringfence/resctrl.kept-ringfence-1");
    tree.write("/proc/sys/kernel/random/boot_id", "another\n");
    assert!(left(&tree).is_empty(), "nothing outlives a boot");
    tree.write("/run/ringfence/resctrl.kept", "{");
    assert!(found(&tree, "resctrl-journal-unreadable").cause.contains("not a journal"));
    quiet(&tree, "resctrl-kept");
}

#[test]
fn what_the_kernel_has_switched_off() {
    let tree = fixtures::xeon_2s64t();
    quiet(&tree, "resctrl-switched-off");
    tree.remove("/sys/fs/resctrl/info/L3");
    let off = found(&tree, "resctrl-switched-off");
    assert_eq!(off.title, "The kernel does not allocate ways of the L3");
    assert!(off.remedy.contains("rdt=l3cat"), "{off:?}");
    tree.remove("/sys/fs/resctrl/info/MB");
    assert!(found(&tree, "resctrl-switched-off").remedy.contains("rdt=l3cat,mba"));
}
