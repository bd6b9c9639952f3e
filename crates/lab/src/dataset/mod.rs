//! Datasets: what was measured, kept in a folder that other tools read without this program.
//!
//! | file | holds |
//! |---|---|
//! | `samples.parquet` | the samples, one column per field of [`Sample`](crate::sample::Sample) |
//! | `manifest.json` | [`Manifest`]: what the case numbers mean, the placement, who measured, how it ended |
//! | `experiment.toml` | the experiment, complete: it reruns |
//! | `machine.json` | what the machine is |
//! | `histograms.json` | latencies that tasks counted, where one was asked to |
//! | `samples.journal` | the samples, while measuring and after the program was killed |
//!
//! A [`Recorder`] appends each step to the journal as soon as it is measured, so that a killed program
//! loses nothing that it had recorded; a system that loses power may lose the last seconds. At the end
//! the journal becomes the Parquet file, and only then is the manifest changed to say so: at any
//! instant [`Dataset::open`] reads either the one or the other. [`Recorder::resume`] goes the same way back.
//!
//! A survey is a folder with several datasets as sub-folders: [`list`] finds them.

mod columns;
mod date;
mod error;
pub(crate) mod files;
mod folder;
mod histograms;
mod journal;
mod lock;
mod manifest;
mod open;
mod parquet_file;
mod recorder;

pub use error::DatasetError;
pub use folder::{default_dir, is_dataset, list};
pub use histograms::{Histogram, histograms, write_histograms};
pub use lock::Lock;
pub use manifest::{CaseEntry, Manifest, Resumption, RoleEntry, SamplesFile, State, TaskEntry};
pub use open::Dataset;
pub use recorder::Recorder;

/// The version of the folder's format that this program writes, and the newest that it reads.
pub const SCHEMA: u32 = 1;

const SAMPLES: &str = "samples.parquet";
const MANIFEST: &str = "manifest.json";
const EXPERIMENT: &str = "experiment.toml";
const MACHINE: &str = "machine.json";
const JOURNAL: &str = "samples.journal";
const HISTOGRAMS: &str = "histograms.json";
