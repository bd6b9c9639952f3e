//! The part of an experiment of which something was published, which is all that a simulation
//! needs.

use ringfence_experiment::task::Tasks;
use ringfence_experiment::{Arm, Experiment, Role};
use toml::Value;

use super::Alternative;
use crate::reproduce::Published;

/// The arms and parameters that published cases name, with the baselines of these arms; changed as
/// another reading has it, if one is given.
///
/// # Errors
/// Where the reading changes a role that is not there.
pub fn part(
    experiment: &Experiment,
    published: &[&Published],
    alternative: Option<&Alternative>,
) -> Result<Experiment, String> {
    let cases: Vec<&str> = published
        .iter()
        .flat_map(|row| [Some(row.case.as_str()), row.against.as_deref()])
        .flatten()
        .collect();
    let mut part = experiment.clone();
    part.arms = arms(experiment, &cases);
    for role in &mut part.roles {
        keep_named(role, &cases);
    }
    for (name, set) in alternative.iter().flat_map(|alternative| &alternative.set) {
        let role = part.roles.iter_mut().find(|role| role.name == *name);
        let role = role.ok_or_else(|| format!("{} has no role '{name}'", experiment.name))?;
        for tasks in role.task.as_mut_slice() {
            *tasks = tasks.with(set)?;
        }
    }
    part.check().map_err(|error| error.to_string())?;
    Ok(part)
}

fn arms(experiment: &Experiment, cases: &[&str]) -> Vec<Arm> {
    let named =
        |arm: &Arm| cases.iter().any(|case| case.split("; ").next() == Some(arm.name.as_str()));
    let mut wanted: Vec<&str> =
        experiment.arms.iter().filter(|arm| named(arm)).map(|arm| arm.name.as_str()).collect();
    loop {
        let is_wanted = |arm: &&Arm| wanted.contains(&arm.name.as_str());
        let baselines =
            experiment.arms.iter().filter(is_wanted).filter_map(|arm| arm.baseline.as_deref());
        let Some(missing) = baselines.into_iter().find(|name| !wanted.contains(name)) else {
            break;
        };
        wanted.push(missing);
    }
    experiment.arms.iter().filter(|arm| wanted.contains(&arm.name.as_str())).cloned().collect()
}

// Of the parameters that cases name, the values that they name.
fn keep_named(role: &mut Role, cases: &[&str]) {
    let named = |key: &str| -> Vec<&str> {
        let prefix = format!("{}.{key}=", role.name);
        cases
            .iter()
            .flat_map(|case| case.split("; "))
            .filter_map(|part| part.strip_prefix(&prefix))
            .collect()
    };
    let is = |value: &Value, names: &[&str]| match value {
        Value::String(text) => names.contains(&text.as_str()),
        other => names.contains(&other.to_string().as_str()),
    };
    let kept = |tasks: &Tasks| -> Option<Tasks> {
        let mut kept = tasks.written().clone();
        for (key, value) in kept.iter_mut() {
            let names = named(key);
            if names.is_empty() {
                continue;
            }
            if let Value::Array(list) = value {
                list.retain(|one| is(one, &names));
                if list.is_empty() {
                    return None;
                }
            } else if !is(value, &names) {
                return None;
            }
        }
        Some(Tasks::parse(&kept).expect("some of the same values"))
    };
    let tasks: Vec<Tasks> = role.task.as_slice().iter().filter_map(kept).collect();
    if !tasks.is_empty() {
        role.task = tasks.into();
    }
}
