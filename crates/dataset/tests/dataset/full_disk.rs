//! A disk that fills up: a tiny tmpfs, where we may mount one.

use std::fs;
use std::path::Path;
use std::process::Command;

use ringfence_dataset::{Dataset, DatasetError, Recorder};
use ringfence_experiment::ended::Ended;

use crate::common::{machine, plan, samples, skip, step};

struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn mount(bytes: u32) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let size = format!("size={bytes}");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "none"])
            .arg(dir.path())
            .output();
        mount.is_ok_and(|output| output.status.success()).then_some(Self(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

fn is_full(error: &DatasetError) -> bool {
    let text = error.to_string();
    text.contains("No space left on device (os error 28)") && text.contains("free some space")
}

#[test]
fn what_was_written_before_stays() {
    let Some(disk) = Tmpfs::mount(128 << 10) else { return skip("a tmpfs cannot be mounted here") };
    let dir = disk.path().join("dataset");
    let mut recorder = Recorder::create(&dir, &plan(), &machine()).unwrap();
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, [1; 4096]).unwrap();
    let mut steps = 0;
    let error = loop {
        match recorder.append(&step(steps)) {
            Ok(()) => steps += 1,
            Err(error) => break error,
        }
    };
    assert!(is_full(&error), "{error}");
    assert!(steps > 50, "{steps}");
    let read = || Dataset::open(&dir).unwrap();
    assert_eq!(read().samples, samples(steps));

    // With space again, the next step follows the last whole one.
    fs::remove_file(&ballast).unwrap();
    recorder.append(&step(steps)).unwrap();
    assert_eq!(read().samples, samples(steps + 1));

    // The table has no room beside the journal.
    let error = recorder.finish(&Ended::Complete).unwrap_err();
    assert!(is_full(&error), "{error}");
    assert!(!dir.join("samples.parquet.tmp").exists());
    assert_eq!(read().samples, samples(steps + 1));
}

#[test]
fn a_dataset_that_cannot_begin_leaves_nothing() {
    let Some(disk) = Tmpfs::mount(8 << 10) else { return skip("a tmpfs cannot be mounted here") };
    let error = Recorder::create(&disk.path().join("a/b"), &plan(), &machine()).unwrap_err();
    assert!(is_full(&error), "{error}");
    assert_eq!(disk.path().read_dir().unwrap().count(), 0);
}
