//! Experiments: one that was measured, and datasets again.

use std::path::{Path, PathBuf};

use ringfence_analysis::disk_writes::Unreached;
use ringfence_analysis::estimate::AaSummary;
use ringfence_analysis::frontier::Frontier;
use ringfence_analysis::latency::CaseLatencies;
use ringfence_analysis::verdicts::Judged;
use ringfence_dataset::Manifest;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::placement::Placed;
use ringfence_experiment::plan::NotRun;
use ringfence_experiment::scale::Scale;
use ringfence_experiment::start::Start;
use ringfence_studies::findings::Findings;
use ringfence_studies::sensitivity::Sensitivity;
use serde::Serialize;

use crate::experiment::cases::json::{Case, cases};
use crate::html::Digest;

/// `write`, `neighbours`, `run`, `aa`, `sensitivity`: an experiment that was measured just now.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/experiment/3")]
pub(crate) struct Measured<'a> {
    /// The experiment as in a file.
    #[serde(flatten)]
    experiment: Experiment<'a>,
}

/// `show`, and `run --resume` where nothing is left to do: datasets again, from their samples.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/datasets/2")]
pub(crate) struct Datasets<'a> {
    /// Each of the folder.
    datasets: Vec<Dataset<'a>>,
}

/// `lock measure`.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/lock-measure/3")]
pub(crate) struct LockMeasured<'a> {
    /// What was not tried, and why, a sentence each.
    notes: &'a [String],
    /// What was measured; several where flush instructions were tried in a locked region.
    experiments: Vec<Experiment<'a>>,
}

/// An experiment, and what its folder says of itself.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Dataset<'a> {
    /// The experiment as in a file.
    #[serde(flatten)]
    experiment: Experiment<'a>,
    /// Whether it is still being measured, or the program was killed.
    unfinished: bool,
    /// The folder's `manifest.json`.
    manifest: &'a Manifest,
}

/// An experiment and what came of it.
#[derive(Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "MeasuredExperiment")
)]
struct Experiment<'a> {
    /// The folder of the samples, or of several such folders.
    dataset: String,
    /// The experiment as in a file.
    experiment: &'a ringfence_experiment::Experiment,
    /// Why measuring ended; null while it is unfinished.
    ended: Option<&'a Ended>,
    /// On which CPUs each role ran.
    placement: &'a Placed,
    /// The confidence level of each interval, such that all looks together have the experiment's
    /// confidence.
    level: f64,
    /// How many samples there are.
    samples: usize,
    /// Whether these figures were simulated on a described machine: then nothing here was measured.
    simulated: bool,
    /// Every case that was measured, in order.
    results: Vec<Case<'a>>,
    /// Cases that the experiment holds against a limit (its `decide`); empty where there is none.
    judged: &'a [Judged],
    /// Ways of writing: flushed bytes a second against the victim's slowdown.
    frontier: &'a Frontier,
    /// Of `ringfence sensitivity`: its curves.
    sensitivity: Option<&'a Sensitivity>,
    /// Latencies that tasks counted, case by case.
    latencies: &'a [CaseLatencies],
    /// Durable ways to commit, by what the kernel promises, of which not every commit reached the
    /// disk, by its own count.
    unreached: &'a [Unreached],
    /// What tells hits from misses; null where no latencies were counted, or it could not be
    /// measured.
    scale: Option<&'a Scale>,
    /// Of an A/A experiment: what it says of noise.
    aa: Option<&'a AaSummary>,
    /// Cases that this machine could not hold.
    not_run: &'a [NotRun],
    /// How fast a chase as the victim was alone at its starts.
    starts: &'a [Start],
    /// What another process has set in resctrl meanwhile, a sentence each: it was left alone. Known
    /// of what was measured just now.
    left: &'a [String],
}

impl<'a> Experiment<'a> {
    fn new(found: &'a Findings, dir: &Path) -> Self {
        let plan = &found.plan;
        Self {
            dataset: dir.display().to_string(),
            experiment: &plan.experiment,
            ended: found.ended.as_ref(),
            placement: &plan.placed,
            level: found.level,
            samples: found.samples,
            simulated: found.simulated,
            results: cases(&found.results),
            judged: &found.judged,
            frontier: &found.frontier,
            sensitivity: found.sensitivity.as_ref(),
            latencies: &found.latencies,
            unreached: &found.unreached,
            scale: found.scale.as_ref(),
            aa: found.aa.as_ref(),
            not_run: &plan.not_run,
            starts: &found.starts,
            left: &found.left,
        }
    }
}

/// An experiment that was measured, its dataset in `dir`.
pub fn experiment(found: &Findings, dir: &Path) -> impl Serialize {
    Measured { experiment: Experiment::new(found, dir) }
}

/// Datasets again, each with its folder.
pub fn datasets(all: &[(PathBuf, Digest)]) -> impl Serialize {
    let datasets = all
        .iter()
        .map(|(dir, digest)| Dataset {
            experiment: Experiment::new(&digest.findings, dir),
            unfinished: digest.unfinished,
            manifest: &digest.manifest,
        })
        .collect();
    Datasets { datasets }
}

/// What keeps a region in the cache: what was said beforehand, and an experiment or several, each
/// with its folder.
pub fn lock_measured<'a>(
    notes: &'a [String],
    all: &'a [(PathBuf, Findings)],
) -> impl Serialize + use<'a> {
    let experiments = all.iter().map(|(dir, found)| Experiment::new(found, dir)).collect();
    LockMeasured { notes, experiments }
}
