//! The survey: what durable writes cost on this machine and whom they disturb, with nothing asked.
//!
//! Probes first, since what the kernel says of caches and cores may not be so; then the experiments
//! of [`experiments`], each a dataset of its own; then [`advice`] from the figures alone.

pub mod advice;
pub mod experiments;
pub mod parts;
mod probes;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringfence_machine::Machine;
use ringfence_machine::units::Bytes;
use serde::Serialize;

pub use experiments::Depth;
pub use probes::{Probes, Reloads};

use crate::engine::EngineError;
use crate::estimate::Interval;
use crate::experiment::Experiment;
use crate::measure::{Measurement, measure};
use crate::plan::Plan;
use crate::results::{self, CaseResult};
use crate::runner::{Ended, Progress};
use crate::task::{Instruction, Task, Write};
use crate::units::Rate;
use parts::Parts;

/// What is to be surveyed.
#[derive(Debug, Clone)]
pub struct Options {
    /// For how long.
    pub depth: Depth,
    /// Seed of everything random.
    pub seed: u64,
    /// Folder of the datasets.
    pub dir: PathBuf,
}

/// Told how the survey comes along.
pub trait Watch {
    /// A stage begins: its name, its number from 0 of so many, and how long it is expected to take and
    /// all after it.
    fn stage(&mut self, name: &str, number: usize, of: usize, expected: Duration, after: Duration);

    /// How far the stage has come.
    fn progress(&mut self, progress: Progress);
}

/// A survey's findings.
#[derive(Debug, Clone, Serialize)]
pub struct Survey {
    /// Version of this structure.
    pub schema: u32,
    /// The machine, as the kernel and the processor describe it.
    pub machine: Machine,
    /// The machine, as probed.
    pub probes: Probes,
    /// The target that was written to, and how large it was.
    pub target: String,
    /// What durable writes cost.
    pub cost: Vec<CostRow>,
    /// What the cost is made of.
    pub parts: Vec<Parts>,
    /// Whom writers disturb.
    pub neighbours: Vec<Neighbours>,
    /// The rate to which writers were paced.
    pub pace: Option<String>,
    /// What was not run, and why.
    pub not_run: Vec<String>,
    /// Median and worst half-width of the slowdowns' intervals, as shares: the precision achieved.
    pub precision: Option<(f64, f64)>,
    /// What follows, in sentences.
    pub advice: Vec<String>,
    /// Why it ended, where not after everything was measured.
    pub ended_early: Option<String>,
}

/// One cell of the cost table.
#[derive(Debug, Clone, Serialize)]
pub struct CostRow {
    /// How it was written.
    pub write: Write,
    /// ns per line, and lives.
    pub result: CaseResult,
}

/// A victim's table.
#[derive(Debug, Clone, Serialize)]
pub struct Neighbours {
    /// The victim, by name.
    pub victim: String,
    /// Its task in full.
    pub task: Task,
    /// Its rows.
    pub rows: Vec<NeighbourRow>,
}

/// One co-runner of a victim.
#[derive(Debug, Clone, Serialize)]
pub struct NeighbourRow {
    /// The co-runner, by name: an instruction, `alu` or `idle`.
    pub co_runner: String,
    /// Whether it was paced.
    pub paced: bool,
    /// What came of it, at 95 %.
    pub result: CaseResult,
    /// The slowdown at a level at which all of the survey's slowdowns hold together: what advice may
    /// rest on.
    pub together: Option<Interval>,
}

const LEVEL: f64 = 0.95;
// Slowdowns that a survey shows: three victims beside seven co-runners, and beside five paced ones.
const SLOWDOWNS: f64 = 3.0 * (7.0 + 5.0);

