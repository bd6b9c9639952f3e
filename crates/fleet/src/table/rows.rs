//! The rows that an attempt adds to the table: one for each figure, and those of its datasets, with
//! columns about the host.
//!
//! They are made where the task ran, when it ends: a thousand hosts have a thousand times the time
//! for it.

use std::fs::File;
use std::path::{Path, PathBuf};

use ringfence_dataset::Dataset;
use ringfence_dataset::table::{self, Columns, Values};
use ringfence_experiment::Error;
use ringfence_machine::Machine;
use ringfence_system::checksum;
use ringfence_versus::Files;
use serde::{Deserialize, Serialize};

use super::copy::{self, Copied, OF_SAMPLES, RUNS, SAMPLES, Source, file};
use super::figures::Figures;
use crate::attempt::{self, DATA};
use crate::error;

use crate::facts::{Fact, Facts};

pub const FIGURES: &str = "figures";
const ROWS: &str = "rows";
const WRITTEN: &str = "written.json";

/// The version of the columns. Hosts of one table all have the same.
const LAYOUT: u32 = 1;

/// What an attempt's rows are: with this the folder is complete.
#[derive(Serialize, Deserialize)]
struct Written {
    layout: u32,
    tables: Vec<Part>,
    /// Files that these were made of, by their names, where they have no sums of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sources: Vec<Part>,
}

/// A table of it, or a file that it was built from, with its checksum.
#[derive(Serialize, Deserialize)]
struct Part {
    table: String,
    bytes: u64,
    xxh64: String,
}

impl Part {
    fn of(name: &str, path: &Path) -> Result<Self, Error> {
        let sum = File::open(path).and_then(|mut file| checksum::of(&mut file));
        let checksum::Checksum { bytes, xxh64 } = sum.map_err(error::io("read", path))?;
        Ok(Self { table: name.into(), bytes, xxh64 })
    }

    fn check(&self, path: &Path) -> Result<(), Error> {
        let sum = File::open(path).and_then(|mut file| checksum::of(&mut file));
        let sum = sum.map_err(error::io("read", path))?;
        if (sum.bytes, &sum.xxh64) == (self.bytes, &self.xxh64) {
            return Ok(());
        }
        let path = path.display();
        Err(Error::failed(format!("{path} is damaged: its checksum is wrong")))
    }
}

/// The tables that an attempt's rows are, all as they were written.
///
/// # Errors
/// One that is not, or none.
pub fn tables(attempt: &Path) -> Result<Vec<String>, Error> {
    let rows = folder(attempt);
    let tables = written(&rows)?.tables;
    tables.iter().try_for_each(|part| part.check(&rows.join(file(&part.table))))?;
    Ok(tables.into_iter().map(|part| part.table).collect())
}

/// Whether a file of the gathered table is an attempt's figures as they were written.
pub fn is_figures_of(attempt: &Path, path: &Path) -> bool {
    let written = written(&folder(attempt));
    let part =
        written.ok().and_then(|all| all.tables.into_iter().find(|part| part.table == FIGURES));
    part.is_some_and(|part| part.check(path).is_ok())
}

fn written(rows: &Path) -> Result<Written, Error> {
    let path = rows.join(WRITTEN);
    let written: Option<Written> = attempt::get(&path)?;
    let is_ours = |written: &Written| {
        let known =
            |part: &Part| part.table == FIGURES || copy::NAMES.contains(&part.table.as_str());
        written.layout == LAYOUT
            && written.tables.iter().all(known)
            && written.tables.iter().any(|part| part.table == FIGURES)
    };
    written.filter(is_ours).ok_or_else(|| {
        Error::failed(format!("{}: there are no rows written by this version", path.display()))
    })
}

/// The folder of an attempt's rows.
pub fn folder(attempt: &Path) -> PathBuf {
    attempt.join(ROWS)
}

