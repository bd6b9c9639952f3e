//! `samples.journal`: what has been measured so far, one line of JSON per step.
//!
//! The first line says the version, and the columns with their types. Each later one is a step: an
//! array of samples, each an array in the columns' order. Behind them stand `latencies`, pairs
//! `[floor_ns, count]`, and `disk`, arrays of the fields of a
//! [`Stretch`](ringfence_experiment::stretch::Stretch); what is not there is left out, or null
//! where only the first is missing. A step is written with one system call, so a program that is
//! killed leaves at most the last line torn, and no step by half.
//!
//! A journal of an earlier version is read by what its own first line says. If its columns are
//! those of today, it is continued as it is.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use ringfence_experiment::sample::{self, Sample};
use serde::Deserialize;
use serde::de::DeserializeSeed;

use super::columns::{COLUMNS, Column, Known};
use super::error::DatasetError;
use super::formats::{self, Unknown, v2};
use super::row::{Row, Step};
use super::{MANIFEST, files};

/// The journal of a running measurement.
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
        let mut line = v2::header();
        line.push(b'\n');
        files::create(path, &line)?;
        let file = append_to(path)?;
        Ok(Self { path: path.into(), file, length: line.len() as u64, line, torn: false })
    }

    /// Resumes a journal after its last complete step; a partly written step after it is cut off.
    pub fn resume(path: &Path, known: &Known) -> Result<Self, DatasetError> {
        let file = append_to(path)?;
        let Whole { columns, length } = whole(path, known, |_| Ok(()))?;
        if let Some(error) = unlike_ours(path, &columns) {
            return Err(error);
        }
        file.set_len(length).map_err(DatasetError::io("cut the end of", path))?;
        Ok(Self { path: path.into(), file, length, line: Vec::new(), torn: false })
    }

    /// Puts one with these samples in place of whatever is at `path`.
    pub fn replace(path: &Path, samples: &[Sample]) -> Result<Self, DatasetError> {
        let failed = || DatasetError::io("write", path);
        files::replace(path, |file| {
            let mut file = BufWriter::with_capacity(1 << 16, file);
            file.write_all(&v2::header()).and_then(|()| file.write_all(b"\n")).map_err(failed())?;
            for step in sample::steps(samples) {
                let rows: Vec<Row> = step.iter().map(Row).collect();
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
        let rows: Vec<Row> = samples.iter().map(Row).collect();
        serde_json::to_writer(&mut self.line, &rows).expect("numbers and names go into memory");
        self.line.push(b'\n');
        let result = if self.torn {
            Err(io::Error::other("an earlier step was only partly written"))
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

/// What a journal has in whole lines.
struct Whole {
    columns: Vec<&'static Column>,
    /// Where the last step ends.
    length: u64,
}

/// Reads a journal step by step. A torn last line is not a step.
pub fn read(
    path: &Path,
    known: &Known,
    step: impl FnMut(Vec<Sample>) -> Result<(), DatasetError>,
) -> Result<(), DatasetError> {
    whole(path, known, step).map(drop)
}

fn whole(
    path: &Path,
    known: &Known,
    mut step: impl FnMut(Vec<Sample>) -> Result<(), DatasetError>,
) -> Result<Whole, DatasetError> {
    let mut lines = BufReader::with_capacity(1 << 16, files::open(path)?);
    let mut line = Vec::new();
    let mut next = |line: &mut Vec<u8>| {
        line.clear();
        lines.read_until(b'\n', line).map_err(DatasetError::io("read", path))
    };
    let mut length = next(&mut line)? as u64;
    if line.pop() != Some(b'\n') {
        return Err(no_journal(path, "its first line has no end"));
    }
    let columns = columns(path, &line)?;
    for number in 2.. {
        let bytes = next(&mut line)? as u64;
        if line.pop() != Some(b'\n') {
            break;
        }
        match parse(&line, &columns, known) {
            Ok(samples) => step(samples)?,
            // A system that lost power may leave zeros where the last steps should be.
            Err(_) if line.contains(&0) && next(&mut line)? == 0 => break,
            Err(problem) => {
                let remedy = format!(
                    "delete this line and all after it to read the {} lines before it",
                    number - 1
                );
                return Err(DatasetError::damaged(
                    path,
                    format!("line {number} is not a step ({problem}): {remedy}"),
                ));
            }
        }
        length += bytes;
    }
    Ok(Whole { columns, length })
}

// The columns of a journal with this first line.
fn columns(path: &Path, header: &[u8]) -> Result<Vec<&'static Column>, DatasetError> {
    #[derive(Deserialize)]
    struct Stated {
        schema: u64,
    }
    let stated: Option<Stated> = serde_json::from_slice(header).ok();
    let format =
        formats::of(stated.map(|stated| stated.schema)).map_err(|unknown| match unknown {
            Unknown::Newer(_) => DatasetError::damaged(path, unknown.problem()),
            Unknown::Never => no_journal(path, "its first line has no known version"),
        })?;
    format.journal(header).map_err(|problem| no_journal(path, &problem))
}

fn no_journal(path: &Path, problem: &str) -> DatasetError {
    let problem = format!(
        "this is not a journal that this program can read ({problem}): restore the original"
    );
    DatasetError::damaged(path, problem)
}

fn parse(line: &[u8], columns: &[&'static Column], known: &Known) -> Result<Vec<Sample>, String> {
    let mut json = serde_json::Deserializer::from_slice(line);
    let samples = Step { columns, known }.deserialize(&mut json);
    samples.and_then(|samples| json.end().map(|()| samples)).map_err(|error| {
        // Its lines are counted from this one on.
        let place = format!(" at line {} column {}", error.line(), error.column());
        let text = error.to_string();
        text.strip_suffix(&place).unwrap_or(&text).to_owned()
    })
}

// Why rows of today's columns cannot follow those that there are.
fn unlike_ours(path: &Path, columns: &[&'static Column]) -> Option<DatasetError> {
    let theirs: Vec<&str> = columns.iter().map(|column| column.name).collect();
    let ours: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
    if theirs == ours {
        return None;
    }
    let missing: Vec<&str> = ours.into_iter().filter(|name| !theirs.contains(name)).collect();
    let how = match missing[..] {
        [] => "they are in another order".into(),
        _ => format!("they lack {}", missing.join(", ")),
    };
    let remedy = format!(
        "resume with the version of Ringfence that started it (see {MANIFEST}), or measure into a \
         new folder"
    );
    let problem = format!(
        "this cannot be resumed, because its columns are not those of this version ({how}): \
             {remedy}"
    );
    Some(DatasetError::usage(path, problem))
}
