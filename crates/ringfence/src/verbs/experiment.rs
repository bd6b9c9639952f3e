//! What every measuring verb shares: flags into an experiment, the run, and its results.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use ringfence_analysis::latency::{self, CaseLatencies};
use ringfence_analysis::results::{self, CaseResult};
use ringfence_dataset::text_file;
use ringfence_engine::runner::Progress;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use ringfence_experiment::scale::Scale;
use ringfence_experiment::shell;
use ringfence_experiment::start::unlike_the_others;
use ringfence_experiment::units::{Share, Span};
use ringfence_experiment::{Experiment, OneOrMany, PlacementKind};
use ringfence_machine::Machine;
use ringfence_machine::doctor::latency::CpuDmaLatency;
use ringfence_studies::StudyError;
use ringfence_studies::lock;
use ringfence_studies::measure::{self, Measurement};
use ringfence_studies::sensitivity::{self, Sensitivity};
use serde_json::{Value, json};

use crate::args::{Measuring, Placement, Run};
use crate::failure::Failure;
use crate::output;
use crate::progress::Show;

// Far more than anybody writes.
const LONGEST_FILE: u64 = 1 << 20;

pub fn run_file(args: &Run) -> Result<(), Failure> {
    let file = match (&args.file, &args.resume) {
        (Some(file), None) => file,
        (None, Some(dir)) => return super::resume::run(dir, &args.measuring),
        (Some(_), Some(_)) => {
            return Err(Failure::Usage(
                "name an experiment file or give --resume with a dataset, not both: a dataset has its experiment in it"
                    .into(),
            ));
        }
        (None, None) => {
            return Err(Failure::Usage(
                "name an experiment file, FILE.toml, or give --resume with a dataset".into(),
            ));
        }
    };
    let text = text_file::read(file, LONGEST_FILE)
        .map_err(|error| Failure::Usage(format!("{}: {error}; name an experiment file", file.display())))?;
    let experiment =
        Experiment::parse(&text).map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))?;
    run(experiment, &args.measuring)
}

/// Applies the flags, then saves the experiment or measures and shows it.
pub fn run(mut experiment: Experiment, flags: &Measuring) -> Result<(), Failure> {
    apply(&mut experiment, flags)?;
    experiment.check()?;
    let machine = super::examine()?;
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
    if curves(&done.plan, &done.samples).is_some() {
        super::report::beside(dir, flags.output.json)?;
    }
    finish(&done.ended, dir)
}

