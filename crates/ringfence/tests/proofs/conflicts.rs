//! `prove` on programs whose conflict is known, since they make it themselves.

use std::fs;
use std::path::Path;

use ringfence_dataset::Dataset;
use serde_json::Value;

use crate::support::{
    Folder, Output, Running, conflict, cpus, figure, joined, ringfence_in, skip, wait_for_steps,
};
use crate::{alone, beside_others};

fn ready(folder: &Folder) -> bool {
    let enough = cpus().len() >= 2;
    if enough {
        conflict(folder);
    } else {
        skip("a victim and an aggressor need two CPUs");
    }
    enough
}

const PROGRAMS: [&str; 21] = [
    "prove",
    "--victim",
    "./conflict victim beat",
    "--victim-progress",
    "lines",
    "--aggressor",
    "./conflict aggressor beat",
    "--aggressor-progress",
    "lines",
    "--budget",
    "100%",
    "--trials",
    "8",
    "--window",
    "100ms",
    "--settle",
    "40ms",
    "--warm-up",
    "50ms",
    "--quiet",
    "--out=proof",
];

fn prove(folder: &Path, more: &[&str]) -> Output {
    ringfence_in(folder, &[&PROGRAMS[..], more].concat())
}

// A busy machine may leave one proof undecided, which it then says; not three in a row.
fn decided(folder: &Path, more: &[&str]) -> Output {
    let mut output = prove(folder, more);
    for _ in 0..2 {
        if output.code() == Some(4) {
            fs::remove_dir_all(folder.join("proof")).unwrap();
            output = prove(folder, more);
        }
    }
    output
}

fn proof(output: &Output) -> Value {
    output.json_of_any()
}

#[test]
fn a_lever_that_helps_is_found_confirmed_and_told() {
    let _alone = alone();
    let folder = Folder::new();
    if !ready(&folder) {
        return;
    }
    let output = decided(folder.path(), &["--try-env", "GENTLE=yes", "--levers", "env"]);
    let (text, said) = (output.ok(), output.said());
    for part in [
        "MET, with a lever. ",
        "Without it, on the same trials: ",
        "'GENTLE=yes' keeps the victim within the budget",
        "keep it: start the aggressor with it in its environment",
    ] {
        assert!(said.contains(part), "{part}:\n{text}");
    }
    // A command is a line of its own, to be copied whole.
    assert!(text.contains("\n    env GENTLE=yes ./conflict aggressor beat\n"), "{text}");
    // The same again from the folder, figure by figure.
    let shown = ringfence_in(folder.path(), &["show", "proof"]);
    assert!(text.contains(shown.ok()), "{text}\n{}", shown.stdout);
    let details = ringfence_in(folder.path(), &["show", "-v", "proof"]).said();
    let parts = ["With the aggressor running: ", ": over the budget", "Measured again on fresh"];
    for part in parts {
        assert!(details.contains(part), "{part}:\n{details}");
    }

    // What is newer, or lacks a part, is not judged by the rest.
    let refused = |part: &str| {
        let output = ringfence_in(folder.path(), &["show", "proof"]);
        assert_eq!((output.code(), output.stdout.as_str()), (Some(2), ""), "{}", output.stderr);
        assert!(
            output.stderr.contains(part) && output.stderr.lines().count() == 1,
            "{}",
            output.stderr
        );
    };
    let record = folder.path().join("proof/question.json");
    let written = fs::read_to_string(&record).unwrap();
    fs::write(&record, written.replacen("\"schema\": 2", "\"schema\": 9", 1)).unwrap();
    refused("schema 9 is newer than this program");
    fs::write(&record, written).unwrap();
    fs::remove_dir_all(folder.path().join("proof/baseline")).unwrap();
    refused("proof/baseline is missing");
}

#[test]
fn where_no_lever_helps_the_exit_code_is_3() {
    let _alone = alone();
    let folder = Folder::new();
    if !ready(&folder) {
        return;
    }
    let output = decided(folder.path(), &["--try-env", "USELESS=1", "--levers", "env", "--json"]);
    assert_eq!(output.code(), Some(3), "{}", output.stderr);
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    let proof = &proof(&output)["proof"];
    assert_eq!(proof["verdict"], "missed");
    assert!(figure(&proof["tried"][0]["victim"]).is_none_or(|slowdown| slowdown > 2.0), "{proof}");
}

