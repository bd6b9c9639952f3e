//! Published figures beside simulated ones, on the described machines that the sources' own come nearest to.
//!
//! Only the cases that something was published of are simulated. What a publication leaves open is simulated in every
//! reading that [`Setting`] holds, beside the first one; none of them is chosen by what comes of it. Where a time is
//! that of so many bytes, the simulated rate gives seconds besides the ratios.

mod part;
mod run;
mod score;
mod setting;

use ringfence_analysis::estimate::{Interval, NotEstimable};
use ringfence_analysis::results;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use serde::Serialize;

use super::{Measured, Published, Reproduced, Row, find_case};

pub use part::part;
pub use run::{Job, jobs, measured_here, run};
pub use score::{Errors, Neighbours, Order, Score};
pub use setting::{Alternative, Setting, Volume};

/// An experiment on a described machine, in one reading of what was left open.
#[derive(Debug, Clone)]
pub struct Simulated {
    /// The experiment's name.
    pub experiment: String,
    /// What it asks.
    pub question: Option<String>,
    /// The described machine: its name, and what a heading calls it.
    pub machine: (String, String),
    /// The reading; none for the first one.
    pub alternative: Option<Alternative>,
    /// What came of it; or why it was not run, such that it follows "because".
    pub outcome: Result<Outcome, String>,
}

/// What came of a simulation.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The figures: here [`Row::measured`] is what was simulated.
    pub reproduced: Reproduced,
    /// Published comparison by comparison: whether more than one task runs in it, so that it is about a neighbour.
    pub neighbour: Vec<bool>,
    /// Times that were published for so many bytes.
    pub times: Vec<Time>,
}

/// A time that was published for so many bytes, and the simulated one.
#[derive(Debug, Clone, Serialize)]
pub struct Time {
    /// What was published.
    pub published: Published,
    /// For how many bytes.
    pub volume: Volume,
    /// The simulated time, s.
    pub simulated: Seconds,
}

/// A simulated time.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seconds {
    /// With its interval, s.
    Time(Interval),
    /// The case cannot be run, with the reason, such that it follows "because".
    NotRun(String),
    /// It ran, and there is no figure.
    NotEstimable(NotEstimable),
}

impl Time {
    /// Simulated over published, less one.
    pub fn error(&self) -> Option<f64> {
        match &self.simulated {
            Seconds::Time(interval) => Some(interval.value / self.published.value - 1.0),
            _ => None,
        }
    }
}

impl Row {
    /// The ratio that was measured or simulated, over that which was published, less one.
    pub fn error(&self) -> Option<f64> {
        match &self.measured {
            Measured::Ratio { interval, .. } => Some(interval.value / self.ratio - 1.0),
            _ => None,
        }
    }
}

impl Outcome {
    /// Sets what was published beside what was simulated.
    ///
    /// # Errors
    /// As [`super::rows`].
    pub fn new(
        published: &[Published],
        setting: &Setting,
        bytes: Option<ringfence_machine::units::Bytes>,
        reproduced: Reproduced,
        samples: &[Sample],
    ) -> Result<Self, String> {
        let plan = &reproduced.findings.plan;
        let beside = |row: &Row| -> Result<bool, String> {
            Ok(plan.cases[find_case(plan, &row.published.case)?].active.len() > 1)
        };
        let neighbour = reproduced.rows.iter().map(beside).collect::<Result<_, _>>()?;
        let mut times = Vec::new();
        for row in published.iter().filter(|row| row.experiment == plan.experiment.name) {
            let Some(mut volume) = setting.volume(row).cloned() else { continue };
            volume.bytes = bytes.unwrap_or(volume.bytes);
            let simulated = seconds(plan, samples, &row.case, &volume, reproduced.findings.level)?;
            times.push(Time { published: row.clone(), volume, simulated });
        }
        Ok(Self { reproduced, neighbour, times })
    }
}

fn seconds(
    plan: &Plan,
    samples: &[Sample],
    case: &str,
    volume: &Volume,
    level: f64,
) -> Result<Seconds, String> {
    let case = find_case(plan, case)?;
    if let Some(reason) = plan.refusal(case) {
        return Ok(Seconds::NotRun(reason.into()));
    }
    let Some(bytes) = plan.metric_task(case).bytes_per_unit() else {
        return Ok(Seconds::NotRun("its work is not counted in bytes".into()));
    };
    let result = results::results(plan, samples, level).into_iter().find(|result| result.case == case);
    Ok(match result.map_or(Err(NotEstimable::NothingMeasured), |result| result.ns_per_unit) {
        Ok(ns) => Seconds::Time(ns.times(volume.bytes.0 as f64 / bytes as f64 * 1e-9)),
        Err(why) => Seconds::NotEstimable(why),
    })
}

#[cfg(test)]
#[path = "../../tests/inside/simulated.rs"]
mod tests;
