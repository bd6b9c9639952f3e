//! What `tune file:DIR` found: the policy, and what it gains.
//!
//! As in `ringfence-report`, which hands this on, it is a pure function from a value and a `Style`
//! to text.

use ringfence_analysis::estimate::Verdict;
use ringfence_experiment::task::{Io, Sync};
use ringfence_studies::tune::files::choice::{Choice, Costs, LAYOUTS, PLAIN, Way};
use ringfence_studies::tune::files::{Compared, Compares, Tuned};

use crate::print::numbers::{NO_FIGURE, ns, slowdown};
use crate::print::sentence::sentence;
use crate::print::style::Style;
use crate::print::table::{Cell, Column, Table};
use crate::print::text::{heading, paragraph};
use crate::tune::short;

/// Renders what was found. In short the choice comes first; with [`Style::details`] the policy
/// comes last.
pub fn tune_files(tuned: &Tuned, style: &Style) -> String {
    if style.details { details(tuned, style) } else { short::of_files(tuned, style) }
}

fn details(tuned: &Tuned, style: &Style) -> String {
    let mut out = String::new();
    heading(&mut out, "What it costs to make a record durable", style);
    out.push_str(&costs(&tuned.costs, style));
    let text = "Medians of trials: among so many ways it is the fresh trials below that decide.";
    paragraph(&mut out, 0, text, style);
    for (label, why) in &tuned.not_run {
        paragraph(&mut out, 0, &format!("not run: {label}, because {why}"), style);
    }
    out.push('\n');
    let chosen = words(&tuned.choice.way);
    paragraph(
        &mut out,
        0,
        &format!("smallest figure, or plainest of those as small: {chosen}"),
        style,
    );
    if !tuned.batches.0.is_empty() {
        out.push('\n');
        heading(&mut out, &format!("What a batch saves, by {chosen}"), style);
        out.push_str(&batches(&tuned.batches, style));
        out.push('\n');
        let text = match tuned.choice.batch {
            1 => "one sync for more than one record brings little".into(),
            batch => format!(
                "one sync for {batch} records where that is allowed; for more it brings little"
            ),
        };
        paragraph(&mut out, 0, &text, style);
    }
    if !tuned.confirmed.is_empty() {
        out.push('\n');
        heading(&mut out, "The choice against what most programs do, on fresh trials", style);
        for compared in &tuned.confirmed {
            let said = sentence(&compared.finding);
            let said = match &compared.ratio {
                Ok(ratio) => format!("{} of time per record ({said})", slowdown(ratio)),
                Err(_) => said,
            };
            let text = format!("{}: {said}", name(compared, &tuned.choice));
            paragraph(&mut out, 2, &text, style);
        }
    }
    if let Some(settled) = &tuned.settled {
        paragraph(&mut out, 0, &conclusion(tuned, settled), style);
    }
    if let Some(policy) = &tuned.policy {
        out.push('\n');
        heading(&mut out, "The policy", style);
        policy.lines().for_each(|line| out.push_str(&format!("  {line}\n")));
    }
    out
}

fn words(way: &Way) -> String {
    let Way { sync, io, layout } = way;
    let onto = format!("layout={layout}");
    // That writes go through the page cache is the default and goes without saying.
    if *io == PLAIN.way.io {
        format!("sync={sync} {onto}")
    } else {
        format!("sync={sync} io={io} {onto}")
    }
}

fn name(compared: &Compared, choice: &Choice) -> String {
    let plain = words(&PLAIN.way);
    match compared.what {
        Compares::Way => format!("{} for {plain}", words(&choice.way)),
        Compares::Batch => format!("{} batch={} for {plain}", words(&choice.way), choice.batch),
        Compares::PlainBatch => format!("{plain} batch={} for {plain}", choice.batch),
        Compares::Mapped => {
            let mapped = choice.mapped.map_or(NO_FIGURE, |sync| sync.name());
            format!("on a mapping {mapped} for msync")
        }
    }
}

// What the policy has, and why.
fn conclusion(tuned: &Tuned, settled: &Choice) -> String {
    let policy = format!("{} batch={}", words(&settled.way), settled.batch);
    let of_writes = tuned.confirmed.iter().any(|compared| compared.what != Compares::Mapped);
    let kept = (settled.way, settled.batch) == (tuned.choice.way, tuned.choice.batch);
    let mut text = if !of_writes {
        "Nothing is cheaper here than what most programs do, so that is the policy.".to_string()
    } else if kept {
        "The fresh trials confirm that the choice is cheaper, so that is the policy.".into()
    } else if tuned.fell_back {
        format!("The fresh trials speak against the choice, so the policy is {policy}.")
    } else {
        let what = match (settled.way != tuned.choice.way, settled.batch != tuned.choice.batch) {
            (true, true) => "the choice",
            (true, false) => "the call with the layout",
            (false, _) => "the batch",
        };
        let unknown =
            |compared: &Compared| compared.what != Compares::Mapped && compared.ratio.is_err();
        let why = if tuned.confirmed.iter().any(unknown) {
            "a figure is missing, and above is what it would take"
        } else {
            "undecided, or too small to matter"
        };
        format!(
            "The fresh trials do not show that {what} is cheaper: {why}, so the policy is {policy}."
        )
    };
    let asked = tuned.confirmed.iter().find(|compared| compared.what == Compares::Mapped);
    if asked.is_some_and(|compared| compared.finding.verdict != Verdict::Faster) {
        text += " A mapping keeps msync, since nothing was shown to be faster.";
    }
    text
}

fn cell(cost: Option<f64>) -> Cell {
    Cell::new(cost.map_or_else(|| NO_FIGURE.into(), ns))
}

// A row for each call, a column for each layout.
fn costs(costs: &Costs, style: &Style) -> String {
    let mut rows: Vec<(Sync, Io)> = Vec::new();
    for row in costs.0.iter().map(|cost| (cost.way.sync, cost.way.io)) {
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let mut columns = vec![Column::left("a record a sync")];
    columns.extend(LAYOUTS.map(|layout| Column::right(layout.name())));
    let mut table = Table::new(columns);
    for (sync, io) in rows {
        let name =
            if io == PLAIN.way.io { sync.to_string() } else { format!("{sync}, of a mapping") };
        let mut cells = vec![Cell::new(name)];
        cells.extend(LAYOUTS.map(|layout| cell(costs.of(Way { sync, io, layout }, 1))));
        table.row(cells);
    }
    table.render(style)
}

fn batches(costs: &Costs, style: &Style) -> String {
    let mut table = Table::new(vec![Column::right("records a sync"), Column::right("a record")]);
    for cost in &costs.0 {
        table.row(vec![Cell::new(cost.batch.to_string()), cell(Some(cost.ns_per_record))]);
    }
    table.render(style)
}
