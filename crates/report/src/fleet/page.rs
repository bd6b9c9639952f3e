//! A fleet as an HTML page.

use crate::html::{
    Align, Answer, Card, Group, Layout, Page, RangeRow, Ranges, Section, Tip, table,
};
use crate::print::text::{capital, clean, plural};
use maud::{Markup, html};
use ringfence_fleet::Spec;

use crate::fleet::cells::figure_cell;
use crate::fleet::comparison::Compared;
use crate::fleet::names::{middle, shown};
use crate::fleet::overview::{Host, Known, Overview, Summary};
use crate::fleet::text::{
    change_rows, compared_how, few, group_title, left_out, notable, outlier_lines, outliers_title,
    summary_row, too_few,
};

/// Pictures of a group, of the figures that differ most.
const MOST_PICTURES: usize = 4;
/// Rows of a picture.
const MOST_ROWS: usize = 60;
/// Cells of the table of hosts; of a larger fleet the figures that differ most.
const MOST_CELLS: usize = 20_000;

/// Hosts, figures, outliers, what is to be expected, and what changed.
pub fn page(spec: &Spec, overview: &Overview, compared: Option<&Compared>) -> Page {
    let mut groups: Vec<Group> = Vec::new();
    if let Some(compared) = compared {
        groups.push(Group { title: None, sections: vec![changed(compared)] });
    }
    let outliers = outlier_lines(overview);
    if !outliers.is_empty() {
        let body = html! { ul { @for line in &outliers { li { (clean(line)) } } } };
        let title = outliers_title(overview);
        groups.push(Group { title: None, sections: vec![Section { id: "outliers", title, body }] });
    }
    for place in 0..overview.groups.len() {
        groups.push(Group {
            title: Some(clean(&group_title(overview, place))),
            sections: of_group(overview, place),
        });
    }
    groups.push(Group { title: None, sections: vec![facts(overview)] });
    Page {
        title: "Fleet".into(),
        subtitle: clean(&format!("{} · {}", spec.line(), spec.created)),
        answer: answer(overview),
        groups,
        footer: vec![footer(overview)],
        simulated: overview.simulated.is_some(),
    }
}

fn footer(overview: &Overview) -> String {
    let noun = overview.noun();
    if overview.are_few() {
        return "Bars are intervals of 95 %.".into();
    }
    format!(
        "The middle of {noun}s of a kind has the interval of Hartung and Knapp, what to expect of \
         the next {noun} is a \
         prediction interval for its true figure; both are of 95 %. Outliers are found by the \
         generalized extreme studentized \
         deviate, at 5 % for the whole page."
    )
}

fn answer(overview: &Overview) -> Answer {
    let claims = overview.claims.iter().filter(|claim| !claim.above.is_empty());
    let differing = {
        let mut nodes: Vec<usize> = overview
            .figures
            .iter()
            .flat_map(|summary| &summary.outliers)
            .map(|outlier| outlier.host)
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.len()
    };
    let noun = overview.noun();
    let headline = match (overview.hosts.len(), differing) {
        (0, _) => format!("No {noun} has figures yet."),
        (hosts, _) if overview.are_few() => few(hosts, noun),
        (hosts, 0) => format!("No {noun} of {hosts} is an outlier among its kind."),
        (hosts, some) => {
            format!("{some} of {} differ from others of their kind.", plural(hosts, noun))
        }
    };
    let lost = overview.lost.iter().map(|lost| {
        let node = lost.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
        let why = lost.reason.as_deref().unwrap_or("reason unknown");
        clean(&format!("Task {}{node} {}: {why}.", lost.task, lost.state.word()))
    });
    let left_out =
        overview.left_out.iter().map(|left| clean(&format!("Left out: {}.", left_out(left))));
    let (busy, more) = overview.busy();
    let more = (more > 0)
        .then(|| format!("{more} more of the {noun}s were busy too: see what the hosts are."));
    let busy =
        busy.into_iter().map(|(node, why)| clean(&format!("{node} was busy: {why}."))).chain(more);
    let not_run = overview.not_run.iter().map(|not_run| {
        clean(&format!(
            "{} on {} not run: {}.",
            capital(&plural(not_run.cases, "case")),
            plural(not_run.hosts.len(), noun),
            not_run.reason
        ))
    });
    Answer {
        question: match overview.one_machine {
            true => "How far do runs on one machine differ?".into(),
            false => "Which hosts differ, and what is to be expected of the next?".into(),
        },
        headline,
        cards: cards(overview),
        sentences: lost
            .chain(left_out)
            .chain(claims.map(|claim| clean(&claim.sentence)))
            .chain(busy)
            .chain(not_run)
            .collect(),
        layout: Layout::Stacked,
        ..Answer::default()
    }
}

