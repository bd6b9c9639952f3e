//! `fleet` where files of it are damaged: what is lost stays with its task, and is said.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Folder, Output, ringfence_in};

const WRITE: [&str; 15] = [
    "write",
    "--instruction",
    "nt",
    "--block",
    "4KiB",
    "--size",
    "1MiB",
    "--trials",
    "4",
    "--rounds",
    "1",
    "--window",
    "2ms",
    "--probe",
    "0ms",
];

fn fleet(folder: &Folder, tasks: &str) -> PathBuf {
    let head = ["fleet", "submit", "fleet", "--local", tasks, "--"];
    ringfence_in(folder.path(), &[&head[..], &WRITE].concat()).ok();
    folder.path().join("fleet")
}

fn run(folder: &Folder, words: &[&str]) -> Output {
    ringfence_in(folder.path(), &[&["fleet"], words].concat())
}

fn tasks(folder: &Folder) -> Vec<Value> {
    run(folder, &["status", "fleet", "--json"]).json()["tasks"].as_array().unwrap().clone()
}

fn attempt(dir: &Path, task: u32) -> PathBuf {
    dir.join(format!("tasks/{task:04}/attempt-1"))
}

// One byte in the middle is another.
fn flip(path: &Path) {
    let mut content = fs::read(path).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 0xff;
    // Not through the name of another table that shares it.
    fs::remove_file(path).unwrap();
    fs::write(path, content).unwrap();
}

fn nodes(report: &Value) -> Vec<&str> {
    report["hosts"].as_array().unwrap().iter().map(|host| host["node"].as_str().unwrap()).collect()
}

#[test]
fn a_damaged_record_costs_its_task_alone_and_that_runs_again() {
    let folder = Folder::new();
    let dir = fleet(&folder, "4");
    fs::write(attempt(&dir, 1).join("started.json"), "{").unwrap();
    fs::write(attempt(&dir, 2).join("outcome.json"), "").unwrap();
    fs::write(dir.join("tasks/0003/first.json"), "[]").unwrap();
    let states: Vec<(Value, String)> = tasks(&folder)
        .iter()
        .map(|task| (task["state"].clone(), task["reason"].as_str().unwrap_or_default().to_owned()))
        .collect();
    let said = |task: usize, state: &str, part: &str| {
        assert!(states[task - 1].0 == state && states[task - 1].1.contains(part), "{states:?}");
    };
    // What the outcome says as well, or what is the only one, is not lost.
    said(1, "done", "started.json is damaged");
    said(2, "failed", "outcome.json is damaged");
    said(3, "done", "first.json is damaged");
    said(4, "done", "");
    let gathered = run(&folder, &["gather", "fleet"]);
    assert!(gathered.said().contains("3 of 4 tasks"), "{}", gathered.stdout);
    assert!(gathered.stdout.contains("task 2, failed: "), "{}", gathered.stdout);
    let report = run(&folder, &["report", "fleet", "--json"]).json();
    assert_eq!((nodes(&report).len(), &report["lost"][0]["task"]), (3, &2.into()), "{report}");
    let again = run(&folder, &["retry", "fleet"]);
    assert!(again.said().contains("4 done"), "{}", again.stdout);
    assert_eq!(tasks(&folder)[1]["counting"], 2);
}

#[test]
fn rows_are_made_again_and_what_cannot_be_had_is_left_out_and_said() {
    let folder = Folder::new();
    let dir = fleet(&folder, "4");
    run(&folder, &["gather", "fleet"]).ok();
    // Of these the datasets are whole.
    flip(&attempt(&dir, 1).join("rows/figures.parquet"));
    fs::write(attempt(&dir, 2).join("rows/samples.parquet"), "PAR1").unwrap();
    assert!(run(&folder, &["gather", "fleet"]).said().contains("4 of 4 tasks"));
    // Of these they are not.
    let data = attempt(&dir, 3).join("data");
    flip(&data.join("samples.parquet"));
    flip(&attempt(&dir, 3).join("rows/samples.parquet"));
    fs::write(attempt(&dir, 4).join("host.json"), "{\"node\": 7}").unwrap();
    let gathered = run(&folder, &["gather", "fleet"]);
    for part in
        ["2 of 4 tasks", "left out: task 3 on ", "left out: task 4 on ", "host.json is damaged"]
    {
        assert!(gathered.said().contains(part), "{part}: {}", gathered.stdout);
    }
    let report = run(&folder, &["report", "fleet", "--json", "--html", "fleet.html"]).json();
    assert_eq!(nodes(&report).len(), 2);
    let left: Vec<u64> = report["left_out"]
        .as_array()
        .unwrap()
        .iter()
        .map(|left| left["task"].as_u64().unwrap())
        .collect();
    assert_eq!(left, [3, 4], "{report}");
    assert!(
        report["left_out"][0]["reason"].as_str().unwrap().contains("samples.parquet"),
        "{report}"
    );
    assert_eq!(report["tasks"]["done"], 4);
    let text = run(&folder, &["report", "fleet"]);
    let words = text.said().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("left out task 3 on "), "{words}");
    let page = fs::read_to_string(folder.path().join("fleet.html")).unwrap();
    assert!(page.contains("Left out: task 4 on "));
    // They have figures, which a retry would not bring back: it leaves them alone.
    assert!(run(&folder, &["retry", "fleet"]).said().contains("nothing to rerun"));
}

