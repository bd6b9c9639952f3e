//! `samples.journal`: what has been measured so far, one line of JSON per step.
//!
//! The first line says the version and the columns. Each later one is a step: an array of samples, each
//! an array in the columns' order; where latencies were counted, an array of them as `[floor_ns, count]`
//! follows the last column. A step is written with one system call, so a program that is killed
//! leaves at most the last line torn, and no step by half.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use ringfence_experiment::class::Class;
use ringfence_experiment::histogram::Histogram;
use ringfence_experiment::sample::Sample;
use serde::{Deserialize, Serialize};

use super::columns::{COLUMNS, Known};
use super::error::DatasetError;
use super::{SCHEMA, files};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Header<'a> {
    schema: u32,
    #[serde(borrow)]
    columns: Vec<Cow<'a, str>>,
}

impl Header<'_> {
    fn ours() -> Self {
        Self { schema: SCHEMA, columns: COLUMNS.iter().map(|column| column.name.into()).collect() }
    }
}

// In the order of the columns. A ping that is no number becomes null, which says the same.
#[derive(Serialize, Deserialize)]
struct Row<'a>(
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    #[serde(borrow)] Cow<'a, str>,
    u32,
    u32,
    Class,
    Option<f64>,
    Option<f64>,
    u64,
    u64,
    u64,
    u64,
    Option<u64>,
    Option<u64>,
    Option<u64>,
    // No column, and only where there are any: so older journals are read.
    #[serde(default, skip_serializing_if = "Option::is_none")] Option<Histogram>,
);

fn row(s: &Sample) -> Row<'_> {
    Row(
        s.life,
        s.block,
        s.step,
        s.position,
        s.step_case,
        s.case,
        Cow::Borrowed(&s.role),
        s.instance,
        s.cpu,
        s.class,
        s.ping_before_ns,
        s.ping_after_ns,
        s.start_ns,
        s.length_ns,
        s.busy_ns,
        s.units,
        s.cycles,
        s.instructions,
        s.llc_misses,
        s.latencies.clone(),
    )
}

fn sample(row: Row<'_>, known: &Known) -> Result<Sample, String> {
    Ok(Sample {
        life: row.0,
        block: row.1,
        step: row.2,
        position: row.3,
        step_case: row.4,
        case: row.5,
        role: known.role(row.6.as_bytes())?,
        instance: row.7,
        cpu: row.8,
        class: row.9,
        ping_before_ns: row.10,
        ping_after_ns: row.11,
        start_ns: row.12,
        length_ns: row.13,
        busy_ns: row.14,
        units: row.15,
        cycles: row.16,
        instructions: row.17,
        llc_misses: row.18,
        latencies: row.19,
    })
}

/// The journal of a measurement under way.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    length: u64,
    line: Vec<u8>,
    torn: bool,
}

impl Journal {
    /// Begins one; `path` must not exist.
    pub fn create(path: &Path) -> Result<Self, DatasetError> {
        let mut line = serde_json::to_vec(&Header::ours()).expect("names and a number");
        line.push(b'\n');
        files::create(path, &line)?;
        let file = append_to(path)?;
        Ok(Self { path: path.into(), file, length: line.len() as u64, line, torn: false })
    }

    /// Goes on with one after its last whole step: what was torn behind it is cut off.
    pub fn resume(path: &Path, known: &Known) -> Result<Self, DatasetError> {
        let file = append_to(path)?;
        let length = read(path, known, |_| Ok(()))?;
        file.set_len(length).map_err(DatasetError::io("cut the end of", path))?;
        Ok(Self { path: path.into(), file, length, line: Vec::new(), torn: false })
    }

