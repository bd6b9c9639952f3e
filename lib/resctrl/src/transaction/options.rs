//! How a transaction is run, and what watches it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The progress of a transaction; steps are counted from 0 over the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// It has the lock and has read everything; nothing is written down.
    Read,
    /// The journal is started.
    Begun,
    /// A step is in the journal and not taken.
    Noted(usize),
    /// A step is taken.
    Taken(usize),
    /// Everything is restored; the journal still exists.
    Back,
}

/// How a transaction is run.
#[derive(Clone, Default)]
pub struct Options {
    /// The folder of journal and lock, instead of `/run/ringfence` or, if that is not writable,
    /// `$XDG_RUNTIME_DIR/ringfence`.
    pub folder: Option<PathBuf>,
    /// How long to wait for another transaction to end.
    pub wait: Duration,
    /// Called at every moment, for progress and for tests that die there.
    #[allow(clippy::type_complexity)]
    pub watch: Option<Arc<dyn Fn(Moment) + Send + Sync>>,
}

impl Options {
    pub(super) fn at(&self, moment: Moment) {
        if let Some(watch) = &self.watch {
            watch(moment);
        }
    }
}
