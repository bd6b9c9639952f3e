//! What an experiment found, in short: the answer in words, the smallest table that supports it,
//! caveats. Everything else is in the long form, [`crate::experiment::text`].

pub(crate) mod caveats;
pub(crate) mod costs;
pub(crate) mod grid;
pub(crate) mod names;
pub(crate) mod parts;
pub(crate) mod slowdowns;

use ringfence_analysis::results::CaseResult;
use ringfence_experiment::Kind;
use ringfence_experiment::ended::Ended;
use ringfence_studies::findings::Findings;

use crate::aa::text::aa;
use crate::commits::short as commits;
use crate::experiment::cases::cases;
use crate::experiment::marks::{SIMULATED, ended_early};
use crate::experiment::short::parts::Short;
use crate::experiment::verdicts;
use crate::lock::answer as lock;
use crate::sensitivity::text::sensitivity;
use crate::style::Style;
use crate::text::{heading, paragraph};

/// The answer, its table, its caveats.
pub(crate) fn experiment(found: &Findings, style: &Style) -> String {
    let mut out = String::new();
    if found.simulated {
        heading(&mut out, SIMULATED, style);
    }
    if let Some(why) = found.ended.as_ref().and_then(Ended::early) {
        out += &ended_early(why, style);
    }
    if found.results.is_empty() {
        return out + &cases(&found.plan, &[], style);
    }
    if let Some(curves) = &found.sensitivity {
        out += &sensitivity(curves, style);
        let caveats = caveats::limits(found).join(" ");
        paragraph(&mut out, 0, &caveats, style);
        return out;
    }
    out + &render(&of(found, style), style)
}

fn of(found: &Findings, style: &Style) -> Short {
    let effects: Vec<&CaseResult> =
        found.results.iter().filter(|result| result.effect.is_some()).collect();
    if let Some(summary) = &found.aa {
        let tables = vec![aa(summary, style)];
        return Short { tables, caveats: caveats::limits(found), ..Short::default() };
    }
    let mut short = match found.plan.experiment.kind {
        Some(Kind::Lock) => lock::short(found, style),
        _ if !effects.is_empty() => slowdowns::short(found, &effects, style),
        _ => commits::short(found, style).unwrap_or_else(|| costs::short(found, style)),
    };
    if let Some(verdict) = verdicts::said(found) {
        short.answer.insert(0, verdict);
    }
    short
}

/// The answer alone, a sentence each, for a page, which has tables and pictures of its own.
pub(crate) fn sentences(found: &Findings) -> Vec<String> {
    let has_effects = found.results.iter().any(|result| result.effect.is_some());
    let is_lock = found.plan.experiment.kind == Some(Kind::Lock);
    // The terminal's refer to marks in its table.
    let commits = if has_effects || is_lock { None } else { commits::sentences(found) };
    match commits {
        Some(answer) => verdicts::said(found).into_iter().chain(answer).collect(),
        None => of(found, &Style::default()).answer,
    }
}

fn render(short: &Short, style: &Style) -> String {
    let mut out = String::new();
    for (number, sentence) in short.answer.iter().enumerate() {
        match number {
            0 => heading(&mut out, sentence, style),
            _ => paragraph(&mut out, 0, sentence, style),
        }
        if let Some(call) = short.call.as_ref().filter(|_| number == 0) {
            paragraph(&mut out, 2, call, style);
        }
    }
    for table in short.tables.iter().filter(|table| !table.is_empty()) {
        if !out.is_empty() {
            out.push('\n');
        }
        out += table;
    }
    let caveats = short.caveats.join(" ");
    if !caveats.is_empty() {
        paragraph(&mut out, 0, &caveats, style);
    }
    out
}
