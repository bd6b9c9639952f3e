//! Placements of two tasks: on one core, on one last-level cache, on one node, on two nodes.
//!
//! All of them pick from the usable CPUs in `among` (pass [`Topology::usable`] for all), are
//! ordered with the lowest CPUs first, and use one hardware thread per core, the lowest, except
//! where siblings are requested. What the kernel does not report is not a candidate. On hybrid
//! processors pairs of equal cores come first.

use crate::cpulist::{CpuId, CpuSet};

use super::Topology;

impl Topology {
    /// Two hardware threads of one core.
    pub fn pairs_smt(&self, among: &CpuSet) -> Vec<(CpuId, CpuId)> {
        let among = among.intersection(&self.usable());
        let mut pairs = Vec::new();
        for a in among.iter() {
            let siblings = self.smt_siblings(a).intersection(&among);
            pairs.extend(siblings.iter().filter(|&b| a < b).map(|b| (a, b)));
        }
        pairs
    }

    /// Two cores that share the last-level cache.
    pub fn pairs_llc(&self, among: &CpuSet) -> Vec<(CpuId, CpuId)> {
        self.pairs_of_cores(among, |a, b| self.shares_llc(a, b) == Some(true))
    }

    /// Two cores of one node that do not share the last-level cache, as on processors with
    /// several core complexes.
    pub fn pairs_node(&self, among: &CpuSet) -> Vec<(CpuId, CpuId)> {
        self.pairs_of_cores(among, |a, b| {
            self.node_of(a).is_some()
                && self.node_of(a) == self.node_of(b)
                && self.shares_llc(a, b) == Some(false)
        })
    }

    /// Two cores of different nodes: of different packages if there are such, and otherwise of one
    /// package that has several nodes (sub-NUMA clusters).
    pub fn pairs_remote(&self, among: &CpuSet) -> Vec<(CpuId, CpuId)> {
        let mut pairs =
            self.pairs_of_cores(among, |a, b| match (self.node_of(a), self.node_of(b)) {
                (Some(a), Some(b)) => a != b,
                _ => false,
            });
        if pairs.iter().any(|&(a, b)| self.different_packages(a, b)) {
            pairs.retain(|&(a, b)| self.different_packages(a, b));
        }
        pairs
    }

    fn pairs_of_cores(
        &self,
        among: &CpuSet,
        fits: impl Fn(CpuId, CpuId) -> bool,
    ) -> Vec<(CpuId, CpuId)> {
        let cpus = self.primaries(&among.intersection(&self.usable()));
        let mut pairs = Vec::new();
        for a in cpus.iter() {
            for b in cpus.iter().filter(|&b| a < b) {
                if self.different_cores(a, b) && fits(a, b) {
                    pairs.push((a, b));
                }
            }
        }
        let kind = |cpu| self.cpu(cpu).and_then(|known| known.kind);
        pairs.sort_by_key(|&(a, b)| (kind(a) != kind(b), a, b));
        pairs
    }
}
