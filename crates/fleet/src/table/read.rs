//! The figures of a table, host by host.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ringfence_analysis::estimate::Interval;
use ringfence_dataset::table::{self, Columns, Values};
use ringfence_experiment::Error;

use super::contents::{LeftOut, known, parts};
use crate::attempt;
use crate::error;

use crate::facts::Facts;
use crate::folder::{Engine, Spec};
use crate::status::Task;

/// What a figure is of, the same on every host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Figure {
    /// The experiment: of a study with stages, the stage.
    pub experiment: String,
    /// Its arm.
    pub arm: String,
    /// What sets the case apart, in words.
    pub label: String,
    /// `slowdown` or `cost`.
    pub figure: String,
    /// Of what: the mean time of a unit of work, or a quantile.
    pub quantity: String,
    /// What work is counted in.
    pub unit: String,
}

/// One figure on one host, and why there is none.
#[derive(Debug, Clone, PartialEq)]
pub struct OnHost {
    /// The host, by its place in [`Read::hosts`].
    pub host: usize,
    /// The figure with its interval.
    pub figure: Result<Interval, String>,
    /// The verdict in a word, where there is one.
    pub verdict: Option<String>,
}

/// All figures of a fleet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Read {
    /// What each host is; a host that was measured twice is there twice.
    pub hosts: Vec<Facts>,
    /// The task of each.
    pub tasks: Vec<u32>,
    /// Each figure on each host that has it, in the order of the first host.
    pub figures: Vec<(Figure, Vec<OnHost>)>,
    /// Cases that hosts could not run: on which host, which, and why.
    pub not_run: Vec<(usize, String, String)>,
    /// The described machine, where figures were simulated.
    pub simulated: Option<String>,
    /// Whether these are runs of one machine, one after the other.
    pub one_machine: bool,
    /// Tasks that have figures which cannot be had.
    pub left_out: Vec<LeftOut>,
}

const COLUMNS: [&str; 15] = [
    "experiment",
    "arm",
    "label",
    "figure",
    "quantity",
    "unit",
    "verdict",
    "unknown",
    "simulated",
    "trials",
    "value",
    "low",
    "high",
    "level",
    "spread",
];

/// Reads the table of tasks that were gathered. What of it cannot be read is left out, and said.
///
/// # Errors
/// Where it cannot be listed.
pub fn read(dir: &Path, spec: &Spec, tasks: &[Task]) -> Result<Read, Error> {
    let mut all = Read {
        left_out: known(dir).map(|known| known.left_out).unwrap_or_default(),
        ..Read::default()
    };
    let mut places: BTreeMap<Figure, usize> = BTreeMap::new();
    let parts = parts(dir)?;
    for task in tasks {
        let (Some(attempt), Some(part)) = (task.counting, parts.get(&task.number)) else {
            continue;
        };
        let attempt = attempt::of(dir, task.number, attempt);
        match one(&attempt, part) {
            Ok((facts, columns)) => {
                let host = all.hosts.len();
                all.hosts.push(facts);
                all.tasks.push(task.number);
                add(&mut all, &mut places, host, columns);
            }
            Err(why) => all.left_out.push(LeftOut::new(task, &attempt, &why)),
        }
    }
    let names = all.hosts.iter().map(|host| &host.hostname);
    all.one_machine = spec.engine == Engine::Local && names.collect::<BTreeSet<_>>().len() <= 1;
    Ok(all)
}

fn one(attempt: &Path, part: &Path) -> Result<(Facts, Columns), Error> {
    let facts = Facts::read(attempt)?;
    let columns = table::read(part, &COLUMNS).map_err(error::table("read", part))?;
    Ok((facts, columns))
}

fn add(all: &mut Read, places: &mut BTreeMap<Figure, usize>, host: usize, columns: Columns) {
    let mut columns = columns.into_iter().map(|(_, values)| values);
    let mut text = || match columns.next() {
        Some(Values::Text(values)) => values.into_iter(),
        _ => Vec::new().into_iter(),
    };
    let mut words: [_; 9] = std::array::from_fn(|_| text());
    let trials = match columns.next() {
        Some(Values::Count(values)) => values,
        _ => Vec::new(),
    };
    let mut number = || match columns.next() {
        Some(Values::Number(values)) => values,
        _ => Vec::new(),
    };
    let numbers: [_; 5] = std::array::from_fn(|_| number());
    for (row, trials) in trials.into_iter().enumerate() {
        let [experiment, arm, label, figure, quantity, unit, verdict, unknown, simulated] =
            words.each_mut().map(|column| column.next().flatten());
        if simulated.is_some() {
            all.simulated = simulated;
        }
        let words = |text: Option<String>| text.unwrap_or_default();
        let (label, unknown) = (words(label), words(unknown));
        if figure.as_deref() == Some("not-run") {
            all.not_run.push((host, label, unknown));
            continue;
        }
        let of = Figure {
            experiment: words(experiment),
            arm: words(arm),
            label,
            figure: words(figure),
            quantity: words(quantity),
            unit: words(unit),
        };
        let [value, low, high, level, spread] =
            numbers.each_ref().map(|column| column.get(row).copied().flatten());
        let known = || {
            let (value, low, high) = (value?, low?, high?);
            Some(Interval {
                value,
                low,
                high,
                level: level?,
                trials: trials?,
                spread: spread?,
                slack: 0.0,
            })
        };
        let on_host = OnHost { host, figure: known().ok_or(unknown), verdict };
        let place = *places.entry(of).or_insert_with_key(|of| {
            all.figures.push((of.clone(), Vec::new()));
            all.figures.len() - 1
        });
        all.figures[place].1.push(on_host);
    }
}
