//! Published figures beside measured ones.
//!
//! Published are times in seconds; what is compared is a ratio: the time of a case over that of the case it
//! is set against. The change in percent is `100 (time / time against - 1)`, whatever formula the
//! publication used. Measured is the same ratio on this machine, with its interval: the slowdown where the
//! one case is the other's baseline, else the ratio of costs over the trials that have both.
//!
//! # Agreement
//! The *direction* of a ratio is longer, shorter or the same, where the same is a change within the
//! experiment's margin. A published figure, which has no interval, lies on one side of the margin; a measured
//! one is the same where its whole interval lies within the margin, longer or shorter where its interval
//! excludes no change, and undecided otherwise. Directions agree where they are equal.
//!
//! The *magnitude* agrees where the published effect, the log of its ratio, lies within the measured
//! interval after each bound was moved outwards by the margin and by the factor [`WIDENED_BY`]: where
//! somewhere in the interval there is an effect between half and twice the published one. It is undecided
//! where the direction is, since an interval that holds no change and any harm agrees with everything.

mod published;
mod shipped;
pub mod simulated;

use ringfence_analysis::estimate::{Interval, NotEstimable};
use ringfence_analysis::results;
use ringfence_experiment::ended::Ended;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use serde::Serialize;

use ringfence_studies::findings::Findings;

pub use published::{Published, find_case, parse};
pub use shipped::{experiments, published};

/// By how much an effect may differ on another machine and still be as large: a factor, either way.
pub const WIDENED_BY: f64 = 2.0;

/// A shipped experiment's figures, those that were published beside them.
#[derive(Debug, Clone)]
pub struct Reproduced {
    /// What was measured.
    pub findings: Findings,
    /// Each published comparison; none where nothing was published of it.
    pub rows: Vec<Row>,
}

impl Reproduced {
    /// Sets what was published beside what was measured.
    ///
    /// # Errors
    /// As [`rows`].
    pub fn new(
        published: &[Published],
        plan: &Plan,
        samples: &[Sample],
        ended: Ended,
    ) -> Result<Self, String> {
        let findings = Findings { ended: Some(ended), ..Findings::new(plan, samples, None) };
        let rows = rows(published, plan, samples, findings.level)?;
        Ok(Self { findings, rows })
    }
}

/// A published comparison and what was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// What was published.
    pub published: Published,
    /// The published time of the case that it is set against, s.
    pub against: f64,
    /// The published ratio.
    pub ratio: f64,
    /// The same here.
    pub measured: Measured,
    /// What was measured on other hardware, where the case itself was not run.
    pub instead: Option<Measured>,
}

impl Row {
    /// Whether both are compared with one and the same measured figure: a publication can have several for one case, as
    /// those of a program with inputs of three sizes.
    pub fn shares_figure(&self, other: &Self) -> bool {
        let measured = |row: &Self| {
            let row = &row.published;
            (row.experiment.clone(), row.case.clone(), row.against.clone())
        };
        measured(self) == measured(other)
    }
}

/// The rows by the measured figure that they are compared with, each in the order of its first row.
pub fn by_figure<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<Vec<&'a Row>> {
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|group| group[0].shares_figure(row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

/// A ratio on this machine.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measured {
    /// With its interval, and whether it agrees.
    Ratio {
        /// The case's time over that of the case it is set against.
        interval: Interval,
        /// Whether what was published points the same way.
        direction: Agreement,
        /// Whether it is about as large.
        magnitude: Agreement,
    },
    /// The case cannot be run here, with the reason, such that it follows "because".
    NotRun(String),
    /// It ran, and there is no figure.
    NotEstimable(NotEstimable),
}

/// Whether published and measured agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Agreement {
    /// They do.
    Agrees,
    /// They do not.
    Differs,
    /// The interval is too wide to say.
    Undecided,
}

/// Which way a ratio points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Longer,
    Shorter,
    Same,
}

/// Sets all published comparisons of a plan's experiment beside what was measured, each interval at `level`.
///
/// # Errors
/// One sentence where a figure names no case of the experiment, or none that its own can be set against.
pub fn rows(
    published: &[Published],
    plan: &Plan,
    samples: &[Sample],
    level: f64,
) -> Result<Vec<Row>, String> {
    let own: Vec<&Published> =
        published.iter().filter(|row| row.experiment == plan.experiment.name).collect();
    let mut rows = Vec::new();
    for row in &own {
        let Some(against) = &row.against else { continue };
        let same = |other: &&&Published| {
            other.case == *against && other.quantity == row.quantity && other.source == row.source
        };
        let reference = own.iter().find(same).ok_or_else(|| {
            format!("'{}' is set against '{against}', for which no {} was published", row.case, row.quantity)
        })?;
        let ratio = row.value / reference.value;
        let measured = measured(plan, samples, &row.case, against, ratio, level)?;
        let instead = match (&measured, &row.instead, &row.instead_against) {
            (Measured::NotRun(_), Some(case), Some(against)) => {
                Some(self::measured(plan, samples, case, against, ratio, level)?)
            }
            _ => None,
        };
        rows.push(Row { published: (*row).clone(), against: reference.value, ratio, measured, instead });
    }
    Ok(rows)
}

fn measured(
    plan: &Plan,
    samples: &[Sample],
    case: &str,
    against: &str,
    published: f64,
    level: f64,
) -> Result<Measured, String> {
    let (case, reference) = (find_case(plan, case)?, find_case(plan, against)?);
    let baselines = (plan.cases[case].baseline, plan.cases[reference].baseline);
    if baselines.0 != Some(reference) && baselines != (None, None) {
        return Err(format!("'{against}' is not what case {case} is measured against"));
    }
    if let Some(reason) = plan.refusal(case).or_else(|| plan.refusal(reference)) {
        return Ok(Measured::NotRun(reason.into()));
    }
    Ok(match results::ratio(plan, samples, case, reference, level) {
        Ok(interval) => {
            let (direction, magnitude) = agreement(published, &interval, plan.experiment.measure.margin.0);
            Measured::Ratio { interval, direction, magnitude }
        }
        Err(reason) => Measured::NotEstimable(reason),
    })
}

/// Whether direction and magnitude agree; see the module's documentation.
pub fn agreement(published: f64, measured: &Interval, margin: f64) -> (Agreement, Agreement) {
    let here = match measured {
        interval if interval.within_margin(margin) => Direction::Same,
        interval if interval.low > 1.0 => Direction::Longer,
        interval if interval.high < 1.0 => Direction::Shorter,
        _ => return (Agreement::Undecided, Agreement::Undecided),
    };
    let there = match published {
        ratio if ratio > 1.0 + margin => Direction::Longer,
        ratio if ratio < 1.0 - margin => Direction::Shorter,
        _ => Direction::Same,
    };
    // Outwards: a bound on one side of no change may lie at half of itself or at twice itself.
    let low = measured.low.ln();
    let low = (low / WIDENED_BY).min(low * WIDENED_BY) - margin.ln_1p();
    let high = measured.high.ln();
    let high = (high / WIDENED_BY).max(high * WIDENED_BY) + margin.ln_1p();
    let says = |yes: bool| if yes { Agreement::Agrees } else { Agreement::Differs };
    (says(here == there), says((low..=high).contains(&published.ln())))
}

#[cfg(test)]
#[path = "../tests/inside/reproduce.rs"]
mod tests;
