//! Commands run whole: which is slower, every run by its round, and what else differs.

use std::time::Duration;

use crate::versus::text::{announcement, differing, mean, notes, said, title, told};
use crate::versus::words::{
    LONGEST_IN_HEADING, headline, is_of, label, question, undecided, verdict, warnings, word,
};
use maud::{Markup, html};
use ringfence_versus::findings::{Compared, Findings, Measure, Verdict};
use ringfence_versus::run::{Quantity, Run};
use ringfence_versus::stretch::{Stretch, stretches};
use ringfence_versus::table::parameters;
use serde::Serialize;

use crate::html::document::command;
use crate::html::figure::{Chart, Figure, LOOKS, RangeRow, Ranges, Tip, legend};
use crate::html::table::{Align, table};
use crate::html::{Answer, Badge, Card, Group, Layout, Page, Section};
use crate::numbers;
use crate::numbers::{NO_FIGURE, percent, slowdown, slowdown_figure};
use crate::text::plural;

/// Points that a page has room for.
const MOST_POINTS: usize = 6_000;
/// Cards on the first screen; of more commands, only those that others are compared with have one.
const MOST_CARDS: usize = 6;
/// Undecided comparisons that are told at once; more are folded away.
const MOST_OPEN: usize = 3;
/// Letters of a command that a row of a table, and one of the first figure has room for.
const LONGEST_IN_ROW: usize = 80;
const LONGEST_IN_FIGURE: usize = 300;
/// With the colours, which are 7, these make 28 that can be told apart.
const SHAPES: [&str; 4] = ["dot", "triangle", "square", "diamond"];

/// The runs of commands that are compared with each other.
#[derive(Debug, Serialize)]
struct Drawn {
    /// Names, colours and shapes.
    cases: Vec<(String, &'static str, &'static str)>,
    /// So many rounds are warm-up.
    warm_up: u32,
    /// Command, first round, ns of the median, least and greatest run, runs, and how many of these
    /// failed.
    points: Vec<[u64; 7]>,
}

/// The page of `versus`.
pub fn versus(findings: &Findings, runs: &[Run]) -> Page {
    let began = findings.began.replacen('T', " ", 1);
    let subtitle = [Some(&findings.host), findings.label.as_ref(), Some(&began)];
    let subtitle: Vec<&str> = subtitle.into_iter().flatten().map(String::as_str).collect();
    let sections = vec![every_run(findings, runs), besides(findings), measured(findings)];
    let (runs, commands) = (plural(runs.len(), "run"), plural(findings.commands.len(), "command"));
    Page {
        title: "Versus".into(),
        subtitle: subtitle.join(" · "),
        answer: answer(findings),
        groups: vec![Group { title: None, sections }],
        footer: vec![format!("{runs} of {commands}, seed {}.", findings.settings.seed)],
        simulated: false,
    }
}

fn answer(findings: &Findings) -> Answer {
    let budget = findings.settings.budget.is_some();
    let alike = findings.comparisons.iter().all(|one| one.verdict == findings.verdict);
    let (mut sentences, open) = (warnings(findings), undecided(findings));
    let few = open.len() <= MOST_OPEN;
    let folded = (!few).then(|| {
        (format!("What would settle the {} that are undecided", open.len()), open.clone())
    });
    sentences.extend(open.into_iter().filter(|_| few));
    Answer {
        badge: (budget || alike && !findings.comparisons.is_empty()).then(|| Badge {
            word: word(findings.verdict),
            how: "",
            color: color(findings.verdict),
        }),
        question: question(findings),
        headline: headline(findings),
        cards: cards(findings),
        sentences,
        folded,
        figure: ratios(findings),
        layout: Layout::Stacked,
        ..Answer::default()
    }
}

fn color(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::WithinBudget | Verdict::Faster => "good",
        Verdict::OverBudget | Verdict::Slower => "bad",
        Verdict::Undecided | Verdict::NotEstimable => "caution",
        Verdict::NoChangeLargerThanMargin | Verdict::Alone => "other",
    }
}

