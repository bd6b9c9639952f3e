//! Running processes as a part of an experiment: they get no CPU from this program, and are paused
//! only for windows.

use super::episodes::is_whole_run;
use crate::experiment::Freezing;
use crate::task::Task;
use crate::task::Variant;
use crate::{Arm, Experiment, Role};

/// The number of instances of a role to place; none for running processes.
pub fn instances(role: &Role, variants: &[Variant]) -> u32 {
    match variants.iter().all(|variant| variant.task.is_attached()) {
        true => 0,
        false => role.count.as_slice().iter().copied().max().unwrap_or(1),
    }
}

/// Refuses what cannot be done with running processes.
///
/// # Errors
/// One sentence with the remedy.
pub fn check(
    experiment: &Experiment,
    variants: &[Vec<Variant>],
    metric: usize,
) -> Result<(), String> {
    let of_metric = &variants[metric];
    for (number, (role, variants)) in experiment.roles.iter().zip(variants).enumerate() {
        let attached = variants.iter().filter(|variant| variant.task.is_attached()).count();
        let name = &role.name;
        if attached == 0 {
            check_started(experiment, name)?;
            continue;
        }
        if attached < variants.len() {
            return Err(format!(
                "role '{name}' is attached in some cases and started in others: make two roles of \
                 it"
            ));
        }
        if number == metric {
            return Err(format!(
                "'{name}' is a running process, whose speed is not visible from outside: make a \
                 probe of it the metric, as in task = {{ workload = \"probe\", ask = \
                 \"tcp://127.0.0.1:6379\", of = \"pid:N\" }}"
            ));
        }
        check_single(role, variants)?;
        check_arms(experiment, name)?;
        if role.cpus.is_some() || role.placement.is_some() {
            return Err(format!(
                "role '{name}' is a running process and stays on its CPUs: leave out cpus and \
                 placement"
            ));
        }
        check_pauses(experiment, name, of_metric)?;
    }
    Ok(())
}

// A role that is started.
fn check_started(experiment: &Experiment, name: &str) -> Result<(), String> {
    if let Some((arm, table, instead)) =
        experiment.arms.iter().find_map(|arm| for_attached_only(arm, name))
    {
        return Err(format!(
            "arm '{arm}': {table} is for running processes, and '{name}' is started: {instead}"
        ));
    }
    Ok(())
}

// A role of running processes has one instance.
fn check_single(role: &Role, variants: &[Variant]) -> Result<(), String> {
    let name = &role.name;
    if role.count.as_slice() != [1] {
        return Err(format!(
            "role '{name}' is running already, and there is only one of it: leave out count"
        ));
    }
    let targets = variants.iter().filter_map(|variant| match &variant.task {
        Task::Attached(attached) => Some(attached),
        _ => None,
    });
    let mut targets = targets.collect::<Vec<_>>();
    targets.dedup();
    if targets.len() > 1 {
        return Err(format!(
            "role '{name}' is running already, and there is only one of it: make a role of each \
             that it names"
        ));
    }
    Ok(())
}

// What arms ask of running processes.
fn check_arms(experiment: &Experiment, name: &str) -> Result<(), String> {
    if let Some((arm, table)) =
        experiment.arms.iter().find_map(|arm| Some((arm, not_limited_by(arm, name)?)))
    {
        return Err(format!(
            "arm '{}': {table} names '{name}', a running process, to which it cannot be applied: \
             use quota, cpu_weight, cpuset or disk_write",
            arm.name
        ));
    }
    let freezing = experiment.measure.freezing.unwrap_or_default();
    let share =
        |arm: &Arm| arm.frozen.get(name).filter(|share| share.0 > freezing.share.0).copied();
    if let Some((arm, share)) =
        experiment.arms.iter().find_map(|arm| Some((&arm.name, share(arm)?)))
    {
        return Err(format!(
            "arm '{arm}': frozen = {share} exceeds the allowed share of time for pauses of \
             '{name}', which is {}: allow more (freezing, --frozen-share), or pause it less",
            freezing.share
        ));
    }
    Ok(())
}

// Whether what is measured fits into the pauses of running processes.
fn check_pauses(
    experiment: &Experiment,
    name: &String,
    variants_of_metric: &[Variant],
) -> Result<(), String> {
    let freezing = experiment.measure.freezing.unwrap_or_default();
    if experiment.measure.episode.is_some() {
        return Err(format!(
            "role '{name}' is a running process, which can only be paused briefly, and an episode \
             lasts longer: use windows"
        ));
    }
    if variants_of_metric.iter().any(|variant| is_whole_run(&variant.task)) {
        return Err(format!(
            "role '{name}' is a running process, which can only be paused briefly, and a run of \
             '{}' lasts longer: use another kind of progress (--victim-progress), or query it \
             (--victim probe:SERVICE)",
            experiment.metric
        ));
    }
    let window = experiment.measure.window;
    if is_paused(experiment, name) && window > freezing.longest_window() {
        let least =
            variants_of_metric.iter().filter_map(|variant| variant.task.least_window()).max();
        let is_probe = variants_of_metric.iter().any(|one| matches!(one.task, Task::Probe(_)));
        let longer =
            format!("allow a longer pause (--longest-freeze {})", Freezing::for_window(window));
        let instead = match least.filter(|least| *least > freezing.longest_window()) {
            // So long to hold some answers.
            Some(_) if is_probe => format!("send more requests (rate= of the probe), or {longer}"),
            Some(_) => longer,
            None => format!("use {} at most, or {longer}", freezing.longest_window()),
        };
        return Err(format!(
            "window = {window} does not fit into the longest pause of '{name}', which is {}: \
             {instead}",
            freezing.longest,
        ));
    }
    Ok(())
}

// A table of an arm that names this role and works only for running processes, and what to use
// instead.
fn for_attached_only<'a>(
    arm: &'a Arm,
    role: &str,
) -> Option<(&'a str, &'static str, &'static str)> {
    let tables = [
        ("cpuset", arm.cpuset.contains_key(role), "make a role of it with other cpus"),
        ("frozen", arm.frozen.contains_key(role), "give it a quota"),
    ];
    let (table, _, instead) = tables.into_iter().find(|(_, named, _)| *named)?;
    Some((&arm.name, table, instead))
}

// A table of an arm that names this role and works only for tasks that this program starts.
fn not_limited_by(arm: &Arm, role: &str) -> Option<&'static str> {
    let tables = [
        ("disk_weight", arm.disk_weight.contains_key(role)),
        ("memory_high", arm.memory_high.contains_key(role)),
        ("io_priority", arm.io_priority.contains_key(role)),
    ];
    tables.into_iter().find_map(|(table, named)| named.then_some(table))
}

// Whether some arm runs without it.
fn is_paused(experiment: &Experiment, name: &String) -> bool {
    experiment.arms.iter().any(|arm| !arm.active.contains(name))
}
