//! `prove` on programs that people have: fio linked to libpmem, and LEMON's solver as a fixed
//! amount of work.

use std::fs;
use std::process::Command;

use ringfence_workloads::mcf::timetable;
use serde_json::Value;

use crate::support::{self, Folder, cpus, figure, ringfence_in, skip};
use crate::{alone, beside_others};

fn has(program: &str, package: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    let found = found.is_ok_and(|output| output.status.success()) && cpus().len() >= 2;
    if !found {
        skip(&format!("two CPUs and {program} are needed (Debian: {package})"));
    }
    found
}

fn proof(stdout: &str) -> Value {
    let all: Value =
        serde_json::from_str(stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"));
    support::check_json(&all);
    all["proof"].clone()
}

#[test]
fn pmdk_environments_are_levers_for_a_program_linked_to_it() {
    let _beside = beside_others();
    if !has("fio", "fio") {
        return;
    }
    let folder = Folder::new();
    let aggressor = format!(
        "PMEM_IS_PMEM_FORCE=1 fio --name=w --ioengine=libpmem --directory={} --rw=write --bs=4k \
         --size=8m \
         --time_based --runtime=600 --thread",
        folder.path().display()
    );
    // No program keeps within such a budget, so the levers are tried.
    let args = [
        "prove",
        "--victim",
        "alu",
        "--aggressor",
        &aggressor,
        "--budget",
        "0%",
        "--trials",
        "8",
        "--window",
        "10ms",
    ];
    let attempt = |name: &str| {
        ringfence_in(folder.path(), &[&args[..], &["--out", name, "--quiet", "--json"]].concat())
    };
    // On a busy machine a baseline may stay undecided, and then no lever is tried; not three in
    // a row.
    let mut output = attempt("proof-0");
    for again in 1..3 {
        if proof(&output.stdout)["verdict"] == "undecided" {
            output = attempt(&format!("proof-{again}"));
        }
    }
    let proof = proof(&output.stdout);
    if proof["verdict"] == "nothing_needed" {
        // Faster beside fio by chance: rare, and no lever was looked for.
        return;
    }
    let tried: Vec<(&str, &str)> = proof["tried"]
        .as_array()
        .unwrap_or_else(|| panic!("{}", output.stderr))
        .iter()
        .map(|tried| {
            (
                tried["candidate"]["arm"]["name"].as_str().unwrap(),
                tried["candidate"]["commands"][0].as_str().unwrap(),
            )
        })
        .collect();
    for name in ["PMEM_NO_CLWB=1", "PMEM_NO_MOVNT=1", "PMEM_MOVNT_THRESHOLD=0", "quota 50%"] {
        let (_, command) = tried
            .iter()
            .find(|(known, _)| *known == name)
            .unwrap_or_else(|| panic!("{name}: {tried:?}"));
        assert!(
            command.contains("fio --name=w") && command.contains("PMEM_IS_PMEM_FORCE=1"),
            "{command}"
        );
        assert!(name.starts_with("quota") || command.contains(name), "{command}");
    }
    for tried in proof["tried"].as_array().unwrap() {
        // Which were measured: one that could not be had would say why.
        assert!(figure(&tried["victim"]).is_none_or(|slowdown| slowdown > 0.0), "{tried}");
    }
}

#[test]
fn a_solver_with_a_fixed_amount_of_work_is_a_victim() {
    let _alone = alone();
    if !has("dimacs-solver", "liblemon-utils") {
        return;
    }
    let folder = Folder::new();
    fs::write(folder.path().join("network.min"), timetable(60, 1).to_dimacs()).unwrap();
    let args = [
        "prove",
        "--victim-run",
        // One run is too short to be stopped in turns.
        "sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do dimacs-solver network.min; done'",
        "--aggressor",
        "write size=16MiB",
        "--trials",
        "4",
    ];
    let more = ["--budget", "100%", "--out", "proof", "--quiet", "--json"];
    // A noisy moment may hide from the control that a victim that is stopped half of the time takes
    // longer.
    let mut tries = (0..3).map(|_| {
        let _ = fs::remove_dir_all(folder.path().join("proof"));
        ringfence_in(folder.path(), &[&args[..], &more].concat())
    });
    let output = tries.find(|output| proof(&output.stdout)["verdict"] != "nothing_happened");
    let output = output.expect("the control refused it three times");
    let proof = proof(&output.stdout);
    assert_eq!(proof["unit"], "runs");
    assert!(figure(&proof["beside"]).is_none_or(|slowdown| slowdown > 0.2), "{proof}");
    let code = match proof["verdict"].as_str().unwrap() {
        "nothing_needed" | "met" => 0,
        "missed" => 3,
        "undecided" => 4,
        other => panic!("{other}: {proof}"),
    };
    assert_eq!(output.code(), Some(code), "{}", output.stderr);
}
