//! Cases with a baseline: the slowdown, what it says, each class of pairs, and what the others
//! achieved meanwhile.

use ringfence_analysis::estimate::{ClassEstimate, Estimate, Finding, Observed, Verdict};
use ringfence_analysis::results::{CaseResult, CoRunner, Effect};

use crate::experiment::cases::labels::Labels;
use crate::experiment::cases::notes::{Notes, in_brackets};
use crate::numbers::{
    NO_FIGURE, bytes_per_s, percent, slowdown_estimate, slowdown_figure, slowdown_observed,
    units_per_s,
};
use crate::print::unknown::{Unknown, WouldSettle};
use crate::style::{Paint, Style};
use crate::table::{Cell, Column, Table};
use crate::text::{paragraph, plural};

/// The narrowest that a co-runner's rate is wrapped to: `multiplications/s` in one piece.
const NARROWEST_RATE: usize = 17;

/// The slowdowns over all classes, in order.
pub(crate) fn figures<'a>(
    results: &'a [&'a CaseResult],
) -> impl Iterator<Item = (&'a CaseResult, Estimate)> + 'a {
    results
        .iter()
        .filter_map(|result| Some((*result, result.effect.as_ref()?.by_class.all.slowdown)))
}

pub(crate) fn slowdowns(results: &[&CaseResult], head: &str, style: &Style) -> String {
    let labels = Labels::of(results);
    let merged = labels.merged();
    match [&labels, &merged]
        .map(|labels| table(results, labels, head))
        .into_iter()
        .find(|(table, _)| table.fits(style))
    {
        Some((table, notes)) => table.render(style) + &notes.render(style),
        None => list(results, &labels, style),
    }
}

fn table(results: &[&CaseResult], labels: &Labels, head: &str) -> (Table, Notes) {
    let notes = Notes::default();
    let roles = roles(results);
    let mut columns = labels.columns();
    let label_columns = columns.len();
    columns.extend([Column::right(head), Column::left("interval"), Column::text("verdict", 16)]);
    columns.extend(roles.iter().map(|role| Column::text(*role, NARROWEST_RATE)));
    let mut table = Table::new(columns);
    for result in results {
        let Some(effect) = &result.effect else { continue };
        let mut row = labels.cells(result);
        row.extend(figure(&effect.by_class.all.slowdown, result.observed.as_ref(), None, &notes));
        let (words, paint) = verdict(&effect.finding);
        row.push(Cell::painted(words, paint));
        for role in &roles {
            let rate = result.co_runners.iter().find(|other| other.role == *role).map(achieved);
            row.push(Cell::new(rate.unwrap_or_default()));
        }
        table.row(row);
        for (class, estimate) in several_classes(effect) {
            let mut row = vec![Cell::painted(format!("  {class}"), Paint::Faint)];
            row.resize(label_columns, Cell::default());
            row.extend(figure(&estimate.slowdown, None, Some(Paint::Faint), &notes));
            row.push(Cell::painted(pairs(estimate), Paint::Faint));
            table.row(row);
        }
    }
    (table, notes)
}

fn figure(
    estimate: &Estimate,
    observed: Option<&Observed>,
    paint: Option<Paint>,
    notes: &Notes,
) -> [Cell; 2] {
    let (value, interval) = match estimate {
        Ok(interval) => {
            let figure = slowdown_figure(interval);
            (figure.value, figure.interval)
        }
        Err(reason) => {
            let observed = observed.map(slowdown_observed);
            let value = observed.as_ref().map_or(NO_FIGURE.into(), |figure| figure.value.clone());
            (value, in_brackets(observed, notes.number(*reason)))
        }
    };
    [value, interval]
        .map(|text| paint.map_or_else(|| Cell::new(&text), |paint| Cell::painted(&text, paint)))
}

/// For narrow terminals and long labels: a few lines for each case.
fn list(results: &[&CaseResult], labels: &Labels, style: &Style) -> String {
    let mut out = String::new();
    for result in results {
        let Some(effect) = &result.effect else { continue };
        paragraph(&mut out, 0, &labels.line(result), style);
        let (words, _) = verdict(&effect.finding);
        let text = match &effect.by_class.all.slowdown {
            Ok(interval) => format!("{}: {words}", slowdown_figure(interval)),
            Err(reason) => match &result.observed {
                Some(observed) => format!("{}; {}", slowdown_observed(observed), reason.told()),
                None => slowdown_estimate(&effect.by_class.all.slowdown),
            },
        };
        paragraph(&mut out, 2, &text, style);
        for (class, estimate) in several_classes(effect) {
            let text =
                format!("{class}, {}: {}", pairs(estimate), slowdown_estimate(&estimate.slowdown));
            paragraph(&mut out, 4, &text, style);
        }
        for other in &result.co_runners {
            paragraph(&mut out, 2, &format!("{}: {}", other.role, achieved(other)), style);
        }
    }
    out
}

/// Nothing where there is but one: it is the whole.
fn several_classes(effect: &Effect) -> impl Iterator<Item = (String, &ClassEstimate)> {
    let classes = &effect.by_class.classes;
    let several = classes.len() > 1;
    classes.iter().filter(move |_| several).map(|(class, estimate)| (class.to_string(), estimate))
}

/// What the estimate of a class rests on.
fn pairs(estimate: &ClassEstimate) -> String {
    plural(estimate.pairs as usize, "pair")
}

/// The verdict without its interval, which stands beside it.
pub(crate) fn verdict(finding: &Finding) -> (String, Paint) {
    match &finding.verdict {
        Verdict::Slower => ("slower".into(), Paint::Bad),
        Verdict::Faster => ("faster".into(), Paint::Good),
        Verdict::NoChangeLargerThanMargin => {
            (format!("no change larger than {}", percent(finding.margin)), Paint::Good)
        }
        Verdict::Undecided { trials_needed } => {
            (format!("undecided: {}", WouldSettle(*trials_needed)), Paint::Caution)
        }
        Verdict::NotEstimable(reason) => (reason.short().into(), Paint::Caution),
    }
}

fn achieved(other: &CoRunner) -> String {
    match other.bytes_per_s {
        Some(rate) => bytes_per_s(rate),
        None if other.unit == "none" => "idle".into(),
        None => units_per_s(other.units_per_s, other.unit),
    }
}

fn roles<'a>(results: &[&'a CaseResult]) -> Vec<&'a str> {
    let mut roles: Vec<&str> = Vec::new();
    for other in results.iter().flat_map(|result| &result.co_runners) {
        if !roles.contains(&other.role.as_str()) {
            roles.push(&other.role);
        }
    }
    roles
}
