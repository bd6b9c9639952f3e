//! Programs that tell how fast they are: by a latency for each operation, or by a figure for each
//! run.
//!
//! What they print is planted, so that it is known what must come out, however busy the machine is.

use std::collections::BTreeSet;
use std::fs;

use ringfence_dataset::Dataset;
use ringfence_experiment::histogram::{bucket_floor, bucket_of};
use ringfence_experiment::sample::Sample;

use crate::support::{Folder, Output, cpus, joined, ringfence_in, skip};

// Measures a program alone.
fn run(folder: &Folder, measure: &str, victim: &str) -> Output {
    let text = format!(
        "schema = 2\nname = 'x'\nmetric = 'victim'\n[measure]\nlooks = [2]\nprobe = \
         '0ms'\n{measure}\n[[role]]\nname = 'victim'\n\
         task = {{ workload = 'command', {victim} }}\n[[arm]]\nname = 'alone'\nactive = \
         ['victim']\n"
    );
    fs::write(folder.path().join("x.toml"), text).unwrap();
    ringfence_in(folder.path(), &["run", "x.toml", "--quiet", "--out", "data", "--json"])
}

fn samples(folder: &Folder, dir: &str) -> Vec<Sample> {
    Dataset::open(&folder.path().join(dir)).unwrap().samples
}

// It prints two latencies in turn, with words around them, and a heading.
const TWO: &str = "unit = 'latencies', run = 'sh -c \"echo ready; while :; do sleep 0.004; echo \
                   get 310us, of 9 s; echo 0.002 s; done\"'";

#[test]
fn latencies_that_are_printed_are_counted_and_their_sum_is_the_time() {
    let folder = Folder::new();
    let output = run(&folder, "window = '200ms'\nrounds = 3", TWO);
    assert_eq!(output.json()["results"][0]["unit"], "operations");
    let floors = [310_000, 2_000_000].map(|ns| bucket_floor(bucket_of(ns)));
    let windows = samples(&folder, "data");
    assert!(windows.iter().any(|window| window.units > 1), "{windows:?}");
    for window in windows.iter().filter(|window| window.units > 0) {
        let latencies = window.latencies.as_ref().unwrap();
        assert_eq!(latencies.total(), window.units);
        let count =
            |floor| latencies.buckets().iter().find(|bucket| bucket.0 == floor).map_or(0, |b| b.1);
        let [short, long] = floors.map(count);
        assert_eq!(short + long, window.units, "{latencies:?}");
        assert_eq!(window.busy_ns, short * 310_000 + long * 2_000_000, "{window:?}");
    }
}

#[test]
fn lines_without_a_latency_are_refused_where_they_are_most() {
    let folder = Folder::new();
    let victim =
        "unit = 'latencies', run = 'sh -c \"while :; do echo 12 ops/s; sleep 0.001; done\"'";
    let output = run(&folder, "window = '500ms'\nsettle = '1s'", victim);
    assert_eq!(output.code(), Some(2), "{}", output.stderr);
    for part in [
        "contain no number with a unit of time",
        "the last of them '12 ops/s'",
        "'310 us' or '0.31 ms'",
    ] {
        assert!(output.stderr.contains(part), "{part}: {}", output.stderr);
    }
    assert_eq!(folder.entries(), ["x.toml"]);
}

#[test]
fn the_figure_of_a_run_stands_for_it() {
    let of = |more: &str, printed: &str| {
        let folder = Folder::new();
        let run_of = format!(
            "unit = 'whole-run', run = \"sh -c 'echo t=9s; {printed}'\", figure = {{ {more} }}"
        );
        run(&folder, "rounds = 2", &run_of).ok();
        let samples = samples(&folder, "data");
        assert_eq!(samples.len(), 4);
        samples.iter().map(|run| (run.units, run.busy_ns)).collect::<BTreeSet<_>>()
    };
    // The last of several, with its unit, whatever the run took.
    assert_eq!(
        of("pattern = '^t=([0-9.]+)'", "echo t=1.5ms; echo bye"),
        [(1000, 1_500_000_000)].into()
    );
    assert_eq!(of("pattern = 'p99 +(.*)'", "echo p99 250us >&2"), [(1000, 250_000_000)].into());
    let rate = "pattern = '([0-9.]+) *req/s', better = 'higher'";
    assert_eq!(of(rate, "echo 1500.25 req/s"), [(15_002_500, 10_000_000_000_000)].into());
}

