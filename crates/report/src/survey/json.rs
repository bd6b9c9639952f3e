//! A survey.

use std::path::Path;

use ringfence_analysis::estimate::Interval;
use ringfence_analysis::latency::CaseLatencies;
use ringfence_experiment::task::{Task, Write};
use ringfence_machine::Machine;
use ringfence_machine::units::Bytes;
use ringfence_studies::findings::Findings;
use ringfence_studies::survey::answer::{self, ForBlock, Harm, Seen};
use ringfence_studies::survey::parts::Parts;
use ringfence_studies::survey::{self, Advice, Outside, Probes};
use serde::Serialize;

use crate::experiment::cases::json::{Case, cases};

/// `survey`, and `show` of its folder.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/survey/3")]
pub(crate) struct Survey<'a> {
    /// Whether the machine is a described one: then no figure here is a measurement.
    simulated: bool,
    /// The folder of the samples, or of several such folders.
    dataset: String,
    /// The machine, as the kernel and the processor describe it.
    machine: &'a Machine,
    /// The machine, as probed.
    probes: &'a Probes,
    /// The target that was written to, and how large it was.
    target: &'a str,
    /// What durable writes cost.
    cost: Vec<CostRow<'a>>,
    /// What the cost is made of.
    parts: &'a [Parts],
    /// Which tasks writers slow down.
    neighbours: Vec<Neighbours<'a>>,
    /// What durable commits to files cost, alone and, on request, next to writers.
    files: Vec<Files<'a>>,
    /// The rate to which writers were paced.
    pace: Option<&'a str>,
    /// Starts of the chase at which it did not wait for the cache that it is meant for.
    outside: &'a [Outside],
    /// What was not run, and why.
    not_run: &'a [String],
    /// Half-widths of the slowdowns' intervals, as shares: the precision achieved.
    precision: Option<Precision>,
    /// Which flush to use, and what it does to others; none where no cost is known.
    answer: Option<Answer<'a>>,
    /// What follows, most useful first.
    advice: Vec<Advised<'a>>,
    /// Why it ended, where not after everything was measured.
    ended_early: Option<&'a str>,
}

/// One cell of the cost table.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct CostRow<'a> {
    /// How it was written.
    write: &'a Write,
    /// ns per line, and trials.
    result: Case<'a>,
}

/// A victim's table.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Neighbours<'a> {
    /// The victim, by name.
    victim: &'a str,
    /// Its task in full.
    task: &'a Task,
    /// Its rows.
    rows: Vec<NeighbourRow<'a>>,
}

/// One co-runner of a victim.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct NeighbourRow<'a> {
    /// The co-runner, by name: an instruction, `alu` or `idle`.
    co_runner: &'a str,
    /// The size of a writer's block; null for co-runners that do not write.
    block: Option<Bytes>,
    /// The co-runner, and its block where that is not 4 KiB: one row of a table.
    label: &'a str,
    /// Whether it was paced.
    paced: bool,
    /// What came of it, at 95 %.
    result: Case<'a>,
    /// The slowdown at a level at which all of the survey's slowdowns hold together: what advice
    /// may rest on.
    together: Option<Interval>,
    /// What is said of it, wherever something is.
    seen: Seen,
}

/// An experiment with commits to files.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Files<'a> {
    /// Its name, which is that of the folder of its dataset.
    name: &'a str,
    /// What it asks.
    question: Option<&'a str>,
    /// Every case that was measured.
    results: Vec<Case<'a>>,
    /// Latencies of commits, case by case.
    latencies: &'a [CaseLatencies],
}

/// Half-widths, as shares: 0.01 is 1 %.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Precision {
    /// In the median.
    median: f64,
    /// At worst.
    worst: f64,
}

/// The answer.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Answer<'a> {
    /// In a few sentences.
    headline: String,
    /// By block.
    blocks: &'a [ForBlock],
    /// What writers do to others at full rate: by each instruction in blocks of 4 KiB, and by what
    /// is cheapest in the other blocks.
    harms: &'a [Harm],
}

/// What is cheapest for such blocks.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Advised<'a> {
    /// The same in words.
    sentence: String,
    #[serde(flatten)]
    advice: &'a Advice,
}

/// A survey, its datasets in `dir`.
pub fn survey(found: &survey::Survey, dir: &Path) -> impl Serialize {
    Survey {
        simulated: found.is_simulated(),
        dataset: dir.display().to_string(),
        machine: &found.machine,
        probes: &found.probes,
        target: &found.target,
        cost: found.cost.iter().map(CostRow::from).collect(),
        parts: &found.parts,
        neighbours: found.neighbours.iter().map(Neighbours::from).collect(),
        files: found.files.iter().map(Files::from).collect(),
        pace: found.pace.as_deref(),
        outside: &found.outside,
        not_run: &found.not_run,
        precision: found.precision.map(|(median, worst)| Precision { median, worst }),
        answer: found.answer.as_ref().map(Answer::from),
        advice: found.advice.iter().map(Advised::from).collect(),
        ended_early: found.ended_early.as_deref(),
    }
}

impl<'a> From<&'a survey::CostRow> for CostRow<'a> {
    fn from(row: &'a survey::CostRow) -> Self {
        Self { write: &row.write, result: Case::from(&row.result) }
    }
}

impl<'a> From<&'a survey::Neighbours> for Neighbours<'a> {
    fn from(table: &'a survey::Neighbours) -> Self {
        let rows = table.rows.iter().map(NeighbourRow::from).collect();
        Self { victim: &table.victim, task: &table.task, rows }
    }
}

impl<'a> From<&'a survey::NeighbourRow> for NeighbourRow<'a> {
    fn from(row: &'a survey::NeighbourRow) -> Self {
        Self {
            co_runner: &row.co_runner,
            block: row.block,
            label: &row.label,
            paced: row.paced,
            result: Case::from(&row.result),
            together: row.together,
            seen: row.seen,
        }
    }
}

impl<'a> From<&'a Findings> for Files<'a> {
    fn from(found: &'a Findings) -> Self {
        let experiment = &found.plan.experiment;
        Self {
            name: &experiment.name,
            question: experiment.question.as_deref(),
            results: cases(&found.results),
            latencies: &found.latencies,
        }
    }
}

impl<'a> From<&'a answer::Answer> for Answer<'a> {
    fn from(answer: &'a answer::Answer) -> Self {
        Self { headline: crate::headline(answer), blocks: &answer.blocks, harms: &answer.harms }
    }
}

impl<'a> From<&'a Advice> for Advised<'a> {
    fn from(advice: &'a Advice) -> Self {
        Self { sentence: crate::advice(advice), advice }
    }
}