/// Surveys this machine.
///
/// # Errors
/// Where nothing can be measured. What fails or is interrupted later is part of the result.
pub fn run(
    options: &Options,
    machine: Machine,
    stop: &AtomicBool,
    watch: &mut dyn Watch,
) -> Result<Survey, EngineError> {
    let mut run =
        Run { options, machine: &machine, stop, watch, stage: 0, ended_early: None, not_run: Vec::new() };
    run.begin("probing cores and caches");
    let probes = probes::probe(&machine, options.depth);
    let size = target_size(&machine);
    let mut survey = Survey {
        schema: 1,
        probes,
        target: format!("dram, {size}"),
        cost: Vec::new(),
        parts: Vec::new(),
        neighbours: Vec::new(),
        pace: None,
        not_run: Vec::new(),
        precision: None,
        advice: Vec::new(),
        ended_early: None,
        machine: machine.clone(),
    };

    let experiment = experiments::cost(options.depth, size, options.seed);
    if let Some(done) = run.experiment("what a durable write costs", &experiment)? {
        survey.parts = parts::parts(&done.plan, &done.samples, &survey.probes.reloads, LEVEL);
        survey.cost = cost_rows(&done.plan, results::results(&done.plan, &done.samples, LEVEL));
    }

    let victims = experiments::victims(survey.probes.victim_footprint);
    let mut pace: Option<Rate> = None;
    for paced in [false, true] {
        for victim in &victims {
            if paced && pace.is_none() {
                run.not_run
                    .push(format!("{} beside paced writers, because no writer's rate is known", victim.name));
                continue;
            }
            let rate = if paced { pace } else { None };
            let experiment = experiments::neighbours(options.depth, victim, rate, size, options.seed);
            let what = if paced { "paced writers" } else { "writers" };
            let Some(done) = run.experiment(&format!("{} beside {what}", victim.name), &experiment)? else {
                continue;
            };
            let rows = neighbour_rows(&done, paced);
            if !paced {
                pace = slowest(&rows).into_iter().chain(pace).min();
            }
            let Some(case) = done.plan.measured().first().copied() else { continue };
            match survey.neighbours.iter_mut().find(|table| table.victim == victim.name) {
                Some(table) => table.rows.extend(rows),
                None => survey.neighbours.push(Neighbours {
                    victim: victim.name.clone(),
                    task: done.plan.metric_task(case).clone(),
                    rows,
                }),
            }
        }
    }
    survey.pace = pace.map(|pace| pace.to_string());
    survey.not_run = run.not_run;
    survey.ended_early = run.ended_early;
    survey.precision = precision(&survey.neighbours);
    survey.advice = advice::advice(&survey);
    write_json(&options.dir, &survey)?;
    Ok(survey)
}

/// The experiments that a survey would run, as far as they can be told beforehand: its victim sized
/// after probing, its writers at full rate.
pub fn planned(depth: Depth, seed: u64, machine: &Machine) -> Vec<Experiment> {
    let size = target_size(machine);
    let victims = experiments::victims(probes::probe(machine, depth).victim_footprint);
    let beside = victims.iter().map(|victim| experiments::neighbours(depth, victim, None, size, seed));
    std::iter::once(experiments::cost(depth, size, seed)).chain(beside).collect()
}

// Expected seconds of each stage, full and quick: probes, costs, three victims, the same paced.
const EXPECTED: [(u64, u64); 8] = [(6, 3), (24, 9), (17, 4), (17, 4), (15, 4), (13, 3), (13, 3), (11, 3)];

struct Run<'a> {
    options: &'a Options,
    machine: &'a Machine,
    stop: &'a AtomicBool,
    watch: &'a mut dyn Watch,
    stage: usize,
    ended_early: Option<String>,
    not_run: Vec<String>,
}

