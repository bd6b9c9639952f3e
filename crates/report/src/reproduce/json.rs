//! What was published beside what was simulated.

use std::path::Path;

use ringfence_analysis::estimate::{Estimate, serialize_estimate_if_any};
use ringfence_experiment::Reason;
use ringfence_experiment::plan::NotRun;
use ringfence_studies::reproduce::simulated::{self, Outcome, Score, Seconds, Simulated, Volume};
use ringfence_studies::reproduce::{Published, Reproduced, Row};
use serde::Serialize;

use crate::experiment::json::Measured;
use crate::json::Document;

/// Published figures beside simulated ones, the datasets in `dir`; `here` is what was measured of
/// an experiment on this host.
pub fn simulated<'a>(
    all: &'a [Simulated],
    here: &dyn Fn(&str) -> Option<&'a Reproduced>,
    dir: &Path,
) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Body<'a> {
        simulated: bool,
        dataset: String,
        simulations: Vec<One<'a>>,
        scores: Vec<OfReading<'a>>,
    }
    let mut readings: Vec<Option<&str>> = vec![None];
    for one in all {
        let name = one.alternative.as_ref().map(|alternative| alternative.name.as_str());
        if !readings.contains(&name) {
            readings.push(name);
        }
    }
    let score = |reading: Option<&'a str>| {
        let of =
            |one: &&Simulated| one.alternative.as_ref().map(|known| known.name.as_str()) == reading;
        OfReading { reading, score: Score::new(all.iter().filter(of)) }
    };
    let body = Body {
        simulated: true,
        dataset: dir.display().to_string(),
        simulations: all.iter().map(|one| One::new(one, here(&one.experiment))).collect(),
        scores: readings.into_iter().map(score).collect(),
    };
    Document { schema: "ringfence/reproduced-simulated/1", body }
}

#[derive(Serialize)]
struct OfReading<'a> {
    reading: Option<&'a str>,
    #[serde(flatten)]
    score: Score,
}

#[derive(Serialize)]
struct One<'a> {
    experiment: &'a str,
    question: Option<&'a str>,
    machine: &'a str,
    reading: Option<&'a str>,
    why: Option<&'a str>,
    not_run: Option<&'a str>,
    cases_not_run: &'a [NotRun],
    rows: Vec<Cell<'a>>,
    times: Vec<Time<'a>>,
}

#[derive(Serialize)]
struct Cell<'a> {
    published: &'a Published,
    against: f64,
    ratio: f64,
    neighbour: bool,
    simulated: Measured<'a>,
    error: Option<f64>,
    measured: Option<Measured<'a>>,
}

#[derive(Serialize)]
struct Time<'a> {
    published: &'a Published,
    volume: Volumes<'a>,
    #[serde(serialize_with = "serialize_estimate_if_any")]
    seconds: Option<Estimate>,
    not_run: Option<&'a str>,
    error: Option<f64>,
}

#[derive(Serialize)]
struct Volumes<'a> {
    bytes: u64,
    of: &'a str,
    why: &'a str,
}

impl<'a> From<&'a Volume> for Volumes<'a> {
    fn from(volume: &'a Volume) -> Self {
        Self { bytes: volume.bytes.0, of: &volume.of, why: &volume.why }
    }
}

impl<'a> One<'a> {
    fn new(one: &'a Simulated, here: Option<&'a Reproduced>) -> Self {
        let found = one.outcome.as_ref();
        Self {
            experiment: &one.experiment,
            question: one.question.as_deref(),
            machine: &one.machine.0,
            reading: one.alternative.as_ref().map(|alternative| alternative.name.as_str()),
            why: one.alternative.as_ref().map(|alternative| alternative.why.as_str()),
            not_run: found.err().map(Reason::as_str),
            cases_not_run: found.map_or(&[], |found| &found.reproduced.findings.plan.not_run),
            rows: found.map(|found| cells(found, here)).unwrap_or_default(),
            times: found.map(times).unwrap_or_default(),
        }
    }
}

fn cells<'a>(found: &'a Outcome, here: Option<&'a Reproduced>) -> Vec<Cell<'a>> {
    let cell = |(row, neighbour): (&'a Row, &bool)| {
        let same = |other: &&'a Row| other.published.is_same(&row.published);
        Cell {
            published: &row.published,
            against: row.against,
            ratio: row.ratio,
            neighbour: *neighbour,
            simulated: Measured::from(&row.measured),
            error: row.error(),
            measured: here
                .and_then(|here| here.rows.iter().find(same))
                .map(|row| Measured::from(&row.measured)),
        }
    };
    found.reproduced.rows.iter().zip(&found.neighbour).map(cell).collect()
}

fn times<'a>(found: &'a Outcome) -> Vec<Time<'a>> {
    let time = |time: &'a simulated::Time| {
        let simulated::Time { published, volume, simulated } = time;
        let error = time.error();
        let (seconds, not_run) = match simulated {
            Seconds::Time(interval) => (Some(Ok(*interval)), None),
            Seconds::NotRun(why) => (None, Some(why.as_str())),
            Seconds::NotEstimable(why) => (Some(Err(*why)), None),
        };
        Time { published, volume: volume.into(), seconds, not_run, error }
    };
    found.times.iter().map(time).collect()
}
