//! Pairs: how each task fares with each other one, and which should run together.

use maud::html;
use ringfence_analysis::estimate::{Estimate, Finding, Interval, NotEstimable, Verdict};
use ringfence_studies::pair::{Assignment, Outcome, PairEntry, letter};

use crate::experiment::page::slowdowns::{borne_out, verdict};
use crate::html::datasets::with_datasets;
use crate::html::figure::{Chart, Figure, Heat, HeatCell, RangeRow, Ranges, Scale, Tip};
use crate::html::table::{Align, table};
use crate::html::{Answer, Card, Digest, Page, Section};
use crate::numbers;
use crate::pair::text::{introduced, picked_by, probability, progress, takes, total, undecided};
use crate::print::unknown::Unknown;
use crate::text::{capital, clean};

/// Colours begin to be strong from this slowdown on.
const NOTABLE: f64 = 1.05;

/// One task beside another.
struct Side<'a> {
    /// The task that is slowed down, and the one that runs with it: numbers of kinds.
    of: usize,
    beside: usize,
    finding: &'a Finding,
    pair: &'a PairEntry,
}

/// The page of `pair`: the pairwise interference and the advice, with the datasets of its stages.
pub fn page(outcome: &Outcome, digests: &[Digest]) -> Page {
    let mut page = with_datasets("Pairs", answer(outcome), section(outcome), digests);
    // Each writer is beside another task: their slowdowns are no choice between methods of writing.
    page.groups
        .iter_mut()
        .for_each(|group| group.sections.retain(|section| section.id != "frontier"));
    page
}

/// The first screen.
fn answer(outcome: &Outcome) -> Answer {
    let mut sentences: Vec<String> =
        crate::pair::text::reasons(outcome).iter().map(|line| capital(&clean(line))).collect();
    sentences.extend(outcome.kinds.iter().map(|kind| clean(&introduced(kind))));
    sentences.extend(outcome.placement.iter().map(|note| clean(note)));
    if let Some(why) = &outcome.ended_early {
        sentences.insert(0, format!("It ended early: {}.", clean(why)));
    }
    Answer {
        question: "Which tasks should share a core or a cache?".into(),
        headline: format!("{}.", clean(&crate::pair::text::answer(outcome))),
        cards: cards(outcome),
        sentences,
        figure: matrix(outcome),
        ..Answer::default()
    }
}

fn cards(outcome: &Outcome) -> Vec<Card> {
    let Some(advice) = &outcome.advice else { return Vec::new() };
    let tasks: usize = outcome.kinds.iter().map(|kind| kind.tasks.len()).sum();
    let card = |label: &str, value: String, note: String, color: Option<&str>| Card {
        label: label.into(),
        value,
        note,
        color: color.map(str::to_owned),
        ..Card::default()
    };
    let progress = |label: &str, of: &Estimate, assignment: &Assignment| {
        let figure = total(of, tasks);
        let note = format!("{} of {tasks}: {assignment}", figure.interval);
        card(label, figure.value, note.trim_start().into(), None)
    };
    let mut cards = vec![progress("total progress now", &advice.present_total, &outcome.present)];
    if let Some(next) = &advice.next {
        let (value, note) = match undecided(outcome) {
            Some(gain) => {
                (open(gain), format!("undecided: {}; {}", takes(&outcome.verdict), next.assignment))
            }
            None => {
                let (value, interval) = figure(&next.gain);
                (value, format!("{interval} against now: {}", next.assignment))
            }
        };
        cards.push(card("the most that another may gain", value, note, None));
        return cards;
    }
    cards.push(progress(picked_by(advice), &advice.total, &advice.assignment));
    match &outcome.confirmed {
        Some(_) if undecided(outcome).is_some() => {
            let value = undecided(outcome).map_or_else(String::new, open);
            let note = format!("undecided on fresh trials: {}", takes(&outcome.verdict));
            cards.push(card("gain", value, note, None));
        }
        Some(confirmed) => {
            let (value, note) = figure(&confirmed.gain);
            let color =
                (outcome.verdict == ringfence_studies::pair::Verdict::Change).then_some("nt");
            let trials = confirmed.gain.as_ref().map_or(String::new(), |gain| {
                format!("{note} of total progress, on {} fresh trials", gain.trials)
            });
            let note = if trials.is_empty() { note } else { trials };
            cards.push(card("gain on fresh trials", value, note, color));
        }
        None => {
            let (value, interval) = figure(&advice.gain);
            let note = format!(
                "{interval} of total progress; not confirmed, and the best of many flatters"
            );
            cards.push(card("gain, not confirmed", value, note, None));
        }
    }
    if let Some(probability) = probability(advice) {
        let note = "that it beats the present one, by the trials of the first measurement".into();
        cards.push(card("probability", probability, note, None));
    }
    cards
}

