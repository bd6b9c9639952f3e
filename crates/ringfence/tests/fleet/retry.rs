//! `fleet retry`, and running tasks: nothing is run twice, and nothing outlives the process that
//! started it.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::{
    self, Folder, Output, Running, gone, marked, ringfence_in, wait_for, wait_for_steps,
    write_program,
};

fn tasks(folder: &Folder) -> Vec<Value> {
    let status = ringfence_in(folder.path(), &["fleet", "status", "fleet", "--json"]).json();
    status["tasks"].as_array().unwrap().clone()
}

fn states(folder: &Folder) -> Vec<String> {
    tasks(folder).iter().map(|task| task["state"].as_str().unwrap().to_owned()).collect()
}

fn refused(folder: &Folder) {
    let refused = ringfence_in(folder.path(), &["fleet", "retry", "fleet"]);
    assert_eq!(
        (refused.code(), refused.stderr.lines().count()),
        (Some(2), 1),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("is submitting or running tasks of this fleet"),
        "{}",
        refused.stderr
    );
}

// Only a kill ends what it measures.
#[test]
fn a_submit_that_is_killed_takes_its_measurement_along() {
    let folder = Folder::new();
    let words = ["--trials", "1000", "--window", "20ms", "--rounds", "1"];
    let head = [
        "fleet",
        "submit",
        "fleet",
        "--local",
        "2",
        "--",
        "write",
        "--instruction",
        "nt",
        "--size",
        "1MiB",
    ];
    let run = Running::start(folder.path(), &[&head[..], &words].concat());
    let dir = folder.path().join("fleet");
    wait_for("the first task", || dir.join("tasks/0001/attempt-1.part").is_dir().then_some(()));
    wait_for_steps(&dir.join("tasks/0001/attempt-1.part/data"), 2);
    // What it has not come to is not lost, and not run by others.
    assert_eq!(states(&folder), ["running", "waiting"]);
    refused(&folder);
    assert!(marked(&run.mark).len() > 2, "the program, the verb, and its workers");
    run.signal(libc::SIGKILL);
    assert_eq!(gone(&run.mark).len(), 0);
    assert_eq!(states(&folder), ["failed", "missing"]);
}

#[test]
fn of_several_retries_one_runs_what_is_lost() {
    let folder = Folder::new();
    let absent = format!("file:{}", folder.path().join("absent/file").display());
    let head = [
        "fleet",
        "submit",
        "fleet",
        "--local",
        "2",
        "--",
        "write",
        "--instruction",
        "nt",
        "--target",
        &absent,
    ];
    assert_eq!(ringfence_in(folder.path(), &head).code(), Some(1));
    assert_eq!(states(&folder), ["failed"; 2]);
    // From now on each task waits until it may continue.
    let (program, gate) = (folder.path().join("fleet/ringfence"), folder.path().join("gate"));
    let waits =
        format!("#!/bin/sh\nwhile [ ! -e '{}' ]; do sleep 0.05; done\nexit 2\n", gate.display());
    write_program(&program, waits);
    let first = Running::start(folder.path(), &["fleet", "retry", "fleet"]);
    wait_for("the retry", || {
        folder.path().join("fleet/tasks/0001/attempt-2.part").is_dir().then_some(())
    });
    refused(&folder);
    refused(&folder);
    let waiting = Running::start(folder.path(), &["fleet", "status", "fleet", "--wait"]);
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(marked(&waiting.mark).len(), 1, "it waits as long as a task runs");
    fs::write(&gate, "").unwrap();
    assert_eq!(first.wait().code(), Some(1));
    let ended = waiting.wait();
    assert_eq!(ended.code(), Some(1), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("2 tasks without figures"), "{}", ended.stderr);
    let attempts = |task: &Value| task["attempts"].as_array().unwrap().len();
    assert_eq!(tasks(&folder).iter().map(attempts).collect::<Vec<_>>(), [2, 2]);
}

/// A fleet of two tasks that was handed to Slurm, of which one was run; Slurm's programs are ours.
struct Handed {
    folder: Folder,
}

