//! DuckDB, polars, pandas and pyarrow read the tables with no help from us.
//!
//! `PYTHON` may name an interpreter that has them.

use std::path::Path;
use std::process::Command;

use ringfence_dataset::{Recorder, SCHEMA};
use ringfence_experiment::ended::Ended;

use crate::common::{machine, plan, samples, skip};

// A row of the latencies, in the order of the columns.
#[derive(serde::Serialize)]
struct Bucket {
    sample: usize,
    trial: u32,
    case: u32,
    role: std::sync::Arc<str>,
    floor_ns: u64,
    count: u64,
    parts: u32,
}

const BUCKET_TYPES: &str = r#"{"sample":"u64","trial":"u32","case":"u32","role":"text",
    "floor_ns":"u64","count":"u64","parts":"u32"}"#;

// The types of the samples' columns, as the journal states them.
fn types(journal: &Path) -> String {
    let text = std::fs::read_to_string(journal).unwrap();
    let header: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let types = header["columns"].as_array().unwrap().iter().map(|column| {
        let kind = column["type"].as_str().unwrap().trim_end_matches('?');
        (column["name"].as_str().unwrap().to_owned(), kind.into())
    });
    serde_json::Value::Object(types.collect()).to_string()
}

#[test]
fn other_tools_read_the_same_values() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dir.path().join("dataset");
    let mut recorder = Recorder::create(&dataset, &plan(), &machine()).unwrap();
    let mut rows = samples(2000);
    for (number, sample) in rows.iter_mut().enumerate() {
        sample.simulated = [None, Some(true), Some(false)][number % 3];
    }
    recorder.append(&rows).unwrap();
    let types = [types(&dataset.join("samples.journal")), BUCKET_TYPES.into()];
    recorder.finish(&Ended::Complete).unwrap();
    let mut counted = Vec::new();
    for (number, sample) in rows.iter_mut().enumerate() {
        let (trial, case, role) = (sample.trial, sample.case, sample.role.clone());
        let Some(latencies) = sample.latencies.take() else { continue };
        let parts = latencies.grid().parts();
        for (floor_ns, count) in latencies.buckets() {
            let (role, floor_ns, count) = (role.clone(), *floor_ns, *count);
            counted.push(Bucket { sample: number, trial, case, role, floor_ns, count, parts });
        }
    }
    assert!(!counted.is_empty());
    let tables = [
        ("samples.parquet", serde_json::to_vec(&rows)),
        ("latencies.parquet", serde_json::to_vec(&counted)),
    ];
    let expected = dir.path().join("expected.json");

    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    for tool in ["pyarrow", "duckdb", "polars", "pandas"] {
        let has = Command::new(&python).args(["-c", &format!("import {tool}")]).output();
        if !has.is_ok_and(|output| output.status.success()) {
            skip(&format!("{python} cannot import {tool}"));
            continue;
        }
        for ((name, rows), types) in tables.iter().zip(&types) {
            std::fs::write(&expected, rows.as_ref().unwrap()).unwrap();
            let mut check = Command::new(&python);
            check.args(["-c", include_str!("other_tools.py"), tool]);
            check.arg(dataset.join(name)).arg(&expected).args([types, &SCHEMA.to_string()]);
            let output = check.output().unwrap();
            assert!(
                output.status.success(),
                "{tool}, {name}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}
