//! Programs that never finish.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use ringfence_dataset::{Dataset, Recorder, State};
use ringfence_experiment::ended::Ended;

use crate::common::{machine, plan, samples, step};

fn record(dir: &Path, steps: u32) -> Recorder {
    let mut recorder = Recorder::create(dir, &plan(), &machine()).unwrap();
    (0..steps).for_each(|number| recorder.append(&step(number)).unwrap());
    recorder
}

#[test]
fn what_was_appended_is_read() {
    for steps in [0, 1, 30] {
        let dir = tempfile::tempdir().unwrap();
        drop(record(dir.path(), steps));
        let dataset = Dataset::open(dir.path()).unwrap();
        assert!(dataset.unfinished());
        assert_eq!(dataset.manifest.state, State::Unfinished);
        assert_eq!(dataset.manifest.ended, None);
        assert_eq!(dataset.samples, samples(steps));
        assert_eq!(dataset.plan, plan());
    }
}

#[test]
fn a_journal_cut_anywhere_loses_only_the_step_that_was_cut() {
    let dir = tempfile::tempdir().unwrap();
    drop(record(dir.path(), 3));
    let path = dir.path().join("samples.journal");
    let whole = fs::read(&path).unwrap();
    let ends: Vec<usize> = (0..whole.len()).filter(|i| whole[*i] == b'\n').map(|i| i + 1).collect();
    for length in ends[0]..=whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let steps = ends[1..].iter().filter(|end| **end <= length).count() as u32;
        assert_eq!(Dataset::open(dir.path()).unwrap().samples, samples(steps), "cut at {length}");
    }
    for length in 0..ends[0] {
        fs::write(&path, &whole[..length]).unwrap();
        assert!(Dataset::open(dir.path()).unwrap_err().to_string().contains("not a journal"));
    }
}

// As a file system may leave it when the power fails.
#[test]
fn zeros_at_the_end_are_no_step() {
    for tail in [&[0; 100][..], &[0, 0, b']', b'\n']] {
        let dir = tempfile::tempdir().unwrap();
        drop(record(dir.path(), 3));
        let mut journal =
            OpenOptions::new().append(true).open(dir.path().join("samples.journal")).unwrap();
        journal.write_all(tail).unwrap();
        assert_eq!(Dataset::open(dir.path()).unwrap().samples, samples(3));
    }
}

#[test]
fn a_program_killed_while_finishing_leaves_the_journal_or_the_table() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = record(dir.path(), 5);
    let journal = fs::read(dir.path().join("samples.journal")).unwrap();
    let manifest = fs::read(dir.path().join("manifest.json")).unwrap();
    recorder.finish(&Ended::Complete).unwrap();

    // The table is complete, the journal not yet removed.
    fs::write(dir.path().join("samples.journal"), &journal[..journal.len() / 2]).unwrap();
    let dataset = Dataset::open(dir.path()).unwrap();
    assert_eq!((dataset.unfinished(), dataset.samples), (false, samples(5)));

    // The table is written by half, the manifest as before.
    let table = fs::read(dir.path().join("samples.parquet")).unwrap();
    fs::write(dir.path().join("samples.parquet.tmp"), &table[..table.len() / 2]).unwrap();
    fs::write(dir.path().join("samples.journal"), &journal).unwrap();
    fs::write(dir.path().join("manifest.json"), &manifest).unwrap();
    let dataset = Dataset::open(dir.path()).unwrap();
    assert_eq!((dataset.unfinished(), dataset.samples), (true, samples(5)));
}

#[test]
fn a_table_that_cannot_be_written_leaves_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = record(dir.path(), 5);
    fs::create_dir(dir.path().join("samples.parquet.tmp")).unwrap();
    let error = recorder.finish(&Ended::Complete).unwrap_err().to_string();
    assert!(error.contains("cannot write") && error.contains("os error 21"), "{error}");
    let dataset = Dataset::open(dir.path()).unwrap();
    assert_eq!((dataset.unfinished(), dataset.samples), (true, samples(5)));
}
