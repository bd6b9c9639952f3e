//! `--metric`: figures, verdicts and budgets that are about a quantile of latencies.

use crate::beside_others;
use crate::support::{Folder, cpus, figure, joined, ringfence_in, skip};

// Loads of a small chase are many: a quantile of them has an interval after few trials.
const COUNTED: [&str; 4] =
    ["--victim", "chase footprint=64KiB histogram=true", "--aggressor", "alu"];

#[test]
fn neighbours_are_told_by_a_quantile() {
    let _beside = beside_others();
    let folder = Folder::new();
    if cpus().len() < 2 {
        return skip("a victim and an aggressor need two CPUs");
    }
    let short = ["--trials", "4", "--metric", "p99", "--out", "n", "-v"];
    let said =
        ringfence_in(folder.path(), &[&["neighbours"][..], &COUNTED, &short].concat()).said();
    assert!(said.contains("p99 slowdown: how much longer p99 of 'victim' is per load"), "{said}");
    // The same from the dataset, and as JSON.
    assert!(ringfence_in(folder.path(), &["show", "-v", "n"]).said().contains("p99 slowdown"));
    let said = ringfence_in(folder.path(), &["show", "n"]).said();
    assert!(said.contains("p99 of the victim"), "{said}");
    let json = ringfence_in(folder.path(), &["show", "n", "--json"]).json();
    let json = &json["datasets"][0];
    assert_eq!(json["experiment"]["measure"]["quantity"], "p99");
    // Of 4 trials the interval may be too wide to be told, windows may be left out, and on a busy
    // machine slow loads come in bursts, but there are as many loads as it takes where they do not.
    let slowdown = &json["results"][0]["effect"]["finding"]["slowdown"];
    let enough = slowdown["counted"].as_u64() >= Some(1000);
    assert!(
        figure(slowdown).is_some() || slowdown["reason"] != "too_few_latencies" || enough,
        "{slowdown}"
    );
    let alone = &json["latencies"][0]["quantiles"];
    assert_eq!(alone.as_array().map(Vec::len), Some(4), "{json}");
    // Another quantity is another question.
    let other = ["--trials", "4", "--metric", "p90", "--out", "o", "--json"];
    let measured =
        ringfence_in(folder.path(), &[&["neighbours"][..], &COUNTED, &other].concat()).json();
    // What is stored is what figures were made of: later they are the same to the last digit.
    let again = ringfence_in(folder.path(), &["show", "o", "--json"]).json();
    for part in ["results", "latencies"] {
        assert_eq!(measured[part], again["datasets"][0][part], "{part}");
    }
    let refused = ringfence_in(folder.path(), &["compare", "n", "o"]);
    assert_eq!(refused.code(), Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("one measures the p99 of latencies, the other the p90"),
        "{}",
        refused.stderr
    );
}

#[test]
fn too_few_latencies_say_what_they_take() {
    let _beside = beside_others();
    let folder = Folder::new();
    if cpus().len() < 2 {
        return skip("a victim and an aggressor need two CPUs");
    }
    // A round of 512 reads each 5 ms, and windows of 15 ms: a few thousand.
    let victim =
        ["--victim", "read size=16KiB interval=5ms", "--aggressor", "alu", "--window", "15ms"];
    let short = ["--trials", "4", "--rounds", "1", "--metric", "p99.9", "--json", "--out", "n"];
    let json = ringfence_in(folder.path(), &[&["neighbours"][..], &victim, &short].concat()).json();
    let slowdown = &json["results"][0]["effect"]["finding"]["slowdown"];
    let found = (&slowdown["reason"], &slowdown["quantile"], &slowdown["needed"]);
    // Where a busy machine has made windows too long, whole trials may be left out, which is said
    // first.
    let left_out = json["results"][0]["too_long"]["steps"].as_u64() > Some(0);
    assert!(
        found == (&"too_few_latencies".into(), &"p99.9".into(), &10_000.into())
            || left_out && slowdown["reason"] == "too_few_trials",
        "{slowdown}"
    );
    assert_eq!(json["results"][0]["effect"]["finding"]["verdict"], "not_estimable");
}

#[test]
fn a_budget_can_be_one_for_a_quantile() {
    let _beside = beside_others();
    let folder = Folder::new();
    if cpus().len() < 2 {
        return skip("a victim and an aggressor need two CPUs");
    }
    let short =
        ["--metric", "p50", "--budget", "100%", "--trials", "6", "--levers", "quota", "--out", "p"];
    let output = ringfence_in(folder.path(), &[&["prove", "-v"][..], &COUNTED, &short].concat());
    // How it ends is the machine's affair; what it is about is not.
    let said = format!("{}{}", output.stdout, output.stderr);
    assert!(matches!(output.code(), Some(0 | 3 | 4)), "{said}");
    let text = joined(&output.stdout);
    assert!(text.contains("p50 of a victim's load may be longer by 100 %"), "{said}");
    assert!(output.stderr.contains("a p50 slowdown of 100 % is detected"), "{said}");
    let json = ringfence_in(folder.path(), &["show", "p", "--json"]).json();
    assert_eq!(json["proof"]["record"]["question"]["measure"]["quantity"], "p50", "{json}");
}
