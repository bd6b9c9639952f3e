//! Whole proofs on the machine itself, counted: minutes long, so `scripts/nightly` runs them, not
//! `cargo test`.
//!
//! An aggressor that works and does no harm must never be found over the budget and seldom be left
//! undecided; a slowdown that is planted must be held by the look's interval.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support;

const TIME: &str = "20s";

struct Planted(PathBuf);

impl Planted {
    fn build() -> Self {
        let folder = std::env::temp_dir().join(format!("ringfence-proofs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/planted.c");
        let built =
            Command::new("cc").args(["-O2", "-o"]).arg(folder.join("planted")).arg(source).status();
        assert!(built.is_ok_and(|status| status.success()), "planted.c wants a C compiler");
        Self(folder)
    }

    fn victim(&self, permille: u32) -> String {
        format!("{0}/planted victim {0}/state {permille}", self.0.display())
    }

    fn aggressor(&self) -> String {
        format!("{0}/planted aggressor {0}/state", self.0.display())
    }

    fn prove(&self, seed: u32, victim: &[&str], aggressor: &[&str]) -> Proof {
        let out = self.0.join("proof");
        let _ = std::fs::remove_dir_all(&out);
        let output = Command::new(env!("CARGO_BIN_EXE_ringfence"))
            .args(["prove", "--budget=2%", "--time", TIME, "--json", "--quiet"])
            .args(["--seed", &seed.to_string(), "--out"])
            .arg(&out)
            .args(victim)
            .args(aggressor)
            .output()
            .unwrap();
        let value: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        support::check_json(&value);
        let beside = &value["proof"]["beside"];
        let figure =
            |name: &str| beside[name].as_f64().unwrap_or_else(|| panic!("no {name} in {value}"));
        let proof = Proof {
            verdict: value["proof"]["verdict"].as_str().unwrap().into(),
            low: figure("low"),
            high: figure("high"),
        };
        let (value, trials) = (figure("value"), &beside["trials"]);
        println!(
            "{victim:?}, seed {seed}: {}, {value:.4} [{:.4}, {:.4}] over {trials} trials",
            proof.verdict, proof.low, proof.high
        );
        proof
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

struct Proof {
    verdict: String,
    low: f64,
    high: f64,
}

#[test]
#[ignore = "a quarter of an hour long"]
fn an_aggressor_without_harm_is_not_over_and_seldom_undecided() {
    let planted = Planted::build();
    let counter = planted.victim(0);
    let victims: [&[&str]; 2] =
        [&["--victim=alu"], &["--victim", &counter, "--victim-progress=counter"]];
    let aggressor = ["--aggressor", "alu"];
    let (mut over, mut undecided) = (0, 0);
    for seed in 1..=20 {
        for victim in victims {
            let proof = planted.prove(seed, victim, &aggressor);
            over += u32::from(proof.low > 1.02);
            undecided += u32::from(proof.verdict == "undecided");
        }
    }
    println!("40 proofs of nothing in {TIME} each: {over} over, {undecided} undecided");
    assert_eq!(over, 0);
    assert!(undecided <= 2, "{undecided} of 40 undecided");
}

#[test]
#[ignore = "minutes long"]
fn a_planted_slowdown_is_held_by_the_look() {
    let planted = Planted::build();
    let (victim, aggressor) = (planted.victim(30), planted.aggressor());
    let held = (1..=20)
        .filter(|seed| {
            let proof = planted.prove(
                *seed,
                &["--victim", &victim, "--victim-progress=counter"],
                &["--aggressor", &aggressor],
            );
            proof.low <= 1.03 && 1.03 <= proof.high
        })
        .count();
    println!("20 proofs with 3 % planted: {held} intervals hold it");
    // A right 95 % interval passes that 98 times in 100.
    assert!(held >= 17, "{held} of 20");
}
