//! The experiments of each stage.

use ringfence_analysis::estimate::FEWEST_TRIALS;
use ringfence_experiment::task::{Commit, Commits, Io, Layout, Sync, Tasks};
use ringfence_experiment::units::Span;
use ringfence_experiment::{Arm, Experiment, Kind, Measure, OneOrMany, Role};
use ringfence_machine::units::Bytes;

use super::choice::{Choice, MAPPED, PLAIN, Way};
use super::{BATCHES, Question};

/// The default size of the log: a few MiB, which leave almost nothing in the page cache.
pub const LOG: Bytes = Bytes::mib(4);

const COMMITTER: &str = "committer";

// The default number of trials: a minute for all stages together, on a disk that offers each
// method.
const TRIALS: u32 = 3;
const CONFIRMING: u32 = 8;

/// Every call and layout to choose from, and the plain ones, a record at a time.
pub fn costs(question: &Question) -> Experiment {
    let Question { syncs, layouts, .. } = question;
    let named = |syncs: &[Sync], io: Io, layouts: &[Layout]| {
        let task = task(question).sync(syncs.to_vec()).io(io).layout(layouts.to_vec());
        (!syncs.is_empty() && !layouts.is_empty()).then_some(task)
    };
    let only = |syncs: &[Sync], wanted: fn(Sync) -> bool| -> Vec<Sync> {
        syncs.iter().copied().filter(|sync| wanted(*sync)).collect()
    };
    let called = only(syncs, |sync| sync != Sync::Msync);
    let msync = only(syncs, |sync| sync == Sync::Msync);
    // The blocks of a region are written: calls for a mapping are compared there.
    let written = layouts.contains(&Layout::Written);
    let mapped = if msync.is_empty() || !written { &[][..] } else { &MAPPED };
    let allocated = layouts.contains(&Layout::Allocated);
    let allocated = if allocated { &[Layout::Allocated][..] } else { &[] };
    let plain = syncs.contains(&PLAIN.way.sync) && layouts.contains(&PLAIN.way.layout);
    let plain = (!plain).then(|| of_way(question, PLAIN.way));
    let tasks = [
        plain,
        named(&called, Io::Buffered, layouts),
        named(&msync, Io::Mmap, allocated),
        named(mapped, Io::Mmap, &[Layout::Written]),
    ];
    let tasks = tasks.into_iter().flatten().map(Tasks::from).collect();
    let asks = "Which durable way to commit to a file is cheapest here?";
    Experiment { kind: Some(Kind::TuneCosts), ..experiment(question, "costs", asks, 0, tasks) }
}

/// The chosen method with longer batches, and with one record again: trials of one experiment are
/// comparable.
pub fn batches(question: &Question, way: Way) -> Experiment {
    let task = of_way(question, way).batch(BATCHES);
    let asks = "What do more records a sync save?";
    Experiment {
        kind: Some(Kind::TuneCosts),
        ..experiment(question, "batches", asks, 1, vec![task.into()])
    }
}

/// The arms of the confirmation.
pub const PLAIN_ARM: &str = "plain";
/// The chosen method, one record at a time.
pub const WAY_ARM: &str = "way";
/// The same, by the chosen batch.
pub const BATCH_ARM: &str = "batch";
/// The plain method with the chosen batch, in case the chosen method turns out to be no cheaper.
pub const PLAIN_BATCH_ARM: &str = "plain batch";
/// Of a mapping: the default.
pub const MSYNC_ARM: &str = "msync";
/// Of a mapping: what was chosen.
pub const MAPPED_ARM: &str = "mapped";

/// The choice against the plain method; `None` where they are the same.
pub fn confirmation(question: &Question, choice: &Choice) -> Option<Experiment> {
    let on_a_mapping = |sync| Way { sync, io: Io::Mmap, layout: Layout::Written };
    let (plain, msync) = (PLAIN.way, on_a_mapping(Sync::Msync));
    let mapped = choice.mapped.map(on_a_mapping).filter(|way| *way != msync);
    // An arm differs from its baseline by what it sets, in the same task.
    let arm = |name: &str, task: u32, set: Option<(&str, Way, u32)>| {
        let mut arm = Arm::new(name, &[COMMITTER], set.map(|(baseline, ..)| baseline));
        arm.only.insert(COMMITTER.into(), OneOrMany::One(task));
        arm.set.extend(set.map(|(_, way, batch)| {
            let set = by_way(Commits::default(), way).batch(batch);
            (COMMITTER.to_string(), set.into())
        }));
        arm
    };
    let mut arms = Vec::new();
    if choice.way != plain {
        arms.push(arm(WAY_ARM, 1, Some((PLAIN_ARM, choice.way, 1))));
    }
    if choice.batch != PLAIN.batch {
        arms.push(arm(BATCH_ARM, 1, Some((PLAIN_ARM, choice.way, choice.batch))));
        if choice.way != plain {
            arms.push(arm(PLAIN_BATCH_ARM, 1, Some((PLAIN_ARM, plain, choice.batch))));
        }
    }
    // What nothing is compared with is not measured.
    if !arms.is_empty() {
        arms.insert(0, arm(PLAIN_ARM, 1, None));
    }
    if let Some(way) = mapped {
        arms.extend([arm(MSYNC_ARM, 2, None), arm(MAPPED_ARM, 2, Some((MSYNC_ARM, way, 1)))]);
    }
    if arms.is_empty() {
        return None;
    }
    let asks = "What does the policy gain over fdatasync after each record of a growing file?";
    let tasks = vec![of_way(question, plain).into(), of_way(question, msync).into()];
    let mut experiment = experiment(question, "confirm", asks, 2, tasks);
    experiment.measure.looks = vec![question.trials.unwrap_or(CONFIRMING).max(FEWEST_TRIALS)];
    experiment.kind = Some(Kind::TuneConfirmation);
    experiment.arms = arms;
    Some(experiment)
}

fn of_way(question: &Question, way: Way) -> Commits {
    by_way(task(question), way)
}

fn by_way(commits: Commits, way: Way) -> Commits {
    commits.sync(way.sync).io(way.io).layout(way.layout)
}

fn task(question: &Question) -> Commits {
    let longest = Bytes(2 * question.record.0 * u64::from(BATCHES[BATCHES.len() - 1]));
    let size = question.size.unwrap_or(LOG.max(longest));
    Commits::default().dir(question.dir.clone()).record(question.record).size(size)
}

fn experiment(
    question: &Question,
    name: &str,
    asks: &str,
    stage: u64,
    tasks: Vec<Tasks>,
) -> Experiment {
    Experiment {
        seed: question.seed.wrapping_mul(16).wrapping_add(stage),
        measure: Measure {
            looks: vec![question.trials.unwrap_or(TRIALS)],
            rounds: 1,
            window: Commit::LEAST_WINDOW,
            settle: Span::ms(1),
            probe: Span::ms(0),
            ..Measure::default()
        },
        roles: vec![Role::new(COMMITTER, tasks)],
        arms: vec![Arm::new("commit", &[COMMITTER], None)],
        ..Experiment::asking(name, asks, COMMITTER)
    }
}
