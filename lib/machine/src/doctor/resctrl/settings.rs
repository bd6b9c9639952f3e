//! What resctrl is set to.

use ringfence_resctrl::info::{CacheInfo, IoAlloc};
use ringfence_resctrl::{Mask, Mode, Overview, Resource};

use crate::doctor::finding::{Finding, Severity};

/// Groups that users or programs have made.
pub(super) fn groups(seen: &Overview) -> Option<Finding> {
    let names: Vec<String> = seen
        .groups
        .iter()
        .filter(|group| !group.group.is_default())
        .map(|group| match group.mode {
            Some(mode) if mode != Mode::Shareable => format!("{} ({})", group.group, mode.word()),
            _ => group.group.to_string(),
        })
        .collect();
    (!names.is_empty()).then(|| Finding {
        id: "stale-resctrl".into(),
        severity: Severity::Warning,
        title: "resctrl groups exist already".into(),
        cause: "another tool, a container runtime or a killed run created them".into(),
        consequence: "tasks may be confined to some cache ways or to a share of the bandwidth"
            .into(),
        remedy:
            "if nothing needs them: rmdir /sys/fs/resctrl/GROUP; Ringfence never removes them by \
             itself"
                .into(),
        evidence: names.join(", "),
    })
}

/// The default group, which every task has that no other has, has less than there is. Ways that are
/// exclusive to others or pseudo-locked are taken from it by design; the finding is the same.
pub(super) fn confined(seen: &Overview) -> Option<Finding> {
    let default = &seen.groups.first()?.schemata;
    let mut less = Vec::new();
    for (name, cache) in &seen.info.caches {
        let resource = Resource::of(name);
        let short = |mask: &Mask| !cache.cbm_mask.is_within(*mask);
        for domain in default.domains(&resource) {
            if let Some(mask) = default.mask(&resource, domain).filter(short) {
                less.push(format!("{name}:{domain}={mask} of {}", cache.cbm_mask));
            }
        }
    }
    let percent =
        seen.info.bandwidth().filter(|info| info.unit == ringfence_resctrl::info::Unit::Percent);
    for domain in percent.map(|_| default.domains(&Resource::Mb)).unwrap_or_default() {
        if let Some(amount) = default.amount(&Resource::Mb, domain).filter(|amount| *amount < 100) {
            less.push(format!("MB:{domain}={amount} of 100"));
        }
    }
    (!less.is_empty()).then(|| Finding {
        id: "resctrl-confined".into(),
        severity: Severity::Warning,
        title: "Tasks may only use a part of the cache or of the bandwidth".into(),
        cause:
            "resctrl's default group, which has all tasks that are in no other group, is limited"
                .into(),
        consequence:
            "working sets are disturbed at sizes that would fit into the whole cache, or memory is \
                      slower than it could be"
                .into(),
        remedy: "if nothing needs it: write the full masks to /sys/fs/resctrl/schemata".into(),
        evidence: less.join(", "),
    })
}

/// Ways that devices write to (kernel documentation, resctrl, "shareable_bits" and "io_alloc").
pub(super) fn shared_with_io(seen: &Overview) -> Option<Finding> {
    let lines: Vec<String> =
        seen.info.caches.iter().flat_map(|(name, cache)| io_of(name, cache)).collect();
    let given = seen.info.closids_of_io() > 0;
    (!lines.is_empty()).then(|| Finding {
        id: "cache-shared-with-io".into(),
        severity: Severity::Info,
        title: "Devices use some ways of the cache".into(),
        cause: if given {
            "I/O was given ways of the cache (io_alloc), and one CLOSID with them"
        } else {
            "the processor lets I/O write into the cache (shareable_bits)"
        }
        .into(),
        consequence: "network cards and disks still disturb a task that is isolated in these ways"
            .into(),
        remedy: if given {
            "give it other ways, as 'ringfence prove' does if there are any; I/O's ways are set in \
             /sys/fs/resctrl/info/L3/io_alloc_cbm"
        } else {
            "give it other ways, as 'ringfence prove' does if there are any"
        }
        .into(),
        evidence: lines.join(", "),
    })
}

fn io_of(name: &str, cache: &CacheInfo) -> Vec<String> {
    let fixed = (!cache.shareable_bits.is_empty())
        .then(|| format!("{name}: ways {} of {}", cache.shareable_bits, cache.cbm_mask));
    let given = matches!(cache.io_alloc, IoAlloc::Enabled(_))
        .then(|| format!("info/{name}/io_alloc is {}", cache.io_alloc));
    fixed.into_iter().chain(given).collect()
}

/// Code and data apart.
pub(super) fn cdp(seen: &Overview) -> Option<Finding> {
    let levels: Vec<String> = [2, 3]
        .into_iter()
        .filter(|level| seen.info.cdp(*level))
        .map(|level| format!("L{level}"))
        .collect();
    (!levels.is_empty()).then(|| Finding {
        id: "resctrl-cdp".into(),
        severity: Severity::Info,
        title: "Code and data have separate cache ways (CDP)".into(),
        cause: format!("resctrl is mounted with {}", seen.options.text()),
        consequence: "half as many groups can be created, each has two masks, and nothing can be \
                      pseudo-locked"
            .into(),
        remedy: "umount /sys/fs/resctrl and mount it without cdp and cdpl2 if nothing needs them"
            .into(),
        evidence: format!("info/ has CODE and DATA for {}", levels.join(" and ")),
    })
}
