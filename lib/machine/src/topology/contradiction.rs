//! Statements about CPUs that cannot all be true, such as a cache that two packages share.
//!
//! Firmware and hypervisors produce them, and copies of files from different moments.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cpulist::{CpuId, CpuSet};

/// Files of the kernel that contradict each other about some CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Contradiction {
    /// What it makes doubtful.
    pub relation: Relation,
    /// The CPUs whose relation to each other is in doubt.
    pub cpus: CpuSet,
    /// What contradicts what, in a sentence without a full stop.
    pub text: String,
}

/// A relation between CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Relation {
    /// Hardware threads of one core.
    Smt,
    /// CPUs that share a cache.
    Cache,
    /// CPUs of one NUMA node.
    Node,
    /// CPUs of one die.
    Die,
    /// CPUs of one package.
    Package,
    /// CPUs that there are.
    Cpu,
    /// Cores of one kind.
    Kind,
}

/// The sets in which the kernel's files put each CPU, by CPU.
pub(super) type Sets = BTreeMap<CpuId, CpuSet>;

/// Whether members of a set name different sets: reports each such group once.
pub(super) fn disagreements(sets: &Sets) -> Vec<CpuSet> {
    let mut groups: Vec<CpuSet> = Vec::new();
    for (cpu, set) in sets {
        let disputed =
            set.iter().filter(|other| sets.get(other).is_some_and(|theirs| theirs != set));
        let all = disputed.fold(CpuSet::new(), |all, other| all.union(&CpuSet::single(other)));
        if all.is_empty() {
            continue;
        }
        let all = all.union(&CpuSet::single(*cpu));
        match groups.iter_mut().find(|group| !group.is_disjoint(&all)) {
            Some(group) => *group = group.union(&all),
            None => groups.push(all),
        }
    }
    groups
}

/// That CPUs are missing in their own list of `what`.
pub(super) fn not_in_own_list(cpus: &CpuSet, what: &str) -> String {
    let verb = if cpus.len() == 1 { "is not in its list" } else { "are not in their lists" };
    format!("{} {verb} of {what}", cpus.named())
}
