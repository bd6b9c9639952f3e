//! How measuring ends: by itself, by a signal, and where nothing can be kept; and what is kept.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::support::{Folder, Running, joined, ringfence_in, skip, wait_for};
use super::{read, until_it_is, versus};

#[test]
fn an_interruption_keeps_what_was_measured_and_ends_what_runs() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let folder = Folder::new();
        let args = [
            "versus",
            "sleep 0.05",
            "sleep 0.05",
            "--time",
            "10min",
            "--out",
            "out",
            "--cleanup",
            "echo > cleaned",
            "-q",
        ];
        let waits = ["--conclude", "echo x >> runs", "--margin", "0.0001%"];
        let run = Running::start(folder.path(), &[&args[..], &waits].concat());
        wait_for("some runs", || {
            let runs = fs::read_to_string(folder.path().join("runs")).unwrap_or_default();
            (runs.lines().count() > 20).then_some(())
        });
        run.signal(signal);
        let ended = run.wait();
        assert_eq!(ended.code(), Some(1), "{}", ended.stderr);
        assert!(
            ended.stdout.contains("Ended early: interrupted")
                && ended.stderr.contains("interrupted"),
            "{}",
            ended.stdout
        );
        assert!(
            folder.path().join("cleaned").exists()
                && folder.path().join("out/runs.parquet").exists()
        );
        assert!(ringfence_in(folder.path(), &["show", "out"]).ok().contains("b against a"));
    }
}

#[test]
fn one_command_alone_is_measured_shown_and_exported() {
    let folder = Folder::new();
    let args =
        ["sleep 0.01", "--runs", "8", "--warmup", "0", "--out", "out", "--export-json", "x.json"];
    let ran = versus(&folder, &args);
    let said = ran.said();
    assert!(
        said.contains("sleep 0.01: 8 runs in") && said.contains("(95 %, trimmed), median"),
        "{said}"
    );
    assert!(!said.contains("left processes") && !said.contains("against"), "{said}");
    let shown = ringfence_in(folder.path(), &["show", "out", "--json"]).json();
    let found = &shown["versus"];
    assert_eq!(
        (&found["verdict"], &found["comparisons"]),
        (&"alone".into(), &serde_json::json!([]))
    );
    // Each run takes 10 ms at least. How far below that the interval reaches depends on the load.
    let time = |bound: &str| found["commands"][0]["time"][bound].as_f64().unwrap_or_default();
    assert!(time("value") > 10e6 && time("low") > 0.0, "{found}");
    let exported: serde_json::Value = serde_json::from_str(&read(&folder, "x.json")).unwrap();
    assert_eq!(exported["results"][0]["times"].as_array().map(Vec::len), Some(8));
    let page = read(&folder, "out/report.html");
    assert!(
        page.contains("How long does this command take?")
            && !page.contains("None of these differs")
    );
}

