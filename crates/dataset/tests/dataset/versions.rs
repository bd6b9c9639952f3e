//! Datasets of every version of the format that was ever written, under `tests/data`: they open
//! with the values that were recorded, and can be resumed.
//!
//! What a version wrote is never written again. One that lays out its files in a new way gets a
//! folder, made once by the ignored test here.

use std::fs;
use std::path::{Path, PathBuf};

use ringfence_dataset::{Dataset, Lock, Recorder, SCHEMA, State};
use ringfence_experiment::class::Class;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::histogram::{Grid, Histogram};
use ringfence_experiment::sample::Sample;
use ringfence_experiment::scale::Scale;
use ringfence_experiment::start::Start;
use ringfence_experiment::stretch::Stretch;

use crate::common::{machine, plan, step};

const VERSIONS: [u32; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
const STEPS: u32 = 12;
const CREATED: &str = "2026-05-09T07:29:33.000Z";
const SCALE: Scale =
    Scale { clock_ns: 18.5, hit_ns: 20.0, hit_high_ns: 26.0, miss_ns: 104.0, miss_low_ns: 88.25 };

fn starts() -> [Start; 2] {
    [0, 1].map(|trial| Start { trial, instance: 0, variant: 0, ns: 3.5 + f64::from(trial) })
}

// All classes, instructions in some, and what the version has besides.
fn rows_of(version: u32, number: u32) -> Vec<Sample> {
    let classes = [Class::Sharing, Class::Apart, Class::Unclear, Class::Mixed, Class::Unprobed];
    let mut rows = step(number);
    for sample in &mut rows {
        sample.class = classes[number as usize % 5];
        sample.instructions = number.is_multiple_of(2).then_some(1_000_000 + u64::from(number));
        sample.late_ns = (version >= 4).then_some(60_000 + u64::from(number));
        sample.simulated = (version >= 5).then_some(number.is_multiple_of(3));
        // Other roles have none.
        let tail = (version >= 6 && number.is_multiple_of(4)).then_some(u64::from(number));
        (sample.tail_units, sample.tail_busy_ns) = (tail, tail.map(|units| 70_000 + units));
        let watched = version >= 7 && &*sample.role == "victim" && number % 4 < 3;
        sample.stretches =
            watched.then(|| (0..=number % 2).map(|place| stretch(number, place)).collect());
        if version >= 8 {
            sample.latencies = sample.latencies.as_ref().map(finer);
        }
    }
    rows
}

// In buckets that only the fine grid has.
fn finer(coarse: &Histogram) -> Histogram {
    let within =
        |(floor, count): &(u64, u64)| (Grid::FINE.floor(Grid::FINE.bucket_of(*floor) + 1), *count);
    Histogram::new(Grid::FINE, coarse.buckets().iter().map(within).collect())
}

fn stretch(number: u32, place: u32) -> Stretch {
    let number = u64::from(number);
    Stretch {
        start_ns: 40_000_000 * number + u64::from(place),
        length_ns: 10_000_000,
        units: number,
        longest_ns: (number % 3 > 0).then_some(1 << 20),
        dirty_bytes: Some(number << 12),
        writeback_bytes: Some(u64::MAX - number),
        disk_busy_ns: (place == 0).then_some(5_000_000),
        disk_writes: (place == 0).then_some(3 * number),
    }
}

fn rows(version: u32) -> Vec<Sample> {
    (0..STEPS).flat_map(|number| rows_of(version, number)).collect()
}

fn without_latencies(samples: Vec<Sample>) -> Vec<Sample> {
    let without = |sample| Sample { latencies: None, stretches: None, ..sample };
    samples.into_iter().map(without).collect()
}

fn data(version: u32, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/v{version}/{name}"))
}

// A copy, since an open recorder changes what it is opened on.
fn copy(version: u32, name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(data(version, name)).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, dir.path().join(path.file_name().unwrap())).unwrap();
    }
    dir
}

