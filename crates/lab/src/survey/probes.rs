//! What the survey probes before it measures.

use std::time::Duration;

use ringfence_machine::Machine;
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::probe::{self, Footprints, Knee, PingPong, Reload};
use ringfence_machine::root::FsRoot;
use ringfence_machine::units::Bytes;
use ringfence_persist::{Flush, isa};
use serde::{Deserialize, Serialize};

use super::Depth;
use crate::placement::{self, Want};

/// The machine, as probed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Probes {
    /// The CPU that victims and writers run on.
    pub cpu: CpuId,
    /// Round trips between CPUs: those that the survey uses first, then some others.
    pub round_trips: Vec<PingPong>,
    /// Load latency over footprint.
    pub latency: Option<Footprints>,
    /// What each cache holds.
    pub caches: Vec<Knee>,
    /// The footprint of the survey's chase: midway, on a log scale, between what L2 and the last-level
    /// cache were measured to hold.
    pub victim_footprint: Bytes,
    /// How that came about.
    pub victim_footprint_from: String,
    /// Reload latencies.
    pub reloads: Reloads,
    /// Probes that failed, with the reason.
    pub failed: Vec<String>,
}

/// Latency of loading a line again, after it was left alone and after each flush instruction.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Reloads {
    /// Of a line that was not flushed.
    pub cached: Option<Reload>,
    /// By instruction.
    pub after: Vec<(String, Reload)>,
}

// More round trips than this say nothing new on one screen.
const MOST_PAIRS: usize = 8;

pub(super) fn probe(machine: &Machine, depth: Depth) -> Probes {
    let topology = &machine.topology;
    let mut failed = Vec::new();
    let wants = [Want::one("here"), Want::one("there")];
    let placed = placement::place(topology, &wants, 0, &[vec![0, 1]]);
    let cpus: Vec<CpuId> = placed.map(|placed| placed.cpus.concat()).unwrap_or_default();
    let cpu = cpus.first().copied().unwrap_or(0);
    let scale = if depth == Depth::Full { 2 } else { 1 };

    let mut round_trips = Vec::new();
    for (a, b) in pairs(machine, &cpus) {
        match probe::ping_pong(a, b, Duration::from_millis(20 * scale)) {
            Ok(round) => round_trips.push(round),
            Err(error) => failed.push(format!("round trip between CPUs {a} and {b}: {error}")),
        }
    }

    let sizes = probe::footprints(topology, cpu, &FsRoot::host());
    let latency = match probe::latency_over_footprint(cpu, &sizes, Duration::from_millis(2000 * scale)) {
        Ok(latency) => Some(latency),
        Err(error) => {
            failed.push(format!("latency over footprint: {error}"));
            None
        }
    };
    let levels = probe::levels(topology, cpu);
    let caches = latency.as_ref().map_or_else(Vec::new, |latency| probe::knees(&latency.points, &levels));
    let (victim_footprint, victim_footprint_from) = victim_footprint(&caches, machine, cpu);

    let budget = Duration::from_millis(100 * scale);
    let mut reloads = Reloads::default();
    let mut reload = |flush: Option<probe::Flush>, what: &str| {
        // SAFETY: only instructions that the processor has are passed, and they fault on no mapped line.
        let measured = unsafe { probe::reload_latency(cpu, flush, budget) };
        measured.map_err(|error| failed.push(format!("reload latency {what}: {error}"))).ok()
    };
    reloads.cached = reload(None, "of a cached line");
    let instructions: [(Flush, probe::Flush); 3] =
        [(Flush::Clflush, isa::clflush), (Flush::Clflushopt, isa::clflushopt), (Flush::Clwb, isa::clwb)];
    for (name, flush) in instructions.into_iter().filter(|(name, _)| isa::supports(*name)) {
        let what = format!("after {name}");
        reloads.after.extend(reload(Some(flush), &what).map(|latency| (name.to_string(), latency)));
    }
    Probes { cpu, round_trips, latency, caches, victim_footprint, victim_footprint_from, reloads, failed }
}

// The pair that is measured, then one of each kind of neighbourhood, then others.
fn pairs(machine: &Machine, cpus: &[CpuId]) -> Vec<(CpuId, CpuId)> {
    let topology = &machine.topology;
    let usable = topology.usable();
    let kinds = [
        topology.pairs_smt(&usable),
        topology.pairs_llc(&usable),
        topology.pairs_node(&usable),
        topology.pairs_remote(&usable),
    ];
    let mut pairs: Vec<(CpuId, CpuId)> = Vec::new();
    if let [a, b] = cpus[..] {
        pairs.push((a.min(b), a.max(b)));
    }
    for kind in &kinds {
        pairs.extend(kind.first());
    }
    for kind in &kinds {
        pairs.extend(kind.last());
    }
    let mut seen = Vec::new();
    pairs.retain(|pair| {
        !seen.contains(pair) && {
            seen.push(*pair);
            true
        }
    });
    pairs.truncate(MOST_PAIRS);
    pairs
}

fn victim_footprint(caches: &[Knee], machine: &Machine, cpu: CpuId) -> (Bytes, String) {
    let topology = &machine.topology;
    let capacity = |level: Option<u8>| {
        let knee = caches.iter().find(|knee| Some(knee.level) == level)?;
        Some((knee.measured.unwrap_or(knee.nominal), knee.measured.is_some()))
    };
    let last = topology.llc(cpu).map(|cache| cache.level);
    let l2 = capacity(Some(2)).or_else(|| Some((topology.l2_size(cpu)?, false)));
    let llc = capacity(last.filter(|level| *level > 2));
    let (Some((l2, l2_measured)), Some((llc, llc_measured))) = (l2, llc) else {
        return (Bytes::mib(4), "4MiB, since no last-level cache above L2 is known".into());
    };
    let word = |measured: bool| if measured { "measured" } else { "nominal" };
    let between = ((l2.0 as f64).ln() + (llc.0.max(l2.0) as f64).ln()) / 2.0;
    let mib = (between.exp() / (1 << 20) as f64).round().max(1.0) as u64;
    let from = format!(
        "midway, on a log scale, between L2 ({} {l2}) and the last-level cache ({} {llc})",
        word(l2_measured),
        word(llc_measured)
    );
    (Bytes::mib(mib), from)
}
