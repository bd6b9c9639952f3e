//! Comparisons of datasets as JSON.

use ringfence_studies::compare::{Comparison, Side};
use serde::Serialize;

use crate::html;

/// `compare`.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/comparison/3")]
pub(crate) struct Comparisons<'a> {
    /// Datasets that were compared, cell by cell.
    compared: Vec<Compared<'a>>,
    /// Those that could not be compared.
    refused: Vec<Refused<'a>>,
    /// Those that only one folder has.
    alone: Vec<Alone<'a>>,
}

/// Two datasets of one experiment.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ComparedDatasets"))]
struct Compared<'a> {
    /// The experiment's name among several; empty where there is one alone.
    name: &'a str,
    /// The first's folder.
    before: &'a str,
    /// The second's.
    after: &'a str,
    /// Two datasets of one experiment, cell by cell.
    comparison: &'a Comparison,
}

/// Two that could not be compared.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Refused<'a> {
    /// The experiment's name.
    name: &'a str,
    /// Why, in a sentence.
    why: &'a str,
}

/// One that only one folder has.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Alone<'a> {
    /// The experiment's name.
    name: &'a str,
    /// Which of the two lacks it.
    missing_from: Side,
}

/// Datasets cell by cell; those that could not be compared, with the reason; and those that only
/// one folder has.
pub fn comparisons<'a>(
    compared: &'a [html::Compared],
    refused: &'a [(String, String)],
    alone: &'a [(Side, String)],
) -> impl Serialize + use<'a> {
    fn one(html::Compared { name, before, after, comparison }: &html::Compared) -> Compared<'_> {
        Compared { name, before, after, comparison }
    }
    Comparisons {
        compared: compared.iter().map(one).collect(),
        refused: refused.iter().map(|(name, why)| Refused { name, why }).collect(),
        alone: alone
            .iter()
            .map(|(missing_from, name)| Alone { name, missing_from: *missing_from })
            .collect(),
    }
}
