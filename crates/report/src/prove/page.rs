//! A proof: the verdict, how it is kept, and every lever with what it does to the victim and what
//! it costs.

use maud::{Markup, html};
use ringfence_analysis::estimate::Estimate;
use ringfence_analysis::verdicts::side;
use ringfence_experiment::Reason;
use ringfence_experiment::budget::Budget;
use ringfence_studies::prove::{Price, Proof, Question, Verdict};

use crate::html::datasets::with_datasets;
use crate::html::figure::{RangeRow, Ranges, Tip};
use crate::html::table::{Align, table};
use crate::html::{Answer, Badge, Card, Digest, Layout, Page, Section};
use crate::numbers;
use crate::prove::budget;
use crate::prove::budget::{judged_estimate, judged_figure, judged_name, side_of};
use crate::prove::checks::checks;
use crate::prove::conclusion::{conclusion, was_measured_beside, word};
use crate::prove::details::{told_as, trials};
use crate::text::{capital, clean, plural};

/// The page of a proof, with the datasets of its stages; where it was cut short, why, and how to
/// resume it.
pub fn page(proof: &Proof, cut_short: Option<&str>, digests: &[Digest]) -> Page {
    let page = with_datasets("Proof", answer(proof, cut_short), section(proof), digests);
    Page { simulated: page.simulated || proof.simulated, ..page }
}

