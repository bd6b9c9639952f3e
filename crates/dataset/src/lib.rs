//! Datasets: measurements in a folder that other tools can read without this program.
//!
//! | file | holds |
//! |---|---|
//! | `samples.parquet` | the samples, one column per field of [`Sample`] |
//! | `manifest.json` | [`Manifest`]: what the case numbers mean, placement, the program, the end |
//! | `experiment.toml` | the experiment, complete: it reruns |
//! | `machine.json` | what the machine is |
//! | `latencies.parquet` | the latencies counted in each window, if any: [`Sample::latencies`] |
//! | `disk.parquet` | what the disk did in each window, if any is used: [`Sample::stretches`] |
//! | `samples.journal` | the samples, while measuring and after the program was killed |
//!
//! [`Sample`]: ringfence_experiment::sample::Sample
//! [`Sample::latencies`]: ringfence_experiment::sample::Sample::latencies
//! [`Sample::stretches`]: ringfence_experiment::sample::Sample::stretches
//!
//! A [`Recorder`] appends each step to the journal as soon as it is measured, so that a killed
//! program loses nothing that it had recorded; a system that loses power may lose the last seconds.
//! At the end the journal becomes the Parquet file, and only then is the manifest changed to say
//! so: at any instant [`Dataset::open`] reads either the one or the other. [`Recorder::resume`]
//! goes the same way back.
//!
//! In `latencies.parquet` a row is a bucket that holds anything: `sample` (u64, the row in
//! `samples.parquet`, from 0), `trial`, `case` (u32) and `role` as there, `floor_ns` (u64, the
//! least latency of the bucket, which reaches up to the next of eight boundaries in every power of
//! two) and `count` (u64). The counts of a window add up to its `units`. What reading the clock, a
//! hit and a miss take is in the manifest, as `scale`.
//!
//! Every version of the format that was ever written is read, each file by the version that it
//! states. What an earlier one lacks is `None`. A newer one than [`SCHEMA`] is refused in one
//! sentence, since its additional content would be lost. A dataset of an earlier version that is
//! continued has today's format from then on. Only a journal that lacks columns of today cannot be
//! continued, since its later rows would not be like its first.
//!
//! Tables beside these, of fleets and of whole commands, are written by [`mod@table`].
//!
//! A survey is a folder with several datasets as sub-folders: [`list`] finds them.

#![forbid(unsafe_code)]

mod columns;
mod date;
mod error;
pub mod files;
mod folder;
mod formats;
mod journal;
mod lock;
mod manifest;
mod manifest_file;
mod open;
mod parquet_file;
mod recorder;
mod row;
pub mod table;
pub mod text_file;
mod version;

pub use date::Date;
pub use error::DatasetError;
pub use folder::{is_dataset, list, new_dir};
pub use lock::Lock;
pub use manifest::{CaseEntry, Manifest, Resumption, RoleEntry, SamplesFile, State, TaskEntry};
pub use open::Dataset;
pub use recorder::Recorder;
pub use version::SCHEMA;

const SAMPLES: &str = "samples.parquet";
const MANIFEST: &str = "manifest.json";
const EXPERIMENT: &str = "experiment.toml";
const MACHINE: &str = "machine.json";
const JOURNAL: &str = "samples.journal";
const LATENCIES: &str = "latencies.parquet";
const DISK: &str = "disk.parquet";
