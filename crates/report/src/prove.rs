//! The answer of `prove`: what was seen, what was tried, the verdict and how to keep it.

use ringfence_lab::estimate::Estimate;
use ringfence_lab::prove::{ATTEMPTS, Confirmation, Kept, Price, Proof, Tried, Verdict};
use ringfence_lab::task::text as task_text;

use crate::numbers::{NO_FIGURE, percent, slowdown_estimate, slowdown_figure};
use crate::style::{Paint, Style};
use crate::table::{Cell, Column, Table};
use crate::text::{clean, hanging, heading, paragraph};

/// The narrowest that a setting's name is wrapped to.
const NARROWEST_SETTING: usize = 14;

/// Renders an answer; the verdict comes last, where the eye rests.
pub fn prove(proof: &Proof, style: &Style) -> String {
    let mut out = String::new();
    let question = &proof.record.question;
    let on = |cpus: &[u32]| {
        let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
        format!("on CPU{} {}", if cpus.len() == 1 { "" } else { "s" }, list.join(", "))
    };
    let victim = task_text::print(&question.victim);
    let aggressor = task_text::print(&question.aggressor);
    hanging(&mut out, "victim     ", None, &format!("{victim}, {}", on(&proof.cpus[0])), style);
    hanging(&mut out, "aggressor  ", None, &format!("{aggressor}, {}", on(&proof.cpus[1])), style);
    let budget = percent(question.budget.0);
    hanging(&mut out, "budget     ", None, &format!("the victim may be slower by {budget}"), style);
    out.push('\n');
    let beside = format!(
        "As it is, beside the aggressor: {}{}{}",
        slowdown_estimate(&proof.beside),
        lives(&proof.beside),
        side(&proof.beside, question.budget.0)
    );
    paragraph(&mut out, 0, &beside, style);
    if !proof.tried.is_empty() {
        out.push('\n');
        out.push_str(&table(proof, style));
    }
    for (lever, why) in &proof.record.refused {
        paragraph(&mut out, 0, &format!("not offered: {lever}, because {why}"), style);
    }
    for confirmation in &proof.confirmations {
        out.push('\n');
        confirmed(&mut out, confirmation, question.budget.0, style);
    }
    out.push('\n');
    verdict(&mut out, proof, style);
    out
}

/// Renders what somebody else has changed in resctrl while it was measured; nothing where nobody has.
pub fn left(left: &[String], style: &Style) -> String {
    let mut out = String::new();
    for sentence in left {
        let text = format!("somebody else has set resctrl meanwhile, and it was left so: {sentence}");
        paragraph(&mut out, 0, &text, style);
    }
    out
}

/// Renders what `--keep` has left in place, or that there was nothing to keep. An error is told elsewhere.
pub fn kept(kept: Result<&Option<Kept>, String>, style: &Style) -> String {
    let mut out = String::from("\n");
    match kept {
        Err(_) => return String::new(),
        Ok(None) => paragraph(&mut out, 0, "Nothing is kept: no setting of resctrl was confirmed.", style),
        Ok(Some(kept)) => {
            heading(&mut out, "Kept, until 'ringfence resctrl undo'", style);
            for (group, schemata) in &kept.settings {
                let schemata = schemata.to_string();
                let text = format!("{group} may use {}", schemata.trim_end().replace('\n', ", "));
                hanging(&mut out, "  • ", None, &text, style);
            }
            for (role, group) in &kept.groups {
                let text = format!(
                    "start the {role} in its group: sh -c 'echo $$ > {}/{}/tasks; exec COMMAND'",
                    kept.place,
                    group.path().display()
                );
                hanging(&mut out, "  • ", None, &text, style);
            }
        }
    }
    out
}

pub(crate) fn lives(estimate: &Estimate) -> String {
    estimate.as_ref().map_or(String::new(), |interval| {
        format!(", {} % interval over {} lives", trimmed(interval.level * 100.0), interval.lives)
    })
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

pub(crate) fn side(estimate: &Estimate, budget: f64) -> &'static str {
    match estimate {
        Ok(interval) if interval.high <= 1.0 + budget => ": within the budget",
        Ok(interval) if interval.low > 1.0 + budget => ": over the budget",
        Ok(_) => ": on either side of the budget",
        Err(_) => "",
    }
}

fn table(proof: &Proof, style: &Style) -> String {
    let budget = proof.record.question.budget.0;
    let mut table = Table::new(vec![
        Column::text("lever", NARROWEST_SETTING),
        Column::right("victim"),
        Column::left("interval"),
        Column::left(""),
        Column::right("aggressor"),
        Column::left("interval"),
    ]);
    for tried in &proof.tried {
        let (value, interval) = figure(&tried.victim);
        let (word, paint) = match &tried.victim {
            Ok(slowdown) if slowdown.high <= 1.0 + budget => ("within", Paint::Good),
            Ok(slowdown) if slowdown.low > 1.0 + budget => ("over", Paint::Bad),
            Ok(_) => ("unclear", Paint::Caution),
            Err(_) => ("", Paint::Faint),
        };
        let (price, price_interval) = match &tried.price {
            Price::Slowdown(price) => figure(price),
            Price::Unseen(_) => ("not seen".into(), String::new()),
        };
        table.row(vec![
            Cell::new(&tried.offer.arm.name),
            Cell::new(value),
            Cell::new(interval),
            Cell::painted(word, paint),
            Cell::new(price),
            Cell::new(price_interval),
        ]);
    }
    let mut out = table.render(style);
    let what = "victim: against alone; aggressor: what it pays, against beside as it is; both as time per unit \
                of work. Figures of many tried at once: the one that is chosen is measured again.";
    paragraph(&mut out, 0, what, style);
    let unseen = proof.tried.iter().find_map(|tried| match &tried.price {
        Price::Unseen(why) => Some(why),
        Price::Slowdown(_) => None,
    });
    if let Some(why) = unseen {
        let text = format!(
            "not seen: what the aggressor pays, because {why}; --aggressor-progress lines or counter shows it"
        );
        paragraph(&mut out, 0, &text, style);
    }
    out
}

