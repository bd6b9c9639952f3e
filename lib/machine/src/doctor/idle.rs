//! Sleep states that take long to leave.

use super::finding::{Finding, Severity, View};

/// Wake-ups shorter than this are lost in the noise of a window of 20 ms.
const DEEP_US: u64 = 20;

pub(super) fn find(view: &View) -> Vec<Finding> {
    let mut deepest: Option<(u64, String)> = None;
    for cpu in view.topology.usable().iter() {
        let dir = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle");
        for state in view.root.numbered(&dir, "state") {
            let path = format!("{dir}/state{state}");
            let disabled =
                view.root.read_opt(format!("{path}/disable")).is_some_and(|text| text != "0");
            let latency = view.root.parse_opt::<u64>(format!("{path}/latency")).unwrap_or(0);
            if !disabled && latency > deepest.as_ref().map_or(DEEP_US, |(known, _)| *known) {
                let name = view.root.read_opt(format!("{path}/name")).unwrap_or_default();
                deepest =
                    Some((latency, format!("{name} on CPU {cpu} takes {latency} us to leave")));
            }
        }
    }
    let finding = |(_, evidence)| {
        Finding {
            id: "deep-c-states".into(),
            severity: Severity::Warning,
            title: "Idle CPUs sleep deeply".into(),
            cause: "the kernel may choose C-states that take long to leave".into(),
            // Kernel documentation, x86/resctrl, "Cache Pseudo-Locking": C-states may shrink or
            // power off cache.
            consequence:
                "a paused task wakes up late and with cold caches; the frequencies of other cores \
                 change; a cache whose cores are all idle can shrink or switch off, and lose its \
                 contents"
                    .into(),
            remedy:
                "hold /dev/cpu_dma_latency at 0 during the run (--no-deep-idle, needs root), or \
                 cpupower \
                 idle-set -D 20; for a pseudo-locked region the kernel does so itself"
                    .into(),
            evidence,
        }
    };
    deepest.map(finding).into_iter().collect()
}
