//! What follows from a survey, in sentences: a pure function of its figures, which says nothing that an
//! interval does not bear out, and nothing that a table beside it denies.

use ringfence_analysis::estimate::Interval;
use ringfence_experiment::class::Class;
use ringfence_experiment::task::{FenceAt, Flush, Instruction, LineState};

use super::answer::{Answer, ForBlock, Seen, at_most, capital, listed, ns, slower};
use super::{NeighbourRow, Neighbours, Survey};

/// The sentences, most useful first.
pub fn advice(survey: &Survey) -> Vec<String> {
    let blocks = survey.answer.iter().flat_map(|answer: &Answer| &answer.blocks);
    blocks.map(cheapest).chain(beyond_cost(survey)).collect()
}

/// The same without the cheapest ways, for where those are shown already.
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

fn cheapest(block: &ForBlock) -> String {
    let ways = block.cheapest();
    let costs: Vec<String> =
        ways.iter().map(|way| format!("{} at {}", way.instruction, ns(way.cost.value))).collect();
    let mut text = format!(
        "{} ({} blocks made durable one by one) cost least with {} a line",
        capital(block.what),
        block.block,
        listed(&costs, "or")
    );
    if ways.len() > 1 {
        text += ", which could not be told apart";
    }
    // Against each of the tied ones it is dearer; the factor is one of the first.
    if let (Some(next), [best]) = (block.next(), &ways[..]) {
        let times = next.cost.value / best.cost.value;
        let factor = if times < 1.95 {
            format!("{:.0} % less than {}", (1.0 - 1.0 / times) * 100.0, next.instruction)
        } else {
            format!("{times:.1} times less than {}", next.instruction)
        };
        text += &format!(", {factor} ({})", ns(next.cost.value));
    } else if let Some(next) = block.next() {
        text += &format!("; the next is {} ({})", next.instruction, ns(next.cost.value));
    }
    text + "."
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
    let weak = [Instruction::Flush(Flush::Clwb), Instruction::Flush(Flush::Clflushopt), Instruction::Nt];
    let instruction = weak.into_iter().find(|instruction| cost(*instruction, FenceAt::Block).is_some())?;
    let (block, line) = (cost(instruction, FenceAt::Block)?, cost(instruction, FenceAt::Line)?);
    (line.low > block.high).then(|| {
        format!(
            "A fence after every line makes a 4KiB {} write {:.1} times as expensive as one fence at its end ({} against {} a line): flush first, fence once.",
            instruction.label(),
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

// Every writer is named once, under what its own figure says.
fn neighbours(table: &Neighbours) -> Vec<String> {
    let victim = &table.victim;
    let of = |paced: bool| table.rows.iter().filter(move |row| row.paced == paced && row.writes());
    if of(false).next().is_none() {
        return Vec::new();
    }
    let mut all = vec![full_rate(victim, &of(false).collect::<Vec<_>>())];
    // At equal rates what is left is the mechanism.
    for full in of(false).filter(|row| row.seen == Seen::Slows) {
        let paced = of(true).find(|paced| paced.label == full.label);
        all.extend(paced.and_then(|paced| at_one_rate(victim, full, paced)));
    }
    all
}

fn full_rate(victim: &str, rows: &[&NeighbourRow]) -> String {
    let with = |seen: Seen| rows.iter().filter(move |row| row.seen == seen);
    let names = |seen: Seen| with(seen).map(|row| row.label.as_str()).collect::<Vec<_>>();
    let mut slowed: Vec<&&NeighbourRow> = with(Seen::Slows).collect();
    let low = |row: &NeighbourRow| row.slowdown().map_or(0.0, |slowdown| slowdown.low);
    slowed.sort_by(|a, b| low(b).total_cmp(&low(a)));
    let mut parts: Vec<String> =
        slowed.iter().map(|row| format!("{} {}", row.label, slower(&row.slowdown()))).collect();
    let perhaps: Vec<String> =
        with(Seen::Perhaps).map(|row| format!("{} {}", row.label, slower(&row.slowdown()))).collect();
    if !perhaps.is_empty() {
        parts.push(format!(
            "perhaps {}, by that interval alone, not once all are taken together",
            listed(&perhaps, "and")
        ));
    }
    let unknown = names(Seen::NotKnown);
    if !unknown.is_empty() {
        parts.push(format!("not known for {}", listed(&unknown, "and")));
    }
    let calm = names(Seen::No);
    let highs = with(Seen::No).filter_map(|row| Some(row.together?.high));
    let left = highs.max_by(f64::total_cmp).map_or_else(
        || "what is left possible is not known".into(),
        |most| format!("what these figures leave possible is {} at most", at_most(most)),
    );
    if calm.len() == rows.len() {
        return format!("No writer was seen to slow {victim} on the next core; {left}.");
    }
    if !calm.is_empty() {
        parts.push(format!("not seen for {} ({left})", listed(&calm, "and")));
    }
    format!("{} beside a writer on the next core: {}.", capital(victim), parts.join("; "))
}

// All intervals here hold together, so that a claim may be picked from among them.
fn at_one_rate(victim: &str, full: &NeighbourRow, paced: &NeighbourRow) -> Option<String> {
    let (was, is): (Interval, Interval) = (full.together?, paced.together?);
    let name = &full.label;
    match paced.seen {
        Seen::Slows => {
            let what = if is.high < was.low {
                "part of it is its speed, not all"
            } else {
                "it is not its speed alone"
            };
            let how = slower(&paced.slowdown());
            Some(format!("Paced to the slowest writer's rate, {name} still slows {victim}, {how}: {what}."))
        }
        Seen::No if is.high < was.low => Some(format!(
            "Paced to the slowest writer's rate, {name} is not seen to slow {victim} ({} at most is left possible): pacing helps.",
            at_most(is.high)
        )),
        _ => None,
    }
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
