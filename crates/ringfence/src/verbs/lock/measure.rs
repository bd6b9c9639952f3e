//! `lock measure`: one experiment over everything that can keep a region in the cache here.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Instant;

use ringfence_engine::available;
use ringfence_experiment::Experiment;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::Flush;
use ringfence_experiment::units::Span;
use ringfence_machine::Machine;
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::root::FsRoot;
use ringfence_machine::units::Bytes;
use ringfence_report::json;
use ringfence_resctrl::pseudo::{self, Cache, Support};
use ringfence_resctrl::{Error, Options, Resctrl, State, transaction};
use ringfence_studies::findings::Findings;
use ringfence_studies::lock::{self, Offer, Question};
use ringfence_studies::measure;

use super::places;
use crate::args::{LockMeasure, Measuring};
use crate::failure::Failure;
use crate::output;
use crate::shared::{experiment, flags, host};

pub fn run(asked: &LockMeasure) -> Result<(), Failure> {
    // Between the experiments too a signal ends it in good order; each watches for its own.
    let stop = host::stop_on_signals()?;
    let go_on = || match stop.load(Ordering::Relaxed) {
        true => Err(Failure::Failed("interrupted; what was locked to be measured is unlocked".into())),
        false => Ok(()),
    };
    let machine = host::examine()?;
    let mut question = question(asked)?;
    // Where the reader runs decides which cache is shared out.
    let draft = lock::experiment(&question, &Offer::default())?;
    let placed = Plan::new(&draft, &machine.topology, machine.features.as_ref())?.placed;
    let cpu = placed.cpus[0].first().copied();
    let cpu = cpu.ok_or_else(|| Failure::Usage("there is no CPU for the reader here".into()))?;
    question.cpu = Some(cpu);
    let root = FsRoot::host();
    let support = pseudo::support(&root);
    let mut notes = Vec::new();
    if let Support::Cannot(why) = &support {
        notes.push(why.clone());
    }
    let saving = asked.measuring.save.is_some();
    let mut held = match support {
        Support::Can(_) if !saving => Some(Held::make(&root, &machine, cpu, question.size)?),
        _ => None,
    };
    let offer = offer(&root, &machine, cpu, question.size, &support, &mut notes);
    let mut wanted = lock::experiment(&question, &offer)?;
    quicken(&mut wanted, asked);
    if saving {
        return experiment::run(wanted, &asked.measuring);
    }
    let mut said = Said { notes, experiments: Vec::new(), json: asked.measuring.output.json };
    said.begin()?;
    let dir =
        asked.measuring.output.out.clone().unwrap_or_else(|| ringfence_dataset::default_dir(&wanted.name));
    go_on()?;
    said.measure(wanted, &dir, &machine, &asked.measuring)?;
    let flushes = if held.is_some() { &Flush::ALL[..] } else { &[] };
    for &flush in flushes {
        if !ringfence_persist::isa::supports(flush) {
            said.note(format!("locked, after {flush}: not run, because this processor has no {flush}"))?;
            continue;
        }
        if let Some(held) = held.take() {
            held.end()?;
        }
        go_on()?;
        let fresh = Held::make(&root, &machine, cpu, question.size)?;
        lock::flush_once(&fresh.fs, lock::NAME, flush)?;
        held = Some(fresh);
        let mut wanted = lock::after(&question, flush)?;
        quicken(&mut wanted, asked);
        let mut beside = dir.clone().into_os_string();
        beside.push(format!("-after-{flush}"));
        go_on()?;
        said.measure(wanted, Path::new(&beside), &machine, &asked.measuring)?;
    }
    if let Some(held) = held.take() {
        held.end()?;
    }
    said.end()
}

fn quicken(wanted: &mut Experiment, asked: &LockMeasure) {
    if asked.quick && asked.measuring.time.is_none() {
        wanted.measure.time = Some(Span::ms(120_000));
    }
}

// What is told: as it comes to people, at the end to machines.
struct Said {
    notes: Vec<String>,
    experiments: Vec<(PathBuf, Findings)>,
    json: bool,
}

impl Said {
    fn begin(&self) -> Result<(), Failure> {
        if self.json || self.notes.is_empty() {
            return Ok(());
        }
        output::print(&(self.notes.join("\n") + "\n\n"))
    }

