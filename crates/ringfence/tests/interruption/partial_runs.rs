//! A run that is cut short keeps what it has measured and says where.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use ringfence_dataset::Dataset;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::sample::Sample;

use crate::support::{
    Folder, Output, Running, cpus, kill, marked, ringfence_in, skip, wait_for, wait_for_steps,
};

const ARGS: [&str; 17] = [
    "neighbours",
    "--victim",
    "chase footprint=256KiB",
    "--aggressor",
    "write size=1MiB",
    "--trials",
    "1000",
    "--rounds",
    "2",
    "--window",
    "5ms",
    "--probe",
    "1ms",
    "--quiet",
    "--out",
    "data",
    "--json",
];

// A run that has recorded some steps; none on a machine that cannot hold it.
fn under_way(folder: &Path) -> Option<Running> {
    if cpus().len() < 2 {
        skip("neighbours need two CPUs");
        return None;
    }
    let run = Running::start(folder, &ARGS);
    wait_for_steps(&folder.join("data"), 5);
    Some(run)
}

fn one_sentence<'a>(output: &'a Output, part: &str) -> &'a str {
    assert_eq!(output.code(), Some(1), "{}", output.stderr);
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    assert!(output.stderr.contains(part), "{part}: {}", output.stderr);
    &output.stderr
}

// Whole pairs: each step has both its windows, each window the tasks of its case.
fn assert_whole_pairs(dataset: &Dataset) {
    assert!(!dataset.samples.is_empty());
    let mut steps: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for sample in &dataset.samples {
        steps.entry((sample.trial, sample.round, sample.step)).or_default().push(sample);
    }
    for (step, samples) in steps {
        for position in [0, 1] {
            let here: Vec<_> =
                samples.iter().filter(|sample| sample.position == position).collect();
            let case = here.first().unwrap_or_else(|| panic!("step {step:?} lacks a window")).case;
            assert_eq!(here.len(), dataset.plan.cases[case as usize].active.len(), "step {step:?}");
        }
    }
}

#[test]
fn ctrl_c_keeps_the_data_and_says_where() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        let folder = Folder::new();
        let Some(run) = under_way(folder.path()) else { return };
        run.signal(signal);
        let output = run.wait();
        let said = one_sentence(&output, "interrupted");
        assert!(said.contains("is in data"), "{said}");
        let dataset = Dataset::open(&folder.path().join("data")).unwrap();
        assert!(!dataset.unfinished());
        assert_eq!(dataset.manifest.ended, Some(Ended::Interrupted));
        assert_whole_pairs(&dataset);
        let shown = ringfence_in(folder.path(), &["show", "data"]);
        assert!(!shown.said().contains("was killed"), "{}", shown.stdout);
        let shown = ringfence_in(folder.path(), &["show", "data", "--json"]).json();
        let printed = output.json_of_any();
        assert_eq!(shown["datasets"][0]["results"], printed["results"]);
    }
}

// Its windows are so long that it measures nothing before it is interrupted.
fn long_run(folder: &Path, window: &str) -> Running {
    let write = ["write", "--instruction", "nt", "--block", "4KiB", "--size", "1MiB", "--quiet"];
    let run =
        Running::start(folder, &[&write[..], &["--trials", "2", "--window", window]].concat());
    // It is started once the signals are watched.
    wait_for("the guardian", || {
        marked(&run.mark).into_iter().find(|process| process.name == "ringfence-guardian")
    });
    run
}

#[test]
fn ctrl_c_before_anything_is_measured_names_no_folder() {
    let folder = Folder::new();
    let run = long_run(folder.path(), "2s");
    run.signal(libc::SIGINT);
    let output = run.wait();
    // Where the signal came late, one window has been measured.
    let results = folder.results();
    if results.is_empty() {
        one_sentence(&output, "interrupted before anything was measured");
        assert_eq!(output.stdout, "");
    } else {
        one_sentence(&output, &format!("is in {}", results[0].display()));
    }
}

// A server that is never ready: without the signal the run would fail after 100 s.
#[test]
fn ctrl_c_does_not_wait_for_what_is_being_prepared() {
    let folder = Folder::new();
    let server = ["neighbours", "--server", "sleep 900", "--ready", "line:ready"];
    let client = ["--ready-within", "100s", "--client", "true", "--aggressor", "alu", "--quiet"];
    let run = Running::start(folder.path(), &[&server[..], &client].concat());
    wait_for("the server", || {
        marked(&run.mark).into_iter().find(|process| process.name == "sleep")
    });
    run.signal(libc::SIGINT);
    one_sentence(&run.wait(), "interrupted before anything was measured");
    assert!(folder.results().is_empty() && folder.entries().is_empty());
}

