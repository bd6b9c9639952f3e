//! What was found of ways to commit records to files.

use ringfence_analysis::estimate::{Estimate, Finding, Interval, NotEstimable};
use ringfence_experiment::task::{Io, Layout, Sync};
use ringfence_report::Style;
use ringfence_studies::tune::files::choice::{Choice, Cost, Costs, PLAIN, Way, mapped, ways};
use ringfence_studies::tune::files::{BATCHES, Compared, Compares, Tuned};

use crate::golden::check_both;

const CHOSEN: Choice = Choice {
    way: Way { sync: Sync::ODsync, io: Io::Buffered, layout: Layout::Written },
    batch: 16,
    mapped: Some(Sync::Fdatasync),
};

fn ratio(low: f64, high: f64) -> Estimate {
    let value = (low * high).sqrt();
    Ok(Interval { value, low, high, level: 0.95, trials: 8, spread: 0.1, slack: 0.0 })
}

fn compared(what: Compares, ratio: Estimate) -> Compared {
    Compared { what, finding: Finding::new(&ratio, 0.02), ratio }
}

fn tuned(choice: Choice, confirmed: Vec<Compared>) -> Tuned {
    let cost = |(number, way): (usize, Way)| {
        let ns = if way.layout == Layout::Written { 2e5 } else { 9e5 };
        Cost { way, batch: 1, ns_per_record: ns + 1e4 * number as f64 }
    };
    let more = mapped().filter(|way| way.sync != Sync::Msync);
    let ran = ways().filter(|way| way.sync != Sync::Uring).chain(more);
    let batches = BATCHES.map(|batch| Cost {
        way: choice.way,
        batch,
        ns_per_record: 2e5 / f64::from(batch) + 5e3,
    });
    Tuned {
        costs: Costs(ran.enumerate().map(cost).collect()),
        batches: Costs(batches.into()),
        not_run: vec![(
            "sync=uring layout=append".into(),
            "io_uring_setup: Operation not permitted (os error 1)".into(),
        )],
        choice,
        confirmed,
        fell_back: false,
        settled: Some(choice),
        policy: Some("schema = 1\n[file]\nsync = \"o-dsync\"\n".into()),
        ended_early: None,
    }
}

#[test]
fn what_was_chosen_and_confirmed() {
    let confirmed = vec![
        compared(Compares::Way, ratio(0.2, 0.3)),
        compared(Compares::Batch, ratio(0.02, 0.03)),
        compared(Compares::PlainBatch, ratio(0.1, 0.15)),
        compared(Compares::Mapped, ratio(0.9, 1.2)),
    ];
    check_both("tune-files", |style| {
        ringfence_report::tune_files(&tuned(CHOSEN, confirmed.clone()), style)
    });
}

#[test]
fn every_end_of_it_is_told() {
    let style = Style { color: false, width: 500, unicode: false, details: true };
    let plain_batch = Choice { batch: CHOSEN.batch, ..PLAIN };
    let way = |ratio| vec![compared(Compares::Way, ratio)];
    let all = way(ratio(0.2, 0.3));
    let settled = |choice, of: Vec<Compared>| Tuned { settled: Some(choice), ..tuned(CHOSEN, of) };
    for (found, part) in [
        (tuned(PLAIN, vec![]), "Nothing is cheaper here than what most programs do"),
        (tuned(CHOSEN, all.clone()), "confirm that the choice is cheaper"),
        (
            Tuned { fell_back: true, ..settled(PLAIN, way(ratio(1.2, 1.3))) },
            "speak against the choice, so the policy is sync=fdatasync layout=append batch=1.",
        ),
        (
            settled(plain_batch, way(ratio(0.7, 1.3))),
            "do not show that the call with the layout is cheaper: undecided, or too small to \
             matter, so the policy is sync=fdatasync layout=append batch=16.",
        ),
        (settled(Choice { batch: 1, ..CHOSEN }, all), "do not show that the batch is cheaper"),
        (
            settled(PLAIN, way(Err(NotEstimable::TooFewTrials { trials: 2 }))),
            "do not show that the choice is cheaper: a figure is missing, and above is what it \
             would take, so the policy is",
        ),
        (tuned(CHOSEN, vec![compared(Compares::Mapped, ratio(0.9, 1.1))]), "A mapping keeps msync"),
    ] {
        let said = ringfence_report::tune_files(&found, &style);
        assert!(said.contains(part), "{part}:\n{said}");
    }
    let cut = Tuned {
        settled: None,
        policy: None,
        ended_early: Some("interrupted".into()),
        ..tuned(CHOSEN, vec![])
    };
    let said = ringfence_report::tune_files(&cut, &style);
    assert!(!said.contains("Nothing is cheaper") && !said.contains("The policy"), "{said}");
}
