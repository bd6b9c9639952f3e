//! The first screen: what was asked, and the answer in words.

use ringfence_analysis::frontier::Frontier;
use ringfence_analysis::results::CaseResult;
use ringfence_experiment::plan::Plan;
use ringfence_studies::survey::answer::{Answer as Found, ForBlock, Method};
use ringfence_studies::survey::{Advice, Survey};

use crate::commits::method;
use crate::experiment::cases::{by_part, one, words};
use crate::experiment::page::frontier;
use crate::experiment::page::frontier::color;
use crate::experiment::page::slowdowns::verdict;
use crate::experiment::short;
use crate::html::{Answer, Card, Digest, Layout};
use crate::numbers;
use crate::text::{capital, listed};

/// Which flush to use, and what it does to others: a card for each thing that is written.
pub(crate) fn of_survey(survey: &Survey, shown: Option<&Frontier>) -> Answer {
    let found = survey.answer.as_ref();
    let cards = found
        .into_iter()
        .flat_map(|answer| answer.blocks.iter().filter_map(|of| written(answer, of)));
    // The cards say what is cheapest.
    let beyond_cost = survey.advice.iter().filter(|said| !matches!(said, Advice::Cheapest(_)));
    let mut sentences: Vec<String> = beyond_cost.map(crate::survey::advice::advice).collect();
    let commits = survey.files.iter().flat_map(crate::commits::short::said);
    sentences.extend(commits.map(|text| format!("Durable commits to files: {text}")));
    sentences.extend(crate::survey::text::perhaps(survey).map(|text| capital(&text) + "."));
    if let Some(why) = &survey.ended_early {
        sentences.insert(
            0,
            format!("The survey ended early: {why}; what depends on the rest is missing here."),
        );
    }
    Answer {
        question: "Which flush should I use here, and what does it do to others?".into(),
        headline: found.map_or_else(
            || "Nothing was measured to advise on.".into(),
            crate::survey::text::cheapest,
        ),
        cards: cards.collect(),
        sentences,
        figure: shown.and_then(|shown| frontier::figure(shown, 440)),
        layout: Layout::Across,
        ..Answer::default()
    }
}

fn written(answer: &Found, of: &ForBlock) -> Option<Card> {
    let cheapest = of.cheapest();
    let [first, others @ ..] = &cheapest[..] else { return None };
    let cost = |method: &Method| crate::survey::text::ns(method.cost.value);
    let harm =
        |method: &Method| crate::survey::text::to_others(answer.harm(method.instruction, of.block));
    let names: Vec<&str> = cheapest.iter().map(|method| method.instruction).collect();
    let note = if others.is_empty() {
        format!("{} a line", cost(first))
    } else {
        let costs: Vec<String> = cheapest.iter().map(|method| cost(method)).collect();
        format!("{} a line, which could not be told apart", listed(&costs, "or"))
    };
    let mut facts: Vec<(&str, String)> = match others {
        [] => vec![("other tasks", harm(first))],
        _ => cheapest
            .iter()
            .map(|method| ("other tasks", format!("{} {}", method.instruction, harm(method))))
            .collect(),
    };
    let next = of.next().map(|next| {
        let others = answer.harm(next.instruction, of.block).map(|_| format!("; {}", harm(next)));
        format!("{}, {} a line{}", next.instruction, cost(next), others.unwrap_or_default())
    });
    facts.push(("next best", next.unwrap_or_else(|| "no method is known to cost more".into())));
    let gentler = crate::survey::text::gentler(answer).filter(|(what, ..)| *what == of.what);
    facts.extend(gentler.map(|(_, method, left)| {
        (
            "gentlest",
            format!("{}, {} a line; no slowdown seen; {left}", method.instruction, cost(method)),
        )
    }));
    Some(Card {
        label: format!("{} · {} blocks, each made durable", capital(of.what), of.block),
        value: listed(&names, "or"),
        note,
        facts,
        color: Some(color(first.instruction).into()),
    })
}

/// What one dataset answers.
pub(crate) fn of_dataset(digest: &Digest) -> Answer {
    let mut answer = digest.findings.sensitivity.as_ref().map_or_else(
        || of_experiment(digest),
        |found| crate::sensitivity::page::answer(found, digest),
    );
    if digest.unfinished {
        answer.sentences.push(
            "The program that measured this was killed; this is what it had recorded.".into(),
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
    let found = &digest.findings;
    if let Some(summary) = &found.aa {
        said_first(&mut answer, crate::aa::text::sentences(summary));
        return answer;
    }
    if found.results.is_empty() {
        answer.headline = "No case was measured.".into();
        return answer;
    }
    said_first(&mut answer, short::sentences(found));
    let effects: Vec<&CaseResult> =
        found.results.iter().filter(|result| result.effect.is_some()).collect();
    if effects.is_empty() {
        costs(&mut answer, digest);
    } else {
        slowdowns(&mut answer, digest, &effects);
        answer.sentences.extend(by_part(&found.plan, &found.results));
    }
    answer
}

fn said_first(answer: &mut Answer, said: Vec<String>) {
    let mut said = said.iter().map(|sentence| capital(sentence));
    answer.headline = said.next().unwrap_or_default();
    answer.sentences = said.collect();
}

fn slowdowns(answer: &mut Answer, digest: &Digest, effects: &[&CaseResult]) {
    let finding = |result: &CaseResult| result.effect.as_ref().map(|effect| effect.finding);
    let mut sorted: Vec<(&CaseResult, f64)> = effects
        .iter()
        .filter_map(|result| Some((*result, finding(result)?.slowdown?.low)))
        .collect();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
    answer
        .cards
        .extend(sorted.iter().take(6).filter_map(|(result, _)| slowdown_card(digest, result)));
    let missing = effects
        .iter()
        .filter(|result| finding(result).is_none_or(|f| f.slowdown.is_none()))
        .count();
    if missing > 0 {
        answer.sentences.push(format!(
            "{missing} of {} no figure: the table says why.",
            if effects.len() == 1 {
                "1 case has".into()
            } else {
                format!("{} cases have", effects.len())
            }
        ));
    }
}

fn slowdown_card(digest: &Digest, result: &CaseResult) -> Option<Card> {
    let found = result.effect.as_ref()?.finding;
    let figure = numbers::slowdown_figure(&found.slowdown?);
    let note = format!("{} {}", figure.interval, verdict(&found));
    Some(card(name(&digest.findings.plan, result.case), figure.value, note))
}

fn cost_card(digest: &Digest, result: &CaseResult) -> Option<Card> {
    let plan = &digest.findings.plan;
    let figure = numbers::ns_figure(result.ns_per_unit.as_ref().ok()?);
    let per = plan.experiment.measure.quantity.per(one(result.unit));
    let note = format!("{} {per}", figure.interval);
    Some(card(name(plan, result.case), figure.value, note))
}

/// What a case is called on a page.
pub(crate) fn name(plan: &Plan, case: usize) -> String {
    method::of_case(plan, case).unwrap_or_else(|| words(plan, case))
}

// With the colour of what its name says.
fn card(name: String, value: String, note: String) -> Card {
    Card {
        color: name.split(' ').map(color).find(|color| *color != "other").map(str::to_owned),
        label: name,
        value,
        note,
        ..Card::default()
    }
}

fn costs(answer: &mut Answer, digest: &Digest) {
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
    if sorted.len() > 1 {
        answer
            .cards
            .extend(sorted.iter().take(6).filter_map(|(result, _)| cost_card(digest, result)));
    }
}
