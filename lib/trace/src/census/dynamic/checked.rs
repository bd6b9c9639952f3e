//! What a program would gain or lose by other instructions, predicted and measured.

use ringfence_persist::Flush;
use serde::{Serialize, Serializer};

use super::saving::Cost;

/// A change of what is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(
        rename = "ExecutionChange",
        with = "String",
        extend("enum" = ["clflush", "clflushopt", "clwb", "no flush", "nothing needless"])
    )
)]
pub enum Change {
    /// This instruction in place of every flush.
    By(Flush),
    /// No flush at all; fences stay.
    NoFlush,
    /// No flush and no fence that was needless.
    Needed,
}

impl Change {
    /// In words, as a heading of what follows from it.
    pub fn words(self) -> &'static str {
        match self {
            Self::By(Flush::Clflush) => "clflush instead",
            Self::By(Flush::Clflushopt) => "clflushopt instead",
            Self::By(Flush::Clwb) => "clwb instead",
            Self::NoFlush => "no flush",
            Self::Needed => "nothing needless",
        }
    }
}

impl Serialize for Change {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(match self {
            Self::By(flush) => flush.name(),
            Self::NoFlush => "no flush",
            Self::Needed => "nothing needless",
        })
    }
}

/// A figure, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ExecutionFigure"))]
#[serde(untagged)]
pub enum Figure {
    /// The figure.
    Known(Cost),
    /// The reason.
    NotRun {
        /// In a sentence without its stop.
        not_run: String,
    },
}

impl Figure {
    /// The figure, if there is one.
    pub fn known(&self) -> Option<&Cost> {
        match self {
            Self::Known(cost) => Some(cost),
            Self::NotRun { .. } => None,
        }
    }
}

impl From<Result<Cost, String>> for Figure {
    fn from(result: Result<Cost, String>) -> Self {
        match result {
            Ok(cost) => Self::Known(cost),
            Err(not_run) => Self::NotRun { not_run },
        }
    }
}

/// A change of what a run takes, compared with how it was recorded.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Changed {
    /// What is changed: this instruction replaces every flush; there is no flush, while fences
    /// stay; or there is nothing needless, neither flush nor fence.
    pub change: Change,
    /// What has the program do so: variables, as a shell takes them; empty where nothing has.
    pub environment: String,
    /// The difference that playing the trace back had.
    pub predicted: Figure,
    /// The difference that running the program had in its processor time.
    pub measured: Figure,
}

impl Changed {
    /// Whether the two intervals meet; `None` where one is missing.
    pub fn agree(&self) -> Option<bool> {
        let (predicted, measured) = (self.predicted.known()?, self.measured.known()?);
        Some(predicted.low <= measured.high && measured.low <= predicted.high)
    }
}

/// A prediction and its check.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Checked {
    /// The instruction that was recorded most; `None`: no flush was.
    pub instruction: Option<&'static str>,
    /// What all flushes and fences take that were recorded, played back.
    pub durability: Figure,
    /// Processor time of a run as it was recorded.
    pub run: Figure,
    /// Mappings in which it was played back.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub mappings: u32,
    /// Runs of the program in each way.
    pub runs: u32,
    /// What changes by what.
    pub changes: Vec<Changed>,
}
