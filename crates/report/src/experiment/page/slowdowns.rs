//! What co-runners slow down: the matrix of a survey, and a row per case of any experiment.

use maud::{Markup, html};
use ringfence_analysis::estimate::{Finding, Verdict};
use ringfence_analysis::results::{CaseResult, CoRunner};
use ringfence_experiment::plan::Plan;
use ringfence_studies::survey::{NeighbourRow, Neighbours, Survey};

use crate::experiment::cases::words;
use crate::experiment::page::frontier::color;
use crate::html::Section;
use crate::html::figure::{Chart, Figure, Heat, HeatCell, NT, RangeRow, Ranges, Scale, Tip};
use crate::html::table::{Align, table};
use crate::numbers;
use crate::text::capital;

/// The interference matrix: victims in columns, the programs that run with them in rows.
pub(crate) fn matrix(survey: &Survey) -> Option<Section> {
    if survey.neighbours.iter().all(|table| table.rows.is_empty()) {
        return None;
    }
    let most = survey.neighbours.iter().flat_map(|table| &table.rows).filter_map(value);
    // The same colours in both matrices, and no strong ones where all effects are small.
    let most = most.map(|value| value.ln().abs()).fold(1.05f64.ln(), f64::max).exp();
    let pace = survey.pace.as_deref().unwrap_or("?");
    let body = html! {
        p {
            "How much longer a victim takes per unit of work beside each co-runner than alone. \
             A cell is coloured where its interval shows a change; the others are undecided, or \
             within 1 %."
        }
        div class="row" {
            (part(survey, false, "Each at its own rate", (1.0 / most, most)))
            (part(survey, true, &format!("All writers held to {pace}"), (1.0 / most, most)))
        }
    };
    Some(Section { id: "interference", title: "What slows what".into(), body })
}

fn part(survey: &Survey, paced: bool, title: &str, range: (f64, f64)) -> Markup {
    let of_kind =
        |table: &'_ Neighbours| table.rows.iter().filter(|row| row.paced == paced).count() > 0;
    let tables: Vec<&Neighbours> =
        survey.neighbours.iter().filter(|table| of_kind(table)).collect();
    let mut names: Vec<&str> = Vec::new();
    for row in tables.iter().flat_map(|table| &table.rows).filter(|row| row.paced == paced) {
        if !names.contains(&row.label.as_str()) {
            names.push(&row.label);
        }
    }
    if names.is_empty() {
        return html! {};
    }
    let mut cells = Vec::new();
    let mut lines = Vec::new();
    for (row, name) in names.iter().enumerate() {
        let mut line = vec![(*name).to_owned()];
        for (column, table) in tables.iter().enumerate() {
            let found = table.rows.iter().find(|row| row.paced == paced && row.label == *name);
            line.push(found.map_or("not run".into(), |row| text(&row.result)));
            cells.extend(found.map(|found| cell(table, found, row, column)));
        }
        lines.push(line);
    }
    let victims: Vec<String> = tables.iter().map(|table| table.victim.clone()).collect();
    let mut heads = vec![("next to", Align::Left)];
    heads.extend(victims.iter().map(|victim| (victim.as_str(), Align::Right)));
    let numbers = table(title, &heads, &lines);
    let rows: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let height = 44 + 40 * rows.len() as u32;
    let chart = Chart::new(
        "heat",
        Heat { columns: victims.clone(), rows, cells, scale: Scale::Around, range },
    );
    Figure { title, explanation: NT, chart: &chart, height, legend: html! {}, table: numbers }
        .render()
}

// Where the interval supports it.
fn value(row: &NeighbourRow) -> Option<f64> {
    row.result.effect.as_ref().and_then(|effect| borne_out(&effect.finding))
}

/// The slowdown, where the interval shows a change.
pub(crate) fn borne_out(finding: &Finding) -> Option<f64> {
    let said = matches!(finding.verdict, Verdict::Slower | Verdict::Faster);
    finding.slowdown.filter(|_| said).map(|slowdown| slowdown.value)
}

fn cell(table: &Neighbours, row: &NeighbourRow, at: usize, column: usize) -> HeatCell {
    let value = value(row);
    let slowdown = row.result.effect.as_ref().and_then(|effect| effect.finding.slowdown);
    let short = match slowdown {
        Some(slowdown) => numbers::slowdown_figure(&slowdown).value,
        None => numbers::NO_FIGURE.into(),
    };
    let title = format!("{} next to {}", table.victim, row.label);
    let tip = tip(title, &row.result);
    HeatCell { column, row: at, value, text: short, faint: value.is_none(), tip }
}

