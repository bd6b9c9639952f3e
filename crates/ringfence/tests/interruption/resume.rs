//! A run that was cut short is resumed where it stopped: nothing is lost, nothing is measured
//! twice, and its figures are those of the same samples in a run that was not.

use std::path::Path;
use std::time::Duration;

use ringfence_analysis::results;
use ringfence_dataset::{Dataset, State};
use ringfence_engine::runner::Earlier;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::sample;

use crate::support::{self, Folder, Running, cpus, ringfence_in, skip, wait_for};

const BEGIN: [&str; 16] = [
    "neighbours",
    "--victim=chase footprint=64KiB histogram=true",
    "--aggressor=write size=256KiB instruction=nt,none",
    "--aggressor=alu",
    "--trials",
    "4",
    "--rounds",
    "2",
    "--window",
    "4ms",
    "--settle=1ms",
    "--probe",
    "1ms",
    "--quiet",
    "--out",
    "data",
];
const RESUME: [&str; 5] = ["run", "--resume", "data", "--quiet", "--json"];
// 4 trials of 2 rounds of 3 cases.
const STEPS: u64 = 24;
// About what the whole takes.
const WHOLE: Duration = Duration::from_millis(500);

// Splitmix64: a seed reproduces the moments, as far as the machine does.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % most
    }
}

fn assert_goes_on_from(before: &Dataset, now: &Dataset, round: u64) {
    assert_eq!(before.plan, now.plan, "round {round}");
    assert_eq!(before.manifest.created, now.manifest.created, "round {round}");
    let had = before.samples.len();
    assert!(now.samples.len() >= had, "round {round}: {had} samples, now {}", now.samples.len());
    assert_eq!(before.samples, now.samples[..had], "round {round}");
}

fn open(folder: &Path, round: u64) -> Dataset {
    let dataset = Dataset::open(&folder.join("data"))
        .unwrap_or_else(|error| panic!("round {round}: {error}"));
    // Only whole steps, the first ones of the plan, in its order.
    Earlier::new(&dataset.plan, dataset.samples.clone(), 0)
        .unwrap_or_else(|error| panic!("round {round}: {error}"));
    dataset
}

fn assert_complete(dataset: &Dataset, round: u64) {
    assert_eq!(dataset.manifest.ended, Some(Ended::Complete), "round {round}");
    assert_eq!(dataset.manifest.state, State::Complete, "round {round}");
    let steps = Earlier::new(&dataset.plan, dataset.samples.clone(), 0).unwrap().steps();
    assert_eq!(steps, STEPS, "round {round}");
    // Every load that was measured is in the histogram of its window, also across the cuts.
    for sample in dataset.samples.iter().filter(|sample| &*sample.role == "victim") {
        let counted = sample.latencies.as_ref().map_or(0, |latencies| latencies.total());
        assert_eq!(counted, sample.units, "round {round}");
    }
    // Later steps were measured later, also across the cuts.
    let starts: Vec<u64> = dataset.samples.iter().map(|sample| sample.start_ns).collect();
    let ends = dataset.samples.iter().map(|sample| sample.start_ns + sample.length_ns);
    let steps = sample::steps(&dataset.samples);
    let mut latest = 0;
    for step in steps {
        assert!(step.iter().all(|sample| sample.start_ns >= latest), "round {round}: {starts:?}");
        latest = step.iter().map(|sample| sample.start_ns).max().unwrap();
    }
    assert!(ends.max().unwrap() < 600_000_000_000, "round {round}");
    // An uninterrupted run records the same samples in the plan's order.
    let mut in_order = dataset.samples.clone();
    in_order.reverse();
    in_order.sort_by_key(|sample| (sample.trial, sample.round, sample.step, sample.position));
    let figures =
        |samples| serde_json::to_value(results::results(&dataset.plan, samples, 0.95)).unwrap();
    assert_eq!(figures(&dataset.samples), figures(&in_order), "round {round}");
}

