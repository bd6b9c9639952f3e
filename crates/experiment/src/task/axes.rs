//! From a table in which any parameter may be a list to one concrete task per combination.

use ringfence_machine::units::Bytes;
use serde::Deserialize;
use toml::{Table, Value};

use super::Task;
use super::text::WORKLOADS;
use crate::units::Share;
use crate::{Arm, Role, nearest};

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

/// Expands a table into its variants, the last list varying fastest, each checked.
///
/// # Errors
/// One sentence naming the parameter, the value and the remedy.
pub fn expand(table: &Table) -> Result<Vec<Variant>, String> {
    let mut combinations: Vec<(Table, Vec<(String, String)>)> = vec![(Table::new(), Vec::new())];
    for (key, value) in table {
        let values = match value {
            Value::Array(list) if list.is_empty() => {
                return Err(format!(
                    "{key} = [] names no value: give at least one, or leave it out"
                ));
            }
            Value::Array(list) => {
                let before = |(place, value): &(usize, &Value)| {
                    list[..*place].iter().any(|one| same(one, value))
                };
                if let Some((_, twice)) = list.iter().enumerate().find(before) {
                    return Err(format!(
                        "{key} names {} twice: give each value once",
                        plain(twice)
                    ));
                }
                list.as_slice()
            }
            single => std::slice::from_ref(single),
        };
        combinations = combinations
            .into_iter()
            .flat_map(|(table, varied)| {
                values.iter().map(move |value| {
                    let (mut table, mut varied) = (table.clone(), varied.clone());
                    table.insert(key.clone(), value.clone());
                    if values.len() > 1 {
                        varied.push((key.clone(), plain(value)));
                    }
                    (table, varied)
                })
            })
            .collect();
        if combinations.len() > 10_000 {
            return Err("the lists combine to more than 10000 cases: shorten some of them".into());
        }
    }
    let variant = |(mut table, varied): (Table, _)| {
        let quota = table.remove(QUOTA).map(|value| quota(&value)).transpose()?;
        Ok(Variant { task: concrete(table)?, quota, varied, arm: None, number: 0, table: 0 })
    };
    combinations.into_iter().map(variant).collect()
}

