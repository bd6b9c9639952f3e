//! What cases are called in words: a row and a column of a table.

use std::collections::BTreeSet;

use ringfence_analysis::results::CaseResult;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::Task;

use crate::commits::method;
use crate::commits::text::writer;
use crate::text::clean;

/// Parameters whose values say by themselves what they are.
const PLAIN: [&str; 9] =
    ["instruction", "variant", "workload", "width", "target", "pattern", "run", "env", "memory"];

/// Where a case stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    /// The row.
    pub(crate) row: String,
    /// The column; empty where rows alone tell cases apart.
    pub(crate) column: String,
}

impl Name {
    /// Both in one.
    pub(crate) fn whole(&self) -> String {
        match self.column.as_str() {
            "" => self.row.clone(),
            column => format!("{}, {column}", self.row),
        }
    }
}

/// The names of cases that stand in one table.
pub(crate) fn names(plan: &Plan, results: &[&CaseResult]) -> Vec<Name> {
    if by_arm(results) {
        let name = |result: &&CaseResult| Name { row: clean(&result.arm), column: String::new() };
        return results.iter().map(name).collect();
    }
    let arms = results.windows(2).any(|pair| pair[0].arm != pair[1].arm);
    let differs = |(key, value): &(String, String)| {
        let same = |(other, of): &(String, String)| (other, of) == (key, value);
        !results.iter().all(|result| result.params.iter().any(same))
    };
    let name = |result: &&CaseResult| {
        let differ = result.params.iter().filter(|param| results.len() < 2 || differs(param));
        name(plan, result, &differ.cloned().collect::<Vec<_>>(), arms)
    };
    results.iter().map(name).collect()
}

/// Whether each of several cases has its own arm.
pub(crate) fn by_arm(results: &[&CaseResult]) -> bool {
    let arms: BTreeSet<&str> = results.iter().map(|result| result.arm.as_str()).collect();
    results.len() > 1 && arms.len() == results.len()
}

fn name(plan: &Plan, result: &CaseResult, params: &[(String, String)], arms: bool) -> Name {
    let own = result.effect.is_none().then(|| plan.metric_task(result.case));
    let (what, column) = match own {
        Some(Task::Commit(task)) => {
            let others = described(params, &["sync", "io", "layout"]);
            let row = [method::how(task), others].into_iter().filter(|part| !part.is_empty());
            (row.collect::<Vec<_>>().join(", "), method::onto(task.layout).to_owned())
        }
        Some(Task::Write(_)) => {
            let block = params.iter().find(|(key, _)| key.ends_with(".block"));
            let column = block.map_or(String::new(), |(_, value)| format!("{value} blocks"));
            (described(params, &["block"]), column)
        }
        _ => {
            let neighbour = disk_writer(plan, result);
            (neighbour.unwrap_or_else(|| described(params, &[])), String::new())
        }
    };
    let row = match (what.as_str(), arms) {
        ("", _) => result.arm.clone(),
        (what, true) => format!("{}, {what}", result.arm),
        (what, false) => what.to_owned(),
    };
    Name { row: clean(&row), column }
}

// The only neighbour, where it writes to a disk and nothing else tells cases apart.
fn disk_writer(plan: &Plan, result: &CaseResult) -> Option<String> {
    let mut others =
        plan.cases.get(result.case)?.active.iter().filter(|active| active.role != plan.metric);
    let (only, None) = (others.next()?, others.next()) else { return None };
    let role = &plan.experiment.roles[only.role].name;
    let told = ["workload", "io", "pace"].map(|parameter| format!("{role}.{parameter}"));
    let task = &plan.variants[only.role].get(only.variant)?.task;
    let is_told = result.params.iter().all(|(key, _)| told.contains(key));
    (is_told && matches!(task, Task::Dirty(_))).then(|| writer(task, ""))
}

/// Parameters in words, such as `4 x write clwb, size 64MiB`.
pub(crate) fn described(params: &[(String, String)], except: &[&str]) -> String {
    let mut text = String::new();
    for (key, value) in params {
        let (role, parameter) = key.rsplit_once('.').unwrap_or(("", key));
        if except.contains(&parameter) {
            continue;
        }
        let word = match parameter {
            "count" => {
                let workload = format!("{role}.workload");
                let named = params.iter().any(|(other, _)| *other == workload);
                if named { format!("{value} x") } else { format!("{value} x {role}") }
            }
            "block" => format!("{value} blocks"),
            "batch" => format!("{value} records a commit"),
            "record" => format!("records of {value}"),
            "writers" => format!("{value} writers"),
            "instruction" if value == "none" => "plain store".into(),
            plain if PLAIN.contains(&plain) => value.clone(),
            other => format!("{} {value}", other.replace('_', " ")),
        };
        let follows = PLAIN.contains(&parameter) || text.is_empty();
        text += if text.is_empty() {
            ""
        } else if follows {
            " "
        } else {
            ", "
        };
        text += &word;
    }
    text
}
