//! On how many hosts a figure reaches a bound.

use serde::Serialize;

use super::{OnHost, together};

/// Hosts by where their interval lies relative to a bound; all intervals hold together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reached {
    /// The bound.
    pub at_least: f64,
    /// Those whose interval lies wholly at or above it, by their place among those handed in.
    pub above: Vec<usize>,
    /// Those whose interval lies wholly below it.
    pub below: Vec<usize>,
    /// Those whose interval holds it: not known.
    pub undecided: Vec<usize>,
    /// The level at which all of this holds together.
    pub level: f64,
}

/// Counts the hosts whose figure is at least this.
pub fn reached(hosts: &[OnHost], at_least: f64, level: f64) -> Reached {
    let each = together(level, hosts.len());
    let mut found =
        Reached { at_least, above: Vec::new(), below: Vec::new(), undecided: Vec::new(), level };
    for (place, host) in hosts.iter().enumerate() {
        let (low, high) = host.bounds(each);
        let side = match () {
            () if low >= at_least => &mut found.above,
            () if high < at_least => &mut found.below,
            () => &mut found.undecided,
        };
        side.push(place);
    }
    found
}
