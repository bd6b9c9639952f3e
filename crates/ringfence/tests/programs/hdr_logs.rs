//! Victims that print an HDR histogram log.

use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use crate::support::{Folder, cpus, figure, ringfence_in, skip};

// Of intervals of 10 ms, each with operations of 310 us and some of 2 ms: as the crate's own writer
// logs them.
fn log(folder: &Folder) {
    let (mut log, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .with_max_value_divisor(1e6)
        .begin_log_with(&mut log, &mut serializer)
        .unwrap();
    let mut latencies = Histogram::<u64>::new(3).unwrap();
    latencies.record_n(310_000, 90).unwrap();
    latencies.record_n(2_000_000, 10).unwrap();
    let length = Duration::from_millis(10);
    for number in 0..50 {
        writer.write_histogram(&latencies, length * number, length, Tag::new("get")).ok().unwrap();
    }
    std::fs::write(folder.path().join("log"), log).unwrap();
}

const REPLAY: &str =
    "while true; do while read -r line; do echo \"$line\"; sleep 0.011; done < log; done";

fn experiment(folder: &Folder, rest: &str) {
    std::fs::write(folder.path().join("replay"), REPLAY).unwrap();
    let text = format!(
        "schema = 2\nname = 'logged'\nmetric = 'victim'\n\
        [measure]\nlooks = [4]\nwindow = '400ms'\nquantity = 'p50'\n\
        [[role]]\nname = 'victim'\ntask = {{ workload = 'command', unit = 'latencies', run = 'sh \
        replay'{rest} }}\n\
        [[role]]\nname = 'other'\ntask = {{ workload = 'idle' }}\n\
        [[arm]]\nname = 'alone'\nactive = ['victim']\n\
        [[arm]]\nname = 'beside'\nactive = ['victim', 'other']\nbaseline = 'alone'\n"
    );
    std::fs::write(folder.path().join("logged.toml"), text).unwrap();
}

#[test]
fn a_log_is_counted_as_its_latencies() {
    if cpus().len() < 2 {
        return skip("two roles need two CPUs");
    }
    let folder = Folder::new();
    log(&folder);
    experiment(&folder, "");
    let json = ringfence_in(folder.path(), &["run", "logged.toml", "--json", "--out", "ns"]).json();
    let result = &json["results"][0];
    // Within a bucket's width; a busy machine may have made windows too long.
    let near = figure(&result["ns_per_unit"]).is_some_and(|p50| (p50 / 310e3 - 1.0).abs() < 0.13);
    assert!(near || result["too_long"]["steps"].as_u64() > Some(0), "{json}");
    // In us the same operations take seconds, longer than any window.
    experiment(&folder, ", log_unit = 'us'");
    let output = ringfence_in(folder.path(), &["run", "logged.toml", "--out", "us"]);
    assert_eq!(output.code(), Some(2), "{}", output.stderr);
    assert!(
        output.stderr.contains("so they contain a pause: let it log shorter intervals"),
        "{}",
        output.stderr
    );
}

#[test]
fn a_damaged_line_ends_it_in_a_sentence() {
    if cpus().len() < 2 {
        return skip("two roles need two CPUs");
    }
    let folder = Folder::new();
    log(&folder);
    let path = folder.path().join("log");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("HISTFAAA", "HISTFAA", 1)).unwrap();
    experiment(&folder, "");
    let output = ringfence_in(folder.path(), &["run", "logged.toml", "--out", "out"]);
    assert_eq!(output.code(), Some(1), "{}", output.stderr);
    let said = "a line of the HDR histogram log that it prints cannot be read, because";
    assert!(
        output.stderr.contains(said) && output.stderr.contains("'Tag=get,"),
        "{}",
        output.stderr
    );
}
