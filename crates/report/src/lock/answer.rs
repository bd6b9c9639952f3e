//! The answer of `lock measure`: what keeps a region in the cache, and what takes it out.

use ringfence_analysis::estimate::{Finding, Verdict};
use ringfence_analysis::results::CaseResult;
use ringfence_experiment::quantity::Quantile;
use ringfence_experiment::task::Flush;
use ringfence_studies::findings::Findings;
use ringfence_studies::lock::parts;

use crate::experiment::short::parts::Short;
use crate::experiment::short::slowdowns::undecided;
use crate::experiment::short::{caveats, costs};
use crate::numbers::{NO_FIGURE, slowdown_figure, time_figure};
use crate::print::unknown::Unknown;
use crate::style::Style;
use crate::table::{Cell, Column, Table};
use crate::text::{capital, distinct, paragraph};

const IDLE: &str = "idle";
const NOISE: &str = "noise";
/// The row of ordinary memory.
const ORDINARY: &str = "malloc";

/// A sentence for each kind of memory, and a table of what a read takes.
pub(crate) fn short(found: &Findings, style: &Style) -> Short {
    let rows = distinct(found.results.iter().map(|result| parts(&result.arm).0));
    // What is locked comes first; ordinary memory is there to compare with.
    let mut answer: Vec<String> =
        rows.iter().rev().filter(|row| **row != ORDINARY).map(|row| sentence(found, row)).collect();
    if answer.is_empty() {
        answer = vec![ordinary(found)];
    }
    Short {
        answer,
        tables: vec![table(found, &rows, style)],
        caveats: caveats::of_cases(found),
        ..Short::default()
    }
}

fn of<'a>(found: &'a Findings, row: &str, condition: &str) -> Option<&'a CaseResult> {
    found.results.iter().find(|result| parts(&result.arm) == (row, condition))
}

fn finding(found: &Findings, row: &str, condition: &str) -> Option<Finding> {
    Some(of(found, row, condition)?.effect.as_ref()?.finding)
}

// A kind of memory as the subject of a sentence.
fn subject(row: &str) -> String {
    match row {
        ORDINARY => "ordinary memory".into(),
        "locked" => "a locked region".into(),
        row if row.starts_with("locked") => row.replacen("locked", "a locked region", 1),
        row => row.replacen("own ways", "memory with cache ways of its own", 1),
    }
}

fn sentence(found: &Findings, row: &str) -> String {
    let noise = match finding(found, row, NOISE) {
        Some(finding) => beside_noise(found, row, &finding),
        None => "what noise does to it was not measured".into(),
    };
    capital(&format!("{} {noise}{}.", subject(row), flushes(found, row)))
}

// Only as far as its interval allows.
fn beside_noise(found: &Findings, row: &str, finding: &Finding) -> String {
    let cost = |row: &str| typical(found, row, NOISE).unwrap_or_else(|| NO_FIGURE.into());
    let slowdown = finding.slowdown.as_ref().map(slowdown_figure);
    let slowdown = slowdown.map_or(NO_FIGURE.into(), |figure| figure.to_string());
    let unlocked = format!("unlocked: {}", cost(ORDINARY));
    match (&finding.verdict, &finding.slowdown) {
        (Verdict::NoChangeLargerThanMargin, _) => {
            format!("stays at {} next to noise ({unlocked})", cost(row))
        }
        (Verdict::Slower, _) => {
            format!("is slower next to noise, too: {slowdown}, {} ({unlocked})", cost(row))
        }
        (Verdict::Faster, _) => {
            format!("is not slowed by noise: {slowdown}, {} ({unlocked})", cost(row))
        }
        (_, Some(interval)) => {
            format!("next to noise: {slowdown}, {} ({unlocked})", undecided(interval))
        }
        _ => format!("has no figure next to noise ({unlocked})"),
    }
}

// `; flushed inside, it is evicted: clflush 7.4x [7.0, 7.8]; clwb: too noisy to tell, ...`.
fn flushes(found: &Findings, row: &str) -> String {
    let findings = Flush::ALL.into_iter().filter_map(|flush| {
        let finding = finding(found, row, flush.name())?;
        let figure = finding.slowdown.as_ref().map(slowdown_figure);
        let figure = figure.map_or(NO_FIGURE.into(), |figure| figure.to_string());
        Some((flush, finding, figure))
    });
    let (evicts, others): (Vec<_>, Vec<_>) =
        findings.partition(|(_, finding, _)| finding.verdict == Verdict::Slower);
    let evicts: Vec<String> =
        evicts.iter().map(|(flush, _, figure)| format!("{flush} {figure}")).collect();
    let evicts =
        (!evicts.is_empty()).then(|| format!("flushes inside it evict it: {}", evicts.join(", ")));
    let other = |(flush, finding, figure): &(Flush, Finding, String)| match finding.slowdown {
        Some(slowdown) if matches!(finding.verdict, Verdict::Undecided { .. }) => {
            format!("{flush}: {}, {figure}", undecided(&slowdown))
        }
        Some(_) => format!("{flush} does not evict it: {figure}"),
        None => format!("{flush}: no figure"),
    };
    let others: Vec<String> = others.iter().map(other).collect();
    evicts.into_iter().chain(others).map(|text| format!("; {text}")).collect()
}

// Where nothing keeps a region.
fn ordinary(found: &Findings) -> String {
    let noise = finding(found, ORDINARY, NOISE).and_then(|finding| finding.slowdown);
    let noise = noise.map_or(String::new(), |slowdown| {
        format!("; ordinary memory next to noise: {}", slowdown_figure(&slowdown))
    });
    format!("Not measured, because nothing here keeps a region in the cache{noise}.")
}

// A column for each kind of memory.
fn table(found: &Findings, rows: &[&str], style: &Style) -> String {
    let heads = rows.iter().map(|row| Column::text(*row, 8));
    let mut table = Table::new([Column::left("a read")].into_iter().chain(heads).collect());
    let mut lines = String::new();
    // What flushes do is in the sentence.
    for condition in [IDLE, NOISE] {
        let figures: Vec<Option<String>> =
            rows.iter().map(|row| typical(found, row, condition)).collect();
        if figures.iter().all(Option::is_none) {
            continue;
        }
        let known = rows.iter().zip(&figures);
        let known = known.filter_map(|(row, figure)| Some(format!("{row} {}", figure.as_ref()?)));
        let line = format!("{condition}: {}", known.collect::<Vec<_>>().join(", "));
        paragraph(&mut lines, 0, &line, style);
        let cells = figures.into_iter().map(|figure| Cell::new(figure.unwrap_or(NO_FIGURE.into())));
        table.row([Cell::new(condition)].into_iter().chain(cells).collect());
    }
    if table.fits(style) { table.render(style) } else { lines }
}

// The median where latencies are counted, as they are in all cells or in none: a table of medians
// and means would mislead.
fn typical(found: &Findings, row: &str, condition: &str) -> Option<String> {
    let mut latencies = found.latencies.iter();
    let Some(counted) = latencies.find(|one| parts(&one.arm) == (row, condition)) else {
        return of(found, row, condition).map(costs::figure);
    };
    let p50 = counted.quantiles.iter().find(|of| of.quantile == Quantile::P50)?;
    Some(match &p50.ns {
        Ok(ns) => format!("p50 {}", time_figure(ns)),
        Err(reason) => reason.short().into(),
    })
}
