//! What sets cases apart: a column for each parameter that varied.

use ringfence_analysis::results::CaseResult;
use ringfence_experiment::plan::Plan;

use crate::table::{Cell, Column};

/// The narrowest that a label is wrapped to.
const NARROWEST_LABEL: usize = 10;

/// The columns in front of the figures.
pub(crate) struct Labels {
    arm: bool,
    /// (role.parameter, what the column is headed).
    keys: Vec<(String, String)>,
    /// One column for all of it, with the plan's own words.
    merged: bool,
}

impl Labels {
    /// The arm where it differs or where nothing else does, and each parameter in the order in
    /// which it turns up. The role is left out of the head where that leaves no ambiguity.
    pub(crate) fn of(results: &[&CaseResult]) -> Self {
        let mut keys: Vec<&str> = Vec::new();
        for (key, _) in results.iter().flat_map(|result| &result.params) {
            if !keys.contains(&key.as_str()) {
                keys.push(key);
            }
        }
        let short =
            |key: &'_ str| key.rsplit_once('.').map_or(key, |(_, parameter)| parameter).to_string();
        let head = |key: &&str| {
            let unique = keys.iter().filter(|other| short(other) == short(key)).count() == 1;
            if unique { short(key) } else { key.to_string() }
        };
        let arms = results.windows(2).any(|pair| pair[0].arm != pair[1].arm);
        Self {
            arm: arms || keys.is_empty(),
            keys: keys.iter().map(|key| (key.to_string(), head(key))).collect(),
            merged: false,
        }
    }

    /// The same in one column, for where there is little room: `clwb block=4KiB`.
    pub(crate) fn merged(&self) -> Self {
        Self { arm: self.arm, keys: self.keys.clone(), merged: true }
    }

    pub(crate) fn columns(&self) -> Vec<Column> {
        if self.merged {
            return vec![Column::text("case", 2 * NARROWEST_LABEL)];
        }
        let arm = self.arm.then_some("arm");
        let heads = arm.into_iter().chain(self.keys.iter().map(|(_, head)| head.as_str()));
        heads.map(|head| Column::text(head, NARROWEST_LABEL)).collect()
    }

    pub(crate) fn cells(&self, result: &CaseResult) -> Vec<Cell> {
        if self.merged {
            let arm = (self.arm || result.label.is_empty()).then_some(result.arm.as_str());
            let words: Vec<&str> = arm.into_iter().chain([result.label.as_str()]).collect();
            return vec![Cell::new(words.join(" ").trim_end())];
        }
        let arm = self.arm.then(|| Cell::new(&result.arm));
        let values =
            self.keys.iter().map(|(key, _)| Cell::new(value(result, key).unwrap_or_default()));
        arm.into_iter().chain(values).collect()
    }

    /// The same in a line: `beside, instruction clwb, block 4KiB`.
    pub(crate) fn line(&self, result: &CaseResult) -> String {
        let arm = self.arm.then(|| result.arm.clone());
        let values = self
            .keys
            .iter()
            .filter_map(|(key, head)| Some(format!("{head} {}", value(result, key)?)));
        arm.into_iter().chain(values).collect::<Vec<_>>().join(", ")
    }
}

fn value<'a>(result: &'a CaseResult, key: &str) -> Option<&'a str> {
    result.params.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
}

/// A case in a few words: its label; its arm where it has none, or where all of several arms are
/// one case each, so that their names tell them apart.
pub(crate) fn words(plan: &Plan, case: usize) -> String {
    let Some(case) = plan.cases.get(case) else { return format!("case {case}") };
    let arms = plan.experiment.arms.len();
    let named = arms > 2 && plan.cases.len() == arms;
    if case.label.is_empty() || named { case.arm.clone() } else { case.label.clone() }
}

/// A unit in the singular.
pub(crate) fn one(unit: &str) -> &str {
    match unit {
        "arcs priced" => "arc priced",
        "entries" => "entry",
        "instructions or ns of CPU time" => "instruction or ns of CPU time",
        "ns of CPU time" | "none" => unit,
        plural => plural.strip_suffix('s').unwrap_or(plural),
    }
}
