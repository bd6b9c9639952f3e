//! Statistics on the machine itself: minutes long, so `.ci/nightly` runs them, not `cargo test`.
//!
//! A hundred A/A experiments must not see effects more often than their intervals allow, and an effect
//! that is put in must be found at its size.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

fn run(name: &str, arguments: &[&str]) -> Value {
    let dir = std::env::temp_dir().join(format!("ringfence-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let output = Command::new(env!("CARGO_BIN_EXE_ringfence"))
        .args(arguments)
        .args(["--json", "--quiet", "--out"])
        .arg(&dir)
        .output()
        .unwrap();
    std::fs::remove_dir_all(&dir).ok();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn figure(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_else(|| panic!("no {name} in {value}"))
}

#[test]
#[ignore = "minutes long"]
fn a_hundred_experiments_of_nothing_see_nothing_too_often() {
    for victim in ["chase footprint=4MiB", "alu"] {
        let result = run("aa", &["aa", "--victim", victim, "--experiments", "100"]);
        let aa = &result["aa"];
        let (alarms, of) = (figure(aa, "false_alarms"), figure(aa, "estimates"));
        println!(
            "A/A {victim}: {alarms} of {of} experiments saw an effect; smallest detectable {:.2} %",
            figure(aa, "smallest_detectable") * 100.0
        );
        assert_eq!(of, 100.0);
        // Of 100 experiments at 5 %, more than 12 happen once in a thousand (binomial).
        assert!(alarms <= 12.0, "{alarms} false alarms");
    }
}

#[test]
#[ignore = "minutes long"]
fn an_effect_that_is_there_is_found_at_its_size() {
    let file =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../experiments/does-the-lab-see-two-percent.toml");
    let truth = 1.0 / (1.0 - 0.02);
    let (mut covered, mut seen) = (0, 0);
    let rounds = 40;
    for seed in 1..=rounds {
        let seed = seed.to_string();
        let result = run("two-percent", &["run", file.to_str().unwrap(), "--seed", &seed]);
        let slowdown = &result["results"][0]["effect"]["by_class"]["all"]["slowdown"];
        let (low, high) = (figure(slowdown, "low"), figure(slowdown, "high"));
        covered += usize::from(low <= truth && truth <= high);
        seen += usize::from(low > 1.0);
        println!("seed {seed}: {:.4} [{low:.4}, {high:.4}]", figure(slowdown, "value"));
    }
    println!("2 % less work: {covered} of {rounds} intervals hold {truth:.4}, {seen} exclude no change");
    // Of 40 intervals at 95 %, fewer than 33 happen once in a thousand (binomial).
    assert!(covered >= 33, "{covered} of {rounds}");
}
