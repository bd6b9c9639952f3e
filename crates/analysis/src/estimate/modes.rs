//! Does one figure hide two? A split of the pairs' log-ratios into two modes, if they are far
//! apart.

use serde::{Deserialize, Serialize};

use crate::quantile::quantile;

/// Two groups are two modes from this many pooled standard deviations between their medians.
///
/// Ashman, Bird and Zepf (Astron. J. 108, 1994) ask for 2 when the components overlap. A hard split
/// cuts off the overlap and makes the groups look tighter: with medians and MADs a normal sample
/// cut in the middle reaches 2.3, a uniform one 2.7, an exponential one 2.8. In small samples that
/// scatters: 6 splits at most 2 % of the samples of 20 to 200 pairs that are normal, uniform,
/// exponential or Cauchy.
pub const MODES_APART_BY: f64 = 6.0;

/// Modes closer than this on the log scale (1 %) are not told apart, however tight they are.
pub const SMALLEST_MODE_GAP: f64 = 0.01;

/// A mode must hold this share of the pairs, so that a few outliers are not one.
const SMALLEST_SHARE: f64 = 0.05;

/// ... and this many pairs, so that its spread means something.
const FEWEST_PAIRS: usize = 10;

/// A MAD times this is the standard deviation of a normal sample.
const MAD_TO_SD: f64 = 1.4826;

/// One of the values around which the pairs' slowdowns gather.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mode {
    /// Median slowdown of the pairs in it.
    pub slowdown: f64,
    /// Its share of the pairs, in 0..=1.
    pub share: f64,
}

/// The modes of per-pair log-ratios, ascending: none without pairs, else one or two.
///
/// The split is the one with the smallest sum of squares within two groups (Fisher, JASA 53, 1958;
/// Otsu 1979), over all splits that leave enough pairs on either side. It counts as two modes when
/// the medians are [`MODES_APART_BY`] pooled standard deviations (from the MADs) and
/// [`SMALLEST_MODE_GAP`] apart. Three modes evenly spaced may pass as one: look at the quantiles
/// too. Logs whose slowdown is not a finite number are ignored.
pub fn modes(log_ratios: &[f64]) -> Vec<Mode> {
    let mut logs: Vec<f64> =
        log_ratios.iter().copied().filter(|log| log.is_finite() && log.exp().is_finite()).collect();
    logs.sort_by(f64::total_cmp);
    let mode = |part: &[f64]| Mode {
        slowdown: quantile(part, 0.5).exp(),
        share: part.len() as f64 / logs.len() as f64,
    };
    match split(&logs) {
        _ if logs.is_empty() => Vec::new(),
        Some(at) if are_apart(&logs[..at], &logs[at..]) => {
            vec![mode(&logs[..at]), mode(&logs[at..])]
        }
        _ => vec![mode(&logs)],
    }
}

/// Where to cut a sorted sample in two so that the groups are as tight as can be.
fn split(sorted: &[f64]) -> Option<usize> {
    let n = sorted.len();
    let fewest = FEWEST_PAIRS.max((SMALLEST_SHARE * n as f64).ceil() as usize);
    if n < 2 * fewest {
        return None;
    }
    // Centred, for the sums of squares between groups to keep their digits.
    let centre = quantile(sorted, 0.5);
    let total: f64 = sorted.iter().map(|x| x - centre).sum();
    let mut below = 0.0;
    let mut best = (f64::NEG_INFINITY, None);
    for (at, x) in (1..n).zip(sorted) {
        below += x - centre;
        if at < fewest || n - at < fewest {
            continue;
        }
        let (left, right) = (at as f64, (n - at) as f64);
        let between = left * right * (below / left - (total - below) / right).powi(2);
        if between > best.0 {
            best = (between, Some(at));
        }
    }
    best.1
}

fn are_apart(low: &[f64], high: &[f64]) -> bool {
    let gap = quantile(high, 0.5) - quantile(low, 0.5);
    let pooled = ((spread(low).powi(2) + spread(high).powi(2)) / 2.0).sqrt();
    gap >= SMALLEST_MODE_GAP && gap > MODES_APART_BY * pooled
}

fn spread(sorted: &[f64]) -> f64 {
    let centre = quantile(sorted, 0.5);
    let mut off: Vec<f64> = sorted.iter().map(|x| (x - centre).abs()).collect();
    off.sort_by(f64::total_cmp);
    MAD_TO_SD * quantile(&off, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evenly spread around a centre: the quantiles of a uniform sample.
    fn around(centre: f64, half: f64, n: u32) -> impl Iterator<Item = f64> {
        (0..n).map(move |i| centre + half * (2.0 * (f64::from(i) + 0.5) / f64::from(n) - 1.0))
    }

    #[test]
    fn twelve_times_and_none_are_two_modes() {
        let logs: Vec<f64> = around(12f64.ln(), 0.1, 30).chain(around(0.0, 0.1, 10)).collect();
        let found = modes(&logs);
        assert_eq!(found.len(), 2);
        assert!((found[0].slowdown - 1.0).abs() < 1e-9 && (found[0].share - 0.25).abs() < 1e-12);
        assert!((found[1].slowdown - 12.0).abs() < 1e-9 && (found[1].share - 0.75).abs() < 1e-12);
    }

    #[test]
    fn one_heap_is_one_mode_whatever_its_width() {
        for half in [0.0, 1e-6, 0.1, 3.0] {
            assert_eq!(modes(&around(0.5, half, 200).collect::<Vec<_>>()).len(), 1);
        }
    }

    #[test]
    fn outliers_are_no_mode() {
        let logs: Vec<f64> = around(0.0, 0.05, 100).chain([4.0, 4.1, 4.2]).collect();
        assert_eq!(modes(&logs).len(), 1);
    }

    #[test]
    fn too_few_pairs_are_not_split() {
        assert!(modes(&[]).is_empty());
        assert_eq!(modes(&[0.0, 3.0]).len(), 1);
        assert_eq!(modes(&[f64::NAN, f64::INFINITY]).len(), 0);
    }

    // Otsu by hand: 10 x 0 and 10 x 1 split in the middle.
    #[test]
    fn the_split_is_the_tightest() {
        let sorted: Vec<f64> = [[0.0; 10], [1.0; 10]].concat();
        assert_eq!(split(&sorted), Some(10));
        let sorted: Vec<f64> = [vec![0.0; 30], vec![1.0; 10]].concat();
        assert_eq!(split(&sorted), Some(30));
    }
}