// Another digit is still a number: only a sum tells that it is not the one that was written.
fn another_digit(path: &Path) {
    let mut text = fs::read(path).unwrap();
    let digit = |at: &usize| text[*at].is_ascii_digit() && text[*at - 1] == b'.';
    let at = (1..text.len()).find(digit).expect("there is a number");
    text[at] = if text[at] == b'5' { b'6' } else { b'5' };
    fs::write(path, text).unwrap();
}

#[test]
fn runs_of_commands_that_are_not_as_they_were_written_are_left_out() {
    let folder = Folder::new();
    let versus =
        ["fleet", "submit", "fleet", "--local", "3", "--", "versus", "--a", "sleep 0.001", "--b"];
    let versus = [&versus[..], &["sleep 0.002", "--runs", "6", "--warmup", "0"]].concat();
    ringfence_in(folder.path(), &versus).ok();
    let dir = folder.path().join("fleet");
    let [one, two, three] = [1, 2, 3].map(|task| attempt(&dir, task));
    let saved = fs::read(two.join("data/versus.json")).unwrap();
    flip(&one.join("data/runs.parquet"));
    another_digit(&two.join("data/versus.json"));
    // Rows that are whole are believed.
    assert!(run(&folder, &["gather", "fleet"]).said().contains("3 of 3 tasks"));
    for attempt in [&one, &two, &three] {
        flip(&attempt.join("rows/figures.parquet"));
    }
    let gathered = run(&folder, &["gather", "fleet"]);
    for part in [
        "1 of 3 tasks",
        "attempt-1/data/runs.parquet is damaged: its checksum is wrong; restore it, or remove ",
        "attempt-1/data/versus.json is damaged: its checksum is wrong; restore it, or remove ",
    ] {
        assert!(gathered.said().contains(part), "{part}: {}", gathered.stdout);
    }
    fs::write(two.join("data/versus.json"), saved).unwrap();
    let gathered = run(&folder, &["gather", "fleet"]);
    assert!(gathered.said().contains("2 of 3 tasks"), "{}", gathered.stdout);
}

#[test]
fn a_status_says_what_the_report_leaves_out_and_the_attempt_can_be_made_again() {
    let folder = Folder::new();
    let dir = fleet(&folder, "3");
    fs::remove_file(attempt(&dir, 1).join("host.json")).unwrap();
    for part in ["data", "rows"] {
        fs::remove_dir_all(attempt(&dir, 2).join(part)).unwrap();
    }
    let tasks_before = tasks(&folder);
    for (task, missing) in
        [(1, "host.json is missing; "), (2, "data is missing, and so are its rows of the table; ")]
    {
        let reason = tasks_before[task - 1]["reason"].as_str().unwrap();
        let remedy =
            format!("{missing}restore it, or remove fleet/tasks/000{task}/attempt-1 and retry");
        assert!(tasks_before[task - 1]["state"] == "done" && reason.ends_with(&remedy), "{reason}");
    }
    assert!(tasks_before[2]["reason"].is_null(), "{}", tasks_before[2]);
    let left_out: Vec<&Value> = tasks_before.iter().map(|task| &task["left_out"]).collect();
    assert_eq!(left_out, [true, true, false]);
    let waited = run(&folder, &["status", "fleet", "--wait"]);
    assert_eq!(waited.code(), Some(1), "{}", waited.stdout);
    assert!(waited.stderr.contains("2 tasks without figures"), "{}", waited.stderr);
    let gathered = run(&folder, &["gather", "fleet"]);
    assert!(gathered.said().contains("1 of 3 tasks"), "{}", gathered.stdout);
    assert_eq!(gathered.stdout.matches("and retry").count(), 2, "{}", gathered.stdout);
    for task in [1, 2] {
        fs::remove_dir_all(attempt(&dir, task)).unwrap();
    }
    assert!(run(&folder, &["retry", "fleet"]).said().contains("3 done"));
    assert!(tasks(&folder).iter().all(|task| task["reason"].is_null()));
}

// Its program was killed behind the last file, and before the rename.
#[test]
fn an_attempt_that_is_whole_but_for_its_name_has_its_figures() {
    let folder = Folder::new();
    let dir = fleet(&folder, "1");
    let (named, part) = (attempt(&dir, 1), dir.join("tasks/0001/attempt-1.part"));
    fs::rename(&named, &part).unwrap();
    fs::remove_file(dir.join("tasks/0001/first.json")).unwrap();
    assert_eq!(tasks(&folder)[0]["counting"], 1);
    assert!(named.is_dir() && !part.exists() && dir.join("tasks/0001/first.json").is_file());
    let report = run(&folder, &["report", "fleet", "--json"]).json();
    assert_eq!(
        (nodes(&report).len(), report["left_out"].as_array().unwrap().len()),
        (1, 0),
        "{report}"
    );
}

// A part of the table that was damaged after it was made is repaired by the next report.
#[test]
fn a_damaged_table_is_made_again() {
    let folder = Folder::new();
    let dir = fleet(&folder, "2");
    run(&folder, &["gather", "fleet"]).ok();
    let figures = dir.join("table/figures");
    let host = fs::read_dir(&figures).unwrap().next().unwrap().unwrap().path();
    let part = fs::read_dir(host).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&part).unwrap();
    flip(&part);
    let report = run(&folder, &["report", "fleet", "--json"]).json();
    assert_eq!((nodes(&report).len(), report["left_out"].as_array().unwrap().len()), (2, 0));
    assert_eq!(fs::read(&part).unwrap(), whole);
}
