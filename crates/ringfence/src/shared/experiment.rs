//! What every measuring verb shares: the run of an experiment, and its results.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use ringfence_analysis::latency::{self, CaseLatencies};
use ringfence_analysis::results::{self, CaseResult};
use ringfence_engine::runner::Progress;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use ringfence_experiment::scale::Scale;
use ringfence_experiment::shell;
use ringfence_experiment::start::unlike_the_others;
use ringfence_experiment::{Experiment, Kind};
use ringfence_machine::Machine;
use ringfence_studies::StudyError;
use ringfence_studies::measure::{self, Measurement};
use ringfence_studies::sensitivity::Sensitivity;
use ringfence_sysfs::whole;
use serde_json::{Value, json};

use crate::args::Measuring;
use crate::failure::Failure;
use crate::output;
use crate::progress::Show;

/// Applies the flags, then saves the experiment or measures and shows it.
pub fn run(mut experiment: Experiment, flags: &Measuring) -> Result<(), Failure> {
    super::flags::apply(&mut experiment, flags)?;
    experiment.check()?;
    let machine = super::host::examine()?;
    // Refuses what cannot be planned before a file is written or anything runs.
    let plan = Plan::new(&experiment, &machine.topology, machine.features.as_ref())?;
    // It may be saved for a machine that can hold it.
    if let Some(path) = &flags.save {
        save(&experiment, path)?;
        let again = command(&["run"], path);
        return output::print(&format!("saved {}; run it with: {again}", path.display()));
    }
    let dir = flags.output.out.clone().unwrap_or_else(|| ringfence_dataset::default_dir(&experiment.name));
    ringfence_dataset::Recorder::check(&dir)?;
    refuse_nothing(&plan)?;
    let measure =
        |stop: &AtomicBool, show: ShowProgress| measure::measure(&experiment, &machine, &dir, stop, show);
    carry_out(&experiment.name, &dir, &machine, flags, &measure)
}

/// Refuses an experiment of which this machine can hold nothing: an empty table is no result.
pub fn refuse_nothing(plan: &Plan) -> Result<(), Failure> {
    match plan.nothing_to_measure() {
        Some(why) => Err(Failure::Usage(format!("nothing of this can be measured here, because {why}"))),
        None => Ok(()),
    }
}

/// Told how far measuring has come.
pub type ShowProgress<'a> = &'a mut dyn FnMut(Progress);

/// Measures, shows progress meanwhile and the results after it, and tells how it ended.
pub fn carry_out(
    name: &str,
    dir: &Path,
    machine: &Machine,
    flags: &Measuring,
    measure: &dyn Fn(&AtomicBool, ShowProgress) -> Result<Measurement, StudyError>,
) -> Result<(), Failure> {
    let started = Instant::now();
    let done = watch(name, flags, measure)?;
    if flags.output.json {
        output::print_json(&as_json(&done, dir)?)?;
    } else {
        output::print(&as_text(&done, dir, machine, started)?)?;
    }
    // Curves are to be looked at.
    if Sensitivity::new(&done.plan, &done.samples).is_some() {
        super::page::beside(dir, flags.output.json)?;
    }
    finish(&done.ended, dir)
}

/// Measures and shows progress meanwhile.
pub fn watch(
    name: &str,
    flags: &Measuring,
    measure: &dyn Fn(&AtomicBool, ShowProgress) -> Result<Measurement, StudyError>,
) -> Result<Measurement, Failure> {
    let stop = super::host::stop_on_signals()?;
    let _awake = super::host::keep_awake(flags.no_deep_idle)?;
    let mut show = Show::new(flags.output.quiet);
    show.begin(name);
    let done = measure(&stop, &mut |progress| show.update(progress));
    show.end();
    Ok(done?)
}

/// What was measured, for machines.
pub fn as_json(done: &Measurement, dir: &Path) -> Result<Value, Failure> {
    let experiment = &done.plan.experiment;
    let mut value = json!({
        "schema": 1,
        "experiment": experiment,
        "dataset": dir,
        "ended": done.ended,
        "placement": done.plan.placed,
        "results": results::results(&done.plan, &done.samples, results::level(&done.plan, &done.samples)),
        "latencies": case_latencies(&done.plan, &done.samples, done.scale.as_ref())?,
        "scale": done.scale,
        "aa": results::aa(&done.plan, &done.samples),
        "not_run": done.plan.not_run,
        "starts": done.starts,
        "left": done.left,
    });
    if let Some(found) = Sensitivity::new(&done.plan, &done.samples) {
        value["sensitivity"] = json!(found);
    }
    Ok(value)
}

