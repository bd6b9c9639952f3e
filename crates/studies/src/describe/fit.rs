//! Fits values of a machine file to some of the cells that were measured.
//!
//! A coordinate search: one value after the other is made larger and smaller by a step, what comes
//! nearer is kept, and steps shrink. What a file cannot have (`Description::parse` refuses it) is
//! not tried. What counts is the mean size of the log ratio of simulated to measured over the cells
//! that are used; the others have no part in it.

use std::collections::BTreeMap;

use ringfence_experiment::Error;
use ringfence_simulator::Description;
use serde::Serialize;

use crate::describe::cells::{Measured, Outcome, Predicted, errors, predict};
use crate::describe::edit;

/// What a fit came to.
#[derive(Debug, Clone)]
pub struct Fit {
    /// The machine, with the values that were fitted.
    pub description: Description,
    /// What was changed.
    pub changes: Vec<Change>,
    /// Before, cell by cell.
    pub before: Predicted,
    /// After.
    pub after: Predicted,
    /// How many machines were tried.
    pub tried: usize,
}

/// Cells that come out worse by the fitted values than by those before.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Worse {
    /// Whether they are those that were used.
    pub used: bool,
    /// How many there are.
    pub cells: usize,
    /// The median and the mean of the errors' sizes before, as shares.
    pub before: (f64, f64),
    /// And after.
    pub after: (f64, f64),
}

// A smaller change is not worth reporting.
const TOLD: f64 = 5e-4;

impl Fit {
    /// Of the cells that were used, and of those that were left out, those that come out worse, in
    /// the median or in the mean. What is fitted to some cells may do harm to the others.
    pub fn worse(&self) -> Vec<Worse> {
        let of = |used: bool, before: &[Outcome], after: &[Outcome]| {
            let (was, is) = errors(before).zip(errors(after))?;
            let grown = is.0 > was.0 + TOLD || is.1 > was.1 + TOLD;
            grown.then_some(Worse { used, cells: after.len(), before: was, after: is })
        };
        let both = [
            of(true, &self.before.used, &self.after.used),
            of(false, &self.before.left_out, &self.after.left_out),
        ];
        both.into_iter().flatten().collect()
    }
}

/// A value that was fitted.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FittedChange"))]
pub struct Change {
    /// Such as `core.fence_ns`.
    pub path: String,
    /// As the file had it.
    pub before: String,
    /// As it fits.
    pub after: String,
}

// By how much a value is moved: a factor for what is not zero, or so much for what is.
const STEPS: [(f64, f64); 4] = [(2.0, 40.0), (1.3, 10.0), (1.1, 3.0), (1.03, 1.0)];
// How often all values are gone through with one step.
const PASSES: usize = 3;
// What comes nearer by less is not worth a change.
const GAIN: f64 = 1e-3;

/// Fits the values at `keys` to the cells at the places `used`; `origin` says in the new sources
/// what was fitted to.
///
/// # Errors
/// One sentence: there is no such value, it is not a number, or nothing of it can be simulated.
pub fn fit(
    description: &Description,
    measured: &Measured,
    used: &[usize],
    keys: &[String],
    origin: &str,
    tell: &mut dyn FnMut(f64),
) -> Result<Fit, Error> {
    let values: BTreeMap<String, String> =
        description.values().into_iter().map(|value| (value.path, value.value)).collect();
    for key in keys {
        let name = &description.name;
        let value =
            values.get(key).ok_or_else(|| Error::usage(format!("{name} has no value {key}")))?;
        edit::parse(value).ok_or_else(|| {
            Error::usage(format!("{key} = {value} is not a number, and cannot be fitted"))
        })?;
    }
    let mut search = Search { measured, used, tried: 0 };
    let mut best = description.clone();
    let mut error = search.error(&best)?;
    let rounds = STEPS.len() * PASSES;
    for (level, step) in STEPS.iter().enumerate() {
        for pass in 0..PASSES {
            let before = error;
            for (place, key) in keys.iter().enumerate() {
                let done = (level * PASSES + pass) as f64 + place as f64 / keys.len() as f64;
                tell(done / rounds as f64);
                for candidate in candidates(&best, key, *step) {
                    let Ok(changed) = best.changed(key, &candidate) else { continue };
                    let other = search.error(&changed)?;
                    if other < error * (1.0 - GAIN) {
                        (best, error) = (changed, other);
                    }
                }
            }
            if error >= before * (1.0 - GAIN) {
                break;
            }
        }
    }
    let tried = search.tried;
    let mut changes = Vec::new();
    for value in best.values() {
        let before = &values[&value.path];
        if *before != value.value {
            changes.push(Change { path: value.path, before: before.clone(), after: value.value });
        }
    }
    for change in &changes {
        let source = format!("fitted to {origin}, from {}", change.before);
        best = edit::set(&best, &change.path, &change.after, &source).map_err(Error::usage_by)?;
    }
    let before = predict(description, measured, used)?;
    let after = predict(&best, measured, used)?;
    Ok(Fit { description: best, changes, before, after, tried })
}

struct Search<'a> {
    measured: &'a Measured,
    used: &'a [usize],
    tried: usize,
}

impl Search<'_> {
    fn error(&mut self, description: &Description) -> Result<f64, Error> {
        self.tried += 1;
        let simulated = self.measured.simulate(description, self.used)?;
        let pairs = self.used.iter().zip(&simulated);
        let logs: Vec<f64> = pairs
            .filter_map(|(cell, simulated)| {
                Some((simulated.as_ref()? / self.measured.cells[*cell].value).ln().abs())
            })
            .collect();
        match logs.len() {
            0 => Err(Error::usage(format!(
                "{} cannot simulate any of the cells used",
                description.name
            ))),
            count => Ok(logs.iter().sum::<f64>() / count as f64),
        }
    }
}

// One larger and one smaller value.
fn candidates(description: &Description, key: &str, (factor, amount): (f64, f64)) -> Vec<String> {
    let value = description.values().into_iter().find(|value| value.path == key);
    let Some((value, whole)) = value.and_then(|value| edit::parse(&value.value)) else {
        return Vec::new();
    };
    let moved = match (value == 0.0, whole) {
        (true, _) => vec![if whole { 1.0 } else { amount }],
        (false, false) => vec![value * factor, value / factor],
        (false, true) => {
            let by = (value * (factor - 1.0)).round().max(1.0);
            vec![value + by, value - (value - value / factor).round().max(1.0)]
        }
    };
    moved
        .into_iter()
        .filter(|moved| *moved >= 0.0)
        .map(|moved| edit::number(moved, whole))
        .collect()
}

/// The cells that are used where none are named: a half, drawn from the seed.
pub fn half(cells: usize, seed: u64) -> Vec<usize> {
    let mut state = seed;
    let mut draw = || {
        // SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    };
    let mut order: Vec<(u64, usize)> = (0..cells).map(|cell| (draw(), cell)).collect();
    order.sort_unstable();
    let mut chosen: Vec<usize> =
        order.into_iter().take(cells.div_ceil(2)).map(|(_, cell)| cell).collect();
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_is_drawn_from_the_seed() {
        assert_eq!(half(9, 1).len(), 5);
        assert_eq!(half(9, 1), half(9, 1));
        assert_ne!(half(40, 1), half(40, 2));
        assert!(half(40, 3).iter().all(|cell| *cell < 40));
        assert!(half(0, 1).is_empty());
    }
}
