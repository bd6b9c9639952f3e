//! `prove`: a budget for a victim, and the lever that meets it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ringfence_engine::available;
use ringfence_experiment::Error;
use ringfence_experiment::Measure;
use ringfence_experiment::budget::Budget;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::quantity::Quantity;
use ringfence_experiment::task::{ProgramUnit, Tasks};
use ringfence_experiment::units::Span;
use ringfence_machine::Machine;
use ringfence_report::{html, json};
use ringfence_studies::Here;
use ringfence_studies::prove::{self as prove, Files, Question};

use crate::args::Prove;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::progress::Show;
use crate::shared::command::pasteable;
use crate::shared::flags::{budget, check_counts, check_trials, one_task, set, set_some};
use crate::shared::{announce, experiment, flags, folder, host, page, program, results, services};

pub fn run(args: &Prove) -> Result<(), Failure> {
    if args.on.machine.is_some() {
        refuse_what_changes_or_goes_on(args)?;
    }
    let machine = host::machine(&args.on)?;
    let (mut question, dir) = match &args.resume {
        Some(dir) => (Files::of(dir).read()?.question, dir.clone()),
        None => {
            let question = question(args)?;
            (question, results::new_dir(args.output.out.as_deref(), "prove")?)
        }
    };
    if args.system || question.system {
        ringfence_limits::system::allow();
    }
    let roles = [("victim", &args.victim), ("aggressor", &args.aggressor)];
    let given: Vec<&str> =
        roles.iter().filter(|(_, flag)| flag.is_some()).map(|(role, _)| *role).collect();
    let plan = prove::plan_of_baseline(&question, &machine)
        .map_err(|error| services::beginning_with_its_flag(error.into(), &given))?;
    if args.resume.is_none() {
        question.time = question.time.or_else(|| prove::default_time(&question, &plan, &machine));
        prove::check_time(&question, &plan, &machine)?;
        crate::shared::folder::check_new(&dir)?;
    }
    if !args.output.quiet {
        announce(&question, &plan, &machine);
    }
    measure(args, &question, plan, &machine, &dir)
}

