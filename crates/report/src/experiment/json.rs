//! Experiments: one that was measured, datasets again, and shipped ones beside what was published.

use std::path::{Path, PathBuf};

use ringfence_analysis::disk_writes::Unreached;
use ringfence_analysis::estimate::{AaSummary, Estimate, serialize_estimate_if_any};
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
use ringfence_studies::reproduce::{self as reproduce, Agreement, Published};
use ringfence_studies::sensitivity::Sensitivity;
use serde::Serialize;

use crate::experiment::cases::json::{Case, cases};
use crate::html::Digest;
use crate::json::Document;

#[derive(Serialize)]
struct Experiment<'a> {
    dataset: String,
    experiment: &'a ringfence_experiment::Experiment,
    ended: Option<&'a Ended>,
    placement: &'a Placed,
    level: f64,
    samples: usize,
    simulated: bool,
    results: Vec<Case<'a>>,
    judged: &'a [Judged],
    frontier: &'a Frontier,
    sensitivity: Option<&'a Sensitivity>,
    latencies: &'a [CaseLatencies],
    unreached: &'a [Unreached],
    scale: Option<&'a Scale>,
    aa: Option<&'a AaSummary>,
    not_run: &'a [NotRun],
    starts: &'a [Start],
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
    Document { schema: "ringfence/experiment/3", body: Experiment::new(found, dir) }
}

/// Datasets again, each with its folder.
pub fn datasets(all: &[(PathBuf, Digest)]) -> impl Serialize {
    #[derive(Serialize)]
    struct Dataset<'a> {
        #[serde(flatten)]
        experiment: Experiment<'a>,
        unfinished: bool,
        manifest: &'a Manifest,
    }
    #[derive(Serialize)]
    struct Datasets<'a> {
        datasets: Vec<Dataset<'a>>,
    }
    let datasets = all
        .iter()
        .map(|(dir, digest)| Dataset {
            experiment: Experiment::new(&digest.findings, dir),
            unfinished: digest.unfinished,
            manifest: &digest.manifest,
        })
        .collect();
    Document { schema: "ringfence/datasets/2", body: Datasets { datasets } }
}

/// What keeps a region in the cache: what was said beforehand, and an experiment or several, each
/// with its folder.
pub fn lock_measured<'a>(
    notes: &'a [String],
    all: &'a [(PathBuf, Findings)],
) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Measured<'a> {
        notes: &'a [String],
        experiments: Vec<Experiment<'a>>,
    }
    let experiments = all.iter().map(|(dir, found)| Experiment::new(found, dir)).collect();
    Document { schema: "ringfence/lock-measure/3", body: Measured { notes, experiments } }
}

/// Shipped experiments beside what was published of them, their datasets in `dir`.
pub fn reproduced(all: &[reproduce::Reproduced], dir: &Path) -> impl Serialize {
    #[derive(Serialize)]
    struct Reproduced<'a> {
        dataset: String,
        experiments: Vec<One<'a>>,
    }
    #[derive(Serialize)]
    struct One<'a> {
        experiment: &'a str,
        question: Option<&'a str>,
        ended: Option<&'a Ended>,
        results: Vec<Case<'a>>,
        not_run: &'a [NotRun],
        rows: Vec<Row<'a>>,
    }
    #[derive(Serialize)]
    struct Row<'a> {
        published: &'a Published,
        against: f64,
        ratio: f64,
        figure: usize,
        measured: Measured<'a>,
        instead: Option<Measured<'a>>,
    }
    fn row<'a>(row: &'a reproduce::Row, all: &[reproduce::Row]) -> Row<'a> {
        Row {
            // The first row with the figure tells it from the others.
            figure: all.iter().position(|other| other.shares_figure(row)).unwrap_or_default(),
            published: &row.published,
            against: row.against,
            ratio: row.ratio,
            measured: Measured::from(&row.measured),
            instead: row.instead.as_ref().map(Measured::from),
        }
    }
    fn one(found: &reproduce::Reproduced) -> One<'_> {
        let plan = &found.findings.plan;
        One {
            experiment: &plan.experiment.name,
            question: plan.experiment.question.as_deref(),
            ended: found.findings.ended.as_ref(),
            results: cases(&found.findings.results),
            not_run: &plan.not_run,
            rows: found.rows.iter().map(|one| row(one, &found.rows)).collect(),
        }
    }
    let experiments = all.iter().map(one).collect();
    let body = Reproduced { dataset: dir.display().to_string(), experiments };
    Document { schema: "ringfence/reproduced/3", body }
}

#[derive(Default, Serialize)]
pub(crate) struct Measured<'a> {
    #[serde(serialize_with = "serialize_estimate_if_any")]
    ratio: Option<Estimate>,
    direction: Option<Agreement>,
    magnitude: Option<Agreement>,
    not_run: Option<&'a str>,
}

impl<'a> From<&'a reproduce::Measured> for Measured<'a> {
    fn from(measured: &'a reproduce::Measured) -> Self {
        match measured {
            reproduce::Measured::Ratio { interval, direction, magnitude } => Self {
                ratio: Some(Ok(*interval)),
                direction: Some(*direction),
                magnitude: Some(*magnitude),
                not_run: None,
            },
            reproduce::Measured::NotRun(why) => Self { not_run: Some(why), ..Self::default() },
            reproduce::Measured::NotEstimable(why) => {
                Self { ratio: Some(Err(*why)), ..Self::default() }
            }
        }
    }
}
