//! `reproduce`: the shipped experiments, published figures beside measured ones.

mod simulated;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ringfence_experiment::ErrorKind;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::plan::{Plan, least_window};
use ringfence_experiment::sample::Sample;
use ringfence_experiment::units::Span;
use ringfence_experiment::{Experiment, nearest};
use ringfence_machine::Machine;
use ringfence_report::{Style, json};
use ringfence_studies::claims::Ledger;
use ringfence_studies::reproduce::{self as reproduce, Published, Reproduced};
use ringfence_studies::{Watch, measure};

use crate::args::Reproduce;
use crate::failure::Failure;
use crate::output;
use crate::progress::Show;
use crate::shared::command::pasteable;
use crate::shared::{experiment, host, results};

/// The folder that the shipped files name.
const DAX: &str = "/mnt/pmem0";

pub fn run(args: &Reproduce) -> Result<(), Failure> {
    let published = reproduce::published();
    if args.list && args.names.is_empty() {
        return list(&reproduce::experiments(), &published);
    }
    let mut chosen = chosen(&args.names, &published)?;
    if args.list {
        return list(&chosen, &published);
    }
    for experiment in &mut chosen {
        adapt(experiment, args)?;
    }
    if args.simulated || args.on.machine.is_some() {
        return simulated::run(args, &chosen, &published);
    }
    if let Some(dir) = &args.save {
        return save(&chosen, dir);
    }
    let machine = host::examine()?;
    let dir = results::new_dir(args.output.out.as_deref(), "reproduce")?;
    crate::shared::folder::check_new(&dir)?;
    let stop = host::stop_on_signals()?;
    let mut show = Show::new(args.output.quiet);
    let started = Instant::now();
    let measured = measure_all(&chosen, args, &machine, &dir, &stop, &mut show)?;
    show.end();
    let all = &measured.all;
    if args.output.json {
        output::print_json(&json::reproduced(all, &dir))?;
    } else {
        let style = output::style();
        let rows: Vec<_> = all.iter().flat_map(|found| found.rows.clone()).collect();
        let tables: String = all.iter().map(|found| section(found, &style)).collect();
        let summary = match rows.is_empty() {
            true => String::new(),
            false => ringfence_report::reproduced_summary(&rows, &style),
        };
        let mut text = simulated::ordered(&summary, &tables, &style);
        text +=
            &format!("\n{:.0} s; datasets: {}\n", started.elapsed().as_secs_f64(), pasteable(&dir));
        output::print(&text)?;
    }
    match measured {
        Measured { early: Some(failure), .. } => Err(failure),
        Measured { failed, .. } if !failed.is_empty() => Err(Failure::failed(format!(
            "{} of {} experiments were not measured: {}",
            failed.len(),
            chosen.len(),
            failed.join("; ")
        ))),
        Measured { cases: 0, .. } => Err(Failure::failed(
            "nothing was measured: none of these experiments can be run here, for the reasons \
             given",
        )),
        _ => Ok(()),
    }
}

struct Measured {
    all: Vec<Reproduced>,
    // How many cases can be measured here.
    cases: usize,
    // Why the verb ended early, or left something out.
    early: Option<Failure>,
    // Experiments that could not be measured, with the reasons.
    failed: Vec<String>,
}

// An experiment that fails does not end the others; an interruption does.
fn measure_all(
    chosen: &[Experiment],
    args: &Reproduce,
    machine: &Machine,
    dir: &Path,
    stop: &AtomicBool,
    show: &mut Show,
) -> Result<Measured, Failure> {
    let published = named_here(&reproduce::published(), args);
    let mut found = Measured { all: Vec::new(), cases: 0, early: None, failed: Vec::new() };
    for experiment in chosen {
        show.begin(&experiment.name);
        let mut plan = ringfence_studies::plan(experiment, machine)?;
        // The file's time is a default here: it is extended so that every published figure can be
        // compared.
        if let Some(time) = plan.experiment.measure.time {
            measure::set_default_time(&mut plan, time);
        }
        // The limit is of the whole run, and what writes to disks would only reach it again.
        if found.early.is_some() && plan.writes_about().is_some() {
            show.note(&format!(
                "{}: left out, because the limit was reached before",
                experiment.name
            ));
            continue;
        }
        found.cases += plan.measured().len();
        let (plan, samples, ended) = match measure_or_not(plan.clone(), machine, dir, stop, show) {
            Ok(done) => done,
            Err(failure) if chosen.len() == 1 => return Err(failure),
            // Before the first window had ended: there is no dataset.
            Err(Failure::Error(error)) if error.kind() == ErrorKind::Limit => {
                let why = error.to_string();
                found.early.get_or_insert(error.into());
                (plan, Vec::new(), Ended::Limit(why))
            }
            Err(failure) if stop.load(Ordering::Relaxed) => {
                found.early = Some(failure);
                break;
            }
            Err(failure) => {
                show.note(&format!("{}: not measured, because {failure}", experiment.name));
                found.failed.push(format!("{}: {failure}", experiment.name));
                continue;
            }
        };
        let reproduced = Reproduced::new(&published, &plan, &samples, ended.clone());
        found.all.push(reproduced.map_err(Failure::failed)?);
        let early = experiment::finish(&ended, &dir.join(&experiment.name), machine).err();
        found.early = found.early.or(early);
        if matches!(ended, Ended::Interrupted | Ended::Failed(_)) {
            break;
        }
    }
    Ok(found)
}