fn cards(findings: &Findings) -> Vec<Card> {
    let room = findings.commands.len() <= MOST_CARDS;
    let shown = |one: &&Measure| room || judged(findings, one).is_none();
    let shown = findings.commands.iter().filter(shown).take(MOST_CARDS);
    shown.map(|measure| card(findings, measure)).collect()
}

fn judged<'a>(findings: &'a Findings, measure: &Measure) -> Option<&'a Compared> {
    findings.comparisons.iter().find(|one| is_of(measure, &one.of, one))
}

fn card(findings: &Findings, measure: &Measure) -> Card {
    let figure = |known: Option<numbers::Figure>| {
        known.map_or((NO_FIGURE.into(), String::new()), |one| (one.value, one.interval))
    };
    let time = measure.time.estimate().ok().map(|time| numbers::ns_figure(&time));
    let each = time.as_ref().map_or(String::new(), |time| format!("; {} a run", time.value));
    let one = judged(findings, measure);
    let (value, interval) = match one {
        Some(one) => figure(one.ratio.estimate().ok().map(|ratio| slowdown_figure(&ratio))),
        None => figure(time),
    };
    let alone = if findings.comparisons.is_empty() { "a run" } else { "a run; the reference" };
    let said = one.map_or(alone.into(), |one| verdict(findings, one.verdict) + &each);
    let note = format!("{interval} {said}").trim_start().into();
    let color = one.map(|one| color(one.verdict).into());
    Card { label: label(measure, LONGEST_IN_FIGURE), value, note, color, ..Card::default() }
}

fn ratios(findings: &Findings) -> Option<Markup> {
    let than = &findings.comparisons.iter().find(|one| one.ratio.estimate().is_ok())?.than;
    let whole =
        |one: &Compared| one.whole.estimate().map_or(NO_FIGURE.into(), |whole| slowdown(&whole));
    let told = |one: &Compared| {
        one.ratio.estimate().map_or_else(|_| said(findings, one), |ratio| slowdown(&ratio))
    };
    let row = |one: &Compared| {
        let ratio = one.ratio.estimate();
        let measure = findings.commands.iter().find(|measure| is_of(measure, &one.of, one));
        RangeRow {
            name: measure.map_or(one.of.clone(), |measure| label(measure, LONGEST_IN_FIGURE)),
            color: color(one.verdict).into(),
            faint: one.verdict == Verdict::Undecided,
            figure: ratio.ok().map(|ratio| [ratio.value, ratio.low, ratio.high]),
            text: ratio.map_or(NO_FIGURE.into(), |ratio| slowdown_figure(&ratio).value),
            tip: Tip::new(title(findings, one))
                .with("ratio", told(one))
                .with("verdict", verdict(findings, one.verdict))
                .with("over all rounds", whole(one)),
        }
    };
    let line = |one: &Compared| {
        let rounds =
            one.ratio.estimate().map_or(NO_FIGURE.into(), |ratio| ratio.trials.to_string());
        vec![title(findings, one), told(one), verdict(findings, one.verdict), whole(one), rounds]
    };
    let lines: Vec<Vec<String>> = findings.comparisons.iter().map(line).collect();
    let heads = [
        ("comparison", Align::Left),
        ("ratio", Align::Right),
        ("verdict", Align::Left),
        ("over all rounds", Align::Right),
        ("rounds", Align::Right),
    ];
    let heading = format!("Time of a run over that of {than}");
    let ranges = Ranges {
        axis: format!("time of a run against {than}"),
        unit: "slowdown",
        rows: findings.comparisons.iter().map(row).collect(),
        mark: findings.settings.budget.map(|budget| (1.0 + budget, "budget")),
    };
    let green = if findings.settings.budget.is_some() { " Green: within the budget." } else { "" };
    let explanation = format!(
        "Bars are intervals, which hold together in {} of such measurements, with an arrow where \
         they go on beyond the frame; faint ones are undecided.{green}",
        percent(findings.settings.confidence)
    );
    Some(ranges.figure(&heading, &explanation, table(&heading, &heads, &lines)))
}

