//! Datasets that are resumed.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use ringfence_dataset::{Dataset, Lock, Recorder, State};
use ringfence_experiment::ended::Ended;

use crate::common::{machine, plan, samples, step};

fn begun(dir: &Path, steps: u32) -> Recorder {
    let mut recorder = Recorder::create(dir, &plan(), &machine()).unwrap();
    (0..steps).for_each(|number| recorder.append(&step(number)).unwrap());
    recorder
}

fn resume(dir: &Path) -> Recorder {
    let lock = Lock::take(dir).unwrap();
    Recorder::resume(&Dataset::open(dir).unwrap(), 0, lock).unwrap()
}

fn opened(dir: &Path) -> (State, Vec<ringfence_experiment::sample::Sample>) {
    let dataset = Dataset::open(dir).unwrap();
    (dataset.manifest.state, dataset.samples)
}

#[test]
fn a_killed_one_and_a_finished_one_go_on() {
    for finished in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let recorder = begun(dir.path(), 5);
        if finished {
            recorder.finish(&Ended::Interrupted).unwrap();
        } else {
            drop(recorder)
        }
        for part in 1..=3 {
            let mut recorder = resume(dir.path());
            assert_eq!(opened(dir.path()), (State::Unfinished, samples(part * 5)));
            (part * 5..part * 5 + 5).for_each(|number| recorder.append(&step(number)).unwrap());
            assert_eq!(opened(dir.path()), (State::Unfinished, samples(part * 5 + 5)));
            recorder.finish(&Ended::Interrupted).unwrap();
            assert_eq!(opened(dir.path()), (State::Complete, samples(part * 5 + 5)));
            assert!(!dir.path().join("samples.journal").exists());
        }
    }
}

#[test]
fn a_torn_step_is_cut_off() {
    let torn = [&b"[[0,0,"[..], &[0; 100], &[0, 0, b']', b'\n']];
    for tail in torn {
        let dir = tempfile::tempdir().unwrap();
        drop(begun(dir.path(), 3));
        let mut journal =
            OpenOptions::new().append(true).open(dir.path().join("samples.journal")).unwrap();
        journal.write_all(tail).unwrap();
        let mut recorder = resume(dir.path());
        recorder.append(&step(3)).unwrap();
        recorder.finish(&Ended::Complete).unwrap();
        assert_eq!(opened(dir.path()), (State::Complete, samples(4)));
    }
}

#[test]
fn killed_on_the_way_back_it_still_opens_with_everything() {
    let dir = tempfile::tempdir().unwrap();
    begun(dir.path(), 5).finish(&Ended::Interrupted).unwrap();
    let table = fs::read(dir.path().join("samples.parquet")).unwrap();
    let latencies = fs::read(dir.path().join("latencies.parquet")).unwrap();
    let manifest = fs::read(dir.path().join("manifest.json")).unwrap();
    let journal_path = dir.path().join("samples.journal");
    drop(resume(dir.path()));
    let journal = fs::read(&journal_path).unwrap();
    let resumed = fs::read(dir.path().join("manifest.json")).unwrap();
    assert!(!dir.path().join("latencies.parquet").exists());
    // The journal is being written, is written, the manifest says to read it, the tables are gone.
    for length in (0..journal.len()).step_by(97) {
        fs::write(dir.path().join("samples.journal.tmp"), &journal[..length]).unwrap();
        let _ = fs::remove_file(&journal_path);
        fs::write(dir.path().join("samples.parquet"), &table).unwrap();
        fs::write(dir.path().join("latencies.parquet"), &latencies).unwrap();
        fs::write(dir.path().join("manifest.json"), &manifest).unwrap();
        assert_eq!(opened(dir.path()), (State::Complete, samples(5)));
    }
    fs::write(&journal_path, &journal).unwrap();
    assert_eq!(opened(dir.path()), (State::Complete, samples(5)));
    fs::write(dir.path().join("manifest.json"), &resumed).unwrap();
    assert_eq!(opened(dir.path()), (State::Unfinished, samples(5)));
    resume(dir.path()).finish(&Ended::Complete).unwrap();
    assert_eq!(opened(dir.path()), (State::Complete, samples(5)));
}

#[test]
fn one_program_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = begun(dir.path(), 2);
    let error = Lock::take(dir.path()).unwrap_err();
    assert!(error.is_usage() && error.to_string().contains("still being measured"), "{error}");
    drop(recorder);
    let recorder = resume(dir.path());
    assert!(Lock::take(dir.path()).is_err());
    recorder.finish(&Ended::Complete).unwrap();
    assert!(Lock::take(dir.path()).is_ok());
}

#[test]
fn pauses_are_no_measuring() {
    let dir = tempfile::tempdir().unwrap();
    begun(dir.path(), 5).finish(&Ended::Interrupted).unwrap();
    let before = Dataset::open(dir.path()).unwrap();
    assert_eq!(before.measured_for().as_nanos() as u64, before.end_ns());
    let resume = |from_ns: u64| {
        let lock = Lock::take(dir.path()).unwrap();
        Recorder::resume(&Dataset::open(dir.path()).unwrap(), from_ns, lock).unwrap()
    };
    // An hour later, to no avail; then two hours later, one more step.
    let hour = 3_600_000_000_000;
    drop(resume(hour));
    assert_eq!(Dataset::open(dir.path()).unwrap().measured_for(), before.measured_for());
    let mut recorder = resume(2 * hour);
    let mut later = step(5);
    later
        .iter_mut()
        .for_each(|sample| sample.start_ns = 2 * hour + sample.position as u64 * 1_000_000_000);
    recorder.append(&later).unwrap();
    recorder.finish(&Ended::Interrupted).unwrap();
    let now = Dataset::open(dir.path()).unwrap();
    assert_eq!(now.manifest.resumed.len(), 1);
    assert_eq!(now.measured_for().as_nanos() as u64, before.end_ns() + (now.end_ns() - 2 * hour));
}

#[test]
fn what_was_begun_by_half_is_cleared_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let unbegun = || {
        for name in ["experiment.toml", "machine.json", "samples.journal", "manifest.json.tmp"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
    };
    unbegun();
    fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    Recorder::clear_unbegun(dir.path()).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 5);
    fs::remove_file(dir.path().join("notes.txt")).unwrap();
    Recorder::clear_unbegun(dir.path()).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    Recorder::clear_unbegun(&dir.path().join("absent")).unwrap();
}