fn cards(overview: &Overview) -> Vec<Card> {
    let tasks = &overview.tasks;
    let card = |label: &str, value: usize, note: String| Card {
        label: label.into(),
        value: value.to_string(),
        note,
        ..Card::default()
    };
    vec![
        card("tasks done", tasks.done, format!("of {}", tasks.all)),
        card(
            "without figures",
            tasks.failed + tasks.missing + tasks.unknown + overview.left_out.len(),
            format!("{} still to come", tasks.running + tasks.waiting),
        ),
        match overview.one_machine {
            true => card("runs", overview.hosts.len(), "of one machine".into()),
            false => card(
                "hosts",
                overview.hosts.len(),
                format!("in {}", plural(overview.groups.len(), "group")),
            ),
        },
    ]
}

fn of_group(overview: &Overview, place: usize) -> Vec<Section> {
    let all: Vec<&Summary> =
        overview.figures.iter().filter(|summary| summary.group == place).collect();
    let mut sorted = all.clone();
    sorted.sort_by(|a, b| notable(b).total_cmp(&notable(a)));
    let noun = overview.noun();
    let heads = [
        "figure".to_owned(),
        format!("{noun}s"),
        "middle".into(),
        "95 %".into(),
        format!("next {noun}"),
        format!("between {noun}s"),
        format!("within a {noun}"),
        "outliers".into(),
    ];
    let align = |column: usize| if column == 0 { Align::Left } else { Align::Right };
    let heads: Vec<(&str, Align)> =
        heads.iter().enumerate().map(|(column, head)| (head.as_str(), align(column))).collect();
    let rows: Vec<Vec<String>> = all.iter().map(|summary| summary_row(summary)).collect();
    let title = match overview.one_machine {
        true => "What to expect of further runs",
        false => "What to expect of hosts of this kind",
    };
    let body = html! {
        @if let Some(few) = too_few(overview, place) { p class="note" { (few) } }
        (table(title, &heads, &rows))
    };
    let expected = Section { id: "expected", title: title.into(), body };
    let own = overview.groups[place].hosts.len();
    let is_small = own < ringfence_analysis::hosts::FEWEST_HOSTS;
    let pictures = html! {
        // What the headline says of all of them is not said of each group.
        @if is_small && !overview.are_few() { p class="note" { (few(own, noun)) } }
        @for summary in sorted.iter().take(MOST_PICTURES) { (picture(overview, summary)) }
    };
    let title = if is_small { "Figures" } else { "Figures that differ most" };
    let pictures = Section { id: "pictures", title: title.into(), body: pictures };
    let hosts = hosts(overview, place, &sorted);
    if is_small { vec![pictures, hosts] } else { vec![expected, pictures, hosts] }
}

// A row a host, with its own interval, and the middle of all.
fn picture(overview: &Overview, summary: &Summary) -> Markup {
    let mut rows = Vec::new();
    // Those far from the middle are shown, where not all can be.
    let far = |figure: &Known| match (figure, &summary.expected) {
        (Known::Figure(figure), Some(expected)) => (figure.value / expected.value).ln().abs(),
        _ => 0.0,
    };
    let mut hosts: Vec<_> = summary.hosts.iter().collect();
    hosts.sort_by(|a, b| far(&b.figure).total_cmp(&far(&a.figure)));
    hosts.truncate(MOST_ROWS);
    hosts.sort_by_key(|one| one.host);
    for one in hosts {
        let Known::Figure(interval) = &one.figure else { continue };
        let outlying = summary.outliers.iter().any(|outlier| outlier.host == one.host);
        let host = &overview.hosts[one.host];
        let name = clean(&host.node);
        let figure = shown(&summary.of, interval);
        let fact = |name: &str| host.facts.get(name).cloned().unwrap_or_default();
        rows.push(RangeRow {
            color: if outlying { "bad" } else { "other" }.into(),
            faint: false,
            figure: Some([interval.value, interval.low, interval.high]),
            text: figure.value.clone(),
            tip: Tip::new(&name)
                .with("figure", figure.to_string())
                .with("kernel", clean(&fact("kernel")))
                .with("microcode", clean(&fact("microcode"))),
            name,
        });
    }
    let noun = overview.noun();
    let left = summary.hosts.len().saturating_sub(rows.len());
    let mut explanation = match &summary.expected {
        Some(expected) => format!(
            "Bars are each {noun}'s own interval; the middle of them is {}.",
            shown(&summary.of, &middle(expected))
        ),
        None => format!("Bars are each {noun}'s own interval."),
    };
    if left > 0 {
        explanation += &format!(" {left} {noun}s near the middle are not drawn.");
    }
    let slowdown = summary.figure == "slowdown";
    let unit = if slowdown { "slowdown" } else { "ns" };
    let axis = if slowdown {
        "ratio of times".to_owned()
    } else {
        format!("time per unit of work ({})", summary.unit)
    };
    let numbers: Vec<Vec<String>> = summary
        .hosts
        .iter()
        .map(|one| vec![overview.hosts[one.host].node.clone(), figure_cell(summary, one.host)])
        .collect();
    let numbers = table(&summary.name, &[(noun, Align::Left), ("figure", Align::Right)], &numbers);
    Ranges { axis, unit, rows, mark: None }.figure(&clean(&summary.name), &explanation, numbers)
}