#[test]
fn a_given_time_is_a_budget_whatever_the_number_of_runs() {
    let folder = Folder::new();
    let many =
        versus(&folder, &["sleep 0.01", "--runs", "1000000", "--time", "1s", "--out", "many"]);
    assert!(many.said().contains("of 1000000 runs fit into a time of 1"), "{}", many.stdout);
    // A later run that does not end is ended, too, before there is a figure and after it.
    let script = |after: u32| {
        format!("echo x >> {after}; if [ $(wc -l < {after}) -gt {after} ]; then sleep 600; fi")
    };
    let args = |script: &str, out: &str| {
        ["-w", "0", "--time", "5s", "--out", out, script].map(str::to_owned)
    };
    let run = |after: u32, out: &str| {
        let args = args(&script(after), out);
        versus(&folder, &args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let early = run(1, "early");
    assert_eq!(early.code(), Some(2), "{}", early.stderr);
    assert!(early.stderr.contains("give more than --time"), "{}", early.stderr);
    let late = run(5, "late");
    assert_eq!(late.code(), Some(1), "{}", late.stderr);
    assert!(
        late.stdout.contains("Ended early: the time ran out before a run ended"),
        "{}",
        late.stdout
    );
}

#[test]
fn the_first_line_says_what_ends_the_measurement() {
    let folder = Folder::new();
    let two = ["versus", "sleep 0.002", "sleep 0.02", "--time", "5s"];
    let with_budget = [&two[..], &["--budget", "2%"]].concat();
    for (args, line) in [
        (&two[..], "2 commands in turn, until the difference is known to 0.5% or 10% of itself"),
        (&with_budget, "2 commands in turn, until the budget of 2% is met or missed"),
        (&["versus", "sleep 0.002", "--time", "5s"], "1 command, until its time is known to 1%"),
    ] {
        let ran = ringfence_in(folder.path(), args);
        let line = format!("versus: {line}, at most 5 s; Ctrl-C keeps what was measured\n");
        assert!(ran.stderr.starts_with(&line), "{line}{}", ran.stderr);
    }
}

#[test]
fn what_cleans_up_and_fails_is_no_early_end() {
    let folder = Folder::new();
    let ran = versus(&folder, &["true", "--runs", "4", "--cleanup", "exit 3", "--out", "out"]);
    assert_eq!(ran.code(), Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("--cleanup 'exit 3' ended with exit code 3"), "{}", ran.stderr);
    assert!(!ran.stdout.contains("Ended early"), "{}", ran.stdout);
    // A shell's builtin takes no longer than the shell.
    let builtin = versus(&folder, &[": $X", "--runs", "8", "-w", "0", "--out", "builtin"]);
    assert!(!builtin.said().contains("no work"), "{}", builtin.stdout);
}

// As timeout(1) does it: the program, and at once its group.
#[test]
fn one_request_to_end_that_comes_twice_is_one() {
    let folder = Folder::new();
    let args =
        ["versus", "sleep 0.05", "--time", "10min", "--margin", "0.0001%", "--out", "out", "-q"];
    let run =
        Running::start(folder.path(), &[&args[..], &["--conclude", "echo x >> runs"]].concat());
    // The first of them has ended then, with all that belongs to it.
    let lines = || fs::read_to_string(folder.path().join("runs")).unwrap_or_default();
    wait_for("some runs", || (lines().lines().count() > 2).then_some(()));
    // Both are pending when it continues, however busy the machine is.
    for signal in [libc::SIGSTOP, libc::SIGTERM, libc::SIGINT, libc::SIGCONT] {
        run.signal(signal);
    }
    let ended = run.wait();
    assert!(ended.stdout.contains("Ended early: interrupted"), "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn processes_that_runs_leave_behind_are_reported() {
    let folder = Folder::new();
    fs::write(
        folder.path().join("leaves.sh"),
        "sleep 5 > /dev/null 2>&1 &\nfirst=$!\nsetsid sleep 5 > /dev/null 2>&1 &\n\
         until grep -q sleep /proc/$first/comm && grep -q sleep /proc/$!/comm; do :; done\n",
    )
    .unwrap();
    let waits = "sh -c 'sleep 0.01 & wait'";
    let args = ["sh leaves.sh", waits, "--runs", "4", "-w", "0", "--out", "out"];
    let ran = versus(&folder, &args);
    assert!(
        ran.said().contains("'sh leaves.sh': 4 runs left processes running (sleep)"),
        "{}",
        ran.stdout
    );
    assert!(ran.said().matches("4 runs left").count() == 1, "{}", ran.stdout);
    let shown = ringfence_in(folder.path(), &["show", "out", "--json"]).json();
    let left = |command: usize| shown["versus"]["commands"][command]["left_behind"].clone();
    assert_eq!(
        (left(0), left(1)),
        (serde_json::json!({"runs": 4, "names": ["sleep"]}), serde_json::Value::Null)
    );
}

#[test]
fn a_kill_loses_the_run_under_way_at_most() {
    let folder = Folder::new();
    // Alike, so that nothing settles it.
    let args =
        ["versus", "sleep 0.02", "sleep 0.02", "--time", "10min", "--out", "out", "-q", "-w", "0"];
    let waits = ["--conclude", "echo x >> runs", "--margin", "0.0001%"];
    let run = Running::start(folder.path(), &[&args[..], &waits].concat());
    let made = || {
        fs::read_to_string(folder.path().join("runs")).unwrap_or_default().lines().count() as u64
    };
    wait_for("some runs", || (made() > 20).then_some(()));
    run.signal(libc::SIGKILL);
    run.wait();
    let shown = ringfence_in(folder.path(), &["show", "out"]);
    assert!(
        shown.ok().contains("b against a") && joined(&shown.stdout).contains("was killed"),
        "{}",
        shown.stdout
    );
    let found = ringfence_in(folder.path(), &["show", "out", "--json"]).json();
    let commands = found["versus"]["commands"].as_array().unwrap();
    let kept: u64 = commands.iter().map(|command| command["runs"].as_u64().unwrap()).sum();
    assert!(kept + 1 >= made(), "{kept} of {}", made());
    ringfence_in(folder.path(), &["report", "out"]).ok();
    assert!(read(&folder, "out/report.html").contains("was killed"));
    // What was kept is not written over.
    let again = versus(&folder, &["true", "true", "--out", "out"]);
    assert_eq!(again.code(), Some(2), "{}", again.stderr);
}

// A command that would wait forever is ended with the program, however that ends.
#[test]
fn nothing_survives() {
    for signal in [libc::SIGINT, libc::SIGKILL] {
        let folder = Folder::new();
        let waits = "sh -c 'echo > begun; sleep 1000 & wait'";
        let run = Running::start(folder.path(), &["versus", waits, waits, "-q", "--out", "out"]);
        wait_for("a run", || folder.path().join("begun").exists().then_some(()));
        run.signal(signal);
        // The wait also checks that nothing is left.
        let ended = run.wait();
        assert!(signal == libc::SIGKILL || ended.code() == Some(1), "{}", ended.stderr);
    }
}

#[test]
fn what_cannot_be_kept_is_told_all_the_same() {
    // A file system that is full from the start.
    let full = Path::new("/dev/full");
    if !full.exists() {
        return skip("there is no /dev/full");
    }
    let folder = Folder::new();
    std::os::unix::fs::symlink(full, folder.path().join("link")).unwrap();
    let ran = versus(
        &folder,
        &["true", "true", "-r", "4", "-w", "0", "--out", "out", "--output", "./link"],
    );
    // 'true' prints nothing, so that a full device is no trouble.
    ran.ok();
    let ran = versus(
        &folder,
        &["echo x", "echo x", "-r", "4", "-w", "0", "--out", "echoed", "--output", "./link"],
    );
    assert_eq!(ran.code(), Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("No space left on device"), "{}", ran.stderr);
    // The folder goes while it is measured: the figures are printed all the same.
    let gone = [
        "true",
        "true",
        "-r",
        "4",
        "-w",
        "0",
        "--out",
        "gone/out",
        "--cleanup",
        "rm -rf gone; touch gone",
    ];
    let ran = versus(&folder, &gone);
    assert!(matches!(ran.code(), Some(1 | 2)), "{}", ran.stderr);
    assert!(
        ran.stdout.contains("b against a") && ran.stderr.contains("cannot make gone/out"),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
}

#[test]
fn a_disk_that_fills_up_costs_the_folder_and_not_the_figures() {
    let folder = Folder::new();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k", "none"])
        .arg(folder.path())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        return skip("a tmpfs cannot be mounted here");
    }
    let args = [
        "true",
        "true",
        "-r",
        "4",
        "-w",
        "0",
        "--out",
        "out",
        "--cleanup",
        "cat /dev/zero > fill || true",
    ];
    let ran = versus(&folder, &[&args[..], &["--export-json", "-"]].concat());
    let _ = Command::new("umount").arg(folder.path()).status();
    assert_eq!(ran.code(), Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("No space left on device (os error 28)"), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert!(
        ran.stdout.contains("b against a") && ran.stdout.contains("\"exit_codes\": ["),
        "{}",
        ran.stdout
    );
}

#[test]
fn commands_that_run_on_are_compared_by_their_progress() {
    let folder = Folder::new();
    let line_every = |seconds: &str| format!("sh -c 'while :; do echo; sleep {seconds}; done'");
    let (fast, slow) = (line_every("0.002"), line_every("0.02"));
    let args = ["--progress", "lines", "--budget", "50%", "--time", "1min"];
    let over = until_it_is(&folder, 3, &[&["--a", &fast, "--b", &slow], &args[..]].concat());
    let verdict = format!("Verdict: {slow} is over the budget of 50 %.");
    assert!(joined(&over.stdout).contains(&verdict), "{}", over.stdout);
    // The verdict is stored in the folder: every reader shows the same one.
    let dir = over.stdout.split("dataset: ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
    assert!(ringfence_in(folder.path(), &["show", dir]).said().contains(&verdict));
    assert!(
        fs::read_to_string(folder.path().join(dir).join("report.html"))
            .unwrap()
            .contains(" is over the budget of ")
    );
    let again = ringfence_in(folder.path(), &["run", "--resume", dir]);
    assert_eq!(again.code(), Some(3), "{}{}", again.stdout, again.stderr);
    assert!(joined(&again.stdout).contains(&verdict), "{}", again.stdout);
    let three = [&["--a", &fast, "--b", &slow, "--c", &fast], &args[..]].concat();
    let three = joined(&until_it_is(&folder, 3, &three).stdout);
    assert!(
        three.contains("Verdict: b is over the budget of 50 %, c is within the budget of 50 %."),
        "{three}"
    );
    let found =
        until_it_is(&folder, 0, &[&["--a", &slow, "--b", &fast, "--json"], &args[..]].concat())
            .json();
    assert_eq!(found["schema"], "ringfence/experiment/3");
    assert_eq!(found["judged"][0]["within"], true, "{found}");
    // What ends is no command that runs on.
    let ends =
        versus(&folder, &["true", "true", "--progress", "lines", "--time", "5s", "--out", "ends"]);
    assert_eq!(ends.code(), Some(1), "{}{}", ends.stdout, ends.stderr);
    assert!(
        ends.stderr.contains("commands that exit are compared as whole runs"),
        "{}",
        ends.stderr
    );
    let short = versus(&folder, &["true", "true", "--progress", "lines", "--time", "100ms"]);
    assert_eq!(short.code(), Some(2));
    assert!(short.stderr.contains("--time 100ms is too short"), "{}", short.stderr);
    let refused = versus(&folder, &["true", "true", "--progress", "lines", "--prepare", "x"]);
    assert_eq!(refused.code(), Some(2));
    assert!(refused.stderr.contains("--prepare applies to whole runs"), "{}", refused.stderr);
}

#[test]
fn a_run_that_does_not_end_in_the_time_is_ended() {
    let folder = Folder::new();
    let out = versus(&folder, &["sleep 600", "true", "--time", "1s", "--out", "none"]);
    assert_eq!(out.code(), Some(2), "{}{}", out.stdout, out.stderr);
    assert!(out.stderr.contains("did not finish within 1 s"), "{}", out.stderr);
    assert!(folder.entries().is_empty());
}

#[test]
fn runs_are_a_table_that_other_tools_read() {
    let folder = Folder::new();
    for (label, out) in [("one", "history/1"), ("two", "history/2")] {
        let args = [
            "sleep 0.00{x}",
            "sleep 0.001 ; :",
            "-L",
            "x",
            "1,2",
            "-r",
            "4",
            "-w",
            "1",
            "--label",
            label,
            "--out",
            out,
        ];
        versus(&folder, &args).ok();
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/versus.md");
    const SCRIPT: &str = "
import glob, sys
try:
    import duckdb, pyarrow.parquet as parquet
except ImportError as missing:
    print(missing)
    sys.exit(77)
tables = [parquet.read_table(file) for file in sorted(glob.glob('history/*/runs.parquet'))]
# Nanoseconds as objects of Python would take pandas.
began = [ns for table in tables for ns in table['began'].cast('int64').to_pylist()]
rows = [row for table in tables for row in table.drop(['began']).to_pylist()]
# Two labels, five rounds of four commands and the shell.
assert len(rows) == 2 * 5 * 5, len(rows)
assert {row['label'] for row in rows} == {'one', 'two'}
assert {row['role'] for row in rows} == {'a', 'b', 'shell'}
assert sum(row['warm_up'] for row in rows) == 2 * 5
assert all(row['wall_ns'] > 0 and row['exit_code'] == 0 and row['signal'] is None for row in rows)
assert {row['parameters'] for row in rows if row['role'] == 'a'} == {'x=1', 'x=2'}
assert all(ns > 10**18 for ns in began) and all(row['host'] for row in rows)
# The questions of the docs, as they stand.
asked = [text.split(';')[0] for text in open(sys.argv[1]).read().split('    SELECT ')[1:]]
answers = [duckdb.sql('SELECT ' + text).fetchall() for text in asked]
# Of each label three roles; and one ratio.
assert [len(answer) for answer in answers] == [6, 2], answers
assert all(0.001 < ratio < 1000 for _, ratio in answers[1]), answers
";
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    let ran =
        Command::new(&python).args(["-c", SCRIPT]).arg(docs).current_dir(folder.path()).output();
    match ran {
        Ok(ran) if ran.status.success() => {}
        Ok(ran) if ran.status.code() == Some(77) => {
            skip(&format!(
                "{python} lacks a module: {}",
                String::from_utf8_lossy(&ran.stdout).trim()
            ));
        }
        Ok(ran) => panic!("{}", String::from_utf8_lossy(&ran.stderr)),
        Err(_) => skip(&format!("there is no {python}")),
    }
}
