//! Statistics of commits beside writers on a real disk: half an hour long, so `scripts/nightly`
//! runs them, not `cargo test`.
//!
//! A victim is compared with itself, with a neighbour on the same disk between the two windows.
//! Effects must not be seen more often than intervals allow; and delays that are planted into what
//! was recorded must be found at their size.

use std::path::{Path, PathBuf};
use std::process::Command;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use ringfence_analysis::estimate::Interval;
use ringfence_analysis::results::aa_estimates;
use ringfence_dataset::Dataset;
use ringfence_experiment::histogram::{Histogram, bucket_floor, bucket_of};
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;

// Those whose harm does not come later.
const VISITORS: [&str; 9] = [
    "dirty io=wait",
    "dirty io=write",
    "dirty io=fdatasync",
    "dirty io=direct",
    "dirty io=dontcache",
    "churn",
    "scan io=buffered",
    "scan io=direct",
    "commit",
];
const EXPERIMENTS: usize = 11;
const TRIALS: u32 = 4;
// Planted into 2 % of the commits.
const DELAY_NS: u64 = 1_000_000;
const ONE_OF: u64 = 50;

#[test]
#[ignore = "half an hour long"]
fn neighbours_on_a_disk_leave_nothing_behind_and_planted_delays_are_found() {
    // Where datasets are named, these are looked at again.
    let recorded = std::env::var_os("RINGFENCE_RECORDED").map(PathBuf::from);
    let folder = recorded.clone().unwrap_or_else(|| {
        Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("disk-statistics-{}", std::process::id()))
    });
    if recorded.is_none() {
        std::fs::create_dir_all(&folder).unwrap();
        measure(&folder);
    }
    // A quantile takes more latencies.
    for (quantity, trials) in [("mean", TRIALS), ("p99", 3 * TRIALS)] {
        let (mut alarms, mut held, mut of, mut all) = (0, 0, 0, 0);
        for (number, visitor) in VISITORS.iter().enumerate() {
            let dataset = Dataset::open(&folder.join(number.to_string())).unwrap();
            let mut plan = dataset.plan.clone();
            plan.experiment.measure.quantity = quantity.parse().unwrap();
            plan.experiment.aa = Some(trials);
            let estimates = told(&plan, &dataset.samples);
            let seen = |interval: &&Interval| interval.low > 1.0 || interval.high < 1.0;
            let own = estimates.iter().flatten().filter(seen).count();
            let planted = planted(&dataset.samples, number as u64);
            let truths = truths(quantity, trials, &dataset.samples, &planted);
            let found = told(&plan, &planted);
            let figures = found.iter().flatten().count();
            let holds = |(interval, truth): (&Option<Interval>, &f64)| {
                interval.is_some_and(|interval| (interval.low..=interval.high).contains(truth))
            };
            let hold = found.iter().zip(&truths).filter(|pair| holds(*pair)).count();
            println!(
                "{quantity}, {visitor} between: {own} of {figures} saw an effect; {hold} of \
                 {figures} hold what was planted",
            );
            alarms += own;
            held += hold;
            of += figures;
            all += found.len();
        }
        println!("{quantity}: {alarms} false alarms, {held} covered, of {of}");
        // On a busy machine a quantile is often refused, which is no error of it.
        assert!(
            of * 10 >= all * if quantity == "mean" { 9 } else { 1 },
            "{of} of {all} have a figure"
        );
        assert!(alarms * 100 <= 9 * of, "{quantity}: {alarms} of {of}");
        assert!(held * 100 >= 90 * of, "{quantity}: {held} of {of}");
    }
    if recorded.is_none() {
        std::fs::remove_dir_all(&folder).ok();
    }
}

fn measure(folder: &Path) {
    let data = folder.join("data");
    std::fs::create_dir_all(&data).unwrap();
    let dir = data.display();
    for (number, visitor) in VISITORS.iter().enumerate() {
        let output = Command::new(env!("CARGO_BIN_EXE_ringfence"))
            .args(["aa", "--victim", &format!("commit dir={dir} layout=written")])
            .args(["--between", &format!("{visitor} dir={dir}")])
            .args(["--experiments", &EXPERIMENTS.to_string(), "--trials", &TRIALS.to_string()])
            .args(["--seed", &(number + 1).to_string(), "--quiet", "--out"])
            .arg(folder.join(number.to_string()))
            .output()
            .unwrap();
        assert!(output.status.success(), "{visitor}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

// The intervals of all experiments; none where other programs delayed windows for too long.
fn told(plan: &Plan, samples: &[Sample]) -> Vec<Option<Interval>> {
    let estimates = aa_estimates(plan, samples).expect("they are A/A experiments");
    estimates.into_iter().map(Result::ok).collect()
}

// The windows of the second arm of each pair.
fn is_again(sample: &Sample) -> bool {
    &*sample.role == "victim" && sample.case == sample.step_case
}

fn planted(samples: &[Sample], seed: u64) -> Vec<Sample> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut samples = samples.to_vec();
    for sample in samples.iter_mut().filter(|sample| is_again(sample)) {
        let Some(latencies) = &sample.latencies else { continue };
        let (mut counts, mut delayed) = (Vec::new(), 0);
        for &(floor, count) in latencies.buckets() {
            let moved = (0..count).filter(|_| rng.next_u64().is_multiple_of(ONE_OF)).count() as u64;
            // From the middle of its bucket.
            let middle = (floor + bucket_floor(bucket_of(floor) + 1)) / 2;
            counts.extend([
                (floor, count - moved),
                (bucket_floor(bucket_of(middle + DELAY_NS)), moved),
            ]);
            delayed += moved;
        }
        sample.latencies = Some(Histogram::new(latencies.grid(), counts));
        sample.busy_ns += delayed * DELAY_NS;
    }
    samples
}

// What planting made of each experiment's figure: of means, in its own windows; of a quantile, in
// those of all of them, since a few windows do not show where it lies.
fn truths(quantity: &str, trials: u32, before: &[Sample], after: &[Sample]) -> Vec<f64> {
    let windows: Vec<(&Sample, &Sample)> =
        before.iter().zip(after).filter(|(sample, _)| is_again(sample)).collect();
    if quantity == "mean" {
        let log = |(before, after): &(&Sample, &Sample)| {
            (after.busy_ns as f64 / before.busy_ns as f64).ln()
        };
        let of = windows.chunks_exact(trials as usize);
        return of.map(|own| (own.iter().map(log).sum::<f64>() / own.len() as f64).exp()).collect();
    }
    let all = |side: fn(&(&Sample, &Sample)) -> Option<Histogram>| {
        let all: Vec<Histogram> = windows.iter().filter_map(side).collect();
        at_99(&Histogram::sum(&all))
    };
    let ratio =
        all(|(_, after)| after.latencies.clone()) / all(|(before, _)| before.latencies.clone());
    vec![ratio; windows.len() / trials as usize]
}

// Between the ends of its bucket, as far as the count goes.
fn at_99(histogram: &Histogram) -> f64 {
    let wanted = histogram.total() as f64 * 0.99;
    let mut below = 0.0;
    for &(floor, count) in histogram.buckets() {
        if below + count as f64 >= wanted {
            let width = bucket_floor(bucket_of(floor) + 1) - floor;
            return floor as f64 + width as f64 * (wanted - below) / count as f64;
        }
        below += count as f64;
    }
    f64::NAN
}
