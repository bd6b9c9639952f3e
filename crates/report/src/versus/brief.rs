//! The answer in a few lines: a table with the ratio that the verdict rests on, and the verdict.

use std::time::Duration;

use ringfence_versus::case::Case;
use ringfence_versus::findings::{Compared, Findings, Measure, Plain, Verdict};
use ringfence_versus::run::Quantity;

use crate::print::numbers::{
    NO_FIGURE, duration, ns, ns_figure, percent, slowdown_estimate, slowdown_figure,
};
use crate::print::style::{Paint, Style};
use crate::print::table::{Cell, Column, Table};
use crate::print::text::{capital, ellipsize, faint, hanging, painted, paragraph, plural};
use crate::print::unknown::WouldSettle;
use crate::versus::text::{
    alone, failures, in_full, left_behind, longer, mean, said, share, shortened, told_apart,
    too_few, verdict, verdict_with_figure, warmed,
};
use crate::versus::words::{LONGEST_IN_HEADING, is_of};

/// The answer; with [`Style::details`], also how it was measured and what else differs.
pub fn versus(findings: &Findings, style: &Style) -> String {
    if style.details {
        return in_full(findings, style);
    }
    let mut out = String::new();
    match &findings.commands[..] {
        [only] => one(&mut out, findings, only, style),
        _ => {
            out.push_str(&table(findings, style));
            if let Some(budget) = findings.settings.budget {
                let (text, paint) = verdict(findings, budget);
                painted(&mut out, &text, paint, style);
            }
            for one in &findings.comparisons {
                comparison(&mut out, findings, one, style);
            }
        }
    }
    warnings(&mut out, findings, style);
    if findings.commands.len() > 1 {
        let text = format!(
            "{} in {}; {} intervals; ratios of adjacent runs",
            plural(rounds(findings) as usize, "interleaved round"),
            time(findings),
            percent(findings.settings.confidence)
        );
        faint(&mut out, &text, style);
    }
    out
}

fn rounds(findings: &Findings) -> u32 {
    let dropped = findings.warm_up.map_or(0, |warmed| warmed.dropped.min(findings.rounds));
    findings.rounds - dropped
}

fn time(findings: &Findings) -> String {
    duration(Duration::from_secs_f64(findings.seconds))
}

// Where names are long or alike, commands are called by their letters.
fn has_letters(findings: &Findings) -> bool {
    let mut names: Vec<String> = findings.commands.iter().map(|one| name(&one.case)).collect();
    names.sort_unstable();
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    longest > LONGEST_IN_HEADING || names.windows(2).any(|pair| pair[0] == pair[1])
}

fn name(case: &Case) -> String {
    shortened(&told_apart(case))
}

// Letters of a name that a table has room for beside the command's own letter; -v prints the whole.
const LONGEST_BESIDE_LETTER: usize = 20;

// What a sentence calls a command.
fn label(findings: &Findings, case: &Case) -> String {
    if has_letters(findings) { case.role.clone() } else { format!("'{}'", name(case)) }
}

fn one(out: &mut String, findings: &Findings, only: &Measure, style: &Style) {
    let name = name(&only.case);
    let runs = plural(only.runs as usize, "run");
    let head = format!("{name}: {runs} in {}", time(findings));
    hanging(out, "", None, &head, style);
    let estimate = only.time.estimate();
    let mean_of_runs = match (&estimate, &only.described) {
        (Ok(interval), _) => {
            let level = percent(findings.settings.confidence);
            Some(format!("{} ({level}, trimmed)", ns_figure(interval)))
        }
        (Err(_), Some(all)) => Some(format!("{} (no interval)", ns(all.mean))),
        (Err(_), None) => None,
    };
    if estimate.is_err() {
        let text = alone(findings).unwrap_or_default();
        paragraph(out, 2, &(capital(&text) + "."), style);
    }
    let Some(mean_of_runs) = mean_of_runs else { return };
    let median = only.described.as_ref().map(|all| ns(all.median));
    line(out, "mean", &mean_of_runs, &[("median", median)], style);
    if let Some(Plain { min, max, stddev, .. }) = &only.described {
        let parts = [("max", Some(ns(*max))), ("deviation", stddev.map(ns))];
        line(out, "min", &ns(*min), &parts, style);
    }
    let other = |quantity| mean(only, quantity);
    let parts = [("system", other(Quantity::System)), ("peak memory", other(Quantity::PeakMemory))];
    let user = other(Quantity::User).unwrap_or_else(|| NO_FIGURE.into());
    line(out, "user", &user, &parts, style);
}

