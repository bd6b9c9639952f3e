//! Hosts that are not as the others let expect.
//!
//! The rule is the generalized extreme studentized deviate (Rosner, Technometrics 25, 1983) with
//! figures that have errors of their own: the host that is farthest from the middle is taken out,
//! again and again, up to a quarter of them (one of fewer than 15), and each is compared with what
//! the remaining hosts predict for one more host. The last at which this is too unlikely for so
//! many hosts, and all before it, are outliers. Taking out first finds several that would hide each
//! other.

use serde::Serialize;

use super::effects::Fit;
use super::moderate::moderated;
use super::{FEWEST_HOSTS, OnHost, together};
use crate::estimate::{t_probability, t_quantile_at};

/// More are not looked for.
const MOST: usize = 50;

/// Of fewer hosts the rule holds its level for one outlier alone.
const FEWEST_FOR_SEVERAL: usize = 15;

/// A host that the others do not let expect.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Outlier {
    /// Its place among the hosts that were handed in.
    pub host: usize,
    /// Its figure over the middle of the hosts that are no outliers.
    pub value: f64,
    /// Lower bound of that; the bounds of all hosts hold together.
    pub low: f64,
    /// Upper bound of that.
    pub high: f64,
}

/// The outliers among hosts of one kind: with probability `level` none where all are of that kind.
pub fn outliers(hosts: &[OnHost], level: f64) -> Vec<Outlier> {
    if hosts.len() <= FEWEST_HOSTS || !(level > 0.0 && level < 1.0) {
        return Vec::new();
    }
    let hosts = &moderated(hosts);
    let mut left: Vec<usize> = (0..hosts.len()).collect();
    let (mut taken, mut last) = (Vec::new(), 0);
    for _ in 0..most(hosts.len()) {
        let fit = Fit::of(left.iter().map(|host| &hosts[*host]));
        let distance = |host: usize| {
            let OnHost { log, variance, .. } = hosts[host];
            (log - fit.middle).abs() / (fit.between + variance).sqrt()
        };
        let farthest =
            (0..left.len()).max_by(|a, b| distance(left[*a]).total_cmp(&distance(left[*b])));
        let Some(farthest) = farthest else { break };
        let of = left.len();
        let host = left.remove(farthest);
        taken.push(host);
        let probability = unlikely(&hosts[host], left.iter().map(|host| &hosts[*host]));
        if probability < (1.0 - level) / of as f64 {
            last = taken.len();
        }
    }
    taken.truncate(last);
    let others =
        hosts.iter().enumerate().filter(|(host, _)| !taken.contains(host)).map(|(_, host)| host);
    let fit = Fit::of(others.clone());
    let level = together(level, hosts.len());
    let told = |host: usize| {
        let OnHost { log, variance, freedom } = hosts[host];
        let error = (variance + fit.error * fit.error).sqrt();
        let half = t_quantile_at(0.5 + level / 2.0, freedom) * error;
        let middle = log - fit.middle;
        Outlier {
            host,
            value: middle.exp(),
            low: (middle - half).exp(),
            high: (middle + half).exp(),
        }
    };
    let mut all: Vec<Outlier> = taken.into_iter().map(told).collect();
    all.sort_by_key(|outlier| outlier.host);
    all
}

fn most(hosts: usize) -> usize {
    if hosts < FEWEST_FOR_SEVERAL { 1 } else { (hosts / 4).min(MOST) }
}

// How likely a host of the others' kind is as far from their middle as this one. How far the
// others' figures scatter, errors and all, is known with their number of degrees of freedom: it is
// not split into what is between and within, since a share that is estimated as none by chance
// would raise alarms. What this host is known worse than they usually are comes on top
// (Satterthwaite, Biometrics Bulletin 2, 1946).
fn unlikely<'a>(host: &OnHost, others: impl Iterator<Item = &'a OnHost> + Clone) -> f64 {
    let fit = Fit::of(others.clone());
    let count = others.clone().count() as f64;
    let usual = others.clone().map(|other| other.variance).sum::<f64>() / count;
    let scatter = others.map(|other| (other.log - fit.middle).powi(2)).sum::<f64>() / (count - 1.0);
    let theirs = scatter.max(usual) + fit.error * fit.error;
    let worse = (host.variance - usual).max(0.0);
    let sum = theirs + worse;
    let freedom = sum * sum / (theirs * theirs / (count - 1.0) + worse * worse / host.freedom);
    t_probability((host.log - fit.middle) / sum.sqrt(), freedom.max(1.0))
}
