//! What the guest has beside a processor: file systems, memory set aside by hand, users, control
//! groups.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringfence_testbed::or_skip;

#[test]
fn the_packages_are_those_that_every_profile_wants() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbed");
    let output = Command::new(folder.join("build")).arg("--packages").output().unwrap();
    let packages = String::from_utf8(output.stdout).unwrap();
    let has = |package: &str| packages.lines().any(|line| line == package);
    let stock =
        |entry: &fs::DirEntry| fs::read_to_string(entry.path()).unwrap().contains("qemu = debian");
    let profiles: Vec<fs::DirEntry> =
        fs::read_dir(folder.join("profiles")).unwrap().map(Result::unwrap).filter(stock).collect();
    assert!(!profiles.is_empty(), "no profile runs a stock QEMU: the package is not needed");
    assert!(has("qemu-system-x86") && has("seabios") && has("gcc"), "{packages}");
}

#[test]
fn memory_set_aside_by_hand_is_persistent_memory_in_name_alone() {
    let Some(testbed) = or_skip("memory_set_aside_by_hand_is_persistent_memory_in_name_alone")
    else {
        return;
    };
    let output = testbed.memmap(64).run(
        "grep -o 'memmap=[^ ]*' /proc/cmdline && cat /sys/bus/nd/devices/ndbus0/provider && fsdax \
         && grep pmem0 /proc/mounts",
    );
    assert_eq!(output.code, 0, "{output}");
    assert!(output.stdout.starts_with("memmap=64M!256M\ne820\n"), "{output}");
    assert!(
        output.stdout.contains("/dev/pmem0 /mnt ext4") && output.stdout.contains("dax"),
        "{output}"
    );
}

#[test]
fn xfs_is_mounted_with_dax_and_keeps_its_files() {
    let Some(testbed) = or_skip("xfs_is_mounted_with_dax_and_keeps_its_files") else { return };
    let output = testbed.pmem(64).run(
        "fsdax 0 /mnt mkfs xfs && echo kept > /mnt/file && umount /mnt && fsdax 0 /mnt keep xfs \
         && cat /mnt/file && grep pmem0 /proc/mounts",
    );
    assert_eq!(output.code, 0, "{output}");
    // mkfs may say something before.
    assert!(output.stdout.contains("kept\n/dev/pmem0 /mnt xfs "), "{output}");
    assert!(output.stdout.contains("dax=always"), "{output}");
}

#[test]
fn nobody_runs_a_command_without_roots_rights() {
    let Some(testbed) = or_skip("nobody_runs_a_command_without_roots_rights") else { return };
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("nobody");
    let output = testbed.user("nobody").mount("-").out(&out).run(
        "id -u; grep CapEff /proc/self/status; echo 1 > /sys/fs/resctrl/tasks || echo refused; \
         echo mine > /out/file; exit 7",
    );
    assert_eq!(output.code, 7, "{output}");
    assert_eq!(output.stdout, "65534\nCapEff:\t0000000000000000\nrefused\n", "{output}");
    assert_eq!(fs::read_to_string(out.join("file")).unwrap(), "mine\n");
    fs::remove_dir_all(out).unwrap();
}

#[test]
fn control_groups_of_version_2_are_mounted() {
    let Some(testbed) = or_skip("control_groups_of_version_2_are_mounted") else { return };
    let output = testbed.run(
        "cd /sys/fs/cgroup && cat cgroup.controllers \
         && echo +cpu +memory +io > cgroup.subtree_control && mkdir one && echo '50000 100000' > \
         one/cpu.max && cat one/cpu.max",
    );
    assert_eq!(output.code, 0, "{output}");
    let controllers = output.stdout.lines().next().unwrap_or_default();
    assert!(
        ["cpu", "io", "memory"].iter().all(|name| controllers.split(' ').any(|one| one == *name)),
        "{output}"
    );
    assert!(output.stdout.ends_with("50000 100000\n"), "{output}");
}

#[test]
fn disks_have_schedulers_file_systems_and_loop_devices() {
    let Some(testbed) = or_skip("disks_have_schedulers_file_systems_and_loop_devices") else {
        return;
    };
    let output = testbed.profile("disks").disk(16).disk(32).nvme(48).run(
        "cat /sys/block/vda/size /sys/block/vdb/size /sys/block/nvme0n1/size
         for name in none mq-deadline kyber bfq; do echo $name > /sys/block/vda/queue/scheduler || \
         exit; done
         /usr/bin/mke2fs -q -t ext4 /dev/nvme0n1 && mkdir /mnt/disk && mount -t ext4 /dev/nvme0n1 \
         /mnt/disk || exit
         truncate -s 4M /mnt/disk/file && losetup /dev/loop0 /mnt/disk/file && cat \
         /sys/block/loop0/size",
    );
    assert_eq!(output.code, 0, "{output}");
    // In units of 512 bytes.
    let sizes = [16, 32, 48, 4].map(|mib: u32| format!("{}\n", mib << 11)).concat();
    assert_eq!(output.stdout.replace('\r', ""), sizes, "{output}");
}