// What an undecided gain may be: no figure is claimed.
fn open(gain: &Interval) -> String {
    format!("{} to {}", numbers::change(gain.low), numbers::change(gain.high))
}

// A figure and its interval, or that there is none and why.
fn figure(gain: &Estimate) -> (String, String) {
    match gain {
        Ok(gain) => {
            let figure = numbers::slowdown_figure(gain);
            (figure.value, figure.interval)
        }
        Err(reason) => (reason.short().into(), reason.told()),
    }
}

fn sides(outcome: &Outcome) -> Vec<Side<'_>> {
    let mut all = Vec::new();
    for pair in &outcome.pairs {
        let (a, b) = pair.kinds;
        all.push(Side { of: a, beside: b, finding: &pair.first, pair });
        if a != b {
            all.push(Side { of: b, beside: a, finding: &pair.second, pair });
        }
    }
    all.sort_by_key(|side| (side.of, side.beside));
    all
}

// `A chase footprint=64MiB`.
fn name(outcome: &Outcome, kind: usize) -> String {
    outcome
        .kinds
        .get(kind)
        .map_or("?".into(), |kind| format!("{} {}", kind.letter, clean(&kind.text)))
}

fn stands_still(finding: &Finding) -> bool {
    matches!(finding.verdict, Verdict::NotEstimable(NotEstimable::Stalled { baseline: 0, .. }))
}

fn text(finding: &Finding) -> String {
    match &finding.slowdown {
        Some(slowdown) => numbers::slowdown(slowdown),
        None if stands_still(finding) => "stands still".into(),
        None => verdict_words(finding),
    }
}

fn short(finding: &Finding) -> String {
    match &finding.slowdown {
        Some(slowdown) => numbers::slowdown_figure(slowdown).value,
        None if stands_still(finding) => "stands still".into(),
        None => match finding.verdict {
            Verdict::NotEstimable(reason) => reason.short().into(),
            _ => numbers::NO_FIGURE.into(),
        },
    }
}

fn verdict_words(finding: &Finding) -> String {
    match finding.verdict {
        Verdict::NotEstimable(reason) => reason.told(),
        _ => verdict(finding),
    }
}

// What is kept of the rate alone.
fn kept(finding: &Finding) -> Option<String> {
    let slowdown = finding.slowdown?;
    let [value, low, high] = [slowdown.value, slowdown.high, slowdown.low]
        .map(|slowdown| format!("{:.1}", 100.0 / slowdown));
    Some(format!("{value} % [{low}, {high}]"))
}

fn tip(outcome: &Outcome, side: &Side) -> Tip {
    let title = format!("{} beside {}", name(outcome, side.of), name(outcome, side.beside));
    let mut tip = Tip::new(title).with("slowdown", text(side.finding));
    if let Some(kept) = kept(side.finding) {
        tip = tip.with("keeps of its rate", kept).with("verdict", verdict_words(side.finding));
    }
    tip.with("progress of the pair", format!("{} of 2", progress(side.pair)))
}

