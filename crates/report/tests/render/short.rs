//! What an experiment found, in short: the answer, one table, caveats.

use std::collections::BTreeSet;
use std::path::Path;

use ringfence_analysis::disk_writes::Unreached;
use ringfence_analysis::estimate::{Finding, Interval, NotEstimable, Observed};
use ringfence_analysis::frontier::Standing;
use ringfence_analysis::latency::{CaseLatencies, LatencyQuantile};
use ringfence_analysis::results::CaseResult;
use ringfence_dataset::Dataset;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::histogram::Histogram;
use ringfence_experiment::plan::NotRun;
use ringfence_experiment::quantity::Quantile;
use ringfence_experiment::units::Span;
use ringfence_machine::units::Bytes;
use ringfence_report::Style;
use ringfence_studies::findings::Findings;
use ringfence_studies::lock::{self, Capabilities, Question};

use crate::golden::{check, check_both};
use crate::html::{digest, measured};
use crate::latencies::quantiles;

const COMMIT: &str = "schema = 2\nname = 'commit'\nquestion = 'What does a durable commit to a \
                      file cost here?'\n\
    metric = 'committer'\n[measure]\nlooks = [6]\nrounds = 1\nwindow = '400ms'\n\
    [[role]]\nname = 'committer'\ntask = { workload = 'commit', \
    sync = ['fsync', 'fdatasync', 'o-dsync', 'uring'], io = ['buffered', 'direct'], \
    layout = ['append', 'written'], dir = '.' }\n\
    [[arm]]\nname = 'commit'\nactive = ['committer']\n";

const NEIGHBOURS: &str = "schema = 2\nname = 'n'\nmetric = 'victim'\n[measure]\nlooks = [6]\n\
    rounds = 1\nwindow = '400ms'\n\
    [[role]]\nname = 'victim'\ntask = { workload = 'commit', layout = 'written' }\n\
    [[role]]\nname = 'aggressor'\ntask = [{ workload = 'dirty', io = ['direct', 'dontcache'] }, \
    { workload = 'alu' }, { workload = 'idle' }]\n\
    [[arm]]\nname = 'alone'\nactive = ['victim']\n\
    [[arm]]\nname = 'beside'\nactive = ['victim', 'aggressor']\nbaseline = 'alone'\n";

const WRITE: &str = "schema = 2\nname = 'write'\nmetric = 'writer'\n[measure]\nlooks = [6]\n\
    rounds = 1\n\
    [[role]]\nname = 'writer'\ntask = { workload = 'write', \
    instruction = ['clflush', 'clflushopt', 'clwb', 'nt', 'none'], \
    block = ['64B', '4KiB', '1MiB'] }\n\
    [[arm]]\nname = 'write'\nactive = ['writer']\n";

fn found(folder: &Path, text: &str, units: impl Fn(u32, usize) -> u64) -> Findings {
    digest(&Dataset::open(&measured(folder, text, units)).unwrap()).findings
}

fn short(found: &Findings, width: usize) -> String {
    ringfence_report::experiment(found, &Style::plain(width))
}

fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

// Of a role's operations in a case, as of six trials.
fn latencies(found: &Findings, case: usize, buckets: &[(u64, u64)]) -> CaseLatencies {
    let histogram = Histogram::from(buckets.to_vec());
    let planned = &found.plan.cases[case];
    CaseLatencies {
        case,
        arm: planned.arm.clone(),
        label: planned.label.clone(),
        role: found.plan.experiment.metric.clone(),
        unit: "commits",
        of_loads: false,
        quantiles: quantiles(&histogram),
        histogram,
        misses: None,
        counted_misses: None,
    }
}

// Trials of which one has all that is long.
fn unsettled(found: &Findings, case: usize) -> CaseLatencies {
    let trial = |trial: u32| {
        let slow = if trial == 2 { 9000 } else { 0 };
        (trial, Histogram::from(vec![(1 << 18, 10_000 - slow), (1 << 23, slow)]))
    };
    let windows: Vec<(u32, Histogram)> = (0..6).map(trial).collect();
    let quantiles = Quantile::ALL.map(|of| LatencyQuantile::of(&windows, of, 0.95));
    let counted = latencies(found, case, &[(1 << 18, 51_000), (1 << 23, 9000)]);
    CaseLatencies { quantiles: quantiles.into(), ..counted }
}

