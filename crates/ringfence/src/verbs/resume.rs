//! `run --resume`: a dataset that was cut short is resumed where it stopped.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use ringfence_dataset::Dataset;
use ringfence_experiment::ended::Ended;
use ringfence_studies::findings::Findings;
use ringfence_studies::measure;
use ringfence_studies::survey::Survey;

use crate::args::{Measuring, Output};
use crate::failure::Failure;
use crate::output;
use crate::progress::Show;
use crate::shared::command::command;
use crate::shared::{experiment, flags, folder, host};

pub fn run(dir: &Path, flags: &Measuring) -> Result<(), Failure> {
    if let Some(flag) = fixed(flags) {
        return Err(refused(flag));
    }
    let mut time = None;
    flags::set_time(&mut time, flags.time.as_deref())?;
    if let Some(verb) = folder::kind(dir) {
        let resume = command(&[&verb, "--resume"], dir);
        return Err(Failure::usage(format!(
            "{}: 'ringfence {verb}' wrote this: {resume}",
            dir.display()
        )));
    }
    if Survey::is_at(dir) {
        return Err(Failure::usage(format!(
            "{}: a survey cannot be continued as a whole; name one of the datasets in it, or start \
             a new survey",
            dir.display()
        )));
    }
    let dataset = Dataset::open(dir)?;
    let more_time = time.is_some() && dataset.manifest.ended == Some(Ended::Time);
    if dataset.is_done() && !more_time {
        return nothing_to_do(&dataset, flags.output.json);
    }
    let name = dataset.plan.experiment.name.clone();
    drop(dataset);
    let machine = host::examine()?;
    let resume = |stop: &AtomicBool, show: experiment::ShowProgress| {
        measure::resume(dir, &machine, time, stop, show)
    };
    let mut show = Show::new(flags.output.quiet);
    show.begin(&name);
    experiment::carry_out(show, dir, &machine, flags, &resume)
}

// Shows it, so that a script which resumes until it is done gets the results and no failure.
fn nothing_to_do(dataset: &Dataset, json: bool) -> Result<(), Failure> {
    super::show::print(&dataset.dir, json)?;
    let verdict = experiment::verdict(&Findings::from(dataset));
    if json {
        return verdict;
    }
    let why = match (&dataset.manifest.ended, &dataset.plan.experiment.measure.time) {
        (Some(Ended::Time), Some(time)) => {
            format!("its time of {time} is used up; --time TIME continues for that much longer")
        }
        (Some(Ended::Precise), _) => "its figures are as precise as requested".into(),
        _ => "it is complete".into(),
    };
    output::print(&format!("\nnothing to continue: {why}"))?;
    verdict
}

/// That a flag cannot be given with `--resume`.
pub fn refused(flag: &str) -> Failure {
    Failure::usage(format!(
        "--{flag} cannot be combined with --resume, which follows the original plan; leave it out, \
         or start a new run"
    ))
}

/// The first flag given that would make another experiment of it.
pub fn fixed(flags: &Measuring) -> Option<&'static str> {
    // All of them, so that a new one is decided on.
    let Measuring {
        trials,
        rounds,
        window,
        settle,
        probe,
        margin,
        precision,
        confidence,
        time: _,
        seed,
        no_deep_idle: _,
        save,
        output: Output { out, json: _, quiet: _, verbose: _, write_limit: _ },
    } = flags;
    let given = [
        ("trials", trials.is_some()),
        ("rounds", rounds.is_some()),
        ("window", window.is_some()),
        ("settle", settle.is_some()),
        ("probe", probe.is_some()),
        ("margin", margin.is_some()),
        ("precision", precision.is_some()),
        ("confidence", confidence.is_some()),
        ("seed", seed.is_some()),
        ("save", save.is_some()),
        ("out", out.is_some()),
    ];
    given.iter().find(|(_, given)| *given).map(|(flag, _)| *flag)
}