/// Measures and shows progress meanwhile.
pub fn watch(
    name: &str,
    flags: &Measuring,
    measure: &dyn Fn(&AtomicBool, ShowProgress) -> Result<Measurement, StudyError>,
) -> Result<Measurement, Failure> {
    let stop = super::stop_on_signals()?;
    // Held open until the end of the measurement; the kernel lets go when it is closed.
    let awake = flags.no_deep_idle.then(CpuDmaLatency::hold).transpose();
    let _awake = awake.map_err(|error| Failure::Usage(format!("--no-deep-idle: {error}")))?;
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
    if let Some(found) = curves(&done.plan, &done.samples) {
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
    let curves = curves(plan, samples).map(|found| ringfence_report::sensitivity(&found, style));
    match curves {
        Some(curves) if plan.not_run.is_empty() => curves,
        // The cases say what was not run and why.
        Some(curves) => format!("{}\n{curves}", ringfence_report::cases(plan, results, style)),
        None => ringfence_report::cases(plan, results, style),
    }
}

fn curves(plan: &Plan, samples: &[Sample]) -> Option<Sensitivity> {
    let is_one = plan.experiment.name == sensitivity::NAME;
    is_one.then(|| Sensitivity::new(plan, samples)).flatten()
}

/// The latencies that tasks counted, as text after a blank line; empty where none did.
pub fn latencies(
    plan: &Plan,
    samples: &[Sample],
    scale: Option<&Scale>,
    style: &ringfence_report::Style,
) -> Result<String, Failure> {
    let all = case_latencies(plan, samples, scale)?;
    let brief = if lock::is_one(&plan.experiment) {
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

fn cut_short(why: &str, dir: &Path) -> Failure {
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
    use std::io::Write;
    let refuse = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Failure::Usage(format!("{} exists already: choose another name", path.display()))
        }
        _ => Failure::Usage(format!("{} cannot be written: {error}; choose another place", path.display())),
    };
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(path).map_err(refuse)?;
    let written = file.write_all(experiment.to_toml().as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|error| {
        // Half a file would be worse than none.
        let _ = std::fs::remove_file(path);
        refuse(error)
    })
}

/// Sets what the flags say of an experiment.
pub fn apply(experiment: &mut Experiment, flags: &Measuring) -> Result<(), Failure> {
    let measure = &mut experiment.measure;
    if let Some(lives) = &flags.lives {
        measure.looks = lives.clone();
    }
    if let Some(blocks) = flags.blocks {
        measure.blocks = blocks;
    }
    set(&mut measure.window, "window", flags.window.as_deref())?;
    set(&mut measure.settle, "settle", flags.settle.as_deref())?;
    set(&mut measure.probe, "probe", flags.probe.as_deref())?;
    set(&mut measure.margin, "margin", flags.margin.as_deref())?;
    set(&mut measure.confidence, "confidence", flags.confidence.as_deref())?;
    set_some(&mut measure.precision, "precision", flags.precision.as_deref())?;
    set_time(&mut measure.time, flags.time.as_deref())?;
    if let Some(seed) = flags.seed {
        experiment.seed = seed;
    }
    Ok(())
}

/// Sets a field from a flag's text.
pub fn set<T>(field: &mut T, flag: &str, text: Option<&str>) -> Result<(), Failure>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    if let Some(text) = text {
        *field = text.parse().map_err(|error| Failure::Usage(format!("--{flag}: {error}")))?;
    }
    Ok(())
}

/// The same for a field that may be absent.
pub fn set_some<T>(field: &mut Option<T>, flag: &str, text: Option<&str>) -> Result<(), Failure>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    if let Some(text) = text {
        *field = Some(text.parse().map_err(|error| Failure::Usage(format!("--{flag}: {error}")))?);
    }
    Ok(())
}

/// The time that `--time` gives, or `--budget`, as it was once called in verbs without a verdict.
pub fn set_time(field: &mut Option<Span>, text: Option<&str>) -> Result<(), Failure> {
    match text.filter(|text| text.parse::<Share>().is_ok()) {
        Some(share) => Err(Failure::Usage(format!(
            "--time: '{share}' is a share, and this is how long to measure, such as 60s; a slowdown is held against \
             a --budget by 'ringfence prove'"
        ))),
        None => set_some(field, "time", text),
    }
}

/// The slowdown that `--budget` allows.
pub fn set_budget(field: &mut Share, text: Option<&str>) -> Result<(), Failure> {
    match text {
        Some(text) if text.parse::<Span>().is_ok() => Err(Failure::Usage(format!(
            "--budget: '{text}' is a duration, and this is the slowdown that is allowed, such as 2%; how long to \
             measure is --time"
        ))),
        Some(text) if text.trim_start().starts_with('-') => Err(Failure::Usage(format!(
            "--budget: '{text}' is negative, and the slowdown that is allowed is 0% at least: write it as 2%, say"
        ))),
        text => set(field, "budget", text),
    }
}

/// One value or several.
pub fn one_or_many<T: Clone>(values: &[T]) -> OneOrMany<T> {
    match values {
        [one] => OneOrMany::One(one.clone()),
        many => OneOrMany::Many(many.to_vec()),
    }
}

impl From<Placement> for PlacementKind {
    fn from(placement: Placement) -> Self {
        match placement {
            Placement::Auto => PlacementKind::Auto,
            Placement::Smt => PlacementKind::Smt,
            Placement::Llc => PlacementKind::Llc,
            Placement::Node => PlacementKind::Node,
            Placement::Remote => PlacementKind::Remote,
        }
    }
}
