//! Which lever is confirmed: a pure function of the figures.

use ringfence_analysis::estimate::{Estimate, serialize_estimate};
use ringfence_experiment::Reason;
use ringfence_experiment::budget::Budget;
use serde::{Serialize, Serializer};

use ringfence_limits::lever::Candidate;

/// What the aggressor pays.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Price {
    /// Its slowdown against running next to the victim without a lever: 1.00 is none.
    Slowdown(#[serde(serialize_with = "serialize_estimate")] Estimate),
    /// It cannot be seen, for this reason.
    Unseen(Reason),
}

/// A lever's setting with its figures.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tried {
    /// The setting.
    pub candidate: Candidate,
    /// The victim's slowdown against alone.
    #[serde(serialize_with = "serialize_estimate")]
    pub victim: Estimate,
    /// The victim's quantity next to it, ns, where the budget is a time.
    #[serde(serialize_with = "serialize_some", skip_serializing_if = "Option::is_none")]
    pub reached: Option<Estimate>,
    /// What the aggressor pays.
    pub price: Price,
}

impl Tried {
    /// What is compared with the budget.
    pub fn judged(&self) -> &Estimate {
        self.reached.as_ref().unwrap_or(&self.victim)
    }

    // In steps of a hundredth, so that the order is one: "nearly equal" is not transitive.
    fn cost(&self) -> i64 {
        let step = |cost: f64| (cost.ln() / SAME_PRICE).round() as i64;
        match &self.price {
            Price::Slowdown(Ok(slowdown)) => step(slowdown.value),
            // Nothing in the way it runs was taken from it, as far as can be seen.
            Price::Unseen(_) => step(1.0),
            // It may be any: behind all that are known.
            Price::Slowdown(Err(_)) => i64::MAX,
        }
    }
}

// Prices that differ by less than this are equal: the gentler one for the victim is taken.
const SAME_PRICE: f64 = 0.01;

pub(crate) fn serialize_some<S: Serializer>(
    figure: &Option<Estimate>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match figure {
        Some(figure) => serialize_estimate(figure, to),
        None => to.serialize_none(),
    }
}

/// The settings that seem to meet the budget, the one to be confirmed first in front: the cheapest,
/// and among equally cheap ones the one beside which the victim is fastest; one whose price is not
/// known comes after those. Their intervals may reach beyond the budget: whether they meet it, the
/// confirmation decides. Behind them come those that seem to miss it and may meet it, since their
/// intervals reach into the budget.
pub fn candidates(tried: &[Tried], budget: Budget) -> Vec<usize> {
    let limit = budget.limit();
    let figure =
        |index: usize| tried[index].judged().as_ref().map_or(f64::INFINITY, |figure| figure.value);
    let at_best =
        |index: usize| tried[index].judged().as_ref().map_or(f64::INFINITY, |figure| figure.low);
    let (mut fit, mut open): (Vec<usize>, Vec<usize>) = (0..tried.len())
        .filter(|&i| at_best(i).min(figure(i)) <= limit)
        .partition(|&i| figure(i) <= limit);
    let cost = |index: usize| tried[index].cost();
    fit.sort_by(|&a, &b| cost(a).cmp(&cost(b)).then(figure(a).total_cmp(&figure(b))));
    open.sort_by(|&a, &b| figure(a).total_cmp(&figure(b)));
    fit.extend(open);
    fit
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_analysis::estimate::{Interval, NotEstimable};
    use ringfence_experiment::Arm;
    use ringfence_experiment::quantity::Quantity;
    use ringfence_experiment::units::{Share, Span};

    fn around(value: f64) -> Estimate {
        Ok(Interval {
            value,
            low: value * 0.98,
            high: value * 1.02,
            level: 0.95,
            trials: 10,
            spread: 0.02,
            slack: 0.0,
        })
    }

    fn tried(name: &str, victim: Estimate, price: Price) -> Tried {
        let arm = Arm::new(name, &[], None);
        let candidate = Candidate {
            lever: name.into(),
            arm,
            role: None,
            keep: String::new(),
            caveat: None,
            commands: Vec::new(),
            price_in_cpu_time: false,
        };
        Tried { candidate, victim, reached: None, price }
    }

    fn budget(share: f64) -> Budget {
        Budget::Slowdown(Share(share))
    }

    #[test]
    fn the_cheapest_that_seems_to_meet_the_budget_comes_first() {
        let all = [
            tried("too much", around(1.2), Price::Slowdown(around(0.9))),
            tried("dear", around(1.0), Price::Slowdown(around(4.0))),
            tried("free", around(1.04), Price::Slowdown(around(1.002))),
            tried("free and gentler", around(1.01), Price::Slowdown(around(1.004))),
            tried("unseen", around(1.03), Price::Unseen("why".into())),
            tried("unknown", Err(NotEstimable::NothingMeasured), Price::Slowdown(around(1.0))),
            tried("unpriced", around(1.0), Price::Slowdown(Err(NotEstimable::NothingMeasured))),
            tried("gains", around(1.02), Price::Slowdown(around(0.8))),
        ];
        assert_eq!(candidates(&all, budget(0.05)), [7, 3, 4, 2, 1, 6]);
        // What may meet the budget comes last, the nearest first.
        assert_eq!(candidates(&all, budget(0.005)), [1, 6, 3, 7]);
        assert!(candidates(&all[..1], budget(0.05)).is_empty());
    }

    #[test]
    fn a_time_is_held_against_what_it_bounds_and_not_against_the_slowdown() {
        let reached = |name: &str, slowdown: f64, ns: f64, price: f64| Tried {
            reached: Some(around(ns)),
            ..tried(name, around(slowdown), Price::Slowdown(around(price)))
        };
        let all = [
            reached("a small slowdown, and too slow", 1.01, 6e6, 1.0),
            reached("near", 9.0, 5.05e6, 1.0),
            reached("dear", 8.0, 3e6, 4.0),
            reached("free", 8.0, 4e6, 1.0),
        ];
        assert_eq!(candidates(&all, Budget::AtMost(Quantity::Mean, Span::ms(5))), [3, 2, 1]);
    }
}
