//! Cases with a baseline: what slows the metric's role down, and by how much.

use ringfence_analysis::estimate::{Finding, Interval, Verdict};
use ringfence_analysis::results::CaseResult;
use ringfence_studies::findings::Findings;

use crate::experiment::cases::by_part;
use crate::experiment::short::grid::MOST_ROWS;
use crate::experiment::short::names::{Name, by_arm, names};
use crate::experiment::short::parts::Short;
use crate::experiment::short::{caveats, costs};
use crate::latencies::short::{self as latencies, Named};
use crate::numbers::{NO_FIGURE, coarse, percent, slowdown_figure, slowdown_observed};
use crate::print::unknown::Unknown;
use crate::style::{Paint, Style};
use crate::table::{Cell, Column, Table};
use crate::text::{capital, paragraph, plural, width};

/// A difference that is certainly smaller than this is close; a wider interval is noise.
const CLOSE: f64 = 0.1;

/// Sentences on when harm came, at most.
const MOST_PARTS: usize = 2;

struct Compared<'a> {
    result: &'a CaseResult,
    finding: Finding,
    name: Name,
}

/// The answer, and a slowdown for each case.
pub(crate) fn short(found: &Findings, effects: &[&CaseResult], style: &Style) -> Short {
    let names = names(&found.plan, effects);
    let compared: Vec<Compared> = effects
        .iter()
        .zip(names)
        .filter_map(|(result, name)| {
            Some(Compared { result, finding: result.effect.as_ref()?.finding, name })
        })
        .collect();
    let neighbours =
        !by_arm(effects) && compared.iter().all(|one| is_neighbour(found, one.result.case));
    let worst = worst(&compared);
    let mut caveats = caveats::of_cases(found);
    let shown = most_harmed(&compared);
    if shown.len() < compared.len() {
        let more = plural(compared.len() - shown.len(), "case");
        caveats.push(format!("{more} with smaller figures: -v prints them."));
    }
    let helped = |one: &Compared| one.finding.verdict == Verdict::Faster;
    if neighbours && compared.iter().any(helped) {
        let text = "Faster next to a neighbour: something else may have changed; measure again.";
        caveats.push(text.into());
    }
    let mut answer = vec![answer(found, &compared, neighbours, worst)];
    answer.extend(by_part(&found.plan, &found.results).into_iter().take(MOST_PARTS));
    let own = alone_and_beside(found, worst.or(compared.first()));
    caveats.extend(latencies::mark(own.iter().map(|(_, one)| *one)));
    let alone: Vec<&CaseResult> =
        found.results.iter().filter(|result| result.effect.is_none()).collect();
    let unmatched = (!alone.is_empty()).then(|| costs_of(found, &alone, style));
    let table = match compared.len() {
        1 => String::new(),
        _ => table(&shown, found.plan.experiment.measure.quantity.slowdown(), style),
    };
    let tables = [Some(table), unmatched, Some(latencies::table(&own, style))];
    Short { answer, tables: tables.into_iter().flatten().collect(), caveats, ..Short::default() }
}

// Whether it runs more than its baseline does.
fn is_neighbour(found: &Findings, case: usize) -> bool {
    let plan = &found.plan;
    let Some(baseline) = plan.cases[case].baseline.and_then(|case| plan.cases.get(case)) else {
        return false;
    };
    plan.cases[case].active.len() > baseline.active.len()
}

fn worst<'a, 'b>(compared: &'b [Compared<'a>]) -> Option<&'b Compared<'a>> {
    let value = |one: &Compared| one.finding.slowdown.map_or(0.0, |slowdown| slowdown.value);
    let known = compared.iter().filter(|one| one.finding.slowdown.is_some());
    known.max_by(|a, b| value(a).total_cmp(&value(b)))
}

