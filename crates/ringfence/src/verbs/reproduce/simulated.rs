//! `reproduce --simulated`: published figures beside those of described machines.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ringfence_experiment::Experiment;
use ringfence_machine::Machine;
use ringfence_report::{Style, html, json};
use ringfence_studies::reproduce::simulated::{self, Setting};
use ringfence_studies::reproduce::{Published, Reproduced};

use crate::args::Reproduce;
use crate::failure::Failure;
use crate::output;
use crate::shared::command::pasteable;
use crate::shared::{folder, host, page, results};

pub fn run(
    args: &Reproduce,
    chosen: &[Experiment],
    published: &[Published],
) -> Result<(), Failure> {
    let started = Instant::now();
    let setting = Setting::shipped();
    if let Some(machine) = &args.on.machine {
        host::description(machine)?;
    }
    let jobs = simulated::jobs(chosen, published, &setting, args.on.machine.as_deref(), &describe)
        .map_err(Failure::usage)?;
    if jobs.is_empty() {
        return Err(Failure::usage(
            "no figures of these experiments were published: 'ringfence run FILE --machine NAME' \
             simulates any experiment",
        ));
    }
    let here: Vec<(String, Reproduced)> = measured(args, chosen, published)?;
    let dir = results::new_dir(args.output.out.as_deref(), "reproduce")?;
    folder::check_new(&dir)?;
    std::fs::create_dir_all(&dir)
        .map_err(|error| Failure::usage(format!("{} cannot be created: {error}", dir.display())))?;
    let stop = host::stop_on_signals()?;
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let quiet = args.output.quiet;
    let count = AtomicUsize::new(0);
    let begun = |number: usize| {
        if !quiet {
            let job: &simulated::Job = &jobs[number];
            let so_far = count.fetch_add(1, Ordering::Relaxed) + 1;
            // A reader that has gone is not a failure.
            let line = format!("[{so_far}/{}] {}", jobs.len(), job.folder);
            let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{line}\n"));
        }
    };
    let all = simulated::run(&jobs, &setting, &dir, threads, &stop, &begun)?;
    let of = |name: &str| here.iter().find(|(known, _)| known == name).map(|(_, found)| found);
    if args.output.json {
        output::print_json(&json::simulated(&all, &of, &dir))?;
    } else {
        let style = output::style();
        let each = |one: &simulated::Simulated| {
            ringfence_report::simulated(one, of(&one.experiment), &style)
        };
        let tables: String = all.iter().map(each).collect();
        let summary = ringfence_report::simulated_summary(&all, &style);
        let mut text = ordered(&summary, &tables, &style);
        text +=
            &format!("\n{:.0} s; datasets: {}\n", started.elapsed().as_secs_f64(), pasteable(&dir));
        output::print(&text)?;
    }
    let path = dir.join("report.html");
    page::put(&path, "--out", || Ok(html::simulated(&all, &of)))?;
    if !args.output.json {
        output::print(&format!("report: {}; open it in a browser\n", pasteable(&path)))?;
    }
    let simulated = |one: &simulated::Simulated| {
        one.outcome.as_ref().is_ok_and(|found| found.reproduced.findings.samples > 0)
    };
    match !all.iter().any(simulated) {
        true => Err(Failure::failed(
            "nothing was simulated: none of these experiments can be, for the reasons given",
        )),
        false => Ok(()),
    }
}

/// The answer first, unless everything is printed.
pub fn ordered(summary: &str, tables: &str, style: &Style) -> String {
    match style.details || summary.is_empty() {
        true => format!("{tables}{summary}"),
        false => format!("{summary}\n{}\n", tables.trim_end()),
    }
}

// A machine by its name, with other values in places.
fn describe(name: &str, changes: &[(String, String)]) -> Result<Machine, String> {
    let mut description = host::description(name).map_err(|failure| failure.to_string())?;
    for (path, value) in changes {
        description = description.changed(path, value).map_err(|error| error.why)?;
    }
    Ok(description.machine())
}

fn measured(
    args: &Reproduce,
    chosen: &[Experiment],
    published: &[Published],
) -> Result<Vec<(String, Reproduced)>, Failure> {
    let Some(dir) = &args.measured else { return Ok(Vec::new()) };
    if !dir.is_dir() {
        return Err(Failure::usage(format!(
            "--measured: {}: there is no such folder; name one that 'ringfence notes run' wrote",
            dir.display()
        )));
    }
    let mut found = Vec::new();
    for experiment in chosen {
        let here = simulated::measured_here(dir, &experiment.name, published)?;
        found.extend(here.map(|here| (experiment.name.clone(), here)));
    }
    if found.is_empty() {
        return Err(Failure::usage(format!(
            "{}: none of these experiments was measured there; name a folder that 'ringfence \
             reproduce' wrote",
            dir.display()
        )));
    }
    Ok(found)
}
