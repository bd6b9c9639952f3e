//! What a survey found, as values: a pure function of the machine, its probes and the samples.

use ringfence_analysis::estimate::{Estimate, Interval};
use ringfence_analysis::results::{self, CaseResult};
use ringfence_experiment::plan::Plan;
use ringfence_experiment::sample::Sample;
use ringfence_experiment::task::{Instruction, Task, Write};
use ringfence_experiment::units::Rate;
use ringfence_machine::Machine;
use ringfence_machine::units::Bytes;
use serde::Serialize;

use super::Probes;
use super::advice::Advice;
use super::answer::{Answer, Seen};
use super::experiments::{BESIDE, VICTIMS};
use super::parts::{self, Parts};
use super::victim::Outside;
use crate::findings::Findings;

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
    /// What writers disturb.
    pub neighbours: Vec<Neighbours>,
    /// What durable commits to files cost, and beside which writers; the datasets hold it.
    #[serde(skip)]
    pub files: Vec<Findings>,
    /// The rate to which writers were paced.
    pub pace: Option<String>,
    /// Starts of the chase at which it did not wait for the cache that it is meant for.
    pub outside: Vec<Outside>,
    /// What was not run, and why.
    pub not_run: Vec<String>,
    /// Median and worst half-width of the slowdowns' intervals, as shares: the precision achieved.
    pub precision: Option<(f64, f64)>,
    /// Which flush to use, and what it does to others; none where no cost is known.
    pub answer: Option<Answer>,
    /// What follows, most useful first.
    pub advice: Vec<Advice>,
    /// Why it ended, where not after everything was measured.
    pub ended_early: Option<String>,
}

/// One cell of the cost table.
#[derive(Debug, Clone, Serialize)]
pub struct CostRow {
    /// How it was written.
    pub write: Write,
    /// ns per line, and trials.
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
    /// What a writer writes before it continues with the next block.
    pub block: Option<Bytes>,
    /// The co-runner, and its block where that is not [`BESIDE`]: one row of a table.
    pub label: String,
    /// Whether it was paced.
    pub paced: bool,
    /// What came of it, at 95 %.
    pub result: CaseResult,
    /// The slowdown at a level at which all of the survey's slowdowns hold together: what advice
    /// may rest on.
    pub together: Option<Interval>,
    /// The conclusion about it, the same wherever it is printed.
    pub seen: Seen,
}

const LEVEL: f64 = 0.95;

impl Survey {
    /// A survey with nothing measured yet.
    pub fn new(machine: Machine, probes: Probes, size: Bytes) -> Self {
        Self {
            schema: Self::SCHEMA,
            machine,
            probes,
            target: format!("dram, {size}"),
            cost: Vec::new(),
            parts: Vec::new(),
            neighbours: Vec::new(),
            files: Vec::new(),
            pace: None,
            outside: Vec::new(),
            not_run: Vec::new(),
            precision: None,
            answer: None,
            advice: Vec::new(),
            ended_early: None,
        }
    }

    /// Whether the machine is a described one, so that no figure here is a measurement.
    pub fn is_simulated(&self) -> bool {
        self.machine.simulated.is_some()
    }

    /// Takes the samples of [`super::experiments::cost`].
    pub fn add_cost(&mut self, plan: &Plan, samples: &[Sample]) {
        self.parts = parts::parts(plan, samples, &self.probes.reloads, LEVEL);
        self.cost = cost_rows(plan, results::results(plan, samples, LEVEL));
    }

    /// Takes the samples of [`super::experiments::neighbours`].
    pub fn add_neighbours(&mut self, victim: &str, paced: bool, plan: &Plan, samples: &[Sample]) {
        let Some(case) = plan.measured().first().copied() else { return };
        let table = self.neighbours.iter().find(|table| table.victim == victim);
        let here = plan.cases.iter().filter(|case| case.baseline.is_some()).count();
        // Of all victims, whether measured yet or not: beside each co-runner, and beside each paced
        // writer.
        let at_full_rate = if paced { table.map_or(0, |table| table.rows.len()) } else { here };
        let slowdowns = VICTIMS.len() * (at_full_rate + Instruction::in_memory().count());
        let rows = neighbour_rows(plan, samples, paced, slowdowns);
        match self.neighbours.iter_mut().find(|table| table.victim == victim) {
            Some(table) => table.rows.extend(rows),
            None => self.neighbours.push(Neighbours {
                victim: victim.into(),
                task: plan.metric_task(case).clone(),
                rows,
            }),
        }
    }

    /// A rate that every writer of [`BESIDE`] blocks reached beside every victim at its full rate.
    /// Paced writers do not count: they would set a lower pace each time.
    pub fn slowest_writer(&self) -> Option<Rate> {
        let rows = self.neighbours.iter().flat_map(|table| &table.rows);
        let rows = rows.filter(|row| !row.paced && row.block == Some(BESIDE));
        let rates =
            rows.flat_map(|row| &row.result.co_runners).filter_map(|other| other.bytes_per_s);
        let lowest = rates.min_by(f64::total_cmp)?;
        // A round figure a little below: every writer must be able to keep the pace.
        let mib = (lowest * 0.95 / (1 << 20) as f64).floor().max(1.0);
        Some(Rate(Bytes::mib(mib as u64)))
    }
}

impl NeighbourRow {
    /// Whether the co-runner writes: the others are controls.
    pub fn writes(&self) -> bool {
        self.block.is_some()
    }

    /// The slowdown as the tables show it.
    pub fn slowdown(&self) -> Estimate {
        let effect = self.result.effect.as_ref();
        effect.map_or(Err(ringfence_analysis::estimate::NotEstimable::NothingMeasured), |effect| {
            effect.by_class.all.slowdown
        })
    }
}

fn cost_rows(plan: &Plan, results: Vec<CaseResult>) -> Vec<CostRow> {
    let rows = results.into_iter().filter_map(|result| match plan.metric_task(result.case) {
        Task::Write(write) => Some(CostRow { write: write.clone(), result }),
        _ => None,
    });
    rows.collect()
}

fn neighbour_rows(
    plan: &Plan,
    samples: &[Sample],
    paced: bool,
    slowdowns: usize,
) -> Vec<NeighbourRow> {
    let name = |case: usize| {
        let co_runner = plan.cases[case].active.iter().find(|active| active.role != plan.metric)?;
        Some(match &plan.variants[co_runner.role][co_runner.variant].task {
            Task::Write(write) => (write.instruction.label(), Some(write.block)),
            other => (other.name(), None),
        })
    };
    let each = results::results(plan, samples, LEVEL);
    // Bonferroni: among so many intervals at 95 % some would miss by chance.
    let together =
        results::main_estimates(plan, samples, 1.0 - (1.0 - LEVEL) / slowdowns.max(1) as f64);
    let rows = each.into_iter().zip(together).filter_map(|(result, together)| {
        let together = together.ok();
        let finding = result.effect.as_ref().map(|effect| &effect.finding);
        let seen = Seen::new(finding, together.as_ref());
        let (co_runner, block) = name(result.case)?;
        let label = match block {
            Some(block) if block != BESIDE => format!("{co_runner} {block}"),
            _ => co_runner.to_owned(),
        };
        Some(NeighbourRow {
            co_runner: co_runner.into(),
            block,
            label,
            paced,
            together,
            seen,
            result,
        })
    });
    rows.collect()
}
