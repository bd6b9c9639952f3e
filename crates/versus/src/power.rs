//! The detectable difference, from the spread and the number of log-ratios.

use ringfence_analysis::estimate::Interval;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ChiSquared, ContinuousCDF, StudentsT};

/// The probability with which a difference of the announced size is detected.
pub const CHANCE: f64 = 0.9;

// A few rounds know their spread badly. The upper end of what it may be, which it exceeds in one of
// five cases.
const CAUTION: f64 = 0.2;

/// What a number of rounds can detect.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "VersusPower"))]
pub struct Power {
    /// The least difference that is detected with a probability of [`CHANCE`]: 0.012 is 1.2 %.
    pub difference: f64,
    /// Rounds that this is about.
    pub rounds: u32,
    /// Standard deviation of the log-ratio from round to round that it is reckoned with.
    pub spread: f64,
    /// Confidence of the interval then.
    pub level: f64,
}

/// A spread, and what it may be: a chi-squared upper bound, of so many rounds.
pub fn cautious(spread: f64, rounds: u32) -> f64 {
    let freedom = f64::from(rounds.max(2) - 1);
    let low = ChiSquared::new(freedom).expect("freedom is positive").inverse_cdf(CAUTION);
    spread * (freedom / low).sqrt()
}

/// The least difference that a number of rounds detects: how far the truth must be from no
/// difference, or from a limit, for the interval to lie wholly to one side of it.
pub fn of(spread: f64, rounds: u32, level: f64, slack: f64) -> Power {
    let standard = quantile(rounds, 0.5 + level / 2.0) + quantile(rounds, CHANCE);
    let difference = (standard / f64::from(rounds.max(2)).sqrt() * spread + slack).exp_m1();
    Power { difference, rounds, spread, level }
}

/// Rounds that tell a difference, none where absurdly many.
pub fn rounds_for(difference: f64, spread: f64, level: f64, slack: f64) -> Option<u32> {
    fewest(difference.ln_1p() - slack, spread, |rounds| {
        quantile(rounds, 0.5 + level / 2.0) + quantile(rounds, CHANCE)
    })
}

fn fewest(room: f64, spread: f64, standard: impl Fn(u32) -> f64) -> Option<u32> {
    const MOST: u32 = 10_000_000;
    let enough = |rounds: u32| standard(rounds) / f64::from(rounds).sqrt() * spread <= room;
    if !(room > 0.0 && enough(MOST)) {
        return None;
    }
    let (mut few, mut many) = (1, MOST);
    while many - few > 1 {
        let middle = few + (many - few) / 2;
        if enough(middle) { many = middle } else { few = middle }
    }
    Some(many.max(2))
}

/// Rounds, in all, that bring the half-width of an interval on the log scale down to this; none
/// where absurdly many.
pub fn rounds_within(half_width: f64, interval: &Interval) -> Option<u32> {
    let needed = fewest(half_width - interval.slack, interval.spread, |rounds| {
        quantile(rounds, 0.5 + interval.level / 2.0)
    });
    needed.map(|needed| needed.max(interval.trials + 1))
}

fn quantile(rounds: u32, share: f64) -> f64 {
    let t = StudentsT::new(0.0, 1.0, f64::from(rounds.max(2) - 1)).expect("freedom is positive");
    t.inverse_cdf(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Many rounds are normal: (1.95996 + 1.28155) / sqrt(10000) * 0.1.
    #[test]
    fn many_rounds_by_hand() {
        let power = of(0.1, 10_000, 0.95, 0.0);
        assert!((power.difference - 0.003_241_5f64.exp_m1()).abs() < 2e-6, "{power:?}");
        let needed = rounds_for(power.difference, 0.1, 0.95, 0.0).unwrap();
        assert!((9_990..=10_010).contains(&needed), "{needed}");
        assert_eq!(rounds_for(0.0, 0.1, 0.95, 0.0), None);
        assert_eq!(rounds_for(0.01, 0.1, 0.95, 0.02), None);
        assert_eq!(rounds_for(0.01, 0.0, 0.95, 0.0), Some(2));
    }

    // chi-squared, 9 degrees of freedom, 20 %: 5.380 in any table.
    #[test]
    fn caution_by_the_table() {
        assert!((cautious(1.0, 10) - (9.0f64 / 5.380).sqrt()).abs() < 1e-3);
        assert!((1.0..1.02).contains(&cautious(1.0, 10_000)));
    }
}
