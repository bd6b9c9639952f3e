//! Studies on machines whose answer is known, from the command line: `tune`, `pair`, `sensitivity`
//! and `aa`. Those of `survey`, `prove`, `lock` and `whatif` are with the tests of these.

use std::fs;

use serde_json::Value;

use crate::support::{Folder, ringfence_in, small_laptop};

// A laptop with two last-level caches.
fn planted(folder: &Folder, changes: &[(&str, &str)]) {
    let two = [&[("topology.llcs_per_socket", "2")], changes].concat();
    fs::write(folder.path().join("planted.toml"), small_laptop(&two)).unwrap();
}

fn simulated(folder: &Folder, verb: &[&str], more: &[&str]) -> Value {
    let on = ["--machine", "planted.toml", "--quiet", "--json"];
    ringfence_in(folder.path(), &[verb, &on, more].concat()).json_of_any()
}

#[test]
fn tune_chooses_the_way_that_was_planted_cheapest() {
    let choice = |flush_ns: &str, nt_ns: &str| {
        let folder = Folder::new();
        planted(&folder, &[("uncore.flush_ns", flush_ns), ("uncore.nt_ns", nt_ns)]);
        simulated(&folder, &["tune"], &["--size", "2MiB", "--out", "t"])["tuned"]["choice"].clone()
    };
    let (cheap, dear) = ("20.0", "3000.0");
    let past_caches = choice(dear, cheap);
    assert_eq!(past_caches["nt_threshold"], 64, "every block past the caches: {past_caches}");
    let flushed = choice(cheap, dear);
    assert!(flushed["nt_threshold"].is_null(), "none past the caches: {flushed}");
}

#[test]
fn pair_finds_that_another_cache_keeps_the_pair_apart() {
    let folder = Folder::new();
    planted(&folder, &[]);
    let pair = ["pair", "--task", "chase footprint=1MiB", "--task", "stream size=12MiB"];
    let slowdown = |placement: &str| {
        let how = ["--trials", "4", "--placement", placement, "--out", placement];
        let json = simulated(&folder, &pair, &how);
        let both = serde_json::json!([0, 1]);
        let pairs = json["outcome"]["pairs"].as_array().unwrap();
        let mixed = pairs.iter().find(|pair| pair["kinds"] == both).unwrap();
        mixed["first"]["slowdown"].clone()
    };
    let (below_one, apart) = (slowdown("llc"), slowdown("node"));
    assert!(below_one["low"].as_f64().unwrap() > 1.5, "{below_one}");
    assert!(apart["high"].as_f64().unwrap() < 1.1, "{apart}");
}

#[test]
fn sensitivity_bends_where_both_no_longer_fit_into_the_cache() {
    let folder = Folder::new();
    planted(&folder, &[]);
    let ask = ["sensitivity", "--victim", "chase footprint=768KiB", "--polluter", "write"];
    let how =
        ["--footprint", "128KiB,512KiB,3MiB", "--placement", "llc", "--trials", "4", "--out", "s"];
    let json = simulated(&folder, &ask, &how);
    let points = json["sensitivity"]["curves"][0]["points"].as_array().unwrap();
    let slowdown =
        |point: usize, end: &str| points[point]["finding"]["slowdown"][end].as_f64().unwrap();
    let found: Vec<String> = (0..3).map(|point| points[point]["finding"].to_string()).collect();
    // Within 1.5 MiB both fit. Stores to 3 MiB come fast enough to replace lines between two loads
    // of the victim.
    assert!(slowdown(0, "high") < 1.05 && slowdown(1, "high") < 1.1, "{found:?}");
    assert!(slowdown(2, "low") > 1.5, "{found:?}");
}

#[test]
fn aa_keeps_its_rate_of_false_alarms_while_the_clock_drifts() {
    let folder = Folder::new();
    planted(&folder, &[]);
    let aa = ["aa", "--victim", "alu", "--experiments", "60"];
    let quiet = simulated(&folder, &aa, &["--out", "quiet"])["aa"].clone();
    let file = folder.path().join("planted.toml");
    let text = fs::read_to_string(&file).unwrap().replacen("\ntitle", "\nnoise = \"vm\"\ntitle", 1);
    fs::write(&file, text).unwrap();
    let noisy = simulated(&folder, &aa, &["--out", "noisy"])["aa"].clone();
    let detectable = |aa: &Value| aa["smallest_detectable"].as_f64().unwrap_or_default();
    assert!(detectable(&noisy) > 10.0 * detectable(&quiet), "{noisy} and {quiet}");
    assert_eq!(noisy["estimates"], 60, "{noisy}");
    // With one in twenty allowed, more than eight of sixty come by chance in less than one of a
    // hundred cases.
    assert!(noisy["false_alarms"].as_u64().unwrap() <= 8, "{noisy}");
}
