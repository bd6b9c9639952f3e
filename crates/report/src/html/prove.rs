//! A proof: the verdict, how it is kept, and every lever with what it does to the victim and what it costs.

use maud::{Markup, html};
use ringfence_analysis::estimate::{Estimate, Interval};
use ringfence_experiment::task::text as task_text;
use ringfence_prove::{Price, Proof, Verdict};

use super::figure::{RangeRow, Ranges, Tip};
use super::table::{Align, table};
use super::{Answer, Badge, Card, Layout, Section};
use crate::checks::checks;
use crate::numbers;
use crate::prove::{conclusion, side, told_as, trials, was_measured_beside, word};
use crate::text::{capital, clean, plural};

/// The first screen of a proof.
pub(super) fn answer(proof: &Proof, cut_short: Option<&str>) -> Answer {
    let question = &proof.record.question;
    let said = conclusion(proof);
    let mut sentences: Vec<String> =
        cut_short.iter().map(|why| format!("This is not the last word: {}.", clean(why))).collect();
    sentences.extend(said.notes.iter().map(|note| format!("Note: {note}.")));
    sentences.extend(checks(proof));
    let refused = &proof.record.refused;
    let folded = (!refused.is_empty()).then(|| {
        let line = |(lever, why): &(String, String)| format!("{}: {}", clean(lever), clean(why));
        (
            format!("Not offered here: {}, and why", plural(refused.len(), "lever")),
            refused.iter().map(line).collect(),
        )
    });
    let (headline, besides) = match crate::commits::of_proof(proof) {
        Some(sentence) => (sentence, std::iter::once(said.answer).chain(said.besides).collect()),
        None => (said.answer, said.besides),
    };
    Answer {
        badge: Some(badge(proof.verdict)),
        question: format!(
            "Does '{}' slow '{}' down by more than {}{}?",
            clean(&task_text::print(&question.aggressor)),
            clean(&task_text::print(&question.victim)),
            numbers::percent(question.budget.0),
            question.measure.quantity.quantile().map_or(String::new(), |of| format!(" at {of}"))
        ),
        headline,
        besides,
        keep: said.keep.map(|how| (how, said.commands)),
        cards: cards(proof),
        sentences,
        folded,
        figure: victims(proof),
        layout: Layout::Stacked,
    }
}

fn badge(verdict: Verdict) -> Badge {
    let color = match verdict {
        Verdict::NothingNeeded | Verdict::Met => "good",
        Verdict::Missed => "bad",
        Verdict::Undecided => "caution",
        Verdict::NothingHappened | Verdict::SimulatedOnly => "other",
    };
    let (word, how) = word(verdict);
    Badge { word, how, color }
}

fn cards(proof: &Proof) -> Vec<Card> {
    let budget = proof.record.question.budget.0;
    let mut cards = Vec::new();
    if was_measured_beside(proof) {
        cards.push(card("without a lever", &proof.beside, budget));
    }
    if let Some(last) = proof.confirmations.last() {
        let name = format!("with {}, on fresh trials", clean(&last.tried.candidate.arm.name));
        cards.push(card(&name, &last.tried.victim, budget));
        let (value, note) = match &last.tried.price {
            Price::Slowdown(Ok(price)) => {
                let figure = numbers::slowdown_figure(price);
                (figure.value, format!("{} time per unit of its work", figure.interval))
            }
            Price::Slowdown(Err(reason)) => ("not known".into(), reason.to_string()),
            Price::Unseen(why) => ("not seen".into(), format!("because {why}")),
        };
        cards.push(Card { label: "cost to the aggressor".into(), value, note, ..Card::default() });
    }
    cards
}

fn card(label: &str, estimate: &Estimate, budget: f64) -> Card {
    let side = side(estimate, budget).trim_start_matches(": ");
    let (value, note) = match estimate {
        Ok(slowdown) => {
            let figure = numbers::slowdown_figure(slowdown);
            (figure.value, format!("{} {side}", figure.interval))
        }
        Err(reason) => (numbers::NO_FIGURE.into(), reason.to_string()),
    };
    let color = Some(color(estimate.as_ref().ok(), budget).into());
    Card { label: format!("victim {label}"), value, note, color, ..Card::default() }
}

