//! `lock measure`: one experiment over everything that can keep a region in the cache here.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringfence_engine::available;
use ringfence_engine::runner::Progress;
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
use ringfence_simulator::Description;
use ringfence_studies::StudyError;
use ringfence_studies::findings::Findings;
use ringfence_studies::lock::{self, Capabilities, Question};
use ringfence_studies::measure::Measurement;
use ringfence_studies::{self, Here, Kept, Planned, Stage, Study, Watch};

use super::places;
use crate::args::{LockMeasure, Measuring};
use crate::failure::Failure;
use crate::output;
use crate::progress::Show;
use crate::shared::{experiment, flags, host};

pub fn run(asked: &LockMeasure) -> Result<(), Failure> {
    let stop = host::stop_on_signals()?;
    let described = asked.on.machine.as_deref().map(host::description).transpose()?;
    let machine =
        described.as_ref().map_or_else(host::examine, |described| Ok(described.machine()))?;
    let mut question = question(asked)?;
    // Where the reader runs decides which cache is shared out.
    let draft = lock::experiment(&question, &Capabilities::default())?;
    let placed = Plan::new(&draft, &machine.topology, machine.features.as_ref())?.placed;
    let cpu = placed.cpus[0].first().copied();
    let cpu = cpu.ok_or_else(|| Failure::Usage("this machine has no CPU for the reader".into()))?;
    question.cpu = Some(cpu);
    let root = FsRoot::host();
    let support = match &described {
        Some(described) => support_of(described),
        None => pseudo::support(&root),
    };
    let mut notes = Vec::new();
    if let Support::Cannot(why) = &support {
        notes.push(why.clone());
    }
    let saving = asked.measuring.save.is_some();
    let held = match support {
        Support::Can(_) if !saving && described.is_none() => {
            Some(Held::make(&root, &machine, cpu, question.size)?)
        }
        _ => None,
    };
    let capabilities = match &described {
        Some(described) => capabilities_of(described, cpu, question.size, &support, &mut notes),
        None => capabilities(&root, &machine, cpu, question.size, &support, &mut notes),
    };
    let mut wanted = lock::experiment(&question, &capabilities)?;
    quicken(&mut wanted, asked);
    if saving {
        return experiment::run(wanted, &asked.on, &asked.measuring);
    }
    let wanted = ready(wanted, &machine, &asked.measuring)?;
    let named = asked.measuring.output.out.clone();
    let dir = named.unwrap_or_else(|| ringfence_dataset::default_dir(&wanted.name));
    crate::shared::folder::check_new(&dir)?;
    let _awake = host::keep_awake(asked.measuring.no_deep_idle)?;
    let mut said = Said {
        notes,
        experiments: Vec::new(),
        json: asked.measuring.output.json,
        show: Show::new(asked.measuring.output.quiet),
        machine: &machine,
        begun: Instant::now(),
        last: dir.clone(),
        failed: None,
    };
    said.begin();
    let to_flush = if held.is_some() { Flush::ALL.iter() } else { [].iter() };
    let mut locking = Locking { asked, root: &root, cpu, question, first: wanted, to_flush, held };
    let done = ringfence_studies::carry_out(
        &mut locking,
        &mut Here::new(&machine, &dir, &stop, &mut said),
    );
    said.show.end();
    let ended_early = done?.ended_early;
    said.end()?;
    match ended_early {
        None => Ok(()),
        Some(why) if described.is_some() => Err(Failure::Failed(format!(
            "{why}; what was simulated until then is in {}",
            said.last.display()
        ))),
        Some(why) => Err(experiment::cut_short(&why, &said.last)),
    }
}

// An experiment over everything that can keep the region, then one after each flush of a region of
// its own.
struct Locking<'a> {
    asked: &'a LockMeasure,
    root: &'a FsRoot,
    cpu: CpuId,
    question: Question,
    first: Experiment,
    to_flush: std::slice::Iter<'static, Flush>,
    held: Option<Held>,
}

impl Study for Locking<'_> {
    type Findings = ();

    fn stages(&self) -> Vec<Duration> {
        vec![Duration::ZERO; 1 + self.to_flush.len()]
    }

    fn kept(&self) -> Option<Kept> {
        None
    }

    fn next(&mut self, stages: &[Stage], here: &mut Here) -> Result<Option<Planned>, StudyError> {
        let planned = |dir: &Path, experiment: Experiment| {
            Ok(Some(Planned { name: experiment.name.clone(), dir: dir.into(), experiment }))
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
                return Err(StudyError::Interrupted);
            }
            return planned(&beside(here.dir, flush), self.after(flush, here.machine)?);
        }
        Ok(None)
    }

    fn conclude(&mut self, _: &[Stage], _: Option<&str>) -> Result<(), StudyError> {
        Ok(self.held.take().map_or(Ok(()), Held::end)?)
    }
}

impl Locking<'_> {
    // A fresh region, flushed once.
    fn after(&mut self, flush: Flush, machine: &Machine) -> Result<Experiment, Failure> {
        self.held.take().map_or(Ok(()), Held::end)?;
        let fresh = Held::make(self.root, machine, self.cpu, self.question.size)?;
        lock::flush_once(&fresh.fs, lock::NAME, flush)?;
        self.held = Some(fresh);
        let mut wanted = lock::after(&self.question, flush)?;
        quicken(&mut wanted, self.asked);
        ready(wanted, machine, &self.asked.measuring)
    }
}