#[test]
fn a_second_ctrl_c_ends_a_long_window() {
    let folder = Folder::new();
    let mut run = long_run(folder.path(), "10min");
    let ended = wait_for("the end", || {
        run.signal(libc::SIGINT);
        std::thread::sleep(std::time::Duration::from_millis(50));
        run.child.try_wait().unwrap()
    });
    assert_eq!(ended.code(), Some(1));
    let output = run.wait();
    assert_eq!(output.stdout, "");
    // The first one suffices as long as the task is being prepared.
    let in_window = output.stderr.contains("ended at once");
    let said = if in_window { "by a second Ctrl-C" } else { "before anything was measured" };
    one_sentence(&output, said);
    assert!(folder.entries().is_empty(), "{:?}", folder.entries());
}

#[test]
fn a_killed_run_leaves_an_unfinished_dataset_that_opens() {
    let folder = Folder::new();
    let Some(run) = under_way(folder.path()) else { return };
    run.signal(libc::SIGKILL);
    assert_eq!(run.wait().code(), None);
    let dataset = Dataset::open(&folder.path().join("data")).unwrap();
    assert!(dataset.unfinished());
    assert_whole_pairs(&dataset);
    // How fast the chase was alone at its starts is known of all that has begun.
    let trials = dataset.samples.iter().map(|sample| sample.trial).max().unwrap() + 1;
    assert!(dataset.manifest.starts.len() >= trials as usize, "{:?}", dataset.manifest.starts);
    let shown = ringfence_in(folder.path(), &["show", "data"]);
    assert!(shown.said().contains("was killed"), "{}", shown.stdout);
    let shown = ringfence_in(folder.path(), &["show", "data", "--json"]).json();
    assert_eq!(shown["datasets"][0]["unfinished"], true);
}

#[test]
fn a_killed_worker_ends_the_run_and_is_named() {
    let folder = Folder::new();
    let Some(mut run) = under_way(folder.path()) else { return };
    // One whose trial was over is not missed: then another.
    wait_for("the end", || {
        let worker =
            marked(&run.mark).into_iter().rfind(|process| process.name == "ringfence-worker");
        if let Some(worker) = worker {
            kill(worker.pid, libc::SIGKILL);
        }
        (0..40).find_map(|_| {
            std::thread::sleep(Duration::from_millis(50));
            run.child.try_wait().unwrap()
        })
    });
    let output = run.wait();
    let said = one_sentence(&output, "SIGKILL");
    let named = ["victim 0 on CPU", "aggressor 0 on CPU"].iter().any(|role| said.contains(role));
    assert!(named && said.contains("is in data"), "{said}");
    let dataset = Dataset::open(&folder.path().join("data")).unwrap();
    assert!(
        matches!(&dataset.manifest.ended, Some(Ended::Failed(why)) if said.contains(why.as_str()))
    );
    assert_whole_pairs(&dataset);
}

// Stopped, the program cannot end a window; its tasks run on.
#[test]
fn windows_in_which_the_program_did_not_run_are_left_out_and_told() {
    let folder = Folder::new();
    let run = Running::start(
        folder.path(),
        &[
            "write",
            "--instruction",
            "none",
            "--block",
            "4KiB",
            "--size",
            "64KiB",
            "--trials",
            "4",
            "--rounds",
            "8",
            "--window",
            "100ms",
            "--probe",
            "0s",
            "--quiet",
            "--out",
            "data",
        ],
    );
    wait_for_steps(&folder.path().join("data"), 2);
    for _ in 0..4 {
        run.signal(libc::SIGSTOP);
        std::thread::sleep(Duration::from_millis(400));
        run.signal(libc::SIGCONT);
        std::thread::sleep(Duration::from_millis(150));
    }
    let output = run.wait();
    let dataset = Dataset::open(&folder.path().join("data")).unwrap();
    let late = |sample: &&Sample| sample.lasted_too_long(Duration::from_millis(100));
    let steps: BTreeSet<_> = dataset
        .samples
        .iter()
        .filter(late)
        .map(|sample| (sample.trial, sample.round, sample.step))
        .collect();
    assert!(
        !steps.is_empty(),
        "{:?}",
        dataset.samples.iter().map(|sample| sample.late_ns).collect::<Vec<_>>()
    );
    assert!(dataset.samples.iter().filter(late).all(|sample| sample.length_ns > 300_000_000));
    let said = format!("Left out: {} of ", steps.len());
    assert!(output.stdout.contains(&said), "{said}: {}", output.stdout);
}

// Its victim's first run takes longer than this test.
#[test]
fn a_proof_that_is_killed_before_its_first_result_says_how_to_go_on() {
    if cpus().len() < 2 {
        return skip("a proof needs two CPUs");
    }
    let folder = Folder::new();
    let args = ["prove", "--victim-run", "sleep 30", "--aggressor", "alu", "--out", "p"];
    let run = Running::start(folder.path(), &args);
    wait_for("the question", || folder.path().join("p/question.json").exists().then_some(()));
    run.signal(libc::SIGKILL);
    assert_eq!(run.wait().code(), None);
    let shown = ringfence_in(folder.path(), &["show", "p"]);
    assert_eq!(shown.code(), Some(2), "{}", shown.stderr);
    let said =
        "this proof ended before its first result; continue with: ringfence prove --resume p";
    assert!(shown.stderr.contains(said), "{}", shown.stderr);
}