    /// Puts one with these samples in place of whatever is at `path`.
    pub fn replace(path: &Path, samples: &[Sample]) -> Result<Self, DatasetError> {
        let failed = || DatasetError::io("write", path);
        files::replace(path, |file| {
            let mut file = BufWriter::with_capacity(1 << 16, file);
            let header = serde_json::to_vec(&Header::ours()).expect("names and a number");
            file.write_all(&header).and_then(|()| file.write_all(b"\n")).map_err(failed())?;
            for step in samples.chunk_by(|a, b| (a.life, a.block, a.step) == (b.life, b.block, b.step)) {
                let rows: Vec<Row> = step.iter().map(row).collect();
                let line = serde_json::to_vec(&rows).expect("numbers and names go into memory");
                file.write_all(&line).and_then(|()| file.write_all(b"\n")).map_err(failed())?;
            }
            let file = file.into_inner().map_err(|error| failed()(error.into_error()))?;
            Ok((file, ()))
        })?;
        let file = append_to(path)?;
        let length = file.metadata().map_err(DatasetError::io("read", path))?.len();
        Ok(Self { path: path.into(), file, length, line: Vec::new(), torn: false })
    }

    /// Adds a step. Where that fails, the journal is as before.
    pub fn append(&mut self, samples: &[Sample]) -> Result<(), DatasetError> {
        self.line.clear();
        let rows: Vec<Row> = samples.iter().map(row).collect();
        serde_json::to_writer(&mut self.line, &rows).expect("numbers and names go into memory");
        self.line.push(b'\n');
        let result = if self.torn {
            Err(io::Error::other("an earlier step was written by half"))
        } else {
            self.file.write_all(&self.line)
        };
        if let Err(error) = result {
            // Without this, the next step would begin within the torn line.
            self.torn |= self.file.set_len(self.length).is_err();
            return Err(DatasetError::io("append to", &self.path)(error));
        }
        self.length += self.line.len() as u64;
        Ok(())
    }
}

fn append_to(path: &Path) -> Result<File, DatasetError> {
    OpenOptions::new().append(true).open(path).map_err(DatasetError::io("write", path))
}

/// Reads a journal step by step. A torn last line is no step; returned is where the last one ends.
pub fn read(
    path: &Path,
    known: &Known,
    mut step: impl FnMut(Vec<Sample>) -> Result<(), DatasetError>,
) -> Result<u64, DatasetError> {
    let mut lines = BufReader::with_capacity(1 << 16, files::open(path)?);
    let mut line = Vec::new();
    let (mut number, mut length, mut end) = (0, 0, 0);
    loop {
        line.clear();
        length += lines.read_until(b'\n', &mut line).map_err(DatasetError::io("read", path))? as u64;
        if line.pop() != Some(b'\n') {
            return if number == 0 { Err(no_journal(path)) } else { Ok(end) };
        }
        number += 1;
        if number == 1 {
            if serde_json::from_slice::<Header>(&line).ok() != Some(Header::ours()) {
                return Err(no_journal(path));
            }
            end = length;
            continue;
        }
        match parse(&line, known) {
            Ok(samples) => step(samples)?,
            Err(_) if line.contains(&0) && at_end(&mut lines, path)? => return Ok(end),
            Err(problem) => {
                let remedy =
                    format!("delete the file from there on to read what stands before, {} lines", number - 1);
                return Err(DatasetError::damaged(
                    path,
                    format!("line {number} is no step ({problem}): {remedy}"),
                ));
            }
        }
        end = length;
    }
}

fn no_journal(path: &Path) -> DatasetError {
    DatasetError::damaged(path, "this is no journal that this program knows: restore it as it was written")
}

fn parse(line: &[u8], known: &Known) -> Result<Vec<Sample>, String> {
    let rows: Vec<Row> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    rows.into_iter().map(|row| sample(row, known)).collect()
}

// A system that lost power may leave zeros where the last steps should be.
fn at_end(lines: &mut impl BufRead, path: &Path) -> Result<bool, DatasetError> {
    lines.fill_buf().map(<[u8]>::is_empty).map_err(DatasetError::io("read", path))
}
