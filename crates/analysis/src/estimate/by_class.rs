//! Estimates per class of the CPUs in use, beside the one over all.

use std::collections::{BTreeMap, BTreeSet};

use ringfence_experiment::class::Class;
use ringfence_experiment::quantity::Quantile;
use serde::Serialize;

use super::slowdown::slowdown_of;
use super::{Estimate, LatencyPair, Pair, quantile_ratio, serialize_estimate};

/// A slowdown for every class that occurred and one over all pairs; each pair is in both.
///
/// Each interval holds at its own level: reading several of them as one claim takes a stricter
/// level.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ByClass {
    /// Over all pairs, whatever their class.
    pub all: ClassEstimate,
    /// Per class that occurred.
    #[cfg_attr(feature = "schema", schemars(extend("propertyNames" = { "$ref": "#/$defs/Class" })))]
    pub classes: BTreeMap<Class, ClassEstimate>,
}

/// The slowdown over some of the pairs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassEstimate {
    /// Pairs that it rests on.
    pub pairs: u32,
    /// Trials with at least one such pair.
    pub trials: u32,
    /// The slowdown over those trials, from those pairs alone.
    #[serde(serialize_with = "serialize_estimate")]
    pub slowdown: Estimate,
}

/// Estimates the slowdown per class and over all, at the confidence `level`.
pub fn by_class(pairs: &[Pair], level: f64) -> ByClass {
    in_classes(
        pairs,
        |pair| (pair.trial, pair.class),
        |pairs| slowdown_of(pairs.iter().copied(), level),
    )
}

/// The same of how many times as long a quantile of latencies is.
pub fn quantile_by_class(pairs: &[LatencyPair], quantile: Quantile, level: f64) -> ByClass {
    let ratio = |pairs: &[&LatencyPair]| quantile_ratio(pairs.iter().copied(), quantile, level);
    in_classes(pairs, |pair| (pair.trial, pair.class), ratio)
}

fn in_classes<P>(
    pairs: &[P],
    place: impl Fn(&P) -> (u32, Class),
    estimate: impl Fn(&[&P]) -> Estimate,
) -> ByClass {
    let over = |class: Option<Class>| {
        let kept: Vec<&P> =
            pairs.iter().filter(|pair| class.is_none_or(|class| place(pair).1 == class)).collect();
        ClassEstimate {
            pairs: kept.len() as u32,
            trials: kept.iter().map(|pair| place(pair).0).collect::<BTreeSet<_>>().len() as u32,
            slowdown: estimate(&kept),
        }
    };
    let classes: BTreeSet<Class> = pairs.iter().map(|pair| place(pair).1).collect();
    let classes = classes.into_iter().map(|class| (class, over(Some(class)))).collect();
    ByClass { all: over(None), classes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::{NotEstimable, Window};

    fn pair(trial: u32, class: Class, slowdown: f64) -> Pair {
        let window = |ns| Window { units: 1.0, ns };
        Pair { trial, class, baseline: window(1.0), arm: window(slowdown) }
    }

    #[test]
    fn every_pair_counts_in_its_class_and_over_all() {
        let mut pairs = vec![pair(7, Class::Mixed, 5.0)];
        for trial in 0..4 {
            pairs.push(pair(trial, Class::Sharing, 12.0));
            pairs.push(pair(trial + 2, Class::Apart, 1.0));
        }
        let estimates = by_class(&pairs, 0.95);
        let found = |class| &estimates.classes[&class];
        assert_eq!((found(Class::Sharing).pairs, found(Class::Sharing).trials), (4, 4));
        assert!((found(Class::Sharing).slowdown.unwrap().value - 12.0).abs() < 1e-12);
        assert!((found(Class::Apart).slowdown.unwrap().value - 1.0).abs() < 1e-12);
        assert_eq!(found(Class::Mixed).slowdown, Err(NotEstimable::TooFewTrials { trials: 1 }));
        assert_eq!((estimates.all.pairs, estimates.all.trials), (9, 7));
        assert!(!estimates.classes.contains_key(&Class::Unclear));
        assert_eq!(
            estimates.classes.values().map(|class| class.pairs).sum::<u32>(),
            estimates.all.pairs
        );
    }

    #[test]
    fn json_names_classes_and_reasons() {
        let json = serde_json::to_value(by_class(&[pair(1, Class::Apart, 1.0)], 0.95)).unwrap();
        assert_eq!(json["classes"]["apart"]["slowdown"]["reason"], "too_few_trials");
        assert_eq!(json["classes"]["apart"]["slowdown"]["trials"], 1);
    }
}