fn interrupted_again_and_again(rounds: u64, seed: u64) {
    if cpus().len() < 2 {
        return skip("neighbours need two CPUs");
    }
    let mut cuts = 0;
    for round in 0..rounds {
        let mut random = Random(seed + round);
        let folder = Folder::new();
        let mut last: Option<Dataset> = None;
        for cut in 0..3 {
            let mut run = if cut == 0 {
                Running::start(folder.path(), &BEGIN)
            } else {
                Running::start(folder.path(), &RESUME)
            };
            if cut == 0 {
                wait_for("the dataset", || {
                    folder.path().join("data/manifest.json").exists().then_some(())
                });
            }
            std::thread::sleep(Duration::from_micros(random.below(WHOLE.as_micros() as u64)));
            let signal = if random.below(2) == 0 { libc::SIGINT } else { libc::SIGKILL };
            let ended = run.child.try_wait().unwrap().is_some();
            if !ended {
                run.signal(signal);
            }
            let output = run.wait();
            let dataset = open(folder.path(), round);
            if let Some(last) = &last {
                assert_goes_on_from(last, &dataset, round);
            }
            if output.code() == Some(0) {
                assert_complete(&dataset, round);
                break;
            }
            if signal == libc::SIGINT && output.code() == Some(1) {
                // A signal that arrives before it is watched for kills, and is not a cut in good
                // order.
                assert!(output.stderr.contains("run --resume data"), "{}", output.stderr);
                assert_eq!(dataset.manifest.ended, Some(Ended::Interrupted), "round {round}");
            }
            cuts += 1;
            last = Some(dataset);
        }
        let printed = ringfence_in(folder.path(), &RESUME).json();
        let dataset = open(folder.path(), round);
        if let Some(last) = &last {
            assert_goes_on_from(last, &dataset, round);
        }
        assert_complete(&dataset, round);
        // Either what was measured now, or the whole dataset as `show` prints it.
        let shown = ringfence_in(folder.path(), &["show", "data", "--json"]).json();
        let results = shown["datasets"][0]["results"].clone();
        assert!(results == printed["results"] || shown == printed, "round {round}");
    }
    println!("{rounds} runs, cut short {cuts} times");
    assert!(cuts >= rounds / 2, "only {cuts} cuts in {rounds} rounds");
}

#[test]
fn an_interrupted_run_goes_on_where_it_stopped() {
    interrupted_again_and_again(8, 1);
}

#[test]
#[ignore = "a minute long: scripts/nightly runs it"]
fn fifty_interrupted_runs_go_on_where_they_stopped() {
    interrupted_again_and_again(50, 1000);
}

fn resumed(folder: &Folder, more: &[&str]) -> support::Output {
    ringfence_in(folder.path(), &[&["run", "--resume", "data", "--quiet"], more].concat())
}

fn assert_refused(output: &support::Output, part: &str) {
    assert_eq!(output.code(), Some(2), "{}", output.stderr);
    assert_eq!(
        (output.stdout.as_str(), output.stderr.lines().count()),
        ("", 1),
        "{}",
        output.stderr
    );
    assert!(output.stderr.contains(part), "'{part}' is not in {}", output.stderr);
}

const WRITE: [&str; 8] =
    ["write", "--instruction", "nt", "--block", "4KiB", "--size", "1MiB", "--quiet"];

#[test]
fn what_is_complete_is_shown() {
    let folder = Folder::new();
    let args = [&WRITE[..], &["--trials", "2", "--window", "1ms", "--out", "data"]].concat();
    ringfence_in(folder.path(), &args).ok();
    let before = std::fs::read(folder.path().join("data/manifest.json")).unwrap();
    let output = resumed(&folder, &[]);
    assert!(output.said().contains("nothing to continue: it is complete"), "{}", output.stdout);
    assert!(resumed(&folder, &["--json"]).json()["datasets"][0]["results"].is_array());
    // More time makes no more of what is not short of it.
    assert!(resumed(&folder, &["--time", "1s"]).said().contains("it is complete"));
    assert_eq!(std::fs::read(folder.path().join("data/manifest.json")).unwrap(), before);
}

#[test]
fn a_time_that_is_spent_goes_on_with_a_new_one() {
    let folder = Folder::new();
    let args =
        [&WRITE[..], &["--trials", "80", "--window", "20ms", "--time", "2s", "--out", "data"]];
    ringfence_in(folder.path(), &args.concat()).ok();
    let before = open(folder.path(), 0);
    assert_eq!(before.manifest.ended, Some(Ended::Time));
    assert!(resumed(&folder, &[]).said().contains("--time TIME continues"));
    assert_eq!(open(folder.path(), 0), before);
    let output = resumed(&folder, &["--time", "10min"]);
    assert!(output.said().contains("steps measured before"), "{}", output.stdout);
    let now = open(folder.path(), 0);
    assert_goes_on_from(&before, &now, 0);
    assert_eq!(now.manifest.ended, Some(Ended::Complete));
    assert_eq!(now.manifest.resumed.len(), 1);
    // The experiment is the one that was planned, its time too.
    assert_eq!(now.plan.experiment, before.plan.experiment);
}