#[test]
fn a_proof_goes_on_where_it_was_killed() {
    let _alone = alone();
    let folder = Folder::new();
    if !ready(&folder) {
        return;
    }
    let run = Running::start(
        folder.path(),
        &[&PROGRAMS[..], &["--try-env", "GENTLE=yes", "--levers", "env"]].concat(),
    );
    wait_for_steps(&folder.path().join("proof/baseline"), 3);
    run.signal(libc::SIGKILL);
    run.wait();
    let shown = ringfence_in(folder.path(), &["show", "proof"]);
    assert!(
        shown.said().contains("cut short; continue with: ringfence prove --resume proof"),
        "{}",
        shown.stdout
    );
    ringfence_in(folder.path(), &["report", "proof"]).ok();
    let page = fs::read_to_string(folder.path().join("proof/report.html")).unwrap();
    assert!(
        page.contains(
            "Incomplete: it was cut short; continue with: ringfence prove --resume proof."
        )
    );
    let wrong = ringfence_in(folder.path(), &["run", "--resume", "proof"]);
    assert_eq!(wrong.code(), Some(2), "{}", wrong.stderr);
    assert!(wrong.stderr.contains("ringfence prove --resume proof"), "{}", wrong.stderr);
    let again = ringfence_in(folder.path(), &["prove", "--resume", "proof", "--quiet"]);
    assert!(again.said().contains("'GENTLE=yes' keeps the victim"), "{}", again.stdout);
}

#[test]
fn whole_runs_are_victims_and_failing_ones_are_named() {
    let _beside = beside_others();
    if cpus().len() < 2 {
        return skip("a victim and an aggressor need two CPUs");
    }
    let folder = Folder::new();
    let victim = "--victim-run=sh -c 'i=0; while [ $i -lt 80000 ]; do i=$((i+1)); done'";
    let args = [
        "prove",
        victim,
        "--aggressor",
        "alu",
        "--budget",
        "90%",
        "--trials",
        "6",
        "--out",
        "a",
        "--quiet",
        "--json",
    ];
    let output = ringfence_in(folder.path(), &args);
    let proof = &proof(&output)["proof"];
    assert_eq!(proof["unit"], "runs");
    assert!(figure(&proof["beside"]).is_none_or(|slowdown| slowdown > 0.0), "{proof}");
    assert_eq!(
        output.code(),
        Some(match proof["verdict"].as_str().unwrap() {
            "nothing_needed" | "met" => 0,
            "missed" => 3,
            "undecided" => 4,
            _ => 5,
        })
    );

    let failing = [
        "prove",
        "--victim-run",
        "sh -c 'echo broken input >&2; exit 4'",
        "--aggressor",
        "alu",
        "--out",
        "b",
        "--quiet",
    ];
    let output = ringfence_in(folder.path(), &failing);
    assert_eq!(output.code(), Some(1), "{}", output.stderr);
    assert!(
        output.stderr.contains("broken input") && output.stderr.contains("exit 4"),
        "{}",
        output.stderr
    );
    assert_eq!(folder.entries(), ["a"]);
}

// Dies while it is measured, after a while that differs.
#[test]
fn an_aggressor_that_dies_early_ends_the_proof_and_is_named() {
    let _beside = beside_others();
    if cpus().len() < 2 {
        return skip("a victim and an aggressor need two CPUs");
    }
    let folder = Folder::new();
    let aggressor =
        "sh -c 'trap \"\" TERM; (sleep 600 &); sleep 1.3; echo out of memory >&2; exit 9'";
    let args = [
        "prove",
        "--victim",
        "alu",
        "--aggressor",
        aggressor,
        "--budget",
        "0.1%",
        "--out",
        "a",
        "--quiet",
    ];
    let output = ringfence_in(folder.path(), &args);
    assert_eq!(output.code(), Some(1), "{}", output.stderr);
    for part in ["out of memory", "aggressor 0 on CPU", "--resume a"] {
        assert!(output.stderr.contains(part), "{part}: {}", output.stderr);
    }
}

