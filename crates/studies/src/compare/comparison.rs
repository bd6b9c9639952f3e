//! The result of a comparison.

use ringfence_analysis::estimate::{Estimate, Finding, serialize_estimate};
use ringfence_experiment::Reason;
use ringfence_experiment::quantity::Quantity;
use serde::Serialize;

use super::settings::Difference;

/// Why two datasets cannot be compared: a usage error, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CompareError(pub String);

/// Two datasets of one experiment, cell by cell.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// The experiment's name.
    pub name: String,
    /// The question it answers.
    pub question: Option<String>,
    /// Whether any of it was simulated, so that nothing of it is a measurement.
    pub simulated: bool,
    /// Differences other than the figures: machine, kernel, version, placement, classes of cores.
    pub differences: Vec<Difference>,
    /// The cases that both have, in the order of the first.
    pub cells: Vec<Cell>,
    /// Cases that only one of them has.
    pub missing: Vec<Missing>,
    /// The share of comparisons in which every cell's interval holds its truth.
    pub confidence: f64,
    /// The level of each cell's interval, so that they do.
    pub level: f64,
    /// By how many the error was divided for looks: 1 where neither could have stopped early.
    pub looks: usize,
    /// Changes up to this do not matter: the larger of the two experiments' margins.
    pub margin: f64,
}

/// A case that both datasets have.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cell {
    /// Its arm.
    pub arm: String,
    /// What sets it apart, in words.
    pub label: String,
    /// The same as (role.parameter, value).
    pub params: Vec<(String, String)>,
    /// What the metric's work is counted in.
    pub unit: &'static str,
    /// What is compared.
    pub figure: Figure,
    /// Of what: the mean time of a unit of work, or a quantile of its latencies.
    pub quantity: Quantity,
    /// The figure of the first dataset, at the experiment's confidence for this cell alone.
    #[serde(serialize_with = "serialize_estimate")]
    pub before: Estimate,
    /// That of the second.
    #[serde(serialize_with = "serialize_estimate")]
    pub after: Estimate,
    /// The second over the first, at [`Comparison::level`]: *slower* is more time or more harm.
    pub change: Finding,
}

/// How trials of the two datasets belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trials {
    /// Trials do not belong together: they were measured.
    Apart,
    /// Those of equal numbers began alike: they were simulated with one seed.
    Paired,
}

/// What of a case is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ComparedFigure"))]
#[serde(rename_all = "lowercase")]
pub enum Figure {
    /// Nanoseconds per unit of work.
    Cost,
    /// The slowdown against the case's baseline.
    Slowdown,
}

/// One of the two datasets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The first.
    Before,
    /// The second.
    After,
}

/// A case that only one dataset has.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Missing {
    /// Its arm.
    pub arm: String,
    /// What sets it apart, in words.
    pub label: String,
    /// The side that does not have it.
    pub missing_from: Side,
    /// Why, where that side planned it but did not run it.
    pub reason: Option<Reason>,
}
