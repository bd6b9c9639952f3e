//! What was published beside what was measured, and beside what was simulated.

use std::path::Path;

use ringfence_analysis::estimate::{Estimate, serialize_estimate_if_any};
use ringfence_experiment::Reason;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::plan::NotRun;
use ringfence_studies::reproduce::simulated::{self, Outcome, Score, Seconds, Simulated, Volume};
use ringfence_studies::reproduce::{self as reproduce, Agreement, Published};
use serde::Serialize;

use crate::experiment::cases::json::{Case, cases};

/// `reproduce`: shipped experiments beside what was published of them.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/reproduced/3")]
pub(crate) struct ReproducedDocument<'a> {
    /// The folder of the samples, or of several such folders.
    dataset: String,
    /// Each that was chosen, in order.
    experiments: Vec<Reproduced<'a>>,
}

/// `reproduce --simulated`: published figures beside those of described machines.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/reproduced-simulated/1")]
pub(crate) struct SimulatedDocument<'a> {
    /// Nothing here was measured, except what `measured` holds.
    #[cfg_attr(feature = "schema", schemars(extend("const" = true)))]
    simulated: bool,
    /// The folder of the samples, or of several such folders.
    dataset: String,
    /// Each experiment, on each machine, in each reading of what was left open.
    simulations: Vec<Simulation<'a>>,
    /// How near they come, by reading.
    scores: Vec<OfReading<'a>>,
}

/// A shipped experiment.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Reproduced<'a> {
    /// Its name.
    experiment: &'a str,
    /// What it asks.
    question: Option<&'a str>,
    /// Why measuring ended.
    ended: Option<&'a Ended>,
    /// Every case that was measured.
    results: Vec<Case<'a>>,
    /// Cases that this machine could not hold.
    not_run: &'a [NotRun],
    /// Each published comparison.
    rows: Vec<Row<'a>>,
}

/// A published comparison and what was measured.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ReproducedRow"))]
struct Row<'a> {
    /// A figure as it was published, in its own unit, and the case of a shipped experiment that it
    /// belongs to.
    published: &'a Published,
    /// The published time of the case that it is set against, s.
    against: f64,
    /// The published ratio.
    ratio: f64,
    /// The number of the measured figure: rows of an experiment with one number are compared with
    /// one figure.
    figure: usize,
    /// The same here.
    measured: Ratio<'a>,
    /// What was measured on other hardware, where the case itself was not run.
    instead: Option<Ratio<'a>>,
}

/// A ratio on this machine.
#[derive(Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Ratio<'a> {
    /// The case's time over that of the case it is set against; null where it was not run.
    #[serde(serialize_with = "serialize_estimate_if_any")]
    ratio: Option<Estimate>,
    /// Whether what was published points the same way.
    direction: Option<Agreement>,
    /// Whether it is about as large.
    magnitude: Option<Agreement>,
    /// Why it cannot be run here; null where it was run.
    not_run: Option<&'a str>,
}

/// How near simulated figures come to published ones, in one reading.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct OfReading<'a> {
    /// The reading; null for the first one.
    reading: Option<&'a str>,
    #[serde(flatten)]
    score: Score,
}

/// A shipped experiment on a described machine, as far as something was published of it.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Simulation<'a> {
    /// Its name.
    experiment: &'a str,
    /// What it asks.
    question: Option<&'a str>,
    /// The described machine's name.
    machine: &'a str,
    /// Another reading of what the publication leaves open; null for the first one.
    reading: Option<&'a str>,
    /// What is left open, and where the reading comes from.
    why: Option<&'a str>,
    /// Why nothing of it was simulated; null where something was.
    not_run: Option<&'a str>,
    /// Cases that could not be simulated.
    cases_not_run: &'a [NotRun],
    /// Each published comparison.
    rows: Vec<SimulatedRow<'a>>,
    /// Times that were published for so many bytes.
    times: Vec<Time<'a>>,
}

/// A published comparison and what was simulated.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct SimulatedRow<'a> {
    /// A figure as it was published, in its own unit, and the case of a shipped experiment that it
    /// belongs to.
    published: &'a Published,
    /// The published time of the case that it is set against, s.
    against: f64,
    /// The published ratio.
    ratio: f64,
    /// Whether more than one task runs in the case.
    neighbour: bool,
    /// The same on the described machine.
    simulated: Ratio<'a>,
    /// The simulated ratio over the published one, less one; null where there is none.
    error: Option<f64>,
    /// The same as measured on this host; null where it was not.
    measured: Option<Ratio<'a>>,
}

