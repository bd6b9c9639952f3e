//! Virtual machines and stolen time.

use crate::hypervisor;

use super::finding::{Finding, Severity, View};
use super::stat::StatSnapshot;

pub(super) fn find(view: &View) -> Vec<Finding> {
    let Some(guest) = hypervisor::guest(view.root) else { return Vec::new() };
    let name = guest.hypervisor.map(|name| format!(": {name}")).unwrap_or_default();
    let mut findings = vec![Finding {
        id: "virtual-machine".into(),
        severity: Severity::Warning,
        title: "This is a virtual machine".into(),
        cause: format!("a hypervisor runs below the kernel{name}"),
        consequence:
            "sysfs may be wrong about cores and caches, virtual CPUs move between physical ones, \
             and other guests share the caches"
                .into(),
        remedy:
            "measure on the bare machine, or have the host pin the virtual CPUs; trust probes, not \
             sysfs"
                .into(),
        evidence: guest.evidence.join("; "),
    }];
    findings.extend(steal(view));
    findings
}

fn steal(view: &View) -> Option<Finding> {
    let stat = StatSnapshot::read(view.root).ok()?;
    let sum = |of: fn(&super::stat::CpuTimes) -> u64| stat.cpus.values().map(of).sum::<u64>();
    let (steal, busy) = (sum(|times| times.steal), sum(|times| times.total - times.idle));
    let share = steal as f64 / busy.max(1) as f64;
    // Guests that share a host see a few ticks in any case.
    (share > 0.001).then(|| Finding {
        id: "steal-time".into(),
        severity: if share > 0.02 { Severity::Serious } else { Severity::Warning },
        title: "The hypervisor steals CPU time".into(),
        cause: "other guests compete for the physical CPUs".into(),
        consequence:
            "windows contain pauses that no counter of this machine shows; take more trials and \
             look at modes"
                .into(),
        remedy: "use an instance with dedicated CPUs".into(),
        evidence: format!(
            "since boot {:.1} % of the time that CPUs wanted to run was \
                           stolen",
            share * 100.0
        ),
    })
}
