//! The contents and the place of the gathered table.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::rows::{self, FIGURES};
use crate::attempt;
use crate::error;
use ringfence_experiment::Error;

use crate::status::Task;

pub(super) const TABLE: &str = "table";
const GATHERED: &str = "gathered.json";

/// A gathered table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gathered {
    /// Hosts with rows.
    pub hosts: usize,
    /// Tasks that are in the table, each with the attempt that counts.
    pub tasks: Vec<(u32, u32)>,
    /// Each task's state in a word, by number.
    pub states: Vec<String>,
    /// Tasks that have figures, and are not in the table.
    pub left_out: Vec<LeftOut>,
}

/// A task whose figures cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// Its number.
    pub task: u32,
    /// The node that it ran on.
    pub node: Option<String>,
    /// Why.
    pub reason: String,
}

impl LeftOut {
    pub(super) fn new(task: &Task, attempt: &Path, why: &Error) -> Self {
        let reason = attempt::remedy(attempt, &why.to_string());
        Self { task: task.number, node: task.node.clone(), reason }
    }
}

/// Whether the table is that of these tasks.
pub fn is_current(dir: &Path, tasks: &[Task]) -> bool {
    let counting: Vec<(u32, u32)> =
        tasks.iter().filter_map(|task| Some((task.number, task.counting?))).collect();
    let parts = parts(dir).unwrap_or_default();
    let whole = |(task, number): &(u32, u32)| {
        parts
            .get(task)
            .is_some_and(|part| rows::is_figures_of(&attempt::of(dir, *task, *number), part))
    };
    known(dir).is_some_and(|known| known.tasks == counting && known.states == words(tasks))
        && dir.join(TABLE).is_dir()
        && counting.iter().all(whole)
}

/// The last gathered table.
pub(super) fn known(dir: &Path) -> Option<Gathered> {
    attempt::get(&dir.join(GATHERED)).ok().flatten()
}

/// Each task's state.
pub(super) fn words(tasks: &[Task]) -> Vec<String> {
    tasks.iter().map(|task| task.state.word().to_owned()).collect()
}

/// Stores the contents of the gathered table.
pub(super) fn put(dir: &Path, gathered: &Gathered) -> Result<(), Error> {
    attempt::put(&dir.join(GATHERED), gathered)
}

/// Where each task's figures are.
pub(super) fn parts(dir: &Path) -> Result<BTreeMap<u32, PathBuf>, Error> {
    let list = |dir: &Path| -> Result<Vec<PathBuf>, Error> {
        let entries = fs::read_dir(dir).map_err(error::io("list", dir))?;
        entries.map(|entry| Ok(entry.map_err(error::io("list", dir))?.path())).collect()
    };
    let figures = dir.join(TABLE).join(FIGURES);
    let mut parts = BTreeMap::new();
    if !figures.is_dir() {
        return Ok(parts);
    }
    for host in list(&figures)? {
        for part in list(&host)? {
            let name = part
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            let number = name.strip_prefix("part-").and_then(|name| name.strip_suffix(".parquet"));
            if let Some(number) = number.and_then(|number| number.parse().ok()) {
                parts.insert(number, part);
            }
        }
    }
    Ok(parts)
}