/// All variants of a role: those of its own tables, then those of each arm that sets parameters.
///
/// # Errors
/// One sentence naming the role.
pub fn of_role(role: &Role, arms: &[Arm]) -> Result<Vec<Variant>, String> {
    let setters = arms.iter().filter_map(|arm| Some((Some(&arm.name), arm.set.get(&role.name)?)));
    let mut all = Vec::new();
    for (arm, set) in std::iter::once((None, &Table::new())).chain(setters) {
        let mut number = 0;
        for (place, table) in role.task.as_slice().iter().enumerate() {
            let mut table = table.clone();
            table.extend(set.clone());
            let expanded =
                expand(&table).map_err(|error| format!("role '{}': {error}", role.name))?;
            for variant in expanded {
                all.push(Variant { arm: arm.cloned(), number, table: place, ..variant });
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

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Table(table) => {
            let word = |(key, value)| format!("{key}={}", plain(value));
            table.iter().map(word).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

/// The parameter that every workload has, which is not part of the task itself: the share of a
/// CPU's time that it may use.
pub const QUOTA: &str = "quota";

fn quota(value: &Value) -> Result<Share, String> {
    let text = plain(value);
    let share: Share = text.parse().map_err(|error| format!("quota: {error}"))?;
    if share.0 < 0.01 || share.0 > 1.0 {
        return Err(format!("quota = {share} must be between 1% and 100% of a CPU"));
    }
    Ok(share)
}

fn concrete(table: Table) -> Result<Task, String> {
    let workload = match table.get("workload") {
        Some(Value::String(name)) => name.clone(),
        Some(_) => return Err("workload must be a name, such as workload = \"write\"".into()),
        None => {
            return Err(format!("workload is missing: it is one of {}", WORKLOADS.join(", ")));
        }
    };
    let task = Task::deserialize(table.clone())
        .map_err(|error| explain(&workload, &table, &error.to_string()))?;
    task.check().map_err(|error| format!("workload {workload}: {error}"))?;
    Ok(task)
}

// An internally tagged enum is read from a buffer, so the library's message has no key; trying the
// parameters one by one finds the one it is about.
fn explain(workload: &str, table: &Table, message: &str) -> String {
    if message.contains("unknown variant") && message.contains(&format!("`{workload}`")) {
        return format!("workload: {}", nearest::improve(message));
    }
    for (key, value) in table.iter().filter(|(key, _)| *key != "workload") {
        let refused = |value: Value| {
            let named = ("workload".into(), Value::String(workload.into()));
            let error = Task::deserialize(Table::from_iter([named, (key.clone(), value)]))
                .err()?
                .to_string();
            // A parameter of its own is refused with its own reason, not for what else is missing.
            (!error.contains("missing field")).then_some(error)
        };
        let Some(mut error) = refused(value.clone()) else { continue };
        // `pace = 50`: what a text of it would be refused for says what is expected.
        if error.contains("expected a string") {
            error = refused(Value::String(plain(value))).unwrap_or(error);
        }
        let about_key = error.contains(&format!("`{key}`"));
        let error = nearest::improve(error.trim());
        return match about_key {
            true => format!("workload {workload}: {error}"),
            false => format!("workload {workload}: {key} = {}: {error}", plain(value)),
        };
    }
    format!("workload {workload}: {}", nearest::improve(message))
}

// Whether two values are one, however they are written: 4KiB and 4096.
fn same(one: &Value, other: &Value) -> bool {
    let bytes = |value: &Value| plain(value).parse::<Bytes>().ok();
    plain(one) == plain(other) || bytes(one).is_some_and(|one| Some(one) == bytes(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        text.parse().unwrap()
    }

    #[test]
    fn lists_combine_with_the_last_fastest() {
        let variants = expand(&table(
            "workload = 'write'\ninstruction = ['clwb', 'nt']\nblock = ['64B', '4KiB']\nbatch = 1",
        ))
        .unwrap();
        let texts: Vec<String> = variants
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
        let variants = expand(&table("workload = 'alu'\nquota = ['50%', '100%']")).unwrap();
        assert_eq!(variants[0].quota, Some(Share(0.5)));
        assert_eq!(variants[0].task, variants[1].task);
        assert_eq!(variants[1].varied, [("quota".to_string(), "100%".to_string())]);
    }

    #[test]
    fn mistakes_are_named_with_the_nearest_right_word() {
        let cases = [
            ("block = '4KiB'", "workload is missing"),
            ("workload = 'wirte'", "did you mean 'write'"),
            ("workload = 'write'\ninstrution = 'clwb'", "did you mean 'instruction'"),
            ("workload = 'write'\ninstruction = 'clwbb'", "did you mean 'clwb'"),
            ("workload = 'write'\nblock = 'big'", "'big' is not a size"),
            ("workload = 'write'\nblock = []", "names no value"),
            ("workload = 'write'\nblock = 65", "multiple of 64B"),
            (
                "workload = 'write'\nbatch = -1",
                "batch = -1: '-1' is not a whole number of 0 or more",
            ),
            ("workload = 'write'\ntarget = 'disk'", "is not a target"),
            ("workload = 'write'\npace = 'fast'", "pace = fast: 'fast' is not a rate"),
            (
                "workload = 'write'\npace = 50",
                "pace = 50: '50' is not a rate: write a size per second, such as 50MiB/s",
            ),
            (
                "workload = 'chase'\nhistogram = 'maybe'",
                "histogram = maybe: 'maybe' is not true or false",
            ),
            ("workload = 'dirty'\nio = 5", "io = 5: '5' is not one of buffered, wait, "),
            (
                "workload = 'dirty'\nio = ['wait', 'wait']",
                "io names wait twice: give each value once",
            ),
            ("workload = 'write'\nblock = ['4KiB', 4096]", "block names 4096 twice"),
            ("workload = 'chase'\nfootprint = '1B'", "too small"),
            ("workload = 'read'\naccess = '8B'", "must be 16B, 32B or 64B"),
            ("workload = 'read'\nmemory = '/dev/pseudo_lock/a'", "is not memory to read"),
            ("workload = 'read'\nflush = 'clflsh'", "did you mean 'clflush'"),
            ("workload = 'ring'\nvariant = 'optimized'", "did you mean 'optimised'"),
            ("workload = 'ring'\nsize = '512B'", "too small for entry"),
            ("workload = 'ring'\nvariant = 'naive'\nbatch = 2", "only with variant"),
            ("workload = 'command'", "'run' is missing"),
            ("workload = 'command'\nrun = \"a 'b\"", "unclosed quote"),
            ("workload = 'command'\nrun = ''", "run is empty"),
            ("workload = 7", "must be a name"),
            ("workload = 'alu'\nquota = '0%'", "between 1% and 100%"),
            ("workload = 'alu'\nquota = 'half'", "quota: 'half' is not"),
            ("workload = 'command'\nrun = 'x'\nenv = { 'A=B' = '1' }", "cannot be the name"),
            ("workload = 'command'\nrun = 'x'\nwarm_up = '11min'", "at most 10min"),
        ];
        for (text, part) in cases {
            let error = expand(&table(text)).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains('\n'), "one sentence: {error}");
        }
    }
}
