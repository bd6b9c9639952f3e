//! Statistics of services beside neighbours that are paused for windows: half an hour long, so
//! `scripts/nightly` runs them, not `cargo test`.
//!
//! A service delays a share of its answers while its neighbour runs, which does nothing else, and
//! writes down how long each answer took it. Intervals must hold what these say; where nothing is
//! planted, nothing must be seen.
//!
//! `RINGFENCE_EXPERIMENTS` says how many there are of each kind.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ringfence_analysis::results::ratio;
use ringfence_dataset::Dataset;

use crate::support::service::{Kind, Neighbour, Planted, Service, serve_if_asked};
use crate::support::{Folder, cpus, enough_cpus, ringfence_in, stay_on};

const QUANTITIES: [&str; 3] = ["mean", "p50", "p99"];
// At once on the two CPUs that each has for itself: they wait more than they work.
const AT_ONCE: usize = 2;
// 2 ms and exponentially up to 1 ms more have their 99th percentile at 6.6 ms. Delays of 10.1 ms in
// 3 % of the answers double that.
const LEAST_US: u64 = 2000;
const MEAN_US: u64 = 1000;
const ONE_OF: u64 = 33;
const DELAY_US: u64 = 10_100;

// No test: what the others ask.
#[test]
fn serves_when_a_test_asks_for_it() {
    serve_if_asked();
}

fn experiments(usual: usize) -> usize {
    std::env::var("RINGFENCE_EXPERIMENTS").map_or(usual, |number| number.parse().unwrap())
}

// One experiment's answers: what the program says of each quantity, and how long the service took,
// ns, without and with its neighbour.
struct Told {
    intervals: Vec<Result<(f64, f64), String>>,
    took: [Vec<u64>; 2],
}

fn measured(one_of: u64, seed: u64) -> Told {
    let folder = Folder::new();
    let neighbour = Neighbour::shell("exec sleep 3600");
    let planted = Planted {
        pid: neighbour.pid(),
        least_us: LEAST_US,
        mean_us: MEAN_US,
        one_of,
        delay_us: DELAY_US,
        seed: seed << 32,
    };
    let service = Service::start(&Kind::Plants(planted, folder.path().join("log")));
    let (seed, address, pid) = (seed.to_string(), service.address(), neighbour.pid().to_string());
    let args = [
        "neighbours",
        "--victim-probe",
        &address,
        "--probe-send",
        "PING\\r\\n",
        "--aggressor-pid",
        &pid,
    ];
    let limits =
        ["--longest-freeze", "200ms", "--frozen-share", "40%", "--trials", "8", "--rounds", "2"];
    let more = ["--probe", "0ms", "--seed", &seed, "--quiet", "--out", "d"];
    ringfence_in(folder.path(), &[&args[..], &limits, &more].concat()).ok();
    service.end();
    let dataset = Dataset::open(&folder.path().join("d")).unwrap();
    let arm = |name: &str| dataset.plan.cases.iter().position(|case| case.arm == name).unwrap();
    let interval = |quantity: &str| {
        let mut plan = dataset.plan.clone();
        plan.experiment.measure.quantity = quantity.parse().unwrap();
        let told = ratio(&plan, &dataset.samples, arm("beside"), arm("alone"), 0.95);
        told.map(|told| (told.low, told.high)).map_err(|why| why.to_string())
    };
    Told {
        intervals: QUANTITIES.iter().map(|quantity| interval(quantity)).collect(),
        took: logged(folder.path()),
    }
}

fn logged(folder: &Path) -> [Vec<u64>; 2] {
    let mut took = [Vec::new(), Vec::new()];
    for line in std::fs::read_to_string(folder.join("log")).unwrap().lines() {
        let (runs, ns) = line.split_once(' ').unwrap();
        took[runs.parse::<usize>().unwrap()].push(ns.parse().unwrap());
    }
    took
}

// Several at once.
fn all_of<T: Send>(count: usize, one: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let cpus = cpus();
    std::thread::scope(|scope| {
        let (next, all, one) = (&next, &all, &one);
        for pair in cpus.chunks_exact(2).flat_map(|pair| [pair; AT_ONCE]) {
            scope.spawn(move || {
                // What it starts stays there too.
                stay_on(pair);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let told = one(number);
                    all.lock().unwrap().push(told);
                }
            });
        }
    });
    all.into_inner().unwrap()
}

fn of_quantity(quantity: &str, took: &mut [u64]) -> f64 {
    took.sort_unstable();
    let at = |share: f64| took[(took.len() as f64 * share) as usize] as f64;
    match quantity {
        "p50" => at(0.5),
        "p99" => at(0.99),
        _ => took.iter().sum::<u64>() as f64 / took.len() as f64,
    }
}

