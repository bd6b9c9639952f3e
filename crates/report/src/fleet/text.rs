//! A fleet on a terminal.

use crate::print::Style;
use crate::print::numbers;
use crate::print::numbers::NO_FIGURE;
use crate::print::style::Paint;
use crate::print::table::{Cell, Column, Table};
use crate::print::text::{capital, faint, hanging, heading, listed, paragraph, plural, section};
use ringfence_analysis::estimate::Verdict;
use ringfence_analysis::hosts::FEWEST_HOSTS;
use ringfence_fleet::{LeftOut, Spec, State, Task};

use crate::fleet::cells::{MOST_FIGURES, figure_cell, more_figures};
use crate::fleet::comparison::{By, Compared};
use crate::fleet::names::{middle, next, share, shown};
use crate::fleet::overview::{Counts, Known, Overview, Summary, counts, noun};
use crate::fleet::small_fleets::{reasons, side_by_side};

/// Figures that stand beside each other where hosts are rows.
const MOST_COLUMNS: usize = 3;
/// Hosts that are named one by one.
const MOST_HOSTS: usize = 40;

/// Each task, and all of them in a line.
pub fn status(spec: &Spec, tasks: &[Task], style: &Style) -> String {
    let mut out = String::new();
    let mut table = Table::new(vec![
        Column::right("task"),
        Column::left("state"),
        Column::left("node"),
        Column::left("since"),
        Column::text("", 24),
    ]);
    for task in tasks {
        let paint = match task.state {
            State::Done => Paint::Good,
            State::Failed | State::Missing => Paint::Bad,
            State::Running | State::Waiting | State::Unknown => Paint::Caution,
        };
        let tried = match task.attempts.len() {
            0 | 1 => String::new(),
            more => format!("{more} attempts"),
        };
        let said: Vec<&str> =
            [task.reason.as_deref(), Some(tried.as_str())].into_iter().flatten().collect();
        let said: Vec<&str> = said.into_iter().filter(|text| !text.is_empty()).collect();
        let since = task.ended.as_ref().or(task.started.as_ref());
        table.row(vec![
            Cell::new(task.number.to_string()),
            Cell::painted(task.state.word(), paint),
            Cell::new(task.node.as_deref().unwrap_or(NO_FIGURE)),
            // To the second; UTC.
            Cell::new(
                since.map_or(NO_FIGURE.into(), |at| at.get(..19).unwrap_or(at).replace('T', " ")),
            ),
            Cell::new(said.join("; ")),
        ]);
    }
    out.push_str(&table.render(style));
    section(&mut out);
    let all = plural(tasks.len(), "task");
    let line = format!("{all} of {}: {}; times are UTC", spec.line(), states(tasks));
    paragraph(&mut out, 0, &line, style);
    out
}

