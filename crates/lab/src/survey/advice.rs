//! What follows from a survey, in sentences: a pure function of its figures, which says nothing that an
//! interval does not bear out.

use ringfence_machine::units::Bytes;

use super::{CostRow, NeighbourRow, Neighbours, Survey, instruction_name};
use crate::estimate::{Class, Interval};
use crate::task::{FenceAt, Instruction, LineState};

/// The blocks whose cheapest flush is named.
pub const BLOCKS: [Bytes; 3] = [Bytes(64), Bytes::kib(4), Bytes::mib(1)];

/// The sentences, most useful first.
pub fn advice(survey: &Survey) -> Vec<String> {
    let mut all = Vec::new();
    for block in BLOCKS {
        all.extend(cheapest(survey, block));
    }
    all.extend(beyond_cost(survey));
    all
}

/// The same without the cheapest ways, for where [`cheapest_of`] is shown already.
pub fn beyond_cost(survey: &Survey) -> Vec<String> {
    let mut all = Vec::new();
    all.extend(fences(survey));
    all.extend(keeps_lines(survey));
    for table in &survey.neighbours {
        all.extend(neighbours(table));
    }
    all.extend(classes(survey));
    all
}

/// The cheapest way that is durable at the end of every block.
#[derive(Debug, Clone, PartialEq)]
pub struct Cheapest {
    /// The block.
    pub block: Bytes,
    /// The instruction, as tables name it.
    pub instruction: &'static str,
    /// ns per line.
    pub cost: Interval,
    /// Ways that could not be told apart from it.
    pub tied: Vec<&'static str>,
    /// The next one that could, and its cost.
    pub next: Option<(&'static str, Interval)>,
}

/// The cheapest way for a block; none where nothing was measured.
pub fn cheapest_of(survey: &Survey, block: Bytes) -> Option<Cheapest> {
    let ways = ways(survey, block);
    let (instruction, cost) = *ways.first()?;
    let (tied, beaten): (Vec<_>, Vec<_>) =
        ways[1..].iter().copied().partition(|(_, other)| other.low <= cost.high);
    Some(Cheapest {
        block,
        instruction,
        cost,
        tied: tied.into_iter().map(|(name, _)| name).collect(),
        next: beaten.first().copied(),
    })
}

/// What to flush with and what that does to others, in a sentence or two, for blocks of 4 KiB: the
/// cheapest way, or a gentler one where that one was seen to harm.
pub fn in_short(survey: &Survey) -> Option<String> {
    let block = Bytes::kib(4);
    let ways = ways(survey, block);
    let (best, cost) = ways.first()?;
    let tied = cheapest_of(survey, block)?.tied;
    let cheapest =
        if tied.is_empty() { "the cheapest flush here" } else { "among the cheapest flushes here" };
    if survey.neighbours.is_empty() {
        return Some(format!(
            "{best} is {cheapest}, at {} a line; whom it disturbs was not measured.",
            ns(cost.value)
        ));
    }
    let Some((victim, slowdown)) = harm(survey, best) else {
        return Some(format!(
            "Flush with {best}: it is {cheapest}, at {} a line, and was not seen to slow a neighbour down ({}).",
            ns(cost.value),
            left_possible(survey, best)
        ));
    };
    let harmful = format!(
        "{best} is {cheapest}, at {} a line, but slows {victim} on the next core down: {}",
        ns(cost.value),
        range(&slowdown)
    );
    let gentle = ways.iter().find(|(name, _)| harm(survey, name).is_none());
    Some(match gentle {
        Some((name, cost)) => format!(
            "Flush with {name} where others share the machine: it was not seen to slow a neighbour down ({}), at {} a line. {harmful}.",
            left_possible(survey, name),
            ns(cost.value)
        ),
        None => {
            let others = ways.iter().filter(|(name, _)| name != best);
            let harms = others.filter_map(|(name, cost)| Some((name, cost, harm(survey, name)?)));
            let least = harms
                .filter(|(_, _, (_, other))| other.high < slowdown.low)
                .min_by(|a, b| a.2.1.value.total_cmp(&b.2.1.value));
            match least {
                Some((name, cost, (victim, other))) => format!(
                    "{harmful}. {name}, at {} a line, harms least: {victim} {}.",
                    ns(cost.value),
                    range(&other)
                ),
                None => format!("{harmful}. No other flush was seen to harm less."),
            }
        }
    })
}

// What the figures of a writer at full rate cannot rule out.
fn left_possible(survey: &Survey, writer: &str) -> String {
    match at_full_rate(survey, writer).map(|(_, slowdown)| slowdown.high).max_by(f64::total_cmp) {
        Some(worst) if worst < 2.0 => format!("{} at most is left possible", times(worst)),
        _ => "but these figures are too noisy to say that it does not".into(),
    }
}

// A writer's slowdowns by victim; all of these intervals hold together.
fn at_full_rate<'a>(survey: &'a Survey, writer: &'a str) -> impl Iterator<Item = (&'a str, Interval)> {
    survey.neighbours.iter().flat_map(move |table| {
        let rows = table.rows.iter().filter(move |row| !row.paced && row.co_runner == writer);
        rows.filter_map(|row| Some((table.victim.as_str(), row.together?)))
    })
}

