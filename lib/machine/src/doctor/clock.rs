//! Clocks for short measurements.

use crate::features::has_cpuinfo_flags;

use super::finding::{Finding, Severity, View};

pub(super) fn find(view: &View) -> Vec<Finding> {
    let source = view.tsc.clocksource.as_deref();
    let mut findings = Vec::new();
    if let Some(source) = source.filter(|&source| source != "tsc") {
        findings.push(Finding {
            id: "clocksource".into(),
            severity: if source == "kvm-clock" { Severity::Info } else { Severity::Warning },
            title: "The kernel does not keep time by the TSC".into(),
            cause: "it found the TSC unstable, or the hypervisor provides its own clock".into(),
            consequence:
                "reading CLOCK_MONOTONIC can be a system call of several 100 ns instead of 25 ns"
                    .into(),
            remedy: "boot with tsc=reliable if the TSC is known to be good".into(),
            evidence: format!("current_clocksource is {source}"),
        });
    }
    // A copy that has neither flags nor a clocksource says nothing of it.
    let flags = has_cpuinfo_flags(view.root);
    if !view.tsc.holds() && (view.root.is_host() || flags || source.is_some()) {
        let bit = match (view.root.is_host(), flags) {
            (true, _) => format!("CPUID bit {}", view.tsc.cpuid_bit),
            (false, true) => "not both constant_tsc and nonstop_tsc in /proc/cpuinfo".into(),
            (false, false) => "no flags in /proc/cpuinfo".into(),
        };
        findings.push(Finding {
            id: "tsc-not-invariant".into(),
            severity: Severity::Warning,
            title: "The TSC may not count at a constant rate".into(),
            cause: "neither CPUID nor the kernel guarantees it".into(),
            consequence: "short probes are timed by CLOCK_MONOTONIC and are coarser".into(),
            remedy:
                "expose the invariant TSC to the guest (KVM: -cpu host,+invtsc), or measure on \
                     the bare machine"
                    .into(),
            evidence: format!("{bit}, clocksource {}", source.unwrap_or("unknown")),
        });
    }
    findings
}