#[test]
fn what_was_written_while_times_were_called_budgets_goes_on() {
    let folder = Folder::new();
    let args =
        [&WRITE[..], &["--trials", "80", "--window", "20ms", "--budget", "2s", "--out", "data"]];
    ringfence_in(folder.path(), &args.concat()).ok();
    let before = open(folder.path(), 0);
    for (name, new, old) in [
        ("experiment.toml", "\ntime = ", "\nbudget = "),
        ("manifest.json", "\"why\": \"time\"", "\"why\": \"budget\""),
    ] {
        let path = folder.path().join("data").join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(new) && !text.contains(old), "{text}");
        std::fs::write(&path, text.replace(new, old)).unwrap();
    }
    assert_eq!(open(folder.path(), 0), before);
    assert!(resumed(&folder, &["--budget", "10min"]).said().contains("steps measured before"));
    assert_eq!(open(folder.path(), 0).manifest.ended, Some(Ended::Complete));
}

#[test]
fn what_cannot_go_on_is_refused_in_a_sentence() {
    let folder = Folder::new();
    let args =
        [&WRITE[..], &["--trials", "80", "--window", "20ms", "--time", "2s", "--out", "data"]];
    ringfence_in(folder.path(), &args.concat()).ok();
    let whole = open(folder.path(), 0);
    assert_refused(
        &resumed(&folder, &["--trials", "3"]),
        "--trials cannot be combined with --resume",
    );
    assert_refused(&resumed(&folder, &["--out", "x"]), "--out cannot be combined with --resume");
    assert_refused(&resumed(&folder, &["data/experiment.toml"]), "not both");
    assert_refused(&resumed(&folder, &["--time", "soon"]), "--time: ");
    assert_refused(&ringfence_in(folder.path(), &["run"]), "or a dataset with --resume");
    assert_refused(&ringfence_in(folder.path(), &["run", "--resume", "absent"]), "absent");
    assert_refused(&ringfence_in(folder.path(), &["run", "--resume", "."]), "is not a dataset");

    // A dataset of another machine, or of another version.
    let replace = |name: &str, old: &str, new: &str| {
        let path = folder.path().join("data").join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(old), "{text}");
        std::fs::write(&path, text.replace(old, new)).unwrap();
        let output = resumed(&folder, &["--time", "1s"]);
        std::fs::write(&path, text).unwrap();
        output
    };
    assert_refused(
        &replace("machine.json", "\"brand\": \"", "\"brand\": \"Un"),
        "another processor",
    );
    assert_refused(&replace("machine.json", "\"processor\"", "\"prozessor\""), "does not name");
    assert_refused(
        &replace("machine.json", "\"packages\": [", "\"packages\": [{\"id\":9,\"cpus\":\"77\"},"),
        "other cores",
    );
    let version = format!("\"version\": \"{}\"", whole.manifest.version);
    assert_refused(
        &replace("manifest.json", &version, "\"version\": \"0.0.1\""),
        "two versions are not mixed",
    );
    let step_case = replace("experiment.toml", "seed = 1", "seed = 2");
    // One case: whatever the seed, its order is the same. The seed is another, and so is the
    // experiment.
    assert_eq!(step_case.code(), Some(0), "{}", step_case.stderr);
}

#[test]
fn what_is_still_being_measured_is_left_alone() {
    let folder = Folder::new();
    let args = [&WRITE[..], &["--trials", "1000", "--window", "20ms", "--out", "data"]].concat();
    let run = Running::start(folder.path(), &args);
    support::wait_for_steps(&folder.path().join("data"), 1);
    assert_refused(&resumed(&folder, &[]), "still being measured");
    // Another run into the same folder is told so, and not that it may be removed.
    let other =
        ringfence_in(folder.path(), &[&WRITE[..], &["--trials", "2", "--out", "data"]].concat());
    assert_refused(&other, "data: this is still being measured by ");
    assert_refused(&other, "wait until that ends, or name another folder");
    run.signal(libc::SIGINT);
    assert_eq!(run.wait().code(), Some(1));
    assert_eq!(open(folder.path(), 0).manifest.ended, Some(Ended::Interrupted));
}
