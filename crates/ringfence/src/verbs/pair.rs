//! `pair`: pairwise interference between tasks, and which should run together.

use std::path::Path;
use std::time::{Duration, Instant};

use ringfence_experiment::Error;
use ringfence_experiment::shell;
use ringfence_experiment::units::{Share, Span};
use ringfence_experiment::{Measure, PlacementKind};
use ringfence_machine::Machine;
use ringfence_report::{html, json};
use ringfence_studies::Here;
use ringfence_studies::pair::{self, Question};

use super::resume;
use crate::args::{Measuring, Pair};
use crate::failure::Failure;
use crate::output;
use crate::progress::Show;
use crate::shared::command::{command, pasteable};
use crate::shared::results::rest;
use crate::shared::{announce, experiment, flags, host, page, results};

/// Of the whole time, the part that goes into every pair; the rest confirms the advice.
const SCREENING: f64 = 0.6;

pub fn run(args: &Pair) -> Result<(), Failure> {
    let flags = &args.measuring;
    let machine = host::machine(&args.on)?;
    let Some(dir) = &args.resume else {
        let question = question(args, &machine)?;
        if let Some(path) = &flags.save {
            let kinds = question.kinds().map_err(Failure::usage)?;
            experiment::save(&question.screening(&kinds), path)?;
            let mut again = command(&["run"], path);
            if let Some(machine) = &args.on.machine {
                again += &format!(" --machine {}", shell::quote(machine));
            }
            return output::print(&format!(
                "saved {}, which measures every pair; run it with: {again}",
                path.display()
            ));
        }
        let dir = results::new_dir(flags.output.out.as_deref(), "pair")?;
        return measure(&question, &dir, &machine, flags);
    };
    if !args.task.is_empty() || args.present.is_some() || args.placement.is_some() {
        return Err(Failure::usage(
            "--resume continues with the tasks, pairs and placement of that folder: leave out \
             --task, --present and --placement",
        ));
    }
    if args.on.machine.is_some() {
        return Err(resume::refused("machine"));
    }
    let fixed = resume::fixed(flags).or(flags.time.is_some().then_some("time"));
    if let Some(flag) = fixed {
        return Err(resume::refused(flag));
    }
    let question = Question::read(dir)?.ok_or_else(|| {
        Failure::usage(format!("{}: name a folder that 'ringfence pair' wrote", dir.display()))
    })?;
    measure(&question, dir, &machine, flags)
}

fn question(args: &Pair, machine: &Machine) -> Result<Question, Failure> {
    let flags = &args.measuring;
    let placement = args.placement.map_or(PlacementKind::Auto, Into::into);
    // Siblings share most: where there are any, that is what pairing is about.
    let siblings = !machine.topology.pairs_smt(&machine.topology.usable()).is_empty();
    let placement =
        if placement == PlacementKind::Auto && siblings { PlacementKind::Smt } else { placement };
    let measure = Measure {
        looks: vec![1000],
        rounds: 1,
        window: Span::ms(50),
        probe: Span::ms(1),
        margin: Share(0.01),
        ..Measure::default()
    };
    let ask = |measures| Question::new(&args.task, args.present.as_deref(), placement, 1, measures);
    let question = ask([measure.clone(), measure]).map_err(Failure::usage)?;
    // The flags are those of an experiment: apply them to one of these.
    let kinds = question.kinds().map_err(Failure::usage)?;
    let mut experiment = question.screening(&kinds);
    flags::apply(&mut experiment, flags)?;
    experiment.check()?;
    let least = ringfence_studies::plan(&experiment, machine)?.least_time();
    let least = Span(least.div_f64(SCREENING)).rounded_up();
    if let Some(time) = experiment.measure.time.filter(|time| *time < least) {
        return Err(Failure::usage(format!(
            "--time {time} is too short: figures of all pairs, and of those that are measured \
             again, take at least {least} here; give more time, or shorter windows (--window)"
        )));
    }
    let mut measures = [experiment.measure.clone(), experiment.measure];
    if flags.trials.is_none() {
        // A minute for four different tasks, which have sixteen pairs of task and neighbour.
        let usual = Duration::from_secs(60)
            .mul_f64((kinds.len().pow(2) as f64 / 16.0).max(1.0))
            .max(least.0);
        let whole = measures[0].time.map_or(usual, |time| time.0);
        measures[0].time = Some(Span(whole.mul_f64(SCREENING)));
        measures[1].time = Some(Span(whole.mul_f64(1.0 - SCREENING)));
    } else if let Some(whole) = measures[0].time {
        measures[0].time = Some(Span(whole.0.mul_f64(SCREENING)));
        measures[1].time = Some(Span(whole.0.mul_f64(1.0 - SCREENING)));
    }
    let tasks = &args.task;
    Question::new(tasks, args.present.as_deref(), placement, experiment.seed, measures)
        .map_err(Failure::usage)
}

// Both parts of it have a time, or both have trials.
fn announced(question: &Question, flags: &Measuring) -> Option<String> {
    let what = format!("{} tasks, every pair of them", question.tasks.len());
    let length = match (question.screen.time, question.confirm.time) {
        (Some(screen), Some(confirm)) => {
            format!("at most {}", announce::time(screen.0 + confirm.0))
        }
        _ => format!("{} trials", question.screen.looks.last().copied().unwrap_or_default()),
    };
    announce::sentence("pair", &what, &length, flags.output.json)
}

fn measure(
    question: &Question,
    dir: &Path,
    machine: &Machine,
    flags: &Measuring,
) -> Result<(), Failure> {
    let stop = host::stop_on_signals()?;
    let _awake = host::keep_awake(flags.no_deep_idle)?;
    let mut show = Show::new(flags.output.quiet);
    show.announce(announced(question, flags));
    let started = Instant::now();
    let outcome = pair::run(question, &mut Here::new(machine, dir, &stop, &mut show));
    show.end();
    let done = outcome?;
    let outcome = &done.findings;
    if flags.output.json {
        output::print_json(&json::pairs(question, outcome, dir))?;
    } else {
        let style = output::style();
        let seconds = started.elapsed().as_secs_f64();
        let mut text = String::new();
        if style.details {
            text += &format!("{}\n", ringfence_report::machine_line(machine, &style));
        }
        text += &ringfence_report::pair(outcome, &style);
        if style.details {
            text.push('\n');
        }
        text += &format!("{seconds:.0} s; datasets: {}\n", pasteable(dir));
        text += &rest(dir, &style);
        output::print(&text)?;
    }
    page::beside_with(dir, flags.output.json, outcome.ended_early.is_some(), || {
        Ok(html::pairs(outcome, &done.digests(machine)))
    })?;
    match &outcome.ended_early {
        None => Ok(()),
        Some(why) if machine.simulated.is_some() => Err(Failure::failed(format!(
            "{why}; what was simulated until then is in {}; start again in a new folder",
            dir.display()
        ))),
        Some(why) => {
            let again = command(&["pair", "--resume"], dir);
            let dir = dir.display();
            let text =
                format!("{why}; what was measured until then is in {dir}; continue with: {again}");
            Err(Error::early(why, text).into())
        }
    }
}
