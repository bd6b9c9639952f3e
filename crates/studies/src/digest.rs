//! A dataset's figures without its samples, so that a program that shows many datasets holds one of
//! them at a time.

use std::path::Path;

use ringfence_dataset::{Dataset, Manifest};
use ringfence_machine::Machine;

use crate::findings::Findings;
use crate::measure::Measurement;

/// A dataset without its samples.
#[derive(Debug, Clone)]
pub struct Digest {
    /// The folder's name.
    pub folder: String,
    /// Its manifest.
    pub manifest: Manifest,
    /// The machine that measured, if `machine.json` describes one.
    pub machine: Option<Machine>,
    /// Whether it is still being measured, or the program was killed.
    pub unfinished: bool,
    /// Its figures.
    pub findings: Findings,
}

impl Digest {
    /// That of a dataset.
    pub fn new(dataset: &Dataset) -> Self {
        Self {
            folder: name_of(&dataset.dir),
            manifest: dataset.manifest.clone(),
            machine: serde_json::from_value(dataset.machine.clone()).ok(),
            unfinished: dataset.unfinished(),
            findings: Findings::from(dataset),
        }
    }

    /// That of the dataset of a measurement, in this folder; none where it was not brought to an
    /// end.
    pub fn measured(dir: &Path, done: &Measurement, machine: &Machine) -> Option<Self> {
        Some(Self {
            folder: name_of(dir),
            manifest: done.manifest.clone()?,
            machine: Some(machine.clone()),
            unfinished: false,
            findings: Findings { left: Vec::new(), ..Findings::from(done) },
        })
    }
}

fn name_of(dir: &Path) -> String {
    let folder = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
