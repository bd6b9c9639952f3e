//! The writer: copies blocks into its target and flushes them, in one of many ways.

mod loops;

use std::hint::black_box;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use ringfence_experiment::task::{Instruction, LineState, PageSize, Parameters, Target, Write};
use ringfence_machine::clock::Clock;
use ringfence_machine::features::Features;
use ringfence_persist::{Flush, LINE, Region, Request, isa};

use self::loops::Blocks;
use super::lines::{self, Flusher, Scratch};
use crate::workload::{Latencies, SetupError, Work, Workload};

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
    memory: Rc<Scratch>,
}

impl Regions {
    fn get(&mut self, task: &Write) -> Result<Rc<Scratch>, SetupError> {
        let same = |known: &&Mapped| {
            (known.pages, known.size, known.prefault) == (task.pages, task.size.0, task.prefault)
                && known.target == task.target
        };
        if let Some(known) = self.mapped.iter().find(same) {
            return Ok(known.memory.clone());
        }
        on_tmpfs(&task.target)?;
        let len = usize::try_from(task.size.0)
            .map_err(|_| SetupError::Other(format!("size = {} cannot be mapped", task.size)))?;
        let request = Request { medium: task.target.medium(), len, pages: task.pages.pages() };
        let memory = Rc::new(Scratch::new(Region::map(&request)?));
        if !task.prefault {
            memory.discard().map_err(|error| {
                SetupError::Other(format!(
                    "prefault = false: {} cannot give its pages back: {error}; use another target",
                    task.target
                ))
            })?;
        }
        let (target, pages, size) = (task.target.clone(), task.pages, task.size.0);
        self.mapped.push(Mapped {
            target,
            pages,
            size,
            prefault: task.prefault,
            memory: memory.clone(),
        });
        Ok(memory)
    }

    /// Makes sure that a ring or records can be made in a target: they cannot share their memory,
    /// and a device is one memory, however it is mapped.
    pub(super) fn reserve(&mut self, target: &Target) -> Result<(), SetupError> {
        on_tmpfs(target)?;
        let Target::DevDax(path) = target else { return Ok(()) };
        if self.rings.contains(path) || self.mapped.iter().any(|mapped| mapped.target == *target) {
            return Err(SetupError::Other(format!(
                "{target} holds one ring, or the records of one task, and several tasks use it: \
                 measure them one by one, or in a dax: target"
            )));
        }
        self.rings.push(path.clone());
        Ok(())
    }
}

// linux/magic.h.
const TMPFS_MAGIC: u64 = 0x0102_1994;

// Another file system under this name would be measured as what it is not.
fn on_tmpfs(target: &Target) -> Result<(), SetupError> {
    let Target::Tmpfs(folder) = target else { return Ok(()) };
    let refuse = |why: &str| {
        let text = format!("{}: {why}; name a folder such as /dev/shm", folder.display());
        Err(SetupError::Other(text))
    };
    if folder.as_os_str().as_bytes().contains(&0) {
        return refuse("the path holds a zero byte");
    }
    match rustix::fs::statfs(folder) {
        Err(errno) => refuse(&std::io::Error::from(errno).to_string()),
        Ok(stat) if stat.f_type as u64 == TMPFS_MAGIC => Ok(()),
        Ok(_) => refuse("this is not a tmpfs: use file: for other file systems"),
    }
}

// Lines prepared at once for a warm or cold start: a third of the smallest L1d in use (48 KiB and
// 32 KiB are common), so that preparing the last line does not drive the first one out.
const PREPARED: usize = (12 << 10) / LINE;

