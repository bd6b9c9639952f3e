//! The first screen: what was asked, and the answer in words.

use ringfence_analysis::estimate::{NotEstimable, Verdict};
use ringfence_analysis::frontier::Frontier;
use ringfence_analysis::results::CaseResult;
use ringfence_studies::survey::answer::{Answer as Found, ForBlock, Method};
use ringfence_studies::survey::{Advice, Survey};

use crate::experiment::cases::{by_part, one, words};
use crate::experiment::page::frontier;
use crate::experiment::page::frontier::color;
use crate::experiment::page::slowdowns::verdict;
use crate::html::{Answer, Card, Digest, Layout};
use crate::numbers;
use crate::sentence::sentence;
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
    let commits = survey.files.iter().flat_map(crate::commits::text::said);
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
    let effects: Vec<&CaseResult> =
        digest.findings.results.iter().filter(|result| result.effect.is_some()).collect();
    if let Some(summary) = &digest.findings.aa {
        let mut said = crate::aa::text::sentences(summary);
        answer.headline = if said.is_empty() { String::new() } else { capital(&said.remove(0)) };
        answer.sentences = said.iter().map(|sentence| capital(sentence)).collect();
    } else if !effects.is_empty() {
        slowdowns(&mut answer, digest, &effects);
        if let Some(first) = crate::commits::text::beside(&digest.findings) {
            answer.sentences.insert(0, std::mem::replace(&mut answer.headline, first));
        }
        answer.sentences.extend(crate::experiment::verdicts::said(&digest.findings));
        answer.sentences.extend(by_part(&digest.findings.plan, &digest.findings.results));
    } else if !digest.findings.results.is_empty() {
        costs(&mut answer, digest);
        answer.sentences.extend(crate::commits::text::said(&digest.findings));
        if let Some(first) = crate::commits::text::headline(&digest.findings) {
            answer.headline = first;
        } else if crate::commits::text::none_advised(&digest.findings).is_some() {
            answer.headline = answer.sentences.remove(0);
        }
        if let Some(verdict) = crate::experiment::verdicts::said(&digest.findings) {
            answer.sentences.insert(0, std::mem::replace(&mut answer.headline, verdict));
        }
    } else {
        answer.headline = "No case was measured.".into();
    }
    answer
}

fn slowdowns(answer: &mut Answer, digest: &Digest, effects: &[&CaseResult]) {
    let experiment = &digest.findings.plan.experiment;
    let metric = &experiment.metric;
    let finding = |result: &CaseResult| result.effect.as_ref().map(|effect| effect.finding);
    let count = |is: fn(&Verdict) -> bool| {
        effects
            .iter()
            .filter(|result| finding(result).is_some_and(|found| is(&found.verdict)))
            .count()
    };
    let slower = count(|verdict| matches!(verdict, Verdict::Slower));
    let same = count(|verdict| matches!(verdict, Verdict::NoChangeLargerThanMargin));
    let mut sorted: Vec<(&CaseResult, f64)> = effects
        .iter()
        .filter_map(|result| Some((*result, finding(result)?.slowdown?.low)))
        .collect();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
    let of = effects.len();
    let metric = if metric == "victim" { "the victim".into() } else { format!("'{metric}'") };
    let of_quantile =
        experiment.measure.quantity.quantile().map(|quantile| format!("{quantile} of {metric}"));
    let metric = of_quantile.unwrap_or(metric);
    let faster: Vec<String> = effects
        .iter()
        .filter(|result| finding(result).is_some_and(|found| found.verdict == Verdict::Faster))
        .map(|result| words(&digest.findings.plan, result.case))
        .collect();
    let faster_told = match faster.as_slice() {
        [] => String::new(),
        names => format!("; it is faster beside {}", listed(names, "and")),
    };
    let undecided = of - slower - same - faster.len();
    let too_few =
        |result: &CaseResult| finding(result).is_some_and(|found| lacks_trials(&found.verdict));
    answer.headline = match (slower, sorted.first()) {
        (0, None) if effects.iter().all(|result| too_few(result)) => {
            "There is no figure yet: too few trials.".into()
        }
        (0, None) => "There is no figure: the table says why.".into(),
        (0, _) if same == of => format!("Nothing changed {metric} by more than the margin."),
        (0, _) if undecided == 0 => format!("No case slows {metric} down{faster_told}."),
        (0, _) => format!(
            "No case is known to slow {metric} down; {undecided} of {of} {} \
             undecided{faster_told}.",
            if undecided == 1 { "is" } else { "are" }
        ),
        (_, Some((worst, _))) => format!(
            "{slower} of {of} cases slow {metric} down, {} {}: {}.",
            words(&digest.findings.plan, worst.case),
            if alone_at_the_top(&sorted) { "most" } else { "among the most" },
            finding(worst).map(|found| sentence(&found)).unwrap_or_default()
        ),
        _ => format!("{slower} of {of} cases slow {metric} down."),
    };
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
            if of == 1 { "1 case has".into() } else { format!("{of} cases have") }
        ));
    }
}

