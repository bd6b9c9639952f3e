//! The reader, with intervals that are short: every read is in the histogram of its window, cases
//! are kept apart, and what cannot be read is refused.

use std::fs;

use ringfence_analysis::latency;
use ringfence_dataset::Dataset;

use crate::support::{Folder, cpus, ringfence_in, skip};

const READS: u64 = 512;

const EXPERIMENT: &str = "\
schema = 2
name = 'reads'
metric = 'reader'
[measure]
looks = [2]
rounds = 1
window = '200ms'
settle = '1ms'
probe = '0ms'
[[role]]
name = 'reader'
task = { workload = 'read', size = '16KiB', interval = '10ms', mlock = false }
[[arm]]
name = 'idle'
active = ['reader']
[[arm]]
name = 'flushed'
active = ['reader']
baseline = 'idle'
set.reader = { flush = 'clflush', dirty = true }
[[arm]]
name = 'preloaded'
active = ['reader']
baseline = 'idle'
set.reader = { preload = true, access = '64B' }
";

#[test]
fn every_read_is_in_the_histogram_of_its_window() {
    let folder = Folder::new();
    fs::write(folder.path().join("reads.toml"), EXPERIMENT).unwrap();
    let args = ["run", "reads.toml", "--out", "data", "--quiet", "--json"];
    let printed = ringfence_in(folder.path(), &args).json();
    let dataset = Dataset::open(&folder.path().join("data")).unwrap();
    // Two trials of two pairs.
    assert_eq!(dataset.samples.len(), 8);
    for sample in &dataset.samples {
        let counted = sample.latencies.as_ref().map_or(0, |latencies| latencies.total());
        assert_eq!(counted, sample.units, "{sample:?}");
        let round = if sample.case == 2 { READS / 2 } else { READS };
        assert!(sample.units >= round, "a window holds a round: {sample:?}");
        assert!(
            sample.busy_ns > 0 && sample.busy_ns < sample.length_ns,
            "a rest is not work: {sample:?}"
        );
    }
    let scale = dataset.manifest.scale.expect("what hits and misses take is measured");
    let cases = latency::cases(&dataset.plan, &dataset.samples, Some(&scale), 0.95);
    let of_case = |case: u32| dataset.samples.iter().filter(move |sample| sample.case == case);
    for (case, found) in (0..).zip(&cases) {
        let units: u64 = of_case(case).map(|sample| sample.units).sum();
        assert_eq!((found.case, found.histogram.total()), (case as usize, units));
        // The mean of the latencies is the figure: floors of buckets are an eighth too low at most.
        let floors: u64 =
            found.histogram.buckets().iter().map(|(floor, count)| floor * count).sum();
        let busy: u64 = of_case(case).map(|sample| sample.busy_ns).sum();
        assert!(floors <= busy, "case {case}: {floors} {busy}");
    }
    let arms: Vec<&str> = cases.iter().map(|found| found.arm.as_str()).collect();
    assert_eq!(arms, ["idle", "flushed", "preloaded"]);
    assert_eq!(printed["latencies"], serde_json::to_value(&cases).unwrap());
    assert_eq!(printed["scale"], serde_json::to_value(scale).unwrap());

    let shown = ringfence_in(folder.path(), &["show", "data"]);
    for part in ["latency of reads", "p50 ", "longest ", "more: ringfence show -v data"] {
        assert!(shown.said().contains(part), "{part}: {}", shown.stdout);
    }
    let shown = ringfence_in(folder.path(), &["show", "-v", "data"]);
    for part in ["Latencies ", "flushed: latency of reads", "reading the clock, which takes"] {
        assert!(shown.said().contains(part), "{part}: {}", shown.stdout);
    }
    let again = ringfence_in(folder.path(), &["show", "data", "--json"]).json();
    assert_eq!(again["datasets"][0]["latencies"], printed["latencies"]);
    ringfence_in(folder.path(), &["report", "data", "--out", "page.html"]).ok();
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    for arm in arms {
        assert!(page.contains(&format!("{arm}: latency of reads")), "{arm}");
    }
}

#[test]
fn a_chase_counts_the_same_way_beside_others() {
    if cpus().len() < 2 {
        return skip("neighbours need two CPUs");
    }
    let folder = Folder::new();
    let args = [
        "neighbours",
        "--victim=chase footprint=16KiB histogram=true",
        "--aggressor=chase footprint=64KiB histogram=true",
        "--aggressor=alu",
        "--trials=2",
        "--rounds=1",
        "--window=2ms",
        "--settle=1ms",
        "--probe=0ms",
        "--quiet",
        "--out=data",
    ];
    ringfence_in(folder.path(), &args).ok();
    let dataset = Dataset::open(&folder.path().join("data")).unwrap();
    let mut counting = 0;
    for sample in &dataset.samples {
        let counts = &*sample.role == "victim" || sample.case == 1;
        let counted = sample.latencies.as_ref().map_or(0, |latencies| latencies.total());
        assert_eq!(counted, if counts { sample.units } else { 0 }, "{sample:?}");
        counting += u32::from(counts);
    }
    // Two trials of two pairs, and one aggressor that counts.
    assert_eq!(counting, 2 * (4 + 1));
}

#[test]
fn memory_that_is_not_there_is_refused() {
    let folder = Folder::new();
    let locked = "memory = 'locked:/dev/pseudo_lock/no such region'";
    fs::write(folder.path().join("reads.toml"), EXPERIMENT.replace("mlock = false", locked))
        .unwrap();
    let output = ringfence_in(folder.path(), &["run", "reads.toml", "--out", "data"]);
    assert_eq!(output.code(), Some(2), "{}", output.stderr);
    let why = "none of this can be measured here: ";
    assert!(output.stderr.contains(why), "{}", output.stderr);
    // It says how to create one, or why none can be created here.
    assert!(
        output.stderr.contains("'ringfence lock create'")
            || output.stderr.contains("be locked")
            || output.stderr.contains("lock regions"),
        "{}",
        output.stderr
    );
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    assert_eq!(folder.entries(), ["reads.toml"]);
}
