//! Observers of a study's progress.

use std::path::Path;
use std::time::Duration;

use ringfence_engine::runner::Progress;

use crate::measure::Measurement;
use crate::prove::time::Precision;

/// Receives a study's progress.
pub trait Watch {
    /// A stage begins: its name, its number from 0 of so many, and how long it is expected to take
    /// and all after it.
    fn stage(&mut self, name: &str, number: usize, of: usize, expected: Duration, after: Duration);

    /// Something to know before a stage begins, in a sentence.
    fn note(&mut self, text: &str) {
        let _ = text;
    }

    /// What can be detected in the time of a stage.
    fn precision(&mut self, found: &Precision) {
        let _ = found;
    }

    /// How far the stage has come.
    fn progress(&mut self, progress: Progress);

    /// A stage was measured, into this folder.
    fn measured(&mut self, done: &Measurement, dir: &Path) {
        let _ = (done, dir);
    }
}
