//! `manifest.json`: what the numbers in the samples mean, and where they come from.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

use ringfence_experiment::Kind;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::placement::Placed;
use ringfence_experiment::plan::{Case, NotRun, Plan};
use ringfence_experiment::scale::Scale;
use ringfence_experiment::start::Start;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::date::Date;
use super::error::DatasetError;
use super::version::SCHEMA;
use super::{MANIFEST, files};

/// The manifest of a dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Manifest {
    /// Version of the folder's format: [`SCHEMA`] where this program wrote it.
    pub schema: u32,
    /// The program that measured.
    pub program: String,
    /// Its version.
    pub version: String,
    /// The experiment's name.
    pub name: String,
    /// The study that it is a stage of; absent where it is none's, and in datasets of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// The question it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// The seed of everything random.
    pub seed: u64,
    /// When the folder was made, UTC, as RFC 3339 has it.
    pub created: String,
    /// When measuring was resumed after an interruption.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed: Vec<Resumption>,
    /// Which file holds the samples.
    pub state: State,
    /// Why measuring ended; `None` while unfinished.
    pub ended: Option<Ended>,
    /// The role whose rate is the figure.
    pub metric: String,
    /// The roles that take part; cases name them by their index here.
    pub roles: Vec<RoleEntry>,
    /// What is compared; samples name cases by their number.
    pub cases: Vec<CaseEntry>,
    /// Cases that the machine could not hold.
    pub not_run: Vec<NotRun>,
    /// Where each role ran.
    pub placed: Placed,
    /// How fast a chase was alone at its starts; empty where the victim is none, and while
    /// unfinished.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<Start>,
    /// What should be known of the figures, a sentence each, stored as text; those of each part
    /// where measuring was resumed. Absent where there is nothing, and while unfinished.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<String>,
    /// What the Parquet file must be; `None` while unfinished.
    pub samples: Option<SamplesFile>,
    /// What `latencies.parquet` must be; absent where no task counted latencies, and while
    /// unfinished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latencies: Option<SamplesFile>,
    /// What `disk.parquet` must be; absent where no task used a disk, before version 7, and while
    /// unfinished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<SamplesFile>,
    /// The latencies that distinguish hits from misses; absent where no task counts latencies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
}

/// That measuring was resumed after an interruption.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resumption {
    /// When, UTC, as RFC 3339 has it.
    pub at: String,
    /// When the last window before it ended, ns since the dataset's start.
    pub after_ns: u64,
    /// The same moment as `at`: no window after it starts earlier, ns since the dataset's start.
    pub from_ns: u64,
}

/// Which file holds the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "DatasetState"))]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// `samples.parquet`, all that was recorded.
    Complete,
    /// `samples.journal`: it is being measured, or the program was killed or could not finish.
    Unfinished,
}

/// A role and what it may run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoleEntry {
    /// Its name.
    pub name: String,
    /// Its tasks; cases name them by their index here, as `variant`.
    pub tasks: Vec<TaskEntry>,
}

/// A task, every parameter decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskEntry {
    /// What its work, `units` in the samples, is counted in.
    pub unit: String,
    /// The task as an experiment file has it.
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Map<String, Value>"))]
    pub task: Value,
}

/// A case and its number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CaseEntry {
    /// `case` and `step_case` in the samples.
    pub number: usize,
    /// What the metric's work is counted in.
    pub unit: String,
    /// The case.
    #[serde(flatten)]
    pub case: Case,
}

/// What a Parquet file must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SamplesFile {
    /// How many rows it holds.
    pub count: u64,
    /// How long it is, bytes.
    pub bytes: u64,
    /// XXH64 of its bytes with seed 0, in hexadecimal, as `xxhsum -H1` prints it.
    pub xxh64: String,
}

impl Manifest {
    /// That of a dataset which begins now.
    pub(super) fn new(plan: &Plan) -> Self {
        let experiment = &plan.experiment;
        let roles = experiment.roles.iter().zip(&plan.variants).map(|(role, variants)| {
            let entry = |task: &ringfence_experiment::task::Task| TaskEntry {
                unit: task.unit().into(),
                task: serde_json::to_value(task).expect("a task has text keys only"),
            };
            RoleEntry {
                name: role.name.clone(),
                tasks: variants.iter().map(|variant| entry(&variant.task)).collect(),
            }
        });
        let cases = plan.cases.iter().enumerate().map(|(number, case)| CaseEntry {
            number,
            unit: plan.metric_task(number).unit().into(),
            case: case.clone(),
        });
        Self {
            schema: SCHEMA,
            program: "ringfence".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            name: experiment.name.clone(),
            kind: experiment.kind.clone(),
            question: experiment.question.clone(),
            seed: experiment.seed,
            created: Date::new(SystemTime::now()).rfc3339(),
            resumed: Vec::new(),
            state: State::Unfinished,
            ended: None,
            metric: experiment.metric.clone(),
            roles: roles.collect(),
            cases: cases.collect(),
            not_run: plan.not_run.clone(),
            placed: plan.placed.clone(),
            said: Vec::new(),
            starts: Vec::new(),
            samples: None,
            latencies: None,
            disk: None,
            scale: None,
        }
    }

    /// The manifest of the same dataset when measuring continues now, the last window having ended
    /// at `after_ns`.
    pub(super) fn resume(mut self, after_ns: u64, from_ns: u64) -> Self {
        let at = Date::new(SystemTime::now()).rfc3339();
        // Where nothing was measured after the last time, that was none.
        self.resumed.retain(|earlier| earlier.from_ns <= after_ns);
        self.resumed.push(Resumption { at, after_ns, from_ns });
        // From here on the folder is written as this version does it.
        self.schema = SCHEMA;
        (self.state, self.ended, self.samples) = (State::Unfinished, None, None);
        (self.latencies, self.disk) = (None, None);
        self
    }

    /// How long ago the folder was made; `None` where the text is not a time, or one that is still
    /// to come.
    pub fn age(&self) -> Option<Duration> {
        let created = Date::parse(&self.created)?;
        SystemTime::now().duration_since(created).ok()
    }

    /// Writes it into the folder and replaces an existing one.
    pub(super) fn write(&self, dir: &Path) -> Result<(), DatasetError> {
        let text = serde_json::to_string_pretty(self).expect("a manifest has text keys only");
        let path = dir.join(MANIFEST);
        files::replace(&path, |mut file| {
            file.write_all((text + "\n").as_bytes()).map_err(DatasetError::io("write", &path))?;
            Ok((file, ()))
        })
    }
}
