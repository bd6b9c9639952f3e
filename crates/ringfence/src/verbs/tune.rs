//! `tune`: the policy file of a target.

use std::fs;
use std::path::Path;
use std::time::Instant;

use ringfence_experiment::task::text;
use ringfence_experiment::units::Share;
use ringfence_json as json;
use ringfence_machine::units::Bytes;
use ringfence_studies::tune::{self, Question, Tuned};
use ringfence_study::Here;

use crate::args::Tune;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::progress::Show;
use crate::shared::flags::{set, set_budget};
use crate::shared::{experiment, host};
use ringfence_sysfs::whole;

pub fn run(args: &Tune) -> Result<(), Failure> {
    let question = question(args)?;
    let machine = host::machine(&args.on)?;
    let path = args.policy.clone().unwrap_or_else(|| "ringfence-policy.toml".into());
    match (&machine.simulated, &args.policy) {
        (Some(simulated), Some(_)) => {
            return Err(Failure::Usage(format!(
                "--policy: {} is simulated, and a policy follows from measurements: leave one of them out",
                simulated.name
            )));
        }
        (Some(_), None) => {}
        (None, _) => can_be_written(&path)?,
    }
    tune::check(&question, &machine)?;
    let dir = args.output.out.clone().unwrap_or_else(|| ringfence_dataset::default_dir("tune"));
    crate::shared::folder::check_new(&dir)?;
    let stop = host::stop_on_signals()?;
    let started = Instant::now();
    let mut show = Show::new(args.output.quiet);
    let tuned = tune::run(&question, &mut Here::new(&machine, &dir, &stop, &mut show));
    show.end();
    let tuned = tuned?;
    if let Some(policy) = &tuned.policy {
        write(&path, policy)?;
        // Beside what it was chosen from, for those who look at the folder again.
        write(&dir.join(tune::POLICY), policy)?;
    }
    tell(args, &tuned, &path, &dir, &machine, started)?;
    match (&tuned.ended_early, &tuned.policy) {
        (Some(why), _) => Err(experiment::kept(why, &dir, &machine)),
        (None, Some(_)) => Ok(()),
        // A policy is held back where the victim's budget is not met, and where nothing was measured.
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
    path: &Path,
    dir: &Path,
    machine: &ringfence_machine::Machine,
    started: Instant,
) -> Result<(), Failure> {
    let written = tuned.policy.as_ref().map(|_| path);
    if args.output.json {
        return output::print_json(&json::tuned(tuned, dir, written));
    }
    let style = output::style();
    let mut text = ringfence_report::machine_line(machine, &style) + "\n";
    text += &ringfence_report::tune(tuned, &style);
    let policy = match written {
        Some(path) => format!("policy: {}", path.display()),
        None if tuned.simulated => "no policy was written, since a policy follows from measurements".into(),
        None => "no policy was written".into(),
    };
    let seconds = started.elapsed().as_secs_f64();
    text += &format!("\n{seconds:.0} s; {policy}; datasets: {}\n", dir.display());
    output::print(&text)
}

fn question(args: &Tune) -> Result<Question, Failure> {
    let target = args.target.parse().map_err(|error| Failure::Usage(format!("TARGET: {error}")))?;
    let (mut size, mut block, mut budget) = (Bytes::mib(256), Bytes::kib(4), Share(0.02));
    set(&mut size, "size", args.size.as_deref())?;
    set(&mut block, "block", args.block.as_deref())?;
    set_budget(&mut budget, args.budget.as_deref())?;
    let victim = args.victim.as_deref().map(text::parse).transpose();
    let victim = victim.map_err(|error| Failure::Usage(format!("--victim: {error}")))?;
    if victim.is_none() && args.budget.is_some() {
        return Err(Failure::Usage(
            "--budget is the slowdown of a victim that is allowed: name the task with --victim".into(),
        ));
    }
    if size < *tune::BLOCKS.last().expect("there are blocks") {
        return Err(Failure::Usage(format!("--size: {size} is smaller than the largest block, 1MiB")));
    }
    let placement = args.placement.into();
    Ok(Question { target, size, victim, budget, block, placement, trials: args.trials, seed: args.seed })
}

fn can_be_written(path: &Path) -> Result<(), Failure> {
    let named = path.display();
    if fs::symlink_metadata(path).is_ok() {
        return Err(Failure::Usage(format!("{named} already exists: name another file with --policy")));
    }
    // Made and removed again: only trying tells.
    fs::File::create_new(path).and_then(|_| fs::remove_file(path)).map_err(|error| {
        Failure::Usage(format!("{named} cannot be written: {error}; name another file with --policy"))
    })
}

fn write(path: &Path, policy: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::Failed(format!(
            "the policy cannot be written to {}: {error}; this is the policy:\n{policy}",
            path.display()
        ))
    };
    let text = format!("# How to make stores durable here, by 'ringfence tune'.\n{policy}");
    whole::write(path, text.as_bytes()).map_err(whole::WholeError::into_source).map_err(failed)
}
