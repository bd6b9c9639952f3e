//! Writes a dataset while it is measured.

use std::fs;
use std::path::{Path, PathBuf};

use ringfence_experiment::ended::Ended;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use ringfence_experiment::scale::Scale;
use ringfence_experiment::start::Start;
use serde_json::Value;

use super::columns::Known;
use super::error::DatasetError;
use super::journal::{self, Journal};
use super::lock::{Lock, check_idle};
use super::manifest::{Manifest, State};
use super::open::Dataset;
use super::parquet_file::latencies::Counted;
use super::parquet_file::stretches::Watched;
use super::{
    DISK, EXPERIMENT, JOURNAL, LATENCIES, MACHINE, MANIFEST, SAMPLES, files, folder, parquet_file,
};

/// A dataset that is being measured.
///
/// Dropped without [`finish`](Self::finish), or killed, it leaves an unfinished dataset with
/// everything that was appended.
#[derive(Debug)]
pub struct Recorder {
    dir: PathBuf,
    manifest: Manifest,
    known: Known,
    journal: Journal,
    _lock: Lock,
}

impl Recorder {
    /// Checks whether a dataset can begin in a folder; changes nothing.
    ///
    /// # Errors
    /// As [`Recorder::create`].
    pub fn check(dir: &Path) -> Result<(), DatasetError> {
        // Made and removed again: only trying tells whether a folder can be written to.
        let mut made = Made::default();
        made.folder(dir)?;
        let lock = Lock::take(dir)?;
        made.file(dir.join(JOURNAL), Journal::create)?;
        drop(made);
        drop(lock);
        Ok(())
    }

    /// Begins a dataset in a folder that does not exist or is empty; parents are made as needed.
    ///
    /// # Errors
    /// Where there is something in the folder, or it cannot be written to. What was made is
    /// removed.
    pub fn create(dir: &Path, plan: &Plan, machine: &Value) -> Result<Self, DatasetError> {
        let mut made = Made::default();
        made.folder(dir)?;
        let lock = Lock::take(dir)?;
        made.file(dir.join(EXPERIMENT), |path| {
            files::create(path, plan.experiment.to_toml().as_bytes())
        })?;
        let machine = serde_json::to_string_pretty(machine).expect("a JSON value") + "\n";
        made.file(dir.join(MACHINE), |path| files::create(path, machine.as_bytes()))?;
        let journal = made.file(dir.join(JOURNAL), Journal::create)?;
        let manifest = Manifest::new(plan);
        // Last, since a folder with a manifest counts as a dataset.
        manifest.write(dir)?;
        made.keep();
        Ok(Self { dir: dir.into(), manifest, known: Known::new(plan), journal, _lock: lock })
    }

    /// Continues a dataset that was interrupted and that was opened under the lock: whole steps are
    /// kept, and later steps are appended to them. No later window starts before `from_ns`. If the
    /// program is killed at any point, the dataset still opens with everything that it had.
    ///
    /// # Errors
    /// Where it cannot be read or written. It stays as it was.
    pub fn resume(dataset: &Dataset, from_ns: u64, lock: Lock) -> Result<Self, DatasetError> {
        let (dir, known) = (dataset.dir.clone(), Known::new(&dataset.plan));
        let path = dir.join(JOURNAL);
        let journal = match dataset.manifest.state {
            State::Unfinished => Journal::resume(&path, &known)?,
            // A journal with the same samples first, and only then a manifest that says to read it.
            State::Complete => Journal::replace(&path, &dataset.samples)?,
        };
        let manifest = dataset.manifest.clone().resume(dataset.end_ns(), from_ns);
        manifest.write(&dir)?;
        // It is no longer read, and would be incomplete for others: should it stay, no harm is
        // done.
        for file in [SAMPLES, LATENCIES, DISK] {
            let _ = fs::remove_file(dir.join(file));
        }
        Ok(Self { dir, manifest, known, journal, _lock: lock })
    }

    /// Removes what [`create`](Self::create) left in a folder where it was killed before there was
    /// a dataset. A folder with anything else in it stays as it is.
    ///
    /// # Errors
    /// Where it cannot be removed.
    pub fn clear_unbegun(dir: &Path) -> Result<(), DatasetError> {
        let Ok(entries) = folder::entries(dir) else { return Ok(()) };
        let own = [EXPERIMENT, MACHINE, JOURNAL].map(|name| dir.join(name));
        let manifest = dir.join(format!("{MANIFEST}.tmp"));
        if entries.iter().all(|path| own.contains(path) || *path == manifest) {
            let _lock = Lock::take(dir)?;
            for path in entries {
                fs::remove_file(&path).map_err(DatasetError::io("remove", &path))?;
            }
        }
        Ok(())
    }

