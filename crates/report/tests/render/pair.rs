//! Outcomes of made-up pairs.

use std::collections::BTreeMap;

use ringfence_analysis::estimate::{Estimate, Finding, Interval, NotEstimable};
use ringfence_experiment::class::Class;
use ringfence_studies::pair::{
    Advice, Assignment, Confirmed, KindEntry, Next, Outcome, PairEntry, Verdict,
};

use crate::golden::check_both;

fn interval(value: f64, low: f64, high: f64) -> Estimate {
    Ok(Interval { value, low, high, level: 0.95, trials: 24, spread: 0.03, slack: 0.0 })
}

fn pair(kinds: (usize, usize), first: Estimate, second: Estimate, total: Estimate) -> PairEntry {
    let finding = |estimate| Finding::new(&estimate, 0.01);
    let progress = total.map_or(f64::NAN, |total| total.value);
    PairEntry { kinds, first: finding(first), second: finding(second), progress, total }
}

pub fn outcome(verdict: Verdict) -> Outcome {
    let kind = |letter, text: &str, tasks: &[usize]| KindEntry {
        letter,
        text: text.into(),
        tasks: tasks.into(),
    };
    let chases = interval(1.184, 1.162, 1.207);
    let assignment = |text| Assignment::parse(text, 4).unwrap();
    Outcome {
        kinds: vec![kind('A', "chase footprint=64MiB", &[1, 2]), kind('B', "alu", &[3, 4])],
        placement: vec!["measured on CPUs 2 and 34, siblings of one core".into()],
        simulated: false,
        margin: 0.01,
        pairs: vec![
            pair((0, 0), chases, chases, interval(1.689, 1.657, 1.721)),
            pair(
                (0, 1),
                interval(1.008, 0.995, 1.021),
                interval(1.001, 0.999, 1.003),
                interval(1.991, 1.976, 2.006),
            ),
            pair(
                (1, 1),
                Err(NotEstimable::Stalled { baseline: 0, arm: 24, of: 24 }),
                interval(1.0, 1.0, 1.0),
                Err(NotEstimable::Stalled { baseline: 0, arm: 24, of: 24 }),
            ),
        ],
        classes: BTreeMap::from([(Class::Sharing, 70), (Class::Mixed, 2)]),
        present: assignment("1+2,3+4"),
        assignments: 2,
        advice: Some(Advice {
            assignment: assignment("1+3,2+4"),
            total: interval(3.982, 3.951, 4.013),
            present_total: interval(3.689, 3.642, 3.737),
            gain: interval(1.079, 1.071, 1.088),
            probability: Some(0.99994),
            next: None,
            room: Some(1.088),
            room_beside: Some(1.002),
        }),
        confirmed: Some(Confirmed { gain: interval(1.074, 1.065, 1.083) }),
        verdict,
        ended_early: None,
    }
}

#[test]
fn a_change_that_was_confirmed() {
    check_both("pair-change", |style| ringfence_report::pair(&outcome(Verdict::Change), style));
}

#[test]
fn nothing_to_gain() {
    let mut none = outcome(Verdict::NotShown { trials_needed: Some(310), seconds: Some(412.3) });
    none.confirmed = Some(Confirmed { gain: interval(1.004, 0.99, 1.018) });
    if let Some(advice) = &mut none.advice {
        (advice.gain, advice.probability) = (interval(1.006, 0.995, 1.017), Some(0.8127));
    }
    check_both("pair-not-shown", |style| ringfence_report::pair(&none, style));
    let mut best = outcome(Verdict::PresentIsBest);
    best.confirmed = None;
    let next = |gain| Some(Next { assignment: Assignment::parse("1+2,3+4", 4).unwrap(), gain });
    best.present = Assignment::parse("1+3,2+4", 4).unwrap();
    best.advice.as_mut().unwrap().next = next(interval(0.926, 0.912, 0.941));
    check_both("pair-present", |style| ringfence_report::pair(&best, style));
    best.advice.as_mut().unwrap().next = next(interval(0.996, 0.961, 1.033));
    best.verdict = Verdict::NotShown { trials_needed: Some(96), seconds: None };
    check_both("pair-present-perhaps", |style| ringfence_report::pair(&best, style));
    let mut by_it = none.clone();
    by_it.verdict = Verdict::NoGainByIt;
    by_it.advice.as_mut().unwrap().room_beside = Some(1.034);
    by_it.confirmed = Some(Confirmed { gain: interval(1.001, 0.995, 1.007) });
    check_both("pair-no-gain-by-it", |style| ringfence_report::pair(&by_it, style));
    let mut alike = outcome(Verdict::AllAlike);
    (alike.advice, alike.confirmed, alike.assignments) = (None, None, 1);
    alike.kinds.truncate(1);
    alike.kinds[0].tasks = vec![1, 2, 3, 4];
    alike.pairs.truncate(1);
    alike.classes.clear();
    check_both("pair-alike", |style| ringfence_report::pair(&alike, style));
}

#[test]
fn cut_short() {
    let mut part = outcome(Verdict::CutShort);
    part.confirmed = None;
    check_both("pair-cut", |style| ringfence_report::pair(&part, style));
    part.verdict = Verdict::NotEstimable { reason: NotEstimable::TooFewTrials { trials: 1 } };
    let few = Err(NotEstimable::TooFewTrials { trials: 1 });
    part.pairs.iter_mut().for_each(|pair| (pair.progress, pair.total) = (f64::NAN, few));
    let advice = part.advice.as_mut().unwrap();
    (advice.total, advice.present_total, advice.gain, advice.probability) = (few, few, few, None);
    check_both("pair-no-figure", |style| ringfence_report::pair(&part, style));
}

// By noise alone: -39 % [-80, +83], and totals of more than there are tasks.
#[test]
fn noise_is_no_answer() {
    let mut noisy = outcome(Verdict::NotShown { trials_needed: Some(270), seconds: Some(95.0) });
    noisy.confirmed = None;
    let advice = noisy.advice.as_mut().unwrap();
    (advice.total, advice.present_total) = (interval(5.72, 3.1, 10.5), interval(5.72, 3.1, 10.5));
    advice.next = Some(Next {
        assignment: Assignment::parse("1+3,2+4", 4).unwrap(),
        gain: interval(0.61, 0.2, 1.83),
    });
    noisy.pairs[1].total = interval(2.3, 2.1, 2.5);
    let text = ringfence_report::pair(
        &noisy,
        &ringfence_report::Style { details: true, ..ringfence_report::Style::plain(200) },
    );
    assert!(
        text.contains("Undecided: what another assignment gains is between -80.0 % and +83.0 %"),
        "{text}"
    );
    assert!(
        text.contains("about 270 trials, 1 min 35 s") && text.contains("3.10 to 4 of 4"),
        "{text}"
    );
    assert!(text.contains("above 2") && !text.contains("5.72") && !text.contains("2.30"), "{text}");
    check_both("pair-noise", |style| ringfence_report::pair(&noisy, style));
    let page = crate::html::spaced(&ringfence_report::html::pairs(&noisy, &[]));
    let own = page.split_once("id=\"licences\"").unwrap().0;
    assert!(!own.contains("5.72") && !own.contains("Nothing to gain"));
    assert!(own.contains(">-80.0 % to +83.0 %<") && own.contains("about 270 trials"));
}