// The victim that a writer at full rate was seen to harm most.
fn harm<'a>(survey: &'a Survey, writer: &'a str) -> Option<(&'a str, Interval)> {
    at_full_rate(survey, writer).filter(|(_, s)| s.low > 1.0).max_by(|a, b| a.1.low.total_cmp(&b.1.low))
}

fn durable(row: &CostRow, block: Bytes) -> bool {
    row.write.block == block
        && row.write.fence_at == FenceAt::Block
        && row.write.line == LineState::AsIs
        && row.write.instruction != Instruction::None
}

fn ns(value: f64) -> String {
    if value < 10.0 { format!("{value:.1} ns") } else { format!("{value:.0} ns") }
}

// Ways that are durable at the end of every block, the cheapest first.
fn ways(survey: &Survey, block: Bytes) -> Vec<(&'static str, Interval)> {
    let rows = survey.cost.iter().filter(|row| durable(row, block));
    let cost = |row: &CostRow| {
        Some((instruction_name(row.write.instruction), *row.result.ns_per_unit.as_ref().ok()?))
    };
    let mut ways: Vec<(&'static str, Interval)> = rows.filter_map(cost).collect();
    ways.sort_by(|a, b| a.1.value.total_cmp(&b.1.value));
    ways
}

fn cheapest(survey: &Survey, block: Bytes) -> Option<String> {
    let Cheapest { instruction, cost, tied, next, .. } = cheapest_of(survey, block)?;
    let mut text = format!(
        "For blocks of {block} made durable one by one, {instruction} costs {} a line",
        ns(cost.value)
    );
    if let Some((next, other)) = next {
        let times = other.value / cost.value;
        let factor = if times < 1.95 {
            format!("{:.0} % less than {next}", (1.0 - 1.0 / times) * 100.0)
        } else {
            format!("{times:.1} times less than {next}")
        };
        text += &format!(", {factor} ({})", ns(other.value));
    }
    if !tied.is_empty() {
        text += &format!("; {} could not be told apart from it", tied.join(" and "));
    }
    Some(text + ".")
}

// What fences cost the instruction that is weakly ordered, where they do.
fn fences(survey: &Survey) -> Option<String> {
    let cost = |instruction: Instruction, at: FenceAt| {
        let row = survey.cost.iter().find(|row| {
            row.write.block.0 == 4096
                && row.write.instruction == instruction
                && row.write.fence_at == at
                && row.write.line == LineState::AsIs
        })?;
        row.result.ns_per_unit.as_ref().ok().copied()
    };
    let weak = [Instruction::Clwb, Instruction::Clflushopt, Instruction::Nt];
    let instruction = weak.into_iter().find(|instruction| cost(*instruction, FenceAt::Block).is_some())?;
    let (block, line) = (cost(instruction, FenceAt::Block)?, cost(instruction, FenceAt::Line)?);
    (line.low > block.high).then(|| {
        format!(
            "A fence after every line makes a 4KiB {} write {:.1} times as expensive as one fence at its end ({} against {} a line): flush first, fence once.",
            instruction_name(instruction),
            line.value / block.value,
            ns(line.value),
            ns(block.value),
        )
    })
}

fn keeps_lines(survey: &Survey) -> Option<String> {
    let reloads = &survey.probes.reloads;
    let cached = reloads.cached.as_ref()?.median_ns;
    let after = |name: &str| Some(reloads.after.iter().find(|(n, _)| n == name)?.1.median_ns);
    let (clwb, evicting) = (after("clwb")?, after("clflushopt").or_else(|| after("clflush"))?);
    let figures = format!(
        "{} to load a line again, {} when cached, {} after an evicting flush",
        ns(clwb),
        ns(cached),
        ns(evicting)
    );
    Some(if clwb < 2.0 * cached {
        format!(
            "clwb keeps the line in the cache here ({figures}): use it for lines that are soon used again."
        )
    } else if clwb > 0.75 * evicting {
        format!("clwb evicts the line here, as clflushopt does ({figures}): it saves no reload.")
    } else {
        format!(
            "clwb leaves the line in a farther cache here ({figures}): using it again costs less than after clflushopt, but is not free."
        )
    })
}

fn times(slowdown: f64) -> String {
    if slowdown >= 2.0 { format!("{slowdown:.1}x") } else { format!("{:+.1} %", (slowdown - 1.0) * 100.0) }
}

// All intervals here hold together, so that a claim may be picked from among them.
fn neighbours(table: &Neighbours) -> Vec<String> {
    let victim = &table.victim;
    let writers = |paced: bool| -> Vec<(&str, Interval)> {
        let is_writer = |row: &&NeighbourRow| !matches!(row.co_runner.as_str(), "alu" | "idle");
        let rows = table.rows.iter().filter(|row| row.paced == paced).filter(is_writer);
        rows.filter_map(|row| Some((row.co_runner.as_str(), row.together?))).collect()
    };
    let full = writers(false);
    let Some((name, slowdown)) =
        full.iter().filter(|(_, s)| s.low > 1.0).max_by(|a, b| a.1.low.total_cmp(&b.1.low))
    else {
        return no_harm(victim, &full).into_iter().collect();
    };
    let mut text = format!("A {name} writer on the next core slows {victim} down most: {}", range(slowdown));
    let gentler: Vec<String> = full
        .iter()
        // Plain stores are not durable: to be gentle by them is no advice.
        .filter(|(other, s)| other != name && *other != "plain store" && s.high < slowdown.low)
        .map(|(other, s)| format!("{other} {}", range(s)))
        .collect();
    if !gentler.is_empty() {
        text += &format!("; gentler: {}", gentler.join(", "));
    }
    let mut all = vec![text + "."];
    // At equal rates what is left is the mechanism.
    if let Some((_, paced)) = writers(true).iter().find(|(other, _)| other == name) {
        if paced.low > 1.0 {
            let what = if paced.high < slowdown.low {
                "part of it is its speed, not all"
            } else {
                "it is not its speed"
            };
            let rate = range(paced);
            all.push(format!(
                "Paced to the slowest writer's rate, {name} still slows {victim}, {rate}: {what}."
            ));
        } else if paced.high < slowdown.low {
            let rate = range(paced);
            all.push(format!("Paced to the slowest writer's rate, {name} is not seen to slow {victim}, {rate}: pacing helps."));
        }
    }
    all
}

fn no_harm(victim: &str, writers: &[(&str, Interval)]) -> Option<String> {
    let worst = writers.iter().map(|(_, slowdown)| slowdown.high).max_by(f64::total_cmp)?;
    let left = if worst < 2.0 {
        format!("what these figures leave possible is {} at most", times(worst))
    } else {
        "but these figures are too noisy to say that there is no harm".into()
    };
    Some(format!("No writer was seen to slow {victim} on the next core; {left}."))
}

fn range(slowdown: &Interval) -> String {
    let bounds = if slowdown.value >= 2.0 {
        format!("[{:.1}, {:.1}]", slowdown.low, slowdown.high)
    } else {
        format!("[{:+.1}, {:+.1}]", (slowdown.low - 1.0) * 100.0, (slowdown.high - 1.0) * 100.0)
    };
    format!("{} {bounds}", times(slowdown.value))
}

fn classes(survey: &Survey) -> Option<String> {
    let rows = || survey.neighbours.iter().flat_map(|table| &table.rows);
    let windows = |class: Option<Class>| -> usize {
        rows()
            .flat_map(|row| &row.result.classes)
            .filter(|(c, _)| class.is_none_or(|class| class == **c))
            .map(|(_, n)| n)
            .sum()
    };
    // A stray probe is no move.
    let often = |class: Class| windows(Some(class)) * 20 > windows(None);
    let moved = often(Class::Mixed) || (often(Class::Sharing) && often(Class::Apart));
    moved.then(|| {
        "The CPUs did not keep their distance: by ping-pong they shared a cache part of the time and lay apart at others. Look at the figures of each class; the machine underneath moves what it shows as cores.".into()
    })
}