// Whether a version has the columns of today. From 1 to 3 they stayed, 4 to 6 added some, 7 added a
// file, and 8 finer buckets.
fn has_our_columns(version: u32) -> bool {
    version >= 6
}

#[test]
#[ignore = "writes the datasets of a new version, once"]
fn write_those_of_this_version() {
    let begin = |name: &str| {
        let dir = data(SCHEMA, name);
        (Recorder::create(&dir, &plan(), &machine()).unwrap(), dir)
    };
    // The time is the one thing that differs from run to run.
    let fix_time = |dir: &Path| {
        let path = dir.join("manifest.json");
        let text = fs::read_to_string(&path).unwrap();
        let created = Dataset::open(dir).unwrap().manifest.created;
        fs::write(&path, text.replace(&created, CREATED)).unwrap();
    };

    let (mut recorder, dir) = begin("finished");
    recorder.note_scale(SCALE).unwrap();
    recorder.note_starts(&starts()).unwrap();
    (0..STEPS).for_each(|number| recorder.append(&rows_of(SCHEMA, number)).unwrap());
    recorder.finish(&Ended::Complete).unwrap();
    fix_time(&dir);

    let (mut recorder, dir) = begin("killed");
    recorder.note_scale(SCALE).unwrap();
    (0..=STEPS).for_each(|number| recorder.append(&rows_of(SCHEMA, number)).unwrap());
    drop(recorder);
    let journal = dir.join("samples.journal");
    let whole = fs::read(&journal).unwrap();
    fs::write(&journal, &whole[..whole.len() - 100]).unwrap();
    fix_time(&dir);

    let (mut recorder, dir) = begin("finished-without-latencies");
    (0..STEPS)
        .for_each(|number| recorder.append(&without_latencies(rows_of(SCHEMA, number))).unwrap());
    recorder.finish(&Ended::Interrupted).unwrap();
    fix_time(&dir);
}

#[test]
fn every_version_has_its_values() {
    for version in VERSIONS {
        let open = |name: &str| {
            let dataset = Dataset::open(&data(version, name)).unwrap();
            assert_eq!((dataset.manifest.schema, &*dataset.manifest.created), (version, CREATED));
            assert_eq!((&dataset.plan, &dataset.machine), (&plan(), &machine()));
            dataset
        };
        let finished = open("finished");
        assert_eq!(finished.samples, rows(version));
        assert_eq!(finished.manifest.ended, Some(Ended::Complete));
        assert_eq!(finished.manifest.scale, Some(SCALE));
        assert_eq!(finished.manifest.starts, starts());

        let killed = open("killed");
        assert!(killed.unfinished());
        assert_eq!(killed.samples, rows(version));
        assert_eq!((killed.manifest.ended, killed.manifest.scale), (None, Some(SCALE)));

        let without = open("finished-without-latencies");
        assert_eq!(without.samples, without_latencies(rows(version)));
        assert_eq!(without.manifest.ended, Some(Ended::Interrupted));
        assert_eq!((without.manifest.latencies, without.manifest.scale), (None, None));
    }
}

