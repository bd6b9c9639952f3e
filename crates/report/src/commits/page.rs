//! What a commit takes, by way and by quantile, as a coloured table.

use std::collections::BTreeSet;

use maud::{Markup, html};
use ringfence_analysis::estimate::NotEstimable;
use ringfence_analysis::latency::CaseLatencies;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::task::{Commit, Task};

use crate::histogram::time;
use crate::html::figure::{Chart, Figure, Heat, HeatCell, Scale, Tip};
use crate::html::table::{Align, table};
use crate::html::{Digest, Section};
use crate::latencies::text::{name, quantile};
use crate::numbers::{count, ns_interval, ns_observed};

/// For each dataset a row for each case and role that committed; none where no role did.
pub(crate) fn section(digests: &[&Digest]) -> Option<Section> {
    let figures: Vec<Markup> =
        digests.iter().filter_map(|digest| figure(digest, digests.len() > 1)).collect();
    let body = html! { div class="row one" { @for figure in &figures { (figure) } } };
    (!figures.is_empty()).then(|| Section {
        id: "commits",
        title: "What a commit takes".into(),
        body,
    })
}

fn figure(digest: &Digest, several: bool) -> Option<Markup> {
    let all = &digest.findings.latencies;
    let of_commits = |one: &&CaseLatencies| task(&digest.findings.plan, one).is_some();
    let rows: Vec<&CaseLatencies> = all.iter().filter(of_commits).collect();
    let quantiles = &rows.first()?.quantiles;
    let names: Vec<&str> = quantiles.iter().map(|of| of.quantile.name()).chain(["max"]).collect();
    let row_names = row_names(&digest.findings.plan, &rows, all);
    let mut cells = Vec::new();
    let mut lines: Vec<Vec<String>> = Vec::new();
    for (row, (one, name)) in rows.iter().zip(&row_names).enumerate() {
        let told = told(one);
        let tip = |column: usize| {
            Tip::new(format!("{name}, {}", names[column]))
                .with("commits", count(one.histogram.total()))
                .with(names[column], told[column].whole.clone())
        };
        cells.extend(told.iter().enumerate().map(|(column, told)| HeatCell {
            column,
            row,
            value: told.ns,
            text: told.short.clone(),
            faint: told.ns.is_none(),
            tip: tip(column),
        }));
        let figures = told.iter().map(|told| told.whole.clone());
        lines.push(
            [name.clone(), count(one.histogram.total())].into_iter().chain(figures).collect(),
        );
    }
    let values: Vec<f64> = cells.iter().filter_map(|cell: &HeatCell| cell.value).collect();
    let least = values.iter().copied().min_by(f64::total_cmp).unwrap_or(1.0);
    let range = (least, values.iter().copied().fold(least, f64::max));
    let mut heads = vec![("", Align::Left), ("commits", Align::Right)];
    heads.extend(names.iter().map(|name| (*name, Align::Right)));
    let title = match several {
        true => format!(
            "What a commit takes, by method and quantile, {}",
            digest.findings.plan.experiment.name
        ),
        false => "What a commit takes, by method and quantile".into(),
    };
    let numbers = table(&title, &heads, &lines);
    let columns = names.iter().map(|name| (*name).to_owned()).collect();
    let height = 44 + 34 * rows.len() as u32;
    let chart =
        Chart::new("heat", Heat { columns, rows: row_names, cells, scale: Scale::More, range });
    let explanation = "The stronger the colour, the longer, on a logarithmic scale. p99: 99 of 100 \
                       commits take at most as long. Max is the \
                       lower end of the bucket that the longest lies in. ~: trials differ too much \
                       for an interval; the table \
                       has the range over trials. A quantile of too few commits is not shown.";
    let figure = Figure {
        title: &title,
        explanation,
        chart: &chart,
        height,
        legend: html! {},
        table: numbers,
    };
    Some(figure.render())
}

// The ways by what they differ in, where that tells them apart; elsewhere as in other tables.
fn row_names(plan: &Plan, rows: &[&CaseLatencies], all: &[CaseLatencies]) -> Vec<String> {
    let tasks: Vec<&Commit> = rows.iter().filter_map(|one| task(plan, one)).collect();
    let alike = rows.iter().all(|one| (&one.role, &one.arm) == (&rows[0].role, &rows[0].arm));
    let short = by_difference(&tasks).filter(|_| alike);
    let names = rows.iter().zip(tasks).enumerate().map(|(row, (one, task))| {
        let told = short.as_ref().map_or_else(|| name(one, all), |short| short[row].clone());
        if task.sync.durable() { told } else { format!("{told} (not durable)") }
    });
    names.collect()
}

/// Ways to commit by what they differ in, without the parameters' names, so that there is room for
/// figures: `fsync direct`. Nothing where that does not tell them apart.
pub(crate) fn by_difference(tasks: &[&Commit]) -> Option<Vec<String>> {
    let words = |task: &&Commit| {
        let Commit { sync, io, layout, record, batch, writers, size, .. } = *task;
        let named = [sync.name().into(), io.name().into(), layout.name().into()];
        let counted = [
            format!("records of {record}"),
            format!("batch {batch}"),
            format!("{writers} writers"),
            format!("log of {size}"),
        ];
        named.into_iter().chain(counted).collect::<Vec<String>>()
    };
    let all: Vec<Vec<String>> = tasks.iter().map(words).collect();
    let varies = |place: &usize| all.iter().any(|words| words[*place] != all[0][*place]);
    let places: Vec<usize> = (0..7).filter(varies).collect();
    let short = |words: &Vec<String>| {
        places.iter().map(|place| words[*place].as_str()).collect::<Vec<_>>().join(" ")
    };
    let shorts: Vec<String> = all.iter().map(short).collect();
    let distinct = shorts.iter().collect::<BTreeSet<_>>().len() == tasks.len();
    (distinct && tasks.len() > 1).then_some(shorts)
}

/// How a role commits in a case, if it does.
fn task<'a>(plan: &'a Plan, one: &CaseLatencies) -> Option<&'a Commit> {
    let role = plan.experiment.roles.iter().position(|role| role.name == one.role)?;
    let active = plan.cases.get(one.case)?.active.iter().find(|active| active.role == role)?;
    match &plan.variants.get(role)?.get(active.variant)?.task {
        Task::Commit(task) => Some(task),
        _ => None,
    }
}

/// A figure as it is coloured, as it stands in its cell, and with what it rests on.
struct Told {
    ns: Option<f64>,
    short: String,
    whole: String,
}

fn told(one: &CaseLatencies) -> Vec<Told> {
    let quantiles = one.quantiles.iter().map(|of| Told {
        ns: of.ns.as_ref().ok().map(|ns| ns.value),
        short: quantile(one, of.quantile.share(), false),
        whole: match &of.observed {
            Some(observed) => ns_observed(observed).to_string(),
            None => of.ns.as_ref().map_or_else(NotEstimable::told, ns_interval),
        },
    });
    let most = one.histogram.most().unwrap_or_default();
    let max = Told {
        ns: Some(most.max(1) as f64),
        short: time(most),
        whole: format!("{} or more", time(most)),
    };
    quantiles.chain([max]).collect()
}
