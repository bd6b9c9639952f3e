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
use crate::json::Document;

#[derive(Serialize)]
struct Survey<'a> {
    simulated: bool,
    dataset: String,
    machine: &'a Machine,
    probes: &'a Probes,
    target: &'a str,
    cost: Vec<CostRow<'a>>,
    parts: &'a [Parts],
    neighbours: Vec<Neighbours<'a>>,
    files: Vec<Files<'a>>,
    pace: Option<&'a str>,
    outside: &'a [Outside],
    not_run: &'a [String],
    precision: Option<Precision>,
    answer: Option<Answer<'a>>,
    advice: Vec<Advised<'a>>,
    ended_early: Option<&'a str>,
}

#[derive(Serialize)]
struct CostRow<'a> {
    write: &'a Write,
    result: Case<'a>,
}

#[derive(Serialize)]
struct Neighbours<'a> {
    victim: &'a str,
    task: &'a Task,
    rows: Vec<NeighbourRow<'a>>,
}

#[derive(Serialize)]
struct NeighbourRow<'a> {
    co_runner: &'a str,
    block: Option<Bytes>,
    label: &'a str,
    paced: bool,
    result: Case<'a>,
    together: Option<Interval>,
    seen: Seen,
}

// Commits to files.
#[derive(Serialize)]
struct Files<'a> {
    name: &'a str,
    question: Option<&'a str>,
    results: Vec<Case<'a>>,
    latencies: &'a [CaseLatencies],
}

#[derive(Serialize)]
struct Precision {
    median: f64,
    worst: f64,
}

#[derive(Serialize)]
struct Answer<'a> {
    headline: String,
    blocks: &'a [ForBlock],
    harms: &'a [Harm],
}

#[derive(Serialize)]
struct Advised<'a> {
    sentence: String,
    #[serde(flatten)]
    advice: &'a Advice,
}

/// A survey, its datasets in `dir`.
pub fn survey(found: &survey::Survey, dir: &Path) -> impl Serialize {
    let body = Survey {
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
    };
    Document { schema: "ringfence/survey/3", body }
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