// Spelled out, so that no change to what the tests record passes unseen.
#[test]
fn every_version_has_these_rows() {
    for version in VERSIONS {
        for name in ["finished", "killed"] {
            let samples = Dataset::open(&data(version, name)).unwrap().samples;
            assert_eq!(samples.len(), 36, "{name} of version {version}");
            let first = Sample {
                trial: 0,
                round: 0,
                step: 0,
                position: 0,
                step_case: 1,
                case: 0,
                role: "victim".into(),
                instance: 0,
                cpu: 2,
                class: Class::Sharing,
                ping_before_ns: Some(66.0),
                ping_after_ns: None,
                start_ns: 0,
                length_ns: 20_000_000,
                busy_ns: 20_000_000,
                units: 250_000,
                cycles: Some(18_446_744_073_709_551_615),
                instructions: Some(1_000_000),
                llc_misses: Some(0),
                late_ns: (version >= 4).then_some(60_000),
                simulated: (version >= 5).then_some(true),
                tail_units: (version >= 6).then_some(0),
                tail_busy_ns: (version >= 6).then_some(70_000),
                stretches: (version >= 7).then(|| vec![stretch(0, 0)].into()),
                ..Sample::default()
            };
            let counted = Sample {
                round: 1,
                step: 1,
                position: 1,
                case: 1,
                class: Class::Apart,
                ping_before_ns: Some(67.1),
                ping_after_ns: Some(70.5),
                start_ns: 460_000_000,
                length_ns: 20_039_595,
                units: 251_229,
                cycles: Some(18_446_744_073_709_551_604),
                instructions: None,
                llc_misses: Some(11),
                late_ns: (version >= 4).then_some(60_011),
                simulated: (version >= 5).then_some(false),
                tail_units: None,
                tail_busy_ns: None,
                latencies: Some(match version {
                    8.. => Histogram::new(Grid::FINE, vec![(25, 1011), (97, 2)]),
                    _ => vec![(24, 1011), (96, 2)].into(),
                }),
                stretches: None,
                ..first.clone()
            };
            let last = Sample {
                role: "aggressor".into(),
                cpu: 300,
                cycles: None,
                latencies: None,
                ..counted.clone()
            };
            assert_eq!([&samples[0], &samples[34], &samples[35]], [&first, &counted, &last]);
        }
    }
}

#[test]
fn one_of_every_version_that_was_cut_short_goes_on() {
    for version in VERSIONS {
        let dir = copy(version, "killed");
        let lock = Lock::take(dir.path()).unwrap();
        let killed = Dataset::open(dir.path()).unwrap();
        let resumed = Recorder::resume(&killed, 1_000_000_000, lock);
        if !has_our_columns(version) {
            let error = resumed.unwrap_err().to_string();
            assert!(
                error.contains("resume with the version of Ringfence that started it"),
                "{error}"
            );
            assert_eq!(Dataset::open(dir.path()).unwrap(), killed);
            continue;
        }
        let mut recorder = resumed.unwrap();
        recorder.append(&rows_of(SCHEMA, STEPS)).unwrap();
        drop(recorder);
        let expected = [rows(version), rows_of(SCHEMA, STEPS)].concat();
        let killed_again = Dataset::open(dir.path()).unwrap();
        assert_eq!(
            (killed_again.manifest.state, &killed_again.samples),
            (State::Unfinished, &expected)
        );
        let lock = Lock::take(dir.path()).unwrap();
        Recorder::resume(&killed_again, 2_000_000_000, lock)
            .unwrap()
            .finish(&Ended::Complete)
            .unwrap();
        let finished = Dataset::open(dir.path()).unwrap();
        assert_eq!((finished.manifest.state, &finished.samples), (State::Complete, &expected));
        assert_eq!((finished.manifest.schema, finished.manifest.scale), (SCHEMA, Some(SCALE)));
    }
}

#[test]
fn a_finished_one_of_every_version_goes_on() {
    for version in VERSIONS {
        for (name, before) in [
            ("finished", rows(version)),
            ("finished-without-latencies", without_latencies(rows(version))),
        ] {
            let dir = copy(version, name);
            let lock = Lock::take(dir.path()).unwrap();
            let mut recorder =
                Recorder::resume(&Dataset::open(dir.path()).unwrap(), 1_000_000_000, lock).unwrap();
            recorder.append(&rows_of(SCHEMA, STEPS)).unwrap();
            recorder.finish(&Ended::Complete).unwrap();
            let finished = Dataset::open(dir.path()).unwrap();
            assert_eq!(finished.samples, [before, rows_of(SCHEMA, STEPS)].concat());
            assert_eq!(finished.manifest.schema, SCHEMA);
        }
    }
}