// The baseline of a case, and the case.
fn alone_and_beside<'a>(found: &'a Findings, of: Option<&Compared>) -> Vec<Named<'a>> {
    let Some(of) = of else { return Vec::new() };
    let plan = &found.plan;
    let baseline = plan.cases[of.result.case].baseline;
    let baseline = baseline.map(|case| (case, plan.cases[case].arm.clone()));
    let beside = (of.result.case, of.name.whole());
    let counted = |(case, name): (usize, String)| {
        Some((name, latencies::of_metric(found).find(|one| one.case == case)?))
    };
    baseline.into_iter().chain([beside]).filter_map(counted).collect()
}

// What has no baseline, as where a file asks for both.
fn costs_of(found: &Findings, alone: &[&CaseResult], style: &Style) -> String {
    let mut out = String::new();
    let names = names(&found.plan, alone);
    let per = costs::per(found, alone[0].unit);
    let all: Vec<String> = alone
        .iter()
        .zip(names)
        .map(|(result, name)| format!("{} {}", name.whole(), costs::figure(result)))
        .collect();
    paragraph(&mut out, 0, &format!("Without a baseline, {per}: {}.", all.join("; ")), style);
    out
}

// In their order; where there are too many, those with the largest figures, and those without any.
fn most_harmed<'a, 'b>(compared: &'b [Compared<'a>]) -> Vec<&'b Compared<'a>> {
    let value =
        |one: &Compared| one.finding.slowdown.map_or(f64::INFINITY, |slowdown| slowdown.value);
    let mut sorted: Vec<&Compared> = compared.iter().collect();
    sorted.sort_by(|a, b| value(b).total_cmp(&value(a)));
    sorted.truncate(MOST_ROWS);
    let case = |one: &&Compared| one.result.case;
    sorted.sort_by_key(case);
    sorted
}

fn answer(
    found: &Findings,
    compared: &[Compared],
    neighbours: bool,
    worst: Option<&Compared>,
) -> String {
    let experiment = &found.plan.experiment;
    let role = match experiment.metric.as_str() {
        "victim" => "the victim".to_owned(),
        role => format!("'{role}'"),
    };
    let quantile = experiment.measure.quantity.quantile();
    let what = quantile.map_or(role.clone(), |quantile| format!("{quantile} of {role}"));
    let (next_to, nouns) = if neighbours { ("next to", "neighbour") } else { ("for", "case") };
    let slower = compared.iter().filter(|one| one.finding.verdict == Verdict::Slower).count();
    let of = plural(compared.len(), nouns);
    let Some(worst) = worst else {
        return format!("There is no figure for {what} {next_to} {of}.");
    };
    let Some(figure) = worst.finding.slowdown else { return String::new() };
    // A single arm is named for where the victim is.
    let named = match worst.name.whole().as_str() {
        "beside" => "next to the aggressor".to_owned(),
        name => format!("{next_to} {name}"),
    };
    let figure = slowdown_figure(&figure).to_string();
    if compared.len() == 1 {
        return one(&worst.finding, &what, &named, &figure);
    }
    let largest = match alone_at_the_top(worst, compared) {
        true => format!("most {named}: {figure}"),
        false => format!("the largest figure is {figure}, {named}"),
    };
    match slower {
        0 => {
            let same = |one: &Compared| one.finding.verdict == Verdict::NoChangeLargerThanMargin;
            let margin = percent(worst.finding.margin);
            match compared.iter().all(same) {
                true => {
                    format!("No change of {what} above {margin} {next_to} any of {of}: {largest}.")
                }
                false => format!("No slowdown of {what} was shown {next_to} {of}; {largest}."),
            }
        }
        slower if slower == compared.len() => {
            format!("{} {next_to} all of {of}; {largest}.", is_slower(&what))
        }
        slower => format!("{} {next_to} {slower} of {of}; {largest}.", is_slower(&what)),
    }
}

fn is_slower(what: &str) -> String {
    format!("{} is slower", capital(what))
}