// A line for each quantity; how many intervals hold the truth, of how many figures.
fn table(what: &str, told: &[Told], truths: &[f64]) -> Vec<(usize, usize)> {
    println!(
        "{what}: {} experiments, load {}",
        told.len(),
        std::fs::read_to_string("/proc/loadavg").unwrap().trim()
    );
    println!("quantity    truth  figures  hold it  half width, median");
    let line = |(number, truth): (usize, &f64)| {
        let figures: Vec<(f64, f64)> =
            told.iter().filter_map(|told| told.intervals[number].clone().ok()).collect();
        let hold = figures.iter().filter(|(low, high)| (low..=high).contains(&truth)).count();
        let mut widths: Vec<f64> =
            figures.iter().map(|(low, high)| (high / low).sqrt() - 1.0).collect();
        widths.sort_by(f64::total_cmp);
        let width = widths.get(widths.len() / 2).map_or(f64::NAN, |width| width * 100.0);
        println!(
            "{:<8} {truth:>8.4} {:>8} {hold:>8} {width:>17.1} %",
            QUANTITIES[number],
            figures.len()
        );
        for why in told.iter().filter_map(|told| told.intervals[number].as_ref().err()).take(2) {
            println!("         no figure: {why}");
        }
        (hold, figures.len())
    };
    truths.iter().enumerate().map(line).collect()
}

#[test]
#[ignore = "ten minutes long"]
fn intervals_hold_what_a_service_has_planted() {
    if !enough_cpus() {
        return;
    }
    let told = all_of(experiments(100), |number| measured(ONE_OF, number as u64 + 1));
    let mut took = [0, 1]
        .map(|runs| -> Vec<u64> { told.iter().flat_map(|told| told.took[runs].clone()).collect() });
    let [alone, beside] = &mut took;
    let truths: Vec<f64> = QUANTITIES
        .iter()
        .map(|quantity| of_quantity(quantity, beside) / of_quantity(quantity, alone))
        .collect();
    for (hold, figures) in table("planted", &told, &truths) {
        assert!(figures * 2 >= told.len(), "{figures} figures of {}", told.len());
        assert!(hold * 100 >= 90 * figures, "{hold} of {figures}");
    }
}

#[test]
#[ignore = "ten minutes long"]
fn a_neighbour_that_does_nothing_is_seldom_seen() {
    if !enough_cpus() {
        return;
    }
    let told = all_of(experiments(100), |number| measured(0, number as u64 + 1001));
    for (hold, figures) in table("nothing", &told, &[1.0; 3]) {
        assert!(figures * 2 >= told.len(), "{figures} figures of {}", told.len());
        assert!((figures - hold) * 100 <= 9 * figures, "{} of {figures} alarms", figures - hold);
    }
}

#[test]
#[ignore = "four minutes long"]
fn a_doubled_p99_is_found_in_twenty_seconds() {
    if !enough_cpus() {
        return;
    }
    let verdicts = all_of(experiments(20).min(20), |number| {
        let folder = Folder::new();
        let neighbour = Neighbour::shell("exec sleep 3600");
        let (pid, seed) = (neighbour.pid(), (number as u64 + 2001) << 32);
        let (least_us, mean_us) = (LEAST_US, MEAN_US);
        let planted = Planted { pid, least_us, mean_us, one_of: ONE_OF, delay_us: DELAY_US, seed };
        let service = Service::start(&Kind::Plants(planted, folder.path().join("log")));
        let (address, pid) = (service.address(), pid.to_string());
        let args = [
            "neighbours",
            "--victim-probe",
            &address,
            "--probe-send",
            "PING\\r\\n",
            "--aggressor-pid",
            &pid,
        ];
        let more = ["--metric", "p99", "--trials", "21", "--time", "20s", "--json", "--quiet"];
        let json = ringfence_in(folder.path(), &[&args[..], &more].concat()).json();
        let results = json["results"].as_array().unwrap();
        let beside = results.iter().find(|one| one["arm"] == "beside").unwrap();
        beside["effect"]["finding"].clone()
    });
    let found = verdicts.iter().filter(|finding| finding["verdict"] == "slower").count();
    println!("doubled p99: found in {found} of {}", verdicts.len());
    for finding in verdicts.iter().filter(|finding| finding["verdict"] != "slower") {
        println!("  {finding}");
    }
    assert!(found * 20 >= 18 * verdicts.len());
}
