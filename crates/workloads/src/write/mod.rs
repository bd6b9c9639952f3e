//! The writer: copies blocks into its target and flushes them, in one of many ways.

pub mod loops;

use std::ffi::CString;
use std::path::PathBuf;
use std::rc::Rc;

use ringfence_experiment::task::{Instruction, LineState, PageSize, Pattern, Target, Write};
use ringfence_machine::clock::Clock;
use ringfence_machine::features::Features;
use ringfence_persist::{Flush, LINE, Region, Request, isa};

use self::loops::{Loop, Walk};
use super::{Latencies, SetupError, Work, Workload};

/// Targets already mapped, for writers that differ in nothing that concerns the mapping.
#[derive(Default)]
pub struct Regions {
    mapped: Vec<Mapped>,
    // Devices that hold a ring.
    rings: Vec<PathBuf>,
}

struct Mapped {
    target: Target,
    pages: PageSize,
    size: u64,
    prefault: bool,
    region: Rc<Region>,
}

impl Regions {
    fn get(&mut self, task: &Write) -> Result<Rc<Region>, SetupError> {
        let same = |known: &&Mapped| {
            (known.pages, known.size, known.prefault) == (task.pages, task.size.0, task.prefault)
                && known.target == task.target
        };
        if let Some(known) = self.mapped.iter().find(same) {
            return Ok(known.region.clone());
        }
        on_tmpfs(&task.target)?;
        let len = usize::try_from(task.size.0)
            .map_err(|_| SetupError::Other(format!("size = {} cannot be mapped", task.size)))?;
        let request = Request { medium: task.target.medium(), len, pages: task.pages.pages() };
        let region = Rc::new(Region::map(&request)?);
        if !task.prefault {
            // SAFETY: nobody holds a reference into it.
            unsafe { region.discard() }.map_err(|error| {
                SetupError::Other(format!(
                    "prefault = false: {} cannot give its pages back: {error}; use another target",
                    task.target
                ))
            })?;
        }
        let (target, pages, size) = (task.target.clone(), task.pages, task.size.0);
        self.mapped.push(Mapped { target, pages, size, prefault: task.prefault, region: region.clone() });
        Ok(region)
    }

    /// Sees to it that a ring can be made in a target: it cannot share its memory, and a device is one
    /// memory, whoever maps it.
    pub(super) fn reserve(&mut self, target: &Target) -> Result<(), SetupError> {
        on_tmpfs(target)?;
        let Target::DevDax(path) = target else { return Ok(()) };
        if self.rings.contains(path) || self.mapped.iter().any(|mapped| mapped.target == *target) {
            return Err(SetupError::Other(format!(
                "{target} holds one ring and nothing else, and several tasks use it: measure them one by one, or in a dax: target"
            )));
        }
        self.rings.push(path.clone());
        Ok(())
    }
}

// Another file system under this name would be measured as what it is not.
fn on_tmpfs(target: &Target) -> Result<(), SetupError> {
    let Target::Tmpfs(folder) = target else { return Ok(()) };
    let refuse = |why: &str| {
        let text = format!("{}: {why}; name a folder such as /dev/shm", folder.display());
        Err(SetupError::Other(text))
    };
    let Ok(path) = CString::new(folder.as_os_str().as_encoded_bytes()) else {
        return refuse("the path holds a zero byte");
    };
    // SAFETY: a terminated path and an all-zero out-parameter, both outliving the call.
    let (status, kind) = unsafe {
        let mut stat: libc::statfs = std::mem::zeroed();
        (libc::statfs(path.as_ptr(), &mut stat), stat.f_type)
    };
    if status != 0 {
        return refuse(&std::io::Error::last_os_error().to_string());
    }
    if kind == libc::TMPFS_MAGIC {
        Ok(())
    } else {
        refuse("this is no tmpfs: use file: for other file systems")
    }
}

// Lines prepared at once for a warm or cold start: a third of the smallest L1d in use (48 KiB and
// 32 KiB are common), so that preparing the last line does not drive the first one out.
const PREPARED: usize = (12 << 10) / LINE;

/// A writer, ready to write.
pub struct Writer {
    region: Rc<Region>,
    // Keeps the walk's source mapped.
    _source: Region,
    walk: Walk,
    run: Loop,
    line: LineState,
    sync: bool,
    prefault: bool,
    pace: Option<Pace>,
    clock: &'static Clock,
}

struct Pace {
    ticks_per_block: f64,
    // Blocks between two waits: about 4 KiB, so that a paced writer is steady, not bursty.
    blocks: u64,
    due: f64,
}