impl Handed {
    fn new() -> Self {
        let folder = Folder::new();
        let submit = ["fleet", "submit", "fleet", "--local", "2", "--"];
        let write = ["write", "--instruction", "nt", "--size", "1MiB", "--trials", "4"];
        let quick = ["--rounds", "1", "--window", "2ms", "--probe", "0ms"];
        ringfence_in(folder.path(), &[&submit[..], &write, &quick].concat()).ok();
        let dir = folder.path().join("fleet");
        let spec = fs::read_to_string(dir.join("fleet.toml")).unwrap();
        fs::write(dir.join("fleet.toml"), spec.replace("engine = \"local\"", "engine = \"slurm\""))
            .unwrap();
        fs::remove_dir_all(dir.join("tasks/0002")).unwrap();
        fs::create_dir(dir.join("submissions/1")).unwrap();
        fs::write(dir.join("submissions/1/job.json"), r#"{"job": "7", "tasks": [1, 2]}"#).unwrap();
        fs::create_dir(folder.path().join("programs")).unwrap();
        let handed = Self { folder };
        handed.program("sbatch", "echo 1");
        handed
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.folder.path().join("programs").join(name);
        write_program(&path, format!("#!/bin/sh\n{script}\n"));
    }

    fn knows_no_job(&self) {
        self.program(
            "scontrol",
            "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1",
        );
    }

    fn submissions(&self) -> PathBuf {
        self.folder.path().join("fleet/submissions")
    }

    fn run(&self, words: &[&str]) -> Output {
        let folder = self.folder.path();
        let (mut command, mark) = support::command(folder, &[&["fleet"], words].concat());
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", folder.join("programs").display()));
        Running::spawn(command, mark).wait()
    }

    fn lost_task(&self) -> Value {
        self.run(&["status", "fleet", "--json"]).json()["tasks"][1].clone()
    }
}

#[test]
fn what_slurm_does_not_tell_is_not_lost() {
    let fleet = Handed::new();
    fleet.program(
        "scontrol",
        "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; \
         exit 1",
    );
    let status = fleet.run(&["status", "fleet", "--json"]).json();
    assert_eq!(
        (&status["tasks"][0]["state"], &status["tasks"][1]["state"]),
        (&"done".into(), &"unknown".into())
    );
    let reason = status["tasks"][1]["reason"].as_str().unwrap();
    assert!(reason.contains("Unable to contact slurm controller"), "{reason}");
    let refused = fleet.run(&["retry", "fleet"]);
    assert_eq!(
        (refused.code(), refused.stderr.lines().count()),
        (Some(1), 1),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("whether 1 of 2 tasks still run"), "{}", refused.stderr);
    assert!(!fleet.submissions().join("2").exists());
    let report = fleet.run(&["report", "fleet", "--json"]).json();
    assert_eq!((&report["tasks"]["done"], &report["tasks"]["unknown"]), (&1.into(), &1.into()));
    // Where it answers that it has nothing, the task is lost, and its options are those of both.
    fleet.knows_no_job();
    fleet.run(&["retry", "fleet", "--limit", "90min", "--slurm", "--exclude=n7"]).ok();
    let told = fs::read_to_string(fleet.submissions().join("2/command.txt")).unwrap();
    assert!(told.contains("--time=90 --exclude=n7"), "{told}");
    let script = fs::read_to_string(fleet.submissions().join("2/script.sh")).unwrap();
    assert!(script.contains("--time=90\n") && script.contains("--array=2\n"), "{script}");
}

// A busy controller may list the job later, or only its accounts know it.
#[test]
fn a_job_whose_number_was_never_learned_is_looked_for_by_its_name() {
    let fleet = Handed::new();
    fleet.knows_no_job();
    fleet.run(&["retry", "fleet"]).ok();
    let second = fleet.submissions().join("2");
    let (job, handed) = (second.join("job.json"), second.join("handed.json"));
    fs::remove_file(&job).unwrap();
    fleet.program("squeue", "true");
    fleet.program("sacct", "true");
    let task = fleet.lost_task();
    assert!(
        task["state"] == "unknown" && task["reason"].as_str().unwrap().contains("does not list it"),
        "{task}"
    );
    assert_eq!(fleet.run(&["retry", "fleet"]).code(), Some(1));
    let text = fs::read_to_string(&handed).unwrap();
    let mut earlier: Value = serde_json::from_str(&text).unwrap();
    earlier["at"] = 1.into();
    fs::write(&handed, earlier.to_string()).unwrap();
    assert_eq!(fleet.lost_task()["state"], "missing");
    let name = earlier["name"].as_str().unwrap();
    fleet.program("sacct", &format!("case \"$*\" in *--name={name}*) echo '31_[2]' ;; esac"));
    fleet.lost_task();
    let adopted: Value = serde_json::from_str(&fs::read_to_string(&job).unwrap()).unwrap();
    assert_eq!((&adopted["job"], &adopted["tasks"][0]), (&"31".into(), &2.into()));
    // Where all of it was removed, there is a first submission again.
    fs::remove_dir_all(fleet.submissions()).unwrap();
    fleet.run(&["retry", "fleet"]).ok();
    assert!(fleet.submissions().join("1/job.json").is_file());
}
