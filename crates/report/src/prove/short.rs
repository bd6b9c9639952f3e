//! The figures of a proof in a few lines; what is left out is counted.

use ringfence_analysis::estimate::{Estimate, NotEstimable};
use ringfence_analysis::latency::{CaseLatencies, LatencyQuantile};
use ringfence_analysis::verdicts::side;
use ringfence_experiment::quantity::{Quantile, Quantity};
use ringfence_experiment::task::Task;
use ringfence_studies::prove::Proof;

use crate::experiment::cases::one;
use crate::experiment::too_long::too_long;
use crate::histogram::time;
use crate::latencies::text::quantile;
use crate::numbers::{NO_FIGURE, ns_interval, percent, slowdown};
use crate::print::unknown::Unknown;
use crate::prove::conclusion::was_measured_beside;
use crate::style::Style;
use crate::table::{Cell, Column, Table};
use crate::text::{clean, listed, paragraph, plural};

/// The narrowest that a row's name is wrapped to.
const NARROWEST_NAME: usize = 10;

/// Settings that are named in the line of what was tried.
const NAMED: usize = 3;

/// Renders the victim's times alone and with the aggressor, and what was tried.
pub(super) fn render(proof: &Proof, style: &Style) -> String {
    let mut out = String::new();
    if was_measured_beside(proof) {
        paragraph(&mut out, 0, &roles(proof), style);
        out += &times(proof).render(style);
    }
    let lines = [
        not_settled(proof),
        too_few(proof),
        too_long(proof.too_long),
        tried(proof),
        no_time(proof),
        not_possible(proof),
        intervals(proof),
    ];
    lines.into_iter().flatten().for_each(|line| paragraph(&mut out, 0, &line, style));
    out
}

// `mcf on CPU 0, with ./backup on CPU 1`; the CPUs of a running process are not chosen here.
fn roles(proof: &Proof) -> String {
    let question = &proof.record.question;
    let on = |cpus: &[u32]| match cpus {
        [] => String::new(),
        [one] => format!(" on CPU {one}"),
        all => {
            format!(" on CPUs {}", all.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))
        }
    };
    format!(
        "{}{}, with {}{}",
        clean(&question.victim.to_string()),
        on(&proof.cpus[0]),
        clean(&question.aggressor.to_string()),
        on(&proof.cpus[1])
    )
}

fn times(proof: &Proof) -> Table {
    let (head, rows) = match proof.latencies.as_slice() {
        [alone, beside] => ("latency".to_owned(), latencies(proof, alone, beside)),
        _ => (format!("time per {}", one(&proof.unit)), mean(proof).into_iter().collect()),
    };
    let mut table = Table::new(vec![
        Column::text(head, NARROWEST_NAME),
        Column::left("alone"),
        Column::left("with the aggressor"),
    ]);
    rows.into_iter().for_each(|row| table.row(row.map(Cell::new).into()));
    let name = proof.record.question.measure.quantity.slowdown();
    let slowed = proof.beside.as_ref().map_or_else(|reason| reason.short().into(), slowdown);
    table.row([name.to_owned(), String::new(), slowed].map(Cell::new).into());
    table
}

fn latencies(proof: &Proof, alone: &CaseLatencies, beside: &CaseLatencies) -> Vec<[String; 3]> {
    let row = |of: Quantile| {
        let cell = |one| quantile(one, of.share(), true);
        [of.name().to_owned(), cell(alone), cell(beside)]
    };
    let longest = |one: &CaseLatencies| one.histogram.most().map_or(NO_FIGURE.into(), time);
    let rows = Quantile::ALL.into_iter().filter(|of| is_shown(proof, *of)).map(row);
    rows.chain([["longest".into(), longest(alone), longest(beside)]]).collect()
}

// A figure that a run prints may be a rate, and has no time.
fn mean(proof: &Proof) -> Option<[String; 3]> {
    let times = proof
        .times
        .as_ref()
        .filter(|_| proof.record.question.measure.quantity == Quantity::Mean)?;
    let prints = |task: &Task| matches!(task, Task::Command(command) if command.figure.is_some());
    if prints(proof.record.question.victim.task()) {
        return None;
    }
    let cell = |figure: &Estimate| match figure {
        Ok(known) => ns_interval(known),
        Err(reason) => reason.short().into(),
    };
    Some(["mean".into(), cell(&times.alone), cell(&times.beside)])
}

// The highest takes so many latencies that it is there for those who ask for it.
fn is_shown(proof: &Proof, quantile: Quantile) -> bool {
    let asked = proof.record.question.measure.quantity.quantile();
    quantile != Quantile::P999 || asked == Some(quantile)
}

fn shown_quantiles(proof: &Proof) -> impl Iterator<Item = &LatencyQuantile> {
    let all = proof.latencies.iter().flat_map(|one| &one.quantiles);
    all.filter(|of| is_shown(proof, of.quantile))
}