/// How many tasks are where: `3 done, 1 waiting`.
pub fn states(tasks: &[Task]) -> String {
    let Counts { done, running, waiting, failed, missing, unknown, .. } = counts(tasks);
    let parts = [
        (done, "done"),
        (running, "running"),
        (waiting, "waiting"),
        (failed, "failed"),
        (missing, "missing"),
        (unknown, "unknown"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    parts.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

/// The whole report.
pub fn text(overview: &Overview, compared: Option<&Compared>, style: &Style) -> String {
    let mut out = String::new();
    head(&mut out, overview, style);
    for place in 0..overview.groups.len() {
        section(&mut out);
        heading(&mut out, &group_title(overview, place), style);
        let mut of_group: Vec<&Summary> =
            overview.figures.iter().filter(|summary| summary.group == place).collect();
        if let Some(few) = too_few(overview, place) {
            paragraph(&mut out, 2, &few, style);
        }
        if overview.groups[place].hosts.len() < FEWEST_HOSTS {
            out.push_str(&side_by_side(overview, place, &of_group, style));
        } else {
            of_group.sort_by(|a, b| notable(b).total_cmp(&notable(a)));
            let most = &of_group[..of_group.len().min(MOST_FIGURES)];
            out.push_str(&summaries(most, overview.noun(), style));
            more_figures(&mut out, of_group.len() - most.len(), style);
            section(&mut out);
            out.push_str(&by_host(overview, most, style));
        }
        reasons(&mut out, &of_group, style);
    }
    outliers(&mut out, overview, style);
    if !overview.claims.is_empty() {
        section(&mut out);
        heading(&mut out, &format!("On how many {}s does it hold?", overview.noun()), style);
        for claim in overview.claims.iter().take(MOST_FIGURES) {
            paragraph(&mut out, 2, &claim.sentence, style);
        }
        if overview.claims.len() > MOST_FIGURES {
            faint(&mut out, &format!("{} more", overview.claims.len() - MOST_FIGURES), style);
        }
    }
    if let Some(compared) = compared {
        section(&mut out);
        out.push_str(&changes(compared, style));
    }
    section(&mut out);
    faint(&mut out, &legend(overview), style);
    out
}

fn legend(overview: &Overview) -> String {
    let noun = overview.noun();
    let counts = format!(
        "Outliers, and the counts of {noun}s, have intervals that hold for all {noun}s at once."
    );
    if overview.are_few() {
        return format!("[lo, hi]: 95 %. {counts}");
    }
    format!(
        "[lo, hi]: 95 %. middle: of {noun}s of this kind; next {noun}: where its true figure will \
         be; \
         between: how much {noun}s differ; within: how well one {noun}'s figure is known. {counts}"
    )
}

/// What so few hosts do not tell.
pub(crate) fn few(hosts: usize, noun: &str) -> String {
    let say = if hosts == 1 { "says" } else { "say" };
    format!(
        "{} {say} nothing of the next {noun}, nor which {noun} differs from the others: that takes \
         {FEWEST_HOSTS}.",
        capital(&plural(hosts, noun)),
    )
}

/// What can be said of a fleet in few lines.
fn head(out: &mut String, overview: &Overview, style: &Style) {
    if let Some(machine) = &overview.simulated {
        heading(out, &format!("SIMULATED on {machine}: no figure here was measured"), style);
    }
    let Counts { all, done, running, waiting, .. } = overview.tasks;
    let mut line = format!("{done} of {all} done");
    for (count, what) in [(running, "running"), (waiting, "waiting")] {
        if count > 0 {
            line += &format!(", {count} {what}");
        }
    }
    hanging(out, "tasks        ", None, &line, style);
    for lost in &overview.lost {
        let node = lost.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
        let why = lost.reason.as_deref().unwrap_or("reason unknown");
        let line = format!("task {}{node}: {}: {why}", lost.task, lost.state.word());
        hanging(out, "without      ", Some(Paint::Bad), &line, style);
    }
    for left in &overview.left_out {
        hanging(out, "left out     ", Some(Paint::Bad), &left_out(left), style);
    }
    if overview.one_machine {
        let runs = format!("{} of one machine", plural(overview.hosts.len(), "run"));
        hanging(out, "runs         ", None, &runs, style);
    } else {
        let hosts =
            format!("{} in {}", overview.hosts.len(), plural(overview.groups.len(), "group"));
        hanging(
            out,
            "hosts        ",
            None,
            &format!("{hosts} by {}", overview.by.join(", ")),
            style,
        );
    }
    let (busy, more) = overview.busy();
    let more = (more > 0)
        .then(|| format!("{more} more {}s: see column 'busy' of the table", overview.noun()));
    for line in busy.into_iter().map(|(node, why)| format!("{node}: {why}")).chain(more) {
        hanging(out, "busy         ", Some(Paint::Caution), &line, style);
    }
    for not_run in &overview.not_run {
        let line = format!(
            "{} on {}: {}",
            plural(not_run.cases, "case"),
            nodes(overview, &not_run.hosts),
            not_run.reason
        );
        hanging(out, "not run      ", None, &line, style);
    }
}

/// A task whose figures cannot be had, in a sentence.
pub fn left_out(left: &LeftOut) -> String {
    let LeftOut { task, node, reason } = left;
    let node = node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
    format!("task {task}{node}: {reason}")
}

fn nodes(overview: &Overview, hosts: &[usize]) -> String {
    match hosts {
        few if few.len() <= 6 => {
            let names: Vec<&str> =
                few.iter().map(|host| overview.hosts[*host].node.as_str()).collect();
            listed(&names, "and")
        }
        many => plural(many.len(), overview.noun()),
    }
}

pub(crate) fn group_title(overview: &Overview, place: usize) -> String {
    let group = &overview.groups[place];
    let name = if group.name.is_empty() {
        format!("all {}s", overview.noun())
    } else {
        group.name.clone()
    };
    format!("{name}: {}", plural(group.hosts.len(), overview.noun()))
}

/// Most first: outliers, then by how much hosts differ beyond what each is uncertain.
pub(crate) fn notable(summary: &Summary) -> f64 {
    let differ = summary.expected.map_or(0.0, |expected| expected.share_between);
    let harm = if summary.figure == "slowdown" { 0.5 } else { 0.0 };
    summary.outliers.len() as f64 * 10.0 + differ + harm
}

fn summaries(all: &[&Summary], noun: &str, style: &Style) -> String {
    let mut table = Table::new(vec![
        Column::text("figure", 24),
        Column::right(format!("{noun}s")),
        Column::right("middle"),
        Column::left(""),
        Column::left(format!("next {noun}")),
        Column::right("between"),
        Column::right("within"),
        Column::right("outliers"),
    ]);
    for summary in all {
        table.row(summary_row(summary).into_iter().map(Cell::new).collect());
    }
    table.render(style)
}

fn known(summary: &Summary) -> usize {
    summary.hosts.iter().filter(|host| matches!(host.figure, Known::Figure(_))).count()
}

/// Why nothing is said of the next host of a group, or not by all figures.
pub(crate) fn too_few(overview: &Overview, place: usize) -> Option<String> {
    let (hosts, noun) = (overview.groups[place].hosts.len(), overview.noun());
    if hosts < FEWEST_HOSTS {
        return Some(few(hosts, noun));
    }
    let lacking = |summary: &&Summary| summary.group == place && known(summary) < FEWEST_HOSTS;
    let figures = overview.figures.iter().filter(lacking).count();
    (figures > 0).then(|| {
        let figures = plural(figures, "figure");
        format!(
            "Nothing is said of the next {noun} where fewer than {FEWEST_HOSTS} have the figure: \
             {figures}."
        )
    })
}

/// The cells of a summary: what it is, hosts, middle, its interval, next host, between, within,
/// outliers.
pub(crate) fn summary_row(summary: &Summary) -> Vec<String> {
    let mut row = vec![summary.name.clone(), known(summary).to_string()];
    match &summary.expected {
        Some(expected) => {
            let middle = shown(&summary.of, &middle(expected));
            let next = shown(&summary.of, &next(expected));
            row.extend([
                middle.value,
                middle.interval,
                next.interval,
                share(expected.between),
                share(expected.within),
            ]);
        }
        None => row.extend([
            NO_FIGURE.to_owned(),
            String::new(),
            NO_FIGURE.into(),
            NO_FIGURE.into(),
            NO_FIGURE.into(),
        ]),
    }
    row.push(if summary.outliers.is_empty() {
        String::new()
    } else {
        summary.outliers.len().to_string()
    });
    row
}

// Hosts as rows, beside each other the figures that differ most.
fn by_host(overview: &Overview, all: &[&Summary], style: &Style) -> String {
    let columns = &all[..all.len().min(MOST_COLUMNS)];
    let Some(first) = columns.first() else { return String::new() };
    let mut heads = vec![Column::left(overview.noun())];
    for column in columns {
        heads.push(Column::text(column.name.clone(), 16));
    }
    let mut table = Table::new(heads);
    for host in overview.groups[first.group].hosts.iter().take(MOST_HOSTS) {
        let mut row = vec![Cell::new(&overview.hosts[*host].node)];
        for column in columns {
            let outlying = column.outliers.iter().any(|outlier| outlier.host == *host);
            let cell = figure_cell(column, *host);
            row.push(if outlying {
                Cell::painted(cell + " !", Paint::Bad)
            } else {
                Cell::new(cell)
            });
        }
        table.row(row);
    }
    let mut out = table.render(style);
    let left = overview.groups[first.group].hosts.len().saturating_sub(MOST_HOSTS);
    if left > 0 {
        faint(
            &mut out,
            &format!("{left} {}s more: --html and --json have all", overview.noun()),
            style,
        );
    }
    out
}

fn outliers(out: &mut String, overview: &Overview, style: &Style) {
    let lines = outlier_lines(overview);
    if lines.is_empty() {
        return;
    }
    section(out);
    heading(out, &outliers_title(overview), style);
    for line in lines.iter().take(MOST_HOSTS) {
        paragraph(out, 2, line, style);
    }
    if lines.len() > MOST_HOSTS {
        faint(out, &format!("{} more", lines.len() - MOST_HOSTS), style);
    }
}

pub(crate) fn outliers_title(overview: &Overview) -> String {
    format!("{}s that the others of their kind do not let expect", capital(overview.noun()))
}

/// Every outlier in a line.
pub(crate) fn outlier_lines(overview: &Overview) -> Vec<String> {
    let of = |summary: &Summary| {
        let line = |outlier: &crate::fleet::overview::Outlying| {
            let ratio = ringfence_analysis::estimate::Interval {
                value: outlier.value,
                low: outlier.low,
                high: outlier.high,
                level: overview.level,
                trials: 0,
                spread: 0.0,
                slack: 0.0,
            };
            format!(
                "{}: {}: {}, which is {} against the others",
                overview.hosts[outlier.host].node,
                summary.name,
                figure_cell(summary, outlier.host),
                numbers::slowdown(&ratio)
            )
        };
        summary.outliers.iter().map(line).collect::<Vec<_>>()
    };
    overview.figures.iter().flat_map(of).collect()
}

/// How two groups were compared, in a sentence.
pub(crate) fn compared_how(compared: &Compared) -> String {
    let Compared { before, after, by, one_machine, hosts_before, hosts_after, .. } = compared;
    let [first, second] =
        [hosts_before, hosts_after].map(|count| plural(*count, noun(*one_machine)));
    let how = match by {
        By::Host => "each host against itself",
        By::Group => "group against group",
    };
    format!("before: {before} ({first}); after: {after} ({second}); {how}")
}

/// The cells of each change: what it is, hosts, change, its interval, verdict.
pub(crate) fn change_rows(compared: &Compared) -> Vec<Vec<String>> {
    let row = |change: &crate::fleet::comparison::Change| {
        let figure = change.change.slowdown.as_ref().map(numbers::slowdown_figure);
        let (value, interval) = figure
            .map_or((NO_FIGURE.into(), String::new()), |figure| (figure.value, figure.interval));
        let verdict = match &change.change.verdict {
            Verdict::Slower => "more".into(),
            Verdict::Faster => "less".into(),
            Verdict::NoChangeLargerThanMargin => {
                format!("within {}", numbers::percent(change.change.margin))
            }
            Verdict::Undecided { .. } => "undecided".into(),
            Verdict::NotEstimable(_) => format!("too few {}s", noun(compared.one_machine)),
        };
        let hosts = match compared.by {
            By::Host => change.hosts_before.to_string(),
            By::Group => format!("{}, {}", change.hosts_before, change.hosts_after),
        };
        vec![change.name.clone(), hosts, value, interval, verdict]
    };
    compared.changes.iter().map(row).collect()
}

fn changes(compared: &Compared, style: &Style) -> String {
    let mut out = String::new();
    heading(&mut out, "What changed", style);
    paragraph(&mut out, 2, &compared_how(compared), style);
    let mut table = Table::new(vec![
        Column::text("figure", 24),
        Column::right(format!("{}s", noun(compared.one_machine))),
        Column::right("change"),
        Column::left(""),
        Column::left("verdict"),
    ]);
    for row in change_rows(compared) {
        table.row(row.into_iter().map(Cell::new).collect());
    }
    out.push_str(&table.render(style));
    if let several @ 2.. = compared.changes.len() {
        faint(&mut out, &format!("Intervals hold for all {several} figures at once."), style);
    }
    out
}