impl Run<'_> {
    fn begin(&mut self, name: &str) {
        let seconds = |stage: &(u64, u64)| match self.options.depth {
            Depth::Full => stage.0,
            Depth::Quick => stage.1,
        };
        let expected = Duration::from_secs(EXPECTED.get(self.stage).map_or(0, seconds));
        let after = Duration::from_secs(EXPECTED.iter().skip(self.stage + 1).map(seconds).sum());
        self.watch.stage(name, self.stage, EXPECTED.len(), expected, after);
        self.stage += 1;
    }

    // Measures one experiment, unless the survey has ended early.
    fn experiment(
        &mut self,
        name: &str,
        experiment: &Experiment,
    ) -> Result<Option<Measurement>, EngineError> {
        if self.ended_early.is_some() {
            return Ok(None);
        }
        self.begin(name);
        let dir = self.options.dir.join(&experiment.name);
        let measured = measure(experiment, self.machine, &dir, self.stop, &mut |p| self.watch.progress(p));
        let first = self.stage == 2;
        let done = match measured {
            Ok(done) => done,
            // What was measured before is worth keeping.
            Err(error) if !first => {
                self.ended_early = Some(format!("{name}: {error}"));
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        match &done.ended {
            Ended::Failed(why) => self.ended_early = Some(format!("{name}: {why}")),
            Ended::Interrupted => self.ended_early = Some("interrupted".into()),
            _ if self.stop.load(Ordering::Relaxed) => self.ended_early = Some("interrupted".into()),
            _ => {}
        }
        self.note_refusals(&experiment.name, &done.plan);
        Ok(Some(done))
    }

    fn note_refusals(&mut self, name: &str, plan: &Plan) {
        let mut reasons: Vec<&str> = plan.not_run.iter().map(|not_run| not_run.reason.as_str()).collect();
        reasons.dedup();
        for reason in reasons {
            let cases: Vec<&str> = plan
                .not_run
                .iter()
                .filter(|not_run| not_run.reason == reason)
                .map(|not_run| plan.cases[not_run.case].label.as_str())
                .collect();
            let cases = if cases.len() > 3 { format!("{} cases", cases.len()) } else { cases.join(", ") };
            let line =
                format!("{name}: {cases}, because it {reason}").replace("because it this", "because this");
            if !self.not_run.contains(&line) {
                self.not_run.push(line);
            }
        }
    }
}

// Several times the last-level cache, so that a writer meets lines that are not cached, within
// reason and a quarter of what is free.
fn target_size(machine: &Machine) -> Bytes {
    let cpu = machine.topology.usable().first().unwrap_or(0);
    let cache = machine.topology.llc_size(cpu).map_or(64 << 20, |size| size.0);
    let wanted = (cache * 4).next_power_of_two().clamp(256 << 20, 1 << 30);
    let free = machine.targets.iter().find(|target| target.name == "dram").and_then(|target| target.free);
    let free = free.map_or(1 << 30, |bytes| bytes.0);
    let fits = (free / 4).max(16 << 20);
    // The largest power of two that fits.
    Bytes(if wanted <= fits { wanted } else { (fits / 2 + 1).next_power_of_two() })
}

fn cost_rows(plan: &Plan, results: Vec<CaseResult>) -> Vec<CostRow> {
    let rows = results.into_iter().filter_map(|result| match plan.metric_task(result.case) {
        Task::Write(write) => Some(CostRow { write: write.clone(), result }),
        _ => None,
    });
    rows.collect()
}

fn neighbour_rows(done: &Measurement, paced: bool) -> Vec<NeighbourRow> {
    let plan = &done.plan;
    let name = |case: usize| {
        let co_runner = plan.cases[case].active.iter().find(|active| active.role != plan.metric)?;
        Some(match &plan.variants[co_runner.role][co_runner.variant].task {
            Task::Write(write) => instruction_name(write.instruction).to_owned(),
            other => other.name().to_owned(),
        })
    };
    let each = results::results(plan, &done.samples, LEVEL);
    // Bonferroni: among so many intervals at 95 % some would miss by chance.
    let together = results::main_estimates(plan, &done.samples, 1.0 - (1.0 - LEVEL) / SLOWDOWNS);
    let rows = each.into_iter().zip(together).filter_map(|(result, together)| {
        Some(NeighbourRow { co_runner: name(result.case)?, paced, together: together.ok(), result })
    });
    rows.collect()
}

/// An instruction as the tables name it.
pub fn instruction_name(instruction: Instruction) -> &'static str {
    match instruction {
        Instruction::Clflush => "clflush",
        Instruction::Clflushopt => "clflushopt",
        Instruction::Clwb => "clwb",
        Instruction::Nt => "nt",
        Instruction::None => "plain store",
        Instruction::Msync => "msync",
    }
}

// The lowest rate that any writer reached beside the victim.
fn slowest(rows: &[NeighbourRow]) -> Option<Rate> {
    let rates = rows.iter().flat_map(|row| &row.result.co_runners).filter_map(|other| other.bytes_per_s);
    let lowest = rates.min_by(f64::total_cmp)?;
    // A round figure a little below: a pace is to be met by everybody.
    let mib = (lowest * 0.95 / (1 << 20) as f64).floor().max(1.0);
    Some(Rate(Bytes::mib(mib as u64)))
}

fn precision(tables: &[Neighbours]) -> Option<(f64, f64)> {
    let effects = tables.iter().flat_map(|table| &table.rows).filter_map(|row| row.result.effect.as_ref());
    let mut widths: Vec<f64> = effects
        .filter_map(|effect| Some(effect.by_class.all.slowdown.as_ref().ok()?.log_half_width().exp_m1()))
        .collect();
    widths.sort_by(f64::total_cmp);
    Some((*widths.get(widths.len() / 2)?, *widths.last()?))
}

fn write_json(dir: &Path, survey: &Survey) -> Result<(), EngineError> {
    let path = dir.join("survey.json");
    let text =
        serde_json::to_string_pretty(survey).map_err(|error| EngineError::Failed(error.to_string()))?;
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|error| EngineError::Failed(format!("writing {}: {error}", path.display())))
}
