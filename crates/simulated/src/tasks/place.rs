//! Where a task finds its memory.

use std::path::Path;

use ringfence_experiment::task::{Memory, Target};
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::units::Bytes;
use ringfence_persist::{Flush, LINE};
use ringfence_sim::{Region, Setup, SetupError};

use super::memory::How;
use crate::file::{Description, Vendor};

/// Memory that writers to equal targets share, as they do on a machine.
#[derive(Default)]
pub struct Regions {
    written: Vec<(Target, Bytes, Region)>,
    // By whom.
    read: Vec<(CpuId, Bytes, Memory, Region)>,
}

/// What building takes.
pub struct Place<'a> {
    pub description: &'a Description,
    pub setup: &'a mut Setup,
    pub regions: &'a mut Regions,
    pub cpu: CpuId,
    pub seed: u64,
}

impl Regions {
    /// Regions that are locked into the cache below a CPU, by their devices.
    pub fn locked(&self) -> impl Iterator<Item = (CpuId, &Path, Region)> {
        self.read.iter().filter_map(|(cpu, _, memory, region)| match memory {
            Memory::Locked(device) => Some((*cpu, device.as_path(), *region)),
            Memory::Malloc => None,
        })
    }
}

impl Place<'_> {
    pub(super) fn region(&mut self, target: &Target, bytes: Bytes) -> Result<Region, SetupError> {
        let node = self.description.node(target, self.cpu).unwrap_or_default();
        self.setup.region(node, bytes.0)
    }

    pub(super) fn written(&mut self, target: &Target, bytes: Bytes) -> Result<Region, SetupError> {
        let same = |known: &&(Target, Bytes, Region)| (&known.0, known.1) == (target, bytes);
        if let Some((.., region)) = self.regions.written.iter().find(same) {
            return Ok(*region);
        }
        let region = self.region(target, bytes)?;
        self.regions.written.push((target.clone(), bytes, region));
        Ok(region)
    }

    // As the library chooses for a processor (`ringfence_persist::Methods::of_processor`).
    pub(super) fn how(&self) -> How {
        let processor = &self.description.processor;
        let has = |flush: &Flush| processor.flush.iter().any(|known| known == flush);
        let flush = Flush::GENTLEST_FIRST.into_iter().find(has).unwrap_or(Flush::Clflush);
        // AMD's processors before `clflushopt` (AMD APM volume 3, "CLFLUSH").
        let strong_fences = processor.vendor == Vendor::Amd && !has(&Flush::Clflushopt);
        How { flush, strong_fences: strong_fences && flush == Flush::Clflush, asks: true }
    }

    // Readers that differ in nothing that concerns their memory share it, so that its place is not a difference between them.
    pub(super) fn read(&mut self, memory: &Memory, bytes: Bytes) -> Result<Region, SetupError> {
        let same = |known: &&(CpuId, Bytes, Memory, Region)| {
            (known.0, known.1, &known.2) == (self.cpu, bytes, memory)
        };
        if let Some((.., region)) = self.regions.read.iter().find(same) {
            return Ok(*region);
        }
        let region = self.region(&Target::Dram, bytes)?;
        self.regions.read.push((self.cpu, bytes, memory.clone(), region));
        Ok(region)
    }

    // Lines of the last-level cache that the CPU uses.
    pub(super) fn llc_lines(&self) -> u64 {
        u64::from(self.description.parts.llc.size_kib) * 1024 / LINE as u64
    }
}
