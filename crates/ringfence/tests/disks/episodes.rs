//! Episodes: harm that a writer does after it has stopped is measured, and charged to it.

use std::path::Path;

use ringfence_dataset::Dataset;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::sample::{self, Sample};

use crate::support::disk::{empty, on_disk};
use crate::support::{
    Folder, Running, enough_cpus, marked, ringfence_in, wait_for, wait_for_steps,
};

fn victim(data: &Path) -> String {
    format!("commit dir={} size=1MiB layout=written", data.display())
}

fn dirty(data: &Path, rest: &str) -> String {
    format!("dirty dir={} size=4MiB block=64KiB {rest}", data.display())
}

fn args<'a>(victim: &'a str, aggressor: &'a str, episode: &'a str, out: &'a str) -> Vec<&'a str> {
    let roles = ["neighbours", "--victim", victim, "--aggressor", aggressor];
    [&roles[..], &["--episode", episode, "--probe", "0ms", "--quiet", "--out", out]].concat()
}

// What holds of every episode, whatever came of it.
fn assert_parts_add_up(samples: &[Sample]) {
    assert!(!samples.is_empty());
    for sample in samples {
        if *sample.role != *"victim" {
            assert_eq!((sample.tail_units, sample.tail_busy_ns), (None, None));
            continue;
        }
        let (units, ns) = (sample.tail_units.unwrap(), sample.tail_busy_ns.unwrap());
        assert!(0 < units && units < sample.units, "{sample:?}");
        assert!(ns < sample.busy_ns, "{sample:?}");
        // It is asked at both ends, and a commit may be under way then.
        assert!(ns > 400_000_000, "{sample:?}");
        assert_eq!(sample.latencies.as_ref().unwrap().total(), sample.units, "{sample:?}");
        assert_stretches(sample);
    }
    for window in samples.chunk_by(|one, other| {
        (one.trial, one.round, one.step, one.position)
            == (other.trial, other.round, other.step, other.position)
    }) {
        let [own, other] = window else { continue };
        let end = |sample: &Sample| sample.start_ns + sample.length_ns;
        assert!(
            end(own) > end(other) + 400_000_000,
            "the writer has stopped before the tail: {window:?}"
        );
    }
}

// Each commit ended in one of the stretches, and the longest of all is the longest of one.
fn assert_stretches(sample: &Sample) {
    let stretches = sample.stretches.as_ref().unwrap();
    let units: u64 = stretches.iter().map(|stretch| stretch.units).sum();
    assert_eq!(units, sample.units, "{sample:?}");
    let longest = stretches.iter().filter_map(|stretch| stretch.longest_ns).max();
    assert_eq!(longest, sample.latencies.as_ref().unwrap().most(), "{sample:?}");
    // Both halves of an episode take more than one, and they follow each other.
    assert!(stretches.len() >= 3, "{sample:?}");
    for pair in stretches.windows(2) {
        let end = pair[0].start_ns + pair[0].length_ns;
        assert!(pair[1].start_ns.abs_diff(end) < 1000, "{pair:?}");
    }
    assert!(
        stretches
            .iter()
            .all(|stretch| stretch.dirty_bytes.is_some() && stretch.writeback_bytes.is_some())
    );
}

fn has_figure(parts: &serde_json::Value, part: &str) -> bool {
    parts[part]["value"].is_f64()
}

#[test]
fn both_parts_are_measured_and_told_apart() {
    if !enough_cpus() {
        return;
    }
    let Some(data) = on_disk("episodes") else { return };
    let folder = Folder::new();
    let (victim, aggressor) = (victim(&data), dirty(&data, "io=buffered pace=50MiB/s"));
    let flags = [&args(&victim, &aggressor, "500ms+500ms", "n")[..], &["--trials", "4"]].concat();
    let said = ringfence_in(folder.path(), &[&flags[..], &["-v"]].concat()).said();
    assert!(!said.contains("limit was reached"), "{said}");
    // What windows cannot see is seen here.
    assert!(!said.contains("these figures contain no delayed effects"), "{said}");
    let dataset = Dataset::open(&folder.path().join("n")).unwrap();
    assert_eq!(sample::steps(&dataset.samples).count(), 4);
    assert_parts_add_up(&dataset.samples);
    let json = ringfence_in(folder.path(), &["show", "n", "--json"]).json();
    // Each has a figure, or says why it has none; the text names it where one has.
    let parts = &json["datasets"][0]["results"][0]["effect"]["parts"];
    assert!(
        ["beside", "tail"]
            .iter()
            .all(|part| has_figure(parts, part) || parts[part]["unknown"].is_string())
    );
    let known = has_figure(parts, "beside") || has_figure(parts, "tail");
    assert_eq!(said.contains("while 'aggressor' ran, and"), known, "{said}");
    assert_eq!(said.contains("in the 500ms after it had stopped."), known, "{said}");
    let page = folder.path().join("page.html");
    ringfence_in(folder.path(), &["report", "n", "--out", page.to_str().unwrap()]).ok();
    let page = std::fs::read_to_string(page).unwrap();
    assert_eq!(page.contains("after it had stopped."), known);
    assert!(page.contains("there the writers stopped."));
    assert!(page.contains("The longest commits over time") && page.contains("\"kind\":\"stalls\""));
    assert!(empty(&data), "nothing is left");
}

