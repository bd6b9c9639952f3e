//! Hosts weighed by how well each is known and how much they differ.

use super::OnHost;

/// The middle of some hosts given the variance between them, the sum of their weights, and their
/// weighted squares about it.
pub(super) struct Weighed {
    pub middle: f64,
    pub weights: f64,
    pub squares: f64,
}

impl Weighed {
    pub(super) fn of<'a>(hosts: impl Iterator<Item = &'a OnHost> + Clone, between: f64) -> Self {
        let weight = |host: &OnHost| 1.0 / (host.variance + between);
        let (mut weights, mut sum) = (0.0, 0.0);
        for host in hosts.clone() {
            weights += weight(host);
            sum += weight(host) * host.log;
        }
        let middle = sum / weights;
        let squares = hosts.map(|host| weight(host) * (host.log - middle).powi(2)).sum();
        Self { middle, weights, squares }
    }
}
