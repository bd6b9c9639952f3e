//! Comparisons of datasets as JSON.

use ringfence_studies::compare::{Comparison, Side};
use serde::Serialize;

use crate::html::Compared;
use crate::json::Document;

/// Datasets cell by cell; those that could not be compared, with the reason; and those that only
/// one folder has.
pub fn comparisons<'a>(
    compared: &'a [Compared],
    refused: &'a [(String, String)],
    alone: &'a [(Side, String)],
) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Comparisons<'a> {
        compared: Vec<One<'a>>,
        refused: Vec<Refused<'a>>,
        alone: Vec<Alone<'a>>,
    }
    #[derive(Serialize)]
    struct One<'a> {
        name: &'a str,
        before: &'a str,
        after: &'a str,
        comparison: &'a Comparison,
    }
    #[derive(Serialize)]
    struct Refused<'a> {
        name: &'a str,
        why: &'a str,
    }
    #[derive(Serialize)]
    struct Alone<'a> {
        name: &'a str,
        missing_from: Side,
    }
    fn one(Compared { name, before, after, comparison }: &Compared) -> One<'_> {
        One { name, before, after, comparison }
    }
    let body = Comparisons {
        compared: compared.iter().map(one).collect(),
        refused: refused.iter().map(|(name, why)| Refused { name, why }).collect(),
        alone: alone
            .iter()
            .map(|(missing_from, name)| Alone { name, missing_from: *missing_from })
            .collect(),
    };
    Document { schema: "ringfence/comparison/3", body }
}