// An experiment of which nothing can be run here leaves no dataset.
fn measure_or_not(
    plan: Plan,
    machine: &Machine,
    dir: &Path,
    stop: &AtomicBool,
    show: &mut Show,
) -> Result<(Plan, Vec<Sample>, Ended), Failure> {
    if plan.measured().is_empty() {
        return Ok((plan, Vec::new(), Ended::Complete));
    }
    std::fs::create_dir_all(dir)
        .map_err(|error| Failure::usage(format!("{} cannot be created: {error}", dir.display())))?;
    let own = dir.join(&plan.experiment.name);
    let done = measure::measure(plan, machine, &own, stop, &mut |progress| show.update(progress))?;
    Ok((done.plan, done.samples, done.ended))
}

fn section(found: &Reproduced, style: &Style) -> String {
    let (plan, rows) = (&found.findings.plan, &found.rows);
    let experiment = &plan.experiment;
    let question = experiment.question.as_deref().unwrap_or(&experiment.name);
    let mut text = ringfence_report::title(question, style);
    for note in plan.placed.notes.iter().filter(|_| style.details) {
        text += &format!("{note}\n");
    }
    if let Some(why) = found.findings.ended.as_ref().and_then(Ended::early) {
        text += &ringfence_report::ended_early(why, style);
    }
    if style.details {
        text += "\n";
    }
    if rows.is_empty() {
        text += &ringfence_report::cases(plan, &found.findings.results, style);
        text += "\n";
    }
    text += &ringfence_report::reproduced(rows, style);
    text
}

// All of them, those with published figures first: others may reach the limit of what is written to
// disks.
fn chosen(names: &[String], published: &[Published]) -> Result<Vec<Experiment>, Failure> {
    let mut all = reproduce::experiments();
    if names.is_empty() {
        all.sort_by_key(|one| !published.iter().any(|row| row.experiment == one.name));
        return Ok(all);
    }
    let known: Vec<String> = all.iter().map(|experiment| experiment.name.clone()).collect();
    let find = |name: &String| {
        all.iter().find(|experiment| experiment.name == *name).cloned().ok_or_else(|| {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let near =
                nearest::nearest(name, &known).map(|near| format!("did you mean '{near}'? "));
            Failure::usage(format!(
                "there is no experiment '{name}': {}'ringfence notes run --list' lists them",
                near.unwrap_or_default()
            ))
        })
    };
    let mut found: Vec<Experiment> = Vec::new();
    let ledger = Ledger::shipped();
    for name in names.iter().flat_map(|name| of_a_note(name, &ledger)) {
        let one = find(&name)?;
        if !found.iter().any(|known| known.name == one.name) {
            found.push(one);
        }
    }
    Ok(found)
}

// The experiments that test the claims of a note, if it is one that is named: `note-001`.
fn of_a_note(name: &str, ledger: &Ledger) -> Vec<String> {
    let note = name.strip_prefix("note-");
    let Some(note) = note.filter(|note| ledger.documents.iter().any(|one| one.id == *note)) else {
        return vec![name.to_owned()];
    };
    let is_of_it = |id: &str| id.strip_prefix(note).is_some_and(|rest| rest.starts_with('-'));
    let claims = ledger.claims.iter().filter(|claim| is_of_it(&claim.id));
    claims.flat_map(|claim| &claim.tests).map(|test| test.experiment.clone()).collect()
}

fn adapt(experiment: &mut Experiment, args: &Reproduce) -> Result<(), Failure> {
    if args.quick {
        // A task that sleeps between its rounds would have none in a shorter window.
        let least = least_window(experiment).unwrap_or(Span::ms(0));
        let measure = &mut experiment.measure;
        measure.looks = vec![10];
        measure.rounds = 1;
        measure.precision = None;
        measure.window = measure.window.min(Span::ms(10).max(least));
        measure.time = Some(Span::ms(10_000));
    }
    if let Some(dax) = &args.dax {
        let text =
            experiment.to_toml().replace(&format!("dax:{DAX}"), &format!("dax:{}", dax.display()));
        *experiment = Experiment::parse(&text)?;
    }
    Ok(())
}

// Published figures name cases by the shipped files' folder.
fn named_here(published: &[Published], args: &Reproduce) -> Vec<Published> {
    let mut published = published.to_vec();
    if let Some(dax) = &args.dax {
        let here = |text: &mut String| {
            *text = text.replace(&format!("dax:{DAX}"), &format!("dax:{}", dax.display()))
        };
        for row in &mut published {
            here(&mut row.case);
            row.against.iter_mut().for_each(here);
        }
    }
    published
}

fn list(experiments: &[Experiment], published: &[Published]) -> Result<(), Failure> {
    let mut text = String::new();
    for experiment in experiments {
        let own = published
            .iter()
            .filter(|row| row.experiment == experiment.name && row.against.is_some());
        let figures = match own.count() {
            0 => String::new(),
            1 => " (1 published comparison)".into(),
            count => format!(" ({count} published comparisons)"),
        };
        text += &format!("{}{figures}\n", experiment.name);
        let question = experiment.question.as_deref().unwrap_or_default();
        ringfence_report::paragraph(&mut text, 4, question, &output::style());
    }
    output::print(&text)
}

fn save(experiments: &[Experiment], dir: &Path) -> Result<(), Failure> {
    ringfence_dataset::Recorder::check(dir)?;
    std::fs::create_dir_all(dir)
        .map_err(|error| Failure::usage(format!("{} cannot be created: {error}", dir.display())))?;
    for one in experiments {
        experiment::save(one, &dir.join(format!("{}.toml", one.name)))?;
    }
    let saved = if experiments.len() == 1 { "experiment" } else { "experiments" };
    output::print(&format!("saved {} {saved} in {}", experiments.len(), dir.display()))
}
