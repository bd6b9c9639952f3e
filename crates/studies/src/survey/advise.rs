//! The advice of a survey: a pure function of its figures. Every advice is supported by an
//! interval, and no table of the survey contradicts it.

use ringfence_analysis::estimate::Interval;
use ringfence_experiment::class::Class;
use ringfence_experiment::task::{FenceAt, Flush, Instruction, LineState};

use super::advice::{Advice, AfterClwb, Beside, Pacing};
use super::answer::Seen;
use super::{NeighbourRow, Neighbours, Survey};

/// What is advised, most useful first.
pub(super) fn advice(survey: &Survey) -> Vec<Advice> {
    let blocks = survey.answer.iter().flat_map(|answer| &answer.blocks);
    let mut all: Vec<Advice> = blocks.cloned().map(Advice::Cheapest).collect();
    all.extend(fences(survey));
    all.extend(keeps_lines(survey));
    for table in &survey.neighbours {
        all.extend(neighbours(table));
    }
    all.extend(moved(survey).then_some(Advice::Moved));
    all
}

// What fences cost the instruction that is weakly ordered, where they do.
fn fences(survey: &Survey) -> Option<Advice> {
    let cost = |instruction: Instruction, at: FenceAt| {
        let row = survey.cost.iter().find(|row| {
            row.write.block.0 == 4096
                && row.write.instruction == instruction
                && row.write.fence_at == at
                && row.write.line == LineState::AsIs
        })?;
        row.result.ns_per_unit.as_ref().ok().copied()
    };
    let weak =
        [Instruction::Flush(Flush::Clwb), Instruction::Flush(Flush::Clflushopt), Instruction::Nt];
    let instruction =
        weak.into_iter().find(|instruction| cost(*instruction, FenceAt::Block).is_some())?;
    let (per_block, per_line) =
        (cost(instruction, FenceAt::Block)?, cost(instruction, FenceAt::Line)?);
    let instruction = instruction.label();
    (per_line.low > per_block.high).then_some(Advice::FenceOnce {
        instruction,
        per_line,
        per_block,
    })
}

fn keeps_lines(survey: &Survey) -> Option<Advice> {
    let reloads = &survey.probes.reloads;
    let cached_ns = reloads.cached.as_ref()?.median_ns;
    let after = |name: &str| Some(reloads.after.iter().find(|(n, _)| n == name)?.1.median_ns);
    let (clwb_ns, evicting_ns) =
        (after("clwb")?, after("clflushopt").or_else(|| after("clflush"))?);
    let line = if clwb_ns < 2.0 * cached_ns {
        AfterClwb::Kept
    } else if clwb_ns > 0.75 * evicting_ns {
        AfterClwb::Evicted
    } else {
        AfterClwb::Farther
    };
    Some(Advice::Reload { line, clwb_ns, cached_ns, evicting_ns })
}

fn neighbours(table: &Neighbours) -> Vec<Advice> {
    let of = |paced: bool| table.rows.iter().filter(move |row| row.paced == paced && row.writes());
    if of(false).next().is_none() {
        return Vec::new();
    }
    let calm = of(false).filter(|row| row.seen == Seen::No);
    let mut all = vec![Advice::Beside {
        victim: table.victim.clone(),
        writers: of(false).map(Beside::from).collect(),
        at_most: calm.filter_map(|row| Some(row.together?.high)).max_by(f64::total_cmp),
    }];
    // At equal rates what is left is the mechanism.
    for full in of(false).filter(|row| row.seen == Seen::Slows) {
        let paced = of(true).find(|paced| paced.label == full.label);
        all.extend(paced.and_then(|paced| at_one_rate(&table.victim, full, paced)));
    }
    all
}

impl From<&NeighbourRow> for Beside {
    fn from(row: &NeighbourRow) -> Self {
        Self { writer: row.label.clone(), seen: row.seen, slowdown: row.slowdown() }
    }
}

// All intervals here hold together, so that a claim may be picked from among them.
fn at_one_rate(victim: &str, full: &NeighbourRow, paced: &NeighbourRow) -> Option<Advice> {
    let (was, is): (Interval, Interval) = (full.together?, paced.together?);
    let pacing = match paced.seen {
        Seen::Slows if is.high < was.low => Pacing::HelpsInPart,
        Seen::Slows => Pacing::LeavesIt,
        Seen::No if is.high < was.low => Pacing::Helps,
        _ => return None,
    };
    Some(Advice::Paced {
        victim: victim.into(),
        writer: full.label.clone(),
        pacing,
        slowdown: paced.slowdown(),
        at_most: is.high,
    })
}

fn moved(survey: &Survey) -> bool {
    let rows = || survey.neighbours.iter().flat_map(|table| &table.rows);
    let windows = |class: Option<Class>| -> usize {
        rows()
            .flat_map(|row| &row.result.classes)
            .filter(|(c, _)| class.is_none_or(|class| class == **c))
            .map(|(_, n)| n)
            .sum()
    };
    // A stray probe is not a move.
    let often = |class: Class| windows(Some(class)) * 20 > windows(None);
    often(Class::Mixed) || (often(Class::Sharing) && often(Class::Apart))
}
