//! From a survey's tables to its conclusions.

use ringfence_analysis::estimate::Interval;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::start::Start;
use ringfence_experiment::task::{FenceAt, Instruction, LineState};
use ringfence_machine::units::Bytes;

use super::answer::{Answer, ForBlock, Harm, Method, OfVictim, WRITTEN};
use super::experiments::BESIDE;
use super::victim::Outside;
use super::{CostRow, Neighbours, Probes, Survey, advise};

impl Survey {
    /// Takes what the chase measured of itself at its starts.
    pub fn add_starts(&mut self, plan: &Plan, starts: &[Start]) {
        self.outside.extend(outside(&self.probes, &plan.experiment.name, starts));
    }

    /// Draws the conclusions from what was added.
    pub fn conclude(&mut self) {
        self.precision = precision(&self.neighbours);
        self.answer = Answer::new(self);
        self.advice = advise::advice(self);
    }
}

impl Answer {
    /// Of a survey; none where no cost is known.
    pub fn new(survey: &Survey) -> Option<Self> {
        let blocks: Vec<ForBlock> = WRITTEN
            .into_iter()
            .filter_map(|(block, what)| for_block(survey, block, what))
            .collect();
        if blocks.is_empty() {
            return None;
        }
        Some(Self { blocks, harms: harms(survey) })
    }
}

/// What is cheapest in the blocks that not every instruction writes beside victims, and so is to be
/// measured there too.
pub fn cheapest_elsewhere(survey: &Survey) -> Vec<(Bytes, Vec<Instruction>)> {
    let elsewhere = WRITTEN.into_iter().filter(|(block, _)| *block != BESIDE);
    let found = elsewhere.filter_map(|(block, what)| for_block(survey, block, what));
    found
        .map(|of| {
            let of_name = |name: &str| Instruction::in_memory().find(|known| known.label() == name);
            let cheapest = of.cheapest();
            (of.block, cheapest.iter().filter_map(|method| of_name(method.instruction)).collect())
        })
        .collect()
}

fn durable(row: &CostRow, block: Bytes) -> bool {
    row.write.block == block
        && row.write.fence_at == FenceAt::Block
        && row.write.line == LineState::AsIs
        && row.write.is_flushed()
}

fn for_block(survey: &Survey, block: Bytes, what: &'static str) -> Option<ForBlock> {
    let rows = survey.cost.iter().filter(|row| durable(row, block));
    let mut costs: Vec<(&'static str, Interval)> = rows
        .filter_map(|row| {
            Some((row.write.instruction.label(), *row.result.ns_per_unit.as_ref().ok()?))
        })
        .collect();
    costs.sort_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let lowest = costs.iter().map(|(_, cost)| cost.high).min_by(f64::total_cmp)?;
    let methods = costs.into_iter();
    let methods = methods.map(|(instruction, cost)| Method {
        instruction,
        cost,
        cheapest: cost.low <= lowest,
    });
    Some(ForBlock { block, what, methods: methods.collect() })
}

fn harms(survey: &Survey) -> Vec<Harm> {
    let mut harms: Vec<Harm> = Vec::new();
    for table in &survey.neighbours {
        for row in table.rows.iter().filter(|row| !row.paced) {
            let Some(block) = row.block else { continue };
            let victim = OfVictim {
                victim: table.victim.clone(),
                seen: row.seen,
                slowdown: row.slowdown(),
                at_most: row.together.map(|together| together.high),
            };
            match harms
                .iter_mut()
                .find(|harm| (&harm.instruction, harm.block) == (&row.co_runner, block))
            {
                Some(harm) => harm.victims.push(victim),
                None => {
                    let instruction = row.co_runner.clone();
                    harms.push(Harm { instruction, block, victims: vec![victim] });
                }
            }
        }
    }
    harms
}

fn precision(tables: &[Neighbours]) -> Option<(f64, f64)> {
    let effects =
        tables.iter().flat_map(|table| &table.rows).filter_map(|row| row.result.effect.as_ref());
    let mut widths: Vec<f64> = effects
        .filter_map(|effect| {
            Some(effect.by_class.all.slowdown.as_ref().ok()?.log_half_width().exp_m1())
        })
        .collect();
    widths.sort_by(f64::total_cmp);
    Some((*widths.get(widths.len() / 2)?, *widths.last()?))
}

/// Starts of the chase at which it did not wait for what it is meant to.
pub(super) fn outside(probes: &Probes, experiment: &str, starts: &[Start]) -> Option<Outside> {
    let level = probes.victim_level.clone()?;
    let is_outside = |start: &&Start| !(level.from_ns..=level.to_ns).contains(&start.ns);
    let outside: Vec<Start> = starts.iter().filter(is_outside).cloned().collect();
    (!outside.is_empty()).then(|| Outside {
        experiment: experiment.into(),
        footprint: probes.victim_footprint,
        level,
        starts: starts.len(),
        outside,
    })
}
