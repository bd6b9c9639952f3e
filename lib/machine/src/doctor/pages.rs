//! What moves or merges pages behind a task's back.

use super::finding::{Finding, Severity, View};

pub(super) fn find(view: &View) -> Vec<Finding> {
    thp(view).into_iter().chain(numa_balancing(view)).collect()
}

fn thp(view: &View) -> Option<Finding> {
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    let text = view.root.read_opt(path)?;
    let (severity, consequence) = if text.contains("[always]") {
        (
            Severity::Warning,
            "khugepaged turns a task's pages into huge ones while it runs: its speed changes \
             during the measurement",
        )
    } else if text.contains("[never]") {
        (
            Severity::Info,
            "large working sets pay for TLB misses, and probes of cache capacity are blurred by \
             them",
        )
    } else {
        return None;
    };
    Some(Finding {
        id: "thp".into(),
        severity,
        title: "Programs do not control transparent huge pages".into(),
        cause: format!("{path} is not 'madvise'"),
        consequence: consequence.into(),
        remedy: format!("echo madvise > {path}"),
        evidence: text,
    })
}

fn numa_balancing(view: &View) -> Option<Finding> {
    let path = "/proc/sys/kernel/numa_balancing";
    let text = view.root.read_opt(path).filter(|text| text != "0")?;
    (view.topology.nodes.len() > 1).then(|| Finding {
        id: "numa-balancing".into(),
        severity: Severity::Warning,
        title: "The kernel moves pages between nodes".into(),
        cause: "automatic NUMA balancing is on".into(),
        consequence:
            "it unmaps pages to see which tasks touch them: page faults and migrations in the \
             middle of a window"
                .into(),
        remedy: "sysctl kernel.numa_balancing=0".into(),
        evidence: format!("{path} is {text}"),
    })
}
