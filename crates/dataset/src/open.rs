//! Reads a dataset.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence_experiment::Experiment;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use serde_json::Value;

use super::columns::Known;
use super::error::DatasetError;
use super::manifest::{Manifest, State};
use super::manifest_file;
use super::{
    DISK, EXPERIMENT, JOURNAL, LATENCIES, MACHINE, MANIFEST, SAMPLES, files, folder, journal,
    parquet_file,
};

/// A dataset, read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// The folder.
    pub dir: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    /// The plan as it was carried out, on the machine that measured; with the experiment in it.
    pub plan: Plan,
    /// What that machine was.
    pub machine: Value,
    /// The samples, in the order in which they were measured.
    pub samples: Vec<Sample>,
}

impl Dataset {
    /// Reads a folder.
    ///
    /// # Errors
    /// One sentence where it is not a dataset, or one that is damaged or newer than this program.
    pub fn open(dir: &Path) -> Result<Self, DatasetError> {
        folder::entries(dir)?;
        if !dir.join(MANIFEST).exists() {
            let problem = format!(
                "this folder is not a dataset (there is no {MANIFEST}); name one that Ringfence \
                 wrote"
            );
            return Err(DatasetError::usage(dir, problem));
        }
        let manifest = manifest_file::read(dir)?;
        let plan = plan(dir, &manifest)?;
        let path = dir.join(MACHINE);
        let machine = serde_json::from_str(&files::read(&path)?).map_err(|error| {
            DatasetError::damaged(
                &path,
                format!("this is not JSON ({error}): restore the original"),
            )
        })?;
        let samples = samples(dir, &manifest, &Known::new(&plan))?;
        Ok(Self { dir: dir.into(), manifest, plan, machine, samples })
    }

    /// Whether measuring has ended as planned, so that there is nothing to continue. Time that was
    /// spent is such an end.
    pub fn is_done(&self) -> bool {
        self.manifest.ended.as_ref().is_some_and(Ended::is_planned)
    }

    /// When its last window ended, since its start.
    pub fn end_ns(&self) -> u64 {
        let ends =
            self.samples.iter().map(|sample| sample.start_ns.saturating_add(sample.length_ns));
        ends.max().unwrap_or(0)
    }

    /// For how long it has been measured, without the pauses between its parts.
    pub fn measured_for(&self) -> Duration {
        let end = self.end_ns();
        let begun = self.manifest.resumed.iter().filter(|part| part.from_ns <= end);
        let pauses = begun
            .map(|part| part.from_ns.saturating_sub(part.after_ns))
            .fold(0, u64::saturating_add);
        Duration::from_nanos(end.saturating_sub(pauses))
    }

    /// Whether it is still being measured, or the program was killed or could not finish it.
    pub fn unfinished(&self) -> bool {
        self.manifest.state == State::Unfinished
    }
}

fn plan(dir: &Path, manifest: &Manifest) -> Result<Plan, DatasetError> {
    let path = dir.join(EXPERIMENT);
    let experiment = Experiment::parse(&files::read(&path)?)
        .map_err(|error| DatasetError::damaged(&path, format!("{error}; restore the original")))?;
    let names = experiment.roles.iter().map(|role| &role.name);
    let cases = manifest.cases.iter().map(|entry| entry.case.clone()).collect();
    let misfit = |problem: String| {
        let problem =
            format!("it does not match {EXPERIMENT} ({problem}): restore the originals of both");
        DatasetError::damaged(&dir.join(MANIFEST), problem)
    };
    if !names.eq(manifest.roles.iter().map(|role| &role.name)) {
        return Err(misfit("the roles differ".into()));
    }
    Plan::stored(experiment, cases, manifest.not_run.clone(), manifest.placed.clone())
        .map_err(|error| misfit(error.to_string()))
}

fn samples(dir: &Path, manifest: &Manifest, known: &Known) -> Result<Vec<Sample>, DatasetError> {
    let (path, samples) = match (manifest.state, &manifest.samples) {
        (State::Complete, Some(expected)) => {
            let path = dir.join(SAMPLES);
            let mut samples = parquet_file::read(&path, expected, known)?;
            if let Some(expected) = &manifest.latencies {
                parquet_file::latencies::read(&dir.join(LATENCIES), expected, &mut samples)?;
            }
            if let Some(expected) = &manifest.disk {
                parquet_file::stretches::read(&dir.join(DISK), expected, &mut samples)?;
            }
            (path, samples)
        }
        (State::Complete, None) => {
            let problem = format!("it does not list {SAMPLES}: restore the original");
            return Err(DatasetError::damaged(&dir.join(MANIFEST), problem));
        }
        (State::Unfinished, _) => {
            let path = dir.join(JOURNAL);
            let mut samples = Vec::new();
            journal::read(&path, known, |step| {
                samples.extend(step);
                Ok(())
            })?;
            (path, samples)
        }
    };
    known.check(&samples).map_err(|problem| {
        DatasetError::damaged(
            &path,
            format!("{problem}: restore the originals of it and of {MANIFEST}"),
        )
    })?;
    Ok(samples)
}
