//! What is said of a read-only DAX mount, on a real kernel: a folder and the files in it, alike.

use std::fs;
use std::process::Command;

use ringfence_persist::{Domain, Durability, Explanation};
use ringfence_testbed::scenarios;

fn sh(command: &str) {
    let done = Command::new("sh").args(["-ec", command]).status().unwrap();
    assert!(done.success(), "{command}: {done}");
}

// The file system is made and mounted with DAX on /mnt; a file is put in, then it is mounted
// read-only.
fn folder_and_file_agree(fsdax: &str, expected: Durability) {
    sh(fsdax);
    fs::write("/mnt/file", [0; 8192]).unwrap();
    let said = |path: &str| Explanation::of(path).unwrap();
    assert_eq!((said("/mnt").durability(), said("/mnt/file").durability()), (expected, expected));
    sh("mount -o remount,ro /mnt");
    let (folder, file) = (said("/mnt"), said("/mnt/file"));
    assert_eq!((folder.durability(), file.durability()), (expected, expected), "{folder}\n{file}");
    assert_eq!(folder.reasons()[0], file.reasons()[0]);
    for explanation in [folder, file] {
        let text = explanation.to_string();
        assert!(text.contains("nothing can be stored there now: Read-only file system"), "{text}");
    }
    sh("umount /mnt");
}

fn ext4() {
    folder_and_file_agree("fsdax 0", Durability::Persistent(Domain::Adr));
}

fn xfs() {
    folder_and_file_agree("fsdax 0 /mnt mkfs xfs", Durability::Persistent(Domain::Adr));
}

// DRAM in fact.
fn memmap() {
    folder_and_file_agree("fsdax 1", Durability::UnprovenMedium);
}

#[test]
fn a_folder_and_its_files_agree() {
    scenarios!(|testbed| testbed.pmem(64).memmap(64), || Ok(()), [ext4, xfs, memmap]);
}
