//! `tune` on this machine: a policy that the persistence library reads.

mod support;

use std::fs;

use ringfence_persist::policy::Policy;
use support::{Folder, ringfence_in};

const QUICK: [&str; 6] = ["tune", "dram", "--trials=2", "--size=2MiB", "--quiet", "--out=data"];

#[test]
fn a_policy_is_written_that_the_library_reads() {
    let folder = Folder::new();
    let output = ringfence_in(folder.path(), &[&QUICK[..], &["--json"]].concat());
    let tuned = &output.json()["tuned"];
    let text = fs::read_to_string(folder.path().join("ringfence-policy.toml")).unwrap();
    let policy = Policy::parse(&text).unwrap();
    assert!(policy.is_for_here());
    assert_eq!(policy.target, "dram");
    // What was chosen is what is written, unless fresh trials spoke against it.
    let chosen = if tuned["fell_back"].as_bool().unwrap() { &tuned["pmdk"] } else { &tuned["choice"] };
    assert_eq!(chosen["instruction"].as_str().unwrap(), policy.instruction.to_string());
    assert_eq!(chosen["nt_threshold"].as_u64(), policy.nt_threshold);
    assert_eq!(tuned["costs"].as_array().unwrap().len(), 60);
    // The folder says what was concluded, too.
    let shown = ringfence_in(folder.path(), &["show", "data"]);
    assert!(
        text.lines().filter(|line| line.contains(" = ")).all(|line| shown.ok().contains(line)),
        "{}",
        shown.ok()
    );
    // 64 flushes take longer than a step of any clock.
    assert!(tuned["unpriced"].is_null());
    assert!(policy.prices.flush_ns.is_some() && policy.prices.clean_flush_ns.is_some());
    // Any reader of TOML reads it, too.
    assert!(text.parse::<toml::Table>().is_ok());

    let again =
        ringfence_in(folder.path(), &["tune", "dram", "--trials=2", "--size=2MiB", "--quiet", "--out=more"]);
    assert_eq!(again.code(), Some(2), "{}", again.stderr);
    assert!(again.stderr.contains("already exists: name another file"), "{}", again.stderr);
}

#[test]
fn a_victim_decides_whether_there_is_a_policy() {
    if support::cpus().len() < 2 {
        return support::skip("a victim beside a writer needs two CPUs");
    }
    let folder = Folder::new();
    let output =
        ringfence_in(folder.path(), &[&QUICK[..], &["--victim=alu", "--budget=100%", "--json"]].concat());
    let json = output.json_of_any();
    let met = matches!(json["tuned"]["proof"]["verdict"].as_str(), Some("nothing_needed" | "met"));
    assert_eq!(output.code(), Some(if met { 0 } else { 3 }), "{}", output.stderr);
    assert_eq!(folder.path().join("ringfence-policy.toml").exists(), met);
}

#[test]
fn slips_are_refused_in_a_sentence_and_nothing_is_written() {
    let folder = Folder::new();
    let cases: [(&[&str], &str); 6] = [
        (&["tune", "disk"], "is not a target"),
        (&["tune", "--budget", "2%"], "name the task with --victim"),
        (&["tune", "--size", "64KiB"], "smaller than the largest block"),
        (&["tune", "--victim", "wrte block=1KiB"], "did you mean 'write'"),
        (&["tune", "--victim", "mcf", "--budget", "many"], "is not a share"),
        (&["tune", "--trials", "none"], "--trials"),
    ];
    for (args, part) in cases {
        let output = ringfence_in(folder.path(), args);
        assert_eq!(output.code(), Some(2), "{args:?}: {}", output.stderr);
        assert!(output.stderr.contains(part), "{args:?}: {}", output.stderr);
    }
    assert_eq!(folder.entries(), Vec::<String>::new());
}