fn every_run(findings: &Findings, runs: &[Run]) -> Section {
    let groups = findings.commands.iter().map(|measure| measure.case.group + 1).max().unwrap_or(0);
    let all = stretches(runs, MOST_POINTS);
    let warm_up = runs.iter().filter(|run| run.warm_up).map(|run| run.round).max().unwrap_or(0);
    let body = html! {
        div class={ "row" @if groups == 1 { " one" } } {
            @for group in 0..groups { (by_round(findings, &all, warm_up, group, groups > 1)) }
        }
    };
    Section { id: "runs", title: "Every run".into(), body }
}

fn by_round(
    findings: &Findings,
    all: &[Stretch],
    warm_up: u32,
    group: usize,
    several: bool,
) -> Markup {
    let own: Vec<(usize, &Measure)> = findings
        .commands
        .iter()
        .enumerate()
        .filter(|(_, measure)| measure.case.group == group)
        .collect();
    let look = |(place, (_, measure)): (usize, &(usize, &Measure))| {
        (label(measure, LONGEST_IN_ROW), LOOKS[place % LOOKS.len()].0, SHAPES[place % SHAPES.len()])
    };
    let cases: Vec<_> = own.iter().enumerate().map(look).collect();
    let point = |one: &Stretch| {
        let place = own.iter().position(|(case, _)| *case == one.case)? as u64;
        let [median, least, greatest] = one.ns;
        Some([place, one.round.into(), median, least, greatest, one.runs.into(), one.failed.into()])
    };
    let points: Vec<[u64; 7]> = all.iter().filter_map(point).collect();
    let mut explanation = match all.iter().map(|one| one.runs).max() {
        None | Some(1) => "A point for each run.".to_string(),
        Some(most) => {
            format!(
                "A point is the median of up to {most} runs in a row, its bar reaches from the \
                 least to the greatest."
            )
        }
    };
    if own.len() > 1 {
        explanation += " Where all commands rise and fall together, the machine does; what one \
                        does alone is its own.";
    }
    if warm_up > 0 {
        explanation += " Faint, left of the line: warm-up, which is in no figure.";
    }
    if findings.shell_start.as_ref().is_some_and(|start| start.estimate().is_ok()) {
        explanation += " The time that the shell takes to start is subtracted.";
    }
    let set = own.first().map_or(String::new(), |(_, measure)| parameters(&measure.case));
    let title = if several { format!("Time by round, {set}") } else { "Time by round".into() };
    let heads =
        ["command", "runs", "a run takes", "mean", "deviation", "median", "least", "greatest"];
    let heads =
        heads.map(|head| (head, if head == "command" { Align::Left } else { Align::Right }));
    let line = |(_, measure): &(usize, &Measure)| {
        let time =
            measure.time.estimate().map_or(NO_FIGURE.into(), |time| numbers::ns_interval(&time));
        let all = measure.described.map(|all| {
            [Some(all.mean), all.stddev, Some(all.median), Some(all.min), Some(all.max)]
        });
        let shown = |time: Option<f64>| time.map_or(NO_FIGURE.into(), numbers::ns);
        let first = [label(measure, LONGEST_IN_ROW), measure.runs.to_string(), time];
        first.into_iter().chain(all.unwrap_or_default().map(shown)).collect()
    };
    let lines: Vec<Vec<String>> = own.iter().map(line).collect();
    Figure {
        title: &title,
        explanation: &explanation,
        legend: legend(cases.iter().map(|(name, color, shape)| (*shape, *color, name.as_str()))),
        chart: &Chart::new("runs", Drawn { cases: cases.clone(), warm_up, points }),
        height: 330,
        table: table(&title, &heads, &lines),
    }
    .render()
}

