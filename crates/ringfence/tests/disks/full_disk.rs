//! A disk that fills up while something is measured.

use std::path::Path;
use std::process::Command;

use ringfence_dataset::Dataset;

use crate::support::{Folder, cpus, joined, ringfence_in, skip};

struct Disk(Folder);

impl Disk {
    fn of(kib: u32) -> Option<Self> {
        let disk = Self(Folder::new());
        disk.mount(&["-t", "tmpfs", "-o", &format!("size={kib}k"), "none"]).then_some(disk)
    }

    fn grow(&self, kib: u32) {
        assert!(self.mount(&["-o", &format!("remount,size={kib}k")]));
    }

    fn mount(&self, args: &[&str]) -> bool {
        let ran = Command::new("mount").args(args).arg(self.path()).output();
        ran.is_ok_and(|output| output.status.success())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

#[test]
fn a_proof_on_a_disk_that_fills_up_says_so_once_and_goes_on_from_there() {
    if cpus().len() < 2 {
        return skip("a victim and an aggressor need two CPUs");
    }
    let Some(disk) = Disk::of(160) else { return skip("a tmpfs cannot be mounted here") };
    let mut args = vec![
        "prove",
        "--victim",
        "chase footprint=64KiB",
        "--aggressor",
        "alu",
        "--budget",
        "100%",
    ];
    args.extend([
        "--window", "1ms", "--settle", "0ms", "--rounds", "60", "--trials", "8", "--quiet",
    ]);
    // One lever: what they are is not asked here.
    args.extend(["--levers", "quota", "--out", "proof"]);
    let full = ringfence_in(disk.path(), &args);
    assert_eq!(full.code(), Some(1), "{}", full.stderr);
    assert_eq!(full.stderr.lines().count(), 1, "{}", full.stderr);
    let said = joined(&full.stderr);
    for part in ["baseline: cannot ", "No space left on device (os error 28)", "--resume proof"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let verdicts = ["MET", "NOT MET", "UNDECIDED"];
    assert!(verdicts.iter().any(|word| full.stdout.starts_with(word)), "{}", full.stdout);
    // All that was measured is there.
    let samples = || Dataset::open(&disk.path().join("proof/baseline")).unwrap().samples;
    let before = samples();
    assert!(before.len() > 100, "{}", before.len());
    disk.grow(64 << 10);
    let resumed = ringfence_in(disk.path(), &["prove", "--resume", "proof", "--quiet"]);
    // Whatever the machine makes of the budget.
    assert!(matches!(resumed.code(), Some(0 | 3 | 4)), "{}", resumed.stderr);
    assert_eq!(samples()[..before.len()], before);
}

// Refused before anything runs, and nothing is left behind.
#[test]
fn a_disk_that_holds_nothing_gets_nothing() {
    if cpus().len() < 2 {
        return skip("a victim and an aggressor need two CPUs");
    }
    let Some(disk) = Disk::of(4) else { return skip("a tmpfs cannot be mounted here") };
    let args = [
        "prove",
        "--victim",
        "chase footprint=64KiB",
        "--aggressor",
        "alu",
        "--trials",
        "4",
        "--quiet",
    ];
    let full = ringfence_in(disk.path(), &[&args[..], &["--out", "proof"]].concat());
    assert_eq!(full.code(), Some(2), "{}", full.stderr);
    assert_eq!(full.stderr.lines().count(), 1, "{}", full.stderr);
    assert!(
        joined(&full.stderr).contains("No space left on device (os error 28)"),
        "{}",
        full.stderr
    );
    assert_eq!(std::fs::read_dir(disk.path()).unwrap().count(), 0);
}