/// A writer, ready to write.
pub struct Writer {
    blocks: Blocks,
    evict: Flusher,
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
    /// Where the task makes no sense, the processor lacks an instruction, or the target cannot be
    /// had.
    pub fn new(task: &Write, seed: u64, regions: &mut Regions) -> Result<Self, SetupError> {
        task.check().map_err(SetupError::Other)?;
        if let Some(missing) = task.missing(Some(&Features::detect())) {
            return Err(SetupError::Other(missing.into()));
        }
        let target = regions.get(task)?;
        let source =
            Scratch::new(crate::workload::memory(task.block.0, ringfence_persist::Pages::Base)?);
        let no_way =
            || SetupError::Other("this processor does not support this write method".into());
        let blocks = Blocks::new(task, seed, target, source).ok_or_else(no_way)?;
        let evict = Flusher::new(Flush::Clflushopt).or_else(|| Flusher::new(Flush::Clflush));
        let evict = evict.ok_or_else(no_way)?;
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
        Ok(Self { blocks, evict, line, sync, prefault, pace, clock })
    }

    /// What it writes to. Other code reads or writes there only between two calls of
    /// [`Workload::work`].
    pub fn memory(&self) -> &Rc<Scratch> {
        self.blocks.target()
    }

    fn write(&mut self, blocks: u64) {
        if self.sync {
            for _ in 0..blocks {
                let lines = self.blocks.ahead().next().expect("it has no end");
                self.blocks.write(1);
                // The range lies in the region; what the medium reports cannot be fixed here, and a
                // writer whose msync fails reports no progress for it.
                let _ = self.memory().msync(lines.start * LINE..lines.end * LINE);
            }
        } else {
            self.blocks.write(blocks);
        }
    }

    // Gives the target's pages back, so that the next pass meets fresh ones; returns the ticks that
    // took.
    fn give_back(&self) -> u64 {
        let start = self.clock.now();
        self.memory().discard().expect("it was done once at the start");
        self.clock.now() - start
    }

    // Brings the lines of the next blocks into the state asked for; returns the ticks that took.
    fn prepare(&self, blocks: u64) -> u64 {
        let start = self.clock.now();
        for block in self.blocks.ahead().take(blocks as usize) {
            let block = &self.memory().lines()[block];
            match self.line {
                LineState::Cold => block.iter().for_each(|line| self.evict.flush(line)),
                LineState::Warm => {
                    block.iter().for_each(lines::prefetch_to_write);
                    // Waits for the prefetches.
                    for line in block {
                        black_box(line[0].load(Ordering::Relaxed));
                    }
                }
                LineState::AsIs => {}
            }
        }
        settle();
        self.clock.now() - start
    }
}

// Until everything before has been done: an `sfence` may wait in the store buffer, while the clock
// is read and the preparation goes on (SDM vol. 2B, "RDTSC": MFENCE and LFENCE before it).
fn settle() {
    isa::mfence();
    isa::lfence();
}

impl Workload for Writer {
    fn work(&mut self, amount: u64, _: &dyn Latencies) -> Work {
        let units = amount * self.blocks.lines() as u64;
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
                let blocks = left.min(self.blocks.left());
                self.write(blocks);
                left -= blocks;
                if self.blocks.at_start() {
                    untimed += self.give_back();
                }
            }
        } else if self.line == LineState::AsIs {
            self.write(amount);
        } else {
            let portion = (PREPARED / self.blocks.lines()).max(1) as u64;
            let mut left = amount;
            while left > 0 {
                let blocks = left.min(portion);
                untimed += self.prepare(blocks);
                self.write(blocks);
                // What is still in the store buffer belongs to this portion, not to the next
                // preparation, which is not timed.
                settle();
                left -= blocks;
            }
        }
        Work { units, untimed }
    }

    fn resumed(&mut self) {
        // Other code may have touched the pages since.
        if !self.prefault {
            self.give_back();
            self.blocks.restart();
        }
        if let Some(pace) = &mut self.pace {
            pace.due = 0.0;
        }
    }
}

impl Pace {
    fn wait(&mut self, blocks: u64, clock: &Clock) {
        let earliest = clock.now() as f64;
        // Time lost while paused, or to another process, is not made up for: that would be a burst.
        let late = earliest - self.due > 1000.0 * self.ticks_per_block;
        self.due = if late { earliest } else { self.due } + blocks as f64 * self.ticks_per_block;
        while (clock.now() as f64) < self.due {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests;
