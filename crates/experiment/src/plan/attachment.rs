//! Running processes as a part of an experiment: they get no CPU from this program, and are paused
//! only for windows.

use super::episodes::is_whole_run;
use crate::experiment::Freezing;
use crate::task::Task;
use crate::task::Variant;
use crate::{Experiment, Limit, Role};

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
                "'{name}' is a running process, whose speed is not visible from outside: query it, \
                 with --victim 'probe:redis://HOST of=pid:N', or in a file task = {{ workload = \
                 \"probe\", ask = \"redis://HOST\", of = \"pid:N\" }}"
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
    for arm in &experiment.arms {
        for limit in arm.limits_of(name) {
            if let Some(instead) = limit.instead_if_started() {
                return Err(format!(
                    "arm '{}': {} is for running processes, and '{name}' is started: {instead}",
                    arm.name,
                    limit.key()
                ));
            }
        }
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
    let freezing = experiment.measure.freezing.unwrap_or_default();
    let limits = experiment
        .arms
        .iter()
        .flat_map(|arm| arm.limits_of(name).iter().map(move |limit| (&arm.name, limit)));
    for (arm, limit) in limits {
        if !limit.is_for_running() {
            return Err(format!(
                "arm '{arm}': {} names '{name}', a running process, to which it cannot be \
                 applied: use {}",
                limit.key(),
                Limit::OF_RUNNING
            ));
        }
        if let Limit::Frozen(share) = limit
            && share.0 > freezing.share.0
        {
            return Err(format!(
                "arm '{arm}': frozen = {share} exceeds the allowed share of time for pauses of \
                 '{name}', which is {}: allow more (freezing, --frozen-share), or pause it less",
                freezing.share
            ));
        }
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

// Whether some arm runs without it.
fn is_paused(experiment: &Experiment, name: &String) -> bool {
    experiment.arms.iter().any(|arm| !arm.active.contains(name))
}
