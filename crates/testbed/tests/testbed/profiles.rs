//! Each profile is what its file says: the kernel's own words about it.

use ringfence_testbed::{or_skip, skip};

/// One line for each fact: the kernel's files as far as they are there, and what becomes of a lock.
const FACTS: &str = r#"
cd /sys/fs/resctrl/info 2> /dev/null || exit 9
for file in L*/cbm_mask L*/num_closids L*/shareable_bits L3_MON/num_rmids MB/num_closids \
    MB/bandwidth_gran MB/thread_throttle_mode; do
    [ ! -e $file ] || echo "$file $(cat $file)"
done
cd ..
echo "domains $(grep -o '[0-9]*=' schemata | sort -u | wc -l) cpus $(nproc) nodes $(
    ls -d /sys/devices/system/node/node* | wc -l)"
echo "threads $(cat /sys/devices/system/cpu/cpu0/topology/thread_siblings_list)"
mkdir group && { echo pseudo-locksetup > group/mode; } 2> /dev/null
echo "lock $? $(cat info/last_cmd_status)"
"#;

fn holds(test: &str, profile: &str, mount: &str, expected: &[&str]) {
    let Some(testbed) = or_skip(test) else { return };
    let output = testbed.profile(profile).mount(mount).run(FACTS);
    assert_eq!(output.code, 0, "{profile}: {output}");
    assert_eq!(output.stdout.lines().collect::<Vec<_>>(), expected, "{profile}");
}

const LOCKS: &str = "lock 0 ok";
const NOT: &str = "lock 1 Pseudo-locking not supported";
const TWO: &str = "domains 1 cpus 2 nodes 1";

// A test for each profile: what it is mounted with, and its facts.
macro_rules! profiles {
    ($($name:ident, $profile:literal, $mount:literal, [$($fact:expr),+ $(,)?];)+) => {$(
        #[test]
        fn $name() {
            holds(stringify!($name), $profile, $mount, &[$($fact),+]);
        }
    )+};
}

profiles! {
    broadwell_is_what_it_says, "broadwell", "-", [
        "L3/cbm_mask fffff",
        "L3/num_closids 16",
        "L3/shareable_bits c0000",
        "L3_MON/num_rmids 32",
        TWO,
        "threads 0",
        LOCKS,
    ];
    cascade_lake_is_what_it_says, "cascade-lake", "-", [
        "L3/cbm_mask 7ff",
        "L3/num_closids 16",
        "L3/shareable_bits 600",
        "L3_MON/num_rmids 64",
        "MB/num_closids 8",
        "MB/bandwidth_gran 10",
        "MB/thread_throttle_mode max",
        TWO,
        "threads 0",
        NOT,
    ];
    cascade_lake_default_is_what_it_says, "cascade-lake-default", "-", [
        "L3_MON/num_rmids 64",
        "MB/num_closids 8",
        "MB/bandwidth_gran 10",
        "MB/thread_throttle_mode max",
        TWO,
        "threads 0",
        NOT,
    ];
    cdp_is_what_it_says, "cdp", "cdp", [
        "L3CODE/cbm_mask 7ff",
        "L3DATA/cbm_mask 7ff",
        "L3CODE/num_closids 8",
        "L3DATA/num_closids 8",
        "L3CODE/shareable_bits 600",
        "L3DATA/shareable_bits 600",
        "L3_MON/num_rmids 64",
        "MB/num_closids 16",
        "MB/bandwidth_gran 10",
        "MB/thread_throttle_mode per-thread",
        TWO,
        "threads 0",
        "lock 1 CDP enabled",
    ];
    l2_is_what_it_says, "l2", "-", [
        "L2/cbm_mask ff",
        "L2/num_closids 4",
        "L2/shareable_bits 0",
        "domains 2 cpus 4 nodes 1",
        "threads 0",
        LOCKS,
    ];
    sockets_is_what_it_says, "sockets", "-", [
        "L3/cbm_mask fffff",
        "L3/num_closids 16",
        "L3/shareable_bits c0000",
        "L3_MON/num_rmids 32",
        "MB/num_closids 8",
        "MB/bandwidth_gran 10",
        "MB/thread_throttle_mode max",
        "domains 2 cpus 4 nodes 2",
        "threads 0",
        LOCKS,
    ];
    smt_is_what_it_says, "smt", "-", [
        "L3/cbm_mask fffff",
        "L3/num_closids 16",
        "L3/shareable_bits c0000",
        "L3_MON/num_rmids 32",
        "MB/num_closids 8",
        "MB/bandwidth_gran 10",
        "MB/thread_throttle_mode max",
        "domains 1 cpus 4 nodes 1",
        "threads 0-1",
        LOCKS,
    ];
    few_is_what_it_says, "few", "-", [
        "L3/cbm_mask f",
        "L3/num_closids 4",
        "L3/shareable_bits 0",
        "L3_MON/num_rmids 6",
        "MB/num_closids 4",
        "MB/bandwidth_gran 10",
        "MB/thread_throttle_mode max",
        TWO,
        "threads 0",
        LOCKS,
    ];
    noncontiguous_is_what_it_says, "noncontiguous", "-", [
        "L3/cbm_mask 7ff",
        "L3/num_closids 16",
        "L3/shareable_bits 0",
        "L3_MON/num_rmids 64",
        "MB/num_closids 8",
        "MB/bandwidth_gran 10",
        "MB/thread_throttle_mode max",
        TWO,
        "threads 0",
        NOT,
    ];
}

