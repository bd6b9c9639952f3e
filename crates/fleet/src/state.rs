//! Where a task is.

use serde::Serialize;

/// Where a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "TaskState"))]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It has not begun.
    Waiting,
    /// It runs.
    Running,
    /// An attempt at it is complete.
    Done,
    /// It ended without figures, or its node died.
    Failed,
    /// It left nothing, and no process is going to run it.
    Missing,
    /// It is unknown whether it runs, so it is not run again.
    Unknown,
}

impl State {
    /// In one word, as in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
        }
    }

    /// Whether nothing more comes of it by itself.
    pub fn has_ended(self) -> bool {
        self == Self::Done || self.is_lost()
    }

    /// Whether `retry` runs it again.
    pub fn is_lost(self) -> bool {
        matches!(self, Self::Failed | Self::Missing)
    }
}
