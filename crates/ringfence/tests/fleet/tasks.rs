//! `fleet` on this machine: tasks in turn, what fails and is run again, one table that other tools
//! read, and the report.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::support::readers::other_tools_read;
use crate::support::{
    self, Folder, Output, command, figure, joined, ringfence, ringfence_in, skip,
};

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

fn submit(folder: &Folder, dir: &str, tasks: &str, words: &[&str]) -> Output {
    let head = ["fleet", "submit", dir, "--local", tasks, "--"];
    ringfence_in(folder.path(), &[&head[..], words].concat())
}

#[test]
fn tasks_run_in_turn_and_become_one_table_and_a_report() {
    let folder = Folder::new();
    let said = submit(&folder, "fleet", "4", &WRITE);
    assert!(said.said().contains("4 done"), "{}", said.stdout);
    let dir = folder.path().join("fleet");
    let status = ringfence_in(folder.path(), &["fleet", "status", "fleet", "--json"]).json();
    for task in status["tasks"].as_array().unwrap() {
        assert_eq!((&task["state"], &task["counting"]), (&"done".into(), &1.into()), "{task}");
        let dataset =
            dir.join(format!("tasks/{:04}/attempt-1/data", task["number"].as_u64().unwrap()));
        ringfence_in(folder.path(), &["show", dataset.to_str().unwrap()]).ok();
    }
    let gathered = ringfence_in(folder.path(), &["fleet", "gather", "fleet"]);
    assert!(gathered.said().contains("4 of 4 tasks in fleet/table"), "{}", gathered.stdout);
    for table in ["figures", "samples"] {
        let found = other_tools_read(&dir.join("table").join(table));
        assert!(found.is_empty() || found.len() == 4, "{found:?}");
        // As many samples as each dataset has.
        assert!(found.iter().all(|(_, rows)| *rows > 0 && *rows == found[0].1), "{found:?}");
    }
    let report = ringfence_in(
        folder.path(),
        &["fleet", "report", "fleet", "--json", "--html", "fleet.html"],
    )
    .json();
    assert_eq!(report["hosts"].as_array().unwrap().len(), 4);
    assert_eq!(
        (report["groups"].as_array().unwrap().len(), &report["one_machine"]),
        (1, &true.into())
    );
    let cost = &report["figures"][0];
    assert_eq!(cost["figure"], "cost", "{cost}");
    // On a noisy machine a host may be without a figure, and says so; of fewer than four nothing is
    // said of others.
    let known = cost["hosts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|host| host["figure"]["value"].is_number())
        .count();
    assert_eq!(cost["expected"].is_null(), known < 4, "{cost}");
    if known == 4 {
        let expected = |name: &str| cost["expected"][name].as_f64().unwrap();
        assert_eq!(expected("hosts"), 4.0);
        assert!(
            expected("next_low") <= expected("low") && expected("low") <= expected("value"),
            "{cost}"
        );
    }
    assert!(
        fs::read_to_string(folder.path().join("fleet.html"))
            .unwrap()
            .contains("What to expect of further runs")
    );
}

// On a described machine every figure is known, however busy this one is.
fn simulated() -> Vec<&'static str> {
    [&WRITE[..], &["--machine", "laptop"]].concat()
}

#[test]
fn a_fleet_that_is_compared_with_itself_has_not_changed() {
    let folder = Folder::new();
    submit(&folder, "fleet", "4", &simulated()).ok();
    let words = ["fleet", "report", "fleet", "--compare", "fleet"];
    let compared = ringfence_in(folder.path(), &[&words[..], &["--json"]].concat()).json();
    let compared = &compared["compared"];
    // That a run has the number of another means nothing.
    assert_eq!((&compared["by"], &compared["hosts_after"]), (&"group".into(), &4.into()));
    let change = figure(&compared["changes"][0]["change"]["slowdown"]);
    assert!(change.is_none_or(|change| (change - 1.0).abs() < 1e-9), "{compared}");
    let text = ringfence_in(folder.path(), &[&words[..], &["--by", "processor,kernel"]].concat());
    for part in [
        "What changed",
        "tasks 4 of 4 done",
        "runs 4 runs of one machine",
        "before: fleet (4 runs)",
    ] {
        assert!(joined(&text.said()).contains(part), "{part}: {}", text.stdout);
    }
}

