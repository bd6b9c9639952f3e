//! `machine new`, `machine check`, `machine sensitivity` and `calibrate`.

use std::fs;
use std::path::Path;

use ringfence_dataset::Recorder;
use ringfence_experiment::Experiment;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use ringfence_machine::{Machine, fixtures};
use ringfence_studies::fixtures::{harmless, survey_in};

use crate::support::{Folder, Output, joined, ringfence_in};

fn refused(output: &Output, part: &str) {
    assert_eq!(output.code(), Some(2), "{}", output.stderr);
    assert!(joined(&output.stderr).contains(part), "{}", output.stderr);
    assert_eq!(output.stderr.trim().lines().count(), 1, "one sentence: {}", output.stderr);
}

const COSTS: &str = r#"schema = 2
name = "costs"
metric = "writer"
[[role]]
name = "writer"
[role.task]
workload = "write"
instruction = ["clflush", "nt"]
block = ["64B", "1KiB"]
size = "256KiB"
[[arm]]
name = "write"
active = ["writer"]
"#;

// A dataset as if these had been measured, of 300 ns a line with a fence each and 20 ns with one
// for sixteen.
fn costs(dir: &Path) {
    let machine = Machine::examine(&fixtures::vm_2cpu().root()).unwrap();
    let plan = Plan::new(&Experiment::parse(COSTS).unwrap(), &machine.topology, None).unwrap();
    let mut recorder =
        Recorder::create(dir, &plan, &serde_json::to_value(&machine).unwrap()).unwrap();
    for trial in 0..4 {
        for case in plan.measured() {
            let single = plan.cases[case].params.iter().any(|(_, value)| value == "64B");
            let sample = Sample {
                trial,
                step: case as u32,
                step_case: case as u32,
                case: case as u32,
                role: "writer".into(),
                length_ns: 3_000_000,
                busy_ns: 3_000_000,
                units: if single { 10_000 } else { 150_000 } + u64::from(trial),
                late_ns: Some(0),
                simulated: Some(false),
                ..Sample::default()
            };
            recorder.append(&[sample]).unwrap();
        }
    }
    recorder.finish(&Ended::Complete).unwrap();
}

#[test]
fn a_host_is_described_checked_and_fitted() {
    let folder = Folder::new();
    let run = |args: &[&str]| ringfence_in(folder.path(), args);
    costs(&folder.path().join("costs"));
    let described = run(&["machine", "new", "--out", "here.toml"]);
    if described.code() == Some(2)
        && described.stderr.contains("there is no machine file for a processor")
    {
        return;
    }
    assert!(described.said().contains("are assumed"), "{}", described.stdout);
    let shown = run(&["machine", "here.toml", "--why"]).said();
    assert!(
        shown.contains("probed: CPUID") && shown.contains("assumed: as in machines/"),
        "{shown}"
    );

    let check = run(&["machine", "check", "here.toml", "--from", "costs", "--json"]).json();
    let cells = |side: &str| check[side]["cells"].as_array().unwrap().len();
    assert_eq!(
        (cells("used"), cells("left_out")),
        (2, 2),
        "blocks of one line with a fence are used: {check}"
    );
    let text = run(&["machine", "check", "here.toml", "--from", "costs"]).said();
    assert!(text.contains("Left out") && text.contains("in the median"), "{text}");
    let table = run(&["machine", "check", "here.toml", "--from", "costs", "--markdown"]);
    assert_eq!(table.ok().matches("*used:*").count(), 2);

    let fit = ["calibrate", "here.toml", "--from", "costs", "--fit", "uncore.nt_ns", "--json"];
    let fitted = run(&[&fit[..], &["--use", "64B", "--out", "fitted.toml"]].concat()).json();
    let error = |when: &str| fitted[when]["used"]["error"]["mean"].as_f64().unwrap();
    assert!(error("after") <= error("before") * 1.001, "{fitted}");
    assert_eq!(fitted["after"]["left_out"]["cells"].as_array().unwrap().len(), 2);
    let values = run(&["machine", "fitted.toml", "--json"]).json();
    let fitted_values = values["values"].as_array().unwrap().iter();
    let told = fitted_values.filter(|value| {
        value["source"].as_str().unwrap().starts_with("fitted to 2 of 4 cells of ")
    });
    assert_eq!(told.count(), fitted["changes"].as_array().unwrap().len());
}

#[test]
fn what_moves_what_is_a_table() {
    let folder = Folder::new();
    let run = |args: &[&str]| ringfence_in(folder.path(), args);
    run(&[
        "write",
        "--instruction",
        "clwb",
        "--block",
        "64B",
        "--size",
        "64KiB",
        "--save",
        "small.toml",
    ])
    .ok();
    let args = ["machine", "sensitivity", "laptop", "--experiment", "small.toml"];
    let found = run(&[&args[..], &["--json"]].concat()).json();
    let rows = found["rows"].as_array().unwrap();
    assert!(
        rows.len() > 30 && rows.iter().all(|row| row["changes"].as_array().unwrap().len() == 1)
    );
    let table = run(&[&args[..], &["--markdown"]].concat());
    assert!(table.ok().contains("| `uncore.to_memory_ns` |"), "{}", table.stdout);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = Folder::new();
    let run = |args: &[&str]| ringfence_in(folder.path(), args);
    refused(&run(&["machine", "new", "--from", "nothing"]), "nothing");
    refused(&run(&["machine", "check", "laptop", "--from", "nothing"]), "nothing");
    refused(&run(&["machine", "check", "lapto", "--from", "."]), "did you mean laptop?");
    run(&[
        "write",
        "--machine",
        "laptop",
        "--size",
        "1MiB",
        "--trials",
        "4",
        "--quiet",
        "--out",
        "made",
    ])
    .ok();
    refused(&run(&["machine", "check", "laptop", "--from", "made"]), "this was simulated");
    refused(&run(&["machine", "new", "--from", "made"]), "not a survey's folder");
    // A survey is no better, whatever its datasets say.
    survey_in(&folder.path().join("survey"), harmless);
    let path = folder.path().join("survey/survey.json");
    let mut survey: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let made: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("made/machine.json")).unwrap())
            .unwrap();
    survey["machine"]["simulated"] = made["simulated"].clone();
    fs::write(&path, survey.to_string()).unwrap();
    refused(&run(&["machine", "check", "laptop", "--from", "survey"]), "this was simulated");
    let fit = ["calibrate", "laptop", "--from", "survey", "--fit", "uncore.nt_ns"];
    refused(&run(&fit), "this was simulated");
    fs::create_dir(folder.path().join("several")).unwrap();
    costs(&folder.path().join("several/one"));
    costs(&folder.path().join("several/two"));
    refused(&run(&["calibrate", "laptop", "--from", "several"]), "name one of them");
    let fit =
        |key: &str| run(&["calibrate", "laptop", "--from", "several/one", "--quiet", "--fit", key]);
    refused(&fit("core.nothing"), "laptop has no value core.nothing");
    refused(&fit("llc.inclusion"), "is not a number");
    let used = run(&["calibrate", "laptop", "--from", "several/one", "--quiet", "--use", "movsb"]);
    refused(&used, "no cell label contains 'movsb'");
}