// Each case by the layout and the call; trials differ by a tenth.
fn commits(folder: &Path) -> Findings {
    let usual = [150, 600, 140, 580, 160, 640, 150, 500, 155, 590, 150, 610, 200, 560, 190, 650];
    let units = |trial: u32, case: usize| {
        let noise = (u64::from(trial) * 31 + case as u64 * 17) % 13;
        usual[case] * (10 + noise)
    };
    let mut found = found(folder, COMMIT, units);
    let buckets: [(u64, u64); 4] = [(1 << 18, 9), (1 << 19, 3), (1 << 20, 1), (1 << 24, 1)];
    found.latencies =
        (0..found.plan.cases.len()).map(|case| latencies(&found, case, &buckets)).collect();
    found
}

#[test]
fn a_commit_is_answered_within_twenty_lines() {
    let dir = tempfile::tempdir().unwrap();
    let mut found = commits(dir.path());
    check_both("short-commit", |style| ringfence_report::experiment(&found, style));
    let text = short(&found, 80);
    // The verb prints three more.
    assert!(text.lines().count() <= 17, "{text}");
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("Use ") && first.contains("ns ["), "{text}");
    assert!(text.contains("may be as cheap (*)"), "{text}");
    let said = spaced(&text);
    assert_eq!(said.matches("Use ").count(), 1, "one method is advised: {said}");
    assert!(!said.contains("sync=") && !said.contains("io="), "{said}");
    assert!(said.contains("p50 ") && said.contains("p99 too few, longest 16.8 ms"), "{said}");
    // What endangers the result is not left out.
    found.unreached = vec![Unreached { case: 0, commits: 900, writes: 3 }];
    found.ended = Some(Ended::Limit("a limit was reached".into()));
    let said = spaced(&short(&found, 80));
    assert!(said.starts_with("Ended early: "), "{said}");
    assert!(said.contains("Not every commit reached the disk"), "{said}");
}

#[test]
fn no_line_of_a_commit_is_broken_within_a_word() {
    let dir = tempfile::tempdir().unwrap();
    let found = commits(dir.path());
    let words = |width: usize| -> BTreeSet<String> {
        let text = short(&found, width);
        text.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect()
    };
    let (wide, narrow) = (words(200), words(60));
    assert!(narrow.is_subset(&wide), "{:?}", narrow.difference(&wide));
    check("short-commit-narrow", |style| {
        ringfence_report::experiment(&found, &Style { width: style.width.min(60), ..*style })
    });
}

#[test]
fn the_plainest_of_equal_methods_is_advised_and_the_smallest_named() {
    let dir = tempfile::tempdir().unwrap();
    let wild = [1, 9, 2, 14, 3, 20];
    let units = |trial: u32, case: usize| wild[(trial as usize * 5 + case * 3) % 6] * 10;
    let found = found(dir.path(), COMMIT, units);
    let said = spaced(&short(&found, 80));
    assert!(
        said.starts_with("Use fdatasync, appending") || said.starts_with("Use fsync, appending"),
        "{said}"
    );
    assert!(said.contains("15 others may be as cheap (*)"), "{said}");
}

// The plainest cannot be told apart from the cheapest only because its own interval is wide.
#[test]
fn a_wide_interval_alone_recommends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut found = commits(dir.path());
    found.cheapest = None;
    for result in &mut found.results {
        let is_plainest =
            ["sync=fsync ", "sync=fdatasync "].map(|sync| result.label.contains(sync));
        let is_plainest = is_plainest.contains(&true) && result.label.contains("io=buffered");
        let (value, low, high) =
            if is_plainest { (1e6, 1.4e5, 5e6) } else { (4.06e5, 3.5e5, 4.7e5) };
        let known = result.ns_per_unit.unwrap();
        result.ns_per_unit = Ok(Interval { value, low, high, ..known });
    }
    let said = spaced(&short(&found, 80));
    assert!(said.contains("15 others may be as cheap (*)"), "{said}");
    assert!(said.contains("406 us [350, 470] per commit"), "{said}");
    // What may be far less than the figure does not read as nothing.
    assert!(said.contains("1.0 ms [0.1, 5.0]"), "{said}");
}

