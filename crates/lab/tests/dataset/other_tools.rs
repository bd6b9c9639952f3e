//! DuckDB, polars, pandas and pyarrow read the table with no help from us.
//!
//! `PYTHON` may name an interpreter that has them.

use std::process::Command;

use ringfence_lab::dataset::Recorder;
use ringfence_lab::runner::Ended;

use crate::common::{machine, plan, samples, skip};

#[test]
fn other_tools_read_the_same_values() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dir.path().join("dataset");
    let mut recorder = Recorder::create(&dataset, &plan(), &machine()).unwrap();
    recorder.append(&samples(2000)).unwrap();
    recorder.finish(&Ended::Complete).unwrap();
    let expected = dir.path().join("expected.json");
    std::fs::write(&expected, serde_json::to_vec(&samples(2000)).unwrap()).unwrap();

    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    for tool in ["pyarrow", "duckdb", "polars", "pandas"] {
        let has = Command::new(&python).args(["-c", &format!("import {tool}")]).output();
        if !has.is_ok_and(|output| output.status.success()) {
            skip(&format!("{python} cannot import {tool}"));
            continue;
        }
        let mut check = Command::new(&python);
        check.args(["-c", include_str!("other_tools.py"), tool]);
        let output = check.arg(dataset.join("samples.parquet")).arg(&expected).output().unwrap();
        assert!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
