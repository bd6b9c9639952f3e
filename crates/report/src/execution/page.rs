//! The page of a trace: what a recorded program executed, what of it was needless or missing, and
//! what other instructions would change.

use crate::execution::text as executed;
use crate::execution::text::{FIGURES, Told};
use maud::html;
use ringfence_machine::units::Bytes;
use ringfence_trace::census::dynamic::checked::{Changed, Checked, Figure};
use ringfence_trace::census::dynamic::saving::Saving;
use ringfence_trace::census::dynamic::{AtPlace, Finding, Run};
use ringfence_trace::events::Location;

use crate::html::figure::{RangeRow, Ranges, Tip};
use crate::html::table::{Align, table};
use crate::html::{Answer, Card, Group, Page, Section};
use crate::numbers;
use crate::numbers::{count, percent};
use crate::text::capital;

// The most rows of a table, so that it stays readable; JSON has all.
const MOST_PLACES: usize = 50;

/// The page.
pub fn page(told: &Told) -> Page {
    let run = told.run;
    let command = if run.command.is_empty() { "a program".into() } else { run.command.join(" ") };
    let sections = [
        told.checked.map(checked),
        told.saving.and_then(|saving| saving.as_ref().ok()).map(costs),
        files(run),
        operations(run),
        places("instructions", "Which instructions", "instruction", &run.sites),
        (run.callers != run.sites)
            .then(|| places("callers", "Callers", "called from", &run.callers))
            .flatten(),
        needless_lines(run),
        findings(run),
    ];
    let footer =
        "Counted over a whole recording, so that counts have no intervals; times have, at 95 %.";
    Page {
        title: "Census".into(),
        subtitle: executed::ending(run),
        answer: answer(&command, told),
        groups: vec![Group { title: None, sections: sections.into_iter().flatten().collect() }],
        footer: vec![footer.into()],
        simulated: false,
    }
}

fn answer(command: &str, told: &Told) -> Answer {
    let (run, total) = (told.run, &told.run.total);
    let (flushes, fences) = (total.flushes(), total.sfence + total.mfence);
    let left = total.unflushed_lines + total.unfenced_lines;
    let card = |label: &str, value: u64, note: String, color: &str| Card {
        label: label.into(),
        value: count(value),
        note,
        color: Some(color.into()),
        ..Card::default()
    };
    let of = |part: u64, whole: u64, what: &str| match (part, whole) {
        (_, 0) => String::new(),
        (0, _) => format!("none {what}"),
        _ => format!("{} {what}: {}", count(part), percent(part as f64 / whole as f64)),
    };
    let most = [("clwb", total.clwb), ("clflushopt", total.clflushopt), ("clflush", total.clflush)];
    let most = most.into_iter().max_by_key(|(_, count)| *count).map_or("other", |(name, _)| name);
    let cards = vec![
        card("flushes", flushes, of(total.needless_flushes(), flushes, "needless"), most),
        card(
            "fences",
            fences,
            of(total.idle_fences, fences, "with nothing to wait for in these files"),
            "other",
        ),
        card(
            "lines not durable at the end",
            left,
            executed::left(run),
            match (run.uncertain.is_empty(), left) {
                (false, _) => "other",
                (true, 0) => "good",
                (true, _) => "bad",
            },
        ),
    ];
    let headline =
        if run.events == 0 { executed::nothing(run).into() } else { executed::sentence(total) };
    let needless = executed::needless(total).into_iter().map(|text| format!("{}.", capital(&text)));
    let notes = run.notes.iter().map(|note| format!("{}.", capital(note)));
    let sentences = needless.chain(told.checked.map(executed::in_words)).chain(notes);
    Answer {
        question: format!("What does {command} do to make its stores durable?"),
        headline,
        cards,
        sentences: sentences.collect(),
        figure: None,
        layout: crate::html::Layout::Across,
        ..Answer::default()
    }
}

