//! Described machines, which can be simulated.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Instant;

use ringfence_dataset::{Dataset, text_file};
use ringfence_experiment::Experiment;
use ringfence_experiment::Kind;
use ringfence_report::describe;
use ringfence_report::json;
use ringfence_simulator::catalogue;
use ringfence_studies::describe::{Measured, predict, sensitivity};
use ringfence_studies::survey::Survey;

use crate::args::{Describe, MachineCheck, MachineNew, MachineSensitivity};
use crate::failure::Failure;
use crate::output;
use crate::progress::Show;
use crate::shared::{folder, host};

/// Writes the machine file of this host, or of one that was surveyed.
pub fn new(args: &MachineNew) -> Result<(), Failure> {
    let mut show = Show::new(args.out.is_none());
    let started = Instant::now();
    let mut tell = |share: f64| show.share(started, share);
    let written = match &args.from {
        None => ringfence_studies::describe::host(&host::examine()?, None, &mut tell),
        Some(dir) => {
            let Surveyed { survey, costs, date } = surveyed(dir)?;
            ringfence_studies::describe::host(
                &survey.machine,
                Some((&survey, costs.as_ref(), &date)),
                &mut tell,
            )
        }
    };
    show.end();
    let written = written?;
    let Some(path) = &args.out else { return output::print(written.description.text.trim_end()) };
    put(path, &written.description.text)?;
    let mut text = format!("{}: {}\n", path.display(), written.description.title);
    match &written.fit {
        Some(fit) => text += &describe::fitted(fit, &output::style()),
        None => {
            text += "Values that no probe shows are assumed; with --from SURVEY, latencies are \
                     measured.\n"
        }
    }
    output::print(&text)
}

/// Compares a machine file with a survey.
pub fn check(args: &MachineCheck) -> Result<(), Failure> {
    let description = host::description(&args.machine)?;
    let measured = costs(&args.from)?;
    let used = ringfence_studies::describe::host::used(&measured);
    let found = predict(&description, &measured, &used)?;
    let figures = found.used.iter().chain(&found.left_out).map(|outcome| outcome.simulated);
    refuse_nothing(figures, &description.name)?;
    match (args.json, args.markdown) {
        (true, _) => output::print_json(&json::machine_check(&description, &found)),
        (_, true) => output::print(&describe::check_markdown(&found)),
        _ => output::print(&describe::check(&found, &output::style())),
    }
}

/// Says which simulated figure moves by how much.
pub fn sensitivity(args: &MachineSensitivity) -> Result<(), Failure> {
    let description = host::description(&args.machine)?;
    let text = match &args.experiment {
        Some(path) => text_file::read(path, text_file::LONGEST)
            .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?,
        None => WRITES.replace("TARGET", &args.target),
    };
    let experiment = Experiment::parse(&text)?;
    let plan = ringfence_studies::plan(&experiment, &description.machine())?;
    let cells = Measured::planned(&plan);
    let mut show = Show::new(args.json || args.markdown);
    let started = Instant::now();
    let found =
        sensitivity::sensitivity(&description, &cells, &mut |share| show.share(started, share));
    show.end();
    let found = found?;
    refuse_nothing(found.figures.iter().copied(), &description.name)?;
    match (args.json, args.markdown) {
        (true, _) => output::print_json(&json::machine_sensitivity(&description, &found)),
        (_, true) => output::print(&describe::sensitivity_markdown(&found)),
        _ => output::print(&describe::sensitivity(&found, &output::style())),
    }
}

// A table without a figure is no answer.
fn refuse_nothing(
    mut figures: impl Iterator<Item = Option<f64>>,
    machine: &str,
) -> Result<(), Failure> {
    match figures.any(|figure| figure.is_some()) {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "none of this can be simulated on {machine}: 'ringfence run' with --machine prints the \
             reason for each case"
        ))),
    }
}

// A few costs that differ in what they wait for.
const WRITES: &str = r#"schema = 2
name = "write-costs"
question = "What does it cost to make a block durable?"
metric = "writer"
[[role]]
name = "writer"
[[role.task]]
workload = "write"
instruction = ["clflush", "clwb", "nt"]
block = ["64B", "4KiB"]
target = "TARGET"
size = "64MiB"
[[role.task]]
workload = "write"
instruction = ["clwb", "none"]
fence_at = "none"
block = "4KiB"
target = "TARGET"
size = "64MiB"
[[arm]]
name = "write"
active = ["writer"]
"#;

/// A survey's folder.
pub struct Surveyed {
    survey: Survey,
    // The write table.
    costs: Option<Measured>,
    date: String,
}

fn surveyed(dir: &Path) -> Result<Surveyed, Failure> {
    folder::refuse_file(dir)?;
    let (mut costs, mut date) = (None, String::new());
    let survey = Survey::open(dir, |dataset| {
        if dataset.plan.experiment.kind == Some(Kind::SurveyCost) {
            costs = Some(Measured::of(&dataset.plan, &dataset.samples));
            date = dataset.manifest.created.chars().take(10).collect();
        }
    })?;
    if date.is_empty() {
        date = "an unknown day".into();
    }
    Ok(Surveyed { survey, costs, date })
}

/// The costs that a survey or a single dataset has measured.
pub fn costs(dir: &Path) -> Result<Measured, Failure> {
    folder::refuse_file(dir)?;
    let refuse = |why: &str| Failure::usage(format!("{}: {why}", dir.display()));
    let simulated = || refuse("this was simulated: a machine file is compared with measurements");
    let measured = if Survey::is_at(dir) {
        let found = surveyed(dir)?;
        if found.survey.is_simulated() {
            return Err(simulated());
        }
        found.costs
    } else {
        let all = ringfence_dataset::list(dir)?;
        let [one] = &all[..] else {
            return Err(refuse("this holds several datasets: name one of them"));
        };
        let dataset = Dataset::open(one)?;
        if dataset.samples.iter().any(|sample| sample.simulated == Some(true)) {
            return Err(simulated());
        }
        Some(Measured::of(&dataset.plan, &dataset.samples))
    };
    match measured {
        Some(measured) if !measured.cells.is_empty() => Ok(measured),
        _ => Err(refuse("nothing in it has a figure: measure again, with more trials")),
    }
}

/// Writes a machine file. What exists is not overwritten: such files are edited, and kept.
pub fn put(path: &Path, text: &str) -> Result<(), Failure> {
    ringfence_system::whole::write_new(path, text.as_bytes()).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::usage(format!(
            "{} already exists: name another file with --out",
            path.display()
        )),
        _ => {
            let (path, error) = (path.display(), error.into_source());
            Failure::usage(format!(
                "{path} cannot be written: {error}; name another file with --out"
            ))
        }
    })
}

/// Shows a machine file, or lists those that come with the program.
pub fn show(args: &Describe) -> Result<(), Failure> {
    let style = output::style();
    let Some(machine) = &args.machine else {
        let all = catalogue::all();
        return match args.json {
            true => output::print_json(&json::machines(&all)),
            false => output::print(&ringfence_report::machines(&all, &style)),
        };
    };
    let description = host::description(machine)?;
    if args.file {
        return output::print(description.text.trim_end());
    }
    match args.json {
        true => output::print_json(&json::machine(&description)),
        false => output::print(&ringfence_report::machine(&description, &style)),
    }
}