/// A time and the simulated one.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Time<'a> {
    /// A figure as it was published, in its own unit, and the case of a shipped experiment that it
    /// belongs to.
    published: &'a Published,
    /// For how many bytes.
    volume: Volumes<'a>,
    /// The simulated time, s; null where it was not run.
    #[serde(serialize_with = "serialize_estimate_if_any")]
    seconds: Option<Estimate>,
    /// Why it was not run; null where it was.
    not_run: Option<&'a str>,
    /// The simulated time over the published one, less one; null where there is none.
    error: Option<f64>,
}

/// For how many bytes.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Volumes<'a> {
    /// How many.
    bytes: u64,
    /// What such times are of.
    of: &'a str,
    /// How that is known.
    why: &'a str,
}

/// Shipped experiments beside what was published of them, their datasets in `dir`.
pub fn reproduced(all: &[reproduce::Reproduced], dir: &Path) -> impl Serialize {
    let experiments = all.iter().map(Reproduced::from).collect();
    ReproducedDocument { dataset: dir.display().to_string(), experiments }
}

/// Published figures beside simulated ones, the datasets in `dir`; `here` is what was measured of
/// an experiment on this host.
pub fn simulated<'a>(
    all: &'a [Simulated],
    here: &dyn Fn(&str) -> Option<&'a reproduce::Reproduced>,
    dir: &Path,
) -> impl Serialize + use<'a> {
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
    SimulatedDocument {
        simulated: true,
        dataset: dir.display().to_string(),
        simulations: all.iter().map(|one| Simulation::new(one, here(&one.experiment))).collect(),
        scores: readings.into_iter().map(score).collect(),
    }
}

impl<'a> From<&'a reproduce::Reproduced> for Reproduced<'a> {
    fn from(found: &'a reproduce::Reproduced) -> Self {
        let plan = &found.findings.plan;
        let row = |row: &'a reproduce::Row| Row {
            // The first row with the figure tells it from the others.
            figure: found
                .rows
                .iter()
                .position(|other| other.shares_figure(row))
                .unwrap_or_default(),
            published: &row.published,
            against: row.against,
            ratio: row.ratio,
            measured: Ratio::from(&row.measured),
            instead: row.instead.as_ref().map(Ratio::from),
        };
        Self {
            experiment: &plan.experiment.name,
            question: plan.experiment.question.as_deref(),
            ended: found.findings.ended.as_ref(),
            results: cases(&found.findings.results),
            not_run: &plan.not_run,
            rows: found.rows.iter().map(row).collect(),
        }
    }
}

impl<'a> From<&'a reproduce::Measured> for Ratio<'a> {
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

impl<'a> From<&'a Volume> for Volumes<'a> {
    fn from(volume: &'a Volume) -> Self {
        Self { bytes: volume.bytes.0, of: &volume.of, why: &volume.why }
    }
}

impl<'a> Simulation<'a> {
    fn new(one: &'a Simulated, here: Option<&'a reproduce::Reproduced>) -> Self {
        let found = one.outcome.as_ref();
        Self {
            experiment: &one.experiment,
            question: one.question.as_deref(),
            machine: &one.machine.0,
            reading: one.alternative.as_ref().map(|alternative| alternative.name.as_str()),
            why: one.alternative.as_ref().map(|alternative| alternative.why.as_str()),
            not_run: found.err().map(Reason::as_str),
            cases_not_run: found.map_or(&[], |found| &found.reproduced.findings.plan.not_run),
            rows: found.map(|found| rows(found, here)).unwrap_or_default(),
            times: found.map(times).unwrap_or_default(),
        }
    }
}

fn rows<'a>(found: &'a Outcome, here: Option<&'a reproduce::Reproduced>) -> Vec<SimulatedRow<'a>> {
    let simulated = |(row, neighbour): (&'a reproduce::Row, &bool)| {
        let same = |other: &&'a reproduce::Row| other.published.is_same(&row.published);
        SimulatedRow {
            published: &row.published,
            against: row.against,
            ratio: row.ratio,
            neighbour: *neighbour,
            simulated: Ratio::from(&row.measured),
            error: row.error(),
            measured: here
                .and_then(|here| here.rows.iter().find(same))
                .map(|row| Ratio::from(&row.measured)),
        }
    };
    found.reproduced.rows.iter().zip(&found.neighbour).map(simulated).collect()
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
