//! `whatif`: one plan on a described machine, and on the same with changes.

use std::fs;

use crate::support::{Folder, Output, joined, ringfence_in};

const MARK: &str = "simulated: nothing here was measured";
// Most of the last level of `small`.
const CHASE: [&str; 10] = [
    "--",
    "neighbours",
    "--victim",
    "chase footprint=640KiB",
    "--aggressor",
    "idle",
    "--trials",
    "4",
    "--window",
    "20ms",
];

fn whatif(folder: &Folder, before: &[&str], behind: &[&str]) -> Output {
    ringfence_in(folder.path(), &[&["whatif"], before, behind].concat())
}

fn refused(output: &Output, part: &str) {
    assert_eq!(output.code(), Some(2), "{}", output.stderr);
    assert!(output.stdout.is_empty() && joined(&output.stderr).contains(part), "{}", output.stderr);
    assert_eq!(output.stderr.trim().lines().count(), 1, "one sentence: {}", output.stderr);
}

// A machine whose last level fills soon; by LRU what it holds does not depend on what ran before.
fn small(folder: &Folder) {
    let mut text = ringfence_in(folder.path(), &["machine", "laptop", "--file"]).ok().to_owned();
    for (value, instead) in [
        ("size_kib = 1280\nways = 20", "size_kib = 80\nways = 20"),
        (
            "size_kib = 12288\nways = 12\nlatency_ns = 11.0\nreplacement = \"drrip\"",
            "size_kib = 768\nways = 12\nlatency_ns = 11.0\nreplacement = \"lru\"",
        ),
    ] {
        assert!(text.contains(value), "{value}");
        text = text.replacen(value, instead, 1);
    }
    fs::write(folder.path().join("small.toml"), text).unwrap();
}

#[test]
fn what_does_not_matter_changes_nothing_and_half_the_ways_slow_the_victim() {
    let folder = Folder::new();
    small(&folder);
    let ratio = |changes: &[&str], out: &str| {
        let flags = [&["small.toml", "--quiet", "--json", "--out", out], changes].concat();
        let json = whatif(&folder, &flags, &CHASE).json();
        let cells = json["whatif"]["comparison"]["cells"].as_array().unwrap().clone();
        // Alone and beside, and the slowdown of the one against the other.
        let figures: Vec<&str> =
            cells.iter().map(|cell| cell["figure"].as_str().unwrap()).collect();
        assert_eq!(figures, ["cost", "cost", "slowdown"]);
        assert_eq!(cells[0]["arm"], "alone");
        (cells[0]["change"]["slowdown"].clone(), json)
    };
    let (same, json) = ratio(&["--change", "uncore.core_to_core_ns=40"], "same");
    for end in ["value", "low", "high"] {
        assert_eq!(same[end], 1.0, "{json}");
    }
    assert_eq!(json["whatif"]["changes"][0]["was"], "25.0");
    assert_eq!(json["whatif"]["comparison"]["simulated"], true);
    let halved = ["--change", "llc.ways=6", "--change", "llc.size_kib=384"];
    let (slower, json) = ratio(&halved, "halved");
    assert!(slower["low"].as_f64().unwrap() > 1.2, "{json}");
    // The same again from the folder, as text and as a page.
    let shown = ringfence_in(folder.path(), &["show", "halved"]).said();
    assert!(shown.contains(MARK) && shown.contains("llc.ways = 6 instead of 12"), "{shown}");
    assert_eq!(ringfence_in(folder.path(), &["show", "halved", "--json"]).json(), json);
    ringfence_in(folder.path(), &["report", "halved"]).ok();
    let page = fs::read_to_string(folder.path().join("halved/report.html")).unwrap();
    assert!(
        page.contains("<main class=\"simulated\">") && page.contains("llc.ways = 6 instead of 12")
    );
    let datasets = ringfence_in(folder.path(), &["show", "halved/changed"]).said();
    assert!(datasets.contains(MARK), "{datasets}");
}

// A program for a machine with eADR leaves flushes out: what stays in caches is durable with a
// fence, and cheaper.
#[test]
fn what_caches_keep_needs_no_flush() {
    let folder = Folder::new();
    let write = [
        "--",
        "write",
        "--target",
        "dax:/mnt/pmem0",
        "--instruction",
        "clwb,none",
        "--block",
        "256B",
    ];
    let more = ["--size", "1MiB", "--trials", "4", "--window", "20ms"];
    let on = ["cascade-lake-optane", "--change", "processor.eadr=true", "--quiet", "--json"];
    let json = whatif(&folder, &on, &[&write[..], &more].concat()).json();
    let found = &json["whatif"];
    assert_eq!(found["changes"][0]["was"], serde_json::Value::Null);
    // No instruction is faster for it.
    for cell in found["comparison"]["cells"].as_array().unwrap() {
        assert_eq!(cell["change"]["slowdown"]["value"], 1.0, "{cell}");
    }
    let elided = found["elided"].as_array().unwrap();
    assert_eq!(elided.len(), 1, "{found}");
    assert!(elided[0]["instead_of"].as_str().unwrap().contains("clwb"), "{found}");
    assert!(elided[0]["change"]["slowdown"]["high"].as_f64().unwrap() < 1.0, "{found}");
}

#[test]
fn what_cannot_be_changed_is_told_in_a_sentence() {
    let folder = Folder::new();
    let with = |change: &str| whatif(&folder, &["laptop", "--change", change], &CHASE);
    refused(&with("llc.wys=4"), "laptop has no value 'llc.wys'; did you mean llc.ways?");
    refused(&with("nodes[7].channels=4"), "laptop has no value 'nodes[7].channels'");
    refused(&with("sources.topology=me"), "has no value 'sources.topology'");
    refused(&with("llc.ways"), "'llc.ways' is not of the form KEY=VALUE");
    refused(&with("llc.ways=many"), "with llc.ways = many: invalid type: string");
    refused(&with("llc.ways=0"), "llc.ways");
    refused(&with("core.store_buffer=1"), "core.store_buffer is 1, but must be from 8");
    refused(&with("processor.mask_bits=5"), "processor.mask_bits must divide the 12 ways");
    refused(&with("llc.ways=12"), "llc.ways is 12 in laptop: give it another value");
    refused(&with("topology.sockets=5000"), "topology.sockets is 5000, but must be from 1 to 16");
    refused(&with("llc.latency_ns=1e300"), "llc.latency_ns is 1e300, but must be a time");
    let twice = ["laptop", "--change", "llc.ways=6", "--change", "llc.ways=4"];
    refused(&whatif(&folder, &twice, &CHASE), "llc.ways is changed twice");
    let on = ["laptop", "--change", "llc.ways=6"];
    for (behind, part) in [
        (&["--", "survey"][..], "'survey' cannot be simulated twice"),
        (&["--", "nonsense"], "after --:"),
        (&["--", "write", "--json"], "--json cannot be used there: give it before --"),
        (&["--", "write", "--machine", "laptop"], "--machine cannot be used there"),
        (&["--", "neighbours", "--victim", "true"], "programs are not simulated"),
        (&["--", "neighbours", "--victim", "chase footprint=0"], "footprint"),
    ] {
        refused(&whatif(&folder, &on, behind), part);
    }
    refused(&ringfence_in(folder.path(), &["whatif", "laptop", "--", "write"]), "--change");
    assert!(folder.entries().is_empty(), "{:?}", folder.entries());
}
