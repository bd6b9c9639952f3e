//! Figures beside the primary one, over pairs instead of trials: what the total hides. They carry
//! no interval.

use serde::Serialize;

use super::window::Total;
use super::{Mode, Pair, modes};
use crate::quantile::quantile;

/// Share of the pairs that the trimmed mean leaves out at each end.
pub const TRIMMED_SHARE: f64 = 0.2;

/// How the slowdowns of single pairs are distributed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Diagnostics {
    /// All pairs.
    pub pairs: u32,
    /// Pairs in which one window or both did no work. They have no ratio and are in none of the
    /// figures below.
    pub stalled: u32,
    /// Pairs with a window that is not a measurement; likewise.
    pub invalid: u32,
    /// Slowdown from the mean log-ratio of the middle pairs, [`TRIMMED_SHARE`] left out at each
    /// end. Where it differs from the slowdown of the totals, the harm is in rare stalls.
    pub trimmed: Option<f64>,
    /// The slowdown that 10 % of the pairs stay below.
    pub p10: Option<f64>,
    /// The median pair's slowdown.
    pub p50: Option<f64>,
    /// The slowdown that 90 % of the pairs stay below.
    pub p90: Option<f64>,
    /// The values around which the slowdowns gather.
    pub modes: Vec<Mode>,
}

/// Describes the pairs one by one.
pub fn diagnostics(pairs: &[Pair]) -> Diagnostics {
    let (valid, invalid): (Vec<&Pair>, Vec<_>) =
        pairs.iter().partition(|pair| pair.baseline.is_valid() && pair.arm.is_valid());
    let (worked, stalled): (Vec<&Pair>, Vec<_>) =
        valid.into_iter().partition(|pair| pair.baseline.units > 0.0 && pair.arm.units > 0.0);
    let mut logs: Vec<f64> = worked.into_iter().map(log_ratio).collect();
    logs.sort_by(f64::total_cmp);
    let slowdown = |log: f64| Some(log.exp()).filter(|x| x.is_finite());
    let at = |p| (!logs.is_empty()).then(|| quantile(&logs, p)).and_then(slowdown);
    Diagnostics {
        pairs: pairs.len() as u32,
        stalled: stalled.len() as u32,
        invalid: invalid.len() as u32,
        trimmed: trimmed_mean(&logs).and_then(slowdown),
        p10: at(0.1),
        p50: at(0.5),
        p90: at(0.9),
        modes: modes(&logs),
    }
}

fn log_ratio(pair: &Pair) -> f64 {
    let log = |window| {
        let mut total = Total::default();
        total.add(window);
        total.log_ns_per_unit()
    };
    log(&pair.arm) - log(&pair.baseline)
}

fn trimmed_mean(sorted: &[f64]) -> Option<f64> {
    let cut = (TRIMMED_SHARE * sorted.len() as f64).floor() as usize;
    let kept = &sorted[cut..sorted.len() - cut];
    (!kept.is_empty()).then(|| kept.iter().sum::<f64>() / kept.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Window;
    use ringfence_experiment::class::Class;

    fn pair(arm_units: f64, slowdown: f64) -> Pair {
        Pair {
            trial: 1,
            class: Class::Unprobed,
            baseline: Window { units: 1.0, ns: 1.0 },
            arm: Window { units: arm_units, ns: slowdown },
        }
    }

    #[test]
    fn quantiles_interpolate() {
        let sorted = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(quantile(&sorted, 0.0), 1.0);
        assert_eq!(quantile(&sorted, 0.5), 3.0);
        assert!((quantile(&sorted, 0.1) - 1.4).abs() < 1e-12);
        assert!((quantile(&sorted, 0.9) - 4.6).abs() < 1e-12);
        assert_eq!(quantile(&[7.0], 0.9), 7.0);
    }

    // Five pairs: 20 % are one at each end; the mean of ln 2, ln 2, ln 16 is ln 4.
    #[test]
    fn the_trimmed_mean_ignores_both_ends() {
        let pairs = [2.0, 1e9, 16.0, 1e-9, 2.0].map(|slowdown| pair(1.0, slowdown));
        let found = diagnostics(&pairs);
        assert!((found.trimmed.unwrap() - 4.0).abs() < 1e-12);
        assert!((found.p50.unwrap() - 2.0).abs() < 1e-12);
    }

    #[test]
    fn stalled_and_broken_pairs_are_counted() {
        let found = diagnostics(&[pair(0.0, 1.0), pair(1.0, f64::NAN), pair(1.0, 3.0)]);
        assert_eq!((found.pairs, found.stalled, found.invalid), (3, 1, 1));
        assert!((found.p10.unwrap() - 3.0).abs() < 1e-12);
        let none = diagnostics(&[]);
        assert_eq!((none.trimmed, none.p50, none.modes.len()), (None, None, 0));
    }
}
