//! `claims` and `contribute`: the page in the documentation, and that nothing which names a
//! machine's owner is published.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringfence_dataset::{Dataset, Recorder};
use ringfence_experiment::Experiment;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use ringfence_machine::{Machine, fixtures};
use serde_json::json;

use crate::support::{Folder, Output, joined, ringfence_in};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn refused(output: &Output, part: &str) {
    assert_eq!(output.code(), Some(2), "{}", output.stderr);
    assert!(joined(&output.stderr).contains(part), "{}", output.stderr);
    assert_eq!(output.stderr.trim().lines().count(), 1, "one sentence: {}", output.stderr);
}

#[test]
fn the_page_in_the_documentation_is_what_the_verb_writes() {
    let folder = Folder::new();
    let written = folder.path().join("claims.md");
    ringfence_in(&workspace(), &["claims", "--markdown", written.to_str().unwrap()]).ok();
    let text = fs::read_to_string(written).unwrap();
    let kept = workspace().join("docs/evidence/claims.md");
    if std::env::var_os("RINGFENCE_BLESS").is_some() {
        fs::write(&kept, &text).unwrap();
    }
    assert!(
        text == fs::read_to_string(kept).unwrap(),
        "docs/evidence/claims.md differs; RINGFENCE_BLESS=1 accepts it"
    );
}

#[test]
fn the_page_of_tables_is_what_the_verb_writes() {
    let folder = Folder::new();
    let written = folder.path().join("notes.md");
    let shown =
        ringfence_in(&workspace(), &["notes", "show", "--markdown", written.to_str().unwrap()]);
    let text = fs::read_to_string(written).unwrap();
    let kept = workspace().join("docs/evidence/notes.md");
    if std::env::var_os("RINGFENCE_BLESS").is_some() {
        fs::write(&kept, &text).unwrap();
    }
    assert!(
        text == fs::read_to_string(kept).unwrap(),
        "docs/evidence/notes.md differs; RINGFENCE_BLESS=1 accepts it"
    );
    // Every document is there, in the terminal as well.
    let said = shown.ok();
    for id in ["000", "001", "002", "003", "004"] {
        assert!(said.lines().any(|line| line.starts_with(&format!("{id}  "))), "{said}");
    }
}

