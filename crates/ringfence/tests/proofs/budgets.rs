//! `prove --budget 'p99<5ms'`: a victim compared with a time, whatever its time alone is.

use crate::support::{Folder, cpus, figure, joined, ringfence, ringfence_in, skip};
use crate::{alone, beside_others};

// A service of a test's own: it answers at once with what it is asked.
const SERVICE: [&str; 5] = ["prove", "--victim-probe", "exec:cat", "--aggressor", "alu"];

// An answer takes less than ten seconds and more than a microsecond, on any machine.
#[test]
fn a_service_is_held_against_a_time() {
    let _alone = alone();
    if cpus().len() < 2 {
        return skip("a victim and an aggressor need two CPUs");
    }
    let folder = Folder::new();
    // A busy machine may make windows too long, or answers that come in bursts, which count for
    // few: either leaves no figure, which the run then says. What it says of figures is tested
    // where there are some.
    let asked = |budget: &str, trials: &str, out: &str| {
        let rest = ["--budget", budget, "--trials", trials, "--probe-send", "PING", "-v"];
        for attempt in 1..=5 {
            let out = format!("{out}-{attempt}");
            let args = [&SERVICE[..], &rest, &["--out", &out]].concat();
            let output = ringfence_in(folder.path(), &args);
            let json = ringfence_in(folder.path(), &["show", &out, "--json"]).json();
            let reached = &json["proof"]["reached"];
            let silent = ["alone", "beside"].iter().any(|arm| figure(&reached[arm]).is_none());
            if !silent {
                return (output, json, folder.path().join(out));
            }
            let said = format!("{}{}", output.stdout, output.stderr);
            assert!(output.code() != Some(3), "over the budget without a figure: {said}");
            eprintln!("attempt {attempt}, {trials} trials: no figure: {reached}");
        }
        panic!("five runs without a figure");
    };
    let (output, json, wide) = asked("p50 < 10s", "12", "wide");
    let said = format!("{}{}", output.stdout, output.stderr);
    assert!(
        joined(&output.stdout).contains("p50 of a victim's answer may be 10s at most"),
        "{said}"
    );
    assert_eq!(output.code(), Some(0), "{said}");
    let question = &json["proof"]["record"]["question"];
    assert_eq!(
        (&question["budget"], &question["measure"]["quantity"]),
        (&"p50<10s".into(), &"p50".into())
    );
    let beside = figure(&json["proof"]["reached"]["beside"]);
    assert!(beside.is_some_and(|ns| ns > 1e3 && ns < 1e10), "{json}");
    // What is asked in each stage reruns from its file, with the bound in it.
    let baseline = std::fs::read_to_string(wide.join("baseline/experiment.toml")).unwrap();
    assert!(
        baseline.contains("at_most = \"10s\"") && baseline.contains("quantity = \"p50\""),
        "{baseline}"
    );

    // Alone it is longer: no lever is tried.
    let (output, json, _) = asked("p50<=1us", "12", "narrow");
    let text = joined(&output.stdout);
    assert_eq!(output.code(), Some(3), "{text}{}", output.stderr);
    assert!(text.contains("The victim is over the budget of p50<1us by itself"), "{text}");
    assert!(text.contains("No lever on the aggressor can help"), "{text}");
    assert_eq!(json["proof"]["tried"], serde_json::json!([]), "{json}");
}

// On a described machine every figure is the same each time.
#[test]
fn a_simulated_victim_is_held_against_a_time() {
    let _beside = beside_others();
    let asked = |budget: &str| {
        let folder = Folder::new();
        let victim = [
            "prove",
            "--machine",
            "cascade-lake-optane",
            "--victim",
            "chase footprint=64KiB histogram=true",
        ];
        let rest = ["--aggressor", "alu", "--trials", "6", "--levers", "quota", "--budget", budget];
        let output = ringfence_in(folder.path(), &[&victim[..], &rest].concat());
        (output.code(), output.stdout + &output.stderr)
    };
    let (code, said) = asked("p99<1ms");
    assert!(code == Some(6) && joined(&said).contains("within the budget of p99<1ms"), "{said}");
    let (code, said) = asked("mean<1ns");
    assert!(
        code == Some(3) && joined(&said).contains("over the budget of mean<1ns by itself"),
        "{said}"
    );
}