#[test]
fn a_run_without_its_figure_is_named_with_its_last_line() {
    for (printed, parts) in [
        (
            "echo no luck; echo",
            &["'p99 ([0-9.]+)'", "has no such number", "its last line is 'no luck'"][..],
        ),
        (":", &["has no such number", "it printed nothing"]),
        ("echo p99 0", &["has 0 there, which is too small or too large"]),
    ] {
        let folder = Folder::new();
        let victim = format!(
            "unit = 'whole-run', run = \"sh -c '{printed}'\", figure = {{ pattern = 'p99 \
             ([0-9.]+)' }}"
        );
        let output = run(&folder, "", &victim);
        assert_eq!(output.code(), Some(2), "{}", output.stderr);
        assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
        parts
            .iter()
            .for_each(|part| assert!(output.stderr.contains(part), "{part}: {}", output.stderr));
        assert_eq!(folder.entries(), ["x.toml"]);
    }
}

// It tells how long its loop took, and keeps what it has told.
const TELLS: &str = "sh -c 'a=$(date +%s%N); i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; \
                     took=$(($(date +%s%N)-a)); echo $took >> told; echo took ${took}ns'";

#[test]
fn a_proof_is_about_the_figure() {
    if cpus().len() < 2 {
        return skip("a victim and an aggressor need two CPUs");
    }
    let folder = Folder::new();
    let victim = format!("--victim-run={TELLS}");
    let output = ringfence_in(
        folder.path(),
        &[
            "prove",
            &victim,
            "--victim-metric",
            "took ([0-9]+)",
            "--aggressor=alu",
            "--budget=90%",
            "--trials=4",
            "--out=a",
            "--quiet",
            "--json",
        ],
    );
    assert!([Some(0), Some(3), Some(4), Some(5)].contains(&output.code()), "{}", output.stderr);
    let told = fs::read_to_string(folder.path().join("told")).unwrap();
    let told: BTreeSet<u64> = told.lines().map(|line| line.parse().unwrap()).collect();
    let record: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("a/question.json")).unwrap())
            .unwrap();
    let control = &record["control"];
    let runs = [&control["runs"][0][0], &control["runs"][1][0]].map(|runs| runs.as_f64().unwrap());
    assert!(runs[0] >= 1.0 && runs[0] == runs[1], "{control}");
    let a_run = |of: &serde_json::Value| of[1].as_f64().unwrap() / of[0].as_f64().unwrap();
    assert!(
        a_run(&control["running"]) < a_run(&control["runs"][0]),
        "a run takes longer than its loop: {control}"
    );
    if output.code() == Some(5) {
        // On a busy machine its loop may have been stopped as long without being asked to.
        return;
    }
    let windows = samples(&folder, "a/baseline");
    for window in windows.iter().filter(|window| &*window.role == "victim") {
        assert!(window.units == 1000 && told.contains(&(window.busy_ns / 1000)), "{window:?}");
        assert!(
            window.busy_ns / 1000 < window.length_ns,
            "a run takes longer than its loop: {window:?}"
        );
    }
}

#[test]
fn flags_that_make_no_sense_are_refused() {
    let folder = Folder::new();
    let whole = ["prove", "--aggressor=alu", "--victim-run=true"];
    let program = ["prove", "--aggressor=alu", "--victim=true"];
    let cases: &[(&[&str], &[&str], &str)] = &[
        (
            &whole,
            &["--victim-metric=p99 [0-9]+"],
            "--victim-metric: 'p99 [0-9]+' has no group for the number",
        ),
        (
            &whole,
            &["--victim-metric=p99 ([0-9]+"],
            "--victim-metric: 'p99 ([0-9]+' is not a regular expression",
        ),
        (&whole, &["--victim-metric=(.*)", "--better=more"], "--better: 'more' is not"),
        (&whole, &["--better=higher"], "--victim-metric"),
        (&program, &["--victim-metric=(.*)"], "--victim run:COMMAND"),
        (&program, &["--victim-progress=latency"], "'latency' is not"),
        (&program, &["--victim-progress=lines", "--metric=p99"], "--victim-progress latencies"),
        (
            &whole,
            &["--victim-metric=(.*)", "--metric=p99"],
            "the latencies of a program are not counted",
        ),
    ];
    for (args, more, part) in cases {
        let output = ringfence_in(folder.path(), &[args, *more].concat());
        assert_eq!(output.code(), Some(2), "{more:?}: {}{}", output.stdout, output.stderr);
        assert_eq!(output.stderr.lines().count(), 1, "{more:?}: {}", output.stderr);
        assert!(joined(&output.stderr).contains(part), "{part}: {}", output.stderr);
        assert!(folder.entries().is_empty());
    }
    let figure = "unit = 'lines', run = 'true', figure = { pattern = '(.*)' }";
    let output = run(&folder, "", figure);
    assert_eq!(output.code(), Some(2), "{}", output.stderr);
    assert!(output.stderr.contains("a figure belongs to a whole run"), "{}", output.stderr);
}
