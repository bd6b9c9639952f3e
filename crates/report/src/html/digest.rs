//! What a page needs of a dataset: its figures without its samples, so that a page over many datasets
//! holds one of them at a time.

use ringfence_analysis::estimate::{AaSummary, Estimate};
use ringfence_analysis::frontier::{self, Frontier};
use ringfence_analysis::latency::{self, CaseLatencies};
use ringfence_analysis::results::{self, CaseResult};
use ringfence_analysis::timeline::{self, Timeline};
use ringfence_dataset::{Dataset, Manifest};
use ringfence_experiment::plan::Plan;
use ringfence_machine::Machine;
use ringfence_studies::sensitivity::Sensitivity;

/// Points that a time line is thinned to: about as many as a screen has room for.
const MOST_POINTS: usize = 700;

/// A dataset's figures.
#[derive(Debug, Clone)]
pub struct Digest {
    /// The folder's name.
    pub folder: String,
    /// What it says of itself.
    pub manifest: Manifest,
    /// The plan as it was carried out, with the experiment in it.
    pub plan: Plan,
    /// The machine that measured, where `machine.json` tells of one.
    pub machine: Option<Machine>,
    /// How many samples there are.
    pub samples: usize,
    /// Whether it is still being measured, or the program was killed.
    pub unfinished: bool,
    /// Every case.
    pub results: Vec<CaseResult>,
    /// For an A/A experiment: what it says of noise.
    pub aa: Option<AaSummary>,
    /// The same, experiment by experiment; empty for others.
    pub aa_estimates: Vec<Estimate>,
    /// Ways of writing.
    pub frontier: Frontier,
    /// Of a sensitivity experiment: its curves.
    pub sensitivity: Option<Sensitivity>,
    /// Windows over time.
    pub timeline: Timeline,
    /// Latencies that were counted, case by case.
    pub latencies: Vec<CaseLatencies>,
}

impl Digest {
    /// The figures of a dataset, every interval at the level that its looks leave to each, as everywhere.
    pub fn new(dataset: &Dataset) -> Self {
        let (plan, samples) = (&dataset.plan, &dataset.samples);
        let level = results::level(plan, samples);
        let folder = dataset.dir.canonicalize().unwrap_or_else(|_| dataset.dir.clone());
        Self {
            folder: folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            manifest: dataset.manifest.clone(),
            plan: plan.clone(),
            machine: serde_json::from_value(dataset.machine.clone()).ok(),
            samples: samples.len(),
            unfinished: dataset.unfinished(),
            results: results::results(plan, samples, level),
            aa: results::aa(plan, samples),
            aa_estimates: results::aa_estimates(plan, samples).unwrap_or_default(),
            frontier: frontier::frontier(plan, samples, level),
            sensitivity: Sensitivity::new(plan, samples),
            timeline: timeline::timeline(plan, samples, MOST_POINTS),
            latencies: latency::cases(plan, samples, dataset.manifest.scale.as_ref(), level),
        }
    }
}
