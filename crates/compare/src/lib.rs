//! One experiment measured twice, on two machines, kernels or days: what differs, cell by cell.
//!
//! A cell is a case that both datasets have. Where cases have a baseline, their slowdowns are compared,
//! else their costs; the change is `after / before` of that figure, with Welch's interval over the trials
//! of both. All cells' intervals hold together: the error allowed is divided by their number, and by the
//! looks at which either dataset might have stopped.

mod cells;
mod comparison;
mod settings;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ringfence_dataset::Dataset;
use ringfence_experiment::{Experiment, Measure};

pub use comparison::{Cell, CompareError, Comparison, Figure, Missing, Side, Trials};
pub use settings::Difference;

/// Compares two datasets.
///
/// # Errors
/// Where they are not of one experiment, or have no case in common that was measured in both.
pub fn compare(before: &Dataset, after: &Dataset) -> Result<Comparison, CompareError> {
    compare_as(before, after, Trials::Apart)
}

/// Compares two datasets whose trials belong together, or not.
///
/// # Errors
/// As [`compare`].
pub fn compare_as(before: &Dataset, after: &Dataset, trials: Trials) -> Result<Comparison, CompareError> {
    let simulated = |dataset: &Dataset| dataset.samples.iter().any(|sample| sample.simulated == Some(true));
    if simulated(before) != simulated(after) {
        return Err(CompareError("these cannot be compared: one was simulated, the other measured".into()));
    }
    same_question(&before.plan.experiment, &after.plan.experiment).map_err(CompareError)?;
    let (one, other) = (&before.plan.experiment.measure, &after.plan.experiment.measure);
    let confidence = one.confidence.0.max(other.confidence.0);
    let margin = one.margin.0.max(other.margin.0);
    let looks = looks(one) * looks(other);
    let matched = cells::matched(&before.plan, &after.plan);
    if matched.is_empty() {
        return Err(CompareError(cells::why_nothing_matches(&before.plan, &after.plan)));
    }
    let figures = cells::figures(&before.plan, &after.plan, &matched, trials);
    let level = 1.0 - (1.0 - confidence) / (figures.len() * looks) as f64;
    let cells = cells::cells(before, after, &figures, trials, (confidence, level, margin));
    let missing = cells::missing(&before.plan, &after.plan);
    Ok(Comparison {
        name: before.manifest.name.clone(),
        question: before.manifest.question.clone(),
        simulated: simulated(before),
        differences: settings::differences(before, after),
        cells,
        missing,
        confidence,
        level,
        looks,
        margin,
    })
}

// How many looks there are at which an experiment might end for what it has seen.
fn looks(measure: &Measure) -> usize {
    if measure.precision.is_some() { measure.looks.len() } else { 1 }
}

// Tasks and arms are looked at case by case; the rest must be the same for any.
fn same_question(one: &Experiment, other: &Experiment) -> Result<(), String> {
    if one.metric != other.metric {
        return Err(format!(
            "these cannot be compared: one measures the rate of '{}', the other that of '{}'",
            one.metric, other.metric
        ));
    }
    let (a, b) = (&one.measure, &other.measure);
    if a.quantity != b.quantity {
        return Err(format!(
            "these cannot be compared: one is about the {} of latencies, the other about the {}; measure one again with the \
             other's experiment.toml",
            a.quantity, b.quantity
        ));
    }
    for (what, a, b) in [("windows", a.length(), b.length()), ("settling times", a.settle, b.settle)] {
        if a != b {
            return Err(format!(
                "these cannot be compared: their {what} differ, {a} and {b}; measure one again with the other's experiment.toml"
            ));
        }
    }
    match (one.aa.is_some(), other.aa.is_some()) {
        (true, false) | (false, true) => Err(
            "these cannot be compared: one asks how often an effect is seen that is not there, the other does not"
                .into(),
        ),
        _ => Ok(()),
    }
}

/// What there is to compare in two folders, each with the name by which they were matched (empty for two
/// datasets).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// The folder's name below both.
    pub name: String,
    /// The first dataset.
    pub before: PathBuf,
    /// The second.
    pub after: PathBuf,
}

/// The datasets of two folders, matched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matched {
    /// Those that both have.
    pub both: Vec<Match>,
    /// Names that only one has, with the side that lacks it.
    pub alone: Vec<(Side, String)>,
}

/// Matches the datasets of two folders as [`ringfence_dataset::list`] gives them: two datasets with each
/// other, those of two surveys by the names of their folders.
///
/// # Errors
/// For a dataset and a survey, and for surveys without a common name.
pub fn match_folders(
    (before_dir, before): (&Path, &[PathBuf]),
    (after_dir, after): (&Path, &[PathBuf]),
) -> Result<Matched, CompareError> {
    let is_one = |dir: &Path, found: &[PathBuf]| found == [dir];
    match (is_one(before_dir, before), is_one(after_dir, after)) {
        (true, true) => {
            let only = Match { name: String::new(), before: before_dir.into(), after: after_dir.into() };
            return Ok(Matched { both: vec![only], alone: Vec::new() });
        }
        (false, false) => {}
        (one, _) => {
            let (dataset, folder) = if one { (before_dir, after_dir) } else { (after_dir, before_dir) };
            return Err(CompareError(format!(
                "{} is one dataset and {} holds several: name one of these",
                dataset.display(),
                folder.display()
            )));
        }
    }
    let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let by_name: BTreeMap<String, &PathBuf> =
        after.iter().filter_map(|path| Some((name(path)?, path))).collect();
    let mut matches = Vec::new();
    let mut alone = Vec::new();
    for path in before {
        let name = name(path).unwrap_or_default();
        match by_name.get(&name) {
            Some(other) => {
                matches.push(Match { name, before: path.clone(), after: (*other).clone() });
            }
            None => alone.push((Side::After, name)),
        }
    }
    let known: Vec<String> = before.iter().filter_map(name).collect();
    alone.extend(by_name.into_keys().filter(|name| !known.contains(name)).map(|name| (Side::Before, name)));
    if matches.is_empty() {
        return Err(CompareError(format!(
            "{} and {} have no dataset of the same name: name two datasets",
            before_dir.display(),
            after_dir.display()
        )));
    }
    Ok(Matched { both: matches, alone })
}

#[cfg(test)]
#[path = "../tests/inside/compare.rs"]
mod tests;