    /// Writes a dataset that was read, or derived from one that was, into a new folder, in today's
    /// format. The copy keeps the original's metadata: the program that measured, when it did, and
    /// how that ended.
    ///
    /// # Errors
    /// As [`Recorder::create`], [`append`](Self::append) and [`finish`](Self::finish); where it has
    /// not ended.
    pub fn copy(dataset: &Dataset, dir: &Path) -> Result<(), DatasetError> {
        let from = &dataset.manifest;
        let Some(ended) = &from.ended else {
            return Err(DatasetError::usage(
                &dataset.dir,
                "it has not ended, so there is nothing to copy",
            ));
        };
        let mut recorder = Self::create(dir, &dataset.plan, &dataset.machine)?;
        let own = &mut recorder.manifest;
        (own.program, own.version) = (from.program.clone(), from.version.clone());
        (own.created, own.resumed) = (from.created.clone(), from.resumed.clone());
        (own.scale, own.starts) = (from.scale, from.starts.clone());
        for step in ringfence_experiment::sample::steps(&dataset.samples) {
            recorder.append(step)?;
        }
        recorder.finish(ended).map(drop)
    }

    /// Stores the latencies that distinguish hits from misses, for the latencies that follow.
    ///
    /// # Errors
    /// Where the manifest cannot be written.
    pub fn note_scale(&mut self, scale: Scale) -> Result<(), DatasetError> {
        self.manifest.scale = Some(scale);
        self.manifest.write(&self.dir)
    }

    /// Notes how fast a chase was alone at its starts, so that a program which is killed later does
    /// not lose it.
    ///
    /// # Errors
    /// Where the manifest cannot be written.
    pub fn note_starts(&mut self, starts: &[Start]) -> Result<(), DatasetError> {
        if starts.is_empty() {
            return Ok(());
        }
        self.manifest.starts.extend_from_slice(starts);
        self.manifest.write(&self.dir)
    }

    /// Notes what should be known of the figures; the manifest has it once the dataset is finished.
    pub fn note_said(&mut self, said: &[String]) {
        self.manifest.said.extend_from_slice(said);
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Adds the samples of a step: all of them, or none where this fails.
    ///
    /// # Errors
    /// Where the samples name a case or a role that the plan does not have, or cannot be written.
    pub fn append(&mut self, samples: &[Sample]) -> Result<(), DatasetError> {
        let roles =
            samples.iter().try_for_each(|sample| self.known.role(sample.role.as_bytes()).map(drop));
        roles.and_then(|()| self.known.check(samples)).map_err(|problem| {
            DatasetError::usage(&self.dir, format!("{problem}: record only steps of the plan"))
        })?;
        self.journal.append(samples)
    }

    /// Ends the dataset: the journal becomes `samples.parquet`, and `latencies.parquet` and
    /// `disk.parquet` where there is anything for them. Returns the manifest as it was written.
    ///
    /// # Errors
    /// Where that cannot be written. The journal stays, and the dataset can be read as an
    /// unfinished one.
    pub fn finish(mut self, ended: &Ended) -> Result<Manifest, DatasetError> {
        let path = self.dir.join(JOURNAL);
        let (mut row, mut counted, mut watched) = (0, Vec::new(), Vec::new());
        let samples = parquet_file::write(&self.dir.join(SAMPLES), |step| {
            let take = |samples: Vec<Sample>| {
                counted.extend(
                    (row..).zip(&samples).filter_map(|(row, sample)| Counted::of(row, sample)),
                );
                watched.extend(
                    (row..).zip(&samples).filter_map(|(row, sample)| Watched::of(row, sample)),
                );
                row += samples.len() as u64;
                step(samples)
            };
            journal::read(&path, &self.known, take).map(drop)
        })?;
        if !counted.is_empty() {
            let path = self.dir.join(LATENCIES);
            self.manifest.latencies = Some(parquet_file::latencies::write(&path, &counted)?);
        }
        if !watched.is_empty() {
            let path = self.dir.join(DISK);
            self.manifest.disk = Some(parquet_file::stretches::write(&path, &watched)?);
        }
        self.manifest.state = State::Complete;
        self.manifest.ended = Some(ended.clone());
        self.manifest.samples = Some(samples);
        self.manifest.write(&self.dir)?;
        // The dataset is complete: should the journal stay, it is not read.
        let _ = fs::remove_file(path);
        Ok(self.manifest)
    }
}

// What was made so far, removed again unless it is kept.
#[derive(Default)]
struct Made {
    folders: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

impl Made {
    fn folder(&mut self, dir: &Path) -> Result<(), DatasetError> {
        if dir.as_os_str().is_empty() {
            return Err(DatasetError::usage(dir, "the folder's name is empty; name a new folder"));
        }
        if dir.exists() {
            return match folder::entries(dir)?.is_empty() {
                true => Ok(()),
                false => {
                    check_idle(dir)?;
                    Err(DatasetError::usage(
                        dir,
                        "this folder is not empty; name a new one, or remove it",
                    ))
                }
            };
        }
        let missing =
            dir.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists());
        self.folders = missing.map(PathBuf::from).collect();
        fs::create_dir_all(dir).map_err(DatasetError::io("make the folder", dir))
    }

    fn file<T>(
        &mut self,
        path: PathBuf,
        make: impl FnOnce(&Path) -> Result<T, DatasetError>,
    ) -> Result<T, DatasetError> {
        let made = make(&path)?;
        self.files.push(path);
        Ok(made)
    }

    fn keep(mut self) {
        self.folders.clear();
        self.files.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // A file or folder that cannot be removed stays, and so does a folder that another program
        // uses.
        for file in &self.files {
            let _ = fs::remove_file(file);
        }
        for folder in &self.folders {
            let _ = fs::remove_dir(folder);
        }
    }
}
