//! How changes are made, and what watches them.

use std::path::PathBuf;
use std::sync::Arc;

/// The progress of changes; steps are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The journal is started.
    Begun,
    /// A step is in the journal and not taken.
    Noted(usize),
    /// A step is taken; what came of it is not noted.
    Taken(usize),
    /// A step of the restoration is done, or has failed.
    Undone(usize),
    /// Everything is restored; the journal still exists.
    Back,
}

/// Options for making and undoing changes.
#[derive(Clone, Default)]
pub struct Options {
    /// The journal's folder, instead of `/run/ringfence` or, if that is not writable,
    /// `$XDG_RUNTIME_DIR/ringfence`.
    pub folder: Option<PathBuf>,
    /// Called at every moment, for tests that die there.
    #[allow(clippy::type_complexity)]
    pub watch: Option<Arc<dyn Fn(Moment) + Send + Sync>>,
}

impl Options {
    pub(crate) fn at(&self, moment: Moment) {
        if let Some(watch) = &self.watch {
            watch(moment);
        }
    }
}
