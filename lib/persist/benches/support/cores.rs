//! The two cores that the sides of a ring run on, and how far apart they are.

use std::time::Duration;

use ringfence_machine::cpulist::CpuId;
use ringfence_machine::probe::{pin, ping_pong};

/// How far apart two cores were during a window, from a ping-pong before it and one after; the
/// bounds are the project's (`ringfence_experiment::class::Class`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// They share a last-level cache: round trips below 250 ns.
    Sharing,
    /// They do not: above 300 ns.
    Apart,
    /// In between, it changed by more than 2.3 during the window, or there was no answer.
    Mixed,
}

impl std::fmt::Display for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Class::Sharing => "sharing",
            Class::Apart => "apart",
            Class::Mixed => "mixed",
        })
    }
}

/// Of two round trips.
pub fn class(before: Option<f64>, after: Option<f64>) -> Class {
    let (Some(before), Some(after)) = (before, after) else { return Class::Mixed };
    let between = (before * after).sqrt();
    if before.max(after) > 2.3 * before.min(after) {
        Class::Mixed
    } else if between < 250.0 {
        Class::Sharing
    } else if between > 300.0 {
        Class::Apart
    } else {
        Class::Mixed
    }
}

/// The median round trip in ns between two CPUs.
pub fn round_trip(cpus: [CpuId; 2]) -> Option<f64> {
    ping_pong(cpus[0], cpus[1], Duration::from_millis(1)).ok().map(|found| found.median_ns)
}

/// Those asked for, or the first two of this process.
pub fn choose(asked: &[CpuId]) -> Result<[CpuId; 2], String> {
    let allowed = pin::affinity().map_err(|error| format!("affinity: {error}"))?;
    let cpus: Vec<CpuId> =
        if asked.is_empty() { allowed.iter().take(2).collect() } else { asked.to_vec() };
    match cpus[..] {
        [one, other] if one != other => Ok([one, other]),
        _ => Err("not run, because it needs two CPUs: one for each side (--cpus A,B)".into()),
    }
}
