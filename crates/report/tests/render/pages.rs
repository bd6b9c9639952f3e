//! Pages of answers that rest on several datasets, and of comparisons.

use ringfence_dataset::Dataset;
use ringfence_experiment::task::text;
use ringfence_experiment::{Measure, PlacementKind};
use ringfence_machine::units::Bytes;
use ringfence_report::html::{self, Compared};
use ringfence_studies::pair::{self, Outcome};
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
    assert!(!crate::html::spaced(&html::pairs(&alike, &[])).contains("<figure>"));
}

#[test]
fn pairs_that_are_the_best_already() {
    let mut best = outcome(pair::Verdict::PresentIsBest);
    best.confirmed = None;
    std::mem::swap(&mut best.present, &mut best.advice.as_mut().unwrap().assignment);
    let advice = best.advice.as_mut().unwrap();
    let gain = advice.gain;
    advice.next = Some(pair::Next { assignment: advice.assignment.clone(), gain });
    let text = crate::html::spaced(&html::pairs(&best, &[]));
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
    let measure = Measure { looks: vec![6], rounds: 1, ..Measure::default() };
    let polluters = [Polluter::Write, Polluter::Chase];
    let experiment =
        sensitivity::experiment(&victims, &polluters, &footprints, PlacementKind::Auto, measure);
    // Cases come victim by victim, each alone first; the chase suffers beside larger polluters.
    let folder = measured(dir.path(), &experiment.to_toml(), |trial, case| {
        let fewer = if (4..=5).contains(&case) { 300 } else { 0 };
        1000 - fewer + (u64::from(trial) * 7 + case as u64 * 3) % 5
    });
    let digest = digest(&Dataset::open(&folder).unwrap());
    let found = digest.findings.sensitivity.as_ref().unwrap();
    assert_eq!((found.curves.len(), found.curves[0].points.len()), (4, 4));
    let text = check("sensitivity", &html::datasets(std::slice::from_ref(&digest)));
    assert!(text.contains("<h1>The most sensitive of these is chase footprint=4MiB: at its worst"));
    assert!(text.contains("\"kind\":\"sensitivity\"") && !text.contains("\"kind\":\"frontier\""));
    // Among several, the curves are in a section.
    let text = crate::html::spaced(&html::datasets(&[digest.clone(), digest]));
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
    let many = Compared {
        name: String::new(),
        before: String::new(),
        after: String::new(),
        comparison: many,
    };
    let text = crate::html::spaced(&html::comparisons(&[many], &[]));
    assert!(text.find("id=\"cells\"").unwrap() < text.find("<figure>").unwrap());
}
