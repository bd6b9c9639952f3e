//! Which of several ways to commit is the cheapest, compared trial by trial.
//!
//! Means of commits are imprecise: a few stalls dominate them. Ways are therefore compared within
//! trials, and where the ratio of means leaves it open, by the ratio of medians.

use ringfence_experiment::plan::Plan;
use ringfence_experiment::quantity::{Quantile, Quantity};
use ringfence_experiment::sample::Sample;
use ringfence_experiment::task::Task;

use crate::estimate::Estimate;
use crate::results::CaseResult;
use crate::windows::{Lost, Windows};

/// The cheapest way, and how the others compare with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Cheapest {
    /// Its case.
    pub case: usize,
    /// The other durable methods that have a figure.
    pub others: Vec<Compared>,
}

/// A way compared with the cheapest one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compared {
    /// Its case.
    pub case: usize,
    /// How many times as long it takes for as many bytes.
    pub ratio: f64,
    /// Whether it is known to take longer.
    pub dearer: bool,
    /// Whether that is known of the medians only.
    pub by_median: bool,
}

/// Compares the durable methods to commit that have a figure; `None` where there are fewer than
/// two, or where something else was measured, too.
pub fn cheapest(
    plan: &Plan,
    samples: &[Sample],
    results: &[CaseResult],
    level: f64,
) -> Option<Cheapest> {
    let mut ways = Vec::new();
    for result in results {
        let Task::Commit(task) = plan.metric_task(result.case) else { return None };
        if result.effect.is_some() {
            return None;
        }
        if let (true, Ok(cost)) = (task.sync.durable(), &result.ns_per_unit) {
            ways.push((result.case, cost.value / task.bytes() as f64));
        }
    }
    if ways.len() < 2 {
        return None;
    }
    ways.sort_by(|a, b| a.1.total_cmp(&b.1));
    let pairing = Pairing::of(plan, samples, level);
    let case_of = |(case, _): &(usize, f64)| *case;
    let mut best = case_of(&ways[0]);
    for case in ways.iter().map(case_of) {
        if pairing.compare(best, case).dearer {
            best = case;
        }
    }
    let others = ways.iter().map(case_of).filter(|case| *case != best);
    Some(Cheapest { case: best, others: others.map(|case| pairing.compare(case, best)).collect() })
}

struct Pairing<'a> {
    plan: &'a Plan,
    own: Windows,
    // Where figures are means.
    medians: Option<Windows>,
    level: f64,
}

impl<'a> Pairing<'a> {
    fn of(plan: &'a Plan, samples: &[Sample], level: f64) -> Self {
        let lost = Lost::of(plan, samples);
        let median = Quantity::Quantile(Quantile::P50);
        let of_means = plan.experiment.measure.quantity.is_mean();
        let medians = of_means.then(|| Windows::about(median, plan, samples, &lost));
        Self { plan, own: Windows::of(plan, samples, &lost), medians, level }
    }

    fn compare(&self, case: usize, than: usize) -> Compared {
        let bytes = [case, than].map(|case| self.plan.metric_task(case).bytes_per_unit());
        let scale = match bytes {
            [Some(own), Some(other)] => other as f64 / own as f64,
            _ => 1.0,
        };
        let ratio =
            |of: &Windows| of.rate_ratio(case, than, self.level).map(|ratio| ratio.times(scale));
        decide(case, ratio(&self.own), self.medians.as_ref().map(ratio))
    }
}

// The medians decide where the means do not, unless these contradict them.
fn decide(case: usize, mean: Estimate, median: Option<Estimate>) -> Compared {
    let median = median.and_then(Result::ok).filter(|median| !median.contains(1.0));
    let by_median = median.filter(|median| {
        mean.is_ok_and(|mean| mean.contains(1.0) && mean.contains(median.value)) || mean.is_err()
    });
    let decided = by_median.or(mean.ok());
    Compared {
        case,
        ratio: decided.map_or(1.0, |ratio| ratio.value),
        dearer: decided.is_some_and(|ratio| ratio.low > 1.0),
        by_median: by_median.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::{Interval, NotEstimable};

    fn ratio(value: f64, low: f64, high: f64) -> Estimate {
        Ok(Interval { value, low, high, level: 0.95, trials: 8, spread: 0.1, slack: 0.0 })
    }

    #[test]
    fn medians_decide_where_means_leave_it_open() {
        let told = |mean, median| {
            let found = decide(3, mean, median);
            (found.ratio, found.dearer, found.by_median)
        };
        let wide = ratio(1.1, 0.4, 3.1);
        assert_eq!(told(ratio(1.5, 1.2, 1.9), Some(ratio(0.8, 0.7, 0.9))), (1.5, true, false));
        assert_eq!(told(wide, Some(ratio(2.0, 1.8, 2.2))), (2.0, true, true));
        assert_eq!(told(wide, Some(ratio(0.5, 0.4, 0.6))), (0.5, false, true));
        assert_eq!(told(wide, Some(ratio(1.1, 0.9, 1.3))), (1.1, false, false));
        let unknown = Err(NotEstimable::TooWide { trials: 4, needed: None });
        assert_eq!(told(unknown, Some(ratio(2.0, 1.8, 2.2))), (2.0, true, true));
        assert_eq!(told(unknown, None), (1.0, false, false));
        // Means that are known well enough to be as good as equal.
        assert_eq!(told(ratio(1.0, 0.98, 1.02), Some(ratio(2.0, 1.8, 2.2))), (1.0, false, false));
    }
}