#[test]
fn without_rdt_the_kernel_mounts_nothing() {
    let Some(testbed) = or_skip("without_rdt_the_kernel_mounts_nothing") else { return };
    let testbed = testbed.profile("none");
    let why = testbed.mount("-").try_run("true").unwrap_err();
    assert!(
        why.contains("exit code 125") && why.contains("cannot mount resctrl with options 'rw'"),
        "{why}"
    );
    let output =
        testbed.run("ls /sys/fs/resctrl; mount -t resctrl resctrl /sys/fs/resctrl; echo $?");
    assert!(
        output.stdout.ends_with("255\n") && output.stderr.contains("No such file or directory"),
        "{output}"
    );
}

#[test]
fn what_is_written_is_read_back_and_kept_apart() {
    let Some(testbed) = or_skip("what_is_written_is_read_back_and_kept_apart") else { return };
    // By the registers too, where the kernel keeps no copy.
    let output = testbed.profile("sockets").mount("-").run(
        "cd /sys/fs/resctrl && mkdir a && echo 'L3:0=ff;1=f0' > a/schemata && echo 'MB:0=50;1=20' \
         > a/schemata && grep -v '^$' a/schemata | tr -d ' ' && \
         for cpu in 0 3; do dd if=/dev/cpu/$cpu/msr bs=8 count=1 iflag=skip_bytes skip=$((0xc91)) \
         2> /dev/null | od -A n -t x8; done",
    );
    assert_eq!(output.code, 0, "{output}");
    let lines: Vec<&str> = output.stdout.lines().map(str::trim).collect();
    assert_eq!(
        lines,
        ["MB:0=50;1=20", "L3:0=000ff;1=000f0", "00000000000000ff", "00000000000000f0"],
        "{output}"
    );
}

#[test]
fn a_stock_qemu_has_persistent_memory() {
    const TEST: &str = "a_stock_qemu_has_persistent_memory";
    let Some(testbed) = or_skip(TEST) else { return };
    let testbed = testbed.profile("pmem").pmem(64);
    match testbed.try_run(
        "fsdax && mount | grep -o dax=always; cat /sys/bus/nd/devices/region0/persistence_domain",
    ) {
        Ok(output) => assert_eq!(output.stdout, "dax=always\nmemory_controller\n", "{output}"),
        Err(why) if why.contains("which is not installed") => {
            skip(TEST, "qemu-system-x86 is not installed")
        }
        Err(why) => panic!("{why}"),
    }
}
