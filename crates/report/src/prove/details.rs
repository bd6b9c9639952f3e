//! Everything that a proof rests on, for those who ask for it.

use ringfence_analysis::estimate::{Estimate, Interval};
use ringfence_analysis::verdicts::side;
use ringfence_experiment::budget::Budget;
use ringfence_studies::prove::{Confirmation, Price, Proof, Question, Tried, Verdict};

use crate::experiment::cases::one;
use crate::experiment::text::SIMULATED;
use crate::latencies::text as latencies;
use crate::numbers;
use crate::numbers::{Figure, NO_FIGURE, ns_estimate, slowdown_figure};
use crate::print::unknown::Unknown;
use crate::prove::budget;
use crate::prove::budget::{judged_estimate, judged_figure, side_of};
use crate::prove::checks::checks;
use crate::prove::conclusion::was_measured_beside;
use crate::style::{Paint, Style};
use crate::table::{Cell, Column, Table};
use crate::text::{clean, hanging, heading, paragraph};

/// The narrowest that a setting's name is wrapped to.
const NARROWEST_SETTING: usize = 14;

/// Renders what was asked, seen and tried, and what was not offered.
pub(super) fn render(proof: &Proof, style: &Style) -> String {
    let mut out = String::new();
    let question = &proof.record.question;
    asked(&mut out, proof, style);
    out.push('\n');
    for sentence in checks(proof) {
        paragraph(&mut out, 0, &sentence, style);
    }
    if was_measured_beside(proof) {
        measured_beside(&mut out, proof, style);
    }
    if !proof.latencies.is_empty() {
        out.push('\n');
        out.push_str(&latencies::quantiles(&proof.latencies, style));
    }
    if !proof.tried.is_empty() {
        out.push('\n');
        if proof.simulated {
            heading(&mut out, SIMULATED, style);
        }
        out.push_str(&table(proof, style));
    }
    for (lever, why) in &proof.record.refused {
        paragraph(&mut out, 0, &format!("not offered: {lever}, because {why}"), style);
    }
    for confirmation in &proof.confirmations {
        out.push('\n');
        let of = of_what(proof, confirmation.tried.judged());
        confirmed(&mut out, confirmation, &of, question.budget, style);
    }
    out
}

fn measured_beside(out: &mut String, proof: &Proof, style: &Style) {
    let question = &proof.record.question;
    let judged = proof.judged_beside();
    let beside = format!(
        "With the aggressor running: {}{}{}{}",
        of_what(proof, judged),
        judged_estimate(question.budget, judged),
        trials(judged),
        if proof.verdict == Verdict::NothingHappened {
            ""
        } else {
            side_of(judged, question.budget)
        }
    );
    paragraph(out, 0, &beside, style);
    if let Some(reached) = &proof.reached {
        let alone = format!(
            "alone: {}{}; with it {}",
            ns_estimate(&reached.alone),
            side_of(&reached.alone, question.budget),
            longer(&proof.beside)
        );
        paragraph(out, 2, &alone, style);
    }
}

// The victim and the aggressor, where each runs, and the budget.
fn asked(out: &mut String, proof: &Proof, style: &Style) {
    let question = &proof.record.question;
    let on = |cpus: &[u32]| {
        let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
        if cpus.is_empty() {
            return if was_measured_beside(proof) {
                "on the CPUs that it already uses"
            } else {
                "not started"
            }
            .to_string();
        }
        format!("on CPU{} {}", if cpus.len() == 1 { "" } else { "s" }, list.join(", "))
    };
    let victim = question.victim.to_string();
    let aggressor = question.aggressor.to_string();
    hanging(out, "victim     ", None, &format!("{victim}, {}", on(&proof.cpus[0])), style);
    hanging(out, "aggressor  ", None, &format!("{aggressor}, {}", on(&proof.cpus[1])), style);
    hanging(out, "budget     ", None, &budget::allowed(question, &proof.unit), style);
}

// What the aggressor makes of a time.
fn longer(slowdown: &Estimate) -> String {
    match slowdown {
        Ok(known) => format!("{} time", numbers::slowdown(known)),
        Err(reason) => format!("how much longer is not known: {}", reason.why()),
    }
}

