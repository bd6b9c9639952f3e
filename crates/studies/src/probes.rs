//! What is probed of a machine, with the probes that it has: those of this machine, or the
//! simulator's for a described one.

use std::time::Duration;

use ringfence_experiment::Error;
use ringfence_experiment::task::Flush;
use ringfence_machine::Machine;
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::probe::{self, Footprints, Pages, PingPong, Reload};
use ringfence_machine::root::FsRoot;
use ringfence_machine::units::Bytes;
use ringfence_simulator::Description;
use ringfence_workloads::lines::Flusher;

use crate::engines::described;

/// The probes of a machine.
pub struct Prober<'a> {
    machine: &'a Machine,
    described: Option<Description>,
}

// Why there is no curve of small pages.
const NO_WALKS: &str = "page walks are not simulated";

impl<'a> Prober<'a> {
    /// Those of a machine.
    ///
    /// # Errors
    /// Where it is a described one, and its description is wrong.
    pub fn new(machine: &'a Machine) -> Result<Self, Error> {
        Ok(Self { machine, described: described(machine)? })
    }

    /// A round trip between two CPUs, for so long.
    ///
    /// # Errors
    /// Why there is none.
    pub fn round_trip(
        &self,
        one: CpuId,
        other: CpuId,
        budget: Duration,
    ) -> Result<PingPong, String> {
        match &self.described {
            Some(description) => Ok(description.round_trip(one, other)),
            None => probe::ping_pong(one, other, budget).map_err(|error| error.to_string()),
        }
    }

    /// The latency of loads over footprints, for so long.
    ///
    /// # Errors
    /// Why there is none.
    pub fn latency(
        &self,
        cpu: CpuId,
        pages: Pages,
        budget: Duration,
    ) -> Result<Footprints, String> {
        let topology = &self.machine.topology;
        let Some(description) = &self.described else {
            let sizes = probe::footprints(topology, cpu, &FsRoot::host(), pages);
            let measured = probe::latency_over_footprint(cpu, &sizes, pages, budget);
            return measured.map_err(|error| error.to_string());
        };
        if pages == Pages::Small {
            return Err(format!("4 KiB pages are not run, because {NO_WALKS}"));
        }
        let dram = self.machine.targets.iter().find(|target| target.name == "dram");
        let available = dram.and_then(|target| target.free);
        let sizes = probe::footprints_within(topology, cpu, available, pages);
        let points = at_once(&sizes, |size| {
            description.load_ns(cpu, size).map_err(|error| error.to_string())
        })?;
        let buffer = sizes.last().copied().unwrap_or_default();
        // Without page walks it is as if all pages were huge.
        let huge_pages = Some(buffer);
        Ok(Footprints {
            points,
            huge_pages,
            buffer,
            passes: 1,
            pages: Some(pages),
            from_pool: false,
        })
    }

    /// How long loads take after a flush, or without one, for so long.
    ///
    /// # Errors
    /// Why there is no figure.
    pub fn reload(
        &self,
        cpu: CpuId,
        flush: Option<Flush>,
        budget: Duration,
    ) -> Result<Reload, String> {
        if let Some(description) = &self.described {
            return description.reload(cpu, flush).map_err(|error| error.to_string());
        }
        let flusher = match flush {
            None => None,
            Some(flush) => {
                let found =
                    Flusher::new(flush).ok_or_else(|| format!("this processor has no {flush}"))?;
                Some(found.for_probe())
            }
        };
        probe::reload_latency(cpu, flusher, budget).map_err(|error| error.to_string())
    }

    /// The flush instructions that it has.
    pub fn flushes(&self) -> Vec<Flush> {
        let has = |flush: &Flush| match &self.described {
            Some(description) => description.processor.flush.contains(flush),
            None => Flusher::new(*flush).is_some(),
        };
        Flush::ALL.into_iter().filter(has).collect()
    }
}

// The values of sizes, on as many threads as there are CPUs for; in the order of the sizes.
fn at_once(
    sizes: &[Bytes],
    value: impl Fn(Bytes) -> Result<f64, String> + Sync,
) -> Result<Vec<(Bytes, f64)>, String> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let value = &value;
    let part = |first: usize| {
        move || -> Vec<(usize, Result<f64, String>)> {
            (first..sizes.len())
                .step_by(threads)
                .map(|place| (place, value(sizes[place])))
                .collect()
        }
    };
    let mut all = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|first| scope.spawn(part(first))).collect();
        let mut all = part(0)();
        all.extend(
            others.into_iter().flat_map(|other| other.join().expect("a probe does not panic")),
        );
        all
    });
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(place, found)| Ok((sizes[place], found?))).collect()
}
