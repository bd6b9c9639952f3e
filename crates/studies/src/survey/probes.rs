//! What the survey probes before it measures.

use std::time::Duration;

use crate::Prober;
use ringfence_experiment::placement::{self, Want};
use ringfence_machine::Machine;
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::probe::{self, Capacity, Footprints, Pages, PingPong, Plateau, Reload};
use ringfence_machine::units::Bytes;
use ringfence_persist::Flush;
use serde::{Deserialize, Serialize};

use super::Depth;
use super::victim::{self, Level, Victim};

/// The machine, as probed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Probes {
    /// The CPU that victims and writers run on.
    pub cpu: CpuId,
    /// Round trips between CPUs: those that the survey uses first, then some others.
    pub round_trips: Vec<PingPong>,
    /// Load latency over footprint, in huge pages where they could be had.
    pub latency: Option<Footprints>,
    /// The same in 4 KiB pages, fewer footprints: what page walks add.
    #[serde(default)]
    pub latency_small_pages: Option<Footprints>,
    /// What each cache holds, from the first of the two.
    pub caches: Vec<Capacity>,
    /// The plateau of memory, where the curve reaches it.
    #[serde(default)]
    pub memory: Option<Plateau>,
    /// The footprint of the survey's chase.
    pub victim_footprint: Bytes,
    /// What the chase waits for; `None` where no level was measured that it could be meant for.
    #[serde(default)]
    pub victim_level: Option<Level>,
    /// How that came about.
    pub victim_footprint_from: String,
    /// Reload latencies.
    pub reloads: Reloads,
    /// Probes that failed, with the reason.
    pub failed: Vec<String>,
}

/// Latency of loading a line again, after it was left alone and after each flush instruction.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

    let prober = match Prober::new(machine) {
        Ok(prober) => prober,
        Err(why) => return Probes { cpu, failed: vec![why.to_string()], ..Probes::default() },
    };
    let mut round_trips = Vec::new();
    for (a, b) in pairs(machine, &cpus) {
        match prober.round_trip(a, b, Duration::from_millis(20 * scale)) {
            Ok(round) => round_trips.push(round),
            Err(error) => failed.push(format!("round trip between CPUs {a} and {b}: {error}")),
        }
    }

    let mut curve = |pages: Pages, ms: u64| {
        let measured = prober.latency(cpu, pages, Duration::from_millis(ms * scale));
        measured.map_err(|error| failed.push(format!("latency over footprint: {error}"))).ok()
    };
    let latency = curve(Pages::Huge, 3000);
    let latency_small_pages = curve(Pages::Small, 1000);
    let points = latency.as_ref().map_or(&[][..], |latency| &latency.points);
    let probe::Capacities { caches, memory } =
        probe::capacities(points, &probe::levels(topology, cpu));
    let Victim { footprint: victim_footprint, from: victim_footprint_from, level: victim_level } =
        victim::choose(&caches, memory.as_ref(), latency_small_pages.as_ref());

    let budget = Duration::from_millis(100 * scale);
    let mut reloads = Reloads::default();
    let mut reload = |flush: Option<Flush>, what: &str| {
        let measured = prober.reload(cpu, flush, budget);
        measured.map_err(|error| failed.push(format!("reload latency {what}: {error}"))).ok()
    };
    reloads.cached = reload(None, "of a cached line");
    for flush in prober.flushes() {
        let latency = reload(Some(flush), &format!("after {flush}"));
        reloads.after.extend(latency.map(|latency| (flush.to_string(), latency)));
    }
    Probes {
        cpu,
        round_trips,
        latency,
        latency_small_pages,
        caches,
        memory,
        victim_footprint,
        victim_level,
        victim_footprint_from,
        reloads,
        failed,
    }
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
