//! The parameters of recorded programs.

use std::path::PathBuf;

use ringfence_persist::Flush;
use serde::{Deserialize, Serialize};

use super::Target;
use super::axes::axes;
use super::parameters::Parameters;
use super::word::serde_as_word;
use crate::Reason;

/// What a program did to files that it had mapped, as `ringfence trace` recorded it, played over
/// and over.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// The recording's folder.
    pub file: PathBuf,
    /// Where the files' memory comes from.
    #[serde(default)]
    pub target: Target,
    /// By which instruction it flushes.
    #[serde(default)]
    pub flush: Flushes,
    /// What is taken of the loads, if they were recorded.
    #[serde(default)]
    pub loads: Loads,
}

/// By which instruction a recorded program flushes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Flushes {
    /// Each by its own.
    #[default]
    Recorded,
    /// The same, but none where caches survive a power failure: libpmem leaves them out there.
    AsNeeded,
    /// By none: they are left out. Fences stay.
    None,
    /// All by this instruction.
    By(Flush),
}

impl Flushes {
    const ALL: [Self; 3 + Flush::ALL.len()] = {
        let mut all = [Self::Recorded; 3 + Flush::ALL.len()];
        (all[1], all[2]) = (Self::AsNeeded, Self::None);
        let mut index = 0;
        while index < Flush::ALL.len() {
            all[3 + index] = Self::By(Flush::ALL[index]);
            index += 1;
        }
        all
    };

    const fn name(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::AsNeeded => "as-needed",
            Self::None => "none",
            Self::By(flush) => flush.name(),
        }
    }
}

serde_as_word!(Flushes);

/// Whether a load's address comes out of the load before it, which no recording says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Loads {
    /// None does.
    #[default]
    Independent,
    /// Each does, and what follows waits for it.
    Dependent,
}

impl Flushes {
    /// What a recorded flush becomes, on a machine whose caches survive or do not.
    pub fn instead_of(self, recorded: Flush, caches_survive: bool) -> Option<Flush> {
        match self {
            Self::Recorded => Some(recorded),
            Self::AsNeeded => (!caches_survive).then_some(recorded),
            Self::None => None,
            Self::By(flush) => Some(flush),
        }
    }
}

axes!(Trace: Traces, "trace" {
    file: PathBuf,
    target: Target,
    flush: Flushes,
    loads: Loads,
} needs file);

impl Parameters for Trace {
    fn unit(&self) -> &'static str {
        "events"
    }

    fn not_simulated(&self) -> Option<Reason> {
        None
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn check(&self) -> Result<(), String> {
        match self.file.as_os_str().is_empty() {
            true => Err("file is empty: name the folder that 'ringfence trace' wrote".into()),
            false => Ok(()),
        }
    }
}
