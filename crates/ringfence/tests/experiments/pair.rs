//! `pair`: every pair, an advice, and resuming what was cut short.

use std::path::Path;

use ringfence_dataset::Dataset;

use crate::support::{Folder, Output, Running, cpus, figure, ringfence_in, skip, wait_for_steps};

const ARGS: [&str; 13] = [
    "pair",
    "--task=alu",
    "--task=chase footprint=64KiB",
    "--task= alu",
    "--trials",
    "6",
    "--window",
    "5ms",
    "--settle=0ms",
    "--probe=0ms",
    "--quiet",
    "--out",
    "p",
];

fn two_cpus() -> bool {
    let two = cpus().len() >= 2;
    if !two {
        skip("pairs need two CPUs");
    }
    two
}

fn one_sentence(output: &Output, code: i32, part: &str) {
    assert_eq!(output.code(), Some(code), "{}{}", output.stdout, output.stderr);
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    assert!(output.stderr.contains(part), "'{part}' is not in {}", output.stderr);
}

fn measured(folder: &Path) -> Vec<String> {
    let datasets = ["screen", "confirm"].map(|name| folder.join("p").join(name));
    let there = datasets.iter().filter(|dir| dir.join("manifest.json").exists());
    there.map(|dir| Dataset::open(dir).unwrap().manifest.name).collect()
}

#[test]
fn pairs_are_measured_and_shown_again() {
    if !two_cpus() {
        return;
    }
    let folder = Folder::new();
    let printed = ringfence_in(folder.path(), &[&ARGS[..], &["--json"]].concat()).json();
    let outcome = &printed["outcome"];
    let kinds: Vec<_> =
        outcome["kinds"].as_array().unwrap().iter().map(|kind| &kind["tasks"]).collect();
    assert_eq!(kinds, [&serde_json::json!([1, 3]), &serde_json::json!([2])]);
    assert_eq!(outcome["pairs"].as_array().unwrap().len(), 3);
    assert_eq!(outcome["assignments"], 2);
    for pair in outcome["pairs"].as_array().unwrap() {
        // None where a noisy minute leaves no figure, which the total then says.
        let (progress, total) = (pair["progress"].as_f64(), figure(&pair["total"]));
        assert!(progress.is_none() && total.is_none() || progress > Some(0.0), "{pair}");
    }
    assert!(outcome["ended_early"].is_null());
    let names = measured(folder.path());
    let confirmed = !outcome["confirmed"].is_null();
    assert_eq!(names, &["pair-screen", "pair-confirm"][..if confirmed { 2 } else { 1 }]);

    assert_eq!(ringfence_in(folder.path(), &["show", "p", "--json"]).json(), printed);
    let shown = ringfence_in(folder.path(), &["show", "p"]);
    assert!(shown.said().contains("A beside B"), "{}", shown.stdout);
    // A dataset of the folder is one like any other.
    let screen = ringfence_in(folder.path(), &["show", "p/screen"]);
    assert!(screen.said().contains("B beside A"), "{}", screen.stdout);
    // There is nothing left to measure.
    let again = ringfence_in(folder.path(), &["pair", "--resume", "p", "--quiet", "--json"]).json();
    assert_eq!(again["outcome"], printed["outcome"]);
}

#[test]
fn what_was_cut_short_goes_on() {
    if !two_cpus() {
        return;
    }
    for signal in [libc::SIGINT, libc::SIGKILL] {
        let folder = Folder::new();
        let run = Running::start(folder.path(), &ARGS);
        wait_for_steps(&folder.path().join("p/screen"), 3);
        run.signal(signal);
        let output = run.wait();
        if signal == libc::SIGINT && output.code() != Some(0) {
            one_sentence(&output, 1, "continue with: ringfence pair --resume p");
        }
        let before = Dataset::open(&folder.path().join("p/screen")).unwrap().samples;
        assert!(ringfence_in(folder.path(), &["show", "p"]).code() == Some(0));
        let resumed =
            ringfence_in(folder.path(), &["pair", "--resume", "p", "--quiet", "--json"]).json();
        assert!(resumed["outcome"]["ended_early"].is_null());
        let now = Dataset::open(&folder.path().join("p/screen")).unwrap();
        assert!(now.is_done());
        assert_eq!(before, now.samples[..before.len()]);
    }
}

#[test]
fn equal_tasks_have_nothing_to_gain() {
    if !two_cpus() {
        return;
    }
    let folder = Folder::new();
    let same = [
        "pair",
        "--task=alu",
        "--task=alu",
        "--task=alu",
        "--task=alu",
        "--trials=2",
        "--window=1ms",
    ];
    let output = ringfence_in(folder.path(), &[&same[..], &["--quiet", "--out", "p"]].concat());
    assert!(output.said().contains("Nothing to gain: all tasks are the same"), "{}", output.stdout);
    assert_eq!(measured(folder.path()), ["pair-screen"]);
}

#[test]
fn what_makes_no_sense_is_refused_in_a_sentence() {
    let folder = Folder::new();
    let refused = |args: &[&str], part: &str| {
        let before = folder.entries();
        one_sentence(&ringfence_in(folder.path(), &[&["pair"][..], args].concat()), 2, part);
        assert_eq!(folder.entries(), before);
    };
    refused(&[], "2 to 10 tasks");
    refused(&["--task=alu"], "2 to 10 tasks");
    refused(&["--task=alu", "--task=idle"], "leave it out");
    refused(&["--task=alu", "--task=chase footprint=1MiB,2MiB"], "a list stands for several tasks");
    refused(&["--task=alu", "--task=alu", "--present", "1+3"], "is not an assignment of 2 tasks");
    refused(&["--task=alu", "--task=alu", "--window=0ms"], "between 1ms");
    refused(&["--resume", "absent"], "name a folder that 'ringfence pair' wrote");
    refused(&["--resume", "absent", "--task=alu"], "leave out --task");
    refused(&["--resume", "absent", "--seed=2"], "--seed cannot be combined with --resume");
    if two_cpus() {
        ringfence_in(folder.path(), &ARGS).ok();
        refused(&["--task=alu", "--task=mcf", "--out", "p"], "contains another question");
        refused(&["--task=alu", "--task=mcf", "--out", "p/screen"], "not empty");
    }
}
