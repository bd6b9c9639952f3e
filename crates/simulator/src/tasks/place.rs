//! Where a task finds its memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::hardware::{Region, Setup, SetupError};
use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::{Memory, Target, Trace};
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::units::Bytes;
use ringfence_persist::{Flush, LINE};

use super::error::SetupError as Refused;
use super::memory::How;
use super::program::Played;
use crate::file::{Description, Vendor};
use crate::isolation;
use crate::recordings::Recordings;

/// Memory that tasks share, as they do on a machine.
#[derive(Default)]
pub struct Regions {
    written: Vec<(Written, Region)>,
    // By the CPU that reads them.
    read: Vec<(CpuId, Bytes, Memory, Region)>,
    // Of a device, below a last-level cache.
    locked: Vec<(PathBuf, u32, CpuId, Region)>,
    // Bytes of each device: as many as any of its readers reads.
    devices: Vec<(PathBuf, Bytes)>,
    // By role and instance.
    programs: Vec<(usize, u32, Trace, Arc<Played>)>,
}

// A writer has memory of its own, or files, in which its variants write. A device is shared by all.
#[derive(PartialEq)]
struct Written {
    whose: Option<(usize, u32)>,
    target: Target,
    bytes: Bytes,
}

/// What building takes.
pub struct Place<'a> {
    pub description: &'a Description,
    pub setup: &'a mut Setup,
    pub regions: &'a mut Regions,
    pub recordings: &'a Recordings,
    /// Whose task it is: the role, and which of its instances.
    pub whose: (usize, u32),
    /// Which of the CPUs it is that a task has, and of how many.
    pub share: (usize, usize),
    pub cpu: CpuId,
    pub seed: u64,
}

impl Regions {
    /// None yet, for the tasks of a plan.
    pub fn of(plan: &Plan) -> Self {
        let mut devices: Vec<(PathBuf, Bytes)> = Vec::new();
        let run: Vec<usize> = plan.run_cases().collect();
        for (device, bytes, _) in isolation::locked(plan, &run) {
            match devices.iter_mut().find(|known| known.0 == *device) {
                Some(known) => known.1 = known.1.max(bytes),
                None => devices.push((device.clone(), bytes)),
            }
        }
        Self { devices, ..Self::default() }
    }

    /// Regions that are locked into the cache below a CPU, by their devices.
    pub fn locked(&self) -> impl Iterator<Item = (CpuId, &Path, Region)> {
        self.locked.iter().map(|(device, _, cpu, region)| (*cpu, device.as_path(), *region))
    }
}

impl Place<'_> {
    pub(super) fn region(&mut self, target: &Target, bytes: Bytes) -> Result<Region, SetupError> {
        let node = self.description.node(target, self.cpu).unwrap_or_default();
        self.setup.region(node, bytes.0)
    }

    pub(super) fn written(&mut self, target: &Target, bytes: Bytes) -> Result<Region, SetupError> {
        let whose = (!matches!(target, Target::DevDax(_))).then_some(self.whose);
        let wanted = Written { whose, target: target.clone(), bytes };
        if let Some((_, region)) = self.regions.written.iter().find(|(known, _)| *known == wanted) {
            return Ok(*region);
        }
        let region = self.region(target, bytes)?;
        self.regions.written.push((wanted, region));
        Ok(region)
    }

    // The same for all its CPUs.
    pub(super) fn program(&mut self, task: &Trace) -> Result<Arc<Played>, Refused> {
        let (role, instance) = self.whose;
        let same = |known: &&(usize, u32, Trace, Arc<Played>)| {
            (known.0, known.1, &known.2) == (role, instance, task)
        };
        if let Some((.., played)) = self.regions.programs.iter().find(same) {
            return Ok(played.clone());
        }
        let recorded =
            self.recordings.get(&task.file).filter(|recorded| recorded.events() > 0).cloned();
        let recorded = recorded.ok_or_else(|| Refused::NotRead(task.file.clone()))?;
        let mut files = Vec::new();
        for (file, touched) in recorded.files() {
            let bytes = Bytes(touched.len() as u64 * LINE as u64);
            files.resize(files.len().max(usize::from(file) + 1), None);
            files[usize::from(file)] = Some((self.region(&task.target, bytes)?, touched.start));
        }
        let told = (self.seed, self.llc_lines());
        let played = Arc::new(Played::new(recorded, files, self.share.1, told));
        self.regions.programs.push((role, instance, task.clone(), played.clone()));
        Ok(played)
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

    // Readers that differ in nothing that concerns their memory share it, so that its place is not
    // a difference between them.
    pub(super) fn read(&mut self, memory: &Memory, bytes: Bytes) -> Result<Region, SetupError> {
        if let Memory::Locked(device) = memory {
            return self.locked(device, bytes);
        }
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

    // A device is one region, of which a reader maps as much as it reads, from its beginning.
    fn locked(&mut self, device: &Path, bytes: Bytes) -> Result<Region, SetupError> {
        let llc = self.description.llc_and_socket(self.cpu).0;
        let lines = bytes.0.div_ceil(LINE as u64) as u32;
        let known = self.regions.locked.iter().find(|known| (&*known.0, known.1) == (device, llc));
        if let Some((.., region)) = known {
            return Ok(region.part(lines));
        }
        let most = self
            .regions
            .devices
            .iter()
            .find(|known| known.0 == *device)
            .map_or(bytes, |known| known.1);
        let region = self.region(&Target::Dram, most.max(bytes))?;
        self.regions.locked.push((device.to_owned(), llc, self.cpu, region));
        Ok(region.part(lines))
    }

    // Lines of the last-level cache that the CPU uses.
    pub(super) fn llc_lines(&self) -> u64 {
        u64::from(self.description.parts.llc.size_kib) * 1024 / LINE as u64
    }
}