// Of a single comparison.
fn one(finding: &Finding, what: &str, named: &str, figure: &str) -> String {
    let margin = percent(finding.margin);
    match (finding.verdict, &finding.slowdown) {
        (Verdict::Slower, _) => format!("{} {named}: {figure}.", is_slower(what)),
        (Verdict::Faster, _) => {
            format!("{} is faster {named}: {figure}.", capital(what))
        }
        (Verdict::NoChangeLargerThanMargin, _) => {
            format!("No change of {what} above {margin} {named}: {figure}.")
        }
        (_, Some(slowdown)) => {
            format!("Whether {what} is slower {named} is {}: {figure}.", undecided(slowdown))
        }
        _ => format!("There is no figure for {what} {named}."),
    }
}

// Whether no other may be as large.
fn alone_at_the_top(worst: &Compared, compared: &[Compared]) -> bool {
    let Some(top) = worst.finding.slowdown else { return false };
    let below = |one: &Compared| one.finding.slowdown.is_some_and(|other| other.high < top.low);
    compared.iter().filter(|one| one.result.case != worst.result.case).all(below)
}

// The largest difference that an interval allows.
fn largest(slowdown: &Interval) -> f64 {
    (slowdown.high - 1.0).max(1.0 - slowdown.low)
}

/// Why an interval decides nothing: the difference is small, or it is not known.
pub(crate) fn why_undecided(slowdown: &Interval) -> &'static str {
    if largest(slowdown) <= CLOSE { "too close to tell" } else { "too noisy to tell" }
}

/// The same, and below what a small difference is.
pub(crate) fn undecided(slowdown: &Interval) -> String {
    let (why, most) = (why_undecided(slowdown), largest(slowdown));
    match most <= CLOSE {
        true => format!("{why}: the difference is below {}", coarse(two_digits(most))),
        false => why.into(),
    }
}

// Rounded up, since it is a bound.
fn two_digits(most: f64) -> f64 {
    let unit = 10f64.powf(most.max(1e-4).log10().floor() - 1.0);
    (most / unit - 1e-9).ceil() * unit
}

/// A verdict in a cell, beside its interval.
pub(crate) fn verdict(finding: &Finding) -> (String, Paint) {
    match (&finding.verdict, &finding.slowdown) {
        (Verdict::Slower, _) => ("slower".into(), Paint::Bad),
        (Verdict::Faster, _) => ("faster".into(), Paint::Good),
        (Verdict::NoChangeLargerThanMargin, _) => {
            (format!("no change above {}", percent(finding.margin)), Paint::Good)
        }
        (Verdict::Undecided { .. }, Some(slowdown)) => {
            (why_undecided(slowdown).into(), Paint::Caution)
        }
        (Verdict::NotEstimable(reason), _) => (reason.short().into(), Paint::Caution),
        (_, None) => (NO_FIGURE.into(), Paint::Caution),
    }
}

fn table(shown: &[&Compared], head: &str, style: &Style) -> String {
    let words = |one: &&Compared| one.name.whole().split(' ').map(width).collect::<Vec<_>>();
    let longest = shown.iter().flat_map(words).max().unwrap_or(0);
    let mut table = Table::new(vec![
        Column::text("", longest.max(10)),
        Column::right(head),
        Column::left("interval"),
        Column::text("", 10),
    ]);
    let mut out = String::new();
    for one in shown {
        let figure = one.finding.slowdown.as_ref().map(slowdown_figure);
        let figure = figure.or(one.result.observed.as_ref().map(slowdown_observed));
        let (value, interval) = figure.map_or_else(
            || (NO_FIGURE.into(), String::new()),
            |figure| (figure.value, figure.interval),
        );
        let (words, paint) = verdict(&one.finding);
        let line = format!("{}: {value} {interval} {words}", one.name.whole());
        paragraph(&mut out, 0, &line, style);
        let cells = [Cell::new(one.name.whole()), Cell::new(value), Cell::new(interval)];
        table.row(cells.into_iter().chain([Cell::painted(words, paint)]).collect());
    }
    if table.fits(style) { table.render(style) } else { out }
}
