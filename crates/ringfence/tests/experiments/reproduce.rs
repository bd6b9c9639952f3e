//! `reproduce`: a shipped experiment from its name to published figures beside measured ones.

use serde_json::Value;

use crate::support::disk::{empty, on_disk};
use crate::support::{
    Folder, Running, cpus, figure, joined, ringfence, ringfence_in, skip, wait_for,
};

#[test]
fn one_experiment_runs_and_every_published_cell_is_answered() {
    let folder = Folder::new();
    let name = "what-does-sloppy-measuring-cost";
    let printed = ringfence_in(
        folder.path(),
        &["reproduce", name, "--quick", "--quiet", "--json", "--out", "r"],
    );
    let printed = printed.json();
    let rows = printed["experiments"][0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!((&rows[0]["figure"], &rows[1]["figure"]), (&Value::from(0), &Value::from(1)));
    for row in rows {
        assert!(row["ratio"].as_f64().is_some_and(|ratio| ratio > 2.0), "{row}");
        let measured = &row["measured"];
        // On a machine with persistent memory there is a ratio; elsewhere the reason, and DRAM
        // beside it.
        if let Some(reason) = measured["not_run"].as_str() {
            assert!(reason.contains("mounted with DAX"), "{row}");
            assert!(figure(&row["instead"]["ratio"]).is_none_or(|ratio| ratio > 0.0), "{row}");
        } else {
            assert!(measured["direction"].is_string(), "{row}");
        }
    }
    let shown = ringfence_in(folder.path(), &["show", "r", "--json"]).json();
    assert_eq!(shown["datasets"][0]["manifest"]["name"], name);
}

// The limit is of the whole run: what writes to disks is left out from then on, and nothing else.
#[test]
fn the_limit_of_what_is_written_ends_no_other_experiment() {
    let Some(data) = on_disk("reproduce") else { return };
    let folder = Folder::new();
    let names = [
        "does-a-log-want-fsync-or-fdatasync",
        "is-io-uring-faster-for-a-durable-write",
        "does-the-lab-see-two-percent",
    ];
    let out = folder.path().join("r");
    let flags = ["--quick", "--json", "--write-limit", "4KiB", "--out", out.to_str().unwrap()];
    let ran = ringfence_in(&data, &[&["reproduce"], &names[..], &flags].concat());
    assert_eq!(ran.code(), Some(4), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("is-io-uring-faster-for-a-durable-write: left out"),
        "{}",
        ran.stderr
    );
    assert!(joined(&ran.stderr).contains("a limit was reached"), "{}", ran.stderr);
    let printed: Value = serde_json::from_str(&ran.stdout).unwrap();
    let measured = printed["experiments"].as_array().unwrap();
    let measured: Vec<&str> =
        measured.iter().filter_map(|one| one["experiment"].as_str()).collect();
    assert_eq!(measured, [names[0], names[2]]);
    assert_eq!(printed["experiments"][0]["ended"]["why"], "limit");
    // The folder that is named for resuming exists.
    let named = joined(&ran.stderr)
        .split("ringfence run --resume ")
        .nth(1)
        .map(|rest| rest.trim().to_owned());
    assert!(named.is_none_or(|dir| std::path::Path::new(&dir).is_dir()), "{}", ran.stderr);
    assert!(empty(&data));
}

// What was measured before is printed, and that it is not all.
#[test]
fn an_interruption_is_told_beside_what_was_measured() {
    let folder = Folder::new();
    let names = ["does-the-lab-see-two-percent", "how-does-bandwidth-depend-on-the-access-size"];
    let run = Running::start(
        folder.path(),
        &[&["reproduce"], &names[..], &["--quiet", "--out", "r"]].concat(),
    );
    let begun = folder.path().join("r").join(names[1]);
    wait_for("the second experiment", || begun.exists().then_some(()));
    run.signal(libc::SIGINT);
    let ended = run.wait();
    assert_eq!(ended.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stdout.contains("Does the lab see"), "{}{}", ended.stdout, ended.stderr);
    assert!(joined(&ended.stderr).contains("interrupted"), "{}", ended.stderr);
    if ended.stdout.contains("access size") {
        assert!(ended.stdout.contains("Ended early: interrupted"), "{}", ended.stdout);
        assert!(
            ringfence_in(folder.path(), &["show", "r"]).ok().contains("Ended early: interrupted")
        );
    }
}

#[test]
fn what_cannot_run_at_all_is_told_and_leaves_nothing() {
    let folder = Folder::new();
    let name = "does-a-writer-gain-beside-mcf";
    let args = ["reproduce", name, "--quick", "--quiet", "--dax", "/nowhere"];
    let topology = ringfence(&["topology", "--json"]).json();
    let cores = topology["cores"].as_array().unwrap();
    if cores.iter().any(|core| core["cpus"].as_str().is_some_and(|cpus| cpus.contains(['-', ','])))
    {
        // Here its cases in DRAM run; nothing is missing that could be installed.
        return println!("this machine has SMT siblings");
    }
    let text = ringfence_in(folder.path(), &args);
    assert_eq!(text.code(), Some(1), "{}", text.stderr);
    assert!(text.stderr.contains("nothing was measured"), "{}", text.stderr);
    let text = &text.stdout;
    assert!(
        text.contains("not run, because no file system is mounted with DAX at /nowhere")
            || text.contains("SMT sibling"),
        "{text}"
    );
    assert!(text.contains("None of 5 published measurements was made here"), "{text}");
    assert!(folder.entries().is_empty(), "{:?}", folder.entries());
}

#[test]
fn experiments_are_listed_saved_and_refused_by_name() {
    let folder = Folder::new();
    let text = ringfence(&["reproduce", "--list"]);
    assert!(text.ok().contains("what-does-a-flush-cost-by-block-size"), "{}", text.stdout);
    ringfence_in(folder.path(), &["reproduce", "--save", "files"]).ok();
    // All of them, also those of which nothing was published.
    let listed = text.stdout.lines().filter(|line| !line.starts_with(' ')).count();
    let with_figures = text.stdout.matches(" published comparison").count();
    assert!(listed > 20 && (5..listed).contains(&with_figures), "{}", text.stdout);
    let one = ringfence(&["reproduce", "--list", "what-does-a-flush-cost-by-block-size"]);
    assert!(one.ok().starts_with("what-does-a-flush-cost-by-block-size ("), "{}", one.stdout);
    assert_eq!(one.stdout.lines().filter(|line| !line.starts_with(' ')).count(), 1);
    assert_eq!(std::fs::read_dir(folder.path().join("files")).unwrap().count(), listed);
    let wrong = ringfence(&["reproduce", "what-does-a-flush-cost-by-block-sice"]);
    assert_eq!(wrong.code(), Some(2));
    assert!(
        wrong.stderr.contains("did you mean 'what-does-a-flush-cost-by-block-size'"),
        "{}",
        wrong.stderr
    );
}

// Programs that people have: their command lines are understood by the versions at hand, and they
// can be paused, resumed and ended like any other.
#[test]
fn the_experiments_with_other_peoples_programs_run() {
    for (program, name, cases) in [
        ("stress-ng", "how-much-do-cache-stressors-slow-a-pointer-chase", 4),
        ("fio", "how-much-does-fio-slow-a-pointer-chase", 4),
    ] {
        if !ringfence_engine::available::can_be_started(program) || cpus().len() < 2 {
            skip(&format!("{program} is not installed, or there is one CPU only"));
            continue;
        }
        let file = format!("{}/../../experiments/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let folder = Folder::new();
        // On a busy machine a program may not have its turn in a short window; one that works has
        // it in a long one.
        let mut idle = Vec::new();
        for window in ["10ms", "100ms", "1s", "4s"] {
            let args = [
                "run", &file, "--trials", "2", "--rounds", "1", "--window", window, "--probe",
                "0ms", "--json",
            ];
            let printed =
                ringfence_in(folder.path(), &[&args[..], &["--quiet", "--out", window]].concat());
            let printed = printed.json();
            let results = printed["results"].as_array().unwrap();
            assert_eq!(results.len(), cases, "{printed}");
            let works = |result: &&Value| {
                result["co_runners"][0]["units_per_s"].as_f64().is_some_and(|rate| rate > 0.0)
            };
            idle = results.iter().filter(|result| !works(result)).cloned().collect();
            // What the programs wrote is gone.
            assert!(
                folder.entries().iter().all(|name| name.ends_with('s')),
                "{:?}",
                folder.entries()
            );
            if idle.is_empty() {
                break;
            }
        }
        assert!(idle.is_empty(), "{program} did nothing in {idle:?}");
    }
}

// One that is named twice is run once.
#[test]
fn a_note_names_the_experiments_that_test_its_claims() {
    let folder = Folder::new();
    let one = "how-many-misses-by-region-size";
    ringfence_in(folder.path(), &["notes", "run", one, "note-001", "--save", "e"]).ok();
    let mut names: Vec<String> = std::fs::read_dir(folder.path().join("e"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert!(names.len() > 2 && names.contains(&format!("{one}.toml")), "{names:?}");
    assert!(names.contains(&"how-long-do-reads-take-beside-a-noisy-neighbour.toml".into()));
    assert!(!names.contains(&"ring-entry-size.toml".into()), "{names:?}");
}