// A screen, a row for each case: the three sizes of mcf are one measurement.
#[test]
fn a_note_fits_on_a_screen() {
    let shown = |name: &str| ringfence_in(&workspace(), &["notes", "show", name]).ok().to_owned();
    let of_003 = shown("note-003");
    let rows = of_003.lines().filter(|line| line.starts_with("1 x clwb")).collect::<Vec<_>>();
    let [row] = rows[..] else { panic!("{of_003}") };
    assert!(row.contains("+0.8, +0.3, 0.0 %"), "{row}");
    for (name, most) in [("000", 40), ("002", 48), ("003", 24), ("004", 54)] {
        let text = shown(name);
        assert!(text.lines().count() <= most, "{name}: {}\n{text}", text.lines().count());
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
    let none = shown("001");
    assert!(none.contains("It has no figures."), "{none}");
    refused(&ringfence_in(&workspace(), &["notes", "show", "009"]), "there is no document '009'");
}

#[test]
fn what_was_simulated_is_packed_apart_and_counted() {
    let folder = Folder::new();
    let run = |args: &[&str]| ringfence_in(folder.path(), args);
    let before = run(&["claims", "--json"]).json();
    assert_eq!(
        (&before["datasets"], before["claims"][0]["verdict"].as_str()),
        (&json!(0), Some("not-run"))
    );
    let said = run(&["claims"]).said();
    assert!(said.starts_with("There are no results here"), "{said}");
    assert!(!said.contains("has no dataset"), "{said}");
    let ordering = workspace().join("experiments/what-does-ordering-cost-a-flush.toml");
    // Its question and cases, with less of each.
    let text =
        fs::read_to_string(ordering).unwrap().replace("256MiB", "1MiB").replace("[10]", "[4]");
    fs::write(folder.path().join("small.toml"), text.replace(", \"nt\"", "")).unwrap();
    run(&["run", "small.toml", "--machine", "cascade-lake-optane", "--quiet", "--out", "found"])
        .ok();
    let said = run(&["contribute", "found"]).said();
    assert!(
        said.contains("results/simulated/cascade-lake-optane/what-does-ordering-cost-a-flush-"),
        "{said}"
    );
    refused(&run(&["contribute", "found"]), "already exists");
    // Another machine may not pass for the one of that name.
    let file = run(&["machine", "cascade-lake-optane", "--file"]).ok().to_owned();
    assert!(file.contains("rfo_window = 9"), "{file}");
    let file = file.replace("rfo_window = 9", "rfo_window = 10");
    fs::write(folder.path().join("other.toml"), file).unwrap();
    run(&["run", "small.toml", "--machine", "other.toml", "--quiet", "--out", "other"]).ok();
    refused(&run(&["contribute", "other"]), "give its file another name");
    let after = run(&["claims", "--json", "--html", "page.html"]).json();
    let first = &after["claims"][0];
    assert_eq!((&after["datasets"], &first["basis"]), (&json!(1), &json!("simulated")), "{first}");
    assert_ne!(first["verdict"], "not-run");
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(
        page.contains("<main class=\"simulated\">")
            && page.contains("cascade-lake-optane (simulated)")
    );
    // It cannot be passed off as measured.
    fs::create_dir(folder.path().join("results/measured")).unwrap();
    let moved = folder.path().join("results/measured/cascade-lake-optane");
    fs::rename(folder.path().join("results/simulated/cascade-lake-optane"), moved).unwrap();
    refused(&run(&["claims"]), "this was simulated: move it to simulated/");
    refused(&run(&["claims", "--results", "none"]), "there is no such folder");
    refused(&run(&["claims", "--results", "small.toml"]), "this is not a folder");
    fs::create_dir(folder.path().join("empty")).unwrap();
    refused(&run(&["claims", "--results", "empty"]), "there is no dataset here");
    // What a run wrote counts as well.
    let own = run(&["notes", "show", "000", "--results", "found"]).said();
    assert!(own.contains("Simulated (cascade-lake-optane): holds"), "{own}");
    refused(
        &run(&["claims", "--html", "x", "--markdown", "x"]),
        "--html and --markdown name one file",
    );
}

const HOST: &str = "plantedhost";
const USER: &str = "planteduser";

fn text(question: &str, victim: &str) -> String {
    format!(
        r#"schema = 2
name = "planted"
question = "{question}"
metric = "{victim}"
[[role]]
name = "{victim}"
task = {{ workload = "write", target = "file:/home/{USER}/pm/file", size = "1MiB" }}
[[role]]
name = "other"
[[role.task]]
workload = "command"
run = [
    "/home/{USER}/bin/solve --data /home/{USER}/a",
    "/home/{USER}/bin/solve --data /home/{USER}/b",
]
[[arm]]
name = "alone"
active = ["{victim}"]
[[arm]]
name = "beside"
active = ["{victim}", "other"]
baseline = "alone"
"#
    )
}

// A dataset with these names wherever a dataset can have any.
fn planted(dir: &Path, question: &str, victim: &str) {
    planted_with(dir, &text(question, victim), victim, &format!("file:/home/{USER}/pm/file"));
}

fn planted_with(dir: &Path, experiment: &str, victim: &str, noted: &str) {
    let tree = fixtures::xeon_2s64t();
    let machine = Machine::examine(&tree.root()).unwrap();
    let plan = Plan::new(&Experiment::parse(experiment).unwrap(), &machine.topology, None).unwrap();
    let mut machine = serde_json::to_value(&machine).unwrap();
    machine["targets"][0]["name"] = format!("dax:/home/{USER}/pm").into();
    machine["findings"] = json!([{ "title": format!("{HOST} is busy") }]);
    machine["host"] = HOST.into();
    machine["topology"]["notes"] = json!([format!("/home/{USER}/sys was read")]);
    let mut placed = plan.placed.clone();
    placed.notes.push(format!("{noted} is on an ordinary file system"));
    let plan = Plan::stored(plan.experiment, plan.cases, plan.not_run, placed).unwrap();
    let mut recorder = Recorder::create(dir, &plan, &machine).unwrap();
    for trial in 0..4 {
        for position in 0..2 {
            let sample = Sample {
                trial,
                position,
                step_case: 1,
                case: position,
                role: victim.into(),
                length_ns: 1_000_000,
                busy_ns: 1_000_000,
                units: 1000 + u64::from(trial),
                late_ns: Some(0),
                simulated: Some(false),
                ..Sample::default()
            };
            recorder.append(&[sample]).unwrap();
        }
    }
    recorder.finish(&Ended::Complete).unwrap();
}

fn contribute(folder: &Folder, dataset: &str) -> Output {
    let run = Command::new(env!("CARGO_BIN_EXE_ringfence"))
        .args(["contribute", dataset])
        .current_dir(folder.path())
        .env("USER", USER)
        .env("HOME", format!("/home/{USER}"))
        .env("HOSTNAME", HOST)
        .output()
        .unwrap();
    Output {
        status: run.status,
        stdout: String::from_utf8(run.stdout).unwrap(),
        stderr: String::from_utf8(run.stderr).unwrap(),
    }
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

#[test]
fn nothing_that_is_published_names_host_user_or_home() {
    let folder = Folder::new();
    planted(&folder.path().join("found"), "What does a write cost?", "victim");
    // It is there before, or the search below proves nothing.
    let before = fs::read(folder.path().join("found/machine.json")).unwrap();
    assert!(String::from_utf8(before).unwrap().contains(HOST));
    let said = contribute(&folder, "found").said();
    assert!(
        said.contains("left out: of the machine: findings, host")
            && said.contains("became 'solve'"),
        "{said}"
    );
    let mut all = Vec::new();
    files(&folder.path().join("results"), &mut all);
    assert!(all.len() >= 4, "{all:?}");
    let names = [HOST, USER, "/home", "solve --data"];
    for path in &all {
        let bytes = fs::read(path).unwrap();
        for name in names {
            let has =
                bytes.windows(name.len()).any(|part| part.eq_ignore_ascii_case(name.as_bytes()));
            assert!(!has, "{} has {name}", path.display());
            assert!(!path.strip_prefix(folder.path()).unwrap().to_string_lossy().contains(name));
        }
    }
    // What the columns hold is compressed in the file.
    let dir = all[0].parent().unwrap();
    let kept = Dataset::open(dir).unwrap();
    let columns =
        format!("{:?} {:?} {:?} {}", kept.samples, kept.plan, kept.manifest, kept.machine);
    assert!(names.iter().all(|name| !columns.contains(name)), "{columns}");
    // What figures need is as it was.
    let first = Dataset::open(&folder.path().join("found")).unwrap();
    assert_eq!(kept.samples, first.samples);
    assert_eq!(kept.manifest.created, first.manifest.created);
    assert_eq!(kept.plan.cases.len(), first.plan.cases.len());
    let labels: Vec<&str> = kept.plan.cases.iter().map(|case| case.label.as_str()).collect();
    assert!(
        labels.iter().any(|label| label.contains("solve (2)")),
        "two commands stay two: {labels:?}"
    );
    assert_eq!(kept.machine["processor"], first.machine["processor"]);
    assert_eq!(kept.machine["topology"]["cpus"], first.machine["topology"]["cpus"]);
}

#[test]
fn folders_of_commits_become_numbers_and_stay_apart() {
    let folder = Folder::new();
    let experiment = format!(
        r#"schema = 2
name = "planted"
metric = "victim"
[measure]
window = "400ms"
[[role]]
name = "victim"
[role.task]
workload = "commit"
dir = ["/home/{USER}", "/home/{USER}/logs", "/srv/{HOST}", "/tmp", "."]
size = "1MiB"
[[role]]
name = "other"
task = {{ workload = "commit", dir = "/home/{USER}/logs", size = "1MiB" }}
[[arm]]
name = "alone"
active = ["victim"]
[[arm]]
name = "beside"
active = ["victim", "other"]
baseline = "alone"
set.other = {{ dir = "/var/lib/{HOST}" }}
"#
    );
    planted_with(
        &folder.path().join("found"),
        &experiment,
        "victim",
        &format!("/home/{USER}/logs"),
    );
    let said = contribute(&folder, "found").said();
    for (from, to) in [
        (format!("/home/{USER}"), 1),
        (format!("/home/{USER}/logs"), 2),
        (format!("/srv/{HOST}"), 3),
        (format!("/var/lib/{HOST}"), 4),
    ] {
        assert!(joined(&said).contains(&format!("'{from}' became '/folder/{to}'")), "{said}");
    }
    let mut all = Vec::new();
    files(&folder.path().join("results"), &mut all);
    let names = [HOST, USER, "/home", "/srv", "/var/lib"];
    for path in &all {
        let bytes = fs::read(path).unwrap();
        for name in names {
            assert!(
                !bytes.windows(name.len()).any(|part| part == name.as_bytes()),
                "{}: {name}",
                path.display()
            );
        }
    }
    let kept = Dataset::open(all[0].parent().unwrap()).unwrap();
    let columns =
        format!("{:?} {:?} {:?} {}", kept.samples, kept.plan, kept.manifest, kept.machine);
    assert!(names.iter().all(|name| !columns.contains(name)), "{columns}");
    let labels: std::collections::BTreeSet<&str> =
        kept.plan.cases.iter().map(|case| case.label.as_str()).collect();
    for dir in ["dir=/folder/1", "dir=/folder/2", "dir=/folder/3", "dir=/tmp", "dir=."] {
        assert!(
            labels.iter().any(|label| label.split_whitespace().any(|word| word == dir)),
            "{dir}: {labels:?}"
        );
    }
    // Five alone, and five beside the other.
    assert_eq!(labels.len(), 10, "{labels:?}");
}

#[test]
fn what_cannot_be_cleaned_is_refused_and_nothing_is_written() {
    let folder = Folder::new();
    planted(&folder.path().join("question"), &format!("What does {USER} see?"), "victim");
    planted(&folder.path().join("role"), "What does a write cost?", HOST);
    planted(&folder.path().join("path"), "Is /opt/secret fast?", "victim");
    planted(&folder.path().join("cut"), "What does a write cost?", "victim");
    let manifest = folder.path().join("cut/manifest.json");
    let text = fs::read_to_string(&manifest).unwrap().replace("\"complete\"", "\"interrupted\"");
    fs::write(&manifest, text.replacen("\"state\": \"interrupted\"", "\"state\": \"complete\"", 1))
        .unwrap();
    for (dataset, part) in [
        ("question", "its experiment: the name 'planteduser' would be published"),
        ("role", "its experiment: the name 'plantedhost' would be published"),
        ("path", "its experiment: the path '/opt/secret' would be published"),
        ("cut", "it was cut short"),
        ("nothing", "nothing"),
        ("question/manifest.json", "this is a file and not a folder"),
    ] {
        refused(&contribute(&folder, dataset), part);
    }
    assert!(!folder.path().join("results").exists());
}