fn line(
    out: &mut String,
    head: &str,
    first: &str,
    others: &[(&str, Option<String>)],
    style: &Style,
) {
    let mut text = first.to_string();
    for (name, value) in others {
        if let Some(value) = value {
            text += &format!(", {name} {value}");
        }
    }
    hanging(out, &format!("  {head:<6}"), Some(Paint::Faint), &text, style);
}

// Without what does not fit: first the ratio, which the verdict repeats, then user and system time.
fn table(findings: &Findings, style: &Style) -> String {
    let tables = [(true, true), (false, true), (false, false)];
    let [whole, without, least] = tables.map(|columns| columns_of(findings, columns, style));
    [whole, without].into_iter().find(|table| table.fits(style)).unwrap_or(least).render(style)
}

fn columns_of(findings: &Findings, (ratio, cpu): (bool, bool), style: &Style) -> Table {
    let letters = has_letters(findings);
    let (scale, unit) = unit(findings);
    let mut columns = Vec::new();
    columns.extend(letters.then(|| Column::left("")));
    columns.extend([Column::text("command", 12), Column::left("a run takes")]);
    columns.extend(["min", "max"].map(|head| Column::right(format!("{head}, {unit}"))));
    let of_cpus = ["user", "sys"].into_iter().filter(|_| cpu);
    columns.extend(of_cpus.map(|head| Column::right(format!("{head}, {unit}"))));
    columns.extend(ratio.then(|| Column::right("against first")));
    let mut table = Table::new(columns);
    for measure in &findings.commands {
        let Measure { case, described, .. } = measure;
        let figure = measure
            .time
            .estimate()
            .map_or(NO_FIGURE.into(), |interval| ns_figure(&interval).to_string());
        let plain = |get: fn(&Plain) -> f64| {
            described.as_ref().map_or(NO_FIGURE.into(), |all| three(get(all) / scale))
        };
        let other = |wanted| {
            let known = measure.others.iter().find(|(quantity, _)| *quantity == wanted);
            known.map_or(NO_FIGURE.into(), |(_, mean)| three(mean / scale))
        };
        let mut row = Vec::new();
        row.extend(letters.then(|| Cell::painted(&case.role, Paint::Strong)));
        let longest = if letters { LONGEST_BESIDE_LETTER } else { LONGEST_IN_HEADING };
        row.extend([Cell::new(ellipsize(&name(case), longest, style)), Cell::new(figure)]);
        row.extend([plain(|all| all.min), plain(|all| all.max)].map(Cell::new));
        if cpu {
            row.extend([Quantity::User, Quantity::System].map(|of| Cell::new(other(of))));
        }
        if ratio {
            let own = findings.comparisons.iter().find(|one| is_of(measure, &one.of, one));
            row.push(own.map_or_else(Cell::default, |one| {
                Cell::new(slowdown_estimate(&one.ratio.estimate()))
            }));
        }
        table.row(row);
    }
    table
}

// The unit in which the shortest command is at least 1.
fn unit(findings: &Findings) -> (f64, &'static str) {
    let times = findings.commands.iter().filter_map(|one| Some(one.described.as_ref()?.mean));
    let least = times.fold(f64::INFINITY, f64::min);
    match least {
        least if least < 1e3 => (1.0, "ns"),
        least if least < 1e6 => (1e3, "us"),
        least if least < 1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    }
}