// What is about to be measured, for how long, and how precise that is.
fn announce(question: &Question, plan: &Plan, machine: &Machine) {
    let (verb, whose) = match machine.simulated {
        Some(_) => ("simulates", " of the machine's own time"),
        None => ("measures", ""),
    };
    let time = question
        .time
        .map_or(String::new(), |time| format!(", {}{whose}", announce::within(plan, time.0)));
    let mut text = format!(
        "prove: {verb} the victim alone and with the aggressor, and with levers if the budget \
         of {} is missed{time}; Ctrl-C keeps what was measured\n",
        question.budget
    );
    if let Some(found) = prove::precision(question, plan, machine) {
        text += &format!("{}\n", ringfence_report::precision(&found));
    }
    // stderr may be closed; ignore.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

fn refuse_what_changes_or_goes_on(args: &Prove) -> Result<(), Failure> {
    let why = if args.keep {
        "--keep sets what was confirmed on this machine, and --machine measures nothing on it: \
         leave one of them out"
    } else if args.system {
        "--system changes settings of this machine, and --machine measures nothing on it: leave \
         one of them out"
    } else if args.resume.is_some() {
        "--machine cannot be combined with --resume: a simulation gives the same result when it is \
         started again"
    } else {
        return Ok(());
    };
    Err(Failure::usage(why))
}

fn measure(
    args: &Prove,
    question: &Question,
    plan: Plan,
    machine: &Machine,
    dir: &Path,
) -> Result<(), Failure> {
    let stop = host::stop_on_signals()?;
    let started = Instant::now();
    let mut show = Show::new(args.output.quiet);
    let done = prove::run(question, plan, &mut Here::new(machine, dir, &stop, &mut show));
    show.end();
    let done = done?;
    // What was cut short has not been confirmed.
    let kept = (args.keep && done.ended_early.is_none()).then(|| prove::keep(&done.findings));
    if args.output.json {
        let kept = kept.as_ref().and_then(|kept| kept.as_ref().ok()?.as_ref());
        output::print_json(&json::proof(
            &done.findings,
            dir,
            done.ended_early.as_deref(),
            kept,
            &done.left,
        ))?;
    } else {
        let style = output::style();
        let mut text = ringfence_report::warnings(&done.left, &style);
        if style.details || machine.simulated.is_some() {
            text += &(ringfence_report::machine_line(machine, &style) + "\n");
        }
        text += &ringfence_report::prove(&done.findings, &style);
        if let Some(kept) = &kept {
            text += &ringfence_report::kept(
                kept.as_ref().map_err(ToString::to_string),
                question,
                &style,
            );
        }
        let left: Vec<String> = done
            .left
            .iter()
            .filter(|said| style.details || !ringfence_engine::is_routine(said))
            .cloned()
            .collect();
        text += &ringfence_report::left(&left, &style);
        let seconds = started.elapsed().as_secs_f64();
        let blank = if style.details { "\n" } else { "" };
        text += &format!("{blank}{seconds:.0} s; datasets: {}\n", pasteable(dir));
        output::print(&text)?;
    }
    let simulated = machine.simulated.is_some();
    let why = done.ended_early.as_deref();
    let why = why.map(|why| folder::proof_goes_on(why, simulated, dir));
    page::beside_with(dir, args.output.json, why.is_some(), || {
        Ok(html::proof(&done.findings, why.as_deref(), &done.digests(machine)))
    })?;
    if let Some(Err(error)) = kept {
        return Err(error.into());
    }
    match (&done.ended_early, done.findings.verdict) {
        (Some(why), _) if simulated => Err(experiment::kept(why, dir, machine)),
        (Some(why), _) => Err(Error::early(why, folder::proof_goes_on(why, simulated, dir)).into()),
        (None, verdict) => match Exit::of(verdict) {
            Exit::Done => Ok(()),
            other => Err(Failure::Verdict(other)),
        },
    }
}

fn question(args: &Prove) -> Result<Question, Failure> {
    check_counts("aggressors", "aggressor", &[args.aggressors])?;
    let timed = args.victim_run.is_some() || args.victim.as_deref().is_some_and(program::is_timed);
    program::check(&args.shown, timed, args.client.client.is_some())?;
    let client = program::client(&args.client, &args.shown)?;
    let victim = match (services::victim(&args.services), client, &args.victim, &args.victim_run) {
        (Some(probe), ..) => probe,
        (_, Some(client), ..) => client,
        (_, _, _, Some(command)) => program::whole_run("victim-run", command, &args.shown)?.into(),
        (_, _, Some(text), None) => program::victim(text, &args.shown)?,
        (_, _, None, None) => unreachable!("required by the parser"),
    };
    let victim = services::with_probe_flags(victim, &args.services)?;
    let mut victim = program::with_log_unit(victim, &args.shown)?;
    let mut aggressor = match services::aggressor(&args.services) {
        Some(attached) => attached,
        None => program::task(
            "aggressor",
            args.aggressor.as_deref().unwrap_or_default(),
            args.aggressor_progress,
        )?,
    };
    let mut programs = false;
    let warm_up = args.warm_up.as_deref().map(|span| flags::parsed("warm-up", span)).transpose()?;
    for tasks in [&mut victim, &mut aggressor] {
        let Tasks::Command(program) = tasks else { continue };
        programs = true;
        if warm_up.is_some() {
            *program = std::mem::take(program).warm_up(warm_up);
        }
    }
    if let Some(span) = args.warm_up.as_deref().filter(|_| !programs) {
        return Err(Failure::usage(format!(
            "--warm-up {span}: only programs are warmed up, and no task here is a program"
        )));
    }
    let whole =
        matches!(&victim, Tasks::Command(program) if program.units() == [ProgramUnit::WholeRun]);
    let (victim, aggressor) = (one_task("victim", victim)?, one_task("aggressor", aggressor)?);
    let mut measure = measuring(args, aggressor.tasks(), programs, whole)?;
    let (mut victim_cpus, mut aggressor_cpus, mut time) = (None, None, None);
    set_some(&mut victim_cpus, "victim-cpu", args.victim_cpu.as_deref())?;
    set_some(&mut aggressor_cpus, "aggressor-cpus", args.aggressor_cpus.as_deref())?;
    set_some(&mut time, "time", args.time.as_deref())?;
    let budget = budget(&args.budget)?;
    measure.quantity = quantity(budget, args.metric.metric.as_deref())?;
    // Fewer than a figure takes still try every lever.
    check_trials(args.trials)?;
    let pair = |text: &String| match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(Failure::usage(format!("--try-env: '{text}' is not of the form KEY=VALUE"))),
    };
    let question = Question {
        victim,
        aggressor,
        aggressors: args.aggressors,
        victim_cpus,
        aggressor_cpus,
        placement: args.placement.into(),
        budget,
        measure,
        trials: args.trials,
        seed: args.seed,
        levers: args.levers.clone(),
        try_env: args.try_env.iter().map(pair).collect::<Result<_, _>>()?,
        system: args.system,
        other_dir: args.other_dir.as_deref().map(other_dir).transpose()?,
        time,
    };
    Ok(as_tasks_need(question, args))
}