#[test]
fn what_is_no_budget_is_refused_in_a_sentence() {
    let _beside = beside_others();
    let refused = |args: &[&str], said: &str| {
        let output = ringfence(args);
        assert!(
            output.code() == Some(2) && output.stderr.contains(said),
            "{args:?}: {}",
            output.stderr
        );
        assert_eq!(output.stderr.trim().lines().count(), 1, "{}", output.stderr);
    };
    let of = |budget: &'static str| {
        [&SERVICE[..], &["--probe-send", "PING", "--budget", budget]].concat()
    };
    refused(&of("5ms"), "write 'p99<5ms', or the allowed slowdown, such as 2%");
    refused(&of("p98<5ms"), "'p98' is not a quantity");
    refused(&of("p99<5"), "'5' is not a duration");
    refused(&of("p99>5ms"), "the wrong sign");
    refused(&of("p99<0s"), "the bound must be more than 0");
    refused(&[&of("p99<5ms")[..], &["--metric", "p50"]].concat(), "leave --metric out");
    // A workload whose latencies are not counted.
    let alu = ["prove", "--victim", "alu", "--aggressor", "alu", "--budget", "mean<5ms"];
    refused(
        &alu,
        "cannot compare 'victim' with mean<5ms, because the latencies of alu are not counted",
    );
    let run = ["prove", "--victim-run", "true", "--aggressor", "alu", "--budget", "p99<5ms"];
    refused(&run, "because the latencies of a program are not counted");
    let writers = [
        "prove",
        "--victim",
        "commit dir=. writers=4",
        "--aggressor",
        "alu",
        "--budget",
        "mean<5ms",
    ];
    refused(&writers, "several instances work at once");
    let tune = ["tune", "dram", "--victim", "alu", "--budget", "p99<5ms"];
    refused(&tune, "for a bound on time, use 'ringfence prove'");
    let time = ["neighbours", "--victim", "alu", "--aggressor", "alu", "--budget", "p99<5ms"];
    refused(&time, "to test a victim against a budget, use 'ringfence prove'");
}

// On a described machine every figure is the same each time: it is known at the first look, or at
// none.
#[test]
fn an_experiment_stops_where_a_bound_is_decided() {
    let _beside = beside_others();
    let folder = Folder::new();
    let trials = |at_most: &str| {
        let text = format!(
            "schema = 2\nname = 'bound'\nmetric = 'victim'\n\
            [measure]\nlooks = [4, 6, 8]\nquantity = 'p50'\ndecide = {{ arm = 'beside', at_most = \
            '{at_most}' }}\n\
            [[role]]\nname = 'victim'\ntask = {{ workload = 'chase', footprint = '64KiB', \
            histogram = true }}\n\
            [[role]]\nname = 'other'\ntask = {{ workload = 'alu' }}\n\
            [[arm]]\nname = 'alone'\nactive = ['victim']\n\
            [[arm]]\nname = 'beside'\nactive = ['victim', 'other']\nbaseline = 'alone'\n"
        );
        std::fs::write(folder.path().join("bound.toml"), text).unwrap();
        let out = format!("at-{at_most}");
        let run =
            ["run", "bound.toml", "--machine", "cascade-lake-optane", "--json", "--out", &out];
        let json = ringfence_in(folder.path(), &run).json();
        let result = &json["results"][0];
        let ns = figure(&result["ns_per_unit"]).unwrap_or_else(|| panic!("{json}"));
        (result["ns_per_unit"]["trials"].as_u64(), ns)
    };
    let (first, ns) = trials("1ms");
    assert_eq!(first, Some(4), "{ns}");
    // The bound is where the figure is.
    assert_eq!(trials(&format!("{ns:.0}ns")).0, Some(8));
}
