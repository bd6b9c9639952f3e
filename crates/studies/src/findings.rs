//! What an experiment found: every figure of it, computed once, to be shown as text, JSON or a
//! page.

use ringfence_analysis::cheapest::{self, Cheapest};
use ringfence_analysis::disk_writes::{self, Unreached};
use ringfence_analysis::estimate::{AaSummary, Estimate};
use ringfence_analysis::frontier::{self, Frontier, OnDisk};
use ringfence_analysis::latency::{self, CaseLatencies};
use ringfence_analysis::results::{self, CaseResult};
use ringfence_analysis::stalls::{self, Stalls};
use ringfence_analysis::timeline::{self, Timeline};
use ringfence_analysis::verdicts::{self, Judged};
use ringfence_dataset::Dataset;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use ringfence_experiment::scale::Scale;
use ringfence_experiment::start::Start;

use crate::measure::Measurement;
use crate::sensitivity::Sensitivity;

/// Points that a time line is thinned to: about as many as a screen has room for.
const MOST_POINTS: usize = 700;

/// An experiment's figures, every interval at [`level`](Self::level).
#[derive(Debug, Clone)]
pub struct Findings {
    /// The plan as it was carried out: the experiment, its cases, where it was placed, what was not
    /// run.
    pub plan: Plan,
    /// The level that the experiment's looks leave to each interval, such as 0.95.
    pub level: f64,
    /// How many samples there are.
    pub samples: usize,
    /// Whether any of these was simulated, so that no figure here is a measurement.
    pub simulated: bool,
    /// Every case that was measured.
    pub results: Vec<CaseResult>,
    /// Cases that are compared with a limit.
    pub judged: Vec<Judged>,
    /// For an A/A experiment: its result about noise.
    pub aa: Option<AaSummary>,
    /// The same, experiment by experiment; empty for others.
    pub aa_estimates: Vec<Estimate>,
    /// Ways of writing.
    pub frontier: Frontier,
    /// Ways to commit and to write to files.
    pub on_disk: Vec<OnDisk>,
    /// Of a sensitivity experiment: its curves.
    pub sensitivity: Option<Sensitivity>,
    /// Windows over time.
    pub timeline: Timeline,
    /// The longest commits over time, and what the disk did; empty where no task uses one.
    pub stalls: Stalls,
    /// Methods to commit with commits that did not reach the disk.
    pub unreached: Vec<Unreached>,
    /// The cheapest methods to commit, compared trial by trial.
    pub cheapest: Option<Cheapest>,
    /// Latencies that were counted, case by case.
    pub latencies: Vec<CaseLatencies>,
    /// The latencies that distinguish hits from misses, where latencies were counted.
    pub scale: Option<Scale>,
    /// How fast a chase as the victim was alone at its starts.
    pub starts: Vec<Start>,
    /// Why it ended; none while it is being measured, or where the program was killed.
    pub ended: Option<Ended>,
    /// Changes that another process made to resctrl meanwhile, one sentence each; known only for
    /// the measurements of this run.
    pub left: Vec<String>,
}

impl Findings {
    /// From a plan and its samples; what else is known of the measurement is for the caller to add.
    pub fn new(plan: &Plan, samples: &[Sample], scale: Option<Scale>) -> Self {
        let level = results::level(plan, samples);
        let aa_estimates = results::aa_estimates(plan, samples);
        let confidence = plan.experiment.measure.confidence.0;
        let results = results::results(plan, samples, level);
        let latencies = latency::cases(plan, samples, scale.as_ref(), level);
        Self {
            plan: plan.clone(),
            level,
            samples: samples.len(),
            simulated: samples.iter().any(|sample| sample.simulated == Some(true)),
            aa: aa_estimates.as_ref().map(|estimates| AaSummary::new(estimates, confidence)),
            aa_estimates: aa_estimates.unwrap_or_default(),
            judged: verdicts::judged(plan, samples, level),
            frontier: frontier::frontier(plan, samples, level),
            on_disk: frontier::on_disk(plan, samples, &results, &latencies, level),
            sensitivity: Sensitivity::new(plan, samples),
            timeline: timeline::timeline(plan, samples, MOST_POINTS),
            stalls: stalls::stalls(plan, samples, MOST_POINTS),
            unreached: disk_writes::unreached(plan, samples),
            cheapest: cheapest::cheapest(plan, samples, &results, level),
            latencies,
            results,
            scale,
            starts: Vec::new(),
            ended: None,
            left: Vec::new(),
        }
    }
}

impl From<&Measurement> for Findings {
    fn from(done: &Measurement) -> Self {
        Self {
            starts: done.starts.clone(),
            ended: Some(done.ended.clone()),
            left: done.left.clone(),
            ..Self::new(&done.plan, &done.samples, done.scale)
        }
    }
}

impl From<&Dataset> for Findings {
    fn from(dataset: &Dataset) -> Self {
        let manifest = &dataset.manifest;
        Self {
            starts: manifest.starts.clone(),
            ended: manifest.ended.clone(),
            ..Self::new(&dataset.plan, &dataset.samples, manifest.scale)
        }
    }
}
