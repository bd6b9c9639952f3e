//! The table of stored results.

use std::path::Path;

use ringfence_machine::units::Bytes;
use ringfence_report::Stored;

use crate::golden::check;

fn stored(verb: &str, date: &str, size: Bytes) -> Stored {
    let folder = format!("{verb}-{}00", date.replace(['-', ':'], "").replace(' ', "-"));
    Stored { verb: verb.into(), date: date.into(), size, folder }
}

#[test]
fn results_are_a_row_each() {
    let all = [
        stored("prove", "2026-05-09 07:29", Bytes::mib(104)),
        stored("ring-entry-size", "2026-05-08 23:59", Bytes(1_500_000)),
        stored("commit", "2026-05-08 12:00", Bytes(900)),
    ];
    let root = Path::new("/home/an engineer/.local/state/ringfence");
    check("results", |style| ringfence_report::results(root, &all, style));
    check("results-none", |style| ringfence_report::results(root, &[], style));
}
