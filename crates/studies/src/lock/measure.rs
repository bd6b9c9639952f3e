//! The study of `lock measure`, and what it holds meanwhile.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence_experiment::Error;
use ringfence_experiment::Experiment;
use ringfence_experiment::Reason;
use ringfence_experiment::task::Flush;
use ringfence_machine::Machine;
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::root::FsRoot;
use ringfence_machine::units::Bytes;
use ringfence_resctrl::pseudo::{Cache, Support};
use ringfence_resctrl::{Options, Resctrl, State, transaction};
use ringfence_simulator::Description;

use super::{
    Apart, Capabilities, NAME, Question, after, create, default_cache, flush_once, nominal, remove,
    shared_out,
};
use crate::{Here, Kept, Planned, Stage, Study};

/// An experiment over everything that can keep the region, then one after each flush of a region of
/// its own.
pub struct Locking<'a> {
    root: &'a FsRoot,
    cpu: CpuId,
    question: Question,
    first: Experiment,
    to_flush: std::slice::Iter<'static, Flush>,
    held: Option<Held>,
    ready: &'a Ready<'a>,
}

/// Makes an experiment ready: as the caller's flags want it, or refused.
pub type Ready<'a> = dyn Fn(Experiment, &Machine) -> Result<Experiment, Error> + 'a;

impl<'a> Locking<'a> {
    /// The study of a question, whose first experiment is ready. A region that is held is replaced
    /// by a fresh one for each flush instruction.
    pub fn new(
        (question, cpu): (Question, CpuId),
        first: Experiment,
        root: &'a FsRoot,
        held: Option<Held>,
        ready: &'a Ready<'a>,
    ) -> Self {
        let to_flush = if held.is_some() { Flush::ALL.iter() } else { [].iter() };
        Self { root, cpu, question, first, to_flush, held, ready }
    }
}

impl Study for Locking<'_> {
    type Findings = ();

    fn stages(&self) -> Vec<Duration> {
        vec![Duration::ZERO; 1 + self.to_flush.len()]
    }

    fn kept(&self) -> Option<Kept> {
        None
    }

    fn next(&mut self, stages: &[Stage], here: &mut Here) -> Result<Option<Planned>, Error> {
        let machine = here.machine;
        let planned = |dir: &Path, experiment: Experiment| {
            Planned::new(&experiment.name, dir.into(), &experiment, machine).map(Some)
        };
        if stages.is_empty() {
            return planned(here.dir, self.first.clone());
        }
        while let Some(&flush) = self.to_flush.next() {
            if !ringfence_persist::isa::supports(flush) {
                let why = format!(
                    "locked, after {flush}: not run, because this processor has no {flush}"
                );
                here.watch.note(&why);
                continue;
            }
            if here.is_stopped() {
                return Err(Error::interrupted());
            }
            return planned(&beside(here.dir, flush), self.after(flush, here.machine)?);
        }
        Ok(None)
    }

    fn conclude(&mut self, _: &[Stage], _: Option<&str>) -> Result<(), Error> {
        self.held.take().map_or(Ok(()), Held::end)
    }
}

impl Locking<'_> {
    // A fresh region, flushed once.
    fn after(&mut self, flush: Flush, machine: &Machine) -> Result<Experiment, Error> {
        self.held.take().map_or(Ok(()), Held::end)?;
        let fresh = Held::make(self.root, machine, self.cpu, self.question.size)?;
        flush_once(&fresh.fs, NAME, flush)?;
        self.held = Some(fresh);
        (self.ready)(after(&self.question, flush)?, machine)
    }
}

fn beside(dir: &Path, flush: Flush) -> PathBuf {
    let mut beside = dir.as_os_str().to_owned();
    beside.push(format!("-after-{flush}"));
    beside.into()
}

/// What there is for the reader on this CPU; a note for each thing that there is not.
pub fn capabilities(
    root: &FsRoot,
    machine: &Machine,
    cpu: CpuId,
    bytes: Bytes,
    support: &Support,
    notes: &mut Vec<String>,
) -> Capabilities {
    let can_lock = matches!(support, Support::Can(_));
    let found = Resctrl::find(root);
    let Ok(fs) = found else {
        return Capabilities {
            apart: nominal(&machine.topology, cpu, bytes),
            can_lock,
            locks_anew: false,
        };
    };
    let apart = || -> Result<Apart, Reason> {
        let say = |error: ringfence_resctrl::Error| error.to_string();
        let at = default_cache(&fs, &machine.topology, None, cpu).map_err(say)?;
        let way = Cache::read(root, &fs, at.0, at.1).map_err(say)?.way;
        let (info, state) = (fs.info().map_err(say)?, State::read(&fs).map_err(say)?);
        shared_out(&info, &state, at, way, bytes)
    };
    let apart = or_said(apart(), notes);
    Capabilities { apart, can_lock, locks_anew: false }
}

// Ways of its own, or why there are none, as a note.
fn or_said(apart: Result<Apart, Reason>, notes: &mut Vec<String>) -> Option<Apart> {
    apart.map_err(|why| notes.push(format!("own ways: not run, because {why}"))).ok()
}

/// Whether a described machine locks regions.
pub fn support_of(described: &Description) -> Support {
    match described.processor.pseudo_lock {
        Some(_) => Support::Can("described"),
        None => Support::Cannot(format!(
            "Linux does not lock regions into the caches of {}; exclusive cache ways are the \
             alternative",
            described.title
        )),
    }
}

/// As [`capabilities`], on a described machine.
pub fn capabilities_of(
    described: &Description,
    cpu: CpuId,
    bytes: Bytes,
    support: &Support,
    notes: &mut Vec<String>,
) -> Capabilities {
    let can_lock = matches!(support, Support::Can(_));
    let apart = or_said(super::described(described, cpu, bytes), notes);
    Capabilities { apart, can_lock, locks_anew: true }
}

/// A region for as long as is measured. If the program is killed, 'ringfence lock remove' or the
/// next measurement removes it.
pub struct Held {
    fs: Resctrl,
}

impl Held {
    /// Locks a region.
    ///
    /// # Errors
    /// Where resctrl is not mounted, refuses, or another process holds a region for this.
    pub fn make(root: &FsRoot, machine: &Machine, cpu: CpuId, bytes: Bytes) -> Result<Self, Error> {
        let fs = Resctrl::find(root).map_err(ringfence_resctrl::Error::from)?;
        let options = Options::default();
        if let Some(owner) = transaction::owner(NAME, &options)
            && owner.tid != std::process::id()
            && fs.kernel().started(owner.tid) == Some(owner.start)
        {
            return Err(Error::from(ringfence_resctrl::Error::Busy(format!(
                "process {} is measuring with the region '{}': wait for it to end",
                owner.tid, NAME
            ))));
        }
        if fs.group(&NAME.parse()?).exists() {
            remove(&fs, NAME, &options)?;
        }
        let at = default_cache(&fs, &machine.topology, None, cpu)?;
        create(root, &fs, NAME, at, bytes, false, &options)?;
        Ok(Self { fs })
    }

    /// Removes it.
    fn end(self) -> Result<(), Error> {
        let removed = remove(&self.fs, NAME, &Options::default());
        std::mem::forget(self);
        removed.map(|_| ()).map_err(Error::from)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // On the way out of a failure, which is the one to be told.
        let _ = remove(&self.fs, NAME, &Options::default());
    }
}
