//! The first screen: what was asked, and the answer in words.

use ringfence_analysis::estimate::Verdict;
use ringfence_analysis::frontier::Frontier;
use ringfence_analysis::results::CaseResult;
use ringfence_studies::survey::answer::{ForBlock, Seen};
use ringfence_studies::survey::{Advice, NeighbourRow, Neighbours, Survey};

use super::frontier::{self, color};
use super::slowdowns::verdict;
use super::{Answer, Card, Digest};
use crate::cases::{one, words};
use crate::numbers;
use crate::sentence::sentence;

/// Which flush to use, and what it does to others.
pub(super) fn of_survey(survey: &Survey, shown: Option<&Frontier>) -> Answer {
    let mut cards: Vec<Card> =
        survey.answer.iter().flat_map(|answer| &answer.blocks).filter_map(cheapest).collect();
    cards.extend(survey.neighbours.iter().filter_map(worst));
    let headline = survey.answer.as_ref().map(crate::survey::headline);
    // The cards show what is cheapest.
    let beyond_cost = survey.advice.iter().filter(|said| !matches!(said, Advice::Cheapest(_)));
    let mut sentences: Vec<String> = beyond_cost.map(crate::survey::advice).collect();
    sentences.extend(crate::survey::perhaps(survey).map(|text| capital(&text) + "."));
    if let Some(why) = &survey.ended_early {
        sentences.insert(0, format!("The survey ended early: {why}; what follows from it is missing here."));
    }
    Answer {
        question: "Which flush should I use here, and what does it do to others?".into(),
        headline: headline.unwrap_or_else(|| "Nothing was measured to advise on.".into()),
        cards,
        sentences,
        commands: Vec::new(),
        figure: shown.and_then(|shown| frontier::figure(shown, 440)),
    }
}

fn cheapest(block: &ForBlock) -> Option<Card> {
    let ways = block.cheapest();
    let first = ways.first()?;
    let names: Vec<&str> = ways.iter().map(|way| way.instruction).collect();
    let cost = numbers::ns(first.cost.value);
    let next =
        block.next().map(|next| format!("; next {} {}", next.instruction, numbers::ns(next.cost.value)));
    let next = next.unwrap_or_default();
    let (value, note) = match names[..] {
        [name] => (format!("{name} {cost}"), format!("a line{next}")),
        _ => (names.join(" or "), format!("{cost} a line, not told apart{next}")),
    };
    Some(Card {
        label: format!("cheapest for {} ({} blocks)", block.what, block.block),
        value,
        note,
        color: Some(color(first.instruction).into()),
    })
}

// The writer that slows a victim most by its figure, for certain or perhaps; else what is left possible.
fn worst(table: &Neighbours) -> Option<Card> {
    let rows: Vec<&NeighbourRow> = table.rows.iter().filter(|row| !row.paced && row.writes()).collect();
    let label = format!("{} slowed", table.victim);
    let low = |row: &NeighbourRow| row.slowdown().map_or(0.0, |slowdown| slowdown.low);
    let most = |seen: Seen| {
        let of = rows.iter().filter(|row| row.seen == seen);
        let row = of.max_by(|a, b| low(a).total_cmp(&low(b)))?;
        Some((row, numbers::slowdown_figure(&row.slowdown().ok()?)))
    };
    if let Some((row, figure)) = most(Seen::Slows) {
        return Some(Card {
            label,
            value: figure.value,
            note: format!("by {} {}", row.label, figure.interval),
            color: Some(color(&row.co_runner).into()),
        });
    }
    if let Some((row, figure)) = most(Seen::Perhaps) {
        let note = format!("by {} {}, by that interval alone", row.label, figure.interval);
        let value = format!("perhaps {}", figure.value);
        return Some(Card { label, value, note, color: Some(color(&row.co_runner).into()) });
    }
    let highs: Option<Vec<f64>> = rows.iter().map(|row| Some(row.together?.high)).collect();
    let most = highs.and_then(|highs| highs.into_iter().max_by(f64::total_cmp));
    rows.first()?;
    Some(match most {
        Some(most) => Card {
            label,
            value: "none seen".into(),
            note: format!("{} at most is left possible", numbers::change(most)),
            color: None,
        },
        None => Card {
            label,
            value: "not known".into(),
            note: "a figure is missing: the table says why".into(),
            color: None,
        },
    })
}

/// What one dataset answers.
pub(super) fn of_dataset(digest: &Digest) -> Answer {
    let mut answer = digest
        .findings
        .sensitivity
        .as_ref()
        .map_or_else(|| of_experiment(digest), |found| super::sensitivity::answer(found, digest));
    if digest.unfinished {
        answer.sentences.push(
            "The program that measured this was killed; these are the samples that it had recorded.".into(),
        );
    }
    answer
}

fn of_experiment(digest: &Digest) -> Answer {
    let experiment = &digest.findings.plan.experiment;
    let mut answer = Answer {
        question: experiment.question.clone().unwrap_or_else(|| experiment.name.clone()),
        figure: frontier::figure(&digest.findings.frontier, 440),
        ..Answer::default()
    };
    let effects: Vec<&CaseResult> =
        digest.findings.results.iter().filter(|result| result.effect.is_some()).collect();
    if let Some(summary) = &digest.findings.aa {
        let mut said = crate::aa::sentences(summary);
        answer.headline = if said.is_empty() { String::new() } else { capital(&said.remove(0)) };
        answer.sentences = said.iter().map(|sentence| capital(sentence)).collect();
    } else if !effects.is_empty() {
        slowdowns(&mut answer, digest, &effects);
    } else if !digest.findings.results.is_empty() {
        costs(&mut answer, digest);
    } else {
        answer.headline = "No case was measured.".into();
    }
    answer
}

