//! Recorded programs.

use std::path::Path;

use ringfence_trace::Profile;
use ringfence_trace::census::dynamic::{self, Run};
use ringfence_trace::recording::{Reader, RecordingError};

use crate::failure::Failure;

/// Reads a trace, and counts what its program executed.
///
/// # Errors
/// One sentence, if it is damaged.
pub fn executed(trace: &Path, rules: Profile) -> Result<(Reader, Run), Failure> {
    let damaged = |error: RecordingError| Failure::usage(error.to_string());
    let reader = Reader::open(trace).map_err(damaged)?;
    let run = dynamic::by_rules(&reader, rules).map_err(damaged)?;
    Ok((reader, run))
}
