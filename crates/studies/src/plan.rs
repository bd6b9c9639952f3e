//! Plans of experiments on machines.

use std::path::Path;

use ringfence_engine::available::{self, can_be_started};
use ringfence_engine::program::instructions_are_counted;
use ringfence_experiment::Error;
use ringfence_experiment::Experiment;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::{Command, ProgramUnit, Task, Tasks};
use ringfence_machine::Machine;

use crate::engines::described;
use crate::recordings;

/// The plan of an experiment on a machine: the only place where one is made to be run. What the
/// machine lacks, and what is not simulated, is not run, with the reason, be that all of it.
///
/// # Errors
/// What makes no sense.
pub fn plan(experiment: &Experiment, machine: &Machine) -> Result<Plan, Error> {
    let experiment = &decided(experiment);
    let planned = match described(machine)? {
        Some(description) => {
            let recordings = recordings::read(experiment)?;
            ringfence_simulator::plan_with(&recordings, experiment, &description, machine)
        }
        None => available::plan_for(experiment, machine, &can_be_started),
    };
    planned.map_err(Error::usage_by)
}

/// Refuses a plan of which nothing can be run: an empty table is not a result.
///
/// # Errors
/// A usage error with the reason.
pub fn refuse_nothing(plan: &Plan, machine: &Machine) -> Result<(), Error> {
    match plan.nothing_to_measure() {
        Some(why) => Err(refusal("none of this can", plan, machine, &why)),
        None => Ok(()),
    }
}

/// Refuses a plan of which something cannot be run, for questions that take all of it.
///
/// # Errors
/// A usage error with the first reason.
pub fn refuse_parts(plan: &Plan, machine: &Machine) -> Result<(), Error> {
    match (0..plan.cases.len()).find_map(|case| plan.refusal(case)) {
        Some(why) => Err(refusal("this cannot", plan, machine, why)),
        None => Ok(()),
    }
}

fn refusal(can: &str, plan: &Plan, machine: &Machine, why: &str) -> Error {
    let how = if machine.simulated.is_some() { "simulated" } else { "measured here" };
    let of_a_name = machine.simulated.is_none().then(|| names_are_right(plan).err()).flatten();
    of_a_name.unwrap_or_else(|| Error::usage(format!("{can} be {how}: {why}")))
}

// That the programs of a plan can be started, that processes which should run already do, and that
// files can be created in the folders that are named: of a name that is wrong this says more than
// the reason of a case does.
fn names_are_right(plan: &Plan) -> Result<(), Error> {
    for active in plan.cases.iter().flat_map(|case| &case.active) {
        let task = &plan.variants[active.role][active.variant].task;
        let role = &plan.experiment.roles[active.role].name;
        match task {
            Task::Command(command) => program_is_there(command)?,
            Task::Attached(attached) => {
                if let Some(why) = ringfence_limits::attachment::missing(attached) {
                    return Err(Error::usage(format!("{role}: {why}")));
                }
            }
            _ => {}
        }
        // What the file system accepts is tried out later.
        let Some(dir) = task.works_in() else { continue };
        available::folder_to_write(dir).map_err(|error| {
            Error::usage(format!(
                "{role}: files cannot be created in {}: {error}; name another folder",
                dir.display()
            ))
        })?;
    }
    Ok(())
}

fn program_is_there(command: &Command) -> Result<(), Error> {
    // With a path of its own it is found on that alone.
    let argv = command.argv().filter(|_| !command.env.contains_key("PATH")).unwrap_or_default();
    let Some(program) = argv.first().filter(|program| !can_be_started(program)) else {
        return Ok(());
    };
    Err(Error::usage(match program.contains('/') && Path::new(program).exists() {
        true => format!("'{program}' cannot be started: it is not an executable file"),
        false => available::no_such_program(program),
    }))
}

// The experiment with the unit of a program's work, which is chosen here and stored in the dataset.
fn decided(experiment: &Experiment) -> Experiment {
    let mut experiment = experiment.clone();
    for role in &mut experiment.roles {
        let metric = role.name == experiment.metric;
        for tasks in role.task.as_mut_slice() {
            let Tasks::Command(program) = tasks else { continue };
            // A metric that cannot be seen stays open, and is refused below.
            let open = matches!(program.units(), [] | [ProgramUnit::Auto]);
            if open && (instructions_are_counted() || !metric) {
                let unit = match instructions_are_counted() {
                    true => ProgramUnit::Instructions,
                    false => ProgramUnit::CpuTime,
                };
                *program = std::mem::take(program).unit(unit);
            }
        }
    }
    experiment
}
