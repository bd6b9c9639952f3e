//! Datasets that are not as they were written.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::select;
use ringfence_analysis::results;
use ringfence_dataset::{Dataset, DatasetError, Recorder, SCHEMA};
use ringfence_experiment::ended::Ended;
use ringfence_experiment::scale::Scale;
use ringfence_experiment::stretch::Stretch;

use crate::common::{machine, plan, samples};

const FILES: [&str; 6] = [
    "samples.parquet",
    "manifest.json",
    "experiment.toml",
    "machine.json",
    "latencies.parquet",
    "disk.parquet",
];
const TABLES: [(&str, &str); 3] =
    [("samples.parquet", "samples"), ("latencies.parquet", "latencies"), ("disk.parquet", "disk")];

fn complete(dir: &Path) {
    let mut recorder = Recorder::create(dir, &plan(), &machine()).unwrap();
    let scale = Scale {
        clock_ns: 18.0,
        hit_ns: 20.0,
        hit_high_ns: 26.0,
        miss_ns: 104.0,
        miss_low_ns: 88.0,
    };
    recorder.note_scale(scale).unwrap();
    let mut samples = samples(50);
    let stretch = Stretch { length_ns: 5, dirty_bytes: Some(4096), ..Stretch::default() };
    samples.iter_mut().step_by(3).for_each(|sample| sample.stretches = Some([stretch].into()));
    recorder.append(&samples).unwrap();
    recorder.finish(&Ended::Complete).unwrap();
}

fn unfinished(dir: &Path) {
    let mut recorder = Recorder::create(dir, &plan(), &machine()).unwrap();
    samples(50).chunks(3).for_each(|step| recorder.append(step).unwrap());
}

fn open(dir: &Path) -> Result<Dataset, DatasetError> {
    let result = catch_unwind(|| Dataset::open(dir)).expect("no panic");
    if let Err(error) = &result {
        let text = error.to_string();
        assert!(!text.contains('\n') && text.contains(dir.to_str().unwrap()), "{text}");
    }
    result
}

fn changed(content: &[u8], changes: &[(usize, u8)]) -> Vec<u8> {
    let mut content = content.to_vec();
    for (place, bits) in changes {
        let place = place % content.len();
        content[place] ^= bits;
    }
    content
}

fn changes() -> impl Strategy<Value = Vec<(usize, u8)>> {
    prop::collection::vec((any::<usize>(), 1..=u8::MAX), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(200)
    })]

    #[test]
    fn a_changed_table_is_refused(table in select(TABLES.to_vec()), changes in changes()) {
        let dir = tempfile::tempdir().unwrap();
        complete(dir.path());
        let path = dir.path().join(table.0);
        let whole = fs::read(&path).unwrap();
        let content = changed(&whole, &changes);
        prop_assume!(content != whole);
        fs::write(&path, content).unwrap();
        let error = open(dir.path()).unwrap_err().to_string();
        prop_assert!(error.contains("the file is damaged"), "{}", error);
    }

    // A checksum that was made to fit leaves the parser to judge, which asserts some of what it
    // reads.
    #[test]
    fn a_changed_table_with_the_right_checksum_does_no_harm(
        table in select(TABLES.to_vec()),
        changes in changes(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        complete(dir.path());
        let path = dir.path().join(table.0);
        let content = changed(&fs::read(&path).unwrap(), &changes);
        let manifest = dir.path().join("manifest.json");
        let mut value: serde_json::Value =
            serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
        value[table.1]["xxh64"] =
            format!("{:016x}", twox_hash::XxHash64::oneshot(0, &content)).into();
        fs::write(&manifest, value.to_string()).unwrap();
        fs::write(&path, content).unwrap();
        let _ = open(dir.path());
    }

    #[test]
    fn changed_text_does_no_harm(file in 1..4_usize, changes in changes()) {
        let dir = tempfile::tempdir().unwrap();
        complete(dir.path());
        let path = dir.path().join(FILES[file]);
        fs::write(&path, changed(&fs::read(&path).unwrap(), &changes)).unwrap();
        if let Ok(dataset) = open(dir.path()) {
            results::results(&dataset.plan, &dataset.samples, 0.95);
        }
    }

    #[test]
    fn a_changed_journal_does_no_harm(changes in changes()) {
        let dir = tempfile::tempdir().unwrap();
        unfinished(dir.path());
        let path = dir.path().join("samples.journal");
        fs::write(&path, changed(&fs::read(&path).unwrap(), &changes)).unwrap();
        let _ = open(dir.path());
    }
}

