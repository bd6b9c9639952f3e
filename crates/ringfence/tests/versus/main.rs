//! `versus`: whole runs of commands, on this machine.

#[path = "../support/mod.rs"]
mod support;

mod action;
mod ends;
mod hyperfine;

use std::fs;
use std::process::Command;

use serde_json::Value;
use support::{Folder, Output, ringfence_in, skip};

fn versus(folder: &Folder, args: &[&str]) -> Output {
    ringfence_in(folder.path(), &[&["versus", "--quiet"], args].concat())
}

fn read(folder: &Folder, file: &str) -> String {
    fs::read_to_string(folder.path().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

// A noisy minute may leave no verdict, but none that is wrong: it is tried again.
fn until_it_is(folder: &Folder, code: i32, args: &[&str]) -> Output {
    for _ in 0..5 {
        let out = format!("out-{}", folder.entries().len());
        let ran = versus(folder, &[args, &["--out", &out]].concat());
        match ran.code() {
            Some(4) if code != 4 => continue,
            got => assert_eq!(got, Some(code), "{}\n{}", ran.stdout, ran.stderr),
        }
        return ran;
    }
    panic!("undecided five times: {args:?}");
}

#[test]
fn the_exit_code_is_the_verdict() {
    let folder = Folder::new();
    let (short, long) = ("sleep 0.02", "sleep 0.04");
    let time = ["--time", "20s"];
    let over = until_it_is(
        &folder,
        3,
        &[&["--a", short, "--b", long, "--budget", "20%"], &time[..]].concat(),
    );
    assert!(over.stdout.contains("Verdict: over the budget of 20 %"), "{}", over.stdout);
    assert!(over.stderr.contains("the budget is missed"), "{}", over.stderr);
    until_it_is(&folder, 0, &[&["--a", long, "--b", short, "--budget", "20%"], &time[..]].concat());
    until_it_is(
        &folder,
        0,
        &[&["--a", short, "--b", short, "--budget", "50%"], &time[..]].concat(),
    );
    // Of too few runs nothing is claimed.
    let few = ["--a", short, "--b", long, "--budget", "1%", "--runs", "3", "--warmup", "0"];
    let undecided = until_it_is(&folder, 4, &few);
    assert!(undecided.stdout.contains("too few rounds: 3"), "{}", undecided.stdout);
    assert!(
        undecided.stdout.contains("Verdict: undecided for a budget of 1 %"),
        "{}",
        undecided.stdout
    );
    // Without a budget it is a comparison, whatever comes out.
    let plain = versus(&folder, &[short, long, "--runs", "12", "--out", "plain"]);
    assert!(plain.said().contains("'sleep 0.04' against 'sleep 0.02'"), "{}", plain.stdout);
    let shown = ringfence_in(folder.path(), &["show", "plain"]);
    assert!(plain.ok().starts_with(shown.ok().trim_end()), "{}", shown.stdout);
}

#[test]
fn json_is_as_its_schema_says_and_hyperfines_is_as_its_scripts_want() {
    let folder = Folder::new();
    let args = [
        "--runs", "6", "--warmup", "1", "--json", "--out", "out", "--label", "c0ffee", "-n", "one",
        "-n", "two",
    ];
    let exports = [
        "--export-json",
        "h.json",
        "--export-csv",
        "h.csv",
        "--export-markdown",
        "h.md",
        "--export-summary",
        "s.md",
    ];
    let found =
        versus(&folder, &[&["sleep 0.3", "sleep 0.4; :"], &args[..], &exports].concat()).json();
    assert_eq!(found["schema"], "ringfence/versus/1");
    let versus = &found["versus"];
    assert_eq!((&versus["label"], &versus["shell"]), (&"c0ffee".into(), &"sh".into()));
    assert_eq!(versus["warm_up"]["dropped"], 1);
    assert_eq!(versus["commands"][1]["runs"], 6);
    assert!(versus["shell_start"]["value"].as_f64().is_some_and(|ns| ns > 0.0));
    assert_eq!(ringfence_in(folder.path(), &["show", "--json", "out"]).json()["versus"], *versus);
    // The page beside the runs, and the same again.
    let page = read(&folder, "out/report.html");
    assert!(page.contains("b (two)") && page.contains("\"kind\":\"runs\""), "{page}");
    ringfence_in(folder.path(), &["report", "out", "--out", "again.html"]).ok();
    assert_eq!(read(&folder, "again.html"), page);
    fs::remove_file(folder.path().join("out/runs.parquet")).unwrap();
    let refused = ringfence_in(folder.path(), &["report", "out"]);
    assert_eq!(refused.code(), Some(2));
    assert!(refused.stderr.contains("out/runs.parquet: No such file"), "{}", refused.stderr);

    let exported: Value = serde_json::from_str(&read(&folder, "h.json")).unwrap();
    for (place, name) in ["one", "two"].into_iter().enumerate() {
        let result = &exported["results"][place];
        assert_eq!(result["command"], name);
        let numbers = |key: &str| -> Vec<f64> {
            result[key].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
        };
        let times = numbers("times");
        assert_eq!(
            (times.len(), numbers("exit_codes"), numbers("memory_usage_byte").len()),
            (6, vec![0.0; 6], 6)
        );
        let mean = times.iter().sum::<f64>() / 6.0;
        assert!((result["mean"].as_f64().unwrap() - mean).abs() < 1e-9);
        // Seconds.
        assert!(mean > 0.1 && mean < 60.0, "{result}");
        for key in ["stddev", "median", "user", "system", "min", "max"] {
            assert!(result[key].is_f64(), "{key}: {result}");
        }
    }
    let csv = read(&folder, "h.csv");
    let one = csv.strip_prefix("command,mean,stddev,median,user,system,min,max\none,").expect(&csv);
    let mean: f64 = one.split(',').next().unwrap().parse().unwrap();
    assert!(mean > 0.1 && mean < 60.0, "{csv}");
    let markdown = read(&folder, "h.md");
    assert!(
        markdown
            .starts_with("| Command | Mean [ms] | Min [ms] | Max [ms] | Relative |\n|:---|---:|"),
        "{markdown}"
    );
    assert!(read(&folder, "s.md").contains("- **b against a (two against one)**: "));
}

// As the scripts that come with hyperfine read it.
#[test]
fn a_script_for_hyperfine_reads_the_export() {
    const SCRIPT: &str = "
import json, statistics, sys
for b in json.load(open(sys.argv[1]))['results']:
    t = b['times']
    label = b['command'] if 'parameters' not in b else ','.join(k + '=' + v for k, v in \
    b['parameters'].items())
    assert abs(statistics.mean(t) - b['mean']) < 1e-9 and abs(statistics.stdev(t) - b['stddev']) < \
    1e-9
    assert abs(statistics.median(t) - b['median']) < 1e-9 and min(t) == b['min'] and max(t) == \
    b['max']
    assert b['user'] + b['system'] >= 0 and len(b['exit_codes']) == len(b['memory_usage_byte']) == \
    len(t)
    print(label)
";
    let folder = Folder::new();
    let args = [
        "sleep {s}",
        "-L",
        "s",
        "0.01,0.02",
        "-r",
        "5",
        "-w",
        "1",
        "--export-json",
        "h.json",
        "--out",
        "out",
    ];
    versus(&folder, &args).ok();
    let script =
        Command::new("python3").args(["-c", SCRIPT, "h.json"]).current_dir(folder.path()).output();
    let Ok(script) = script else { return skip("there is no python3") };
    assert!(script.status.success(), "{}", String::from_utf8_lossy(&script.stderr));
    assert_eq!(String::from_utf8_lossy(&script.stdout), "s=0.01\ns=0.02\n");
}

#[test]
fn what_belongs_around_runs_comes_in_order() {
    let folder = Folder::new();
    let args = [
        "sh -c 'echo {x}a >> log'",
        "sh -c 'echo {x}b >> log'",
        "-N",
        "--parameter",
        "x=1,2",
        "--runs",
        "3",
        "-w",
        "1",
    ];
    let around = [
        "--setup",
        "echo setup{x} >> log",
        "--prepare",
        "echo prepare >> log",
        "--conclude",
        "echo conclude >> log",
    ];
    versus(
        &folder,
        &[&args[..], &around, &["--cleanup", "echo cleanup >> log", "--out", "out"]].concat(),
    )
    .ok();
    let log = read(&folder, "log");
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!((&lines[..2], lines[lines.len() - 1]), (&["setup1", "setup2"][..], "cleanup"));
    let runs = &lines[2..lines.len() - 1];
    // Four rounds, of which one is warm-up, of four commands.
    assert_eq!(runs.len(), 4 * 4 * 3, "{log}");
    let mut ran: Vec<&str> = Vec::new();
    for run in runs.chunks(3) {
        assert_eq!((run[0], run[2]), ("prepare", "conclude"), "{log}");
        ran.push(run[1]);
    }
    for round in ran.chunks(4) {
        let mut sorted = round.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, ["1a", "1b", "2a", "2b"]);
        // What is compared is adjacent.
        assert_eq!(round[0][..1], round[1][..1], "{round:?}");
    }
    let order = |round: &[&str]| round.join(" ");
    assert!(
        ran.chunks(4).any(|round| order(round) != order(&ran[..4])),
        "always in the same order: {ran:?}"
    );
}

#[test]
fn each_command_may_have_its_own_and_one_may_stand_for_all() {
    let folder = Folder::new();
    let args = [
        "true",
        "false",
        "-i",
        "-r",
        "1",
        "-w",
        "0",
        "-p",
        "echo 1 >> a",
        "-p",
        "echo 1 >> b",
        "--out",
        "out",
    ];
    versus(&folder, &args).ok();
    assert_eq!((read(&folder, "a").as_str(), read(&folder, "b").as_str()), ("1\n", "1\n"));
    let wrong = versus(&folder, &["true", "true", "true", "-p", "x", "-p", "y"]);
    assert_eq!(wrong.code(), Some(2));
    assert!(
        wrong.stderr.contains("--prepare was given 2 times for 3 commands"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn commands_that_fail_say_which_and_what_they_said() {
    let folder = Folder::new();
    let fails = "sh -c 'for i in 1 2 3 4 5 6 7 8; do echo line $i >&2; done; exit 7'";
    let ran = versus(&folder, &["true", fails, "--out", "out"]);
    assert_eq!(ran.code(), Some(1), "{}", ran.stderr);
    for part in [
        "b, ",
        "ended with exit code 7",
        "line 4\nline 5\nline 6\nline 7\nline 8",
        "--ignore-failure",
    ] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    assert!(!ran.stderr.contains("line 3"), "{}", ran.stderr);
    assert!(!folder.path().join("out").exists(), "it failed at its first run");
    let unfilled = versus(&folder, &["sh -c 'exit 3' {n}", "true", "--out", "unfilled"]);
    assert!(
        unfilled.code() == Some(1) && unfilled.stderr.contains("--parameter n=VALUE,VALUE"),
        "{}",
        unfilled.stderr
    );
    let killed = versus(&folder, &["true", "sh -c 'kill -9 $$'", "--out", "killed"]);
    assert!(
        killed.code() == Some(1) && killed.stderr.contains("was ended by signal 9"),
        "{}",
        killed.stderr
    );
    for (ignored, code) in [("-i", 0), ("--ignore-failure=6,7", 0), ("--ignore-failure=6", 1)] {
        let ran = versus(
            &folder,
            &[
                "true",
                fails,
                ignored,
                "-r",
                "4",
                "-w",
                "0",
                "--out",
                ignored.trim_start_matches('-'),
            ],
        );
        assert_eq!(ran.code(), Some(code), "{ignored}: {}", ran.stderr);
        if code == 0 {
            assert!(ran.said().contains("b: 4 of 4 runs failed"), "{}", ran.stdout);
        }
    }
    for (flag, command) in [
        ("--setup", "exit 3"),
        ("--prepare", "exit 3"),
        ("--conclude", "exit 3"),
        ("--cleanup", "exit 3"),
    ] {
        let ran = versus(
            &folder,
            &["true", "true", "-r", "1", "-w", "0", flag, command, "--out", &flag[2..]],
        );
        assert_eq!(ran.code(), Some(1), "{flag}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(&format!("{flag} 'exit 3' ended with exit code 3")),
            "{}",
            ran.stderr
        );
    }
}

const REFUSED: &[(&[&str], &str)] = &[
    (
        &["./nope", "true"],
        "'./nope': No such file or directory (os error 2); correct the name or the path",
    ),
    (
        &["./text", "true"],
        "starting './text': Permission denied (os error 13); name an executable file",
    ),
    (
        &["nope-there-is-none 1", "true"],
        "nope-there-is-none: not found; correct the name or the path",
    ),
    (&["true", "--budget", "2%"], "--budget: a single command has nothing to compare with"),
    (&["true", "--same-output"], "--same-output: a single command has nothing to compare with"),
    (&["true", "--progress", "lines"], "a single command has nothing to compare with"),
    (
        &["--parameter", "n=1,2", "sleep 0.0{m}"],
        "the parameter 'n' is in no command, and {m} has no values",
    ),
    (&["--parameter", "n=1,2", "sleep 0.0{n}{other}"], "there is no parameter 'other'"),
    (
        &["--parameter", "n=1,2", "true {n}", "--prepare", "echo {other}"],
        "there is no parameter 'other'",
    ),
    (&["--a", "true"], "--b is missing"),
    (&["--b", "true"], "--a is missing"),
    (&["--b", "true", "true"], "cannot be"),
    (&["true", ""], "a command is empty"),
    (&["true", "sleep 'x", "-N"], "has a quote that is not closed"),
    (&["true", "true", "--budget", "0.02"], "--budget: '0.02' is not a share"),
    (&["true", "true", "--time", "soon"], "--time: 'soon' is not a duration"),
    (&["true", "true", "--confidence", "100%"], "--confidence must be above 0%"),
    (&["true", "true", "--margin", "0%"], "--margin must be above 0%"),
    (&["true", "true", "--runs", "0"], "0 runs measure nothing"),
    (&["true", "true", "-m", "9", "-M", "8"], "--min-runs 9 is more than --max-runs 8"),
    (&["true", "true", "--parameter", "x"], "--parameter: 'x' is not of the form"),
    (&["true", "true", "--parameter", "x=1,2"], "the parameter 'x' is in no command"),
    (
        &["true {threds}", "true {threads}", "-L", "threads", "1,2"],
        "no parameter 'threds'; did you mean 'threads'?",
    ),
    (&["true {x}", "true", "-P", "x", "2", "1"], "must rise"),
    (&["true {x}", "true", "-L", "x", "1,1"], "the second time as number 2: give it once"),
    (&["true {x}", "true", "-L", "x", "1,2", "-L", "x", "3"], "'x' is given twice"),
    (&["true", "true", "--output", "nowhere"], "is not null, pipe, inherit or a file"),
    (
        &["true", "true", "--input", "absent"],
        "--input: absent cannot be read: No such file or directory (os error 2); name a file",
    ),
    (&["true", "true", "-S", "absent-shell"], "starting 'absent-shell'"),
    (
        &["./absent-{n}", "true"],
        "if {n} is a parameter, give its values: --parameter n=VALUE,VALUE",
    ),
    (&["true", "true", "--ignore-failure=x"], "is not a list of exit codes"),
    (&["true", "true", "--dir", "absent"], "--dir: absent is not a folder"),
    (&["true", "true", "--out", "file"], "file is a file"),
    (&["true", "true", "--export-json", "absent/x.json"], "absent/x.json cannot be written"),
    (&["./x", "--setup", "build {v}", "-L", "v", "1,2"], "switch with --prepare"),
    (&["sleep 2", "sleep 2", "--time", "3s"], "a figure needs at least 4"),
    (&["true", "true", "--time", "0s"], "--time must be above 0"),
    (&["true", "--runs", "4", "--warmup", "1000000", "--time", "1s"], "give --time"),
    (&["true", "true", "--runs", "-3"], "'-3' cannot be used"),
    (&["true", "--json", "--show-output"], "--json: the output of commands would be mixed with it"),
    (&["true", "--export-csv", "x", "--export-json", "x"], "x is named for two exports"),
];

#[test]
fn what_makes_no_sense_is_refused_in_a_sentence() {
    let folder = Folder::new();
    fs::write(folder.path().join("text"), "not executable").unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    for (args, part) in REFUSED {
        let ran = versus(&folder, args);
        assert_eq!((ran.code(), ran.stdout.as_str()), (Some(2), ""), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(part), "{args:?}: {}", ran.stderr);
        assert_eq!(ran.stderr.trim_end().lines().count(), 1, "{args:?}: {}", ran.stderr);
    }
    assert_eq!(folder.entries(), ["file", "text"], "nothing is left behind");
}

#[test]
fn outputs_are_compared_where_that_is_asked() {
    let folder = Folder::new();
    let args = ["--same-output", "-r", "4", "-w", "0"];
    versus(
        &folder,
        &[&["printf 'a\\nb\\n'", "echo a; echo b"], &args[..], &["--out", "same"]].concat(),
    )
    .ok();
    let ran = versus(
        &folder,
        &[&["printf 'a\\nb\\n'", "printf 'a\\nc\\n'"], &args[..], &["--out", "other"]].concat(),
    );
    assert_eq!(ran.code(), Some(1));
    assert!(
        ran.stderr.contains("a and b print different output: line 2: a has 'b', b has 'c'"),
        "{}",
        ran.stderr
    );
    let ran = versus(
        &folder,
        &[&["sh -c 'echo $$'", "echo 1"], &args[..], &["--out", "random"]].concat(),
    );
    assert!(ran.stderr.contains("the output of a changes from run to run"), "{}", ran.stderr);
    assert_eq!(folder.entries(), ["same"]);
}

#[test]
fn inputs_and_outputs_go_where_they_are_sent() {
    let folder = Folder::new();
    fs::write(folder.path().join("in"), "hello\n").unwrap();
    let run = |more: &[&str], out: &str| {
        let args = ["cat", "cat", "-r", "4", "-w", "0", "--input", "in", "--out", out];
        versus(&folder, &[&args[..], more].concat())
    };
    run(&["--output", "./one", "--output", "./two"], "files").ok();
    assert_eq!(
        (read(&folder, "one").as_str(), read(&folder, "two").as_str()),
        ("hello\n", "hello\n")
    );
    assert_eq!(run(&["--show-output"], "shown").ok().matches("hello\n").count(), 8);
    for dir in ["in-a", "in-b"] {
        fs::create_dir(folder.path().join(dir)).unwrap();
    }
    let args =
        ["./say", "./say", "-r", "4", "-w", "0", "--dir", "in-a", "--dir", "in-b", "--out", "dirs"];
    let around = ["--setup", "printf '#!/bin/sh\npwd >> log' > say; chmod +x say; sync say"];
    versus(&folder, &[&args[..], &around].concat()).ok();
    assert_eq!(read(&folder, "in-b/log").matches("in-b\n").count(), 4);
    assert_eq!(run(&["--output", "pipe"], "pipe").ok().matches("hello").count(), 0);
    let args = [
        "--reference",
        "true",
        "--reference-name",
        "base",
        "echo",
        "-r",
        "4",
        "-w",
        "0",
        "--json",
        "--out",
        "ref",
    ];
    let found = versus(&folder, &args).json();
    let name = |place: usize| found["versus"]["commands"][place]["name"].clone();
    assert_eq!((name(0), name(1)), ("base".into(), "echo".into()));
    // Each run knows its number, as scripts for hyperfine expect.
    let args = [
        "sh -c 'echo $HYPERFINE_ITERATION >> log'",
        "true",
        "-N",
        "-r",
        "4",
        "-w",
        "0",
        "--out",
        "out",
    ];
    versus(&folder, &args).ok();
    assert_eq!(read(&folder, "log"), "0\n1\n2\n3\n");
}

// What the launcher counts is of the run alone.
#[test]
fn each_run_is_counted_for_itself() {
    let folder = Folder::new();
    // 64 MiB of which every page is written, and then a run that needs none of it.
    let large = "python3 -c 'x = bytearray(64 << 20); x[::4096] = b\"1\" * (16 << 10)'";
    if !support::is_installed("python3") {
        return skip("there is no python3");
    }
    let found =
        versus(&folder, &["true", large, "-r", "4", "-w", "0", "--json", "--out", "out"]).json();
    let of = |command: usize, quantity: &str| {
        let others = found["versus"]["commands"][command]["others"].as_array().unwrap().clone();
        let one = others
            .iter()
            .find(|one| one[0] == quantity)
            .unwrap_or_else(|| panic!("{quantity}: {found}"));
        one[1].as_f64().unwrap()
    };
    assert!(of(1, "peak_memory") > 64e6, "{found}");
    assert!(of(0, "peak_memory") < 48e6, "{found}");
    assert!(of(1, "minor_faults") > 16e3 && of(0, "minor_faults") < 8e3, "{found}");
    assert!(of(1, "user") + of(1, "system") > of(0, "user") + of(0, "system"), "{found}");
    // Counted, or it is said why not.
    let counted = found["versus"]["commands"][0]["others"].to_string().contains("instructions");
    assert!(counted == found["versus"]["not_counted"].is_null(), "{found}");
}