fn lacks_trials(verdict: &Verdict) -> bool {
    matches!(
        verdict,
        Verdict::NotEstimable(NotEstimable::NothingMeasured | NotEstimable::TooFewTrials { .. })
    )
}

fn slowdown_card(digest: &Digest, result: &CaseResult) -> Option<Card> {
    let found = result.effect.as_ref()?.finding;
    let figure = numbers::slowdown_figure(&found.slowdown?);
    let note = format!("{} {}", figure.interval, verdict(&found));
    Some(card(words(&digest.findings.plan, result.case), figure.value, note))
}

fn cost_card(digest: &Digest, result: &CaseResult) -> Option<Card> {
    let plan = &digest.findings.plan;
    let figure = numbers::ns_figure(result.ns_per_unit.as_ref().ok()?);
    let per = plan.experiment.measure.quantity.per(one(result.unit));
    let note = format!("{} {per}", figure.interval);
    Some(card(words(plan, result.case), figure.value, note))
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

// Whether the first is slowed more than the intervals leave possible for any other.
fn alone_at_the_top(sorted: &[(&CaseResult, f64)]) -> bool {
    let high = |result: &CaseResult| Some(result.effect.as_ref()?.finding.slowdown?.high);
    let Some(((_, low), others)) = sorted.split_first() else { return false };
    others.iter().all(|(other, _)| high(other).is_some_and(|high| high < *low))
}

fn costs(answer: &mut Answer, digest: &Digest) {
    let plan = &digest.findings.plan;
    let quantity = plan.experiment.measure.quantity;
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
            "{} takes {} {}.",
            capital(&words(plan, best.case)),
            numbers::ns_estimate(&best.ns_per_unit),
            quantity.per(one(best.unit))
        ),
        Some((best, _)) if same_unit => {
            let what = if writes { "method to have stores flushed" } else { "case" };
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
            let methods = if others.is_empty() {
                what.to_owned()
            } else {
                what.replacen("method", "methods", 1).replacen("case", "cases", 1)
            };
            format!(
                "{among} {methods}: {best_words}, {cost} {}{told}.",
                quantity.per(one(best.unit))
            )
        }
        Some(_) => format!("{} cases were measured; they count different units.", sorted.len()),
        None => "No case has a figure: the table says why.".into(),
    };
    if sorted.len() > 1 {
        answer
            .cards
            .extend(sorted.iter().take(6).filter_map(|(result, _)| cost_card(digest, result)));
    }
}

// Those whose interval no other one's lies below, the smallest figure first.
fn tied<'a>(sorted: &[(&'a CaseResult, f64)]) -> Vec<&'a CaseResult> {
    let of = |result: &CaseResult| result.ns_per_unit.ok();
    let lowest =
        sorted.iter().filter_map(|(result, _)| Some(of(result)?.high)).min_by(f64::total_cmp);
    let meets =
        |result: &&CaseResult| of(result).zip(lowest).is_some_and(|(cost, high)| cost.low <= high);
    sorted.iter().map(|(result, _)| *result).filter(meets).collect()
}
