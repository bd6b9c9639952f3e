//! Quantiles of samples.

/// Sample quantile of a sorted, non-empty sample: definition 7 of Hyndman and Fan (Am. Stat. 50,
/// 1996), which interpolates between the order statistics around `p (n - 1)`.
pub fn quantile(sorted: &[f64], p: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = p * last as f64;
    let below = (place.floor() as usize).min(last);
    let above = (below + 1).min(last);
    let part = place - below as f64;
    sorted[below] * (1.0 - part) + sorted[above] * part
}

/// The median of values in any order, which are sorted; 0 where there are none.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    quantile(values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours() {
        let sorted = [1.0, 2.0, 4.0, 8.0];
        assert_eq!([0.0, 0.5, 1.0].map(|p| quantile(&sorted, p)), [1.0, 3.0, 8.0]);
        assert_eq!((quantile(&[], 0.5), quantile(&[5.0], 0.9)), (0.0, 5.0));
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 8.0]), 3.0);
    }
}