fn hosts(overview: &Overview, place: usize, sorted: &[&Summary]) -> Section {
    let own = &overview.groups[place].hosts;
    let columns = &sorted[..sorted.len().min((MOST_CELLS / own.len().max(1)).max(1))];
    let mut heads = vec![(overview.noun(), Align::Left)];
    heads.extend(columns.iter().map(|summary| (summary.name.as_str(), Align::Right)));
    // A look at each host's figure by its place: there may be a thousand of both.
    let mut cells = vec![vec![String::from("-"); columns.len() + 1]; own.len()];
    for (row, host) in own.iter().enumerate() {
        cells[row][0] = overview.hosts[*host].node.clone();
    }
    for (column, summary) in columns.iter().enumerate() {
        for one in &summary.hosts {
            if let (Ok(row), Known::Figure(interval)) = (own.binary_search(&one.host), &one.figure)
            {
                cells[row][column + 1] = shown(&summary.of, interval).to_string();
            }
        }
    }
    let left = sorted.len() - columns.len();
    let body = html! {
        @if left > 0 { p class="note" { (left) " figures more are in the table of the fleet." } }
        (table(&format!("Each {}", overview.noun()), &heads, &cells))
    };
    let title = if overview.one_machine { "Run by run" } else { "Host by host" };
    Section { id: "hosts", title: title.into(), body }
}

fn changed(compared: &Compared) -> Section {
    let heads = [
        ("figure", Align::Left),
        (if compared.one_machine { "runs" } else { "hosts" }, Align::Right),
        ("change", Align::Right),
        ("interval", Align::Right),
        ("verdict", Align::Left),
    ];
    let body = html! {
        p { (clean(&capital(&compared_how(compared)))) ". Intervals hold for all figures at once." }
        (table("What changed", &heads, &change_rows(compared)))
    };
    Section { id: "changed", title: "What changed".into(), body }
}

fn facts(overview: &Overview) -> Section {
    let names: Vec<&str> =
        crate::fleet::overview::facts().into_iter().filter(|name| *name != "node").collect();
    let of = |host: &Host, name: &str| host.facts.get(name).cloned().unwrap_or_default();
    // What is the same on all is a sentence; a column of it says nothing.
    let first = overview.hosts.first();
    let (same, unlike): (Vec<&str>, Vec<&str>) = names.into_iter().partition(|name| {
        first.is_some_and(|first| {
            overview.hosts.iter().all(|host| of(host, name) == of(first, name))
        })
    });
    let shared: Vec<String> = same
        .into_iter()
        .filter_map(|name| Some((name, of(first?, name))))
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    let mut heads = vec![(overview.noun(), Align::Left), ("task", Align::Right)];
    heads.extend(unlike.iter().map(|name| (*name, Align::Left)));
    let rows: Vec<Vec<String>> = overview
        .hosts
        .iter()
        .map(|host| {
            let mut row = vec![host.node.clone(), host.task.to_string()];
            row.extend(unlike.iter().map(|name| of(host, name)));
            row
        })
        .collect();
    let body = html! {
        @if !shared.is_empty() { p { "The same on all: " (clean(&shared.join("; "))) "." } }
        (table("What the hosts are", &heads, &rows))
    };
    Section { id: "facts", title: "What the hosts are".into(), body }
}