// Ratios to the run as it was recorded, so that what is small looks so.
fn checked(checked: &Checked) -> Section {
    let run = checked.run.known().map_or(f64::NAN, |cost| cost.ns);
    let row = |one: &Changed, kind: &str, figure: &Figure, color: &str| {
        let cost = figure.known().filter(|_| run > 0.0);
        let ratio = cost.map(|cost| [cost.ns, cost.low, cost.high].map(|ns| 1.0 + ns / run));
        // A part of a run cannot take longer than all of it, but for noise.
        let ratio = ratio.filter(|ratio| ratio.iter().all(|one| *one > 0.0));
        let name = format!("{}, {kind}", one.change.words());
        RangeRow {
            color: color.into(),
            faint: ratio.is_none_or(|[_, low, high]| low <= 1.0 && 1.0 <= high),
            figure: ratio,
            text: ratio.map_or("?".into(), |[ratio, ..]| numbers::change(ratio)),
            tip: Tip::new(&name)
                .with("of a run", cost.map_or("not known".into(), executed::change)),
            name,
        }
    };
    let rows: Vec<RangeRow> = checked
        .changes
        .iter()
        .flat_map(|one| {
            [("predicted", &one.predicted, "other"), ("measured", &one.measured, "clwb")]
                .map(|(kind, figure, color)| row(one, kind, figure, color))
        })
        // Why some are missing is said in the table.
        .filter(|row| row.figure.is_some())
        .collect();
    let text = |figure: &Figure| match figure {
        Figure::Known(cost) => executed::change(cost),
        Figure::NotRun { not_run } => format!("not run, because {not_run}"),
    };
    let lines: Vec<Vec<String>> = checked
        .changes
        .iter()
        .map(|one| {
            let (predicted, measured) = (text(&one.predicted), text(&one.measured));
            vec![
                one.change.words().into(),
                predicted,
                measured,
                executed::agreement(one).into(),
                one.environment.clone(),
            ]
        })
        .collect();
    let heads = [
        ("change", Align::Left),
        ("predicted", Align::Right),
        ("measured", Align::Right),
        ("intervals", Align::Left),
        ("by", Align::Left),
    ];
    let title = "Processor time of a run, to that as recorded";
    let numbers = table(title, &heads, &lines);
    let ranges = Ranges {
        axis: "processor time, to that as recorded".into(),
        unit: "slowdown",
        rows,
        mark: None,
    };
    let body = html! {
        p { (executed::how(checked)) }
        (ranges.figure(title, "Bars are intervals; faint ones may be no change.", numbers))
    };
    Section { id: "changes", title: "What other instructions would change".into(), body }
}

fn costs(saving: &Saving) -> Section {
    let heads = [("method", Align::Left), ("time", Align::Right), ("bounds", Align::Right)];
    let rows: Vec<Vec<String>> = saving
        .predicted
        .iter()
        .map(|one| {
            let bounds = format!(
                "{} to {}",
                executed::signed(one.cost.low),
                executed::signed(one.cost.high)
            );
            vec![
                one.method.clone().unwrap_or("as recorded".into()),
                executed::signed(one.cost.ns),
                bounds,
            ]
        })
        .collect();
    let title = executed::title(saving);
    let body = html! {
        p { "By the survey's costs, line by line and fence by fence; what was needless is left \
             out." }
        (table(&title, &heads, &rows))
    };
    Section { id: "costs", title, body }
}

fn files(run: &Run) -> Option<Section> {
    let body = html! {
        ul { @for file in executed::files(run) { li { (file) } } }
        @if let Some(note) = executed::medium_note(run) { p { (note) } }
    };
    (!run.files.is_empty()).then(|| Section {
        id: "files",
        title: "Which files were recorded".into(),
        body,
    })
}

fn operations(run: &Run) -> Option<Section> {
    let heads = [("what", Align::Left), ("times", Align::Right), ("bytes", Align::Right)];
    let rows: Vec<Vec<String>> = executed::operations(&run.total)
        .map(|(name, times, bytes)| {
            let bytes = bytes.map_or(String::new(), |bytes| Bytes(bytes).to_string());
            vec![name.into(), count(times), bytes]
        })
        .collect();
    let body = html! { (table("What was executed", &heads, &rows)) };
    (!rows.is_empty()).then(|| Section {
        id: "operations",
        title: "What was executed".into(),
        body,
    })
}