#[test]
fn few_runs_say_so_and_other_experiments_are_not_compared() {
    let folder = Folder::new();
    let run = |words: &[&str]| ringfence_in(folder.path(), &[&["fleet"], words].concat());
    let seeded = |seed: &'static str| [simulated(), vec!["--seed", seed]].concat();
    submit(&folder, "before", "2", &seeded("1")).ok();
    submit(&folder, "after", "2", &seeded("2")).ok();
    submit(&folder, "other", "1", &[&WRITE[..], &["--settle", "1ms"]].concat()).ok();
    let text = run(&["report", "before", "--html", "page.html"]);
    let few =
        "2 runs say nothing of the next run, nor which run differs from the others: that takes 4.";
    assert!(joined(&text.stdout).contains(few), "{}", text.stdout);
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(
        page.contains(few)
            && !page.contains("What to expect of")
            && !page.contains("outlier among")
    );
    // Only the seed differs.
    assert!(run(&["report", "after", "--compare", "before"]).said().contains("What changed"));
    let refused = run(&["report", "other", "--compare", "before"]);
    assert_eq!(
        (refused.code(), refused.stderr.lines().count()),
        (Some(2), 1),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("tasks of before ran 'write ")
            && refused.stderr.contains("--settle 1ms'")
    );
    // So it is where the words are those of a file.
    for (file, settle) in [("a.toml", "1ms"), ("b.toml", "2ms")] {
        ringfence_in(folder.path(), &[&WRITE[..], &["--settle", settle, "--save", file]].concat())
            .ok();
        run(&["submit", file, &file[..1], "--local", "1"]).ok();
    }
    let refused = run(&["report", "b", "--compare", "a"]);
    assert_eq!(refused.code(), Some(2));
    assert!(refused.stderr.contains("a has another experiment.toml than b"), "{}", refused.stderr);
}

#[test]
fn what_failed_says_why_and_runs_again() {
    let folder = Folder::new();
    let file = folder.path().join("absent/file");
    let target = format!("file:{}", file.display());
    let words = [&WRITE[..], &["--target", &target]].concat();
    let failed = submit(&folder, "fleet", "2", &words);
    assert_eq!(failed.code(), Some(1), "{}", failed.stderr);
    assert!(
        failed.stderr.contains("2 tasks without figures") && failed.stdout.contains("failed"),
        "{}",
        failed.stderr
    );
    let status = ringfence_in(folder.path(), &["fleet", "status", "fleet", "--json"]).json();
    let reason = status["tasks"][1]["reason"].as_str().unwrap();
    assert!(
        reason.contains("No such file or directory") && reason.contains("exit code"),
        "{reason}"
    );
    // Every missing task is reported.
    let report = ringfence_in(folder.path(), &["fleet", "report", "fleet", "--json"]).json();
    assert_eq!(
        (report["lost"].as_array().unwrap().len(), report["hosts"].as_array().unwrap().len()),
        (2, 0)
    );
    fs::create_dir(file.parent().unwrap()).unwrap();
    let again = ringfence_in(folder.path(), &["fleet", "retry", "fleet"]);
    assert!(
        again.said().contains("2 done") && again.said().contains("2 attempts"),
        "{}",
        again.stdout
    );
    let report = ringfence_in(folder.path(), &["fleet", "report", "fleet", "--json"]).json();
    assert_eq!(
        (report["lost"].as_array().unwrap().len(), report["hosts"].as_array().unwrap().len()),
        (0, 2)
    );
    let nothing = ringfence_in(folder.path(), &["fleet", "retry", "fleet"]);
    assert!(nothing.said().contains("nothing to rerun"), "{}", nothing.stdout);
}

#[test]
fn an_experiment_file_travels_with_the_fleet() {
    let folder = Folder::new();
    let save = [&WRITE[..], &["--save", "mine.toml"]].concat();
    ringfence_in(folder.path(), &save).ok();
    let said =
        ringfence_in(folder.path(), &["fleet", "submit", "mine.toml", "fleet", "--local", "1"]);
    assert!(said.said().contains("1 done"), "{}", said.stdout);
    fs::remove_file(folder.path().join("mine.toml")).unwrap();
    // A second attempt at a task that is done neither replaces nor mixes anything.
    fs::rename(folder.path().join("fleet"), folder.path().join("moved")).unwrap();
    ringfence_in(folder.path(), &["fleet", "task", "moved", "1"]).ok();
    let status = ringfence_in(folder.path(), &["fleet", "status", "moved", "--json"]).json();
    assert_eq!(status["tasks"][0]["attempts"].as_array().unwrap().len(), 2);
    assert_eq!(status["tasks"][0]["counting"], 1);
}

