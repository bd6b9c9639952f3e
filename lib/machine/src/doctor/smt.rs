//! Hardware threads that share a core.

use crate::cpulist::{CpuId, CpuSet};
use crate::topology::Topology;

use super::finding::{Finding, Severity, View};
use super::stat::StatSnapshot;

pub(super) fn find(view: &View) -> Vec<Finding> {
    let pairs = view.topology.cores.iter().filter(|core| core.cpus.len() > 1).count();
    if pairs == 0 {
        return Vec::new();
    }
    vec![Finding {
        id: "smt-on".into(),
        severity: Severity::Info,
        title: "Cores run several hardware threads".into(),
        cause: format!("SMT is on: {pairs} of {} cores have siblings", view.topology.cores.len()),
        consequence: "a process on a sibling shares L1, L2 and execution units with the measured \
                      task"
            .into(),
        remedy: "leave the siblings of the CPUs in use idle, or echo off > \
             /sys/devices/system/cpu/smt/control"
            .into(),
        evidence: example(view.topology),
    }]
}

fn example(topology: &Topology) -> String {
    let core = topology.cores.iter().find(|core| core.cpus.len() > 1);
    core.map(|core| format!("CPUs {} are one core", core.cpus)).unwrap_or_default()
}

/// CPUs outside of `used` that share a core with one of them and were busy for more than
/// `share` (0 to 1) of the time between two readings of `/proc/stat`.
pub fn busy_siblings(
    topology: &Topology,
    used: &CpuSet,
    before: &StatSnapshot,
    after: &StatSnapshot,
    share: f64,
) -> Vec<(CpuId, f64)> {
    let siblings: CpuSet =
        used.iter().flat_map(|cpu| topology.smt_siblings(cpu).iter().collect::<Vec<_>>()).collect();
    let usage = before.until(after);
    let busy = |cpu: CpuId| {
        usage.get(&cpu).map(|usage| (cpu, usage.busy)).filter(|(_, busy)| *busy > share)
    };
    siblings.difference(used).iter().filter_map(busy).collect()
}

/// The finding that those busy siblings make, if there are any.
pub fn busy_siblings_finding(busy: &[(CpuId, f64)]) -> Option<Finding> {
    let list: Vec<String> =
        busy.iter().map(|(cpu, share)| format!("CPU {cpu} {:.0} %", share * 100.0)).collect();
    (!busy.is_empty()).then(|| Finding {
        id: "smt-sibling-busy".into(),
        severity: Severity::Serious,
        title: "SMT siblings of the CPUs in use are busy".into(),
        cause: "another process runs on the same cores".into(),
        consequence: "it takes a varying share of the core from the measured task".into(),
        remedy: "move that work away, choose other CPUs, or isolate the cores (cpuset, isolcpus)"
            .into(),
        evidence: list.join(", "),
    })
}
