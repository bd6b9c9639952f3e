//! Pages of answers that rest on several datasets, and of comparisons.

use ringfence_analysis::estimate::{Estimate, Interval, NotEstimable};
use ringfence_dataset::Dataset;
use ringfence_engine::Used;
use ringfence_experiment::task::text;
use ringfence_experiment::units::Share;
use ringfence_experiment::{Measure, PlacementKind};
use ringfence_machine::units::Bytes;
use ringfence_report::Style;
use ringfence_report::html::{self, Compared};
use ringfence_studies::pair::{self, Outcome};
use ringfence_studies::prove::lever::Offer;
use ringfence_studies::prove::{
    Confirmation, Control, Price, Proof, Question, Record, Tried, Verdict, Worked,
};
use ringfence_studies::sensitivity::{self, Polluter};

use crate::compare::comparison;
use crate::html::{HOSTILE, check, digest, measured};
use crate::pair::outcome;

#[test]
fn pairs() {
    let text = check("pair", &html::pairs(&outcome(pair::Verdict::Change), &[]));
    assert!(text.contains("<h1>Run 1 beside 3 (A beside B), 2 beside 4 (A beside B).</h1>"));
    // As much as is known of a folder that was cut short, and of one that has nothing to choose.
    let mut cut = outcome(pair::Verdict::CutShort);
    (cut.confirmed, cut.ended_early) = (None, Some("interrupted".into()));
    assert!(check("pair-cut", &html::pairs(&cut, &[])).contains("not confirmed"));
    let alike = Outcome { advice: None, pairs: Vec::new(), ..outcome(pair::Verdict::AllAlike) };
    assert!(!html::page(&html::pairs(&alike, &[])).contains("<figure>"));
}

#[test]
fn pairs_that_are_the_best_already() {
    let mut best = outcome(pair::Verdict::PresentIsBest);
    best.confirmed = None;
    std::mem::swap(&mut best.present, &mut best.advice.as_mut().unwrap().assignment);
    let advice = best.advice.as_mut().unwrap();
    let gain = advice.gain;
    advice.next = Some(pair::Next { assignment: advice.assignment.clone(), gain });
    let text = html::page(&html::pairs(&best, &[]));
    assert!(
        text.contains("the most that another may gain")
            && !text.contains("<span class=\"label\">probability")
    );
}

#[test]
fn a_sensitivity_experiment() {
    let dir = tempfile::tempdir().unwrap();
    let victims = ["chase footprint=4MiB", "alu"].map(|victim| text::parse(victim).unwrap());
    let footprints = [1, 4, 16, 64].map(Bytes::mib);
    let measure = Measure { looks: vec![6], blocks: 1, ..Measure::default() };
    let polluters = [Polluter::Write, Polluter::Chase];
    let experiment = sensitivity::experiment(&victims, &polluters, &footprints, PlacementKind::Auto, measure);
    // Cases come victim by victim, each alone first; the chase suffers beside larger polluters.
    let folder = measured(dir.path(), &experiment.to_toml(), |life, case| {
        let fewer = if (4..=5).contains(&case) { 300 } else { 0 };
        1000 - fewer + (u64::from(life) * 7 + case as u64 * 3) % 5
    });
    let digest = digest(&Dataset::open(&folder).unwrap());
    let found = digest.findings.sensitivity.as_ref().unwrap();
    assert_eq!((found.curves.len(), found.curves[0].points.len()), (4, 4));
    let text = check("sensitivity", &html::datasets(std::slice::from_ref(&digest)));
    assert!(text.contains("<h1>The most sensitive of these is chase footprint=4MiB: at its worst"));
    assert!(text.contains("\"kind\":\"sensitivity\"") && !text.contains("\"kind\":\"frontier\""));
    // Among several, the curves are in a section.
    let text = html::page(&html::datasets(&[digest.clone(), digest]));
    assert!(text.contains("id=\"sensitivity\"") && text.contains("id=\"sensitivity-1\""));
}

#[test]
fn comparisons() {
    let one = Compared {
        name: String::new(),
        before: "first".into(),
        after: "second".into(),
        comparison: comparison(),
    };
    let text = check("compare", &html::comparisons(std::slice::from_ref(&one), &[]));
    assert!(text.contains("<h1>Of 5 cells 2 changed"));
    assert!(text.find("id=\"differences\"").unwrap() < text.find("id=\"cells\"").unwrap());
    let mut other = Compared { name: "mcf".into(), ..one.clone() };
    (other.comparison.question, other.comparison.differences) = (Some(HOSTILE.into()), Vec::new());
    let left_out = ["not compared: alu, because there is none after".to_owned()];
    let text = check("compare-several", &html::comparisons(&[one, other], &left_out));
    assert!(text.contains("4 of 10 cells changed, in 2 experiments") && !text.contains("<img"));
    // So many that the first screen has no room for them.
    let mut many = comparison();
    many.cells = std::iter::repeat_with(|| comparison().cells).take(8).flatten().collect();
    let many =
        Compared { name: String::new(), before: String::new(), after: String::new(), comparison: many };
    let text = html::page(&html::comparisons(&[many], &[]));
    assert!(text.find("id=\"cells\"").unwrap() < text.find("<figure>").unwrap());
}

