//! What each cache holds, from the plateaus of a curve of load latency over footprint.
//!
//! A shared or virtualised cache can be full long before its nominal size, and one whose neighbours
//! leave nothing of it shows no plateau at all. Then it has no size here.

use serde::{Deserialize, Serialize};

use crate::cpulist::CpuId;
use crate::topology::Topology;
use crate::units::Bytes;

use super::plateaus::{Plateau, plateaus};

/// The result of the curve for one cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Capacity {
    /// 1 for L1, and so on.
    pub level: u8,
    /// What the kernel says.
    pub nominal: Bytes,
    /// What it was measured to hold: midway, on a log scale, between `at_least` and `below`. `None`
    /// where the level was not seen, or not to its end.
    pub measured: Option<Bytes>,
    /// The largest footprint measured of which no more than an eighth of the loads went to the next
    /// level.
    #[serde(default)]
    pub at_least: Option<Bytes>,
    /// The smallest footprint measured of which more did.
    #[serde(default)]
    pub below: Option<Bytes>,
    /// The smallest footprint measured at the level's latency.
    #[serde(default)]
    pub from: Option<Bytes>,
    /// ns per load on the plateau.
    pub plateau_ns: Option<f64>,
    /// What the figure rests on, or why there is none.
    pub why: String,
}

/// The result of the curve for the caches of a CPU and the memory behind them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Capacities {
    /// By level, L1 first: one for each nominal level.
    pub caches: Vec<Capacity>,
    /// The plateau of memory; `None` where the curve does not reach it.
    pub memory: Option<Plateau>,
}

/// The nominal data-cache levels of a CPU and their sizes, as [`capacities`] takes them.
pub fn levels(topology: &Topology, cpu: CpuId) -> Vec<(u8, Bytes)> {
    topology.data_caches(cpu).filter_map(|cache| Some((cache.level, cache.size?))).collect()
}

/// No plateau slower than this, in ns per load, is taken for a cache. On the curves that were
/// recorded or noted for this crate's tests (two Xeons, an EPYC) L3 takes 16 to 55 ns and memory
/// 115 and more.
const SLOWEST_CACHE_NS: f64 = 80.0;
/// A last plateau that the nominal sizes leave open is a cache below this, in ns per load, and
/// neither above it: no DRAM of today answers sooner (same curves).
const FASTEST_MEMORY_NS: f64 = 60.0;
/// The most of memory's latency that a cache's may be.
const SHARE_OF_MEMORY: f64 = 0.7;
/// How far a cache can seem larger than it is by name: sizes between two footprints, and exclusive
/// caches, which add up with those below.
const ROOM: f64 = 1.3;

