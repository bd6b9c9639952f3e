//! Commands that run on: an experiment that measures their progress in windows, each command while
//! the others are paused.
//!
//! One role has every command as a variant, and each is an arm of its own, the first one the
//! baseline of the others. So the engine starts all of them anew in each trial, and measures pairs
//! of windows in random order, as for any other experiment.

use std::time::Duration;

use ringfence_experiment::budget::Budget;
use ringfence_experiment::task::{Commands, Tasks};
use ringfence_experiment::units::{Share, Span};
use ringfence_experiment::{Arm, Decide, Experiment, Measure, Role};

use super::question;
use crate::args::VersusFlags as Flags;

const ROLE: &str = "command";

/// Trials at the first look.
const FIRST_LOOK: u32 = 6;

/// The experiment that flags with `--progress` ask for; looks are set by [`looks`].
///
/// # Errors
/// One sentence on what makes no sense, or is about whole runs alone.
pub fn experiment(flags: &Flags, how: &str) -> Result<Experiment, String> {
    refuse_what_is_of_whole_runs(flags)?;
    let commands = question::commands(flags)?;
    let settings = question::settings(flags)?;
    let mut task = Tasks::from(Commands::default().run(commands[0].clone()));
    task.set("unit", &how.into())?;
    let names: Vec<String> = (0..commands.len()).map(ringfence_versus::case::role).collect();
    let arms = commands.iter().zip(&names).enumerate().map(|(number, (command, name))| {
        let mut arm = Arm::new(name, &[ROLE], (number > 0).then_some(names[0].as_str()));
        if number > 0 {
            arm.set.insert(ROLE.into(), Commands::default().run(command.clone()).into());
        }
        arm
    });
    let measure = Measure {
        window: Span::ms(100),
        rounds: 2,
        probe: Span::ms(0),
        margin: Share(settings.margin),
        confidence: Share(1.0 - (1.0 - settings.confidence) / (commands.len() - 1) as f64),
        decide: settings
            .budget
            .map(|budget| Decide::of_each(&names[1..], Budget::Slowdown(Share(budget)))),
        last_look: Some(Share(0.5)),
        time: Some(Span(Duration::from_secs_f64(
            settings.time_s.unwrap_or(ringfence_versus::session::TIME_S),
        ))),
        ..Measure::default()
    };
    Ok(Experiment {
        seed: settings.seed,
        measure,
        roles: vec![Role::new(ROLE, task)],
        arms: arms.collect(),
        ..Experiment::asking("versus", "Which command makes less progress?", ROLE)
    })
}

/// Looks that are fixed in advance; the last one is at as many trials as fit where each takes so
/// long at the least.
pub fn looks(time: Duration, trial: Duration) -> Vec<u32> {
    let most = (time.as_secs_f64() / trial.as_secs_f64().max(1e-3)) as u32;
    let next = |last: &u32| (*last < most).then(|| (last + last / 2).min(most));
    std::iter::successors(Some(FIRST_LOOK), next).collect()
}

fn refuse_what_is_of_whole_runs(flags: &Flags) -> Result<(), String> {
    let given = [
        (
            "parameter",
            !(flags.parameter.is_empty()
                && flags.parameter_list.is_empty()
                && flags.parameter_scan.is_empty()),
        ),
        ("prepare", !flags.prepare.is_empty()),
        ("conclude", !flags.conclude.is_empty()),
        ("setup", !flags.setup.is_empty()),
        ("cleanup", !flags.cleanup.is_empty()),
        ("command-name", !flags.command_name.is_empty()),
        ("ignore-failure", flags.ignore_failure.is_some()),
        ("same-output", flags.same_output),
        ("dir", !flags.dir.is_empty()),
        ("input", flags.input.is_some()),
        ("output", flags.show_output || !flags.output.is_empty()),
        ("warmup", flags.warmup.is_some()),
        ("runs", flags.runs.is_some() || flags.min_runs.is_some() || flags.max_runs.is_some()),
        ("label", flags.label.is_some()),
        ("export-json", !question::exports(flags).is_empty()),
    ];
    match given.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => Err(format!(
            "--{flag} applies to whole runs, and --progress to commands that keep running: leave \
             one of them out"
        )),
    }
}
