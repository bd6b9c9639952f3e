//! How a group shares what it has.

use serde::{Deserialize, Serialize};

/// How a group shares what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "GroupMode"))]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Other groups may use the same ways.
    Shareable,
    /// No other group may.
    Exclusive,
    /// Being set up for pseudo-locking: has no tasks, CPUs or monitoring.
    PseudoLocksetup,
    /// Represents a pseudo-locked region.
    PseudoLocked,
}

impl Mode {
    /// The kernel's word.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Shareable => "shareable",
            Mode::Exclusive => "exclusive",
            Mode::PseudoLocksetup => "pseudo-locksetup",
            Mode::PseudoLocked => "pseudo-locked",
        }
    }

    pub(crate) fn of(word: &str) -> Option<Self> {
        [Mode::Shareable, Mode::Exclusive, Mode::PseudoLocksetup, Mode::PseudoLocked]
            .into_iter()
            .find(|mode| mode.word() == word)
    }
}
