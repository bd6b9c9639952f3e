//! What fences tasks off in the cache: whether it is there, what uses it, and what it cannot do.

mod kernel_support;
mod leftovers;
mod monitoring;
mod settings;
#[cfg(test)]
mod tests;

use ringfence_resctrl::info::ThrottleMode;
use ringfence_resctrl::{Absent, Overview, pseudo};

use super::finding::{Finding, Severity, View};
use crate::resctrl;

pub(super) fn find(view: &View) -> Vec<Finding> {
    let mut findings = leftovers::find(view.root);
    match resctrl::look(view.root) {
        Ok(seen) => findings.extend(mounted(view, &seen)),
        // A copy that lacks the files says nothing of it.
        Err(Absent::Unknown(_)) if !view.root.is_host() => {}
        Err(why) => findings.push(absent(&why)),
    }
    findings
}

// What cannot be read, or has words that this program does not know.
fn unread(seen: &Overview) -> Option<Finding> {
    let all: Vec<&String> = seen.all_unread().collect();
    let first = all.first()?;
    Some(Finding {
        id: "resctrl-unreadable".into(),
        severity: Severity::Warning,
        title: "Some settings of resctrl cannot be read".into(),
        cause: (*first).clone(),
        consequence: "tasks may be confined to a part of the cache".into(),
        remedy: "run as root; if a file contains unknown words, use a newer ringfence".into(),
        evidence: match all.len() {
            1 => "resctrl is mounted; 'ringfence resctrl' shows the rest".into(),
            many => format!("{many} files of resctrl, which 'ringfence resctrl' lists"),
        },
    })
}

fn absent(absent: &Absent) -> Finding {
    let mountable = resctrl::is_mountable(absent);
    let text = absent.to_string();
    let (cause, remedy) = text.split_once(": ").unwrap_or((&text, "use another machine"));
    Finding {
        id: if mountable { "resctrl-not-mounted" } else { "no-resctrl" }.into(),
        severity: Severity::Info,
        title: if mountable { "resctrl is not mounted" } else { "There is no resctrl" }.into(),
        cause: cause.into(),
        consequence:
            "no task is confined to a part of the cache or of the bandwidth; levers that would do \
                      so are listed as not run"
                .into(),
        remedy: remedy.into(),
        evidence: "no resctrl in /proc/mounts; /proc/filesystems and the flags in /proc/cpuinfo"
            .into(),
    }
}

fn mounted(view: &View, seen: &Overview) -> Vec<Finding> {
    let mut findings: Vec<Finding> = unread(seen).into_iter().collect();
    findings.extend(settings::groups(seen));
    findings.extend(settings::confined(seen));
    // What is missing may only not be known.
    if !seen.unread.is_empty() {
        return findings;
    }
    findings.push(room(view, seen));
    findings.extend(settings::shared_with_io(seen));
    findings.extend(settings::cdp(seen));
    findings.extend(kernel_support::find(view, seen));
    findings.extend(throttling(view, seen));
    findings.extend(monitoring::find(view, seen));
    findings
}

// What there is and how much of it is left.
fn room(view: &View, seen: &Overview) -> Finding {
    let caches = seen.info.caches.iter().map(|(name, cache)| {
        let count = cache.bit_usage.len();
        format!(
            "{name}: {} ways in each of {count} {}",
            cache.cbm_mask.count(),
            plural(count, "cache")
        )
    });
    let bandwidths = seen
        .info
        .bandwidths
        .iter()
        .map(|(name, bandwidth)| format!("{name}: {}", bandwidth.choice()));
    let number = |free: Option<u32>| free.map_or("no".into(), |free: u32| free.to_string());
    let free = format!(
        "{} CLOSIDs and {} RMIDs free",
        number(seen.closids_free()),
        number(seen.rmids_free())
    );
    let evidence = caches.chain(bandwidths).chain([free]).collect::<Vec<_>>().join("; ");
    let full: Vec<&str> = [("CLOSIDs", seen.closids_free()), ("RMIDs", seen.rmids_free())]
        .into_iter()
        .filter(|(_, free)| *free == Some(0))
        .map(|(name, _)| name)
        .collect();
    if !full.is_empty() {
        return Finding {
            id: "resctrl-full".into(),
            severity: Severity::Warning,
            title: "No resctrl group can be made".into(),
            cause: format!("groups that exist use all {} of this processor", full.join(" and ")),
            consequence:
                "no task can be isolated in the cache; levers that would do so are listed as not \
                 run"
                .into(),
            remedy: "remove a group that is no longer needed; 'ringfence resctrl' lists \
                     them"
                .into(),
            evidence,
        };
    }
    Finding {
        id: "resctrl".into(),
        severity: Severity::Info,
        title: "Tasks can be isolated in the cache".into(),
        cause: "resctrl is mounted".into(),
        consequence: pseudo_locking(view).into(),
        remedy: "none needed; 'ringfence resctrl' shows who may use what".into(),
        evidence,
    }
}

fn pseudo_locking(view: &View) -> &'static str {
    match pseudo::processor(view.root) {
        Some(_) => "cache ways can be exclusive, and regions of memory pseudo-locked",
        None => {
            "cache ways can be exclusive; Linux pseudo-locks regions on Broadwell-X, Goldmont and \
             Goldmont Plus \
             alone, which this is not"
        }
    }
}

fn throttling(view: &View, seen: &Overview) -> Option<Finding> {
    let bandwidth = seen.info.bandwidth()?;
    let siblings = view.topology.cores.iter().any(|core| core.cpus.len() > 1);
    let cause = match bandwidth.throttle {
        ThrottleMode::Max => {
            "the processor throttles a core, at the smaller of its threads' bandwidths"
        }
        ThrottleMode::Unknown => {
            "the kernel does not report that it throttles each thread separately"
        }
        ThrottleMode::PerThread => return None,
    };
    siblings.then(|| Finding {
        id: "mba-throttles-siblings".into(),
        severity: Severity::Info,
        title: "A bandwidth limit slows SMT siblings too".into(),
        cause: cause.into(),
        consequence: "limiting a task's memory bandwidth (MBA) limits whatever runs on its sibling"
            .into(),
        remedy: "leave the siblings of a limited task idle, or give them to the same group".into(),
        evidence: match bandwidth.throttle {
            ThrottleMode::Max => "info/MB/thread_throttle_mode is max",
            _ => "info/MB/thread_throttle_mode is not there",
        }
        .into(),
    })
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { noun.to_owned() } else { format!("{noun}s") }
}