fn tip(title: String, result: &CaseResult) -> Tip {
    let mut tip = Tip::new(title).with("slowdown", text(result));
    if let Some(effect) = &result.effect {
        tip = tip.with("verdict", verdict(&effect.finding));
        if effect.by_class.classes.len() > 1 {
            for (class, estimate) in &effect.by_class.classes {
                let figure = numbers::slowdown_estimate(&estimate.slowdown);
                tip = tip.with(format!("{class}, {} pairs", estimate.pairs), figure);
            }
        }
    }
    for other in &result.co_runners {
        if let Some(rate) = achieved(other) {
            tip = tip.with(format!("rate of {}", other.role), rate);
        }
    }
    tip
}

fn achieved(other: &CoRunner) -> Option<String> {
    match other.bytes_per_s {
        Some(rate) => Some(numbers::bytes_per_s(rate)),
        None => (other.unit != "none").then(|| numbers::units_per_s(other.units_per_s, other.unit)),
    }
}

fn text(result: &CaseResult) -> String {
    match result.effect.as_ref().map(|effect| &effect.by_class.all.slowdown) {
        Some(estimate) => numbers::slowdown_estimate(estimate),
        None => String::new(),
    }
}

pub(crate) fn verdict(finding: &Finding) -> String {
    crate::experiment::cases::verdict(finding).0
}

/// A row for each case with a baseline; none where there is none.
pub(crate) fn section(plan: &Plan, results: &[CaseResult]) -> Option<Section> {
    let results: Vec<&CaseResult> =
        results.iter().filter(|result| result.effect.is_some()).collect();
    if results.is_empty() {
        return None;
    }
    let metric = &plan.experiment.metric;
    let rows: Vec<RangeRow> = results.iter().map(|result| row(plan, result)).collect();
    let heads = [
        ("case", Align::Left),
        ("slowdown", Align::Right),
        ("verdict", Align::Left),
        ("others achieved", Align::Left),
    ];
    let lines: Vec<Vec<String>> = results.iter().map(|result| line(plan, result)).collect();
    let slowdown = plan.experiment.measure.quantity.slowdown();
    let title = format!("{} of {metric}", capital(slowdown));
    let table = table(&title, &heads, &lines);
    let ranges =
        Ranges { axis: format!("{slowdown} of {metric}"), unit: "slowdown", rows, mark: None };
    let what = plan.experiment.measure.quantity.quantile();
    let what =
        what.map_or("a unit of work takes".into(), |of| format!("{of} of a unit's latency is"));
    let explanation = format!(
        "How much longer {what} than in the case's baseline. Bars are intervals, with an arrow \
         where they go on beyond the frame; faint ones may be no change."
    );
    let body = ranges.figure(&title, &explanation, table);
    Some(Section { id: "slowdowns", title: "Slowdowns".into(), body })
}

fn row(plan: &Plan, result: &CaseResult) -> RangeRow {
    let name = words(plan, result.case);
    let finding = result.effect.as_ref().map(|effect| &effect.finding);
    let slowdown = finding.and_then(|finding| finding.slowdown);
    let said = finding.is_some_and(|f| matches!(f.verdict, Verdict::Slower | Verdict::Faster));
    RangeRow {
        color: name.split(' ').find(|word| color(word) != "other").map_or("other", color).into(),
        faint: !said,
        figure: slowdown.map(|slowdown| [slowdown.value, slowdown.low, slowdown.high]),
        text: slowdown.map_or(text(result), |slowdown| numbers::slowdown_figure(&slowdown).value),
        tip: tip(name.clone(), result),
        name,
    }
}

fn line(plan: &Plan, result: &CaseResult) -> Vec<String> {
    let others: Vec<String> = result
        .co_runners
        .iter()
        .filter_map(|other| Some(format!("{}: {}", other.role, achieved(other)?)))
        .collect();
    let verdict = result.effect.as_ref().map_or(String::new(), |effect| verdict(&effect.finding));
    vec![words(plan, result.case), text(result), verdict, others.join("; ")]
}
