//! What every measuring verb shares: the run of an experiment, and its results.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use ringfence_engine::runner::Progress;
use ringfence_experiment::Error;
use ringfence_experiment::Experiment;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::shell;
use ringfence_experiment::start::unlike_the_others;
use ringfence_machine::Machine;
use ringfence_report::json;

use ringfence_studies::findings::Findings;
use ringfence_studies::measure::{self, Asked, Measurement};
use ringfence_system::whole;

use super::announce;
use super::command::{command, pasteable};
use super::results::rest;
use crate::args::{Measuring, On};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::progress::Show;

/// Applies the flags, then saves the experiment or measures and shows it. How long that takes, see
/// [`measure::set_time`].
pub fn run(mut experiment: Experiment, on: &On, flags: &Measuring) -> Result<(), Failure> {
    super::flags::apply(&mut experiment, flags)?;
    experiment.check()?;
    let machine = super::host::machine(on)?;
    let mut plan = ringfence_studies::plan(&experiment, &machine)?;
    let asked = Asked { time: flags.time.is_some(), trials: flags.trials.is_some() };
    measure::set_time(&mut plan, &machine, asked);
    run_on(experiment, plan, machine, on, flags)
}

/// The same of an experiment whose trials and time its author has chosen.
pub fn run_as_written(
    mut experiment: Experiment,
    on: &On,
    flags: &Measuring,
) -> Result<(), Failure> {
    super::flags::apply(&mut experiment, flags)?;
    experiment.check()?;
    let machine = super::host::machine(on)?;
    let plan = ringfence_studies::plan(&experiment, &machine)?;
    run_on(experiment, plan, machine, on, flags)
}

fn run_on(
    experiment: Experiment,
    mut plan: Plan,
    machine: Machine,
    on: &On,
    flags: &Measuring,
) -> Result<(), Failure> {
    // It may be saved for a machine that can hold it, which decides what is left open here.
    if let Some(path) = &flags.save {
        save(&Experiment { measure: plan.experiment.measure, ..experiment }, path)?;
        let mut again = command(&["run"], path);
        if let Some(machine) = &on.machine {
            again += &format!(" --machine {}", shell::quote(machine));
        }
        return output::print(&format!("saved {}; run it with: {again}", pasteable(path)));
    }
    let dir = super::results::new_dir(flags.output.out.as_deref(), &experiment.name)?;
    super::folder::check_new(&dir)?;
    plan.fit_to_time();
    ringfence_studies::refuse_nothing(&plan, &machine)?;
    let mut show = Show::new(flags.output.quiet);
    show.begin(&title(&plan));
    show.announce(announce::plan(&plan, &machine, &flags.output));
    let measure = |stop: &AtomicBool, show: ShowProgress| {
        measure::measure(plan.clone(), &machine, &dir, stop, show)
    };
    carry_out(show, &dir, &machine, flags, &measure)
}

// What is measured; for episodes also how long that takes, since it is longer than users expect.
fn title(plan: &Plan) -> String {
    let Experiment { name, measure, .. } = &plan.experiment;
    let most = measure.looks.last().copied().unwrap_or_default();
    match measure.episode {
        Some(episode) => {
            let minutes = (plan.least_trial() * most).as_secs_f64() / 60.0;
            format!("{name}, {most} trials with episodes of {episode}: {minutes:.0} min")
        }
        None => name.clone(),
    }
}

/// Told how far measuring has come.
pub type ShowProgress<'a> = &'a mut dyn FnMut(Progress);

/// Measures with a progress display, prints the results, and returns how it ended.
pub fn carry_out(
    show: Show,
    dir: &Path,
    machine: &Machine,
    flags: &Measuring,
    measure: &dyn Fn(&AtomicBool, ShowProgress) -> Result<Measurement, Error>,
) -> Result<(), Failure> {
    let started = Instant::now();
    let done = watch(show, flags, measure)?;
    let found = Findings::from(&done);
    if flags.output.json {
        output::print_json(&json::experiment(&found, dir))?;
    } else {
        output::print(&as_text(&found, done.steps_before, dir, machine, started))?;
    }
    // Curves are to be looked at.
    if found.sensitivity.is_some() {
        super::page::beside_measured(dir, flags.output.json, &done, machine)?;
    }
    finish(&done.ended, dir, machine)?;
    verdict(&found)
}

