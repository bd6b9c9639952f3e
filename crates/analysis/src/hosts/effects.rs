//! The middle of hosts of a kind, how much they differ, and what to expect of the next one.

use std::ops::RangeInclusive;

use serde::Serialize;

use super::confidence::Confidence;
use super::moderate::moderated;
use super::weights::Weighed;
use super::{FEWEST_HOSTS, LEAST_VARIANCE, OnHost};
use crate::estimate::t_quantile_at;

/// Most steps that the variance is given to settle.
const MOST_STEPS: usize = 200;

/// What a number has as its logarithm at most, and variances with which numbers can be told.
const LARGEST_LOG: f64 = 710.0;
const SENSIBLE: RangeInclusive<f64> = LEAST_VARIANCE..=1e6;

/// A random-effects summary of a figure over hosts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Expected {
    /// Hosts that it rests on.
    pub hosts: usize,
    /// The middle of such hosts: a geometric mean.
    pub value: f64,
    /// Lower bound of the middle.
    pub low: f64,
    /// Upper bound of the middle.
    pub high: f64,
    /// Lower bound of what the next host's true figure will be.
    pub next_low: f64,
    /// Upper bound of it.
    pub next_high: f64,
    /// Confidence level of all bounds.
    pub level: f64,
    /// How much hosts differ: the standard deviation of their true figures on the log scale, 0.05
    /// being about 5 %.
    pub between: f64,
    /// Lower bound of that.
    pub between_low: f64,
    /// Upper bound of that.
    pub between_high: f64,
    /// How well one host's figure is known: its standard error on the log scale, typically.
    pub within: f64,
    /// The share of what is seen to vary that is between hosts, 0 to 1.
    pub share_between: f64,
}

/// Summarises hosts of one kind; `None` where there are fewer than [`FEWEST_HOSTS`], or figures
/// that are no numbers, or whose variance is none.
pub fn expected(hosts: &[OnHost], level: f64) -> Option<Expected> {
    let known = |host: &OnHost| {
        host.log.abs() < LARGEST_LOG && SENSIBLE.contains(&host.variance) && host.freedom >= 1.0
    };
    if hosts.len() < FEWEST_HOSTS || !hosts.iter().all(known) || !(level > 0.0 && level < 1.0) {
        return None;
    }
    let measured = hosts;
    let hosts = &moderated(measured);
    let fit = Fit::of(hosts.iter());
    let half = t_quantile_at(0.5 + level / 2.0, hosts.len() as f64 - 1.0) * fit.error;
    let (low, high) = (fit.middle - half, fit.middle + half);
    let confidence = Confidence::of(hosts, measured);
    let (next_low, next_high) = confidence.next(level);
    let tail = (1.0 - level) / 2.0;
    let within = typical(hosts);
    let told = Expected {
        hosts: hosts.len(),
        value: fit.middle.exp(),
        low: low.exp(),
        high: high.exp(),
        // A single host is known no better than the middle of all.
        next_low: next_low.min(low).exp(),
        next_high: next_high.max(high).exp(),
        level,
        between: fit.between.sqrt(),
        between_low: confidence.quantile(tail).sqrt(),
        between_high: confidence.quantile(1.0 - tail).sqrt(),
        within: within.sqrt(),
        share_between: fit.between / (fit.between + within),
    };
    [told.low, told.high, told.next_low, told.next_high]
        .iter()
        .all(|bound| bound.is_normal())
        .then_some(told)
}

/// The middle of some hosts, its standard error, and the variance between them, all on the log
/// scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fit {
    pub middle: f64,
    pub error: f64,
    pub between: f64,
}

impl Fit {
    /// Of two hosts on.
    pub(super) fn of<'a>(hosts: impl Iterator<Item = &'a OnHost> + Clone) -> Self {
        let between = restricted_likelihood(hosts.clone());
        let Weighed { middle, weights, squares } = Weighed::of(hosts.clone(), between);
        let more = (hosts.count() - 1) as f64;
        // Hartung and Knapp's scale; below 1 it would be narrower than if hosts did not differ.
        let scale = (squares / more).max(1.0);
        Self { middle, error: (scale / weights).sqrt(), between }
    }
}

// By the fixed point of the likelihood's equation, from the variance of the figures as they are.
fn restricted_likelihood<'a>(hosts: impl Iterator<Item = &'a OnHost> + Clone) -> f64 {
    let count = hosts.clone().count() as f64;
    let mean = hosts.clone().map(|host| host.log).sum::<f64>() / count;
    let mut between =
        hosts.clone().map(|host| (host.log - mean).powi(2)).sum::<f64>() / (count - 1.0);
    for _ in 0..MOST_STEPS {
        let Weighed { middle, weights, .. } = Weighed::of(hosts.clone(), between);
        let (mut over, mut squares) = (0.0, 0.0);
        for host in hosts.clone() {
            let weight = 1.0 / (host.variance + between);
            over += weight * weight * ((host.log - middle).powi(2) - host.variance);
            squares += weight * weight;
        }
        let next = (over / squares + 1.0 / weights).max(0.0);
        let settled = (next - between).abs() <= 1e-6 * between.max(1e-12);
        between = next;
        if settled {
            break;
        }
    }
    between
}

// What stands for all hosts' own variances (Higgins and Thompson, Stat. Med. 21, 2002).
fn typical(hosts: &[OnHost]) -> f64 {
    let weights: f64 = hosts.iter().map(|host| 1.0 / host.variance).sum();
    let squares: f64 = hosts.iter().map(|host| host.variance.powi(-2)).sum();
    (hosts.len() - 1) as f64 * weights / (weights * weights - squares)
}
