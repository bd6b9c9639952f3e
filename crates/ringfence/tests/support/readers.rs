//! Other tools that read tables of a fleet.

use std::path::Path;
use std::process::Command;

use super::skip;

// What the tool makes of all hosts together: their names, and rows by host.
const READ: &str = r#"
import json, sys
tool, table = sys.argv[1:]
if tool == "duckdb":
    import duckdb
    source = f"read_parquet('{table}/*/*.parquet', hive_partitioning = true)"
    rows = duckdb.sql(f"select * from {source}")
    names, data = rows.columns, [dict(zip(rows.columns, row)) for row in rows.fetchall()]
elif tool == "polars":
    import polars
    rows = polars.read_parquet(f"{table}/**/*.parquet", hive_partitioning=True)
    names, data = rows.columns, rows.to_dicts()
elif tool == "pandas":
    import pandas
    rows = pandas.read_parquet(table)
    names, data = list(rows.columns), rows.astype(object).to_dict("records")
for row in data:
    assert str(row["host"]) == row["node"], row
    for name in ("processor", "kernel", "smt", "avx512", "doctor", "experiment", "task"):
        assert name in names, names
hosts = sorted({row["node"] for row in data})
print(json.dumps([[host, sum(row["node"] == host for row in data)] for host in hosts]))
"#;

/// The hosts of a table, and the rows of each, as every tool that is there reads them; nothing
/// where none is.
pub fn other_tools_read(table: &Path) -> Vec<(String, u64)> {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    let mut first: Option<Vec<(String, u64)>> = None;
    for tool in ["duckdb", "polars", "pandas"] {
        let has = Command::new(&python).args(["-c", &format!("import {tool}, pyarrow")]).output();
        if !has.is_ok_and(|output| output.status.success()) {
            skip(&format!("{python} cannot import {tool}"));
            continue;
        }
        let output = Command::new(&python).args(["-c", READ, tool]).arg(table).output().unwrap();
        assert!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stderr));
        let found: Vec<(String, u64)> = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(*first.get_or_insert_with(|| found.clone()), found, "{tool}");
    }
    first.unwrap_or_default()
}

/// How many latencies there are, and how many of them have their window among the samples.
pub fn latencies_with_windows(table: &Path) -> Option<(u64, u64)> {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    let output = Command::new(python).args(["-c", JOIN]).arg(table).output().ok()?;
    if !output.status.success() {
        skip("there is no DuckDB to join two tables");
        return None;
    }
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

const JOIN: &str = r#"
import duckdb, json, sys
def table(name):
    return f"read_parquet('{sys.argv[1]}/{name}/*/*.parquet', hive_partitioning = true)"
of = lambda what: duckdb.sql(what).fetchall()[0][0]
joined = f"""select count(*) from {table('latencies')} l
    join {table('samples')} s using (host, task, experiment, sample)
    where l.trial = s.trial and l."case" = s."case" and l.role = s.role"""
print(json.dumps([of(f"select count(*) from {table('latencies')}"), of(joined)]))
"#;
