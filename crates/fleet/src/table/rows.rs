//! What an attempt adds to the table: a row for each figure, and its samples with what the host is beside them.
//!
//! They are made where the task ran, when it ends: a thousand hosts have a thousand times the time for it.

use std::fs::File;
use std::path::{Path, PathBuf};

use ringfence_analysis::estimate::{Estimate, Finding};
use ringfence_analysis::results::{self, CaseResult};
use ringfence_dataset::Dataset;
use ringfence_machine::Machine;
use ringfence_sysfs::checksum;
use serde::{Deserialize, Serialize};

use super::columns::{self, Columns, Values};
use super::samples;
use crate::attempt::{self, DATA};
use crate::error::FleetError;
use crate::facts::{Fact, Facts};

pub const FIGURES: &str = "figures";
const SAMPLES: &str = "samples";
const ROWS: &str = "rows";
const WRITTEN: &str = "written.json";

/// The version of the columns. Hosts of one table all have the same.
const LAYOUT: u32 = 1;

/// What an attempt's rows are: with this the folder is complete.
#[derive(Serialize, Deserialize)]
struct Written {
    layout: u32,
    tables: Vec<Part>,
}

/// A table of it, as it was written.
#[derive(Serialize, Deserialize)]
struct Part {
    table: String,
    bytes: u64,
    xxh64: String,
}

impl Part {
    fn of(rows: &Path, table: &str) -> Result<Self, FleetError> {
        let path = rows.join(file(table));
        let sum = File::open(&path).and_then(|mut file| checksum::of(&mut file));
        let checksum::Checksum { bytes, xxh64 } = sum.map_err(FleetError::io("read", &path))?;
        Ok(Self { table: table.into(), bytes, xxh64 })
    }

    fn check(&self, path: &Path) -> Result<(), FleetError> {
        let sum = File::open(path).and_then(|mut file| checksum::of(&mut file));
        let sum = sum.map_err(FleetError::io("read", path))?;
        if (sum.bytes, &sum.xxh64) == (self.bytes, &self.xxh64) {
            return Ok(());
        }
        let path = path.display();
        Err(FleetError::Failed(format!("{path} is damaged: it is not as it was written")))
    }
}

/// The file of a table.
pub fn file(table: &str) -> String {
    format!("{table}.parquet")
}

/// The tables that an attempt's rows are, all as they were written.
///
/// # Errors
/// One that is not, or none.
pub fn tables(attempt: &Path) -> Result<Vec<String>, FleetError> {
    let rows = folder(attempt);
    let Written { tables, .. } = written(&rows)?;
    tables.iter().try_for_each(|part| part.check(&rows.join(file(&part.table))))?;
    Ok(tables.into_iter().map(|part| part.table).collect())
}

/// Whether a file of the gathered table is an attempt's figures as they were written.
pub fn is_figures_of(attempt: &Path, path: &Path) -> bool {
    let written = written(&folder(attempt));
    let part = written.ok().and_then(|all| all.tables.into_iter().find(|part| part.table == FIGURES));
    part.is_some_and(|part| part.check(path).is_ok())
}

fn written(rows: &Path) -> Result<Written, FleetError> {
    let path = rows.join(WRITTEN);
    let written: Option<Written> = attempt::get(&path)?;
    written.filter(|written| written.layout == LAYOUT).ok_or_else(|| {
        FleetError::Failed(format!("{}: there are no rows that this version wrote", path.display()))
    })
}

/// The folder of an attempt's rows.
pub fn folder(attempt: &Path) -> PathBuf {
    attempt.join(ROWS)
}

/// Makes the rows of an attempt from its datasets.
pub fn write(attempt: &Path, facts: &Facts, task: u32, number: u32) -> Result<(), FleetError> {
    let data = attempt.join(DATA);
    let dir = folder(attempt);
    std::fs::create_dir_all(&dir).map_err(FleetError::io("make", &dir))?;
    let listed = ringfence_dataset::list(&data)?;
    let mut figures = Figures::default();
    let mut sources = Vec::new();
    for path in listed {
        let dataset = Dataset::open(&path)?;
        let own = path.file_name().filter(|_| path != data).map(|name| name.to_string_lossy().into_owned());
        let experiment = own.unwrap_or_else(|| dataset.plan.experiment.name.clone());
        let machine = serde_json::from_value::<Machine>(dataset.machine.clone()).ok();
        let simulated = machine.and_then(|machine| machine.simulated).map(|described| described.name);
        figures.add(&experiment, simulated.as_deref(), &dataset);
        sources.push(samples::Source { dir: path, experiment });
    }
    let beside = |rows: usize| beside(facts, task, number, rows);
    let mut table = beside(figures.rows());
    table.extend(figures.into_columns());
    columns::write(&dir.join(file(FIGURES)), &table)?;
    samples::write(&dir.join(file(SAMPLES)), &sources, &beside)?;
    let tables = [FIGURES, SAMPLES].map(|table| Part::of(&dir, table));
    let tables = tables.into_iter().collect::<Result<_, _>>()?;
    attempt::put(&dir.join(WRITTEN), &Written { layout: LAYOUT, tables })
}

