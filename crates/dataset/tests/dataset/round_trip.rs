//! What is recorded is read, value by value.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use ringfence_analysis::results;
use ringfence_dataset::{Dataset, Lock, Recorder, State};
use ringfence_experiment::class::Class;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::histogram::{Grid, Histogram};
use ringfence_experiment::sample::Sample;
use ringfence_experiment::scale::Scale;
use ringfence_experiment::stretch::Stretch;

use crate::common::{machine, plan, samples, step};

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![any::<u32>(), select(vec![0, 1, i32::MAX as u32, 1 << 31, u32::MAX])]
}

fn big() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), select(vec![0, 1, i64::MAX as u64, 1 << 63, u64::MAX])]
}

fn any_stretches() -> impl Strategy<Value = Option<Arc<[Stretch]>>> {
    let count = || proptest::option::of(big());
    let one = (big(), big(), big(), (count(), count(), count(), count(), count())).prop_map(
        |(
            start_ns,
            length_ns,
            units,
            (longest_ns, dirty_bytes, writeback_bytes, disk_busy_ns, disk_writes),
        )| {
            Stretch {
                start_ns,
                length_ns,
                units,
                longest_ns,
                dirty_bytes,
                writeback_bytes,
                disk_busy_ns,
                disk_writes,
            }
        },
    );
    proptest::option::of(prop::collection::vec(one, 1..4).prop_map(Into::into))
}

fn any_sample() -> impl Strategy<Value = Sample> {
    let classes = vec![Class::Sharing, Class::Apart, Class::Unclear, Class::Mixed, Class::Unprobed];
    let ping = || proptest::option::of(any::<f64>().prop_filter("a number", |ns| ns.is_finite()));
    let count = || proptest::option::of(big());
    // Without any count there are none.
    let buckets = || {
        let grid = prop::sample::select(vec![Grid::FINE, Grid::EIGHTHS]);
        let buckets = prop::collection::vec((big(), big()), 1..5);
        (grid, buckets).prop_map(|(grid, buckets)| Histogram::new(grid, buckets))
    };
    let latencies = || proptest::option::of(buckets().prop_filter("counts", |all| all.total() > 0));
    (
        (number(), number(), number(), number(), 0..3_u32, 0..3_u32),
        (select(vec!["victim", "aggressor"]), number(), number(), select(classes), ping(), ping()),
        (big(), big(), big(), big(), count(), count(), count(), latencies(), any_stretches()),
    )
        .prop_map(|(place, who, what)| {
            let placed = Sample {
                trial: place.0,
                round: place.1,
                step: place.2,
                position: place.3,
                step_case: place.4,
                case: place.5,
                ..Sample::default()
            };
            Sample {
                role: who.0.into(),
                instance: who.1,
                cpu: who.2,
                class: who.3,
                ping_before_ns: who.4,
                ping_after_ns: who.5,
                start_ns: what.0,
                length_ns: what.1,
                busy_ns: what.2,
                units: what.3,
                cycles: what.4,
                instructions: what.5,
                llc_misses: what.6,
                latencies: what.7,
                stretches: what.8,
                ..placed
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(64)
    })]

    #[test]
    fn any_samples(
        steps in prop::collection::vec(prop::collection::vec(any_sample(), 0..6), 0..12),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut recorder = Recorder::create(dir.path(), &plan(), &machine()).unwrap();
        for step in &steps {
            recorder.append(step).unwrap();
        }
        // Once from the journal, once from the table.
        let expected = steps.concat();
        prop_assert_eq!(&Dataset::open(dir.path()).unwrap().samples, &expected);
        recorder.finish(&Ended::Complete).unwrap();
        prop_assert_eq!(&Dataset::open(dir.path()).unwrap().samples, &expected);
    }
}

#[test]
fn everything_else_comes_back_too() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("new/folder");
    let plan = plan();
    let mut recorder = Recorder::create(&dir, &plan, &machine()).unwrap();
    recorder.append(&step(0)).unwrap();
    let ended = Ended::Failed("the victim's program ended".into());
    recorder.finish(&ended).unwrap();

    let dataset = Dataset::open(&dir).unwrap();
    assert_eq!(dataset.plan, plan);
    assert_eq!(dataset.machine, machine());
    assert_eq!(dataset.manifest.ended, Some(ended));
    assert_eq!(dataset.manifest.state, State::Complete);
    assert!(!dataset.unfinished());
    let created = dataset.manifest.created.replace(|c: char| c.is_ascii_digit(), "0");
    assert_eq!(created, "0000-00-00T00:00:00.000Z");
    let units: Vec<&str> = dataset.manifest.cases.iter().map(|case| case.unit.as_str()).collect();
    assert_eq!(units, ["loads", "loads", "loads"]);
    assert_eq!(dataset.manifest.roles[1].tasks[1].task["instruction"], "nt");
    let mut names: Vec<_> =
        dir.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["experiment.toml", "machine.json", "manifest.json", "samples.parquet"]);
    assert_eq!((dataset.manifest.latencies, dataset.manifest.scale), (None, None));
}

