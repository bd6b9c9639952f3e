//! The folder of an answer, and the additional files that were requested.

use std::fs;
use std::io::Write;
use std::path::Path;

use ringfence_dataset::{DatasetError, Recorder, text_file};
use ringfence_experiment::Error;
use ringfence_system::whole;

use crate::export;
use crate::findings::{About, Findings};
use crate::host::Watch;
use crate::journal::{self, JOURNAL, Journal};
use crate::question::{Export, Question};
use crate::run::Run;
use crate::session::Measured;
use crate::table;

// Before anything is measured.
pub(crate) fn check_writable(question: &Question, dir: &Path) -> Result<(), Error> {
    if dir.is_file() {
        return Err(Error::usage(format!(
            "{} is a file: --out takes a folder that is empty or does not exist yet",
            dir.display()
        )));
    }
    Recorder::check(dir)?;
    for (path, _) in question.exports.iter().filter(|(path, _)| !is_standard_output(path)) {
        let refused = match path.metadata() {
            Ok(there) if there.is_dir() => Some("it is a folder".into()),
            // What is there need not lie in a folder that can be written to.
            Ok(_) => rustix::fs::access(path, rustix::fs::Access::WRITE_OK)
                .err()
                .map(|error| error.to_string()),
            Err(_) => tempfile_in(whole::folder_of(path)).err().map(|error| error.to_string()),
        };
        if let Some(why) = refused {
            return Err(Error::usage(format!(
                "{} cannot be written: {why}; name a file in a folder that can be written to",
                path.display()
            )));
        }
    }
    Ok(())
}

// Whether a file can be made there.
fn tempfile_in(folder: &Path) -> std::io::Result<()> {
    let path = folder.join(format!(".ringfence-{}.tmp", std::process::id()));
    fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
    fs::remove_file(path)
}

/// The files of an answer.
pub struct Files;

impl Files {
    /// The file of the findings.
    pub const FINDINGS: &str = "versus.json";
    /// Every run.
    pub const RUNS: &str = "runs.parquet";

    /// Whether a folder is one.
    pub fn are_in(dir: &Path) -> bool {
        dir.join(Self::FINDINGS).is_file() || dir.join(JOURNAL).is_file()
    }

    /// Reads the findings, or the journal of runs if there are none.
    ///
    /// # Errors
    /// One sentence where it cannot be read.
    pub fn read(dir: &Path) -> Result<Findings, Error> {
        let path = dir.join(Self::FINDINGS);
        if !path.exists() {
            return journal::read(dir).map(|(findings, _)| findings);
        }
        let text = text_file::read(&path, text_file::LONGEST)
            .map_err(|error| Error::usage_by(error).within(&path.display().to_string()))?;
        let mut findings: Findings = serde_json::from_str(&text)
            .map_err(|error| table::damaged(&path, &error.to_string()).because(error))?;
        // Without the runs, all but the outliers is known.
        if let Ok(runs) = Self::runs(dir, &findings) {
            findings.count_outliers(&runs);
        }
        Ok(findings)
    }

    /// Every run of an answer.
    ///
    /// # Errors
    /// One sentence where they cannot be read.
    pub fn runs(dir: &Path, findings: &Findings) -> Result<Vec<Run>, Error> {
        if !dir.join(Self::FINDINGS).exists() && dir.join(JOURNAL).is_file() {
            return journal::read(dir).map(|(_, runs)| runs);
        }
        table::read(&dir.join(Self::RUNS), &findings.commands)
    }
}

// Beside it nothing else is in the folder until all is kept.
pub(crate) fn begin_journal(
    question: &Question,
    dir: &Path,
    about: &About,
) -> Result<Journal, Error> {
    fs::create_dir_all(dir).map_err(DatasetError::io("make", dir))?;
    let begun = Journal::begin(dir, about, &question.cases, &question.settings);
    Ok(begun.map_err(DatasetError::io("write", &dir.join(JOURNAL)))?)
}

/// Takes away what [`begin_journal`] made.
pub(crate) fn forget(dir: &Path, new: bool) {
    let _ = fs::remove_file(dir.join(JOURNAL));
    if new {
        let _ = fs::remove_dir(dir);
    }
}

pub(crate) fn keep(
    question: &Question,
    dir: &Path,
    findings: &Findings,
    measured: &Measured,
    watch: &dyn Watch,
) -> Result<(), Error> {
    let made = fs::create_dir_all(dir).map_err(DatasetError::io("make", dir));
    let kept = made.and_then(|()| {
        table::write(&dir.join(Files::RUNS), findings, &question.cases, &measured.runs)
    });
    let text = serde_json::to_string_pretty(findings).map_err(Error::failed_by)?;
    let path = dir.join(Files::FINDINGS);
    let kept = kept.and_then(|()| {
        whole::write(&path, (text + "\n").as_bytes())
            .map_err(|error| DatasetError::io("write", &path)(error.into_source()))
    });
    if kept.is_ok() {
        // Should it stay, it is not read beside the answer.
        let _ = fs::remove_file(dir.join(JOURNAL));
    }
    // The others may go elsewhere.
    let mut failed = kept.map_err(Error::from).err();
    for (path, export) in &question.exports {
        let text = match export {
            Export::Json => export::json(findings, &measured.runs),
            Export::Csv => export::csv(findings),
            Export::Table(markup) => export::table(findings, question.unit, question.sort, *markup),
            Export::Summary => watch.summary(findings, question.unit, question.sort),
        };
        if is_standard_output(path) {
            // A reader that has gone is not a failure.
            let _ = std::io::stdout().write_all(text.as_bytes());
            continue;
        }
        let written = whole::write_named(path, text.as_bytes());
        failed = failed.or(written
            .err()
            .map(|error| DatasetError::io("write", path)(error.into_source()).into()));
    }
    failed.map_or(Ok(()), Err)
}

// As hyperfine has it.
fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}
