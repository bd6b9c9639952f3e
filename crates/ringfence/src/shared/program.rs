//! Programs as tasks, from flags: how they show their progress, and the server of which one is the
//! client.

use std::path::Path;

use ringfence_engine::available;
use ringfence_experiment::task::{Figure, Ready, text};
use ringfence_experiment::units::Span;
use ringfence_machine::cpulist::CpuSet;
use toml::{Table, Value};

use super::flags;
use crate::args::{Client, Progress, Shown};
use crate::failure::Failure;

// A file that is there but may not be executed is refused before anything is measured.
fn refuse_not_executable(flag: &str, text: &str) -> Result<(), Failure> {
    let run = text::program(text)
        .get("run")
        .and_then(Value::as_str)
        .map(str::to_owned)
        .unwrap_or_default();
    let Some(path) = run.split_whitespace().next().filter(|first| first.contains('/')) else {
        return Ok(());
    };
    if Path::new(path).exists() && !available::can_be_started(path) {
        return Err(Failure::Usage(format!(
            "--{flag}: '{path}' is not executable; to make it executable: chmod +x {path}"
        )));
    }
    Ok(())
}

/// A task of a flag, which may show its progress in one way or another.
pub fn task(flag: &str, text: &str, progress: Option<Progress>) -> Result<Table, Failure> {
    refuse_not_executable(flag, text)?;
    let table = flags::parse_task(flag, text)?;
    let Some(progress) = progress else { return Ok(table) };
    if !table.contains_key("run") {
        return Err(Failure::Usage(format!(
            "--{flag}-progress: '{text}' is a built-in workload, which shows its progress by \
             itself; leave this flag out"
        )));
    }
    program(flag, text, Some(name(progress)))
}

/// A command whose runs are timed, or print a figure.
pub fn whole_run(flag: &str, command: &str, shown: &Shown) -> Result<Table, Failure> {
    let mut table = program(flag, command, Some("whole-run"))?;
    if let Some(pattern) = &shown.victim_metric {
        let better = shown.better.clone().unwrap_or("lower".into());
        let figure = Figure::parse(pattern, &better);
        let figure = figure.map_err(|why| Failure::Usage(format!("--victim-metric: {why}")))?;
        table.insert("figure".into(), Value::try_from(figure).expect("two texts"));
    }
    Ok(table)
}

/// The client of a server, where one is asked for.
pub fn client(client: &Client, shown: &Shown) -> Result<Option<Table>, Failure> {
    let (Some(command), Some(server), Some(ready)) =
        (&client.client, &client.server, &client.ready)
    else {
        return Ok(None);
    };
    let mut table = match shown.victim_progress {
        Some(progress) => program("client", command, Some(name(progress)))?,
        None => whole_run("client", command, shown)?,
    };
    let mut own = program("server", server, None)?;
    own.remove("workload");
    let ready: Ready = flags::parsed("ready", ready)?;
    own.insert("ready".into(), Value::String(ready.to_string()));
    if let Some(within) = &client.ready_within {
        let within: Span = flags::parsed("ready-within", within)?;
        own.insert("within".into(), Value::String(within.to_string()));
    }
    if let Some(cpus) = &client.server_cpus {
        let cpus: CpuSet = flags::parsed("server-cpus", cpus)?;
        own.insert("cpus".into(), Value::String(cpus.to_string()));
    }
    table.insert("server".into(), Value::Table(own));
    Ok(Some(table))
}

/// Refuses what cannot be said of a victim.
pub fn check(shown: &Shown, timed: bool, client: bool) -> Result<(), Failure> {
    let refused = |why: &str| Err(Failure::Usage(why.into()));
    match (shown.victim_progress, &shown.victim_metric) {
        (Some(Progress::CpuTime), _) => refused(
            "--victim-progress cpu-time says how long the victim ran and not how fast, so it would \
             not show a slowdown; use lines, counter, runs or instructions, or time its runs with \
             --victim-run",
        ),
        (Some(_), _) if timed => refused(
            "--victim-progress cannot be used with --victim-run, whose runs are timed: leave one \
             out",
        ),
        (Some(_), Some(_)) => refused(
            "--victim-metric is a figure of a whole run, for which --victim-progress has no \
             meaning: leave one out",
        ),
        (None, Some(_)) if !timed && !client => refused(
            "--victim-metric is a figure that a run prints: name the command by --victim-run, or \
             by --client with its --server",
        ),
        _ => Ok(()),
    }
}

/// The same victim with the unit of the log that it prints.
pub fn with_log_unit(mut victim: Table, shown: &Shown) -> Result<Table, Failure> {
    if let Some(unit) = &shown.victim_log_unit {
        if victim.get("unit").and_then(Value::as_str) != Some("latencies") {
            return Err(Failure::Usage(format!(
                "--victim-log-unit {unit} applies to a log that the victim prints: it needs \
                 --victim-progress latencies"
            )));
        }
        victim.insert("log_unit".into(), Value::String(unit.clone()));
    }
    Ok(victim)
}

fn name(progress: Progress) -> &'static str {
    match progress {
        Progress::Instructions => "instructions",
        Progress::Lines => "lines",
        Progress::Latencies => "latencies",
        Progress::Counter => "counter",
        Progress::Runs => "runs",
        Progress::CpuTime => "cpu-time",
    }
}

fn program(flag: &str, text: &str, unit: Option<&str>) -> Result<Table, Failure> {
    if text.trim().is_empty() {
        return Err(Failure::Usage(format!(
            "--{flag}: this is empty; give a program's command line"
        )));
    }
    refuse_not_executable(flag, text)?;
    let mut table = text::program(text);
    table.extend(unit.map(|unit| ("unit".to_string(), Value::String(unit.into()))));
    Ok(table)
}
