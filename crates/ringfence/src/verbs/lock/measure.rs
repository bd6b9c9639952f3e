//! `lock measure`: one experiment over everything that can keep a region in the cache here.

use ringfence_lab::lock::{self, Offer, Question};
use ringfence_lab::plan::Plan;
use ringfence_lab::task::text;
use ringfence_lab::units::Span;
use ringfence_machine::Machine;
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::root::FsRoot;
use ringfence_machine::units::Bytes;
use ringfence_resctrl::pseudo::{self, Cache, Support};
use ringfence_resctrl::{Error, Options, Resctrl, State};

use crate::args::LockMeasure;
use crate::failure::Failure;
use crate::output;
use crate::verbs::experiment;

pub fn run(asked: &LockMeasure) -> Result<(), Failure> {
    let machine = crate::verbs::examine()?;
    let mut question = question(asked)?;
    // Where the reader runs decides which cache is shared out.
    let draft = lock::experiment(&question, &Offer::default())?;
    let placed = Plan::new(&draft, &machine.topology)?.placed;
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
    let held = match support {
        Support::Can(_) if !saving => Some(Held::make(&root, &machine, cpu, question.size)?),
        _ => None,
    };
    let offer = offer(&root, &machine, cpu, question.size, &support, &mut notes);
    if !asked.measuring.output.json {
        let notes: Vec<String> = notes.iter().map(|note| format!("{note}\n")).collect();
        output::print(&(notes.concat() + "\n"))?;
    }
    let mut wanted = lock::experiment(&question, &offer)?;
    if asked.quick && asked.measuring.budget.is_none() {
        wanted.measure.budget = Some(Span::ms(180_000));
    }
    let done = experiment::run(wanted, &asked.measuring);
    // Whatever came of it, the region goes; its failure must not hide the other.
    match (held.map_or(Ok(()), Held::end), done) {
        (_, Err(failure)) | (Err(failure), Ok(())) => Err(failure),
        (Ok(()), Ok(())) => Ok(()),
    }
}

fn question(asked: &LockMeasure) -> Result<Question, Failure> {
    let noise = text::parse(&asked.noise).map_err(|error| Failure::Usage(format!("--noise: {error}")))?;
    let mut interval = Span::ms(if asked.quick { 100 } else { 2000 });
    experiment::set(&mut interval, "interval", asked.interval.as_deref())?;
    Ok(Question { size: super::size("size", &asked.size)?, interval, noise, cpu: asked.cpu })
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
        let fs = super::find(root)?;
        let options = Options::default();
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
