//! What a run begins with: memory, programs, classes of service.

use super::engine::Run;
use super::refusal::{CLASSES, HardwareThread, MOST_CORES, SetupError, Thread};
use crate::hardware::cpu;
use crate::hardware::hierarchy::{Hierarchy, Place};
use crate::hardware::machine::Machine;
use crate::hardware::pages::Pages;
use crate::hardware::program::{Program, Region};
use crate::hardware::units::LINE;

/// A machine before its programs start.
pub struct Setup {
    machine: Machine,
    seed: u64,
    pages: Pages,
    programs: Vec<(HardwareThread, usize, Box<dyn Program>)>,
    full: bool,
}

impl Setup {
    /// A machine with nothing on it. What is drawn by lot is drawn from the seed.
    ///
    /// # Errors
    /// A description that makes no sense.
    pub fn new(machine: &Machine, seed: u64) -> Result<Self, SetupError> {
        machine.check()?;
        Ok(Self {
            machine: machine.clone(),
            seed,
            pages: Pages::default(),
            programs: Vec::new(),
            full: false,
        })
    }

    /// Gives out memory of a node, in whole lines, on pages of its own.
    ///
    /// # Errors
    /// No such node, or more than can be numbered.
    pub fn region(&mut self, node: usize, bytes: u64) -> Result<Region, SetupError> {
        let last = self.machine.nodes.len() - 1;
        if node > last {
            return Err(SetupError::NoNode { node, last });
        }
        let too_much = SetupError::NoRoom { bytes, most: Pages::MOST_LINES * LINE };
        if bytes == 0 || bytes > Pages::MOST_LINES * LINE {
            return Err(too_much);
        }
        self.pages.add(node as u8, bytes.div_ceil(LINE)).ok_or(too_much)
    }

    /// Has a hardware thread run a program, in a class of service.
    ///
    /// # Errors
    /// No such thread or class, a thread that runs another, or too many cores.
    pub fn program(
        &mut self,
        thread: HardwareThread,
        class: usize,
        program: impl Program + 'static,
    ) -> Result<Thread, SetupError> {
        let HardwareThread { core, sibling } = thread;
        let topology = &self.machine.topology;
        let cores = topology.sockets * topology.llcs_per_socket * topology.cores_per_llc;
        let threads = topology.threads_per_core;
        if core >= cores || sibling >= threads {
            return Err(SetupError::NoThread { core, sibling, cores, threads });
        }
        if class >= CLASSES {
            return Err(SetupError::NoClass { class });
        }
        if self.programs.iter().any(|(other, ..)| *other == thread) {
            return Err(SetupError::Taken { core, sibling });
        }
        let mut used = self.used();
        if !used.contains(&core) {
            used.push(core);
        }
        if used.len() > MOST_CORES {
            return Err(SetupError::TooManyCores);
        }
        self.programs.push((thread, class, Box::new(program)));
        Ok(Thread(self.programs.len() - 1))
    }

    /// Last-level caches start full of clean lines that no thread uses, instead of empty: those of
    /// a machine that has run for long are full, and their eviction differs from that of an empty
    /// cache.
    pub fn fill_last_levels(&mut self) {
        self.full = true;
    }

    // The cores that have programs, in order.
    fn used(&self) -> Vec<u32> {
        let mut cores: Vec<u32> = self.programs.iter().map(|(thread, ..)| thread.core).collect();
        cores.sort_unstable();
        cores.dedup();
        cores
    }

    /// Starts, at time 0.
    pub fn start(self) -> Run {
        let used = self.used();
        let topology = &self.machine.topology;
        let llc_of = |core: u32| core / topology.cores_per_llc;
        let mut llcs: Vec<u32> = used.iter().map(|core| llc_of(*core)).collect();
        llcs.dedup();
        let place = |core: &u32| Place {
            llc: llcs.iter().position(|llc| *llc == llc_of(*core)).unwrap_or_default(),
            socket: llc_of(*core) / topology.llcs_per_socket,
        };
        let places: Vec<Place> = used.iter().map(place).collect();
        let mut outside = Hierarchy::new(&self.machine, &places, CLASSES);
        outside.pages = self.pages;
        if self.full {
            outside.fill_last_levels();
        }

        let description = &self.machine.core;
        let mut where_is = vec![(0, 0); self.programs.len()];
        let mut programs: Vec<_> = self.programs.into_iter().enumerate().collect();
        programs.sort_by_key(|(_, (thread, ..))| (thread.core, thread.sibling));
        let mut threads: Vec<Vec<cpu::Thread>> = used.iter().map(|_| Vec::new()).collect();
        let limits = cpu::Limits {
            store_buffer: description.store_buffer as usize,
            load_window: description.load_window.into(),
        };
        for (number, (thread, class, program)) in programs {
            let core = used.iter().position(|used| *used == thread.core).unwrap_or_default();
            where_is[number] = (core, threads[core].len());
            threads[core].push(cpu::Thread::new(number as u32, class, limits, program));
        }
        let costs = cpu::Costs::of(description);
        let build = |(number, threads)| cpu::Core::new(number, description, costs, threads);
        let cores = threads.into_iter().enumerate().map(build).collect();
        Run::new(&self.machine, self.seed, outside, cores, where_is)
    }
}