#[test]
fn a_file_that_is_cut_or_gone_is_named() {
    let dir = tempfile::tempdir().unwrap();
    complete(dir.path());
    for name in FILES {
        let path = dir.path().join(name);
        let whole = fs::read(&path).unwrap();
        for length in [0, 1, whole.len() / 2, whole.len() - 2] {
            fs::write(&path, &whole[..length]).unwrap();
            // A TOML document may be one without its end.
            if let Err(error) = open(dir.path()) {
                assert!(error.to_string().contains(name), "{error}");
            } else {
                assert_eq!(name, "experiment.toml");
            }
        }
        fs::remove_file(&path).unwrap();
        assert!(open(dir.path()).unwrap_err().to_string().contains(name));
        fs::create_dir(&path).unwrap();
        let error = open(dir.path()).unwrap_err().to_string();
        assert!(
            error.contains("not an ordinary file") || error.contains("Is a directory"),
            "{error}"
        );
        fs::remove_dir(&path).unwrap();
        fs::write(&path, whole).unwrap();
    }
    assert!(open(dir.path()).is_ok());
}

#[test]
fn a_manifest_that_does_not_fit_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    complete(dir.path());
    let path = dir.path().join("manifest.json");
    let whole: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let newer = SCHEMA + 1;
    let refusal = format!(
        "schema {newer} is newer than this program reads ({SCHEMA}): use a newer Ringfence"
    );
    let edits = [
        ("/schema", &*newer.to_string(), &*refusal),
        ("/schema", "4294967298", "schema 4294967298 is newer than this program reads"),
        ("/schema", "0", "its schema version is missing"),
        ("/schema", "\"1\"", "its schema version is missing"),
        ("/cases", "[]", "listed as not run"),
        ("/cases/0/number", "1", "case 0 has the wrong number"),
        ("/cases/1/baseline", "9", "case 1 is measured with a case that does not exist"),
        ("/cases/1/active/1/variant", "9", "case 1 runs a role or a task"),
        ("/cases/1/active/1/role", "9", "case 1 runs a role or a task"),
        ("/cases/0/active", "[]", "case 0 does not run 'victim'"),
        ("/not_run/0/case", "9", "listed as not run"),
        ("/placed/cpus", "[]", "0 roles are placed, 2 exist"),
        ("/roles/1/name", "\"other\"", "the roles differ"),
        ("/samples", "null", "it does not list samples.parquet"),
        ("/samples/count", "18446744073709551615", "it has 150 rows"),
        ("/samples/bytes", "3", "the file is damaged"),
        ("/latencies/count", "3", "latencies.parquet: this is not a table of latencies (it has"),
        ("/latencies/xxh64", "\"0\"", "latencies.parquet: the file is damaged"),
        ("/disk/count", "3", "disk.parquet: this is not a table of what the disk did (it has"),
        ("/disk/xxh64", "\"0\"", "disk.parquet: the file is damaged"),
        ("/scale", "1", "this is not a manifest"),
        ("/state", "\"unfinished\"", "samples.journal: No such file"),
        ("/state", "\"other\"", "unknown variant"),
        ("", "[]", "its schema version is missing"),
    ];
    for (place, value, expected) in edits {
        let mut manifest = whole.clone();
        *manifest.pointer_mut(place).unwrap() = serde_json::from_str(value).unwrap();
        fs::write(&path, manifest.to_string()).unwrap();
        let error = open(dir.path()).expect_err(expected).to_string();
        assert!(error.contains(expected), "{place} = {value}: {error}");
    }
}

#[test]
fn a_broken_line_within_a_journal_is_named() {
    let dir = tempfile::tempdir().unwrap();
    unfinished(dir.path());
    let path = dir.path().join("samples.journal");
    let text = fs::read_to_string(&path).unwrap();
    let stated = format!("\"schema\":{SCHEMA},");
    let newer = format!("\"schema\":{},", SCHEMA + 1);
    let refusal = format!("schema {} is newer than this program reads ({SCHEMA})", SCHEMA + 1);
    for (from, to, expected) in [
        ("[[0,0,1,", "[[0,0,\n1,", "line 3 is not a step"),
        (
            "\"victim\"",
            "\"bystander\"",
            "line 2 is not a step ('bystander' is not a role of the experiment)",
        ),
        ("[[0,0,1,0,1,0,", "[[0,0,1,0,1,7,", "sample 3 names case 7 of 3"),
        (&*stated, &*newer, &*refusal),
        (&*stated, "\"schema\":1,", "not a journal that this program can read"),
        (&*stated, "\"schema\":0,", "not a journal that this program can read"),
        (&*stated, "", "not a journal that this program can read"),
    ] {
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let error = open(dir.path()).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}