fn besides(findings: &Findings) -> Section {
    let mut found = Quantity::OTHERS.to_vec();
    found.retain(|quantity| findings.commands.iter().any(|one| mean(one, *quantity).is_some()));
    let means =
        by_quantity("command", &found, &findings.commands, |measure, quantity| match quantity {
            None => Some(label(measure, LONGEST_IN_ROW)),
            Some(quantity) => mean(measure, quantity).or(Some(NO_FIGURE.into())),
        });
    let ratio = |one: &Compared, quantity| {
        differing(one).find(|(other, _)| *other == quantity).map(|(_, ratio)| slowdown(&ratio))
    };
    found.retain(|quantity| findings.comparisons.iter().any(|one| ratio(one, *quantity).is_some()));
    let ratios =
        by_quantity("comparison", &found, &findings.comparisons, |one, quantity| match quantity {
            None => Some(title(findings, one)),
            Some(quantity) => ratio(one, quantity),
        });
    let at_most =
        |one: &Measure| mean(one, Quantity::PeakMemory).is_some_and(|mean| mean.starts_with("<="));
    let body = html! {
        p {
            "Means over runs" @if findings.shell_start.is_some() { "; times without the shell's \
                start" } "."
            @if findings.commands.iter().any(at_most) {
                " <= is before a peak of memory that is no higher than that of the process that \
                 starts a command."
            }
        }
        (means)
        @if findings.comparisons.is_empty() {}
        @else if found.is_empty() { p { "None of these differs: every interval includes 1." } }
        @else {
            p { "Ratios whose interval excludes 1." }
            (ratios)
        }
    };
    let title =
        if findings.comparisons.is_empty() { "What else was counted" } else { "What else differs" };
    Section { id: "besides", title: title.into(), body }
}

// A row for each, what it is in the first column.
fn by_quantity<T>(
    what: &str,
    quantities: &[Quantity],
    rows: &[T],
    cell: impl Fn(&T, Option<Quantity>) -> Option<String>,
) -> Markup {
    let heads = quantities.iter().map(|quantity| (quantity.name(), Align::Right));
    let heads: Vec<_> = std::iter::once((what, Align::Left)).chain(heads).collect();
    let columns = || std::iter::once(None).chain(quantities.iter().copied().map(Some));
    let line = |row: &T| columns().map(|column| cell(row, column).unwrap_or_default()).collect();
    let lines: Vec<Vec<String>> = rows.iter().map(line).collect();
    table(&format!("What else was counted, by {what}"), &heads, &lines)
}

fn measured(findings: &Findings) -> Section {
    let time = numbers::duration(Duration::from_secs_f64(findings.seconds));
    let rounds = match findings.commands.len() {
        1 => format!("{} in {time}, warm-up included", plural(findings.rounds as usize, "run")),
        _ => format!(
            "{} in {time}, warm-up included; in each, every command ran once, next to what it is \
             compared with, in random order",
            plural(findings.rounds as usize, "round")
        ),
    };
    let facts = [
        ("machine", Some(findings.host.clone())),
        (if findings.commands.len() == 1 { "runs" } else { "rounds" }, Some(rounds)),
        ("said at first", findings.announced.map(|said| announcement(&said, &findings.settings))),
        ("at the end", findings.reached.map(|reached| told(&reached))),
    ];
    let body = html! {
        @for note in notes(findings) { p { (note) } }
        dl {
            @for (name, fact) in facts { @if let Some(fact) = fact { dt { (name) } dd { (fact) } } }
            @for measure in &findings.commands {
                @let whole = measure.case.name == measure.case.command;
                @let own = if whole { 0 } else { LONGEST_IN_HEADING };
                dt { (label(measure, own)) }
                dd { (command(&measure.case.command)) }
            }
        }
    };
    Section { id: "measured", title: "How it was measured".into(), body }
}