/// Finds what each of `levels` (level and nominal size, L1 first) holds on the curve `points`
/// (footprint, ns per load; six points per doubling are enough).
///
/// A cache is named only for a plateau that can be its own: it begins where the level below has
/// ended, it ends within the nominal size, and it is clearly faster than memory. Where there is
/// none the level has no size, and `why` says so.
pub fn capacities(points: &[(Bytes, f64)], levels: &[(u8, Bytes)]) -> Capacities {
    let found = plateaus(points);
    let (Some(first), Some(last)) =
        (points.iter().map(|point| point.0).min(), points.iter().map(|point| point.0).max())
    else {
        return Capacities {
            caches: levels.iter().map(|level| unmeasured(*level)).collect(),
            memory: None,
        };
    };
    let nominal_all: u64 = levels.iter().map(|(_, nominal)| nominal.0).sum();
    let beyond_all = last.0 as f64 > nominal_all as f64 * ROOM;
    let memory = memory(&found, first, last, beyond_all);
    let of_memory = memory.map_or(f64::INFINITY, |memory| memory.ns * SHARE_OF_MEMORY);
    let open = if memory.is_none() { FASTEST_MEMORY_NS } else { 0.0 };
    let mut left: &[Plateau] = &found;
    let mut below = 0.0;
    let mut caches = Vec::new();
    for (at, &(level, nominal)) in levels.iter().enumerate() {
        let shared = at > 0 && at + 1 == levels.len();
        // A share of the last level can be any part of it: a guest was seen to get 5 of 105 MiB.
        let least = if shared { 0.0 } else { nominal.0 as f64 / 8.0 };
        let low = least.max(below * ROOM);
        let high = nominal.0 as f64 * ROOM + below;
        let can_be = |plateau: &Plateau| {
            let end = plateau.to.0 as f64;
            let fast = plateau.ns < SLOWEST_CACHE_NS.min(of_memory);
            // One that goes on to the largest footprint is memory's unless it is too fast for that.
            let ends = plateau.until.is_some() || plateau.ns < open;
            (low..=high).contains(&end) && fast && ends
        };
        // Of private levels the last that fits, so that L1 is not taken for L2. Of the shared one
        // the first: what lies behind it is not sure to be had.
        let place =
            if shared { left.iter().position(can_be) } else { left.iter().rposition(can_be) };
        let capacity = match place {
            Some(place) => {
                let plateau = left[place];
                left = &left[place + 1..];
                seen(level, nominal, &plateau, points)
            }
            None => not_seen(level, nominal, (first, last), high),
        };
        below = capacity.below.or(capacity.at_least).unwrap_or(nominal).0 as f64;
        caches.push(capacity);
    }
    Capacities { caches, memory }
}

// The curve ends in it: beyond all that the caches hold by name, or slower than any cache. Where a
// machine is disturbed it may have several plateaus, of which the first tells where it begins.
fn memory(found: &[Plateau], first: Bytes, last: Bytes, beyond_all: bool) -> Option<Plateau> {
    let end = found.last().filter(|plateau| plateau.until.is_none() && plateau.from > first)?;
    if !beyond_all && end.ns < SLOWEST_CACHE_NS {
        return None;
    }
    let begin = found.iter().find(|plateau| plateau.ns >= SLOWEST_CACHE_NS).unwrap_or(end);
    Some(Plateau { to: last, until: None, ..*begin })
}

fn unmeasured((level, nominal): (u8, Bytes)) -> Capacity {
    none(level, nominal, "nothing was measured".into())
}

fn none(level: u8, nominal: Bytes, why: String) -> Capacity {
    Capacity {
        level,
        nominal,
        measured: None,
        at_least: None,
        below: None,
        from: None,
        plateau_ns: None,
        why,
    }
}

fn seen(level: u8, nominal: Bytes, plateau: &Plateau, points: &[(Bytes, f64)]) -> Capacity {
    let (at_least, below) = plateau.end(points);
    let from = Some(plateau.from);
    let (ns, plateau_ns) = (plateau.ns, Some(plateau.ns));
    if plateau.until.is_none() {
        let why = format!(
            "a plateau of {ns:.1} ns goes on to {at_least}, the largest footprint measured"
        );
        return Capacity {
            at_least: Some(at_least),
            from,
            plateau_ns,
            ..none(level, nominal, why)
        };
    }
    let middle = (at_least.0 as f64 * below.0 as f64).sqrt();
    let measured = Some(Bytes((middle / 64.0).round() as u64 * 64));
    let why = format!(
        "a plateau of {ns:.1} ns from {} ends between {at_least} and {below}",
        plateau.from
    );
    Capacity {
        level,
        nominal,
        measured,
        at_least: Some(at_least),
        below: Some(below),
        from,
        plateau_ns,
        why,
    }
}

fn not_seen(level: u8, nominal: Bytes, (first, last): (Bytes, Bytes), high: f64) -> Capacity {
    let why = if (last.0 as f64) < high {
        format!("no rise up to {last}, the largest footprint measured")
    } else if first.0 > nominal.0 / 2 {
        format!("the smallest footprint measured, {first}, is too large to show its plateau")
    } else {
        "no plateau fits this cache and is followed by a rise".into()
    };
    none(level, nominal, why)
}

#[cfg(test)]
mod tests;
