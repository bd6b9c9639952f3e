//! What the processor has and the kernel does not offer.

use ringfence_resctrl::Overview;

use crate::doctor::finding::{Finding, Severity, View};

/// The flag in `/proc/cpuinfo`, what it stands for, and the word on the kernel's command line that
/// brings it back (kernel parameters, `rdt=`).
const FLAGS: [(&str, &str, &str); 3] = [
    ("cat_l3", "ways of the L3", "l3cat"),
    ("cat_l2", "ways of the L2", "l2cat"),
    ("mba", "memory bandwidth", "mba"),
];

pub(super) fn find(view: &View, seen: &Overview) -> Option<Finding> {
    let cpuinfo = view.root.cpuinfo();
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let offered = |flag: &str| match flag {
        "cat_l3" => !seen.info.of_level(3).is_empty(),
        "cat_l2" => !seen.info.of_level(2).is_empty(),
        _ => seen.info.bandwidth().is_some(),
    };
    let off: Vec<_> = FLAGS
        .into_iter()
        .filter(|(flag, ..)| flags.split_whitespace().any(|word| word == *flag) && !offered(flag))
        .collect();
    let list = |part: fn(&(&'static str, &'static str, &'static str)) -> &'static str, by: &str| {
        off.iter().map(part).collect::<Vec<_>>().join(by)
    };
    (!off.is_empty()).then(|| Finding {
        id: "resctrl-switched-off".into(),
        severity: Severity::Warning,
        title: format!("The kernel does not allocate {}", list(|off| off.1, " and ")),
        // arch/x86/kernel/cpu/resctrl/core.c, __check_quirks_intel.
        cause: "the processor can; by default, Linux does not allocate L3 ways on Skylake-X and \
                Cascade Lake (model 85), and rdt= on its command line can disable each of them"
            .into(),
        consequence: "levers that need it are listed as not run".into(),
        remedy: format!("boot with rdt={} on the kernel's command line", list(|off| off.2, ",")),
        evidence: format!("/proc/cpuinfo lists {}, info/ does not", list(|off| off.0, ", ")),
    })
}
