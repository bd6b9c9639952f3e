//! `whatif`: one plan on a described machine, and on the same with changes.

use ringfence_experiment::Error;
use ringfence_experiment::Experiment;
use ringfence_machine::Machine;
use ringfence_report::json;
use ringfence_studies::measure;
use ringfence_studies::whatif::Files;

use crate::args::{Measuring, On, Verb, WhatIf, parse_words};
use crate::failure::Failure;
use crate::output;
use crate::progress::Show;
use crate::shared::command::pasteable;
use crate::shared::experiment::kept;
use crate::shared::{flags, folder, host, page, results};

pub fn run(args: &WhatIf) -> Result<(), Failure> {
    let description = host::description(&args.machine)?;
    let (changed, changes) = description
        .with_changes(&args.change)
        .map_err(|error| Failure::usage(format!("--change: {error}")))?;
    let machines = [description.machine(), changed.machine()];
    let experiment = experiment(&args.command, &machines[0])?;
    let mut plans = Vec::new();
    for (machine, which) in machines.iter().zip(["as it is described", "as it was changed"]) {
        let on = |error: Error| Failure::usage(format!("on the machine {which}: {error}"));
        let plan = ringfence_studies::plan(&experiment, machine).map_err(on)?;
        ringfence_studies::refuse_nothing(&plan, machine).map_err(on)?;
        plans.push(plan);
    }
    let dir = results::new_dir(args.output.out.as_deref(), "whatif")?;
    folder::check_new(&dir)?;
    let files = Files::of(&dir);
    let stop = host::stop_on_signals()?;
    let mut show = Show::new(args.output.quiet);
    let parts = [("unchanged", files.unchanged()), ("changed", files.changed())];
    for ((machine, plan), (name, dir_of)) in machines.iter().zip(plans).zip(&parts) {
        show.begin(name);
        let done =
            measure::measure(plan, machine, dir_of, &stop, &mut |progress| show.update(progress));
        show.end();
        if let Some(why) = done?.ended.early() {
            return Err(kept(why, &dir, machine));
        }
    }
    files.keep(&description.title, &changes)?;
    let found = files.read()?;
    if args.output.json {
        output::print_json(&json::whatif(&found, &dir))?;
    } else {
        let text = ringfence_report::whatif(&found, &output::style());
        output::print(&format!("{text}\ndatasets: {}\n", pasteable(&dir)))?;
    }
    page::beside(&dir, args.output.json, false)
}

// What the command behind `--` asks for, with its flags applied.
fn experiment(words: &[String], machine: &Machine) -> Result<Experiment, Failure> {
    let inner = parse_words(words).map_err(|error| Failure::usage(format!("after --: {error}")))?;
    let (mut experiment, on, measuring): (Experiment, On, Measuring) = match inner.verb {
        Verb::Write(args) => (super::write::experiment(&args)?, args.on, args.measuring),
        Verb::Neighbours(args) => (super::neighbours::experiment(&args)?, args.on, args.measuring),
        Verb::Sensitivity(args) => {
            (super::sensitivity::experiment(&args, machine)?, args.on, args.measuring)
        }
        Verb::Run(args) => match (&args.file, &args.resume) {
            (Some(file), None) => (super::run::read(file)?, args.on, args.measuring),
            _ => {
                return Err(Failure::usage("after --: 'run' takes an experiment file here"));
            }
        },
        _ => {
            let verb = words.first().map_or("", String::as_str);
            return Err(Failure::usage(format!(
                "after --: '{verb}' cannot be simulated twice; use write, neighbours, sensitivity \
                 or run"
            )));
        }
    };
    let output = &measuring.output;
    let before = [
        (on.machine.is_some(), "--machine", "MACHINE is the first word of whatif"),
        (measuring.save.is_some(), "--save", "whatif saves no experiment"),
        (output.out.is_some(), "--out", "give it before --"),
        (output.json, "--json", "give it before --"),
        (output.quiet, "--quiet", "give it before --"),
    ];
    if let Some((_, flag, instead)) = before.into_iter().find(|(given, ..)| *given) {
        return Err(Failure::usage(format!("after --: {flag} cannot be used there: {instead}")));
    }
    flags::apply(&mut experiment, &measuring)?;
    experiment.check()?;
    Ok(experiment)
}
