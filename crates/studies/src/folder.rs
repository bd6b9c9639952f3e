//! A study's folder: a file with the question and further findings, and the datasets.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence_dataset::{Dataset, DatasetError};
use ringfence_experiment::Error;
use ringfence_system::whole;

/// A file next to the datasets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The file's name.
    pub file: &'static str,
    /// What is in it.
    pub text: String,
}

impl Kept {
    /// A value as JSON.
    pub fn new(file: &'static str, value: &impl serde::Serialize) -> Self {
        let text =
            serde_json::to_string_pretty(value).expect("what is kept has text keys only") + "\n";
        Self { file, text }
    }

    /// Writes it into a folder and replaces an existing one.
    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        let path = dir.join(self.file);
        fs::create_dir_all(dir)
            .and_then(|()| {
                whole::write(&path, self.text.as_bytes()).map_err(whole::WholeError::into_source)
            })
            .map_err(|error| {
                let place = path.display();
                Error::failed(format!(
                    "writing {place}: {error}; free some space or choose another folder"
                ))
            })
    }
}

/// The datasets of a folder.
///
/// # Errors
/// Where there is none, and where one is damaged or newer than this program.
pub fn datasets(dir: &Path) -> Result<Vec<Dataset>, DatasetError> {
    ringfence_dataset::list(dir)?.iter().map(|folder| Dataset::open(folder)).collect()
}

/// Why what a folder holds is not all that was to be measured, if a stage says so.
pub fn cut_short(datasets: &[Dataset]) -> Option<String> {
    let cut = datasets.iter().any(|dataset| !dataset.is_done());
    cut.then(|| "it was cut short".into())
}

/// For how long the stages that there are have been measured.
pub(crate) fn measured_for(dir: &Path) -> Duration {
    let folders = ringfence_dataset::list(dir).unwrap_or_default();
    let datasets = folders.iter().filter_map(|folder| Dataset::open(folder).ok());
    datasets.map(|dataset| dataset.measured_for()).sum()
}

/// The folder as it is written. What cannot be begun leaves nothing behind.
pub(crate) struct Folder<'a> {
    dir: &'a Path,
    // Folders that were not there before.
    made: Vec<PathBuf>,
    // Files that were not.
    wrote: Vec<PathBuf>,
    last: Option<Kept>,
}

impl<'a> Folder<'a> {
    pub fn new(dir: &'a Path) -> Self {
        let missing =
            dir.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists());
        Self { dir, made: missing.map(Into::into).collect(), wrote: Vec::new(), last: None }
    }

    /// Writes the record and replaces the existing one, unless it is the same.
    pub fn keep(&mut self, kept: Option<Kept>) -> Result<(), Error> {
        let Some(kept) = kept.filter(|kept| self.last.as_ref() != Some(kept)) else {
            return Ok(());
        };
        let path = self.dir.join(kept.file);
        if !path.exists() {
            self.wrote.push(path.clone());
        }
        kept.write(self.dir)?;
        self.last = Some(kept);
        Ok(())
    }

    /// Removes the written files, unless there is a dataset.
    pub fn clear(&self) {
        if ringfence_dataset::list(self.dir).is_ok() {
            return;
        }
        // What cannot be removed stays; the error that led here is what counts.
        for file in &self.wrote {
            let _ = fs::remove_file(file);
        }
        for folder in &self.made {
            let _ = fs::remove_dir(folder);
        }
    }
}