fn interval(value: f64, low: f64, high: f64) -> Estimate {
    Ok(Interval { value, low, high, level: 0.95, lives: 24, spread: 0.03 })
}

fn tried(name: &str, victim: Estimate, price: Price) -> Tried {
    let offer = serde_json::from_value::<Offer>(serde_json::json!({
        "lever": "instruction",
        "arm": { "name": name, "active": ["victim", "aggressor"], "baseline": "alone" },
        "keep": format!("run it with {name}"),
        "price_in_cpu_time": false,
    }));
    Tried { offer: offer.unwrap(), victim, price }
}

#[test]
fn a_proof() {
    let question = Question {
        victim: text::parse("chase footprint=4MiB").unwrap(),
        aggressor: text::parse("write instruction=clwb").unwrap(),
        aggressors: 1,
        victim_cpus: None,
        aggressor_cpus: None,
        placement: PlacementKind::Auto,
        budget: Share(0.05),
        measure: Measure::default(),
        lives: None,
        seed: 1,
        levers: Vec::new(),
        try_env: Vec::new(),
        time: None,
    };
    let mut record = Record::new(&question);
    record.refused = vec![("other placement".into(), HOSTILE.into())];
    let gentle =
        tried("instruction=nt", interval(1.002, 0.996, 1.008), Price::Slowdown(interval(0.998, 0.99, 1.006)));
    let paced = tried("pace=100MB/s", interval(1.04, 1.02, 1.06), Price::Slowdown(interval(9.1, 9.0, 9.2)));
    let stuck = tried(
        "quota 20 %",
        Err(NotEstimable::Stalled { baseline: 0, arm: 3, of: 24 }),
        Price::Unseen("it shows no progress".into()),
    );
    let proof = Proof {
        record,
        unit: "loads".into(),
        cpus: [vec![0], vec![1]],
        beside: interval(11.9, 11.5, 12.3),
        tried: vec![gentle.clone(), paced, stuck],
        confirmations: vec![Confirmation {
            tried: gentle,
            beside: interval(12.0, 11.6, 12.4),
            met: Some(true),
        }],
        verdict: Verdict::Met,
    };
    let text = check("prove", &html::proof(&proof, &[]));
    assert!(text.contains("with instruction=nt") && !text.contains("<img"));
    crate::golden::check("prove", |style| ringfence_report::prove(&proof, style));
    // A command stays on one line and whole, in a narrow terminal too, and can be copied from the page.
    let line = format!("taskset -c 1 env 'A=x y' ./backup {}", "'my folder' ".repeat(30).trim_end());
    let mut kept = proof.clone();
    kept.confirmations[0].tried.offer.commands = vec![line.clone()];
    let text = ringfence_report::prove(&kept, &Style::plain(40));
    assert!(text.lines().any(|printed| printed.trim_start() == line), "{text}");
    let page = html::page(&html::proof(&kept, &[]));
    let copied = format!("<pre>{line}</pre><button type=\"button\" class=\"copy\"");
    assert!(page.contains(&copied), "{copied}");
    let perhaps = Proof { beside: interval(1.04, 1.01, 1.07), ..proof.clone() };
    crate::golden::check("prove-perhaps", |style| ringfence_report::prove(&perhaps, style));
    for (name, record) in nothing_happened(&proof.record) {
        let refused = match &record.control {
            Some(_) => Proof::new(&record, &[]),
            None => Proof { verdict: Verdict::NothingHappened, record, ..proof.clone() },
        };
        crate::golden::check(name, |style| ringfence_report::prove(&refused, style));
        assert!(html::page(&html::proof(&refused, &[])).contains("thing"), "{name}");
    }
    let missed = Proof { confirmations: Vec::new(), verdict: Verdict::Missed, ..proof };
    crate::golden::check("prove-missed", |style| ringfence_report::prove(&missed, style));
}

// A victim that ends by the clock, one whose runs are too short to tell, and an aggressor that is started again and
// again.
fn nothing_happened(record: &Record) -> [(&'static str, Record); 3] {
    let control = Control {
        unit: "runs".into(),
        whole_runs: true,
        cpus: vec![1],
        running: (1.0, 1.0e9),
        stopped: (1.0, 1.03e9),
    };
    let short = Control { running: (8.0, 44.0e6), stopped: (8.0, 37.0e6), ..control.clone() };
    let used = Used { windows_ns: 4_000_000_000, cpu_ns: 900_000_000, io_bytes: 0, restarts: 1300 };
    let worked = Some(Worked { used, units: None });
    [
        ("prove-by-the-clock", Record { control: Some(control), ..record.clone() }),
        ("prove-too-short", Record { control: Some(short), ..record.clone() }),
        ("prove-nothing-happened", Record { worked, ..record.clone() }),
    ]
}