// How it is measured; the quantity may follow from the budget.
fn measuring(
    args: &Prove,
    aggressor: &Tasks,
    programs: bool,
    whole: bool,
) -> Result<Measure, Failure> {
    let mut measure = Measure {
        window: Span::ms(if programs { 100 } else { 50 }),
        rounds: args.rounds.unwrap_or(if whole { 1 } else { 2 }),
        ..Measure::default()
    };
    let aggressors = std::slice::from_ref(aggressor);
    services::set_freezing(&mut measure, &args.services, aggressors, args.window.as_deref())?;
    set(&mut measure.window, "window", args.window.as_deref())?;
    set(&mut measure.settle, "settle", args.settle.as_deref())?;
    set(&mut measure.isolation_settle, "isolation-settle", args.isolation_settle.as_deref())?;
    set(&mut measure.confidence, "confidence", args.confidence.as_deref())?;
    Ok(measure)
}

/// What is compared: a budget that bounds a metric names it.
pub(super) fn quantity(budget: Budget, metric: Option<&str>) -> Result<Quantity, Failure> {
    let asked = metric.map(|metric| flags::parsed::<Quantity>("metric", metric)).transpose()?;
    match (budget, asked) {
        (Budget::AtMost(bounded, _), Some(asked)) if asked != bounded => {
            Err(Failure::usage(format!(
                "--metric {asked} and --budget '{budget}' name two metrics: leave --metric out, \
                 since the budget names its metric"
            )))
        }
        (Budget::AtMost(bounded, _), _) => Ok(bounded),
        (Budget::Slowdown(_), asked) => Ok(asked.unwrap_or_default()),
    }
}

// By default: windows in which each task does some of its work, and one round of the tasks that
// wear a disk.
fn as_tasks_need(mut question: Question, args: &Prove) -> Question {
    let tasks = [question.victim.task(), question.aggressor.task()];
    let measure = &mut question.measure;
    if args.window.is_none() {
        let least = tasks.iter().filter_map(|task| task.least_window()).max();
        measure.window = flags::long_enough(measure.window, least);
    }
    if args.rounds.is_none() && tasks.iter().any(|task| task.uses_a_disk()) {
        measure.rounds = 1;
    }
    question
}

// Resolved, so that a proof that is resumed from elsewhere means the same one.
fn other_dir(dir: &Path) -> Result<PathBuf, Failure> {
    let usable = available::folder_to_write(dir).and_then(|()| std::fs::canonicalize(dir));
    usable.map_err(|error| {
        Failure::usage(format!(
            "--other-dir: files cannot be created in '{}': {error}; name another folder",
            dir.display()
        ))
    })
}