fn places(id: &'static str, title: &str, head: &str, rows: &[AtPlace]) -> Option<Section> {
    let rows: Vec<&AtPlace> =
        rows.iter().filter(|row| FIGURES.iter().any(|(_, get)| get(&row.executed) > 0)).collect();
    let there = FIGURES.iter().filter(|(_, get)| rows.iter().any(|row| get(&row.executed) > 0));
    let there: Vec<_> = there.collect();
    let mut heads = vec![(head, Align::Left)];
    heads.extend(there.iter().map(|(name, _)| (*name, Align::Right)));
    let lines: Vec<Vec<String>> = rows
        .iter()
        .take(MOST_PLACES)
        .map(|row| {
            let name =
                row.location.as_ref().map_or_else(|| "not known".into(), Location::to_string);
            let figures = there.iter().map(|(_, get)| match get(&row.executed) {
                0 => ".".into(),
                many => count(many),
            });
            std::iter::once(name).chain(figures).collect()
        })
        .collect();
    let more = rows.len().saturating_sub(MOST_PLACES);
    let body = html! {
        (table(title, &heads, &lines))
        @if more > 0 { p { "The \
                            busiest " (MOST_PLACES) " of " (count(rows.len() as u64)) "; --json \
                                has all." } }
    };
    (!rows.is_empty()).then(|| Section { id, title: title.into(), body })
}

fn needless_lines(run: &Run) -> Option<Section> {
    if run.needless_lines.is_empty() && run.pool_making.is_none() {
        return None;
    }
    let heads = [
        ("line, with what it calls", Align::Left),
        ("flushes", Align::Right),
        ("needless", Align::Right),
        ("confidence", Align::Left),
        ("in", Align::Left),
    ];
    let rows: Vec<Vec<String>> = run
        .needless_lines
        .iter()
        .take(MOST_PLACES)
        .map(|line| {
            let (flushes, needless) = (count(line.flushes), count(line.needless));
            let place = if line.own { "program" } else { "library" };
            vec![
                line.place.clone(),
                flushes,
                needless,
                executed::confidence(line.confidence).into(),
                place.into(),
            ]
        })
        .collect();
    let title = "Lines with needless flushes";
    let body = html! {
        @if let Some(making) = &run.pool_making { p { (executed::pool_making(making)) } }
        @if !rows.is_empty() { (table(title, &heads, &rows)) }
    };
    Some(Section { id: "needless", title: title.into(), body })
}

fn findings(run: &Run) -> Option<Section> {
    let races: Vec<String> =
        run.races.iter().take(MOST_PLACES).map(|race| executed::race(run, race)).collect();
    if run.findings.is_empty() && races.is_empty() {
        return None;
    }
    let (making, own): (Vec<&Finding>, Vec<&Finding>) =
        run.findings.iter().partition(|finding| finding.makes_pool);
    let with_confidence = |finding: &Finding| {
        format!("{} ({} confidence)", finding.text, executed::confidence(finding.confidence))
    };
    let body = html! {
        @if !run.findings.is_empty() {
            p { "What the crash checker finds, by the rules \
                 of " (run.rules.whose()) ". " (executed::SCOPE) " " (executed::ORDER) }
            ul {
                @for finding in own.iter().take(MOST_PLACES) { li { (with_confidence(finding)) } }
            }
            @if !making.is_empty() {
                p { (executed::making_findings(making.len())) ":" }
                ul {
                    @for finding in making.iter().take(MOST_PLACES) {
                        li { (with_confidence(finding)) }
                    }
                }
            }
        }
        @if !races.is_empty() {
            p { "Where threads raced:" }
            ul { @for race in &races { li { (race) } } }
        }
    };
    Some(Section { id: "findings", title: "What is wrong or in doubt".into(), body })
}