#[test]
fn questions_that_make_no_sense_are_refused_in_a_sentence() {
    let _beside = beside_others();
    let folder = Folder::new();
    let cases: [(&[&str], &str); 11] = [
        (&["--victim", "alu"], "--aggressor"),
        (
            &["--victim", "alu", "--aggressor", "alu", "--budget", "0.02"],
            "--budget: '0.02' is not a share",
        ),
        (&["--victim", "alu", "--aggressor", "write block=64B,4KiB"], "one task"),
        (&["--victim", "alu", "--aggressor", "alu", "--levers", "magic"], "is not a lever"),
        (&["--victim", "alu", "--aggressor", "alu", "--try-env", "X"], "not of the form KEY=VALUE"),
        (&["--victim", "alu", "--victim-progress", "lines", "--aggressor", "alu"], "built-in"),
        (&["--victim", "alu", "--aggressor", "alu", "--aggressors", "4000"], "4000 other cores"),
        (&["--victim", "alu", "--aggressor", "alu", "--trials", "1"], "at least 4"),
        (
            &["--victim", "alu", "--aggressor", "dirty", "--other-dir", "nowhere"],
            "in 'nowhere': No such file",
        ),
        (
            &["--victim", "alu", "--aggressor", "dirty", "--other-dir", "/dev/null"],
            "in '/dev/null': Not a directory",
        ),
        (&["--resume", "nothing-here"], "nothing-here"),
    ];
    for (args, part) in cases {
        let output = ringfence_in(folder.path(), &[&["prove"], args].concat());
        assert_eq!(output.code(), Some(2), "{args:?}: {}", output.stderr);
        assert!(output.stderr.contains(part), "{args:?}: {}", output.stderr);
    }
    assert_eq!(folder.entries(), Vec::<String>::new());
}

const BUSY: &str = "sh -c 'while :; do i=1; done'";

fn ends_with(args: &[&str], code: i32, parts: &[&str]) -> (Folder, Output) {
    ends_within(1, args, code, parts)
}

// With several attempts where other work on the machine can lead to another answer: it stops a
// victim as the check does, or delays an aggressor that is to fail.
fn ends_within(attempts: u32, args: &[&str], code: i32, parts: &[&str]) -> (Folder, Output) {
    let attempt = || {
        let folder = Folder::new();
        let output = ringfence_in(folder.path(), &[&["prove", "--out=a"], args].concat());
        (folder, output)
    };
    let (mut folder, mut output) = attempt();
    for _ in 1..attempts {
        if output.code() != Some(code) {
            (folder, output) = attempt();
        }
    }
    assert_eq!(output.code(), Some(code), "{args:?}: {}\n{}", output.stdout, output.stderr);
    let said = joined(&format!("{} {}", output.stdout, output.stderr));
    for part in parts {
        assert!(said.contains(part), "{args:?}: {part}\n{said}");
    }
    (folder, output)
}

#[test]
fn an_aggressor_that_does_nothing_proves_nothing() {
    let _beside = beside_others();
    if cpus().len() < 2 {
        return skip("a victim and an aggressor need two CPUs");
    }
    for (aggressor, why) in [
        ("true", "it ends at once, and is only started again and again"),
        ("sleep 1000", "it used less than 1 % of a CPU"),
        ("idle", "it used less than 1 % of a CPU"),
    ] {
        let args =
            ["--victim=alu", "--budget=90%", "--trials=4", "--aggressor", aggressor, "--quiet"];
        let (folder, _) =
            ends_with(&args, 5, &["nothing happened. The aggressor did next to nothing", why]);
        // The folder tells the same.
        let shown = ringfence_in(folder.path(), &["show", "a", "--json"]);
        assert_eq!(shown.json()["proof"]["verdict"], "nothing_happened");
        assert!(folder.path().join("a/report.html").exists());
    }
}

