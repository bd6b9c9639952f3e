//! What writing costs: the heat map of instruction and block where these varied, else a row per
//! case.

use maud::{Markup, html};
use ringfence_analysis::estimate::Estimate;
use ringfence_analysis::results::CaseResult;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::{FenceAt, Instruction, LineState, Task, Write};
use ringfence_machine::units::Bytes;
use ringfence_studies::survey::parts::Part;
use ringfence_studies::survey::{CostRow, Survey};

use crate::experiment::cases::one;
use crate::experiment::page::frontier::color;
use crate::html::Section;
use crate::html::answer::name;
use crate::html::figure::{Chart, Figure, Heat, HeatCell, NT, RangeRow, Ranges, Scale, Tip};
use crate::html::table::{Align, table};
use crate::numbers;
use crate::text::capital;

const PLACES: [(FenceAt, &str); 4] = [
    (FenceAt::Block, "a fence after each block"),
    (FenceAt::Line, "a fence after each line"),
    (FenceAt::Around, "fences around each line"),
    (FenceAt::None, "no fence: not flushed when the writer moves on"),
];

/// One method to write and its cost in ns per line.
struct Cost<'a> {
    write: &'a Write,
    ns: &'a Estimate,
}

/// The survey's costs, with what they are made of.
pub(crate) fn of_survey(survey: &Survey) -> Option<Section> {
    let of_row = |row: &'_ CostRow| row.write.line == LineState::AsIs;
    let rows: Vec<Cost> = survey
        .cost
        .iter()
        .filter(|row| of_row(row))
        .map(|row| Cost { write: &row.write, ns: &row.result.ns_per_unit })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let body = html! {
        p { "Nanoseconds per line of 64 B, one after the other \
             through " (survey.target) ". The stronger the colour, the higher the cost; hover \
                                        for intervals." }
        (maps(&rows))
        @if !survey.parts.is_empty() { (parts(survey)) }
    };
    Some(Section { id: "costs", title: "What a write costs".into(), body })
}

/// An experiment's costs: cases without a baseline.
pub(crate) fn section(plan: &Plan, results: &[CaseResult]) -> Option<Section> {
    let mut costs: Vec<&CaseResult> =
        results.iter().filter(|result| result.effect.is_none()).collect();
    if costs.is_empty() {
        return None;
    }
    // Methods to commit have no order of their own; one without a figure comes last.
    if costs.iter().all(|result| matches!(plan.metric_task(result.case), Task::Commit(_))) {
        let value = |result: &CaseResult| result.ns_per_unit.map_or(f64::MAX, |ns| ns.value);
        costs.sort_by(|a, b| value(a).total_cmp(&value(b)));
    }
    let body = match as_map(plan, &costs) {
        Some(rows) => html! {
            p { "Nanoseconds per line of 64 B. The stronger the colour, the higher the cost; hover \
                 for intervals." }
            (maps(&rows))
        },
        None => list(plan, &costs),
    };
    Some(Section { id: "costs", title: "Costs".into(), body })
}

