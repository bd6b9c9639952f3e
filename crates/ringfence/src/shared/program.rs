//! Programs as tasks, from flags: how they show their progress, and the server of which one is the
//! client.

use std::path::Path;

use ringfence_engine::available;
use ringfence_experiment::task::{Commands, Figure, LogUnit, ProgramUnit, Server, Tasks, text};

use super::flags;
use crate::args::{Client, Progress, Shown};
use crate::failure::Failure;

// A file that is there but may not be executed is refused before anything is measured.
fn refuse_not_executable(flag: &str, text: &str) -> Result<(), Failure> {
    let (_, run) = text::environment(text);
    let Some(path) = run.split_whitespace().next().filter(|first| first.contains('/')) else {
        return Ok(());
    };
    if Path::new(path).exists() && !available::can_be_started(path) {
        return Err(Failure::usage(format!(
            "--{flag}: '{path}' is not executable; to make it executable: chmod +x {path}"
        )));
    }
    Ok(())
}

/// A task of a flag, which may show its progress in one way or another.
pub fn task(flag: &str, text: &str, progress: Option<Progress>) -> Result<Tasks, Failure> {
    let command = text.trim_start();
    refuse_not_executable(flag, command.strip_prefix(RUN).unwrap_or(command))?;
    let tasks = flags::parse_task(flag, text)?;
    match (progress, tasks) {
        (None, tasks) => Ok(tasks),
        (Some(progress), Tasks::Command(program)) => Ok(program.unit(unit(progress)).into()),
        (Some(_), _) => Err(Failure::usage(format!(
            "--{flag}-progress: '{text}' is a built-in workload, which shows its progress by \
             itself; leave this flag out"
        ))),
    }
}

// The prefix of a command whose runs are timed.
const RUN: &str = "run:";

/// Whether the runs of a task are timed.
pub fn is_timed(text: &str) -> bool {
    text.trim_start().starts_with(RUN)
}

/// The victim's task. A command whose runs are timed may print a figure instead.
pub fn victim(text: &str, shown: &Shown) -> Result<Tasks, Failure> {
    match (is_timed(text), task("victim", text, shown.victim_progress)?) {
        (true, Tasks::Command(program)) => Ok(with_figure(program, shown)?.into()),
        (_, tasks) => Ok(tasks),
    }
}

/// A command whose runs are timed, or print a figure instead.
pub fn whole_run(flag: &str, command: &str, shown: &Shown) -> Result<Commands, Failure> {
    with_figure(program(flag, command)?.unit(ProgramUnit::WholeRun), shown)
}

fn with_figure(program: Commands, shown: &Shown) -> Result<Commands, Failure> {
    let Some(pattern) = &shown.victim_metric else { return Ok(program) };
    let better = shown.better.clone().unwrap_or("lower".into());
    let figure = Figure::parse(pattern, &better);
    let figure = figure.map_err(|why| Failure::usage(format!("--victim-metric: {why}")))?;
    Ok(program.figure(Some(figure)))
}

/// The client of a server, where one is asked for.
pub fn client(client: &Client, shown: &Shown) -> Result<Option<Tasks>, Failure> {
    let (Some(command), Some(server), Some(ready)) =
        (&client.client, &client.server, &client.ready)
    else {
        return Ok(None);
    };
    let program = match shown.victim_progress {
        Some(progress) => program("client", command)?.unit(unit(progress)),
        None => whole_run("client", command, shown)?,
    };
    refuse_empty("server", server)?;
    refuse_not_executable("server", server)?;
    let (env, run) = text::environment(server);
    let ready = flags::parsed("ready", ready)?;
    let (mut within, mut cpus) = (None, None);
    flags::set_some(&mut within, "ready-within", client.ready_within.as_deref())?;
    flags::set_some(&mut cpus, "server-cpus", client.server_cpus.as_deref())?;
    let env = env.into_iter().collect();
    let server = Server { run: run.into(), ready, within, cpus, env };
    Ok(Some(program.server(Some(server)).into()))
}

/// Refuses what cannot be said of a victim.
pub fn check(shown: &Shown, timed: bool, client: bool) -> Result<(), Failure> {
    let refused = |why: &str| Err(Failure::usage(why));
    match (shown.victim_progress, &shown.victim_metric) {
        (Some(Progress::CpuTime), _) => refused(
            "--victim-progress cpu-time says how long the victim ran and not how fast, so it would \
             not show a slowdown; use lines, counter, runs or instructions, or time its runs with \
             --victim run:COMMAND",
        ),
        (Some(_), _) if timed => refused(
            "--victim-progress cannot be used with run:COMMAND, whose runs are timed: leave one \
             out",
        ),
        (Some(_), Some(_)) => refused(
            "--victim-metric is a figure of a whole run, for which --victim-progress has no \
             meaning: leave one out",
        ),
        (None, Some(_)) if !timed && !client => refused(
            "--victim-metric is a figure that a run prints: name the command by --victim \
             run:COMMAND, or by --client with its --server",
        ),
        _ => Ok(()),
    }
}

/// The same victim with the unit of the log that it prints.
pub fn with_log_unit(victim: Tasks, shown: &Shown) -> Result<Tasks, Failure> {
    let Some(unit) = &shown.victim_log_unit else { return Ok(victim) };
    match victim {
        Tasks::Command(program) if program.units() == [ProgramUnit::Latencies] => {
            let unit = match unit.as_str() {
                "us" => LogUnit::Us,
                "ms" => LogUnit::Ms,
                _ => LogUnit::Ns,
            };
            Ok(program.log_unit(Some(unit)).into())
        }
        _ => Err(Failure::usage(format!(
            "--victim-log-unit {unit} applies to a log that the victim prints: it needs \
             --victim-progress latencies"
        ))),
    }
}

fn unit(progress: Progress) -> ProgramUnit {
    match progress {
        Progress::Instructions => ProgramUnit::Instructions,
        Progress::Lines => ProgramUnit::Lines,
        Progress::Latencies => ProgramUnit::Latencies,
        Progress::Counter => ProgramUnit::Counter,
        Progress::Runs => ProgramUnit::Runs,
        Progress::CpuTime => ProgramUnit::CpuTime,
    }
}

fn refuse_empty(flag: &str, text: &str) -> Result<(), Failure> {
    match text.trim().is_empty() {
        true => {
            Err(Failure::usage(format!("--{flag}: this is empty; give a program's command line")))
        }
        false => Ok(()),
    }
}

fn program(flag: &str, text: &str) -> Result<Commands, Failure> {
    refuse_empty(flag, text)?;
    refuse_not_executable(flag, text)?;
    Ok(text::program(text))
}