#[test]
fn an_aggressor_that_works_is_said_to() {
    let _beside = beside_others();
    if cpus().len() < 2 {
        return skip("a victim and an aggressor need two CPUs");
    }
    let args = ["--victim=alu", "--budget=90%", "--trials=4", "--aggressor", BUSY, "--levers=env"];
    let folder = Folder::new();
    let output =
        ringfence_in(folder.path(), &[&["prove", "--out=a", "--json"], &args[..]].concat());
    let used = &proof(&output)["proof"]["record"]["worked"]["used"];
    let share = used["cpu_ns"].as_f64().unwrap() / used["windows_ns"].as_f64().unwrap();
    assert!((0.02..1.5).contains(&share), "{used}");
    // What the time allows is said at the start.
    assert!(
        output.stderr.contains("In 4 trials, a slowdown of 90 % is detected"),
        "{}",
        output.stderr
    );
}

// Two that want one CPU each get half of it; a weight gives nearly all of it to one.
#[test]
fn a_weight_divides_a_cpu_that_tasks_share() {
    let _alone = alone();
    let cpu = cpus()[0].to_string();
    let args = [
        "--victim=alu",
        "--aggressor=alu",
        "--victim-cpus",
        &cpu,
        "--aggressor-cpus",
        &cpu,
        "--levers=weight,quota",
        // The kernel divides by a new weight within milliseconds.
        "--isolation-settle=200ms",
        // Long, so that each task gets CPU time in every window, even while other programs use the
        // machine.
        "--window=100ms",
        "--rounds=1",
        // Not to be kept beside one's like, so that the levers are tried.
        "--budget=0%",
        "--trials=8",
        "--out=a",
        "--json",
    ];
    let folder = Folder::new();
    let output = ringfence_in(folder.path(), &[&["prove"], &args[..]].concat());
    let proof = &proof(&output)["proof"];
    let refused = proof["record"]["refused"].as_array().unwrap();
    if let Some(reason) = refused.iter().find(|refused| refused[0] == "weight") {
        return skip(&format!("a weight: {}", reason[1]));
    }
    // How the two divide what the CPU has left, however much that is: by their work in the same
    // windows.
    let dataset = Dataset::open(&folder.path().join("a/levers")).unwrap();
    let share_of_victim = |arm: &str| {
        let cases = &dataset.plan.cases;
        let own = dataset.samples.iter().filter(|sample| cases[sample.case as usize].arm == arm);
        let done = |role: &str| {
            own.clone().filter(|s| &*s.role == role).map(|s| s.units).sum::<u64>() as f64
        };
        done("victim") / (done("victim") + done("aggressor"))
    };
    let (beside, last) = (share_of_victim("beside"), share_of_victim("cpu weight 1"));
    assert!((0.3..0.7).contains(&beside) && last > 0.85, "{beside} and {last}: {proof}");
    let tried = proof["tried"].as_array().unwrap();
    let told =
        tried.iter().find(|tried| tried["candidate"]["arm"]["name"] == "cpu weight 1").unwrap();
    assert!(figure(&told["victim"]).is_none_or(|slowdown| slowdown > 0.0), "{proof}");
    for place in ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu"] {
        let names =
            std::fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let left: Vec<_> =
            names.filter(|name| name.to_string_lossy().contains("-weight")).collect();
        assert!(left.is_empty(), "{place}: {left:?}");
    }
}

// It ends after a fixed time, however it is treated, as wrk -d or fio --runtime do.
#[test]
fn a_victim_that_ends_by_the_clock_is_refused() {
    let _alone = alone();
    if cpus().len() < 2 {
        return skip("a victim and an aggressor need two CPUs");
    }
    let args =
        ["--victim-run=sleep 0.6", "--budget=90%", "--trials=4", "--aggressor", BUSY, "--quiet"];
    let (folder, _) =
        ends_within(3, &args, 5, &["Nothing can be said: stopped half", "instead of about twice"]);
    assert_eq!(folder.entries(), ["a"]);
    let shown = ringfence_in(folder.path(), &["show", "a"]);
    assert!(shown.said().contains("instead of"), "{}", shown.stdout);
    // It is refused in the same way when it is resumed.
    let again = ringfence_in(folder.path(), &["prove", "--resume", "a", "--quiet"]);
    assert_eq!(again.code(), Some(5), "{}", again.stderr);
}