    fn note(&mut self, note: String) -> Result<(), Failure> {
        if !self.json {
            output::print(&format!("{note}\n\n"))?;
        }
        self.notes.push(note);
        Ok(())
    }

    fn measure(
        &mut self,
        mut wanted: Experiment,
        dir: &Path,
        machine: &Machine,
        flags: &Measuring,
    ) -> Result<(), Failure> {
        flags::apply(&mut wanted, flags)?;
        wanted.check()?;
        experiment::refuse_nothing(&Plan::new(&wanted, &machine.topology, machine.features.as_ref())?)?;
        let started = Instant::now();
        let done = experiment::watch(&wanted.name, flags, &|stop, show| {
            measure::measure(&wanted, machine, dir, stop, show)
        })?;
        let found = Findings::from(&done);
        if self.json {
            self.experiments.push((dir.to_owned(), found));
        } else {
            output::print(&experiment::as_text(&found, done.steps_before, dir, machine, started))?;
        }
        experiment::finish(&done.ended, dir)
    }

    fn end(self) -> Result<(), Failure> {
        if !self.json {
            return Ok(());
        }
        output::print_json(&json::lock_measured(&self.notes, &self.experiments))
    }
}

fn question(asked: &LockMeasure) -> Result<Question, Failure> {
    let noise =
        available::parse_task(&asked.noise).map_err(|error| Failure::Usage(format!("--noise: {error}")))?;
    let mut interval = Span::ms(if asked.quick { 100 } else { 2000 });
    flags::set(&mut interval, "interval", asked.interval.as_deref())?;
    Ok(Question { size: places::size("size", &asked.size)?, interval, noise, cpu: asked.cpu })
}

// What can be had for the reader on this CPU; what cannot is said.
fn offer(
    root: &FsRoot,
    machine: &Machine,
    cpu: CpuId,
    bytes: Bytes,
    support: &Support,
    notes: &mut Vec<String>,
) -> Offer {
    let can_lock = matches!(support, Support::Can(_));
    let found = Resctrl::find(root);
    let Ok(fs) = found else {
        return Offer { apart: lock::nominal(&machine.topology, cpu, bytes), can_lock };
    };
    let apart = || -> Result<lock::Apart, String> {
        let say = |error: Error| error.to_string();
        let at = lock::default_cache(&fs, &machine.topology, None, cpu).map_err(say)?;
        let way = Cache::read(root, &fs, at.0, at.1).map_err(say)?.way;
        let (info, state) = (fs.info().map_err(say)?, State::read(&fs).map_err(say)?);
        lock::shared_out(&info, &state, at, way, bytes)
    };
    let apart = apart().map_err(|why| notes.push(format!("own ways: not run, because {why}"))).ok();
    Offer { apart, can_lock }
}

// A region for as long as is measured. Should the program be killed, 'ringfence lock remove' removes it, or
// the next measurement.
struct Held {
    fs: Resctrl,
}

impl Held {
    fn make(root: &FsRoot, machine: &Machine, cpu: CpuId, bytes: Bytes) -> Result<Self, Failure> {
        let fs = places::find(root)?;
        let options = Options::default();
        if let Some(owner) = transaction::owner(lock::NAME, &options)
            && owner.tid != std::process::id()
            && fs.kernel().started(owner.tid) == Some(owner.start)
        {
            return Err(Failure::from(Error::Busy(format!(
                "process {} is measuring with the region '{}': wait for it to end",
                owner.tid,
                lock::NAME
            ))));
        }
        if fs.group(&lock::NAME.parse()?).exists() {
            lock::remove(&fs, lock::NAME, &options)?;
        }
        let at = lock::default_cache(&fs, &machine.topology, None, cpu)?;
        lock::create(root, &fs, lock::NAME, at, bytes, false, &options)?;
        Ok(Self { fs })
    }

    fn end(self) -> Result<(), Failure> {
        let removed = lock::remove(&self.fs, lock::NAME, &Options::default());
        std::mem::forget(self);
        removed.map(|_| ()).map_err(Failure::from)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // On the way out of a failure, which is the one to be told.
        let _ = lock::remove(&self.fs, lock::NAME, &Options::default());
    }
}