/// Each kind in its row, beside each in its column.
fn matrix(outcome: &Outcome) -> Option<maud::Markup> {
    let sides = sides(outcome);
    if sides.is_empty() {
        return None;
    }
    let said =
        sides.iter().filter_map(|side| borne_out(side.finding)).map(|value| value.ln().abs());
    let most = said.fold(NOTABLE.ln(), f64::max).exp();
    let cells = sides
        .iter()
        .map(|side| {
            // Nothing is worse than to stand still.
            let value =
                borne_out(side.finding).or_else(|| stands_still(side.finding).then_some(most));
            HeatCell {
                column: side.beside,
                row: side.of,
                value,
                text: short(side.finding),
                faint: value.is_none(),
                tip: tip(outcome, side),
            }
        })
        .collect();
    let names: Vec<String> = (0..outcome.kinds.len()).map(|kind| name(outcome, kind)).collect();
    let lines: Vec<Vec<String>> = names
        .iter()
        .enumerate()
        .map(|(of, name)| {
            let cell = |beside: usize| {
                let side = sides.iter().find(|side| (side.of, side.beside) == (of, beside));
                side.map_or(String::new(), |side| text(side.finding))
            };
            std::iter::once(name.clone()).chain((0..names.len()).map(cell)).collect()
        })
        .collect();
    let mut heads = vec![("", Align::Left)];
    let beside: Vec<String> = names.iter().map(|name| format!("beside {name}")).collect();
    heads.extend(beside.iter().map(|name| (name.as_str(), Align::Right)));
    let height = 50 + (48 * names.len() as u32).max(96);
    let chart = Chart::new(
        "heat",
        Heat {
            columns: names.clone(),
            rows: names,
            cells,
            scale: Scale::Around,
            range: (1.0 / most, most),
        },
    );
    let title = "How much longer each row takes beside each column";
    let figure = Figure {
        title,
        explanation: "Compared with running alone, per unit of work. A cell is coloured where its \
                      interval shows a change.",
        chart: &chart,
        height,
        legend: html! {},
        table: table(title, &heads, &lines),
    };
    Some(figure.render())
}

fn range(outcome: &Outcome, side: &Side) -> RangeRow {
    let slowdown = side.finding.slowdown;
    let color = match side.finding.verdict {
        Verdict::Slower => "bad",
        Verdict::Faster | Verdict::NoChangeLargerThanMargin => "good",
        _ => "other",
    };
    RangeRow {
        name: format!("{} beside {}", letter(side.of), letter(side.beside)),
        color: color.into(),
        faint: color == "other",
        figure: slowdown.map(|slowdown| [slowdown.value, slowdown.low, slowdown.high]),
        text: short(side.finding),
        tip: tip(outcome, side),
    }
}

/// Every pair from both sides; none where there are none.
fn section(outcome: &Outcome) -> Option<Section> {
    let sides = sides(outcome);
    if sides.is_empty() {
        return None;
    }
    let rows: Vec<RangeRow> = sides.iter().map(|side| range(outcome, side)).collect();
    let lines: Vec<Vec<String>> = sides
        .iter()
        .zip(&rows)
        .map(|(side, row)| {
            let kept = kept(side.finding).unwrap_or_else(|| numbers::NO_FIGURE.into());
            vec![
                row.name.clone(),
                text(side.finding),
                kept,
                verdict_words(side.finding),
                progress(side.pair),
            ]
        })
        .collect();
    let heads = [
        ("task", Align::Left),
        ("slowdown", Align::Right),
        ("keeps of its rate", Align::Right),
        ("verdict", Align::Left),
        ("progress of the pair", Align::Right),
    ];
    let level =
        sides.iter().find_map(|side| side.finding.slowdown).map_or(String::new(), |interval| {
            format!(
                "Brackets are {} intervals over {} trials. ",
                numbers::percent(interval.level),
                interval.trials
            )
        });
    let title = "Every task beside every other";
    let table = table(title, &heads, &lines);
    let ranges =
        Ranges { axis: "slowdown against alone".into(), unit: "slowdown", rows, mark: None };
    let body = html! {
        p {
            (level) "Progress is what both keep of their rates alone, 2 where neither disturbs the \
                     other; \
            that of an assignment is the sum over its pairs, and 1 for a task that runs alone."
        }
        p class="said" {
            @for (number, kind) in outcome.kinds.iter().enumerate() {
                @if number > 0 { "; " } (clean(&introduced(kind)))
            }
            "."
        }
        (ranges.figure(title, "Bars are intervals; faint ones are undecided.", table))
    };
    Some(Section { id: "pairs", title: "Pair by pair".into(), body })
}
