//! Cases without a baseline: what takes least, and what each takes.

use ringfence_analysis::estimate::Interval;
use ringfence_analysis::frontier::Standing;
use ringfence_analysis::results::CaseResult;
use ringfence_experiment::task::Task;
use ringfence_studies::findings::Findings;

use crate::experiment::cases::one;
use crate::experiment::short::caveats;
use crate::experiment::short::grid::{self, Entry};
use crate::experiment::short::names::{Name, names};
use crate::experiment::short::parts::Short;
use crate::latencies::short::{self as latencies, Named};
use crate::numbers::{ns_observed, time_figure};
use crate::print::unknown::Unknown;
use crate::style::{Paint, Style};
use crate::text::{distinct, plural};

/// Columns whose least figures are all named.
const MOST_COLUMNS: usize = 3;

/// The answer, and a figure for each case.
pub(crate) fn short(found: &Findings, style: &Style) -> Short {
    let results: Vec<&CaseResult> = found.results.iter().collect();
    let names = names(&found.plan, &results);
    let per = per(found, results[0].unit);
    let entry = |(result, name): (&&CaseResult, &Name)| Entry {
        name: name.clone(),
        text: figure(result),
        paint: result.ns_per_unit.is_err().then_some(Paint::Caution),
    };
    let entries: Vec<Entry> = results.iter().zip(&names).map(entry).collect();
    let mut caveats = caveats::of_cases(found);
    let table = match entries.len() {
        1 => String::new(),
        _ => {
            let (table, more) = grid::table(&entries, (&per, &per), style);
            caveats.extend((more > 0).then(|| format!("{more} more cases: -v prints them.")));
            table
        }
    };
    let counted = |(result, name): (&&CaseResult, &Name)| {
        let one = latencies::of_metric(found).find(|one| one.case == result.case)?;
        Some((name.whole(), one))
    };
    let counted: Vec<Named> = results.iter().zip(&names).filter_map(counted).collect();
    caveats.extend(latencies::mark(counted.iter().map(|(_, one)| *one)));
    // More stand in the long form.
    let counted = latencies::table(&counted[..counted.len().min(2)], style);
    Short {
        answer: answer(found, &results, &names, &per).into_iter().collect(),
        tables: vec![table, counted],
        caveats,
        ..Short::default()
    }
}

/// What follows a figure: `per commit`.
pub(crate) fn per(found: &Findings, unit: &str) -> String {
    found.plan.experiment.measure.quantity.per(one(unit))
}

/// The cost of a case; without an interval what was seen, or why there is nothing.
pub(crate) fn figure(result: &CaseResult) -> String {
    match (&result.ns_per_unit, &result.observed) {
        (Ok(cost), _) => time_figure(cost).to_string(),
        (Err(_), Some(observed)) => ns_observed(observed).to_string(),
        (Err(reason), None) => reason.short().into(),
    }
}

// The least of each column. A writer that waits for nothing is not compared: it is fast, and has
// promised nothing.
fn answer(found: &Findings, results: &[&CaseResult], names: &[Name], per: &str) -> Option<String> {
    let promises = |case: usize| {
        let mut points = found.frontier.points.iter();
        points.all(|point| point.case != case || point.standing != Standing::Unfenced)
    };
    let known: Vec<(&Name, Interval, bool)> = results
        .iter()
        .zip(names)
        .filter_map(|(result, name)| Some((name, result.ns_per_unit.ok()?, promises(result.case))))
        .collect();
    // What has no figure may be cheaper still.
    let lacking = results
        .iter()
        .filter(|result| result.ns_per_unit.is_err() && promises(result.case))
        .count();
    let any = known.iter().any(|(.., promises)| *promises);
    let known: Vec<(&Name, Interval)> = known
        .into_iter()
        .filter(|(.., promises)| *promises || !any)
        .map(|(name, cost, _)| (name, cost))
        .collect();
    if let ([(_, cost)], 1) = (&known[..], results.len()) {
        return Some(format!("{} {per}.", time_figure(cost)));
    }
    let writes =
        results.iter().all(|result| matches!(found.plan.metric_task(result.case), Task::Write(_)));
    let (word, as_good) = if writes { ("Cheapest", "cheap") } else { ("Fastest", "fast") };
    let columns = distinct(known.iter().map(|(name, _)| name.column.as_str()));
    let least = columns.into_iter().filter_map(|column| {
        let own = || known.iter().filter(|(name, _)| name.column == column);
        let (best, cost) = own().min_by(|a, b| a.1.value.total_cmp(&b.1.value))?;
        let others = own().filter(|(name, other)| *name != *best && other.low <= cost.high).count();
        let others = match others {
            0 => String::new(),
            others => format!(" ({} may be as {as_good})", plural(others, "other")),
        };
        Some((column, best.row.as_str(), format!("{}{others}", time_figure(cost))))
    });
    let all: Vec<(&str, &str, String)> = least.collect();
    let one = |(column, row, figure): &(&str, &str, String)| match *column {
        "" => format!("{row}, {figure}"),
        column => format!("{row} for {column}, {figure}"),
    };
    let text = match &all[..] {
        [] => return None,
        [first, .., last] if all.len() > MOST_COLUMNS && all.iter().all(|one| one.1 == first.1) => {
            let ends = [first, last].map(|(column, _, figure)| format!("{figure} for {column}"));
            format!("{} everywhere, {} to {}", first.1, ends[0], ends[1])
        }
        all => all.iter().map(one).collect::<Vec<_>>().join("; "),
    };
    let of = match lacking {
        0 => String::new(),
        _ => format!(" of the {} with a figure,", known.len()),
    };
    Some(format!("{word}{of} {per}: {text}."))
}