fn not_settled(proof: &Proof) -> Option<String> {
    let mut marked = shown_quantiles(proof).filter(|of| of.observed.is_some()).peekable();
    marked.peek()?;
    let few = marked.all(|of| matches!(of.ns, Err(NotEstimable::TooFewTrials { .. })));
    let why = if few { "there are fewer than four trials" } else { "trials differ too much" };
    Some(format!(
        "~: not settled, because {why}; in round brackets the least and the most of \
                  any trial"
    ))
}

fn too_few(proof: &Proof) -> Option<String> {
    let mut few = shown_quantiles(proof).filter_map(|of| match of.ns {
        Err(NotEstimable::TooFewLatencies { quantile, counted, needed, .. }) => Some(format!(
            "too few: {quantile} takes about {needed} latencies, and there are {counted}"
        )),
        _ => None,
    });
    few.next()
}

// How many settings lie on which side of the budget, the first of those within it by name.
fn tried(proof: &Proof) -> Option<String> {
    if proof.tried.is_empty() {
        return None;
    }
    let budget = proof.record.question.budget;
    let of = |wanted: Option<bool>| {
        proof
            .tried
            .iter()
            .filter(move |one| one.judged().is_ok() && side(one.judged(), budget) == wanted)
    };
    let within: Vec<String> =
        of(Some(true)).map(|one| format!("'{}'", clean(&one.candidate.arm.name))).collect();
    let named = within.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if within.len() > NAMED { ", ..." } else { "" };
    let unknown = proof.tried.iter().filter(|one| one.judged().is_err()).count();
    let parts = [
        (within.len(), format!("within the budget ({named}{more})")),
        (of(Some(false)).count(), "over the budget".into()),
        (of(None).count(), "unclear".into()),
        (unknown, "without a figure".into()),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    Some(format!("Tried {}: {}", plural(proof.tried.len(), "setting"), parts.join(", ")))
}

// Two entries among the refused levers are not levers.
fn is_lever(name: &str) -> bool {
    !["any lever", "other settings"].contains(&name)
}

fn no_time(proof: &Proof) -> Option<String> {
    let (what, why) = proof.record.refused.iter().find(|(name, _)| !is_lever(name))?;
    // The names of the settings are details.
    let why = why.split("; left out: ").next().unwrap_or(why);
    Some(format!("Not tried: {what}, because {}", clean(why)))
}

// How many levers are not offered here, and those that a flag would allow by name.
fn not_possible(proof: &Proof) -> Option<String> {
    let (mut levers, mut allowed): (Vec<&str>, Vec<(&str, Vec<&str>)>) = Default::default();
    for (lever, why) in proof.record.refused.iter().filter(|(name, _)| is_lever(name)) {
        let by = flag(why).filter(|flag| !is_given(proof, flag));
        let Some(by) = by else {
            if !levers.contains(&lever.as_str()) {
                levers.push(lever);
            }
            continue;
        };
        match allowed.iter_mut().find(|(flag, _)| *flag == by) {
            Some((_, names)) => names.push(lever),
            None => allowed.push((by, vec![lever])),
        }
    }
    let none = (!levers.is_empty())
        .then(|| format!("Not possible here: {} (-v lists them)", plural(levers.len(), "lever")));
    let more: Vec<String> = allowed
        .iter()
        .map(|(flag, levers)| format!("{flag} allows {}", clean(&listed(levers, "and"))))
        .collect();
    let parts: Vec<String> =
        none.into_iter().chain((!more.is_empty()).then(|| more.join("; "))).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

// Of the flags that a reason names those that make a lever possible, not only stronger.
fn flag(why: &str) -> Option<&'static str> {
    ["--other-dir", "--system", "of=pid:N"].into_iter().find(|flag| why.contains(flag))
}

// Of a described machine nothing is changed, and it has no other folder.
fn is_given(proof: &Proof, flag: &str) -> bool {
    let question = &proof.record.question;
    match flag {
        _ if proof.simulated => true,
        "--other-dir" => question.other_dir.is_some(),
        "--system" => question.system,
        _ => false,
    }
}

// At which level intervals hold, all looks and attempts together, and how many trials they rest on.
fn intervals(proof: &Proof) -> Option<String> {
    let trials = |figure: &Estimate| figure.as_ref().ok().map(|known| known.trials);
    let again = proof.confirmations.last().and_then(|one| trials(one.tried.judged()));
    let of_quantiles = || shown_quantiles(proof).find_map(|of| trials(&of.ns));
    let first = trials(proof.judged_beside()).or_else(of_quantiles);
    let trials = match (first, again) {
        (Some(first), Some(again)) => format!("{first} trials, {again} new ones with the lever"),
        (Some(trials), None) => format!("{trials} trials"),
        (None, Some(again)) => format!("{again} trials with the lever"),
        (None, None) => return None,
    };
    let level = percent(proof.record.question.measure.confidence.0);
    Some(format!("[...]: {level} intervals; {trials}"))
}
