//! `fleet`: one experiment on many machines.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::args::fleet::{
    Fleet, FleetAction, FleetDir, FleetLook, FleetReport, FleetRetry, FleetSubmit, FleetTask,
};
use ringfence_experiment::Error;
use ringfence_fleet::{self as fleet, Engine, Order, Ordered, Place, Read, Spec, State, Task};
use ringfence_machine::root::FsRoot;
use ringfence_report::fleet::{Compared, Question, compare_facts, compare_fleets, overview};
use ringfence_report::json;

use crate::args::{Verb, parse_words};
use crate::failure::Failure;
use crate::output;
use crate::shared::command::command;
use crate::shared::{host, page};

/// Slurm answers each look, and a task takes minutes.
const LOOKS_EVERY: Duration = Duration::from_secs(5);

pub fn run(args: &Fleet) -> Result<(), Failure> {
    match &args.action {
        FleetAction::Submit(asked) => submit(asked),
        FleetAction::Status(asked) => status(asked),
        FleetAction::Retry(asked) => retry(asked),
        FleetAction::Gather(asked) => gather(asked),
        FleetAction::Report(asked) => report(asked),
        FleetAction::Task(asked) => task(asked),
    }
}

fn submit(args: &FleetSubmit) -> Result<(), Failure> {
    let FleetSubmit { places, local, hosts, limit, slurm, verb } = args;
    let (places, limit, slurm, verb) = (places.clone(), limit.clone(), slurm.clone(), verb.clone());
    let order = Order { places, local: *local, hosts: *hosts, limit, slurm, verb };
    let called = |words: &[String]| match parse_words(words)?.verb {
        Verb::Fleet(_) => Err("a fleet cannot run fleets".into()),
        _ => Ok(()),
    };
    let Ordered { dir, spec, experiment } = fleet::order(&order, &called)?;
    let program = std::env::current_exe();
    let program =
        program.map_err(|error| Failure::failed(format!("finding this program: {error}")))?;
    fleet::create(&dir, &spec, &program, experiment.as_deref())?;
    let own = fleet::Submitting::begin(&dir)?;
    let all: Vec<u32> = (1..=spec.tasks).collect();
    if spec.engine == Engine::Local {
        return here(&dir, &all, own);
    }
    let stop = host::stop_on_signals()?;
    let job = fleet::submit(&dir, &spec, &all, &stop).inspect_err(|_| {
        // The folder was made here. If nothing of it was submitted, no job needs it.
        if !fleet::may_have_job(&dir) {
            let _ = std::fs::remove_dir_all(&dir);
        }
    })?;
    let warning = fleet::static_problem(&program).map(|why| format!("{why}\n")).unwrap_or_default();
    let (tasks, most, status) =
        (plural(all.len()), spec.minutes, command(&["fleet", "status"], &dir));
    output::print(&format!("{warning}job {job}: {tasks}, at most {most} min each; see {status}"))
}

fn status(args: &FleetLook) -> Result<(), Failure> {
    let (spec, tasks) = if args.wait { ended(&args.dir)? } else { fleet::look(&args.dir)? };
    let lost = tasks.iter().filter(|task| task.state.is_lost()).count();
    if args.json {
        output::print_json(&json::fleet_status(&spec, &tasks))?;
    } else {
        let mut text = ringfence_report::fleet::status(&spec, &tasks, &output::style());
        if lost > 0 {
            text += &format!("again: {}\n", command(&["fleet", "retry"], &args.dir));
        }
        output::print(&text)?;
    }
    let without = lost + tasks.iter().filter(|task| task.left_out).count();
    match args.wait && without > 0 {
        true => Err(Failure::failed(format!("{} without figures", plural(without)))),
        false => Ok(()),
    }
}

/// The tasks when all of them have ended; says how many are where, whenever that changes.
fn ended(dir: &Path) -> Result<(Spec, Vec<Task>), Failure> {
    let mut said = String::new();
    loop {
        let (spec, tasks) = fleet::look(dir)?;
        if tasks.iter().all(|task| task.state.has_ended()) {
            return Ok((spec, tasks));
        }
        let mut now = ringfence_report::fleet::states(&tasks);
        // They have the same one where Slurm does not answer.
        if let Some(why) = tasks
            .iter()
            .filter(|task| task.state == State::Unknown)
            .find_map(|task| task.reason.as_ref())
        {
            now += &format!("; {why}");
        }
        if now != said {
            // stderr may be closed; ignore.
            let _ = writeln!(std::io::stderr(), "{now}");
            said = now;
        }
        std::thread::sleep(LOOKS_EVERY);
    }
}

fn retry(args: &FleetRetry) -> Result<(), Failure> {
    let again = fleet::retry(&args.dir, args.limit.as_deref(), args.slurm.as_deref())?;
    for left in &again.left {
        output::print(left)?;
    }
    if again.tasks.is_empty() {
        return output::print("nothing to rerun: no task failed, and none is missing");
    }
    match again.spec.engine {
        Engine::Local => here(&args.dir, &again.tasks, again.own),
        Engine::Slurm => {
            let job = again.hand_in(&*host::stop_on_signals()?)?;
            let status = command(&["fleet", "status"], &args.dir);
            output::print(&format!("job {job}: {}; see {status}", plural(again.tasks.len())))
        }
    }
}