/// The first screen of a proof.
fn answer(proof: &Proof, cut_short: Option<&str>) -> Answer {
    let question = &proof.record.question;
    let said = conclusion(proof);
    let mut sentences: Vec<String> =
        cut_short.iter().map(|why| format!("Incomplete: {}.", clean(why))).collect();
    sentences.extend(said.notes.iter().map(|note| format!("Note: {note}.")));
    sentences.extend(checks(proof));
    let refused = &proof.record.refused;
    let folded = (!refused.is_empty()).then(|| {
        let line = |(lever, why): &(String, Reason)| format!("{}: {}", clean(lever), clean(why));
        (
            format!("Not offered here: {}, and why", plural(refused.len(), "lever")),
            refused.iter().map(line).collect(),
        )
    });
    let (headline, besides) = match crate::commits::text::of_proof(proof) {
        Some(sentence) => (sentence, std::iter::once(said.answer).chain(said.besides).collect()),
        None => (said.answer, said.besides),
    };
    Answer {
        badge: Some(badge(proof)),
        question: asked(question),
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

fn asked(question: &Question) -> String {
    let [aggressor, victim] =
        [&question.aggressor, &question.victim].map(|task| clean(&task.to_string()));
    match question.budget {
        Budget::Slowdown(share) => {
            let at = question
                .measure
                .quantity
                .quantile()
                .map_or(String::new(), |of| format!(" at {of}"));
            let share = numbers::percent(share.0);
            format!("Does '{aggressor}' slow '{victim}' down by more than {share}{at}?")
        }
        Budget::AtMost(quantity, time) => {
            format!("Is the {quantity} of '{victim}' beside '{aggressor}' {time} at most?")
        }
    }
}

fn badge(proof: &Proof) -> Badge {
    let (word, how) = word(proof);
    let color = match proof.verdict {
        Verdict::NothingNeeded | Verdict::Met if proof.is_faster_than_alone() => "caution",
        Verdict::NothingNeeded | Verdict::Met => "good",
        Verdict::Missed => "bad",
        Verdict::Undecided => "caution",
        Verdict::NothingHappened | Verdict::SimulatedOnly => "other",
    };
    Badge { word, how, color }
}

fn cards(proof: &Proof) -> Vec<Card> {
    let budget = proof.record.question.budget;
    let mut cards = Vec::new();
    if was_measured_beside(proof) {
        if let Some(reached) = &proof.reached {
            cards.push(card("alone", &reached.alone, budget));
        }
        cards.push(card("without a lever", proof.judged_beside(), budget));
    }
    if let Some(last) = proof.confirmations.last() {
        let name = format!("with {}, on fresh trials", clean(&last.tried.candidate.arm.name));
        cards.push(card(&name, last.tried.judged(), budget));
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

fn card(label: &str, estimate: &Estimate, budget: Budget) -> Card {
    let side = side_of(estimate, budget).trim_start_matches(": ");
    let (value, note) = match estimate {
        Ok(known) => {
            let figure = judged_figure(budget, known);
            (figure.value, format!("{} {side}", figure.interval))
        }
        Err(reason) => (numbers::NO_FIGURE.into(), reason.to_string()),
    };
    let color = Some(color(estimate, budget).into());
    Card { label: format!("victim {label}"), value, note, color, ..Card::default() }
}

// Without a lever, with each, and what was measured again; none where nothing has a figure.
fn victims(proof: &Proof) -> Option<Markup> {
    let question = &proof.record.question;
    let budget = question.budget;
    let named = judged_name(question);
    let row = |name: &str, estimate: &Estimate| row(name, estimate, budget, named);
    let mut rows: Vec<RangeRow> =
        proof.reached.iter().map(|reached| row("alone", &reached.alone)).collect();
    rows.push(row("no lever", proof.judged_beside()));
    rows.extend(proof.tried.iter().map(|tried| row(&tried.candidate.arm.name, tried.judged())));
    rows.extend(proof.confirmations.iter().map(|again| {
        row(&format!("{}, measured again", again.tried.candidate.arm.name), again.tried.judged())
    }));
    rows.iter().find(|row| row.figure.is_some())?;
    let lines: Vec<Vec<String>> =
        rows.iter().map(|row| vec![row.name.clone(), row.tip.1[0].1.clone()]).collect();
    let title =
        format!("{} of the victim against its budget of {}", capital(named), budget::text(budget));
    let table =
        table(&title, &[("beside the aggressor", Align::Left), (named, Align::Right)], &lines);
    let ranges = Ranges {
        axis: format!("{named} of the victim"),
        unit: if budget.is_absolute() { "ns" } else { "slowdown" },
        rows,
        mark: Some((budget.limit(), "budget")),
    };
    let of = question.measure.quantity.quantile();
    let what =
        of.map_or("a unit of its work takes".into(), |of| format!("{of} of a unit's latency is"));
    let what = match budget {
        Budget::Slowdown(_) => format!("How much longer {what} than when it runs alone."),
        Budget::AtMost(..) => format!("How long {what}."),
    };
    let explanation = format!(
        "{what} Bars are intervals, with an arrow where they go on beyond the frame; faint ones \
         could be within or over the budget."
    );
    Some(ranges.figure(&title, &explanation, table))
}

// On which side of the budget it lies for certain.
fn color(estimate: &Estimate, budget: Budget) -> &'static str {
    match side(estimate, budget) {
        Some(true) => "good",
        Some(false) => "bad",
        None => "other",
    }
}

fn row(name: &str, estimate: &Estimate, budget: Budget, named: &'static str) -> RangeRow {
    let known = estimate.as_ref().ok();
    let color = color(estimate, budget);
    let text = format!("{}{}", judged_estimate(budget, estimate), trials(estimate));
    RangeRow {
        name: clean(name),
        color: color.into(),
        faint: color == "other",
        figure: known.map(|known| [known.value, known.low, known.high]),
        text: known.map_or(numbers::NO_FIGURE.into(), |known| judged_figure(budget, known).value),
        tip: Tip::new(clean(name))
            .with(if budget.is_absolute() { named } else { "slowdown" }, text),
    }
}

/// What each lever does and costs; none where none was tried.
fn section(proof: &Proof) -> Option<Section> {
    if proof.tried.is_empty() {
        return None;
    }
    let mut heads = vec![
        ("lever", Align::Left),
        ("victim", Align::Right),
        ("cost to the aggressor", Align::Right),
    ];
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
            [name, judged_estimate(proof.record.question.budget, tried.judged()), price]
                .into_iter()
                .chain(keep)
                .collect()
        })
        .collect();
    let many = match proof.verdict {
        Verdict::Met | Verdict::SimulatedOnly => {
            "The one that was chosen was measured again, and only that figure is its effect."
        }
        _ => {
            "The best of many tried at once looks better than it is: measure the one \
             that you choose again."
        }
    };
    let victim = match proof.record.question.budget.is_absolute() {
        true => "The victim's figures are those beside it; the aggressor is compared with",
        false => "The victim is compared with running alone, the aggressor with",
    };
    let body = html! {
        p {
            (victim) " running beside the victim unchanged; "
            (told_as(&proof.record.question)) ". " (many)
        }
        (table("Every lever that was tried", &heads, &lines))
    };
    Some(Section { id: "levers", title: "Levers that were tried".into(), body })
}
