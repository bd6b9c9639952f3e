//! A journal is read by what its own first line says.

use std::fs;
use std::path::{Path, PathBuf};

use ringfence_dataset::{Dataset, DatasetError, Lock, Recorder};
use ringfence_experiment::sample::Sample;
use serde_json::{Value, json};

use crate::common::{machine, plan, samples};

fn begun(dir: &Path) -> PathBuf {
    let mut recorder = Recorder::create(dir, &plan(), &machine()).unwrap();
    samples(5).chunks(3).for_each(|step| recorder.append(step).unwrap());
    dir.join("samples.journal")
}

fn resume(dir: &Path) -> Result<Recorder, DatasetError> {
    let lock = Lock::take(dir).unwrap();
    Recorder::resume(&Dataset::open(dir).unwrap(), 0, lock)
}

// Changes the columns in the first line of a journal, and every row.
fn change(path: &Path, columns: impl Fn(&mut Vec<Value>), row: impl Fn(&mut Vec<Value>)) {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut header = lines.next().unwrap();
    columns(header["columns"].as_array_mut().unwrap());
    let mut changed = header.to_string() + "\n";
    for mut step in lines {
        for one in step.as_array_mut().unwrap() {
            row(one.as_array_mut().unwrap());
        }
        changed += &(step.to_string() + "\n");
    }
    fs::write(path, changed).unwrap();
}

fn place(path: &Path, name: &str) -> usize {
    let text = fs::read_to_string(path).unwrap();
    let header: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let columns = header["columns"].as_array().unwrap();
    columns.iter().position(|column| column["name"] == name).unwrap()
}

fn refused(dir: &Path, expected: &str) {
    let journal = fs::read(dir.join("samples.journal")).unwrap();
    let manifest = fs::read(dir.join("manifest.json")).unwrap();
    let error = resume(dir).unwrap_err();
    assert!(error.is_usage(), "{error}");
    let error = error.to_string();
    let remedy = "resume with the version of Ringfence that started it (see manifest.json), or \
                  measure into a new folder";
    assert!(
        error.contains(expected) && error.ends_with(remedy) && !error.contains('\n'),
        "{error}"
    );
    assert_eq!(fs::read(dir.join("samples.journal")).unwrap(), journal);
    assert_eq!(fs::read(dir.join("manifest.json")).unwrap(), manifest);
}

#[test]
fn its_first_line_has_names_and_types() {
    let dir = tempfile::tempdir().unwrap();
    let path = begun(dir.path());
    let text = fs::read_to_string(path).unwrap();
    let header: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let columns = header["columns"].as_array().unwrap();
    let kind =
        |name: &str| columns.iter().find(|column| column["name"] == name).unwrap()["type"].clone();
    for (name, expected) in [
        ("trial", "u32"),
        ("role", "text"),
        ("class", "text"),
        ("ping_before_ns", "f64?"),
        ("units", "u64"),
        ("llc_misses", "u64?"),
        ("latencies", "histogram?"),
        ("disk", "stretches?"),
    ] {
        assert_eq!(kind(name), expected, "{name}");
    }
}

// As an earlier version, which did not count cache misses, would have left it.
#[test]
fn one_with_fewer_columns_is_read_and_not_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    let path = begun(dir.path());
    let gone = ["llc_misses", "ping_after_ns"];
    for name in gone {
        let place = place(&path, name);
        change(&path, |columns| drop(columns.remove(place)), |row| drop(row.remove(place)));
    }
    let without = |sample| Sample { llc_misses: None, ping_after_ns: None, ..sample };
    let expected: Vec<Sample> = samples(5).into_iter().map(without).collect();
    assert_eq!(Dataset::open(dir.path()).unwrap().samples, expected);
    refused(dir.path(), "they lack ping_after_ns, llc_misses");
    assert_eq!(Dataset::open(dir.path()).unwrap().samples, expected);
}

#[test]
fn one_in_another_order_is_read_and_not_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    let path = begun(dir.path());
    change(&path, |columns| columns.swap(0, 6), |row| row.swap(0, 6));
    assert_eq!(Dataset::open(dir.path()).unwrap().samples, samples(5));
    refused(dir.path(), "they are in another order");
}

#[test]
fn columns_that_cannot_be_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = begun(dir.path());
    let whole = fs::read(&path).unwrap();
    type Edit = fn(&mut Vec<Value>);
    let edits: [(Edit, &str); 7] = [
        (|columns| columns[0]["name"] = json!("trials"), "no column trials of type u32 is known"),
        (|columns| columns[0]["type"] = json!("u64"), "no column trial of type u64 is known"),
        (|columns| drop(columns.remove(0)), "column trial is missing"),
        (|columns| columns.insert(0, columns[1].clone()), "column round comes twice"),
        (|columns| drop(columns.pop()), "its last column is not what the disk did"),
        (
            |columns| drop(columns.remove(columns.len() - 2)),
            "the last column of samples is not their latencies",
        ),
        (|columns| columns.clear(), "its last column is not what the disk did"),
    ];
    for (edit, expected) in edits {
        fs::write(&path, &whole).unwrap();
        change(&path, edit, |_| ());
        let error = Dataset::open(dir.path()).expect_err(expected).to_string();
        let problem = format!(
            "this is not a journal that this program can read ({expected}): restore the original"
        );
        assert!(error.contains(&problem), "{error}");
    }
}

#[test]
fn a_row_of_another_width_is_no_step() {
    let dir = tempfile::tempdir().unwrap();
    let path = begun(dir.path());
    let whole = fs::read(&path).unwrap();
    let edits: [fn(&mut Vec<Value>); 3] = [
        |row| row.truncate(3),
        |row| row.insert(0, json!(0)),
        |row| row.extend([json!([]), json!(0)]),
    ];
    for edit in edits {
        fs::write(&path, &whole).unwrap();
        change(&path, |_| (), edit);
        let error = Dataset::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("line 2 is not a step ("), "{error}");
        assert!(error.contains("): delete this line and all after it"), "{error}");
    }
}
