//! What is asked, and what is kept of it in the folder of the answer.

use std::path::{Path, PathBuf};

use ringfence_dataset::text_file;
use ringfence_experiment::budget::Budget;
use ringfence_experiment::task::{OneTask, Task};
use ringfence_experiment::units::Span;
use ringfence_experiment::{Error, Measure, PlacementKind, Reason};
use ringfence_machine::cpulist::CpuSet;
use serde::{Deserialize, Serialize};

use super::{Control, Worked};
use ringfence_limits::lever::Candidate;

/// The version of the record's format that is written; all from 1 on are read. Version 1 calls
/// `trials` `lives`, `candidates` `offers`, and the baseline's folder `look`.
pub const SCHEMA: u32 = 2;

/// What is asked of `prove`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ProofQuestion"))]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The victim's task.
    pub victim: OneTask,
    /// The aggressor's task.
    pub aggressor: OneTask,
    /// Aggressors at once.
    pub aggressors: u32,
    /// The victim's CPU, instead of the placement's.
    pub victim_cpus: Option<CpuSet>,
    /// The aggressors' CPUs, instead of the placement's.
    pub aggressor_cpus: Option<CpuSet>,
    /// Where aggressors run relative to the victim.
    pub placement: PlacementKind,
    /// The slowdown of the victim that is allowed, or how long the quantity in `measure` may be.
    pub budget: Budget,
    /// Window, settling, probe, rounds and confidence; looks and limits are each stage's own.
    pub measure: Measure,
    /// At most so many trials in the baseline and in a confirmation; absent:
    /// [`Question::most_trials`].
    #[serde(alias = "lives")]
    pub trials: Option<u32>,
    /// Seed of everything random.
    pub seed: u64,
    /// The levers that are tried; empty: all.
    pub levers: Vec<String>,
    /// Environment variables that are tried besides those of PMDK.
    pub try_env: Vec<(String, String)>,
    /// Another folder for a built-in aggressor's files, resolved and absolute; absent: that is not
    /// tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_dir: Option<PathBuf>,
    /// Whether settings of the whole system may be changed; absent: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub system: bool,
    /// Time for everything, shared by all stages: see [`super::time`].
    pub time: Option<Span>,
}

impl Question {
    /// Whether its victim is controlled: built-in workloads are known to count their work.
    pub fn wants_control(&self) -> bool {
        matches!(self.victim.task(), Task::Command(_))
    }

    /// Trials at most in the baseline and in a confirmation, by default.
    pub fn most_trials(&self, whole_runs: bool) -> u32 {
        self.trials.unwrap_or(if whole_runs { 24 } else { 48 })
    }
}

// What has no time stands among the levers without a candidate.
pub(super) const ANY_LEVER: &str = "any lever";
pub(super) const OTHER_SETTINGS: &str = "other settings";

/// Whether this entry among the levers without a candidate is about time.
pub(super) fn is_of_time(name: &str) -> bool {
    [ANY_LEVER, OTHER_SETTINGS].contains(&name)
}

/// What separates the reason from the names of the settings that were left out.
pub(super) const LEFT_OUT: &str = "; left out: ";

/// What is kept besides the datasets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Record {
    /// The version of the format.
    pub schema: u32,
    /// Always `prove`.
    pub kind: String,
    /// What was asked.
    pub question: Question,
    /// What the levers offered, once the baseline has shown that one is needed.
    #[serde(alias = "offers")]
    pub candidates: Option<Vec<Candidate>>,
    /// Levers without a candidate, and why.
    pub refused: Vec<(String, Reason)>,
    /// The victim stopped half of the time, where it is a program; absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Control>,
    /// What the aggressor did in the baseline; absent in older records, and where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worked: Option<Worked>,
    /// The lever that was to be measured again, and why it was not: the time left was too short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unconfirmed: Option<(String, Reason)>,
    /// The `--time` in which the stages that had no time would have it; absent if all had, and in
    /// older records, whose reasons name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enough_time: Option<Span>,
}

impl Record {
    /// The record of a question that has just been asked.
    pub fn new(question: &Question) -> Self {
        let question = question.clone();
        Self {
            schema: SCHEMA,
            kind: "prove".into(),
            question,
            candidates: None,
            refused: Vec::new(),
            control: None,
            worked: None,
            unconfirmed: None,
            enough_time: None,
        }
    }
}

/// Where everything lies in the folder.
#[derive(Debug, Clone)]
pub struct Files(PathBuf);

impl Files {
    /// Those of a folder.
    pub fn of(dir: &Path) -> Self {
        Self(dir.into())
    }

    /// The record's name.
    pub const RECORD: &str = "question.json";

    /// The record.
    pub fn record(&self) -> PathBuf {
        self.0.join(Self::RECORD)
    }

    /// The baseline's dataset; in folders of before it was called so, `look`.
    pub fn baseline(&self) -> PathBuf {
        let (now, before) = (self.0.join("baseline"), self.0.join("look"));
        if !now.exists() && before.exists() { before } else { now }
    }

    /// The levers' dataset.
    pub fn levers(&self) -> PathBuf {
        self.0.join("levers")
    }

    /// The dataset of a confirmation, counted from 0.
    pub fn confirmation(&self, number: usize) -> PathBuf {
        self.0.join(format!("confirm-{}", number + 1))
    }

    /// Reads the record.
    ///
    /// # Errors
    /// One sentence.
    pub fn read(&self) -> Result<Record, Error> {
        let path = self.record();
        let text = text_file::read(&path, text_file::LONGEST).map_err(|error| {
            let hint = "name a folder that 'ringfence prove' wrote";
            Error::usage(format!("{}: {error}; {hint}", path.display())).because(error)
        })?;
        let damaged =
            |why: String| Error::usage(format!("{}: {why}; restore the original", path.display()));
        let record: Record = serde_json::from_str(&text).map_err(|error| {
            damaged(format!("this is not a valid record ({error})")).because(error)
        })?;
        match (record.schema, record.kind.as_str()) {
            (1..=SCHEMA, "prove") => Ok(Record { schema: SCHEMA, ..record }),
            (1..=SCHEMA, kind) => {
                Err(damaged(format!("this is the record of another verb, '{kind}'")))
            }
            (newer, _) => Err(Error::usage(format!(
                "{}: schema {newer} is newer than this program, which reads 1 to {SCHEMA}: use a \
                 newer ringfence",
                path.display()
            ))),
        }
    }
}