/// The failure that a verdict on a budget is, where one was asked for and it is not met. What was
/// simulated is no proof of either.
pub fn verdict(found: &Findings) -> Result<(), Failure> {
    if found.plan.experiment.measure.decide.is_none() || found.simulated {
        return Ok(());
    }
    let all = &found.judged;
    if all.iter().any(|judged| judged.within == Some(false)) {
        return Err(Failure::Verdict(Exit::BudgetMissed));
    }
    // With too few trials there may be none to judge.
    match all.is_empty() || all.iter().any(|judged| judged.within.is_none()) {
        true => Err(Failure::Verdict(Exit::Undecided)),
        false => Ok(()),
    }
}

fn watch(
    mut show: Show,
    flags: &Measuring,
    measure: &dyn Fn(&AtomicBool, ShowProgress) -> Result<Measurement, Error>,
) -> Result<Measurement, Failure> {
    let stop = super::host::stop_on_signals()?;
    let _awake = super::host::keep_awake(flags.no_deep_idle)?;
    let done = measure(&stop, &mut |progress| show.update(progress));
    show.end();
    Ok(done?)
}

/// What was measured, for people: in short the answer first, and of how it was measured only what
/// endangers the result.
pub fn as_text(
    found: &Findings,
    steps_before: u64,
    dir: &Path,
    machine: &Machine,
    started: Instant,
) -> String {
    let style = output::style();
    let mut text = ringfence_report::warnings(&found.left, &style);
    let unlike = unlike_the_others(&found.plan, &found.starts);
    if style.details {
        text += &ringfence_report::machine_line(machine, &style);
        for note in &found.plan.placed.notes {
            text += &format!("{note}\n");
        }
        text += &ringfence_report::left(&found.left, &style);
        for one in &unlike {
            text += &format!("{}\n", ringfence_report::unlike(one));
        }
        text += &format!("\n{}\n", ringfence_report::experiment(found, &style));
    } else {
        text += &ringfence_report::experiment(found, &style);
        for one in &unlike {
            ringfence_report::paragraph(&mut text, 0, &ringfence_report::unlike(one), &style);
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let before = match steps_before {
        0 => String::new(),
        steps => format!(", after {steps} steps measured before"),
    };
    let of = match &machine.simulated {
        Some(simulated) => format!(" of a simulated {}", simulated.name),
        None => String::new(),
    };
    text += &format!(
        "{} samples{of} in {seconds:.0} s{before}; dataset: {}\n",
        found.samples,
        pasteable(dir)
    );
    text + &rest(dir, &style)
}

/// The failure that an early end is, if it is one.
pub fn finish(ended: &Ended, dir: &Path, machine: &Machine) -> Result<(), Failure> {
    let Some(why) = ended.early() else { return Ok(()) };
    // What was simulated is not continued, but begun again.
    Err(if machine.simulated.is_some() { kept(why, dir, machine) } else { cut_short(why, dir) })
}

/// That a study ended early, and where what it has is.
pub fn kept(why: &str, dir: &Path, machine: &Machine) -> Failure {
    let done = if machine.simulated.is_some() { "simulated" } else { "measured" };
    let text = format!("{why}; what was {done} until then is in {}", pasteable(dir));
    Error::early(why, text).into()
}

/// That measuring ended early, and the command that resumes it.
pub fn cut_short(why: &str, dir: &Path) -> Failure {
    let again = command(&["run", "--resume"], dir);
    let dir = pasteable(dir);
    let text = format!("{why}; what was measured until then is in {dir}; continue with: {again}");
    Error::early(why, text).into()
}

/// Writes an experiment file; one that exists is not overwritten.
pub fn save(experiment: &Experiment, path: &Path) -> Result<(), Failure> {
    let written = whole::write_new(path, experiment.to_toml().as_bytes());
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::usage(format!("{} already exists: choose another name", path.display()))
        }
        _ => {
            let (path, error) = (path.display(), error.into_source());
            Failure::usage(format!("{path} cannot be written: {error}; choose another place"))
        }
    })
}