/// What the figures of levers are.
pub(crate) fn told_as(question: &Question) -> String {
    let quantile = question.measure.quantity.quantile();
    quantile.map_or("both as time per unit of work".into(), |of| {
        format!("the victim's as {of} of latencies, the aggressor's as time per unit of work")
    })
}

// What a figure is about, where it is not the mean.
fn of_what(proof: &Proof, figure: &Estimate) -> String {
    let quantile = proof.record.question.measure.quantity.quantile().filter(|_| figure.is_ok());
    let unit = one(&proof.unit);
    let article = if unit.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    quantile.map_or(String::new(), |of| format!("{of} of {article} {unit} "))
}

pub(crate) fn trials(estimate: &Estimate) -> String {
    estimate.as_ref().map_or(String::new(), |interval| {
        format!(", {} % interval over {} trials", trimmed(interval.level * 100.0), interval.trials)
    })
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

fn table(proof: &Proof, style: &Style) -> String {
    let budget = proof.record.question.budget;
    let mut table = Table::new(vec![
        Column::text("lever", NARROWEST_SETTING),
        Column::right("victim"),
        Column::left("interval"),
        Column::left(""),
        Column::right("aggressor"),
        Column::left("interval"),
    ]);
    for tried in &proof.tried {
        let (value, interval) = figure(tried.judged(), |known| judged_figure(budget, known));
        let (word, paint) = match (tried.judged(), side(tried.judged(), budget)) {
            (Err(_), _) => ("", Paint::Faint),
            (_, Some(true)) => ("within", Paint::Good),
            (_, Some(false)) => ("over", Paint::Bad),
            (_, None) => ("unclear", Paint::Caution),
        };
        let (price, price_interval) = match &tried.price {
            Price::Slowdown(price) => figure(price, slowdown_figure),
            Price::Unseen(_) => ("not seen".into(), String::new()),
        };
        table.row(vec![
            Cell::new(&tried.candidate.arm.name),
            Cell::new(value),
            Cell::new(interval),
            Cell::painted(word, paint),
            Cell::new(price),
            Cell::new(price_interval),
        ]);
    }
    let mut out = table.render(style);
    let victim = if budget.is_absolute() { "with it" } else { "compared with running alone" };
    let what = format!(
        "victim: {victim}; aggressor: what the lever costs it, compared with running unchanged; \
         {}. The best \
         of many tried at once looks better than it is: the one that is chosen is measured again.",
        told_as(&proof.record.question)
    );
    paragraph(&mut out, 0, &what, style);
    let unseen = proof.tried.iter().find_map(|tried| match &tried.price {
        Price::Unseen(why) => Some(why),
        Price::Slowdown(_) => None,
    });
    if let Some(why) = unseen {
        let text = format!(
            "not seen: what the lever costs the aggressor, because {why}; --aggressor-progress \
             lines or counter shows it"
        );
        paragraph(&mut out, 0, &text, style);
    }
    out
}

fn figure(estimate: &Estimate, told: impl Fn(&Interval) -> Figure) -> (String, String) {
    match estimate {
        Ok(interval) => {
            let figure = told(interval);
            (figure.value, figure.interval)
        }
        Err(_) => (NO_FIGURE.into(), String::new()),
    }
}

fn confirmed(
    out: &mut String,
    confirmation: &Confirmation,
    of: &str,
    budget: Budget,
    style: &Style,
) {
    let Tried { candidate, .. } = &confirmation.tried;
    let victim = confirmation.tried.judged();
    let text = format!(
        "Measured again on fresh trials, '{}': {of}{}{}{}",
        clean(&candidate.arm.name),
        judged_estimate(budget, victim),
        trials(victim),
        side_of(victim, budget)
    );
    paragraph(out, 0, &text, style);
    let beside = format!(
        "without it, on the same trials: {}",
        judged_estimate(budget, confirmation.judged_beside())
    );
    paragraph(out, 2, &beside, style);
}
