//! Memory: little of it, swap, none that is persistent.

use crate::root::{FsRoot, field_kib};
use crate::targets::{Target, TargetKind};
use crate::units::Bytes;

use super::finding::{Finding, Severity, View};

/// What the default workloads and a capacity probe take together.
const WANTED: Bytes = Bytes::gib(1);

pub(super) fn find(view: &View) -> Vec<Finding> {
    [little(view.root), swap(view.root)].into_iter().flatten().collect()
}

/// Whether any is persistent.
pub(super) fn persistent(view: &View) -> Vec<Finding> {
    no_dax(view).into_iter().collect()
}

fn little(root: &FsRoot) -> Option<Finding> {
    let available = field_kib(&root.read_opt("/proc/meminfo")?, "MemAvailable")?;
    (available < WANTED.0).then(|| Finding {
        id: "little-memory".into(),
        severity: Severity::Serious,
        title: "Little memory is free".into(),
        cause: "other programs, or a small machine".into(),
        consequence: "reclaim runs during the measurement, and large working sets are out of reach"
            .into(),
        remedy: format!("free {WANTED}, or ask for smaller files and working sets"),
        evidence: format!("MemAvailable is {}", Bytes(available)),
    })
}

fn swap(root: &FsRoot) -> Option<Finding> {
    let text = root.read_opt("/proc/swaps")?;
    let areas: Vec<&str> =
        text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    (!areas.is_empty()).then(|| Finding {
        id: "swap-on".into(),
        severity: Severity::Info,
        title: "Swap is on".into(),
        cause: format!("{} swap areas are in use", areas.len()),
        consequence: "pages of a paused task can be written out and are missing when it resumes"
            .into(),
        remedy: "swapoff -a during measurements".into(),
        evidence: areas.join(", "),
    })
}

fn no_dax(view: &View) -> Option<Finding> {
    let direct = |kind| matches!(kind, TargetKind::Dax | TargetKind::Devdax);
    let usable = view.targets.iter().any(Target::is_persistent);
    let unusable: Vec<String> = view
        .targets
        .iter()
        .filter(|target| direct(target.kind) || target.kind == TargetKind::Namespace)
        .map(|target| format!("{}: {}", target.name, target.why))
        .collect();
    // A copy that has none of these says nothing of it.
    let shown = ["/proc/self/mountinfo", "/sys/bus/dax", "/sys/bus/nd"]
        .iter()
        .any(|path| view.root.exists(path));
    (!usable && (shown || view.root.is_host())).then(|| Finding {
        id: "no-persistent-memory".into(),
        severity: Severity::Info,
        title: "There is no persistent memory to write to".into(),
        cause: "no usable DAX mount, and no usable device DAX on memory that could be persistent"
            .into(),
        consequence:
            "figures on DRAM show the cost of flushing, not of durability; read 'flushed' there"
                .into(),
        remedy: "mount persistent memory with -o dax, or name a devdax device; reserve \
                 memmap=4G!12G to try it out"
            .into(),
        evidence: if unusable.is_empty() {
            "no dax option in /proc/self/mountinfo, nothing in /sys/bus/dax/devices".into()
        } else {
            unusable.join("; ")
        },
    })
}