fn figure(estimate: &Estimate) -> (String, String) {
    match estimate {
        Ok(interval) => {
            let figure = slowdown_figure(interval);
            (figure.value, figure.interval)
        }
        Err(_) => (NO_FIGURE.into(), String::new()),
    }
}

fn confirmed(out: &mut String, confirmation: &Confirmation, budget: f64, style: &Style) {
    let Tried { offer, victim, .. } = &confirmation.tried;
    let text = format!(
        "Again on fresh lives, '{}': {}{}{}",
        clean(&offer.arm.name),
        slowdown_estimate(victim),
        lives(victim),
        side(victim, budget)
    );
    paragraph(out, 0, &text, style);
    let beside = format!("the same lives without it: {}", slowdown_estimate(&confirmation.beside));
    paragraph(out, 2, &beside, style);
}

fn verdict(out: &mut String, proof: &Proof, style: &Style) {
    heading(out, "Verdict", style);
    let said = conclusion(proof);
    hanging(out, "  ", None, &said.verdict, style);
    for (label, text) in &said.more {
        hanging(out, &format!("  {label}: "), None, text, style);
    }
}

/// The verdict in words.
pub(crate) struct Conclusion {
    /// In a sentence or two.
    pub verdict: String,
    /// How to keep it and what to know, each with a label.
    pub more: Vec<(&'static str, String)>,
}

/// What follows from a proof.
pub(crate) fn conclusion(proof: &Proof) -> Conclusion {
    let budget = percent(proof.record.question.budget.0);
    let within = |estimate: &Estimate| {
        estimate.as_ref().is_ok_and(|slowdown| slowdown.high <= 1.0 + proof.record.question.budget.0)
    };
    let mut more = Vec::new();
    let verdict = match (proof.verdict, proof.confirmations.last()) {
        (Verdict::NothingNeeded, _) => format!(
            "Nothing is needed: beside the aggressor as it is, the victim stays within the budget of {budget}, {}.",
            slowdown_estimate(&proof.beside)
        ),
        (Verdict::Met, Some(confirmation)) => {
            let tried = &confirmation.tried;
            more.push(("keep it", clean(&tried.offer.keep)));
            more.extend(tried.offer.caveat.as_ref().map(|caveat| ("note", clean(caveat))));
            if within(&confirmation.beside) {
                more.push((
                    "note",
                    format!(
                        "on the same lives the aggressor as it is was within the budget too, {}: what the look saw was not \
                         there again",
                        slowdown_estimate(&confirmation.beside)
                    ),
                ));
            }
            format!(
                "'{}' keeps the victim within the budget of {budget}: {} against alone. The aggressor {}.",
                clean(&tried.offer.arm.name),
                slowdown_estimate(&tried.victim),
                price(&tried.price)
            )
        }
        (Verdict::Missed, None) => format!("No lever meets the budget of {budget}{}.", closest(proof)),
        (Verdict::Missed, Some(_)) => {
            let tries = proof.confirmations.len();
            let again = if tries == 1 { "it was".to_string() } else { format!("{tries} were") };
            format!(
                "No lever is shown to meet the budget of {budget}: what seemed to was measured again ({again} over it; \
                 at most {ATTEMPTS} are){}.",
                closest(proof)
            )
        }
        (Verdict::Met | Verdict::Undecided, last) => {
            let estimate = last.map_or(&proof.beside, |last| &last.tried.victim);
            let what = last.map_or("the aggressor as it is".to_string(), |last| {
                format!("'{}'", clean(&last.tried.offer.arm.name))
            });
            format!(
                "Undecided: with {what} the victim's slowdown of {} lies on either side of the budget of {budget}. More \
                 lives (--lives), longer windows (--window) or a quieter machine would tell ('ringfence doctor').",
                slowdown_estimate(estimate)
            )
        }
    };
    Conclusion { verdict, more }
}

fn closest(proof: &Proof) -> String {
    let known = proof.tried.iter().filter_map(|tried| Some((tried, tried.victim.as_ref().ok()?)));
    let best = known.min_by(|a, b| a.1.value.total_cmp(&b.1.value));
    best.map_or(String::new(), |(tried, slowdown)| {
        format!(
            "; the closest is '{}', with {}",
            clean(&tried.offer.arm.name),
            slowdown_estimate(&Ok(*slowdown))
        )
    })
}

fn price(price: &Price) -> String {
    match price {
        Price::Unseen(why) => format!("may pay, which is not seen because {why}"),
        Price::Slowdown(Err(reason)) => format!("pays what is not known ({reason})"),
        Price::Slowdown(Ok(slowdown)) => {
            let text = slowdown_estimate(&Ok(*slowdown));
            if slowdown.low > 1.0 {
                format!("pays {text} of time per unit of work")
            } else if slowdown.high < 1.0 {
                format!("pays nothing, it gains: {text} of time per unit of work")
            } else {
                format!("pays nothing that is seen: {text} of time per unit of work")
            }
        }
    }
}