// What stands in every row of a host.
fn beside(facts: &Facts, task: u32, attempt: u32, rows: usize) -> Columns {
    let number = |number: u32| Values::Count(vec![Some(number); rows]);
    let own =
        facts.columns().into_iter().map(|(name, fact): (_, Fact)| (name, Values::repeated(&fact, rows)));
    own.chain([("task", number(task)), ("attempt", number(attempt))]).collect()
}

/// Rows of figures, column by column.
#[derive(Default)]
struct Figures {
    text: [Vec<Option<String>>; 9],
    counts: [Vec<Option<u32>>; 2],
    numbers: [Vec<Option<f64>>; 5],
}

struct Row<'a> {
    of: &'a Of<'a>,
    arm: &'a str,
    label: &'a str,
    case: Option<u32>,
    figure: &'a str,
    unit: Option<&'a str>,
    estimate: Result<&'a Estimate, &'a str>,
    verdict: Option<&'a str>,
}

// What all rows of a dataset have.
struct Of<'a> {
    experiment: &'a str,
    quantity: String,
    simulated: Option<&'a str>,
}

impl Figures {
    const TEXT: [&'static str; 9] =
        ["experiment", "arm", "label", "figure", "quantity", "unit", "verdict", "unknown", "simulated"];
    const COUNTS: [&'static str; 2] = ["case", "trials"];
    const NUMBERS: [&'static str; 5] = ["value", "low", "high", "level", "spread"];

    fn rows(&self) -> usize {
        self.counts[0].len()
    }

    fn add(&mut self, experiment: &str, simulated: Option<&str>, dataset: &Dataset) {
        let plan = &dataset.plan;
        let level = results::level(plan, &dataset.samples);
        let quantity = plan.experiment.measure.quantity.to_string();
        let of = Of { experiment, quantity, simulated };
        for result in results::results(plan, &dataset.samples, level) {
            let CaseResult { case, arm, label, unit, ns_per_unit, effect, .. } = &result;
            let case = u32::try_from(*case).ok();
            let row = |figure, estimate, verdict| Row {
                of: &of,
                arm,
                label,
                case,
                figure,
                unit: Some(unit),
                estimate: Ok(estimate),
                verdict,
            };
            self.push(&row("cost", ns_per_unit, None));
            if let Some(effect) = effect {
                let Finding { verdict, .. } = &effect.finding;
                self.push(&row("slowdown", &effect.by_class.all.slowdown, Some(verdict.word())));
            }
        }
        for not_run in &plan.not_run {
            let case = &plan.cases[not_run.case];
            self.push(&Row {
                of: &of,
                arm: &case.arm,
                label: &case.label,
                case: u32::try_from(not_run.case).ok(),
                figure: "not-run",
                unit: None,
                estimate: Err(&not_run.reason),
                verdict: Some("not_run"),
            });
        }
    }

    fn push(&mut self, row: &Row) {
        let Row { of, arm, label, case, figure, unit, estimate, verdict } = *row;
        let known = estimate.ok().and_then(|estimate| estimate.as_ref().ok());
        let unknown = match estimate {
            Ok(Ok(_)) => None,
            Ok(Err(reason)) => Some(reason.to_string()),
            Err(reason) => Some(reason.to_owned()),
        };
        let text = [
            Some(of.experiment),
            Some(arm),
            Some(label),
            Some(figure),
            Some(of.quantity.as_str()),
            unit,
            verdict,
            unknown.as_deref(),
            of.simulated,
        ];
        for (column, value) in self.text.iter_mut().zip(text) {
            column.push(value.map(str::to_owned));
        }
        for (column, value) in self.counts.iter_mut().zip([case, known.map(|known| known.trials)]) {
            column.push(value);
        }
        let numbers = known.map(|known| [known.value, known.low, known.high, known.level, known.spread]);
        for (place, column) in self.numbers.iter_mut().enumerate() {
            column.push(numbers.map(|numbers| numbers[place]));
        }
    }

    fn into_columns(self) -> Columns {
        let text = Self::TEXT.into_iter().zip(self.text).map(|(name, values)| (name, Values::Text(values)));
        let counts = Self::COUNTS.into_iter().zip(self.counts);
        let numbers = Self::NUMBERS.into_iter().zip(self.numbers);
        text.chain(counts.map(|(name, values)| (name, Values::Count(values))))
            .chain(numbers.map(|(name, values)| (name, Values::Number(values))))
            .collect()
    }
}
