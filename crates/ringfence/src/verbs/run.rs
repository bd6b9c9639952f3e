//! `run`: an experiment from a file, or a dataset to resume.

use std::path::Path;

use ringfence_dataset::text_file;
use ringfence_experiment::Experiment;

use super::resume;
use crate::args::Run;
use crate::failure::Failure;
use crate::shared::command::command;
use crate::shared::{experiment, folder};

// Far more than any user writes.
const LONGEST_FILE: u64 = 1 << 20;

pub fn run(args: &Run) -> Result<(), Failure> {
    if args.system {
        ringfence_limits::system::allow();
    }
    let file = match (&args.file, &args.resume) {
        (Some(file), None) => file,
        (None, Some(_)) if args.on.machine.is_some() => return Err(resume::refused("machine")),
        (None, Some(dir)) => return resume::run(dir, &args.measuring),
        (Some(_), Some(_)) => {
            return Err(Failure::usage(
                "name an experiment file, or a dataset with --resume, but not both: a dataset \
                 contains its experiment",
            ));
        }
        (None, None) => {
            return Err(Failure::usage(
                "name an experiment file, FILE.toml, or a dataset with --resume",
            ));
        }
    };
    experiment::run_as_written(read(file)?, &args.on, &args.measuring)
}

/// The experiment of a file.
pub(super) fn read(file: &Path) -> Result<Experiment, Failure> {
    if folder::is_ours(file) {
        let again = file.join("experiment.toml");
        let again =
            again.is_file().then(|| format!("; measure it again: {}", command(&["run"], &again)));
        return Err(Failure::usage(format!(
            "{}: this is a dataset and not an experiment file; print its results: {}{}",
            file.display(),
            command(&["show"], file),
            again.unwrap_or_default()
        )));
    }
    let text = text_file::read(file, LONGEST_FILE).map_err(|error| {
        Failure::usage(format!("{}: {error}; name an experiment file", file.display()))
    })?;
    Experiment::parse(&text).map_err(|error| Failure::usage(format!("{}: {error}", file.display())))
}
