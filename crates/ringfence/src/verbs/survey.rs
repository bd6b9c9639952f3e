//! `survey`: everything, with nothing asked.

use std::path::Path;
use std::time::Instant;

use ringfence_machine::Machine;
use ringfence_report::{html, json};
use ringfence_studies::survey::{self, Depth, Files, Options};

use crate::args::Survey;
use crate::failure::Failure;
use crate::output;
use crate::progress::Show;
use crate::shared::command::pasteable;
use crate::shared::results::details;
use crate::shared::{announce, experiment, folder, host, page, results};

pub fn run(args: &Survey) -> Result<(), Failure> {
    let depth = if args.quick { Depth::Quick } else { Depth::Full };
    let machine = host::machine(&args.on)?;
    let files = files(args, &machine)?;
    let options = |dir: &Path| Options { depth, seed: args.seed, dir: dir.into(), files };
    if let Some(dir) = &args.save {
        return save(&options(dir), &machine);
    }
    let dir = results::new_dir(args.output.out.as_deref(), "survey")?;
    empty_or_absent(&dir)?;
    let stop = host::stop_on_signals()?;
    let started = Instant::now();
    let mut show = Show::new(args.output.quiet);
    let options = options(&dir);
    show.announce(announced(&options, &machine, args));
    let surveyed = survey::run(&options, &machine, &stop, &mut show);
    show.end();
    let done = surveyed?;
    let surveyed = &done.findings;
    if args.output.json {
        output::print_json(&json::survey(surveyed, &dir))?;
    } else {
        let style = output::style();
        let mut text = ringfence_report::survey(surveyed, &style);
        let seconds = started.elapsed().as_secs_f64();
        text += &format!("\n{seconds:.0} s; dataset: {}\n", pasteable(&dir));
        text += &details(&dir, &style);
        output::print(&text)?;
    }
    page::beside_with(&dir, args.output.json, surveyed.ended_early.is_some(), || {
        Ok(html::survey(surveyed, &done.digests(&machine)))
    })?;
    match &surveyed.ended_early {
        None => Ok(()),
        Some(why) => Err(experiment::kept(why, &dir, &machine)),
    }
}

fn announced(options: &Options, machine: &Machine, args: &Survey) -> Option<String> {
    let (what, written) = match &options.files {
        Some(files) => (
            format!("this machine, files in {}", files.dir.display()),
            format!(", at most {} written to disks", survey::writes(options, machine)),
        ),
        None => ("a machine without files".into(), String::new()),
    };
    let length = format!("about {}{written}", announce::time(survey::expected(options)));
    announce::sentence("survey", &what, &length, args.output.json)
}

// A described machine has none, which needs no message unless the user asked for them.
fn files(args: &Survey, machine: &Machine) -> Result<Option<Files>, Failure> {
    if machine.simulated.is_some() && args.dir.is_none() && !args.disturb_disk {
        return Ok(None);
    }
    let dir = folder::named(args.dir.as_deref().unwrap_or(Path::new(".")))?;
    Ok(Some(Files { dir: dir.into(), disturb: args.disturb_disk }))
}

// The same folders that a dataset refuses, before anything is probed.
fn empty_or_absent(dir: &Path) -> Result<(), Failure> {
    crate::shared::folder::check_new(dir)
}

fn save(options: &Options, machine: &Machine) -> Result<(), Failure> {
    let dir = &options.dir;
    empty_or_absent(dir)?;
    std::fs::create_dir_all(dir)
        .map_err(|error| Failure::usage(format!("{} cannot be created: {error}", dir.display())))?;
    let experiments = survey::planned(options, machine);
    for experiment in &experiments {
        experiment::save(experiment, &dir.join(format!("{}.toml", experiment.name)))?;
    }
    output::print(&format!(
        "saved {} experiments in {}; paced experiments are not included, since their pace depends \
         on the results of these",
        experiments.len(),
        dir.display()
    ))
}
