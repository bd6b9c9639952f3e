//! How near simulated figures come to published ones, in numbers.

use serde::Serialize;

use super::{Outcome, Simulated};
use crate::reproduce::{Agreement, Measured, Row};

/// Changes above this were worth publishing; below it, noise may have turned their direction.
pub const LARGE: f64 = 0.05;
/// A magnitude is near where it is within this factor.
pub const NEAR: f64 = 1.3;

/// How near they come, over all experiments of one reading.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Score {
    /// Published comparisons.
    pub cells: usize,
    /// Those that were simulated.
    pub simulated: usize,
    /// Times of so many bytes, by what they are of.
    pub times: Vec<Errors>,
    /// Comparisons in which a neighbour runs.
    pub neighbours: Neighbours,
    /// Which neighbour slows a victim down more, victim by victim.
    pub orders: Vec<Order>,
}

/// Errors of times: simulated over published, less one.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "TimeErrors"))]
pub struct Errors {
    /// What they are of.
    pub of: String,
    /// Times that were published.
    pub published: usize,
    /// Those that were simulated.
    pub simulated: usize,
    /// The mean of the errors' amounts, and the largest of these; none where nothing was simulated.
    pub mean: Option<f64>,
    /// The largest.
    pub worst: Option<f64>,
}

/// Comparisons in which a neighbour runs.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "NeighbourErrors"))]
pub struct Neighbours {
    /// Those that were published.
    pub published: usize,
    /// Those that were simulated.
    pub simulated: usize,
    /// Of these, those with a published change above `LARGE`.
    pub large: usize,
    /// Of these, those that point the same way.
    pub right: usize,
    /// Of the large ones, those whose effect, the log of the ratio, is within `NEAR` of the
    /// published one.
    pub near: usize,
    /// Of the large ones, those whose ratio of times is within `NEAR` of the published one.
    pub near_ratio: usize,
}

/// Which neighbour slows a victim down more: all pairs of neighbours of one victim whose published
/// ratios differ by more than the experiment's margin.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Order {
    /// The experiment.
    pub experiment: String,
    /// The source.
    pub source: String,
    /// The victim, as the source calls it.
    pub victim: String,
    /// Such pairs of which both were simulated.
    pub pairs: usize,
    /// Those in the same order.
    pub right: usize,
}

impl Score {
    /// Of what was simulated in one reading, each experiment once.
    pub fn new<'a>(all: impl IntoIterator<Item = &'a Simulated>) -> Self {
        let outcomes: Vec<&Outcome> =
            all.into_iter().filter_map(|one| one.outcome.as_ref().ok()).collect();
        let rows = || outcomes.iter().flat_map(|one| &one.reproduced.rows);
        Self {
            cells: rows().count(),
            simulated: rows().filter(|row| ratio(row).is_some()).count(),
            times: times(&outcomes),
            neighbours: neighbours(&outcomes),
            orders: outcomes.iter().flat_map(|one| orders(one)).collect(),
        }
    }
}

fn ratio(row: &Row) -> Option<f64> {
    match &row.measured {
        Measured::Ratio { interval, .. } => Some(interval.value),
        _ => None,
    }
}

fn times(outcomes: &[&Outcome]) -> Vec<Errors> {
    let all = || outcomes.iter().flat_map(|one| &one.times);
    let mut kinds: Vec<&str> = Vec::new();
    for time in all() {
        if !kinds.contains(&time.volume.of.as_str()) {
            kinds.push(&time.volume.of);
        }
    }
    let errors = |of: &str| {
        // A time that two experiments have is one time.
        let mut seen: Vec<(&str, &str, f64)> = Vec::new();
        let mut published = 0;
        let mut amounts = Vec::new();
        for time in all().filter(|time| time.volume.of == of) {
            let key = (
                time.published.source.as_str(),
                time.published.case.as_str(),
                time.published.value,
            );
            if seen.contains(&key) {
                continue;
            }
            seen.push(key);
            published += 1;
            amounts.extend(time.error().map(f64::abs));
        }
        let some = !amounts.is_empty();
        Errors {
            of: of.into(),
            published,
            simulated: amounts.len(),
            mean: some.then(|| amounts.iter().sum::<f64>() / amounts.len() as f64),
            worst: amounts.iter().copied().max_by(f64::total_cmp),
        }
    };
    kinds.into_iter().map(errors).collect()
}

fn beside<'a>(outcome: &'a Outcome) -> impl Iterator<Item = &'a Row> + 'a {
    let rows = outcome.reproduced.rows.iter().zip(&outcome.neighbour);
    rows.filter(|(_, neighbour)| **neighbour).map(|(row, _)| row)
}

fn neighbours(outcomes: &[&Outcome]) -> Neighbours {
    let mut found = Neighbours::default();
    for row in outcomes.iter().flat_map(|one| beside(one)) {
        found.published += 1;
        let Measured::Ratio { interval, direction, .. } = &row.measured else { continue };
        let simulated = interval.value;
        found.simulated += 1;
        if (row.ratio - 1.0).abs() <= LARGE {
            continue;
        }
        let (there, here) = (row.ratio.ln(), simulated.ln());
        let right = *direction == Agreement::Agrees;
        let within = |factor: f64| (1.0 / NEAR..=NEAR).contains(&factor);
        found.large += 1;
        found.right += usize::from(right);
        found.near += usize::from(right && within(here / there));
        found.near_ratio += usize::from(within(simulated / row.ratio));
    }
    found
}

// A victim is what its quantity names before what sets it apart.
fn victim(row: &Row) -> &str {
    row.published.quantity.split(", ").next().unwrap_or_default()
}

// Published and simulated.
type Ratios = (f64, Option<f64>);

fn orders(outcome: &Outcome) -> Vec<Order> {
    let margin = outcome.reproduced.findings.plan.experiment.measure.margin.0;
    let mut found: Vec<(Order, Vec<Ratios>)> = Vec::new();
    for row in beside(outcome) {
        let key = (row.published.source.as_str(), victim(row));
        let figures = (row.ratio, ratio(row));
        match found
            .iter_mut()
            .find(|(order, _)| (order.source.as_str(), order.victim.as_str()) == key)
        {
            Some((_, known)) => known.push(figures),
            None => {
                let order = Order {
                    experiment: row.published.experiment.clone(),
                    source: key.0.into(),
                    victim: key.1.into(),
                    pairs: 0,
                    right: 0,
                };
                found.push((order, vec![figures]));
            }
        }
    }
    let counted = |(mut order, figures): (Order, Vec<Ratios>)| {
        for (place, (there, here)) in figures.iter().enumerate() {
            for (other_there, other_here) in &figures[..place] {
                let differ = (there / other_there).ln().abs() > margin.ln_1p();
                let (true, Some(here), Some(other_here)) = (differ, here, other_here) else {
                    continue;
                };
                order.pairs += 1;
                order.right += usize::from((there > other_there) == (here > other_here));
            }
        }
        order
    };
    found.into_iter().map(counted).collect()
}
