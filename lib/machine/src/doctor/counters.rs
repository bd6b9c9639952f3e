//! Hardware counters.

use crate::counters::Unavailable;
use crate::root::FsRoot;

use super::finding::{Finding, Severity, View};

/// Asks the kernel on the host, the files elsewhere.
pub(super) fn ask(root: &FsRoot) -> Result<(), Unavailable> {
    #[cfg(feature = "perf")]
    if root.is_host() {
        return crate::counters::Counters::available();
    }
    Unavailable::foretell(root)
}

pub(super) fn find(view: &View) -> Vec<Finding> {
    let Err(unavailable) = &view.counters else { return Vec::new() };
    // A copy without the folder of PMUs does not say that there are none.
    if !view.root.is_host() && !view.root.exists("/sys/bus/event_source/devices") {
        return Vec::new();
    }
    vec![Finding {
        id: "no-perf-counters".into(),
        severity: Severity::Info,
        title: "There are no hardware counters".into(),
        cause: unavailable.reason.clone(),
        consequence: "times are still measured, but cache misses and stalls are not shown".into(),
        remedy: unavailable.remedy.clone(),
        evidence: match unavailable.errno {
            Some(errno) => format!("perf_event_open: {}", std::io::Error::from_raw_os_error(errno)),
            None => "/sys/bus/event_source/devices and kernel.perf_event_paranoid".into(),
        },
    }]
}