#[test]
fn a_method_without_a_figure_is_not_advised() {
    let dir = tempfile::tempdir().unwrap();
    let mut found = commits(dir.path());
    let few = Err(NotEstimable::TooFewTrials { trials: 2 });
    found.cheapest = None;
    found.results.iter_mut().for_each(|result| result.ns_per_unit = few);
    let said = spaced(&short(&found, 80));
    assert!(
        said.starts_with(
            "No method is recommended, because none of the 16 durable ones has a figure"
        ),
        "{said}"
    );
    assert!(said.contains("a figure takes at least 4 trials, and there are 2"), "{said}");
    found.results.truncate(1);
    let said = spaced(&short(&found, 80));
    assert!(said.contains("because the only durable one has no figure"), "{said}");
    // What was seen is printed with its mark.
    found.results[0].observed = Some(Observed { value: 4e6, low: 2e5, high: 5e6, trials: 2 });
    let mut two =
        vec![found.results[0].clone(), CaseResult { case: 1, ..found.results[0].clone() }];
    std::mem::swap(&mut found.results, &mut two);
    assert!(short(&found, 80).contains("~4.00 ms (200 us to 5.00 ms)"), "{}", short(&found, 80));
}

#[test]
fn neighbours_are_answered_with_latencies_alone_and_beside() {
    let dir = tempfile::tempdir().unwrap();
    // Twice as long beside O_DIRECT, ten times beside the other, as long beside the rest.
    let units = |trial: u32, case: usize| {
        [1000, 500, 100, 1000, 900][case] + u64::from(trial) * [0, 3, 1, 0, 90][case]
    };
    let mut found = found(dir.path(), NEIGHBOURS, units);
    let steady = [(1 << 18, 50_000), (1 << 19, 9000), (1 << 22, 900)];
    found.latencies = vec![latencies(&found, 0, &steady), unsettled(&found, 2)];
    check_both("short-neighbours", |style| ringfence_report::experiment(&found, style));
    let text = short(&found, 80);
    assert!(text.lines().count() <= 25, "{text}");
    let said = spaced(&text);
    assert!(
        said.starts_with(
            "The victim is slower next to 2 of 4 neighbours; most next to a DONTCACHE writer"
        ),
        "{said}"
    );
    for part in ["p50 ", "p90 ", "p99 ", "longest "] {
        assert!(text.lines().any(|line| line.starts_with(part)), "{part}: {text}");
    }
    // Not settled is marked, and is not called too few.
    let p90 = text.lines().find(|line| line.starts_with("p90")).unwrap();
    assert!(p90.contains('~') && !said.contains("too few"), "{text}");
    assert!(said.contains("~: not settled; in round brackets the least and the most"), "{said}");
    // Counted, with the reason.
    let reason = "this processor has no clwb";
    found.plan.not_run = vec![NotRun { case: 1, reason: reason.into() }];
    let said = spaced(&short(&found, 80));
    assert!(said.contains(&format!("Not run: 1 case, because {reason}.")), "{said}");
}

#[test]
fn what_is_undecided_is_too_close_or_too_noisy() {
    let dir = tempfile::tempdir().unwrap();
    let mut found =
        found(dir.path(), NEIGHBOURS, |trial, case| 1000 + u64::from(trial) * case as u64);
    found.results.truncate(1);
    let mut said = |value: f64, low: f64, high: f64| {
        let interval =
            Interval { value, low, high, level: 0.95, trials: 10, spread: 0.3, slack: 0.0 };
        let effect = found.results[0].effect.as_mut().unwrap();
        effect.finding = Finding::new(&Ok(interval), 0.01);
        effect.by_class.all.slowdown = Ok(interval);
        spaced(&short(&found, 80))
    };
    let close = said(1.01, 0.985, 1.0412);
    assert!(close.contains("is too close to tell: the difference is below 4.2 %: +1 %"), "{close}");
    let noisy = said(1.1, 0.5, 2.4);
    assert!(noisy.contains("is too noisy to tell: +10 % [-50, +140]"), "{noisy}");
    let same = said(1.001, 0.999, 1.003);
    assert!(
        same.starts_with("No change of the victim above 1 % next to an O_DIRECT writer"),
        "{same}"
    );
    let faster = said(0.3, 0.2, 0.4);
    assert!(faster.starts_with("The victim is faster next to an O_DIRECT writer"), "{faster}");
    assert!(faster.contains("something else may have changed; measure again"), "{faster}");
    for text in [close, noisy, same, faster] {
        assert!(!text.contains("would settle") && !text.contains("no reasonable"), "{text}");
    }
}