// Without a lever, with each, and what was measured again; none where nothing has a figure.
fn victims(proof: &Proof) -> Option<Markup> {
    let budget = proof.record.question.budget.0;
    let mut rows = vec![row("no lever", &proof.beside, budget)];
    rows.extend(proof.tried.iter().map(|tried| row(&tried.candidate.arm.name, &tried.victim, budget)));
    rows.extend(proof.confirmations.iter().map(|again| {
        row(&format!("{}, measured again", again.tried.candidate.arm.name), &again.tried.victim, budget)
    }));
    rows.iter().find(|row| row.figure.is_some())?;
    let lines: Vec<Vec<String>> =
        rows.iter().map(|row| vec![row.name.clone(), row.tip.1[0].1.clone()]).collect();
    let quantity = proof.record.question.measure.quantity;
    let slowdown = quantity.slowdown();
    let percent = numbers::percent(budget);
    let title = format!("{} of the victim against its budget of {percent}", capital(slowdown));
    let table = table(&title, &[("beside the aggressor", Align::Left), (slowdown, Align::Right)], &lines);
    let ranges = Ranges {
        axis: format!("{slowdown} of the victim"),
        unit: "slowdown",
        rows,
        mark: Some((1.0 + budget, "budget")),
    };
    let what = quantity
        .quantile()
        .map_or("a unit of its work takes".into(), |of| format!("{of} of a unit's latency is"));
    let explanation = format!(
        "How much longer {what} than when it runs alone. Bars are intervals, with an arrow where they go on beyond the frame; faint ones may be on either side of the budget."
    );
    Some(ranges.figure(&title, &explanation, table))
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
    let text = format!("{}{}", numbers::slowdown_estimate(estimate), trials(estimate));
    RangeRow {
        name: clean(name),
        color: color.into(),
        faint: color == "other",
        figure: known.map(|slowdown| [slowdown.value, slowdown.low, slowdown.high]),
        text: known.map_or(numbers::NO_FIGURE.into(), |slowdown| numbers::slowdown_figure(slowdown).value),
        tip: Tip::new(clean(name)).with("slowdown", text),
    }
}

/// What each lever does and costs; none where none was tried.
pub(super) fn section(proof: &Proof) -> Option<Section> {
    if proof.tried.is_empty() {
        return None;
    }
    let mut heads =
        vec![("lever", Align::Left), ("victim", Align::Right), ("cost to the aggressor", Align::Right)];
    if !proof.simulated {
        heads.push(("how to keep it", Align::Left));
    }
    let lines: Vec<Vec<String>> = proof
        .tried
        .iter()
        .map(|tried| {
            let price = match &tried.price {
                Price::Slowdown(price) => numbers::slowdown_estimate(price),
                Price::Unseen(why) => format!("not seen, because {why}"),
            };
            let name = tried.candidate.arm.name.clone();
            let keep = (!proof.simulated).then(|| tried.candidate.keep.clone());
            [name, numbers::slowdown_estimate(&tried.victim), price].into_iter().chain(keep).collect()
        })
        .collect();
    let many = match proof.verdict {
        Verdict::Met | Verdict::SimulatedOnly => {
            "The one that was chosen was measured again, and only that figure is its effect."
        }
        _ => {
            "The best of many tried at once looks better than it is: whoever picks one should measure it again."
        }
    };
    let body = html! {
        p {
            "The victim is compared with running alone, the aggressor with running beside the victim unchanged; "
            (told_as(&proof.record.question)) ". " (many)
        }
        (table("Every lever that was tried", &heads, &lines))
    };
    Some(Section { id: "levers", title: "Levers that were tried".into(), body })
}
