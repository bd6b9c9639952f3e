//! The tasks that a role may run in an experiment, each with what sets it apart.

use toml::{Table, Value};

use super::axes::{QUOTA, plain};
use super::{Settings, Task};
use crate::experiment::{Arm, Role};
use crate::units::Share;

/// One combination: the task, and what sets it apart from its role's others.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// The task.
    pub task: Task,
    /// The share of a CPU's time that each instance may use; absent: all of it.
    pub quota: Option<Share>,
    /// The parameters that vary, with this variant's values.
    pub varied: Vec<(String, String)>,
    /// The arm that it belongs to; `None` for all arms that set nothing of the role.
    pub arm: Option<String>,
    /// Its number among the variants of that arm: those of two arms with the same number differ
    /// only in what the arms set.
    pub number: usize,
    /// The place of its table in the role's list, from 0.
    pub table: usize,
}

/// All variants of a role: those of its own tables, then those of each arm that sets parameters.
///
/// # Errors
/// One sentence naming the role.
pub fn variants(role: &Role, arms: &[Arm]) -> Result<Vec<Variant>, String> {
    let setters = arms.iter().filter_map(|arm| Some((Some(&arm.name), arm.set.get(&role.name)?)));
    let mut all = Vec::new();
    for (arm, set) in std::iter::once((None, &Settings::default())).chain(setters) {
        let mut number = 0;
        for (table, tasks) in role.task.as_slice().iter().enumerate() {
            let tasks = tasks.with(set).and_then(|tasks| tasks.each());
            for (task, quota) in tasks.map_err(|error| format!("role '{}': {error}", role.name))? {
                let (arm, varied) = (arm.cloned(), Vec::new());
                all.push(Variant { task, quota, varied, arm, number, table });
                number += 1;
            }
        }
    }
    if all.is_empty() {
        return Err(format!("role '{}' has no task: give it one", role.name));
    }
    let varied: Vec<_> = all.iter().map(|variant| sets_apart(variant, &all)).collect();
    for (variant, varied) in all.iter_mut().zip(varied) {
        variant.varied = varied;
    }
    Ok(all)
}

// The parameters in which a variant differs from any other of the same workload, whichever table
// they come from.
fn sets_apart(variant: &Variant, all: &[Variant]) -> Vec<(String, String)> {
    let table = |variant: &Variant| {
        let mut table = Table::try_from(&variant.task).expect("a task is a table by construction");
        table.extend(variant.quota.map(|quota| (QUOTA.into(), Value::String(quota.to_string()))));
        table
    };
    let fellows: Vec<Table> =
        all.iter().filter(|other| other.task.name() == variant.task.name()).map(table).collect();
    let differs =
        |(key, value): &(String, Value)| fellows.iter().any(|other| other.get(key) != Some(value));
    table(variant).into_iter().filter(differs).map(|(key, value)| (key, plain(&value))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Tasks;
    use super::*;

    fn role(text: &str) -> Role {
        Role::new("r", Tasks::parse(&text.parse().unwrap()).unwrap())
    }

    #[test]
    fn lists_combine_with_the_last_fastest() {
        let role = role(
            "workload = 'write'\ninstruction = ['clwb', 'nt']\nblock = ['64B', '4KiB']\nbatch = 1",
        );
        let texts: Vec<String> = variants(&role, &[])
            .unwrap()
            .iter()
            .map(|v| v.varied.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            texts,
            [
                "instruction=clwb block=64B",
                "instruction=clwb block=4KiB",
                "instruction=nt block=64B",
                "instruction=nt block=4KiB"
            ]
        );
    }

    #[test]
    fn a_quota_is_no_part_of_the_task() {
        let variants = variants(&role("workload = 'alu'\nquota = ['50%', '100%']"), &[]).unwrap();
        assert_eq!(variants[0].quota, Some(Share(0.5)));
        assert_eq!(variants[0].task, variants[1].task);
        assert_eq!(variants[1].varied, [("quota".to_string(), "100%".to_string())]);
    }
}