#[test]
fn writes_are_a_matrix() {
    let dir = tempfile::tempdir().unwrap();
    let units = |trial: u32, case: usize| {
        [20, 21, 25, 40, 160, 170, 30, 90, 100, 90, 500, 900, 700, 900, 900][case] * 100
            + u64::from(trial * 13 % 7) * 10
    };
    let mut found = found(dir.path(), WRITE, units);
    check_both("short-write", |style| ringfence_report::experiment(&found, style));
    let text = short(&found, 80);
    assert!(text.lines().count() <= 12, "{text}");
    let said = spaced(&text);
    // What waits for nothing is in the table, and is not called the cheapest.
    assert!(said.starts_with("Cheapest per line: nt for 64B blocks, "), "{said}");
    found.simulated = true;
    assert!(short(&found, 80).starts_with("simulated: nothing here was measured\n"));
    found.results.clear();
    assert!(short(&found, 80).contains("no case was measured"));
}

#[test]
fn a_method_is_cheapest_only_among_those_with_a_figure() {
    let dir = tempfile::tempdir().unwrap();
    let mut found = found(dir.path(), WRITE, |trial, case| {
        2000 + case as u64 * 500 + u64::from(trial * 13 % 7) * 10
    });
    assert!(short(&found, 80).starts_with("Cheapest per line: "));
    let all = found.results.len();
    let fenced = |found: &Findings, case: usize| {
        let mut points = found.frontier.points.iter();
        points.all(|point| point.case != case || point.standing != Standing::Unfenced)
    };
    let promises = (0..all).filter(|index| fenced(&found, found.results[*index].case)).count();
    let first = (0..all).find(|index| fenced(&found, found.results[*index].case)).unwrap();
    found.results[first].ns_per_unit = Err(NotEstimable::TooFewTrials { trials: 2 });
    let text = spaced(&short(&found, 80));
    let expected = format!("Cheapest of the {} with a figure, per line: ", promises - 1);
    assert!(text.starts_with(&expected), "{text}");
}

fn locking() -> String {
    let noise = ringfence_experiment::task::Streams::default().into();
    let asked = Question { size: Bytes::kib(512), interval: Span::ms(1), noise, cpu: None };
    let capabilities = Capabilities { apart: None, can_lock: true, locks_anew: true };
    lock::experiment(&asked, &capabilities).unwrap().to_toml()
}

#[test]
fn a_locked_region_is_answered_in_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    // malloc: idle, noise, three flushes; locked: the same.
    let units = |trial: u32, case: usize| {
        [1000, 90, 150, 170, 160, 1000, 1000, 140, 150, 155][case] * 100 + u64::from(trial)
    };
    let mut found = found(dir.path(), &locking(), units);
    check_both("short-lock", |style| ringfence_report::experiment(&found, style));
    let text = short(&found, 80);
    assert!(text.lines().count() <= 12, "{text}");
    let said = spaced(&text);
    assert!(said.starts_with("A locked region stays at 10.0 ns"), "{said}");
    assert!(said.contains("next to noise (unlocked: 111 ns"), "{said}");
    assert!(said.contains("flushes inside it evict it: clflush 7.1"), "{said}");
    // No more than the intervals allow.
    let noise = found.results.iter_mut().find(|result| result.arm == "locked, noise").unwrap();
    let effect = noise.effect.as_mut().unwrap();
    let wide = Interval {
        value: 1.0,
        low: 0.5,
        high: 2.0,
        level: 0.95,
        trials: 5,
        spread: 0.5,
        slack: 0.0,
    };
    effect.finding = Finding::new(&Ok(wide), 0.01);
    let said = spaced(&short(&found, 80));
    assert!(
        said.starts_with("A locked region next to noise: 0 % [-50, +100], too noisy to tell"),
        "{said}"
    );
    // Where none was made, that is what it says.
    found.results.retain(|result| !result.arm.starts_with("locked"));
    let said = spaced(&short(&found, 80));
    let nothing = "Not measured, because nothing here keeps a region in the cache; ordinary memory \
                   next to noise: 11";
    assert!(said.starts_with(nothing), "{said}");
}