// It prints as many lines as the clock says, and makes up for what it missed.
#[test]
fn a_victim_that_catches_up_is_refused() {
    let _alone = alone();
    let folder = Folder::new();
    if !ready(&folder) {
        return;
    }
    let victim = format!("--victim={}/conflict clock", folder.path().display());
    // What it makes up for after a pause between windows weighs little in long ones.
    let args = [&victim, "--victim-progress=lines", "--window=300ms", "--budget=90%", "--trials=4"];
    ends_within(
        3,
        &[&args[..], &["--aggressor", BUSY, "--quiet"]].concat(),
        5,
        &["instead of about twice"],
    );
}

#[test]
fn a_victim_without_progress_is_refused_before_anything_is_measured() {
    let _beside = beside_others();
    if cpus().len() < 2 {
        return skip("a victim and an aggressor need two CPUs");
    }
    let sleeps = ["--victim=sleep 100", "--victim-progress=lines", "--aggressor=alu"];
    let (folder, output) = ends_with(
        &sleeps,
        2,
        &["the victim 'sleep 100' showed no progress", "--victim run:COMMAND"],
    );
    assert!(
        !output.stderr.contains("baseline") && folder.entries().is_empty(),
        "{}",
        output.stderr
    );
    let (folder, _) = ends_with(&["--victim=idle", "--aggressor=alu"], 2, &["'idle' does no work"]);
    assert!(folder.entries().is_empty());
}

#[test]
fn a_time_that_is_too_short_is_refused_with_the_least() {
    let _beside = beside_others();
    if cpus().len() < 2 {
        return skip("a victim and an aggressor need two CPUs");
    }
    let short = ["--victim=alu", "--aggressor=alu", "--time=1ms"];
    let (folder, _) = ends_with(&short, 2, &["--time 1ms is too short", "takes at least"]);
    assert!(folder.entries().is_empty());
    // The advised time is accepted.
    let small = ["--victim=alu", "--aggressor=alu", "--window=1ms", "--rounds=1", "--quiet"];
    let (_, refused) = ends_with(&[&small[..], &["--time=1ms"]].concat(), 2, &["too short"]);
    let said = joined(&refused.stderr);
    let (_, advised) = said.split_once("give --time ").expect("a time is advised");
    let time = format!("--time={}", advised.split(',').next().unwrap());
    let accepted = Folder::new();
    let words = [&["prove", "--out=p", &time][..], &small].concat();
    let output = ringfence_in(accepted.path(), &words);
    assert!([0, 3, 4].contains(&output.code().unwrap()), "{time}: {}", output.stderr);
    assert!(!output.stderr.contains("too short"), "{time}: {}", output.stderr);
    let long_run = ["--victim-run=sleep 100", "--aggressor=alu", "--time=2s"];
    let (folder, _) = ends_with(&long_run, 2, &["--time 2s is too short", "one run of the victim"]);
    assert!(folder.entries().is_empty());
}

// At its start or later, of one role or the other: the same code, and the role by its name.
#[test]
fn whoever_fails_is_named_and_the_exit_code_is_the_same() {
    if cpus().len() < 2 {
        return skip("a victim and an aggressor need two CPUs");
    }
    let _beside = beside_others();
    let fine = "sh -c 'while :; do echo; done'";
    let at_once = ["sh -c 'echo why >&2; exit 3'", "sh -c 'echo why >&2; kill -SEGV $$'"];
    let later = "sh -c 'sleep 0.5; echo why >&2; exit 3'";
    let cases = [
        ("victim", "--victim", at_once[0], fine),
        ("victim", "--victim", later, fine),
        ("victim", "--victim-run", at_once[1], fine),
        ("aggressor", "--victim", fine, at_once[0]),
        ("aggressor", "--victim", fine, at_once[1]),
        ("aggressor", "--victim", fine, later),
    ];
    for (role, flag, victim, aggressor) in cases {
        let mut args = vec![flag, victim, "--aggressor", aggressor, "--quiet", "--trials", "4"];
        if flag == "--victim" {
            args.extend(["--victim-progress", "lines"]);
        }
        let attempts = if [victim, aggressor].contains(&later) { 3 } else { 1 };
        let (_, output) = ends_within(attempts, &args, 1, &[]);
        let said = joined(&output.stderr);
        assert!(
            said.contains(&format!("{role} 0 on CPU")) && said.contains("its last output: why"),
            "{said}"
        );
        assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    }
}
