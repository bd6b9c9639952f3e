//! Disks that fill up or fail while commits to them are measured: a small file system on a loop
//! device.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use ringfence_dataset::Dataset;
use ringfence_testbed::skip_here;

use crate::support::{Folder, LIMIT, Running, joined, ringfence_in, wait_for, wait_for_steps};

fn done(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
}

// ext4 on a loop device on a file.
struct Disk {
    file: PathBuf,
    device: String,
    place: Folder,
}

impl Disk {
    fn of(mib: u64) -> Option<Self> {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("disk-{}-{mib}", std::process::id()));
        File::create(&file).unwrap().set_len(mib << 20).unwrap();
        let name = file.to_str().unwrap();
        let attached = Command::new("losetup").args(["--find", "--show", name]).output();
        let device = attached.ok().filter(|output| output.status.success());
        let Some(device) =
            device.map(|output| String::from_utf8(output.stdout).unwrap().trim().to_owned())
        else {
            fs::remove_file(&file).unwrap();
            skip_here("failing disks", "a file cannot be made a loop device here");
            return None;
        };
        let disk = Self { file, device, place: Folder::new() };
        // Without a journal, a failure is that of the call and not of the file system.
        let made = done("mkfs.ext4", &["-q", "-O", "^has_journal", &disk.device]);
        if made && done("mount", &[&disk.device, disk.path().to_str().unwrap()]) {
            return Some(disk);
        }
        skip_here("failing disks", "ext4 cannot be made or mounted here");
        None
    }

    fn path(&self) -> &Path {
        self.place.path()
    }

    // All but its first MiB is gone.
    fn fail(&self) {
        let sectors =
            Path::new("/sys/block").join(self.device.trim_start_matches("/dev/")).join("size");
        // A write that is under way can make the file long again before the device has looked.
        wait_for("a device of 1 MiB", || {
            File::options().write(true).open(&self.file).unwrap().set_len(1 << 20).unwrap();
            assert!(done("losetup", &["--set-capacity", &self.device]));
            (fs::read_to_string(&sectors).unwrap().trim() == "2048").then_some(())
        });
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        done("umount", &[self.path().to_str().unwrap()]);
        done("losetup", &["--detach", &self.device]);
        let _ = fs::remove_file(&self.file);
    }
}

// Ends in one sentence that has one of these parts, by when a trial began; what was measured before
// is kept, and nothing lies on the disk.
fn ended(folder: &Folder, run: Running, before: usize, parts: &[&str]) {
    let out = run.wait();
    assert_eq!(out.code(), Some(1), "{}{}", out.stdout, out.stderr);
    assert_eq!(
        out.stderr.lines().filter(|line| line.starts_with("ringfence: ")).count(),
        1,
        "{}",
        out.stderr
    );
    let said = joined(&out.stderr);
    assert!(parts.iter().any(|part| said.contains(part)), "{said}");
    let dataset = Dataset::open(&folder.path().join("d")).unwrap();
    assert!(dataset.samples.len() >= before && !dataset.is_done(), "{}", dataset.samples.len());
    assert!(ringfence_in(folder.path(), &["show", "d"]).said().contains("per commit"));
}

fn start(folder: &Folder, disk: &Disk, rest: &[&str]) -> Running {
    let args = [
        "commit",
        disk.path().to_str().unwrap(),
        "--sync",
        "fdatasync",
        "--io",
        "buffered",
        "--size",
        "1MiB",
    ];
    let run = Running::start(
        folder.path(),
        &[&args[..], rest, &["--trials", "1000", "--quiet", "--out", "d"]].concat(),
    );
    wait_for_steps(&folder.path().join("d"), 6);
    run
}

#[test]
fn a_disk_that_another_program_fills_ends_a_run_and_loses_nothing() {
    let Some(disk) = Disk::of(24) else { return };
    let folder = Folder::new();
    let run = start(&folder, &disk, &["--layout", "append"]);
    // What the log gives back when it begins again, too.
    let filler = disk.path().join("filler");
    let until = Instant::now() + LIMIT;
    let mut file = File::create(&filler).unwrap();
    while Instant::now() < until && folder.path().join("d/samples.parquet").metadata().is_err() {
        let _ = std::io::Write::write_all(&mut file, &[1; 4096]);
    }
    // The log grows into it, or begins again beside it: then room for it is asked for first.
    let parts =
        ["No space left on device (os error 28)", "more than a quarter of", "are free: free some"];
    ended(&folder, run, 6, &parts);
    let left: Vec<_> =
        fs::read_dir(disk.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "the filler and lost+found: {left:?}");
}

// A volatile overlay leaves syncs out (Linux, Documentation/filesystems/overlayfs.rst, "Volatile
// mount").
#[test]
fn commits_that_do_not_reach_the_disk_are_told() {
    let Some(disk) = Disk::of(64) else { return };
    let below = disk.path();
    ["lower", "upper", "work", "all"]
        .iter()
        .for_each(|name| fs::create_dir(below.join(name)).unwrap());
    let dir = |name: &str| below.join(name).display().to_string();
    let options = format!(
        "lowerdir={},upperdir={},workdir={},volatile",
        dir("lower"),
        dir("upper"),
        dir("work")
    );
    if !done("mount", &["-t", "overlay", "overlay", "-o", &options, &dir("all")]) {
        return skip_here(
            "commits that do not reach the disk",
            "a volatile overlay cannot be mounted here",
        );
    }
    let folder = Folder::new();
    let ways = [
        "--sync",
        "fdatasync",
        "--io",
        "buffered",
        "--layout",
        "written",
        "--size",
        "1MiB",
        "--trials",
        "4",
    ];
    let out = ringfence_in(
        folder.path(),
        &[&["commit", &dir("all")][..], &ways, &["--out", "d"]].concat(),
    );
    let json = ringfence_in(folder.path(), &["show", "d", "--json"]).json();
    assert!(done("umount", &[&dir("all")]));
    let said = out.said();
    assert!(said.contains("Not every commit reached the disk"), "{said}");
    let one = &json["datasets"][0]["unreached"][0];
    assert!(one["commits"].as_u64() > one["writes"].as_u64(), "{one}");
}

#[test]
fn a_disk_that_fails_ends_a_run_and_loses_nothing() {
    let Some(disk) = Disk::of(25) else { return };
    let folder = Folder::new();
    let run = start(&folder, &disk, &["--layout", "written"]);
    disk.fail();
    ended(&folder, run, 6, &["Input/output error (os error 5)"]);
}
