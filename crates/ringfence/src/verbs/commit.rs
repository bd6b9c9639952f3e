//! `commit`: what it costs to make a batch of records in a file durable, over any combination of
//! ways.

use std::path::Path;

use ringfence_experiment::task::{Commit as Task, Io, Layout, Sync};
use ringfence_experiment::units::Span;
use ringfence_experiment::{Arm, Experiment, Measure};

use crate::args::Commit;
use crate::args::commit::{IOS, LAYOUTS, SYNCS};
use crate::failure::Failure;
use crate::shared::flags::words;
use crate::shared::{experiment, flags, folder};

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

fn experiment(args: &Commit) -> Result<Experiment, Failure> {
    let dir = args.dir.as_deref().unwrap_or(Path::new("."));
    check(args)?;
    let name = folder::named(dir)?;
    let axes = [
        ("sync", &args.sync, Some(SYNCS)),
        ("io", &args.io, Some(IOS)),
        ("layout", &args.layout, Some(LAYOUTS)),
        ("record", &args.record, None),
        ("batch", &args.batch, None),
        ("writers", &args.writers, None),
        ("size", &args.size, None),
    ];
    let mut task = flags::task("commit", &axes);
    // A name is no list, whatever commas it has.
    task.insert("dir".into(), name.into());
    let mut measure = Measure {
        looks: vec![10],
        rounds: 1,
        window: Task::LEAST_WINDOW,
        probe: Span::ms(0),
        ..Measure::default()
    };
    flags::set(&mut measure.quantity, "metric", args.metric.metric.as_deref())?;
    Ok(Experiment {
        measure,
        roles: vec![flags::role("committer", task, args.threads.as_deref(), args.cpus.as_deref())?],
        arms: vec![Arm::new("commit", &["committer"], None)],
        ..Experiment::asking(
            "commit",
            "What does a durable commit to a file cost here?",
            "committer",
        )
    })
}
