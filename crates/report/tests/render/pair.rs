//! Outcomes of made-up pairs.

use std::collections::BTreeMap;

use ringfence_lab::estimate::{Class, Estimate, Finding, Interval, NotEstimable};
use ringfence_lab::pair::{Advice, Assignment, Confirmed, KindEntry, Next, Outcome, PairEntry, Verdict};

use crate::golden::check;

fn interval(value: f64, low: f64, high: f64) -> Estimate {
    Ok(Interval { value, low, high, level: 0.95, lives: 24, spread: 0.03 })
}

fn pair(kinds: (usize, usize), first: Estimate, second: Estimate, progress: f64) -> PairEntry {
    let finding = |estimate| Finding::new(&estimate, 0.01);
    PairEntry { kinds, first: finding(first), second: finding(second), progress }
}

pub fn outcome(verdict: Verdict) -> Outcome {
    let kind =
        |letter, text: &str, tasks: &[usize]| KindEntry { letter, text: text.into(), tasks: tasks.into() };
    let chases = interval(1.184, 1.162, 1.207);
    let assignment = |text| Assignment::parse(text, 4).unwrap();
    Outcome {
        kinds: vec![kind('A', "chase footprint=64MiB", &[1, 2]), kind('B', "alu", &[3, 4])],
        placement: vec!["measured on CPUs 2 and 34, siblings of one core".into()],
        margin: 0.01,
        pairs: vec![
            pair((0, 0), chases, chases, 1.689),
            pair((0, 1), interval(1.008, 0.995, 1.021), interval(1.001, 0.999, 1.003), 1.991),
            pair(
                (1, 1),
                Err(NotEstimable::Stalled { baseline: 0, arm: 24, of: 24 }),
                interval(1.0, 1.0, 1.0),
                0.0,
            ),
        ],
        classes: BTreeMap::from([(Class::Sharing, 70), (Class::Mixed, 2)]),
        present: assignment("1+2,3+4"),
        assignments: 2,
        advice: Some(Advice {
            assignment: assignment("1+3,2+4"),
            total: 3.982,
            present_total: 3.689,
            gain: interval(1.079, 1.071, 1.088),
            probability: Some(0.99994),
            next: None,
        }),
        confirmed: Some(Confirmed { gain: interval(1.074, 1.065, 1.083) }),
        verdict,
        ended_early: None,
    }
}

#[test]
fn a_change_that_was_confirmed() {
    check("pair-change", |style| ringfence_report::pair(&outcome(Verdict::Change), style));
}

#[test]
fn nothing_to_gain() {
    let mut none = outcome(Verdict::NotShown { lives_needed: Some(310) });
    none.confirmed = Some(Confirmed { gain: interval(1.004, 0.99, 1.018) });
    if let Some(advice) = &mut none.advice {
        (advice.gain, advice.probability) = (interval(1.006, 0.995, 1.017), Some(0.8127));
    }
    check("pair-not-shown", |style| ringfence_report::pair(&none, style));
    let mut best = outcome(Verdict::PresentIsBest);
    best.confirmed = None;
    let next = |gain| Some(Next { assignment: Assignment::parse("1+2,3+4", 4).unwrap(), gain });
    best.present = Assignment::parse("1+3,2+4", 4).unwrap();
    best.advice.as_mut().unwrap().next = next(interval(0.926, 0.912, 0.941));
    check("pair-present", |style| ringfence_report::pair(&best, style));
    best.advice.as_mut().unwrap().next = next(interval(0.996, 0.961, 1.033));
    check("pair-present-perhaps", |style| ringfence_report::pair(&best, style));
    let mut alike = outcome(Verdict::AllAlike);
    (alike.advice, alike.confirmed, alike.assignments) = (None, None, 1);
    alike.kinds.truncate(1);
    alike.kinds[0].tasks = vec![1, 2, 3, 4];
    alike.pairs.truncate(1);
    alike.classes.clear();
    check("pair-alike", |style| ringfence_report::pair(&alike, style));
}

#[test]
fn cut_short() {
    let mut part = outcome(Verdict::CutShort);
    part.confirmed = None;
    check("pair-cut", |style| ringfence_report::pair(&part, style));
    part.verdict = Verdict::NotEstimable { reason: NotEstimable::TooFewLives { lives: 1 } };
    part.pairs.iter_mut().for_each(|pair| pair.progress = f64::NAN);
    check("pair-no-figure", |style| ringfence_report::pair(&part, style));
}
