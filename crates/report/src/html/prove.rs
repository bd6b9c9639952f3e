//! A proof: the verdict, and every lever with what it does to the victim and what it costs.

use maud::html;
use ringfence_analysis::estimate::{Estimate, Interval};
use ringfence_experiment::task::text as task_text;
use ringfence_studies::prove::{Price, Proof, Verdict};

use super::figure::{Chart, Figure, RangeRow, Ranges, Tip};
use super::table::{Align, table};
use super::{Answer, Card, Section};
use crate::numbers;
use crate::prove::{checks, conclusion, lives, side};
use crate::text::clean;

/// The first screen of a proof.
pub(super) fn answer(proof: &Proof) -> Answer {
    let question = &proof.record.question;
    let said = conclusion(proof);
    let budget = numbers::percent(question.budget.0);
    let mut cards = vec![card("as it is", &proof.beside, question.budget.0)];
    if let Some(last) = proof.confirmations.last() {
        let name = clean(&last.tried.offer.arm.name);
        cards.push(card(&format!("with {name}"), &last.tried.victim, question.budget.0));
        cards.push(match &last.tried.price {
            Price::Slowdown(price) => Card {
                label: "the aggressor pays".into(),
                value: price.as_ref().map_or("not known".into(), |p| numbers::slowdown_figure(p).value),
                note: price.as_ref().map_or(String::new(), |p| {
                    format!("{} of time per unit of work", numbers::slowdown_figure(p).interval)
                }),
                color: None,
            },
            Price::Unseen(why) => Card {
                label: "the aggressor pays".into(),
                value: "not seen".into(),
                note: format!("because {why}"),
                color: None,
            },
        });
    }
    let mut sentences: Vec<String> =
        said.more.into_iter().map(|(label, text)| format!("{label}: {text}")).collect();
    sentences.extend(checks(proof));
    sentences.extend(
        proof
            .record
            .refused
            .iter()
            .map(|(lever, why)| format!("not offered: {}, because {}", clean(lever), clean(why))),
    );
    Answer {
        question: format!(
            "Does '{}' slow '{}' down by more than {budget}?",
            clean(&task_text::print(&question.aggressor)),
            clean(&task_text::print(&question.victim))
        ),
        headline: said.verdict,
        cards,
        sentences,
        commands: said.commands,
        figure: Some(victims(proof)),
    }
}

fn card(label: &str, estimate: &Estimate, budget: f64) -> Card {
    let side = side(estimate, budget).trim_start_matches(": ");
    match estimate {
        Ok(slowdown) => {
            let figure = numbers::slowdown_figure(slowdown);
            Card {
                label: label.into(),
                value: figure.value,
                note: format!("{}, {side}", figure.interval),
                color: Some(color(Some(slowdown), budget).into()),
            }
        }
        Err(reason) => Card { label: label.into(), value: "-".into(), note: reason.to_string(), color: None },
    }
}

// As it is, with each lever, and what was measured again.
fn victims(proof: &Proof) -> maud::Markup {
    let budget = proof.record.question.budget.0;
    let mut rows = vec![row("as it is", &proof.beside, budget)];
    rows.extend(proof.tried.iter().map(|tried| row(&tried.offer.arm.name, &tried.victim, budget)));
    for confirmation in &proof.confirmations {
        let name = format!("again: {}", confirmation.tried.offer.arm.name);
        rows.push(row(&name, &confirmation.tried.victim, budget));
    }
    let lines: Vec<Vec<String>> =
        rows.iter().map(|row| vec![row.name.clone(), row.tip.1[0].1.clone()]).collect();
    let height = 80 + 26 * rows.len() as u32;
    let title = format!("Slowdown of the victim; the budget is {}", numbers::percent(budget));
    let chart = Chart::new(
        "ranges",
        Ranges {
            axis: "slowdown of the victim".into(),
            unit: "slowdown",
            rows,
            mark: Some((1.0 + budget, "budget")),
        },
    );
    Figure {
        title: &title,
        explanation: "How much longer a unit of its work takes than alone. Bars are intervals; faint ones lie on either side of the budget. 'Again' is measured on fresh lives.",
        chart: &chart,
        height,
        legend: html! {},
        table: table(&[("beside the aggressor", Align::Left), ("slowdown", Align::Right)], &lines),
    }
    .render()
}

// On which side of the budget it lies for certain.
fn color(known: Option<&Interval>, budget: f64) -> &'static str {
    match known {
        Some(slowdown) if slowdown.high <= 1.0 + budget => "good",
        Some(slowdown) if slowdown.low > 1.0 + budget => "bad",
        _ => "other",
    }
}

fn row(name: &str, estimate: &Estimate, budget: f64) -> RangeRow {
    let known = estimate.as_ref().ok();
    let color = color(known, budget);
    let text = format!("{}{}", numbers::slowdown_estimate(estimate), lives(estimate));
    RangeRow {
        name: clean(name),
        color: color.into(),
        faint: color == "other",
        figure: known.map(|slowdown| [slowdown.value, slowdown.low, slowdown.high]),
        text: known.map_or("-".into(), |slowdown| numbers::slowdown_figure(slowdown).value),
        tip: Tip::new(clean(name)).with("slowdown", text),
    }
}

/// What each lever does and costs; none where none was tried.
pub(super) fn section(proof: &Proof) -> Option<Section> {
    if proof.tried.is_empty() {
        return None;
    }
    let heads = [
        ("lever", Align::Left),
        ("victim", Align::Right),
        ("aggressor pays", Align::Right),
        ("how to keep it", Align::Left),
    ];
    let lines: Vec<Vec<String>> = proof
        .tried
        .iter()
        .map(|tried| {
            let price = match &tried.price {
                Price::Slowdown(price) => numbers::slowdown_estimate(price),
                Price::Unseen(why) => format!("not seen, because {why}"),
            };
            vec![
                tried.offer.arm.name.clone(),
                numbers::slowdown_estimate(&tried.victim),
                price,
                tried.offer.keep.clone(),
            ]
        })
        .collect();
    let many = match proof.verdict {
        Verdict::Met => "The one that was chosen was measured again; only that figure is its effect.",
        _ => "Figures of many tried at once: whoever picks one of them measures it again.",
    };
    let body = html! {
        p { "Both as time per unit of work: the victim against alone, the aggressor against beside as it is. " (many) }
        (table(&heads, &lines))
    };
    Some(Section { id: "levers", title: "Levers".into(), body })
}
