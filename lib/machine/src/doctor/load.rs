//! Other work on the machine.

use super::finding::{Finding, Severity, View};

pub(super) fn find(view: &View) -> Vec<Finding> {
    let Some(text) = view.root.read_opt("/proc/loadavg") else { return Vec::new() };
    let Some(load) = text.split_whitespace().next().and_then(|text| text.parse::<f64>().ok())
    else {
        return Vec::new();
    };
    let cpus = view.topology.online.len() as f64;
    // One runnable task per four CPUs is already enough to land on a sibling or a shared cache.
    if load <= (cpus / 4.0).max(0.5) {
        return Vec::new();
    }
    vec![Finding {
        id: "load".into(),
        severity: if load >= cpus / 2.0 { Severity::Serious } else { Severity::Warning },
        title: "Other work is running".into(),
        cause: format!("on average {load} tasks wanted to run in the last minute, on {cpus} CPUs"),
        consequence:
            "tasks share CPUs, caches and bandwidth with work that is not part of the experiment"
                .into(),
        remedy: "stop it, or wait until the load is gone".into(),
        evidence: format!("/proc/loadavg is '{text}'"),
    }]
}