#[test]
fn the_figures_are_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (plan, samples) = (plan(), samples(400));
    let mut recorder = Recorder::create(dir.path(), &plan, &machine()).unwrap();
    recorder.append(&samples).unwrap();
    recorder.finish(&Ended::Precise).unwrap();
    let dataset = Dataset::open(dir.path()).unwrap();
    let figures = |plan, samples: &[Sample]| {
        serde_json::to_string(&results::results(plan, samples, 0.95)).unwrap()
    };
    assert_eq!(figures(&dataset.plan, &dataset.samples), figures(&plan, &samples));
}

// More than one row group.
#[test]
fn many_samples() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), &plan(), &machine()).unwrap();
    let samples = samples(100_000);
    for part in samples.chunks(1000) {
        recorder.append(part).unwrap();
    }
    recorder.finish(&Ended::Complete).unwrap();
    assert!(Dataset::open(dir.path()).unwrap().samples == samples);
}

#[test]
fn latencies_are_a_file_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), &plan(), &machine()).unwrap();
    let scale = Scale {
        clock_ns: 18.5,
        hit_ns: 20.0,
        hit_high_ns: 26.0,
        miss_ns: 104.0,
        miss_low_ns: 88.25,
    };
    recorder.note_scale(scale).unwrap();
    recorder.append(&step(0)).unwrap();
    recorder.append(&step(1)).unwrap();
    let unfinished = Dataset::open(dir.path()).unwrap();
    assert_eq!((unfinished.manifest.scale, unfinished.manifest.latencies), (Some(scale), None));
    recorder.finish(&Ended::Complete).unwrap();
    let dataset = Dataset::open(dir.path()).unwrap();
    assert_eq!(dataset.samples, samples(2));
    assert_eq!(dataset.manifest.scale, Some(scale));
    // Two windows of the victim in step 1, two buckets in each.
    assert_eq!(dataset.manifest.latencies.unwrap().count, 4);
    assert!(!dir.path().join("samples.journal").exists());
}

#[test]
fn what_the_disk_did_is_a_file_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let one = |start_ns, dirty_bytes| Stretch {
        start_ns,
        length_ns: 250_000_000,
        units: 7,
        longest_ns: Some(1 << 22),
        dirty_bytes,
        writeback_bytes: Some(0),
        disk_busy_ns: Some(100_000_000),
        disk_writes: Some(9),
    };
    let mut recorder = Recorder::create(dir.path(), &plan(), &machine()).unwrap();
    // Beside latencies in step 1, and without any in step 0.
    let watched = |number, stretches: Vec<Stretch>| {
        let mut samples = step(number);
        samples[0].stretches = Some(stretches.into());
        samples
    };
    let steps =
        [watched(0, vec![one(5, Some(4096)), one(6, None)]), watched(1, vec![one(7, None)])];
    steps.iter().for_each(|step| recorder.append(step).unwrap());
    assert_eq!(Dataset::open(dir.path()).unwrap().samples, steps.concat());
    recorder.finish(&Ended::Complete).unwrap();
    let dataset = Dataset::open(dir.path()).unwrap();
    assert_eq!(dataset.samples, steps.concat());
    assert_eq!(dataset.manifest.disk.clone().unwrap().count, 3);
    // A resumed dataset has it in its journal until it ends again.
    let lock = Lock::take(dir.path()).unwrap();
    let mut recorder = Recorder::resume(&dataset, 1_000_000_000, lock).unwrap();
    assert!(!dir.path().join("disk.parquet").exists());
    recorder.append(&step(2)).unwrap();
    recorder.finish(&Ended::Complete).unwrap();
    let dataset = Dataset::open(dir.path()).unwrap();
    assert_eq!(dataset.samples, [steps.concat(), step(2)].concat());
    assert_eq!(dataset.manifest.disk.unwrap().count, 3);
}

// As a version without latencies left them.
#[test]
fn older_datasets_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), &plan(), &machine()).unwrap();
    let old: Vec<Sample> =
        samples(5).into_iter().map(|s| Sample { latencies: None, ..s }).collect();
    recorder.append(&old).unwrap();
    let journal = std::fs::read_to_string(dir.path().join("samples.journal")).unwrap();
    let [header, first] = [0, 1].map(|line| {
        serde_json::from_str::<serde_json::Value>(journal.lines().nth(line).unwrap()).unwrap()
    });
    let names: Vec<_> =
        header["columns"].as_array().unwrap().iter().map(|column| &column["name"]).collect();
    assert_eq!(names[names.len() - 2..], ["latencies", "disk"]);
    assert_eq!(
        first[0].as_array().unwrap().len(),
        names.len() - 2,
        "nothing follows the other columns"
    );
    assert_eq!(Dataset::open(dir.path()).unwrap().samples, old);
    recorder.finish(&Ended::Complete).unwrap();
    let path = dir.path().join("manifest.json");
    let manifest = std::fs::read_to_string(&path).unwrap();
    assert!(!manifest.contains("latencies") && !manifest.contains("scale"), "{manifest}");
    // What an earlier version wrote there besides is not part of it.
    std::fs::write(dir.path().join("histograms.json"), "{}").unwrap();
    assert_eq!(Dataset::open(dir.path()).unwrap().samples, old);
}