/// Runs tasks here, one after the other, and says what came of them.
fn here(dir: &Path, numbers: &[u32], own: fleet::Submitting) -> Result<(), Failure> {
    let stop = host::stop_on_signals()?;
    for number in numbers {
        // stderr may be closed; ignore.
        let _ = writeln!(std::io::stderr(), "task {number}");
        if let Err(error) = one(dir, *number, &FsRoot::host(), &stop) {
            let _ = writeln!(std::io::stderr(), "task {number}: {error}");
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    drop(own);
    let (spec, tasks) = fleet::look(dir)?;
    output::print(&ringfence_report::fleet::status(&spec, &tasks, &output::style()))?;
    let lost = tasks.iter().filter(|task| task.state.is_lost()).count();
    if lost > 0 {
        let again = command(&["fleet", "retry"], dir);
        return Err(Failure::failed(format!("{} without figures; again: {again}", plural(lost))));
    }
    output::print(&format!("report: {}", command(&["fleet", "report"], dir)))
}

fn one(dir: &Path, number: u32, root: &FsRoot, stop: &AtomicBool) -> Result<fleet::Outcome, Error> {
    let of_slurm = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    // Runs on one machine are told apart by their task.
    let here = || {
        let name = root.read_opt("/proc/sys/kernel/hostname").unwrap_or_else(|| "host".into());
        format!("{name}-{number}")
    };
    let node = of_slurm("SLURMD_NODENAME").unwrap_or_else(here);
    let place = Place { node, job: of_slurm("SLURM_JOB_ID"), root: root.clone() };
    fleet::run_task(dir, number, &place, stop)
}

fn task(args: &FleetTask) -> Result<(), Failure> {
    let stop = host::stop_on_signals()?;
    let outcome = one(&args.dir, args.number, &host::root(&args.root)?, &stop)?;
    match outcome.reason {
        Some(reason) => {
            Err(Failure::failed(format!("task {} on {}: {reason}", args.number, outcome.node)))
        }
        None => output::print(&format!("task {} on {}: done", args.number, outcome.node)),
    }
}

fn gather(args: &FleetDir) -> Result<(), Failure> {
    let (_, tasks) = fleet::look(&args.dir)?;
    let gathered = fleet::gather(&args.dir, &tasks)?;
    let mut text = format!(
        "{} of {} in {}\n",
        gathered.tasks.len(),
        plural(tasks.len()),
        args.dir.join("table").display()
    );
    for task in tasks.iter().filter(|task| task.state != State::Done) {
        let why = task.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        text += &format!("without figures: task {}, {}{why}\n", task.number, task.state.word());
    }
    for left in &gathered.left_out {
        text += &format!("left out: {}\n", ringfence_report::fleet::left_out(left));
    }
    output::print(&text)
}

fn plural(tasks: usize) -> String {
    if tasks == 1 { "1 task".into() } else { format!("{tasks} tasks") }
}

fn report(args: &FleetReport) -> Result<(), Failure> {
    let (spec, tasks) = fleet::look(&args.dir)?;
    let read = read(&args.dir, &spec, &tasks)?;
    let by = args.by.clone().unwrap_or_else(|| vec!["processor".into()]);
    let asked =
        Question::new(by, args.figure.clone(), &args.at_least, &read).map_err(Failure::usage)?;
    let compared = args
        .compare
        .as_ref()
        .map(|what| compare(what, (&args.dir, &spec), &read, &asked))
        .transpose()?;
    let shown = overview(&read, &tasks, &asked);
    if let Some(path) = &args.html {
        page::put(path, "--html", || {
            Ok(ringfence_report::fleet::page(&spec, &shown, compared.as_ref()))
        })?;
    }
    match args.json {
        true => output::print_json(&json::fleet_report(&spec, &shown, compared.as_ref())),
        false => output::print(&ringfence_report::fleet::text(
            &shown,
            compared.as_ref(),
            &output::style(),
        )),
    }
}

// The table's figures; it is made where it is not that of these tasks.
fn read(dir: &Path, spec: &Spec, tasks: &[Task]) -> Result<Read, Failure> {
    if !fleet::is_current(dir, tasks) {
        fleet::gather(dir, tasks)?;
    }
    Ok(fleet::read(dir, spec, tasks)?)
}

fn compare(
    what: &str,
    (dir, spec): (&Path, &Spec),
    read: &Read,
    asked: &Question,
) -> Result<Compared, Failure> {
    let other = Path::new(what);
    let compared = if fleet::is_fleet(other) {
        let (before, tasks) = fleet::look(other)?;
        fleet::same_experiment((other, &before), (dir, spec))?;
        let earlier = self::read(other, &before, &tasks)?;
        compare_fleets((what, &earlier), (&dir.display().to_string(), read), asked)
    } else {
        compare_facts(read, what, asked)
    };
    compared.map_err(|why| Failure::usage(format!("--compare {what}: {why}")))
}
