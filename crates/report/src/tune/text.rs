//! What `tune` found: the policy, what it gains, and the victim's verdict.

use ringfence_analysis::results::CaseResult;
use ringfence_studies::tune::Tuned;

use crate::experiment::text::SIMULATED;
use crate::numbers::{NO_FIGURE, slowdown_estimate};
use crate::print::unknown::Unknown;
use crate::sentence::sentence;
use crate::style::Style;
use crate::table::{Cell, Column, Table};
use crate::text::{heading, paragraph};
use crate::tune::short;
use crate::tune::words::{confirmed, words};

/// Renders what was found. In short the choice comes first; with [`Style::details`] the policy
/// comes last.
pub fn tune(tuned: &Tuned, style: &Style) -> String {
    if style.details { details(tuned, style) } else { short::of_memory(tuned, style) }
}

fn details(tuned: &Tuned, style: &Style) -> String {
    let mut out = String::new();
    let mark = |out: &mut String| {
        if tuned.simulated {
            heading(out, SIMULATED, style);
        }
    };
    mark(&mut out);
    heading(&mut out, "What each method costs", style);
    out.push_str(&costs(&tuned.costs, style));
    out.push('\n');
    paragraph(
        &mut out,
        0,
        &format!("smallest figures over all sizes: {}", words(&tuned.choice)),
        style,
    );
    paragraph(&mut out, 0, &format!("PMDK's fixed rule here: {}", words(&tuned.pmdk)), style);
    if !tuned.confirmed.is_empty() {
        out.push('\n');
        mark(&mut out);
        heading(&mut out, "The choice against PMDK's rule, on fresh trials", style);
        let compared =
            tuned.confirmed.iter().filter_map(|result| Some((result, result.effect.as_ref()?)));
        for (result, effect) in compared {
            let block = result.arm.strip_prefix("policy ").unwrap_or(&result.arm);
            let text = format!(
                "{block}: {} of time per line ({})",
                slowdown_estimate(&effect.by_class.all.slowdown),
                sentence(&effect.finding)
            );
            paragraph(&mut out, 2, &text, style);
        }
        paragraph(&mut out, 0, confirmed(tuned), style);
    } else if tuned.ended_early.is_none() {
        paragraph(
            &mut out,
            0,
            "The two rules agree at every size: nothing was chosen over PMDK's.",
            style,
        );
    }
    if let Some(proof) = &tuned.proof {
        out.push('\n');
        heading(&mut out, "Beside the victim", style);
        out.push_str(&crate::prove(proof, style));
    }
    if let Some(policy) = &tuned.policy {
        out.push('\n');
        out.push_str(&self::policy(policy, style));
    }
    if let Some(why) = &tuned.unpriced {
        paragraph(
            &mut out,
            0,
            &format!("It does not say what single instructions cost: {why}."),
            style,
        );
    }
    out
}

/// A policy, as its file has it.
pub fn policy(text: &str, style: &Style) -> String {
    let mut out = String::new();
    heading(&mut out, "The policy", style);
    for line in text.lines() {
        out.push_str(&format!("  {line}\n"));
    }
    out
}

// ns per line: a row for each block and batch, a column for each instruction.
fn costs(results: &[CaseResult], style: &Style) -> String {
    let value = |result: &CaseResult, key: &str| {
        let found = result.params.iter().find(|(name, _)| name.ends_with(key));
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let mut methods: Vec<String> = Vec::new();
    let mut rows: Vec<(String, String)> = Vec::new();
    for result in results {
        let (method, row) =
            (value(result, ".instruction"), (value(result, ".block"), value(result, ".batch")));
        if !methods.contains(&method) {
            methods.push(method);
        }
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let mut columns = vec![Column::left("ns per line")];
    columns.extend(methods.iter().map(Column::right));
    let mut table = Table::new(columns);
    for (block, batch) in &rows {
        let name = match batch.as_str() {
            "" | "1" => format!("{block} blocks"),
            batch => format!("{block} blocks, a fence each {batch}"),
        };
        let mut row = vec![Cell::new(name)];
        for method in &methods {
            let is_it = |result: &&CaseResult| {
                value(result, ".instruction") == *method
                    && value(result, ".block") == *block
                    && value(result, ".batch") == *batch
            };
            let cost = results.iter().find(is_it).map(|result| result.ns_per_unit);
            row.push(Cell::new(match cost {
                Some(Ok(cost)) => format!("{:.1}", cost.value),
                Some(Err(reason)) => reason.short().into(),
                None => NO_FIGURE.into(),
            }));
        }
        table.row(row);
    }
    table.render(style)
}
