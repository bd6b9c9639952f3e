//! The cost table and what the costs are made of.

use ringfence_experiment::task::{FenceAt, Instruction, LineState};
use ringfence_machine::units::Bytes;
use ringfence_studies::survey::parts::Part;
use ringfence_studies::survey::{CostRow, Survey};

use crate::numbers;
use crate::print::unknown::Unknown;
use crate::style::{Paint, Style};
use crate::table::{Cell, Column, Table};
use crate::text::{faint, heading};

const BLOCKS: [u64; 3] = [64, 4096, 1 << 20];
const PLACES: [(FenceAt, &str); 3] = [
    (FenceAt::None, "no fence"),
    (FenceAt::Block, "a fence a block"),
    (FenceAt::Line, "a fence a line"),
];

/// What the columns of parts are.
pub(crate) const PARTS: &str = "copy: plain stores to cached lines; ownership: what cold lines \
                                add, because they are read first; instruction: what flushing adds \
                                without fences (for nt: compared with the copy); fence: what \
                                fences add; reload: how much longer it takes to load the line \
                                again than a cached one";

pub(crate) fn section(out: &mut String, survey: &Survey, style: &Style) {
    if survey.cost.is_empty() {
        return;
    }
    let title = format!("What a write costs: ns per line of 64 B ({}, sequential)", survey.target);
    heading(out, &title, style);
    for block in BLOCKS {
        out.push_str(&cost_table(&survey.cost, block).render(style));
    }
    let note =
        "without a fence, and with plain stores, nothing is durable when the writer moves on";
    faint(out, note, style);
    out.push('\n');
    if !survey.parts.is_empty() {
        parts(out, survey, style);
    }
}

fn cost_table(rows: &[CostRow], block: u64) -> Table {
    let mut columns = vec![Column::left(format!("{} blocks", Bytes(block)))];
    for (_, words) in PLACES {
        columns.push(Column::right(words));
        columns.push(Column::right("GB/s"));
    }
    let mut table = Table::new(columns);
    for instruction in Instruction::in_memory() {
        let cell = |place: FenceAt| {
            rows.iter().find(|row| {
                row.write.instruction == instruction
                    && row.write.fence_at == place
                    && row.write.block.0 == block
                    && row.write.line == LineState::AsIs
            })
        };
        if PLACES.iter().all(|(place, _)| cell(*place).is_none()) {
            continue;
        }
        let mut row = vec![Cell::new(instruction.label())];
        for (place, _) in PLACES {
            let (ns, rate) = match cell(place).map(|cell| &cell.result.ns_per_unit) {
                // The headings have the units.
                Some(Ok(cost)) => (
                    numbers::ns_interval(cost).replacen(" ns", "", 1),
                    format!("{:.2}", 64.0 / cost.value),
                ),
                Some(Err(reason)) => (reason.short().into(), String::new()),
                None => ("not run".into(), String::new()),
            };
            let durable = place != FenceAt::None && instruction != Instruction::None;
            let paint =
                |text| if durable { Cell::new(text) } else { Cell::painted(text, Paint::Faint) };
            row.extend([paint(ns), paint(rate)]);
        }
        table.row(row);
    }
    table
}

fn parts(out: &mut String, survey: &Survey, style: &Style) {
    heading(out, "What that is made of: ns per line, 4KiB blocks of cold lines", style);
    let heads = ["copy", "ownership", "instruction", "fence/block", "fence/line", "reload"];
    let mut columns = vec![Column::left("")];
    columns.extend(heads.map(Column::right));
    let mut table = Table::new(columns);
    for row in &survey.parts {
        let part = |part: &Part| match part {
            Ok(difference) => numbers::difference(difference),
            Err(reason) => reason.short().into(),
        };
        let copy = match &row.copy {
            Ok(copy) => numbers::difference(copy)
                .trim_start_matches('+')
                .replace("[+", "[")
                .replace(", +", ", "),
            Err(reason) => reason.short().into(),
        };
        table.row(vec![
            Cell::new(row.instruction),
            Cell::new(copy),
            Cell::new(row.ownership.as_ref().map_or("none".into(), part)),
            Cell::new(part(&row.flush)),
            Cell::new(part(&row.fence_per_block)),
            Cell::new(part(&row.fence_per_line)),
            Cell::new(row.reload.map_or(String::new(), |ns| format!("{ns:+.0}"))),
        ]);
    }
    out.push_str(&table.render(style));
    faint(out, PARTS, style);
    out.push('\n');
}