fn three(value: f64) -> String {
    match value {
        value if value >= 99.95 => format!("{value:.0}"),
        value if value >= 9.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

fn comparison(out: &mut String, findings: &Findings, one: &Compared, style: &Style) {
    let paint = match one.verdict {
        Verdict::OverBudget | Verdict::Slower => Some(Paint::Bad),
        Verdict::WithinBudget | Verdict::Faster => Some(Paint::Good),
        Verdict::Undecided | Verdict::NotEstimable => Some(Paint::Caution),
        Verdict::NoChangeLargerThanMargin | Verdict::Alone => None,
    };
    let named = |role: &str| {
        let measure = findings.commands.iter().find(|measure| is_of(measure, role, one));
        measure.map_or(role.to_owned(), |measure| label(findings, &measure.case))
    };
    let mut text =
        format!("{} against {}: {}", named(&one.of), named(&one.than), tell(findings, one));
    if let Some(long) = longer(findings, one) {
        text += &format!(", {long}");
    }
    // The line of the verdict has the colour if there is a budget.
    match paint.filter(|_| findings.settings.budget.is_none()) {
        Some(paint) => painted(out, &text, paint, style),
        None => paragraph(out, 0, &text, style),
    }
}

fn tell(findings: &Findings, one: &Compared) -> String {
    let estimate = one.ratio.estimate();
    let Ok(interval) = &estimate else { return said(findings, one) };
    let figure = slowdown_figure(interval);
    let needed = WouldSettle(one.rounds_needed).to_string().replace(" trials", " rounds");
    match (findings.settings.budget, one.verdict) {
        (None, Verdict::Undecided) => format!("undecided, {figure}; {needed}"),
        (None, verdict) => verdict_with_figure(findings, verdict, &figure),
        (Some(_), Verdict::WithinBudget | Verdict::OverBudget)
            if findings.comparisons.len() == 1 =>
        {
            figure.to_string()
        }
        (Some(_), Verdict::WithinBudget) => format!("{figure}, within the budget"),
        (Some(_), Verdict::OverBudget) => format!("{figure}, over the budget"),
        (Some(budget), _) if findings.comparisons.len() > 1 => {
            format!("{figure}, undecided for {}; {needed}", share(budget))
        }
        (Some(_), _) => format!("{figure}; {needed}"),
    }
}

fn warnings(out: &mut String, findings: &Findings, style: &Style) {
    let early = findings.ended_early.as_ref();
    let early =
        early.map(|why| format!("Ended early: {why}. This is what was measured until then."));
    let falling = findings.warm_up.filter(|warm_up| warm_up.still_falling);
    let falling = falling.map(|warm_up| capital(&warmed(&warm_up)) + ".");
    let name = |case: &Case| label(findings, case);
    let all = failures(findings, name)
        .into_iter()
        .chain(left_behind(findings, name))
        .chain(too_few(findings))
        .chain(outliers(findings))
        .chain(falling)
        .chain(early);
    all.for_each(|text| paragraph(out, 0, &text, style));
}

/// That some runs are far from the rest, as hyperfine warns.
fn outliers(findings: &Findings) -> Option<String> {
    let of = |measure: &Measure| {
        let Plain { min, max, .. } = measure.described.as_ref()?;
        let outliers = measure.outliers;
        (outliers > 0).then(|| {
            format!(
                "{outliers} of {} runs of {} ({} to {})",
                measure.runs,
                label(findings, &measure.case),
                ns(*min),
                ns(*max)
            )
        })
    };
    let all: Vec<String> = findings.commands.iter().filter_map(of).collect();
    (!all.is_empty()).then(|| {
        format!("Outliers: {}. Try a quiet machine, --warmup or --prepare.", all.join(", "))
    })
}
