//! `commit`: what it costs to make a batch of records in a file durable, over any combination of
//! ways.

use std::path::{Path, PathBuf};

use ringfence_experiment::budget::Budget;
use ringfence_experiment::task::{Commit as Task, Commits, Io, Layout, Sync};
use ringfence_experiment::units::Span;
use ringfence_experiment::{Arm, Decide, Experiment, Measure};

use crate::args::Commit;
use crate::args::commit::{IOS, LAYOUTS, PLAINEST, SYNCS};
use crate::failure::Failure;
use crate::shared::flags::words;
use crate::shared::{experiment, flags, folder};

/// How long it measures unless something else is asked for.
const USUAL: Span = Span::ms(30_000);

const ARM: &str = "commit";

pub fn run(args: &Commit) -> Result<(), Failure> {
    experiment::run(experiment(args)?, &args.on, &args.measuring)
}

// What the experiment would refuse too, but as a value of its file and not of a flag, or not before
// it runs.
fn check(args: &Commit) -> Result<(), Failure> {
    words("sync", args.sync.as_deref(), &Sync::NAMES)?;
    words("io", args.io.as_deref(), &Io::NAMES)?;
    words("layout", args.layout.as_deref(), &Layout::NAMES)?;
    Ok(())
}

// A commit is slowed down by nothing here, so that its budget is a time.
fn budget(text: &str) -> Result<Budget, Failure> {
    match flags::budget(text)? {
        Budget::Slowdown(share) => Err(Failure::usage(format!(
            "--budget {share}: here it is the longest time of a commit, such as 'p99<10ms'; for a \
             slowdown next to another program use 'ringfence prove'"
        ))),
        bound => Ok(bound),
    }
}

fn experiment(args: &Commit) -> Result<Experiment, Failure> {
    let dir = args.dir.as_deref().unwrap_or(Path::new("."));
    check(args)?;
    let name = folder::named(dir)?;
    let budget = args.budget.as_deref().map(budget).transpose()?;
    let [sync, io, layout] = if budget.is_some() { PLAINEST } else { [SYNCS, IOS, LAYOUTS] };
    let axes = [
        ("sync", &args.sync, Some(sync)),
        ("io", &args.io, Some(io)),
        ("layout", &args.layout, Some(layout)),
        ("record", &args.record, None),
        ("batch", &args.batch, None),
        ("writers", &args.writers, None),
        ("size", &args.size, None),
    ];
    let task = flags::task(Commits::default(), &axes)?;
    // A name is no list, whatever commas it has.
    let task =
        task.with(&Commits::default().dir(PathBuf::from(name)).into()).map_err(Failure::usage)?;
    let mut measure = Measure {
        looks: vec![10],
        rounds: 1,
        window: Task::LEAST_WINDOW,
        probe: Span::ms(0),
        ..Measure::default()
    };
    if args.measuring.trials.is_none() {
        measure.time = Some(USUAL);
    }
    let metric = args.metric.metric.as_deref();
    match budget {
        Some(budget) => {
            measure.quantity = super::prove::quantity(budget, metric)?;
            measure.decide = Some(Decide::of(ARM, budget));
        }
        None => flags::set(&mut measure.quantity, "metric", metric)?,
    }
    Ok(Experiment {
        measure,
        roles: vec![flags::role("committer", task, args.threads.as_deref(), args.cpus.as_deref())?],
        arms: vec![Arm::new(ARM, &["committer"], None)],
        ..Experiment::asking(
            "commit",
            "What does a durable commit to a file cost here?",
            "committer",
        )
    })
}
