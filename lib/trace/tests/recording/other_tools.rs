//! DuckDB and pyarrow read the tables with no help from us, and the query of
//! docs/reference/trace-format.md does what it says.
//!
//! `PYTHON` may name an interpreter that has them.

use std::process::Command;

use ringfence_persist::Flush;
use ringfence_trace::events::{Action, Event, Place};

use crate::round_trip;

// The lines of the first command of the page, as one.
fn query(folder: &str) -> String {
    let page = include_str!("../../../../docs/reference/trace-format.md");
    let command = page.split("duckdb -c \"").nth(1).unwrap().split('"').next().unwrap();
    command.replace("TRACE", folder)
}

const PROGRAM: &str = r#"
import sys, duckdb
query, folder = sys.argv[1:]
for row in duckdb.sql(query).fetchall():
    print(*row)
events = f"'{folder}/events-*.parquet'"
totals = "sum(size), sum(octet_length(bytes)), count(file), max(sequence)"
print(duckdb.sql(f"select {totals} from {events}").fetchall()[0])
first = f"select bytes from {events} where action = 'store' order by sequence limit 1"
print(duckdb.sql(first).fetchall()[0][0])
"#;

#[test]
fn other_tools_read_it() {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    let has = Command::new(&python).args(["-c", "import duckdb"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        let all = std::env::var_os("RINGFENCE_REQUIRE_ALL").is_some_and(|value| value == "1");
        assert!(!all, "{python} cannot import duckdb");
        return println!("skipped: other_tools_read_it: {python} cannot import duckdb");
    }
    let folder = tempfile::tempdir().unwrap();
    let flush = |sequence, site, flush| Event {
        sequence,
        thread: 1,
        site,
        callers: 1,
        action: Action::Flush { flush, at: Place { file: 1, offset: 77 } },
    };
    let mut events =
        vec![round_trip::store(1, 8, b"abcd"), round_trip::store(2, 16, &[0xff, 0, 7])];
    events.extend((3..6).map(|sequence| flush(sequence, 2, Flush::Clwb)));
    events.push(flush(6, 3, Flush::Clflush));
    let fence = |sequence| Event { action: Action::Sfence, ..flush(sequence, 1, Flush::Clwb) };
    events.push(fence(u64::MAX));
    round_trip::write(folder.path(), &events, 3);
    let path = folder.path().display().to_string();
    let output =
        Command::new(&python).args(["-c", PROGRAM, &query(&path), &path]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = format!(
        "/usr/lib/libc.so.6 1002 clwb 3\n[vdso] 1003 clflush 1\n(7, 7, 6, {})\nb'abcd'\n",
        u64::MAX
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