fn beside(dir: &Path, flush: Flush) -> PathBuf {
    let mut beside = dir.as_os_str().to_owned();
    beside.push(format!("-after-{flush}"));
    beside.into()
}

// As the flags want it, and refused if this machine can hold nothing of it.
fn ready(
    mut wanted: Experiment,
    machine: &Machine,
    flags: &Measuring,
) -> Result<Experiment, Failure> {
    flags::apply(&mut wanted, flags)?;
    wanted.check()?;
    if let (None, Some(time)) = (&flags.time, wanted.measure.time) {
        ringfence_studies::measure::set_default_time(&mut wanted, machine, time);
    }
    experiment::refuse_nothing(
        &Plan::new(&wanted, &machine.topology, machine.features.as_ref())?,
        machine,
    )?;
    Ok(wanted)
}

fn quicken(wanted: &mut Experiment, asked: &LockMeasure) {
    if asked.quick && asked.measuring.time.is_none() {
        wanted.measure.time = Some(Span::ms(120_000));
    }
}

// What is told: as it comes to people, at the end to machines.
struct Said<'a> {
    notes: Vec<String>,
    experiments: Vec<(PathBuf, Findings)>,
    json: bool,
    show: Show,
    machine: &'a Machine,
    begun: Instant,
    // Where the experiment lies that was measured last.
    last: PathBuf,
    // Why something could not be told.
    failed: Option<Failure>,
}

impl Said<'_> {
    fn begin(&mut self) {
        if !self.notes.is_empty() {
            self.print(&(self.notes.join("\n") + "\n\n"));
        }
    }

    fn print(&mut self, text: &str) {
        if !self.json && self.failed.is_none() {
            self.failed = output::print(text).err();
        }
    }

    fn end(&mut self) -> Result<(), Failure> {
        match self.failed.take() {
            Some(failure) => Err(failure),
            None if self.json => {
                output::print_json(&json::lock_measured(&self.notes, &self.experiments))
            }
            None => Ok(()),
        }
    }
}

impl Watch for Said<'_> {
    fn stage(&mut self, name: &str, number: usize, of: usize, expected: Duration, after: Duration) {
        self.begun = Instant::now();
        self.show.stage(name, number, of, expected, after);
    }

    fn note(&mut self, text: &str) {
        self.print(&format!("{text}\n\n"));
        self.notes.push(text.into());
    }

    fn progress(&mut self, progress: Progress) {
        self.show.update(progress);
    }

    fn measured(&mut self, done: &Measurement, dir: &Path) {
        self.show.end();
        self.last = dir.into();
        let found = Findings::from(done);
        self.print(&experiment::as_text(&found, done.steps_before, dir, self.machine, self.begun));
        self.experiments.push((dir.into(), found));
    }
}

fn question(asked: &LockMeasure) -> Result<Question, Failure> {
    let noise = available::parse_task(&asked.noise)
        .map_err(|error| Failure::Usage(format!("--noise: {error}")))?;
    let mut interval = Span::ms(if asked.quick { 100 } else { 2000 });
    flags::set(&mut interval, "interval", asked.interval.as_deref())?;
    Ok(Question { size: places::size("size", &asked.size)?, interval, noise, cpu: asked.cpu })
}

// What can be had for the reader on this CPU; what cannot is said.
fn capabilities(
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
            apart: lock::nominal(&machine.topology, cpu, bytes),
            can_lock,
            locks_anew: false,
        };
    };
    let apart = || -> Result<lock::Apart, String> {
        let say = |error: Error| error.to_string();
        let at = lock::default_cache(&fs, &machine.topology, None, cpu).map_err(say)?;
        let way = Cache::read(root, &fs, at.0, at.1).map_err(say)?.way;
        let (info, state) = (fs.info().map_err(say)?, State::read(&fs).map_err(say)?);
        lock::shared_out(&info, &state, at, way, bytes)
    };
    let apart = or_said(apart(), notes);
    Capabilities { apart, can_lock, locks_anew: false }
}

// Ways of its own, or why there are none, as a note.
fn or_said(apart: Result<lock::Apart, String>, notes: &mut Vec<String>) -> Option<lock::Apart> {
    apart.map_err(|why| notes.push(format!("own ways: not run, because {why}"))).ok()
}

fn support_of(described: &Description) -> Support {
    match described.processor.pseudo_lock {
        Some(_) => Support::Can("described"),
        None => Support::Cannot(format!(
            "Linux does not lock regions into the caches of {}: cache ways of their own are the \
             alternative",
            described.title
        )),
    }
}

fn capabilities_of(
    described: &Description,
    cpu: CpuId,
    bytes: Bytes,
    support: &Support,
    notes: &mut Vec<String>,
) -> Capabilities {
    let can_lock = matches!(support, Support::Can(_));
    let apart = or_said(lock::described(described, cpu, bytes), notes);
    Capabilities { apart, can_lock, locks_anew: true }
}

// A region for as long as is measured. Should the program be killed, 'ringfence lock remove'
// removes it, or the next measurement.
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
