//! `tune`: the policy file of a target.

mod files;
mod policy_file;

use std::time::Instant;

use ringfence_experiment::task::Target;
use ringfence_experiment::units::Share;
use ringfence_machine::units::Bytes;
use ringfence_report::json;
use ringfence_studies::Here;
use ringfence_studies::tune::{self, Question, Tuned};

use crate::args::Tune;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::progress::Show;
use crate::shared::flags::{check_trials, one_task, parse_task, set, set_slowdown};
use crate::shared::{announce, experiment, folder, host, results};
use policy_file::Written;

pub fn run(args: &Tune) -> Result<(), Failure> {
    let target = args.target.parse().map_err(|error| Failure::usage(format!("TARGET: {error}")))?;
    match target {
        Target::File(dir) => files::run(args, &dir),
        // A policy has it, and is read elsewhere.
        Target::Tmpfs(dir) => of_memory(args, Target::Tmpfs(folder::canonical(&dir))),
        Target::Dax(path) => of_memory(args, Target::Dax(folder::canonical(&path))),
        memory => of_memory(args, memory),
    }
}

fn of_memory(args: &Tune, target: Target) -> Result<(), Failure> {
    let question = question(args, target)?;
    let machine = host::machine(&args.on)?;
    if let (Some(simulated), Some(_)) = (&machine.simulated, &args.policy) {
        return Err(Failure::usage(format!(
            "--policy: {} is simulated, and a policy needs measurements: leave one of them out",
            simulated.name
        )));
    }
    // Looked at before it is measured for minutes; of what is simulated there is none.
    let to = if machine.simulated.is_some() {
        Written::datasets_alone(args)?
    } else {
        Written::new(args)?
    };
    tune::check(&question, &machine)?;
    let stop = host::stop_on_signals()?;
    let started = Instant::now();
    let mut show = Show::new(args.output.quiet);
    let what = format!("every method on {}", question.target);
    let length = format!("{} trials of each", question.trials);
    show.announce(announce::sentence("tune", &what, &length, args.output.json));
    let tuned = tune::run(&question, &mut Here::new(&machine, &to.dir, &stop, &mut show));
    show.end();
    let tuned = tuned?;
    to.write(tuned.policy.as_deref())?;
    tell(args, &tuned, &to, &machine, started)?;
    match (&tuned.ended_early, &tuned.policy) {
        (Some(why), _) => Err(experiment::kept(why, &to.dir, &machine)),
        (None, Some(_)) => Ok(()),
        // A policy is held back where the victim's budget is not met, and where nothing was
        // measured.
        (None, None) => {
            let verdict = tuned.proof.as_ref().map(|proof| Exit::of(proof.verdict));
            let otherwise = if tuned.simulated { Exit::SimulatedOnly } else { Exit::Undecided };
            Err(Failure::Verdict(verdict.filter(|exit| *exit != Exit::Done).unwrap_or(otherwise)))
        }
    }
}

fn tell(
    args: &Tune,
    tuned: &Tuned,
    to: &Written,
    machine: &ringfence_machine::Machine,
    started: Instant,
) -> Result<(), Failure> {
    let written = tuned.policy.as_ref().map(|_| to.policy.as_path());
    if args.output.json {
        return output::print_json(&json::tuned(tuned, &to.dir, written));
    }
    let style = output::style();
    let mut text = match style.details {
        true => ringfence_report::machine_line(machine, &style) + "\n",
        false => String::new(),
    };
    text += &ringfence_report::tune(tuned, &style);
    let none = match tuned.simulated {
        true => "no policy was written, since a policy needs measurements",
        false => "no policy was written",
    };
    text += &to.last_line(written, none, started);
    text += &results::rest(&to.dir, &style);
    output::print(&text)
}

fn question(args: &Tune, target: Target) -> Result<Question, Failure> {
    if let Some((flag, _)) =
        [("sync", &args.sync), ("layout", &args.layout)].iter().find(|(_, given)| given.is_some())
    {
        return Err(Failure::usage(format!(
            "--{flag} applies to files: name a folder as the target, file:DIR"
        )));
    }
    let (mut size, mut block, mut budget) = (Bytes::mib(256), Bytes::kib(4), Share(0.02));
    set(&mut size, "size", args.size.as_deref())?;
    set(&mut block, "block", args.block.as_deref())?;
    set_slowdown(&mut budget, args.budget.as_deref())?;
    check_trials(args.trials)?;
    let victim = |text: &str| one_task("victim", parse_task("victim", text)?);
    let victim = args.victim.as_deref().map(victim).transpose()?;
    if victim.is_none() && args.budget.is_some() {
        return Err(Failure::usage(
            "--budget is the allowed slowdown of a victim: name the task with --victim",
        ));
    }
    if size < *tune::BLOCKS.last().expect("there are blocks") {
        return Err(Failure::usage(format!(
            "--size: {size} is smaller than the largest block, 1MiB"
        )));
    }
    let (placement, trials) = (args.placement.into(), args.trials.unwrap_or(TRIALS));
    Ok(Question { target, size, victim, budget, block, placement, trials, seed: args.seed })
}

// Of the costs, and of the confirmation.
const TRIALS: u32 = 10;