#[test]
fn a_writer_stops_at_its_limit_and_the_tail_begins() {
    if !enough_cpus() {
        return;
    }
    let Some(data) = on_disk("episodes-limit") else { return };
    let folder = Folder::new();
    // The first block is all that it may write.
    let (victim, aggressor) = (victim(&data), dirty(&data, "io=wait limit=64KiB"));
    let flags = [&args(&victim, &aggressor, "1500ms+500ms", "n")[..], &["--trials", "4"]].concat();
    let said = ringfence_in(folder.path(), &flags).said();
    let json = ringfence_in(folder.path(), &["show", "n", "--json"]).json();
    let parts = &json["datasets"][0]["results"][0]["effect"]["parts"];
    assert!(parts["ran_s"].as_f64().is_some_and(|ran| ran < 0.95 * 1.5), "{parts}");
    let known = has_figure(parts, "beside") || has_figure(parts, "tail");
    assert_eq!(
        said.contains("Its limit was reached after") && said.contains("of 1.5s."),
        known,
        "{said}"
    );
    let dataset = Dataset::open(&folder.path().join("n")).unwrap();
    assert_parts_add_up(&dataset.samples);
    for sample in dataset.samples.iter().filter(|sample| *sample.role == *"aggressor") {
        // The lead-in counts as well.
        assert!(sample.units <= 64 << 10 && sample.length_ns < 1_500_000_000, "{sample:?}");
    }
    assert!(empty(&data), "nothing is left");
}

#[test]
fn an_episode_that_is_interrupted_loses_nothing_that_was_measured_before() {
    if !enough_cpus() {
        return;
    }
    let Some(data) = on_disk("episodes-cut") else { return };
    let folder = Folder::new();
    let (victim, aggressor) = (victim(&data), dirty(&data, "io=buffered pace=10MiB/s"));
    let flags =
        [&args(&victim, &aggressor, "500ms+500ms", "n")[..], &["--trials", "1000"]].concat();
    let run = Running::start(folder.path(), &flags);
    wait_for_steps(&folder.path().join("n"), 2);
    run.signal(libc::SIGINT);
    let output = run.wait();
    assert!(output.stderr.contains("what was measured until then is in n"), "{}", output.stderr);
    let dataset = Dataset::open(&folder.path().join("n")).unwrap();
    assert_eq!(dataset.manifest.ended, Some(Ended::Interrupted));
    assert!(sample::steps(&dataset.samples).count() >= 2);
    assert_parts_add_up(&dataset.samples);
    // One signal ends an episode of many minutes.
    let flags = args(&victim, &aggressor, "5min+4min", "m");
    let run = Running::start(folder.path(), &flags);
    wait_for("the tasks", || {
        marked(&run.mark).into_iter().find(|process| process.name == "ringfence-guardian")
    });
    run.signal(libc::SIGINT);
    let output = run.wait();
    assert!(
        output.stderr.contains("interrupted before anything was measured"),
        "{}",
        output.stderr
    );
    assert!(empty(&data), "nothing is left");
}

#[test]
fn what_makes_no_episode_says_why() {
    if !enough_cpus() {
        return;
    }
    let folder = Folder::new();
    for (flags, part) in [
        (&["--victim", "chase", "--aggressor", "alu", "--episode", "40"][..], "such as 40s+37s"),
        (&["--victim", "chase", "--aggressor", "alu", "--episode", "9min+2min"], "at most 10min"),
        (
            &["--victim", "chase", "--aggressor", "alu", "--episode", "--window", "1s"],
            "cannot be combined with",
        ),
        (
            &["--victim", "chase", "--aggressor", "sleep 9", "--episode"],
            "the files that 'sleep 9' writes are unknown",
        ),
        (
            &["--victim", "chase", "--aggressor", "alu", "--episode", "--time", "60s"],
            "and the episodes of one trial, with and without aggressors, take 155s",
        ),
        (
            &["--victim", "chase", "--aggressor", "alu", "--episode", "--machine", "laptop"],
            "these are not simulated",
        ),
        (
            &["--victim", "commit", "--aggressor", "dirty", "--episode", "1s+100ms"],
            "--episode 400ms+400ms",
        ),
    ] {
        let out = ringfence_in(folder.path(), &[&["neighbours"], flags].concat());
        assert_eq!(out.code(), Some(2), "{flags:?}: {}{}", out.stdout, out.stderr);
        assert!(out.stderr.contains(part), "{flags:?}: {}", out.stderr);
    }
    assert!(folder.entries().is_empty());
}
