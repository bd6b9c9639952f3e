//! `lock measure`: one experiment over everything that can keep a region in the cache here.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringfence_engine::runner::Progress;
use ringfence_experiment::Error;
use ringfence_experiment::Experiment;
use ringfence_experiment::units::Span;
use ringfence_machine::Machine;
use ringfence_machine::cpulist::CpuId;
use ringfence_machine::root::FsRoot;
use ringfence_report::{json, paragraph};
use ringfence_resctrl::pseudo::{self, Support};
use ringfence_studies::findings::Findings;
use ringfence_studies::lock::{self, Capabilities, Held, Locking, Question};
use ringfence_studies::measure::{self, Asked, Measurement, set_time};
use ringfence_studies::{Here, Watch};

use super::places;
use crate::args::{LockMeasure, Measuring};
use crate::failure::Failure;
use crate::output;
use crate::progress::Show;
use crate::shared::{announce, experiment, flags, host, results};

pub fn run(asked: &LockMeasure) -> Result<(), Failure> {
    let stop = host::stop_on_signals()?;
    let described = asked.on.machine.as_deref().map(host::description).transpose()?;
    let machine =
        described.as_ref().map_or_else(host::examine, |described| Ok(described.machine()))?;
    let mut question = question(asked)?;
    let cpu = cpu_of_reader(&question, &machine)?;
    question.cpu = Some(cpu);
    let root = FsRoot::host();
    let support = match &described {
        Some(described) => lock::support_of(described),
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
        Some(described) => {
            lock::capabilities_of(described, cpu, question.size, &support, &mut notes)
        }
        None => lock::capabilities(&root, &machine, cpu, question.size, &support, &mut notes),
    };
    let mut wanted = lock::experiment(&question, &capabilities)?;
    quicken(&mut wanted, asked);
    if saving {
        return experiment::run(wanted, &asked.on, &asked.measuring);
    }
    let wanted = ready(wanted, &machine, &asked.measuring)?;
    let dir = results::new_dir(asked.measuring.output.out.as_deref(), &wanted.name)?;
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
    said.begin(announced(&wanted, &machine, asked)?);
    let quick_and_ready = |mut wanted: Experiment, machine: &Machine| {
        quicken(&mut wanted, asked);
        Ok(ready(wanted, machine, &asked.measuring)?)
    };
    let mut locking = Locking::new((question, cpu), wanted, &root, held, &quick_and_ready);
    let done = ringfence_studies::carry_out(
        &mut locking,
        &mut Here::new(&machine, &dir, &stop, &mut said),
    );
    said.show.end();
    let ended_early = done?.ended_early;
    said.end()?;
    match ended_early {
        None => Ok(()),
        Some(why) if described.is_some() => Err(Failure::failed(format!(
            "{why}; what was simulated until then is in {}",
            said.last.display()
        ))),
        Some(why) => Err(experiment::cut_short(&why, &said.last)),
    }
}

// The line before it runs.
fn announced(
    wanted: &Experiment,
    machine: &Machine,
    asked: &LockMeasure,
) -> Result<Option<String>, Failure> {
    let mut plan = ringfence_studies::plan(wanted, machine)?;
    plan.fit_to_time();
    Ok(announce::plan(&plan, machine, &asked.measuring.output))
}

// Where the reader runs decides which cache is shared out.
fn cpu_of_reader(question: &Question, machine: &Machine) -> Result<CpuId, Failure> {
    let of_the_size = |error: &Error| {
        let rest = error.text().strip_prefix("workload read: size = ")?;
        Some(Failure::usage(format!("--size {rest}")))
    };
    let draft = lock::experiment(question, &Capabilities::default())
        .map_err(|error| of_the_size(&error).unwrap_or_else(|| error.into()))?;
    let placed = ringfence_studies::plan(&draft, machine)?.placed;
    let cpu = placed.cpus[0].first().copied();
    cpu.ok_or_else(|| Failure::usage("this machine has no CPU for the reader"))
}

// As the flags want it. Refused if nothing of it can be measured here, or in its time.
fn ready(
    mut wanted: Experiment,
    machine: &Machine,
    flags: &Measuring,
) -> Result<Experiment, Failure> {
    flags::apply(&mut wanted, flags)?;
    wanted.check()?;
    let asked = Asked { time: flags.time.is_some(), trials: flags.trials.is_some() };
    let mut plan = ringfence_studies::plan(&wanted, machine)?;
    set_time(&mut plan, machine, asked);
    wanted.measure = plan.experiment.measure.clone();
    ringfence_studies::refuse_nothing(&plan, machine)?;
    plan.fit_to_time();
    measure::check_time(&plan)?;
    Ok(wanted)
}

fn quicken(wanted: &mut Experiment, asked: &LockMeasure) {
    if asked.quick && asked.measuring.time.is_none() {
        wanted.measure.time = Some(Span::ms(120_000));
    }
}

// The output: for people as results arrive, as JSON at the end.
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
    // In short, notes follow the answer.
    fn begin(&mut self, announced: Option<String>) {
        self.show.announce(announced);
        if !self.notes.is_empty() && output::style().details {
            self.print(&(self.notes.join("\n") + "\n\n"));
        }
    }

    fn print(&mut self, text: &str) {
        if !self.json && self.failed.is_none() {
            self.failed = output::print(text).err();
        }
    }

    fn end(&mut self) -> Result<(), Failure> {
        let style = output::style();
        if !style.details && !self.notes.is_empty() {
            let mut text = String::new();
            self.notes.iter().for_each(|note| paragraph(&mut text, 0, note, &style));
            self.print(&text);
        }
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
        if output::style().details {
            self.print(&format!("{text}\n\n"));
        }
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
    let noise = flags::parse_task("noise", &asked.noise)?;
    let mut interval = Span::ms(if asked.quick { 100 } else { 2000 });
    flags::set(&mut interval, "interval", asked.interval.as_deref())?;
    Ok(Question { size: places::size("size", &asked.size)?, interval, noise, cpu: asked.cpu })
}