/// What was measured, for people.
pub fn as_text(
    done: &Measurement,
    dir: &Path,
    machine: &Machine,
    started: Instant,
) -> Result<String, Failure> {
    let results = results::results(&done.plan, &done.samples, results::level(&done.plan, &done.samples));
    let style = output::style();
    let mut text = ringfence_report::machine_line(machine, &style);
    for note in &done.plan.placed.notes {
        text += &format!("{note}\n");
    }
    text += &ringfence_report::left(&done.left, &style);
    for line in unlike_the_others(&done.plan, &done.starts) {
        text += &format!("{line}.\n");
    }
    text += "\n";
    text += &tables(&done.plan, &done.samples, &results, &style);
    if let Some(aa) = &results::aa(&done.plan, &done.samples) {
        text += &format!("\n{}", ringfence_report::aa(aa, &style));
    }
    text += &latencies(&done.plan, &done.samples, done.scale.as_ref(), &style)?;
    let seconds = started.elapsed().as_secs_f64();
    let before = match done.steps_before {
        0 => String::new(),
        steps => format!(", after {steps} steps measured before"),
    };
    let samples = done.samples.len();
    text += &format!("\n{samples} samples in {seconds:.0} s{before}; dataset: {}\n", dir.display());
    Ok(text)
}

/// An experiment's results as tables; as curves where it was made for them.
pub fn tables(
    plan: &Plan,
    samples: &[Sample],
    results: &[CaseResult],
    style: &ringfence_report::Style,
) -> String {
    let curves = Sensitivity::new(plan, samples).map(|found| ringfence_report::sensitivity(&found, style));
    match curves {
        Some(curves) if plan.not_run.is_empty() => curves,
        // The cases say what was not run and why.
        Some(curves) => format!("{}\n{curves}", ringfence_report::cases(plan, results, style)),
        None => ringfence_report::cases(plan, results, style),
    }
}

/// The latencies that tasks counted, as text after a blank line; empty where none did.
pub fn latencies(
    plan: &Plan,
    samples: &[Sample],
    scale: Option<&Scale>,
    style: &ringfence_report::Style,
) -> Result<String, Failure> {
    let all = case_latencies(plan, samples, scale)?;
    let brief = if plan.experiment.kind == Some(Kind::Lock) {
        ringfence_report::lock_table(&all, style)
    } else {
        String::new()
    };
    let text = brief + &ringfence_report::latencies(&all, scale, style);
    Ok(if text.is_empty() { text } else { format!("\n{text}") })
}

/// The same as values, case by case.
pub fn case_latencies(
    plan: &Plan,
    samples: &[Sample],
    scale: Option<&Scale>,
) -> Result<Vec<CaseLatencies>, Failure> {
    Ok(latency::cases(plan, samples, scale, results::level(plan, samples)))
}

/// The failure that an early end is, if it is one.
pub fn finish(ended: &Ended, dir: &Path) -> Result<(), Failure> {
    match ended {
        Ended::Complete | Ended::Precise | Ended::Time => Ok(()),
        Ended::Interrupted => Err(cut_short("interrupted", dir)),
        Ended::Failed(why) => Err(cut_short(why, dir)),
    }
}

/// That measuring ended early, and what goes on with it.
pub fn cut_short(why: &str, dir: &Path) -> Failure {
    Failure::Failed(format!(
        "{why}; what was measured until then is in {}, and this goes on: {}",
        dir.display(),
        command(&["run", "--resume"], dir)
    ))
}

/// A command line of this program that ends in a path, to be pasted into a shell.
pub fn command(words: &[&str], path: &Path) -> String {
    // A name that begins with a hyphen would be taken for a flag.
    let path =
        if path.as_os_str().as_encoded_bytes().starts_with(b"-") { &Path::new(".").join(path) } else { path };
    format!("ringfence {} {}", words.join(" "), shell::quote(&path.to_string_lossy()))
}

/// Writes an experiment file; one that exists is not overwritten.
pub fn save(experiment: &Experiment, path: &Path) -> Result<(), Failure> {
    let written = whole::write_new(path, experiment.to_toml().as_bytes());
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::Usage(format!("{} exists already: choose another name", path.display()))
        }
        _ => {
            let (path, error) = (path.display(), error.into_source());
            Failure::Usage(format!("{path} cannot be written: {error}; choose another place"))
        }
    })
}