impl Writer {
    /// Maps the target and chooses the loop.
    ///
    /// # Errors
    /// Where the task makes no sense, the processor lacks an instruction, or the target cannot be had.
    pub fn new(task: &Write, seed: u64, regions: &mut Regions) -> Result<Self, SetupError> {
        // The loops rely on both: a block has lines and fits, and the instructions exist.
        task.check().map_err(SetupError::Other)?;
        if let Some(missing) = task.missing(Some(&Features::detect())) {
            return Err(SetupError::Other(missing));
        }
        let region = regions.get(task)?;
        let source = super::memory(task.block.0, ringfence_persist::Pages::Base)?;
        for offset in 0..task.block.0 as usize {
            // SAFETY: inside the source, which has at least a block.
            unsafe { source.base().add(offset).write((offset % 251) as u8 + 1) };
        }
        let stream = task.instruction == Instruction::Nt;
        let run = loops::select(task.width, stream, task.instruction.flush(), task.fence_at, task.fence)
            .expect("checked: there is such a way of writing");
        let walk = Walk {
            base: region.base(),
            source: source.base(),
            lines: task.block.0 as usize / LINE,
            blocks: task.size.0 / task.block.0,
            random: task.pattern == Pattern::Random,
            batch: task.batch,
            unfenced: 0,
            index: 0,
            state: seed | 1,
        };
        let pace = task.pace.map(|rate| {
            let seconds = task.block.0 as f64 / rate.0.0 as f64;
            Pace {
                ticks_per_block: seconds * 1e9 / Clock::host().ns_per_tick(),
                blocks: (4096 / task.block.0).max(1),
                due: 0.0,
            }
        });
        let sync = task.instruction == Instruction::Msync;
        let (line, prefault, clock) = (task.line, task.prefault, Clock::host());
        Ok(Self { region, _source: source, walk, run, line, sync, prefault, pace, clock })
    }

    /// What it writes to. Whoever reads or writes there does so between two calls of
    /// [`Workload::work`].
    pub fn region(&self) -> &Rc<Region> {
        &self.region
    }

    fn write(&mut self, blocks: u64) {
        if self.sync {
            for _ in 0..blocks {
                let offset = self.walk.clone().advance() as usize - self.region.base() as usize;
                // SAFETY: see `new`: pointers and instructions fit the region and the processor.
                unsafe { (self.run)(&mut self.walk, 1) };
                // The range lies in the region; what the medium reports cannot be mended here, and a
                // writer whose msync fails reports no progress for it.
                let _ = self.region.msync(offset..offset + self.walk.lines * LINE);
            }
        } else {
            // SAFETY: as above.
            unsafe { (self.run)(&mut self.walk, blocks) };
        }
    }

    // Gives the target's pages back, so that the next pass meets fresh ones; returns the ticks that took.
    fn give_back(&self) -> u64 {
        let start = self.clock.now();
        // SAFETY: as there; the loops hold raw pointers.
        unsafe { self.region.discard() }.expect("it was done once at the start");
        self.clock.now() - start
    }

    // Brings the lines of the next blocks into the state asked for; returns the ticks that took.
    fn prepare(&self, blocks: u64) -> u64 {
        let start = self.clock.now();
        let mut ahead = self.walk.clone();
        let evict = if isa::supports(Flush::Clflushopt) { isa::clflushopt } else { isa::clflush };
        for _ in 0..blocks {
            let block = ahead.advance();
            for line in 0..self.walk.lines {
                // SAFETY: the lines that the walk comes to next; `evict` exists.
                unsafe {
                    let p = block.add(line * LINE);
                    match self.line {
                        LineState::Cold => evict(p),
                        _ => isa::prefetchw(p),
                    }
                }
            }
            if self.line == LineState::Warm {
                for line in 0..self.walk.lines {
                    // SAFETY: as above; waits for the prefetch.
                    unsafe { block.add(line * LINE).read_volatile() };
                }
            }
        }
        isa::mfence();
        self.clock.now() - start
    }
}

impl Workload for Writer {
    fn work(&mut self, amount: u64, _: &dyn Latencies) -> Work {
        let units = amount * self.walk.lines as u64;
        let mut untimed = 0;
        if let Some(mut pace) = self.pace.take() {
            let mut left = amount;
            while left > 0 {
                let blocks = left.min(pace.blocks);
                self.write(blocks);
                left -= blocks;
                pace.wait(blocks, self.clock);
            }
            self.pace = Some(pace);
        } else if !self.prefault {
            let mut left = amount;
            while left > 0 {
                let blocks = left.min(self.walk.blocks - self.walk.index);
                self.write(blocks);
                left -= blocks;
                if self.walk.index == 0 {
                    untimed += self.give_back();
                }
            }
        } else if self.line == LineState::AsIs {
            self.write(amount);
        } else {
            let portion = (PREPARED / self.walk.lines).max(1) as u64;
            let mut left = amount;
            while left > 0 {
                let blocks = left.min(portion);
                untimed += self.prepare(blocks);
                self.write(blocks);
                // What is still in the store buffer belongs to this portion, not to the next
                // preparation, which is not timed.
                isa::sfence();
                left -= blocks;
            }
        }
        Work { units, untimed }
    }

    fn resumed(&mut self) {
        // Somebody else may have touched the pages since.
        if !self.prefault {
            self.give_back();
            self.walk.index = 0;
        }
        if let Some(pace) = &mut self.pace {
            pace.due = 0.0;
        }
    }
}

impl Pace {
    fn wait(&mut self, blocks: u64, clock: &Clock) {
        let earliest = clock.now() as f64;
        // Time lost while paused, or to somebody else, is not made up for: that would be a burst.
        let late = earliest - self.due > 1000.0 * self.ticks_per_block;
        self.due = if late { earliest } else { self.due } + blocks as f64 * self.ticks_per_block;
        while (clock.now() as f64) < self.due {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests;
