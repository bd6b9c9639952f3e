//! Cases without a baseline: the time of a unit of work, and the throughput where that is bytes.

use ringfence_analysis::results::CaseResult;
use ringfence_experiment::plan::Plan;

use crate::experiment::cases::labels::{Labels, one};
use crate::experiment::cases::notes::{Notes, in_brackets};
use crate::numbers::{
    NO_FIGURE, ns_estimate, ns_figure, ns_observed, throughput_figure, throughput_interval,
};
use crate::style::Style;
use crate::table::{Cell, Column, Table};
use crate::text::{clean, paragraph};

/// How much of it there is room for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    Full,
    /// The throughput's interval left out: the time's says the same.
    Brief,
}

pub(crate) fn costs(plan: &Plan, results: &[&CaseResult], style: &Style) -> String {
    let labels = Labels::of(results);
    let merged = labels.merged();
    let mut tables = [(&labels, Detail::Full), (&labels, Detail::Brief), (&merged, Detail::Brief)]
        .into_iter()
        .map(|(labels, detail)| table(plan, results, labels, detail));
    match tables.find(|(table, _)| table.fits(style)) {
        Some((table, notes)) => table.render(style) + &notes.render(style),
        None => list(plan, results, &labels, style),
    }
}

fn table(plan: &Plan, results: &[&CaseResult], labels: &Labels, detail: Detail) -> (Table, Notes) {
    let notes = Notes::default();
    let same_unit = results.windows(2).all(|pair| pair[0].unit == pair[1].unit);
    let throughput = results.iter().any(|result| bytes(plan, result).is_some());
    let trials: Vec<u32> =
        results.iter().filter_map(|result| Some(result.ns_per_unit.ok()?.trials)).collect();
    let same_trials = trials.windows(2).all(|pair| pair[0] == pair[1]);

    let mut columns = labels.columns();
    let unit =
        if same_unit { results.first().map_or("unit", |result| one(result.unit)) } else { "unit" };
    columns.extend([
        Column::right(plan.experiment.measure.quantity.per(unit)),
        Column::left("interval"),
    ]);
    columns.extend((!same_unit).then(|| Column::left("unit")));
    if throughput {
        columns.push(Column::right("throughput"));
        columns.extend((detail == Detail::Full).then(|| Column::left("interval")));
    }
    columns.extend((!same_trials).then(|| Column::right("trials")));

    let mut table = Table::new(columns);
    for result in results {
        let mut row = labels.cells(result);
        let time = result.ns_per_unit.as_ref().ok().map(ns_figure);
        let observed = result.observed.as_ref().map(ns_observed);
        row.push(Cell::new(
            time.as_ref().or(observed.as_ref()).map_or(NO_FIGURE, |time| &time.value),
        ));
        row.push(Cell::new(match result.ns_per_unit {
            Ok(_) => time.map(|time| time.interval).unwrap_or_default(),
            Err(reason) => in_brackets(observed, notes.number(reason)),
        }));
        row.extend((!same_unit).then(|| Cell::new(one(result.unit))));
        if throughput {
            let figure = bytes(plan, result).zip(result.ns_per_unit.as_ref().ok());
            let figure = figure.map(|(bytes, ns)| throughput_figure(bytes, ns));
            row.push(Cell::new(figure.as_ref().map_or("", |figure| &figure.value)));
            let interval = figure.map(|figure| figure.interval).unwrap_or_default();
            row.extend((detail == Detail::Full).then(|| Cell::new(interval)));
        }
        let trials = result.ns_per_unit.as_ref().map(|ns| ns.trials.to_string());
        row.extend((!same_trials).then(|| Cell::new(trials.unwrap_or_default())));
        table.row(row);
    }
    (table, notes)
}

/// For narrow terminals and long labels: a few lines for each case.
fn list(plan: &Plan, results: &[&CaseResult], labels: &Labels, style: &Style) -> String {
    let (mut out, quantity) = (String::new(), plan.experiment.measure.quantity);
    for result in results {
        paragraph(&mut out, 0, &clean(&labels.line(result)), style);
        let time = ns_estimate(&result.ns_per_unit);
        let mut text = match result.ns_per_unit {
            Ok(interval) => {
                format!("{time} {}, {} trials", quantity.per(one(result.unit)), interval.trials)
            }
            Err(_) => result.observed.as_ref().map_or(time.clone(), |observed| {
                format!("{} {}; {time}", ns_observed(observed), quantity.per(one(result.unit)))
            }),
        };
        if let (Some(bytes), Ok(ns)) = (bytes(plan, result), &result.ns_per_unit) {
            text = format!("{text}; {}", throughput_interval(bytes, ns));
        }
        paragraph(&mut out, 2, &text, style);
    }
    out
}

// A quantile of latencies is no throughput.
fn bytes(plan: &Plan, result: &CaseResult) -> Option<u64> {
    let of_means =
        plan.cases.get(result.case).filter(|_| plan.experiment.measure.quantity.is_mean());
    of_means.and_then(|_| plan.metric_task(result.case).bytes_per_unit())
}