fn slowdowns(answer: &mut Answer, digest: &Digest, effects: &[&CaseResult]) {
    let metric = &digest.findings.plan.experiment.metric;
    let finding = |result: &CaseResult| result.effect.as_ref().map(|effect| effect.finding);
    let count = |is: fn(&Verdict) -> bool| {
        effects.iter().filter(|result| finding(result).is_some_and(|found| is(&found.verdict))).count()
    };
    let slower = count(|verdict| matches!(verdict, Verdict::Slower));
    let same = count(|verdict| matches!(verdict, Verdict::NoChangeLargerThanMargin));
    let mut sorted: Vec<(&CaseResult, f64)> =
        effects.iter().filter_map(|result| Some((*result, finding(result)?.slowdown?.low))).collect();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
    let of = effects.len();
    answer.headline = match (slower, sorted.first()) {
        (0, _) if same == of => format!("Nothing changed '{metric}' by more than the margin."),
        (0, _) => format!(
            "Nothing was seen to slow '{metric}' down; {same} of {of} cases are known to change it by no more than the margin."
        ),
        (_, Some((worst, _))) => format!(
            "{slower} of {of} cases slow '{metric}' down, {} {}: {}.",
            words(&digest.findings.plan, worst.case),
            if alone_at_the_top(&sorted) { "most" } else { "among the most" },
            finding(worst).map(|found| sentence(&found)).unwrap_or_default()
        ),
        _ => format!("{slower} of {of} cases slow '{metric}' down."),
    };
    for (result, _) in sorted.iter().take(6) {
        let Some(found) = finding(result) else { continue };
        let Some(slowdown) = found.slowdown else { continue };
        let figure = numbers::slowdown_figure(&slowdown);
        let name = words(&digest.findings.plan, result.case);
        answer.cards.push(Card {
            color: name.split(' ').map(color).find(|color| *color != "other").map(str::to_owned),
            label: name,
            value: figure.value,
            note: format!("{} {}", figure.interval, verdict(&found)),
        });
    }
    let missing =
        effects.iter().filter(|result| finding(result).is_none_or(|f| f.slowdown.is_none())).count();
    if missing > 0 {
        answer.sentences.push(format!("{missing} of {of} cases have no figure: the table says why."));
    }
}

// Whether the first is slowed more than the intervals leave possible for any other.
fn alone_at_the_top(sorted: &[(&CaseResult, f64)]) -> bool {
    let high = |result: &CaseResult| Some(result.effect.as_ref()?.finding.slowdown?.high);
    let Some(((_, low), others)) = sorted.split_first() else { return false };
    others.iter().all(|(other, _)| high(other).is_some_and(|high| high < *low))
}

fn costs(answer: &mut Answer, digest: &Digest) {
    let plan = &digest.findings.plan;
    let fenced = |case: usize| {
        digest
            .findings
            .frontier
            .points
            .iter()
            .find(|point| point.case == case)
            .is_none_or(|point| point.fenced())
    };
    let mut sorted: Vec<(&CaseResult, f64)> = digest
        .findings
        .results
        .iter()
        .filter(|result| fenced(result.case))
        .filter_map(|result| Some((result, result.ns_per_unit.ok()?.value)))
        .collect();
    sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
    let same_unit = sorted.windows(2).all(|pair| pair[0].0.unit == pair[1].0.unit);
    let writes = !digest.findings.frontier.points.is_empty();
    answer.headline = match sorted.first() {
        Some((best, _)) if sorted.len() == 1 => format!(
            "{} takes {} per {}.",
            capital(&words(plan, best.case)),
            numbers::ns_estimate(&best.ns_per_unit),
            one(best.unit)
        ),
        Some((best, _)) if same_unit => {
            let what = if writes { "way to have stores flushed" } else { "case" };
            let cost = numbers::ns_estimate(&best.ns_per_unit);
            let others: Vec<String> =
                tied(&sorted).iter().skip(1).map(|other| words(plan, other.case)).collect();
            let told = match others.len() {
                0 => String::new(),
                n if n > 3 => format!("; {n} others could not be told apart from it"),
                _ => format!("; {} could not be told apart from it", others.join(", ")),
            };
            let best_words = words(plan, best.case);
            let among = if others.is_empty() { "The cheapest" } else { "Among the cheapest" };
            let ways = if others.is_empty() {
                what.to_owned()
            } else {
                what.replacen("way", "ways", 1).replacen("case", "cases", 1)
            };
            format!("{among} {ways}: {best_words}, {cost} per {}{told}.", one(best.unit))
        }
        Some(_) => format!("{} cases were measured; they count different units.", sorted.len()),
        None => "No case has a figure: the table says why.".into(),
    };
    if sorted.len() > 1 {
        for (result, _) in sorted.iter().take(6) {
            let Ok(ns) = &result.ns_per_unit else { continue };
            let figure = numbers::ns_figure(ns);
            let name = words(plan, result.case);
            answer.cards.push(Card {
                color: name.split(' ').map(color).find(|color| *color != "other").map(str::to_owned),
                label: name,
                value: figure.value,
                note: format!("{} per {}", figure.interval, one(result.unit)),
            });
        }
    }
}

// Those whose interval no other one's lies below, the smallest figure first.
fn tied<'a>(sorted: &[(&'a CaseResult, f64)]) -> Vec<&'a CaseResult> {
    let of = |result: &CaseResult| result.ns_per_unit.ok();
    let lowest = sorted.iter().filter_map(|(result, _)| Some(of(result)?.high)).min_by(f64::total_cmp);
    let meets = |result: &&CaseResult| of(result).zip(lowest).is_some_and(|(cost, high)| cost.low <= high);
    sorted.iter().map(|(result, _)| *result).filter(meets).collect()
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}
