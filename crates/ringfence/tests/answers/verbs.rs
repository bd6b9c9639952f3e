//! Every verb with tiny settings: what it prints is complete, and its dataset says the same again.

use std::fs;
use std::path::Path;

use ringfence_dataset::Dataset;
use ringfence_machine::topology::Topology;
use serde_json::Value;

use crate::support::{Folder, cpus, ringfence, ringfence_in, skip};

const TINY: [&str; 8] = ["--trials", "4", "--rounds", "1", "--window", "2ms", "--probe", "0ms"];

fn tiny<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [args, &TINY[..]].concat()
}

// The machine's own answer to whether two tasks fit on cores of their own.
fn two_cores() -> bool {
    let topology = Topology::read(&ringfence_machine::root::FsRoot::host()).unwrap();
    let usable = topology.usable();
    usable
        .first()
        .is_some_and(|first| usable.iter().any(|other| topology.different_cores(first, other)))
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

// Every case is there, with a positive cost, or listed as not run with a reason. On a machine that
// gave the task no CPU in a whole trial, or so unevenly that the interval says nothing, or this
// program none for so long that windows of 2 ms are left out, the cost is the word that says so.
fn assert_cases(printed: &Value, cases: usize) {
    for result in list(&printed["results"]) {
        let cost = result["ns_per_unit"]["value"].as_f64();
        let left_out = result["too_long"]["steps"].as_u64().expect("a count") > 0;
        match result["ns_per_unit"]["reason"].as_str() {
            Some("no_work" | "too_wide" | "too_long") => continue,
            Some("too_few_trials") if left_out => continue,
            _ => {}
        }
        assert!(cost.is_some_and(|cost| cost > 0.0), "{result}");
    }
    for not_run in list(&printed["not_run"]) {
        assert!(not_run["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{not_run}");
    }
    assert_eq!(
        list(&printed["results"]).len() + list(&printed["not_run"]).len(),
        cases,
        "{printed}"
    );
}

#[test]
fn write_measures_every_combination() {
    let args = [
        "write",
        "--json",
        "--instruction",
        "clflush,clwb,nt,none",
        "--block",
        "64B,4KiB",
        "--size",
        "1MiB",
    ];
    let printed = ringfence(&tiny(&args)).json();
    assert_eq!(printed["schema"], "ringfence/experiment/3");
    assert_cases(&printed, 8);
    let labels: Vec<&str> =
        list(&printed["results"]).iter().map(|result| result["label"].as_str().unwrap()).collect();
    assert!(labels.iter().any(|label| label.contains("nt")), "{labels:?}");
}

#[test]
fn write_with_two_threads_uses_two_cores_or_says_why_not() {
    let args = [
        "write",
        "--json",
        "--instruction",
        "nt",
        "--block",
        "4KiB",
        "--size",
        "1MiB",
        "--threads",
        "1,2",
    ];
    let printed = ringfence(&tiny(&args)).json();
    assert_cases(&printed, 2);
    assert_eq!(list(&printed["results"]).len(), if two_cores() { 2 } else { 1 });
}

#[test]
fn every_axis_of_write_runs() {
    let args = [
        "write",
        "--json",
        "--instruction",
        "nt,none",
        "--block",
        "4KiB",
        "--size",
        "1MiB",
        "--fence",
        "mfence,locked",
        "--pattern",
        "random",
        "--line",
        "warm,cold",
        "--width",
        "sse2",
        "--pace",
        "100MiB/s",
    ];
    assert_cases(&ringfence(&tiny(&args)).json(), 8);
    let folder = Folder::new();
    let target = format!("file:{}", folder.path().display());
    let args = [
        "write",
        "--json",
        "--instruction",
        "msync,nt",
        "--block",
        "4KiB",
        "--size",
        "1MiB",
        "--target",
        &target,
    ];
    assert_cases(&ringfence(&tiny(&args)).json(), 2);
    assert!(folder.entries().is_empty(), "{:?}", folder.entries());
}

#[test]
fn neighbours_compares_workloads_and_programs() {
    if cpus().len() < 2 {
        return skip("neighbours need two CPUs");
    }
    let args = [
        "neighbours",
        "--json",
        "--victim",
        "chase footprint=64KiB",
        "--aggressor",
        "write size=1MiB",
        "--aggressor",
        "sh -c 'while :; do :; done'",
        "--aggressor",
        "idle",
    ];
    // On a busy machine the program may not have its turn in a short window; it has in a long one.
    let worked = ["2ms", "50ms", "1s"].into_iter().any(|window| {
        let how = TINY.map(|word| if word == "2ms" { window } else { word });
        let args = [&args[..], &how].concat();
        let printed = ringfence(&args).json();
        // The baseline and three arms, of which the baseline has no row of its own.
        assert_cases(&printed, 3);
        for result in list(&printed["results"]) {
            assert!(
                result["effect"]["sentence"].as_str().is_some_and(|sentence| !sentence.is_empty()),
                "{result}"
            );
        }
        let is_busy = |result: &&Value| result["label"].as_str().unwrap().contains("while");
        let busy = list(&printed["results"]).iter().find(is_busy).expect("the program is a case");
        busy["co_runners"][0]["units_per_s"].as_f64().is_some_and(|rate| rate > 0.0)
    });
    assert!(worked, "the program did nothing");
}

// What ran, in order.
fn sequence(dir: &Path) -> Vec<(u32, u32, u32, u32, u32)> {
    let samples = Dataset::open(dir).unwrap().samples;
    samples.iter().map(|s| (s.trial, s.round, s.step, s.step_case, s.case)).collect()
}

#[test]
fn a_saved_experiment_and_a_datasets_own_run_the_same_again() {
    if cpus().len() < 2 {
        return skip("neighbours need two CPUs");
    }
    let folder = Folder::new();
    let args = [
        "neighbours",
        "--victim",
        "chase footprint=64KiB",
        "--aggressor",
        "alu",
        "--aggressor",
        "idle",
        "--trials",
        "3",
        "--rounds",
        "4",
        "--window",
        "2ms",
        "--probe",
        "0ms",
        "--quiet",
    ];
    let with = |more: &[&str]| ringfence_in(folder.path(), &[&args[..], more].concat());
    with(&["--seed", "7", "--out", "first"]).ok();
    with(&["--seed", "7", "--save", "saved.toml"]).ok();
    with(&["--seed", "8", "--out", "other"]).ok();
    ringfence_in(folder.path(), &["run", "saved.toml", "--quiet", "--out", "second"]).ok();
    ringfence_in(folder.path(), &["run", "first/experiment.toml", "--quiet", "--out", "third"])
        .ok();
    let first = sequence(&folder.path().join("first"));
    assert_eq!(first, sequence(&folder.path().join("second")));
    assert_eq!(first, sequence(&folder.path().join("third")));
    assert_ne!(first, sequence(&folder.path().join("other")));
    let text = |file: &str| fs::read_to_string(folder.path().join(file)).unwrap();
    assert_eq!(text("saved.toml"), text("first/experiment.toml"));
    assert_eq!(text("saved.toml"), text("second/experiment.toml"));
}

#[test]
fn aa_reports_how_often_it_saw_what_is_not_there() {
    let args =
        ["aa", "--json", "--victim", "alu", "--experiments", "3", "--trials", "4", "--rounds", "1"];
    let printed = ringfence(&[&args[..], &["--window", "2ms", "--probe", "0ms"]].concat()).json();
    // Each has a figure, or is counted as one that has none.
    let count = |of: &str| printed["aa"][of].as_u64().unwrap();
    assert_eq!(count("estimates") + count("not_estimable"), 3, "{}", printed["aa"]);
}

#[test]
fn the_survey_saves_experiments_that_can_be_run() {
    let folder = Folder::new();
    ringfence_in(folder.path(), &["survey", "--quick", "--save", "experiments"]).ok();
    let dir = folder.path().join("experiments");
    let files: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 2, "{files:?}");
    // Writers to a disk come only on request.
    let commits = fs::read_to_string(dir.join("commits.toml")).unwrap();
    assert!(commits.contains(folder.path().to_str().unwrap()), "{commits}");
    assert!(!dir.join("commits-beside-writers.toml").exists());
    ringfence_in(folder.path(), &["survey", "--disturb-disk", "--dir", "/", "--save", "all"]).ok();
    let beside = fs::read_to_string(folder.path().join("all/commits-beside-writers.toml")).unwrap();
    assert!(beside.contains("dir = \"/\"") && beside.contains("dontcache"), "{beside}");
    for (number, file) in files.iter().enumerate() {
        let args = ["run", file.to_str().unwrap(), "--save", &format!("{number}.toml")];
        ringfence_in(folder.path(), &args).ok();
    }
}

#[test]
fn show_says_what_the_run_said() {
    let folder = Folder::new();
    let args = tiny(&[
        "write",
        "--instruction",
        "nt,none",
        "--block",
        "64B,4KiB",
        "--size",
        "1MiB",
        "--out",
        "text",
    ]);
    let printed = ringfence_in(folder.path(), &[&args[..], &["-v"]].concat());
    let short = ringfence_in(folder.path(), &["show", "text"]);
    assert!(short.ok().ends_with(
        "dataset: text\nmore: ringfence show -v text; as a page: ringfence show --html text\n"
    ));
    let shown = ringfence_in(folder.path(), &["show", "-v", "text"]);
    // After the folder's name and the question, the very table that the run printed.
    let (_, table) = shown.ok().split_once("\n\n").unwrap();
    assert!(table.contains("nt") && table.lines().count() >= 4, "{table}");
    assert!(printed.ok().contains(table.trim()), "{}\n{table}", printed.stdout);
    let mut args = args;
    args.extend(["--json"]);
    let place = args.iter().position(|arg| *arg == "text").unwrap();
    args[place] = "json";
    let printed = ringfence_in(folder.path(), &args).json();
    let shown = ringfence_in(folder.path(), &["show", "json", "--json"]).json();
    let dataset = &shown["datasets"][0];
    assert_eq!(dataset["results"], printed["results"]);
    assert_eq!(dataset["unfinished"], false);
    // A folder of datasets, as a survey is one.
    assert_eq!(
        list(&ringfence_in(folder.path(), &["show", ".", "--json"]).json()["datasets"]).len(),
        2
    );
}