// Only where instruction, block and fence placement tell all cases apart, and there is something to
// compare.
fn as_map<'a>(plan: &'a Plan, results: &[&'a CaseResult]) -> Option<Vec<Cost<'a>>> {
    let mut rows: Vec<Cost> = Vec::new();
    for result in results {
        let Task::Write(write) = plan.metric_task(result.case) else { return None };
        let same = |other: &Cost| {
            let (a, b) = (other.write, write);
            (a.instruction, a.block, a.fence_at) == (b.instruction, b.block, b.fence_at)
        };
        if rows.iter().any(same) {
            return None;
        }
        rows.push(Cost { write, ns: &result.ns_per_unit });
    }
    let blocks = rows.iter().any(|row| row.write.block != rows[0].write.block);
    let instructions = rows.iter().any(|row| row.write.instruction != rows[0].write.instruction);
    (blocks && instructions).then_some(rows)
}

fn maps(rows: &[Cost]) -> Markup {
    let values: Vec<f64> =
        rows.iter().filter_map(|row| Some(row.ns.as_ref().ok()?.value)).collect();
    let range = (
        values.iter().copied().min_by(f64::total_cmp).unwrap_or(1.0),
        values.iter().copied().max_by(f64::total_cmp).unwrap_or(1.0),
    );
    html! {
        div class="row" {
            @for (place, title) in PLACES {
                @if rows.iter().any(|row| row.write.fence_at == place) {
                    (map(rows, place, title, range))
                }
            }
        }
    }
}

fn map(rows: &[Cost], place: FenceAt, title: &str, range: (f64, f64)) -> Markup {
    let here: Vec<&Cost> = rows.iter().filter(|row| row.write.fence_at == place).collect();
    let mut blocks: Vec<Bytes> = here.iter().map(|row| row.write.block).collect();
    blocks.sort();
    blocks.dedup();
    let instructions: Vec<Instruction> = Instruction::ALL
        .into_iter()
        .filter(|i| here.iter().any(|row| row.write.instruction == *i))
        .collect();
    let mut cells = Vec::new();
    let mut lines: Vec<Vec<String>> = Vec::new();
    for (row, instruction) in instructions.iter().enumerate() {
        let mut line = vec![instruction.label().to_owned()];
        for (column, block) in blocks.iter().enumerate() {
            let found = here
                .iter()
                .find(|r| r.write.instruction == *instruction && r.write.block == *block);
            line.push(found.map_or("not run".into(), |cost| cost_text(cost.ns)));
            cells.extend(found.map(|cost| cell(cost, row, column)));
        }
        lines.push(line);
    }
    let columns: Vec<String> = blocks.iter().map(|block| format!("{block} blocks")).collect();
    let mut heads = vec![("", Align::Left)];
    heads.extend(columns.iter().map(|column| (column.as_str(), Align::Right)));
    let numbers = table(title, &heads, &lines);
    let names = instructions.iter().map(|instruction| instruction.label().to_owned());
    let chart = Chart::new(
        "heat",
        Heat { columns: columns.clone(), rows: names.collect(), cells, scale: Scale::More, range },
    );
    let height = 44 + 40 * instructions.len() as u32;
    Figure { title, explanation: NT, chart: &chart, height, legend: html! {}, table: numbers }
        .render()
}

fn cell(cost: &Cost, row: usize, column: usize) -> HeatCell {
    let write = cost.write;
    let name = write.instruction.label();
    let value = cost.ns.as_ref().ok().map(|ns| ns.value);
    let mut tip =
        Tip::new(format!("{name}, {} blocks", write.block)).with("per line", cost_text(cost.ns));
    if let Ok(ns) = cost.ns {
        tip = tip
            .with("throughput", numbers::throughput_interval(64, ns))
            .with("trials", ns.trials.to_string());
    }
    HeatCell {
        column,
        row,
        value,
        text: value.map_or(numbers::NO_FIGURE.into(), numbers::ns),
        faint: !write.is_flushed(),
        tip,
    }
}

fn cost_text(ns: &Estimate) -> String {
    numbers::ns_estimate(ns)
}

fn list(plan: &Plan, results: &[&CaseResult]) -> Markup {
    let quantity = plan.experiment.measure.quantity;
    let (quantile, any) = (quantity.quantile(), quantity.per("unit"));
    let head = if quantile.is_some() { any.clone() } else { format!("time {any}") };
    let heads = [("case", Align::Left), (head.as_str(), Align::Right), ("trials", Align::Right)];
    let unit = |result: &CaseResult| quantity.per(one(result.unit));
    let rows: Vec<RangeRow> = results
        .iter()
        .map(|result| {
            let name = name(plan, result.case);
            let figure = result.ns_per_unit.ok().map(|ns| [ns.value, ns.low, ns.high]);
            RangeRow {
                color: name
                    .split(' ')
                    .find(|word| color(word) != "other")
                    .map_or("other", color)
                    .into(),
                faint: false,
                figure,
                text: result
                    .ns_per_unit
                    .map_or(numbers::NO_FIGURE.into(), |ns| numbers::ns_figure(&ns).value),
                tip: Tip::new(&name).with(unit(result), cost_text(&result.ns_per_unit)),
                name,
            }
        })
        .collect();
    let lines: Vec<Vec<String>> = results
        .iter()
        .map(|result| {
            let trials = result.ns_per_unit.map_or(String::new(), |ns| ns.trials.to_string());
            let cost = format!("{} {}", cost_text(&result.ns_per_unit), unit(result));
            vec![name(plan, result.case), cost, trials]
        })
        .collect();
    let same = results.windows(2).all(|pair| pair[0].unit == pair[1].unit);
    let axis = if same { format!("time {}", unit(results[0])) } else { head.clone() };
    let title =
        quantile.map_or("Time per unit of work".into(), |of| format!("{of} of a unit's latency"));
    let table = table(&title, &heads, &lines);
    Ranges { axis, unit: "ns", rows, mark: None }.figure(&title, "Bars are intervals.", table)
}

// What a cost is made of: numbers alone, since some of them are negative and none add up by
// definition.
fn parts(survey: &Survey) -> Markup {
    let heads = [
        ("", Align::Left),
        ("copy", Align::Right),
        ("ownership", Align::Right),
        ("instruction", Align::Right),
        ("fence a block", Align::Right),
        ("fence a line", Align::Right),
        ("reload", Align::Right),
    ];
    let text = |part: &Part| match part {
        Ok(difference) => numbers::difference(difference),
        Err(reason) => reason.told(),
    };
    let rows: Vec<Vec<String>> = survey
        .parts
        .iter()
        .map(|row| {
            vec![
                row.instruction.to_owned(),
                text(&row.copy),
                row.ownership.as_ref().map_or("none".into(), text),
                text(&row.flush),
                text(&row.fence_per_block),
                text(&row.fence_per_line),
                row.reload.map_or(String::new(), |ns| format!("{ns:+.0}")),
            ]
        })
        .collect();
    html! {
        h3 { "What that is made of" }
        p { "ns per line, 4KiB blocks of cold lines. " (capital(crate::survey::text::PARTS)) "." }
        (table("What a write is made of, ns per line", &heads, &rows))
    }
}