#[test]
fn what_cannot_be_a_fleet_is_refused_in_one_sentence() {
    let folder = Folder::new();
    fs::create_dir(folder.path().join("full")).unwrap();
    fs::write(folder.path().join("full/file"), "").unwrap();
    for (args, part) in [
        (
            &["fleet", "submit", "f", "--local", "1", "--", "show", "x"][..],
            "cannot be the task of a fleet",
        ),
        (
            &["fleet", "submit", "f", "--local", "1", "--", "fleet", "task", "f", "1"],
            "cannot be the task of a fleet",
        ),
        (
            &["fleet", "submit", "f", "--local", "1", "--", "write", "--save", "e.toml"],
            "leave it out",
        ),
        (
            &["fleet", "submit", "f", "--local", "1", "--", "run"],
            "name an experiment file after 'run'",
        ),
        (&["fleet", "submit", "f", "--local", "1", "--limit", "1h", "--", "survey"], "--limit"),
        (&["fleet", "submit", "full", "--local", "1", "--", "survey"], "is not empty"),
        (&["fleet", "submit", "f", "--", "survey"], "--slurm, or --local 2"),
        (&["fleet", "status", "f"], "name the folder of 'ringfence fleet submit'"),
        (&["fleet", "report", "full"], "name the folder of 'ringfence fleet submit'"),
        (&["fleet", "retry", "f"], "name the folder of 'ringfence fleet submit'"),
    ] {
        let refused = ringfence_in(folder.path(), args);
        assert_eq!(
            (refused.code(), refused.stderr.lines().count()),
            (Some(2), 1),
            "{args:?}: {}",
            refused.stderr
        );
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    let (mut without, mark) = command(
        folder.path(),
        &["fleet", "submit", "f", "--hosts", "2", "--slurm", "-p", "main", "--", "survey"],
    );
    without.env("PATH", folder.path());
    let refused = support::Running::spawn(without, mark).wait();
    assert_eq!(
        (refused.code(), refused.stderr.lines().count()),
        (Some(2), 1),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("sbatch was not found"), "{}", refused.stderr);
    assert_eq!(folder.entries(), ["full"]);
    assert!(ringfence(&["fleet", "submit", "--help"]).ok().contains("--slurm"));
}

/// Unmounted when it is dropped, also after a failure.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_leaves_the_older_table() {
    let folder = Folder::new();
    submit(&folder, "fleet", "1", &WRITE).ok();
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "none"]).arg(&disk).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        return skip("a tmpfs cannot be mounted here");
    }
    let copied = Command::new("sh")
        .args(["-c", "cp -r fleet/tasks fleet/nodes fleet/fleet.toml fleet/submissions disk"])
        .current_dir(folder.path())
        .status();
    let _mounted = Mounted(disk.clone());
    assert!(copied.is_ok_and(|status| status.success()));
    ringfence_in(folder.path(), &["fleet", "gather", "disk"]).ok();
    let table = |name: &str| fs::read(disk.join("table").join(name)).unwrap();
    let before = table("tasks.parquet");
    // All that is left.
    let mut ballast = fs::File::create(disk.join("ballast")).unwrap();
    while std::io::Write::write_all(&mut ballast, &[1; 4096]).is_ok() {}
    let full = ringfence_in(folder.path(), &["fleet", "gather", "disk"]);
    assert_eq!(full.code(), Some(1), "{}{}", full.stdout, full.stderr);
    assert!(
        full.stderr.contains("No space left on device") && full.stderr.contains("free some space"),
        "{}",
        full.stderr
    );
    assert_eq!(table("tasks.parquet"), before);
    let left: Vec<_> =
        fs::read_dir(&disk).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".new")), "{left:?}");
    drop(ballast);
    fs::remove_file(disk.join("ballast")).unwrap();
    ringfence_in(folder.path(), &["fleet", "gather", "disk"]).ok();
    // Where nothing can be written the table that is there is read, and without one it is said what
    // to do.
    let part = (disk.join("tasks/0001/attempt-1"), disk.join("tasks/0001/attempt-1.part"));
    let remount = |options: &str| {
        let done = Command::new("mount").args(["-o", options]).arg(&disk).status();
        assert!(done.is_ok_and(|status| status.success()));
    };
    let report = || ringfence_in(folder.path(), &["fleet", "report", "disk", "--json"]);
    remount("remount,ro");
    assert_eq!(report().json()["hosts"].as_array().unwrap().len(), 1);
    remount("remount,rw");
    // An attempt that cannot get its name is read without it.
    fs::rename(&part.0, &part.1).unwrap();
    remount("remount,ro");
    assert_eq!(report().json()["hosts"].as_array().unwrap().len(), 1);
    remount("remount,rw");
    fs::remove_dir_all(disk.join("table")).unwrap();
    remount("remount,ro");
    let refused = report();
    assert_eq!(
        (refused.code(), refused.stderr.lines().count()),
        (Some(1), 1),
        "{}",
        refused.stderr
    );
    for part in ["Read-only file system (os error 30)", "gather it first where it can be written"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
}
