//! How far the counters of cache occupancy and bandwidth (CMT, MBM) can be believed.
//!
//! That they wrap around needs no remark: the kernel reads 24-bit counters every second
//! (`mbm_handle_overflow`), and its sums are 64 bits wide.

use ringfence_resctrl::Overview;
use ringfence_resctrl::monitor::Value;

use crate::doctor::finding::{Finding, Severity, View};

pub(super) fn find(view: &View, seen: &Overview) -> Vec<Finding> {
    occupancy(seen).into_iter().chain(bandwidth(view, seen)).collect()
}

fn features(seen: &Overview) -> &[String] {
    seen.info.monitoring.as_ref().map_or(&[], |monitoring| &monitoring.mon_features)
}

fn occupancy(seen: &Overview) -> Option<Finding> {
    let there = features(seen).iter().any(|feature| feature == "llc_occupancy");
    (!there).then(|| Finding {
        id: "no-occupancy".into(),
        severity: Severity::Info,
        title: "The cache occupancy of tasks is not visible".into(),
        cause: "the processor or the kernel has no occupancy monitoring (CMT)".into(),
        consequence: "after a change of cache ways only a task's rate shows when it has settled"
            .into(),
        remedy:
            "use another processor; on Skylake-X the kernel leaves it off unless rdt=cmt is on \
                 its command line"
                .into(),
        evidence: "no llc_occupancy in info/L3_MON/mon_features".into(),
    })
}

fn bandwidth(view: &View, seen: &Overview) -> Option<Finding> {
    if !features(seen).iter().any(|feature| feature.starts_with("mbm_")) {
        return None;
    }
    let unavailable = seen
        .groups
        .iter()
        .filter(|group| {
            group.readings.iter().any(|reading| {
                !matches!(reading.value, Value::Bytes(_)) && reading.event.starts_with("mbm_")
            })
        })
        .count();
    let trouble = known(view, seen).or_else(|| {
        (unavailable > 0).then_some(Trouble {
            severity: Severity::Warning,
            cause: "the hardware gives no value for some groups at the moment",
            consequence: "bandwidths of those groups are missing, and earlier counts may be lost",
            remedy: "use fewer groups, or compare by work done instead",
        })
    })?;
    let of = &view.identity;
    let number = |part: Option<u32>| part.map_or("?".into(), |number: u32| number.to_string());
    Some(Finding {
        id: "mbm-unreliable".into(),
        severity: if unavailable > 0 { Severity::Warning } else { trouble.severity },
        title: "Measured memory bandwidths (MBM) are unreliable".into(),
        cause: trouble.cause.into(),
        consequence: trouble.consequence.into(),
        remedy: trouble.remedy.into(),
        evidence: format!(
            "family {}, model {}, stepping {}; {unavailable} of {} groups without a value",
            number(of.family),
            number(of.model),
            number(of.stepping),
            seen.groups.len()
        ),
    })
}

struct Trouble {
    severity: Severity,
    cause: &'static str,
    consequence: &'static str,
    remedy: &'static str,
}

// By processor, from the vendors' errata as the kernel works around them: kernel documentation
// x86/resctrl, "Intel RDT Errata" (SKX99, BDF102); `__check_quirks_intel` and `mbm_cf_table` of
// Linux 6.1; Intel's specification updates of Core X (SKZ4, SKZ17 to SKZ19), Granite Rapids (GNR12)
// and Sierra Forest (SRF42); for AMD, Linux commit e19c06219985 (counters follow the RMIDs that
// run).
fn known(view: &View, seen: &Overview) -> Option<Trouble> {
    let of = &view.identity;
    let amd = matches!(of.vendor.as_deref(), Some("AuthenticAMD" | "HygonGenuine"));
    match (of.family?, of.model?) {
        _ if amd => (!assigned(seen)).then_some(Trouble {
            severity: Severity::Warning,
            cause: "the hardware counts for a limited number of groups, and starts again from zero \
                    when a group \
                    comes back to it",
            consequence: "with many groups bandwidths read 'Unavailable' or too low",
            remedy: "keep groups few, or use a processor and kernel with assignable counters \
                     (mbm_event, Linux \
                     6.18)",
        }),
        (6, 85) if of.stepping.is_some_and(|stepping| stepping <= 4) => Some(Trouble {
            severity: Severity::Warning,
            cause: "on Skylake-X writes are not counted right, occupancy and bandwidth may be too \
                    low, and masks may not confine (errata SKZ4, SKZ17, SKZ18, SKZ19); the kernel \
                    disables all of it unless rdt= enables it",
            consequence: "the bandwidth that a writer uses is understated",
            remedy: "compare by the victim's rate; boot without rdt=",
        }),
        (6, 79 | 85) if corrected(view) => Some(Trouble {
            severity: Severity::Info,
            cause: "the processor counts wrongly for high RMIDs (errata BDF102, SKX99); the kernel \
                    multiplies \
                    by a factor from a table",
            consequence: "bandwidths of groups that were created late can be off by the error that \
                          remains",
            remedy: "compare bandwidths of one group with itself",
        }),
        (6, 79 | 85) => Some(Trouble {
            severity: Severity::Warning,
            cause: "the processor counts wrongly for high RMIDs (errata BDF102, SKX99), and \
                    kernels before 5.11 \
                    do not correct it",
            consequence: "bandwidths of some groups are off by a factor of up to 1.45",
            remedy: "use Linux 5.11 or newer",
        }),
        (6, 173 | 175) => Some(Trouble {
            severity: Severity::Warning,
            cause: "the processor may count too much (errata GNR12, SRF42)",
            consequence: "bandwidths of small working sets are overstated",
            remedy: "compare by work done, or with footprints of at least four times the cache",
        }),
        _ => None,
    }
}

fn corrected(view: &View) -> bool {
    crate::release::kernel_release(view.root) >= (5, 11)
}

// Whether counters stay with their groups (kernel documentation, resctrl, "mbm_assign_mode").
fn assigned(seen: &Overview) -> bool {
    let mode =
        seen.info.monitoring.as_ref().and_then(|monitoring| monitoring.mbm_assign_mode.as_deref());
    mode == Some("mbm_event")
}