/// Whether an attempt has rows.
pub fn are_in(attempt: &Path) -> bool {
    folder(attempt).join(WRITTEN).is_file()
}

// Runs of whole commands are kept without sums: these are of when rows were first made of them.
fn as_they_were(rows: &Path, data: &Path) -> Result<Vec<Part>, Error> {
    let written: Option<Written> = attempt::get(&rows.join(WRITTEN))?;
    let known = written.map(|written| written.sources).unwrap_or_default();
    if known.is_empty() {
        let files = [Files::FINDINGS, Files::RUNS].map(|name| (name, data.join(name)));
        return files
            .iter()
            .filter(|(_, path)| path.is_file())
            .map(|(name, path)| Part::of(name, path))
            .collect();
    }
    known.iter().try_for_each(|part| part.check(&data.join(&part.table)))?;
    Ok(known)
}

/// Makes the rows of an attempt from its datasets.
pub fn write(attempt: &Path, facts: &Facts, task: u32, number: u32) -> Result<(), Error> {
    let data = attempt.join(DATA);
    let dir = folder(attempt);
    std::fs::create_dir_all(&dir).map_err(error::io("make", &dir))?;
    let mut figures = Figures::default();
    let (mut datasets, mut runs, mut sources) = (Vec::new(), Vec::new(), Vec::new());
    if Files::are_in(&data) {
        sources = as_they_were(&dir, &data)?;
        let found = Files::read(&data)?;
        let experiment = found.label.clone().unwrap_or_else(|| "versus".into());
        figures.add_versus(&experiment, &found);
        runs.push(Source { dir: data, experiment });
    } else {
        for path in ringfence_dataset::list(&data)? {
            let dataset = Dataset::open(&path)?;
            let own = path
                .file_name()
                .filter(|_| path != data)
                .map(|name| name.to_string_lossy().into_owned());
            let experiment = own.unwrap_or_else(|| dataset.plan.experiment.name.clone());
            let machine = serde_json::from_value::<Machine>(dataset.machine.clone()).ok();
            let simulated =
                machine.and_then(|machine| machine.simulated).map(|described| described.name);
            figures.add(&experiment, simulated.as_deref(), &dataset);
            datasets.push(Source { dir: path, experiment });
        }
    }
    let beside = |rows: usize| beside(facts, task, number, rows);
    let mut all = beside(figures.rows());
    all.extend(figures.into_columns());
    let path = dir.join(file(FIGURES));
    table::write(&path, &all, None).map_err(error::table("write", &path))?;
    let mut tables = vec![Part::of(FIGURES, &path)?];
    let mut copy = |what: &Copied, sources: &[Source]| -> Result<(), Error> {
        let has = |source: &&Source| source.dir.join(file(what.name)).is_file();
        let sources: Vec<&Source> = sources.iter().filter(has).collect();
        if !sources.is_empty() {
            copy::write(&dir.join(file(what.name)), what, &sources, &beside)?;
            tables.push(Part::of(what.name, &dir.join(file(what.name)))?);
        }
        Ok(())
    };
    copy(&SAMPLES, &datasets)?;
    OF_SAMPLES.iter().try_for_each(|what| copy(what, &datasets))?;
    copy(&RUNS, &runs)?;
    attempt::put(&dir.join(WRITTEN), &Written { layout: LAYOUT, tables, sources })
}

// What stands in every row of a host.
fn beside(facts: &Facts, task: u32, attempt: u32, rows: usize) -> Columns {
    let number = |number: u32| Values::Count(vec![Some(number); rows]);
    let repeated = |fact: Fact| match fact {
        Fact::Text(value) => Values::Text(vec![value; rows]),
        Fact::Number(value) => Values::Count(vec![value; rows]),
        Fact::Flag(value) => Values::Flag(vec![value; rows]),
    };
    let own = facts.columns().into_iter().map(|(name, fact)| (name, repeated(fact)));
    own.chain([("task", number(task)), ("attempt", number(attempt))]).collect()
}
