//! The first screen: what was asked, and the answer in words.

use ringfence_lab::estimate::Verdict;
use ringfence_lab::frontier::Frontier;
use ringfence_lab::results::CaseResult;
use ringfence_lab::survey::{Survey, advice};

use super::frontier::{self, color};
use super::slowdowns::verdict;
use super::{Answer, Card, Digest};
use crate::cases::{one, words};
use crate::numbers;

/// Which flush to use, and what it does to others.
pub(super) fn of_survey(survey: &Survey, shown: Option<&Frontier>) -> Answer {
    let mut cards: Vec<Card> = advice::BLOCKS
        .into_iter()
        .filter_map(|block| advice::cheapest_of(survey, block))
        .map(|best| Card {
            label: format!("cheapest for {} blocks", best.block),
            value: format!("{} {}", best.instruction, numbers::ns(best.cost.value)),
            note: match (&best.tied[..], &best.next) {
                ([], Some((name, cost))) => format!("a line; next {name} {}", numbers::ns(cost.value)),
                ([], None) => "a line".into(),
                (tied, _) => format!("a line; not told from {}", tied.join(", ")),
            },
            color: Some(color(best.instruction).into()),
        })
        .collect();
    cards.extend(survey.neighbours.iter().filter_map(worst));
    let headline = advice::in_short(survey).unwrap_or_else(|| "Nothing was measured to advise on.".into());
    let mut sentences = advice::beyond_cost(survey);
    if let Some(why) = &survey.ended_early {
        sentences.insert(0, format!("The survey ended early: {why}; what follows from it is missing here."));
    }
    Answer {
        question: "Which flush should I use here, and what does it do to others?".into(),
        headline,
        cards,
        sentences,
        figure: shown.and_then(|shown| frontier::figure(shown, 440)),
    }
}

// The writer that slows a victim most, of those that were seen to; else what is left possible.
fn worst(table: &ringfence_lab::survey::Neighbours) -> Option<Card> {
    let rows =
        || table.rows.iter().filter(|row| !row.paced && !matches!(row.co_runner.as_str(), "alu" | "idle"));
    let seen = rows().filter_map(|row| Some((row.co_runner.as_str(), row.together?)));
    let worst = seen.clone().filter(|(_, s)| s.low > 1.0).max_by(|a, b| a.1.low.total_cmp(&b.1.low));
    let label = format!("{} slowed most", table.victim);
    Some(match worst {
        Some((name, slowdown)) => Card {
            label,
            value: numbers::slowdown_figure(&slowdown).value,
            note: format!("by {name} {}", numbers::slowdown_figure(&slowdown).interval),
            color: Some(color(name).into()),
        },
        None => {
            let most = seen.map(|(_, slowdown)| slowdown.high).max_by(f64::total_cmp)?;
            let possible = if most >= 2.0 {
                "too noisy to say that there is no harm".into()
            } else {
                format!("{:+.1} % at most is left possible", (most - 1.0) * 100.0)
            };
            Card { label, value: "none seen".into(), note: possible, color: None }
        }
    })
}

/// What one dataset answers.
pub(super) fn of_dataset(digest: &Digest) -> Answer {
    let mut answer = digest
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
    let experiment = &digest.plan.experiment;
    let mut answer = Answer {
        question: experiment.question.clone().unwrap_or_else(|| experiment.name.clone()),
        figure: frontier::figure(&digest.frontier, 440),
        ..Answer::default()
    };
    let effects: Vec<&CaseResult> = digest.results.iter().filter(|result| result.effect.is_some()).collect();
    if let Some(summary) = &digest.aa {
        let mut said = crate::aa::sentences(summary);
        answer.headline = if said.is_empty() { String::new() } else { capital(&said.remove(0)) };
        answer.sentences = said.iter().map(|sentence| capital(sentence)).collect();
    } else if !effects.is_empty() {
        slowdowns(&mut answer, digest, &effects);
    } else if !digest.results.is_empty() {
        costs(&mut answer, digest);
    } else {
        answer.headline = "No case was measured.".into();
    }
    answer
}

fn slowdowns(answer: &mut Answer, digest: &Digest, effects: &[&CaseResult]) {
    let metric = &digest.plan.experiment.metric;
    let finding = |result: &CaseResult| result.effect.as_ref().map(|effect| effect.finding);
    let count = |is: fn(&Verdict) -> bool| {
        effects.iter().filter(|result| finding(result).is_some_and(|found| is(&found.verdict))).count()
    };
    let slower = count(|verdict| matches!(verdict, Verdict::Slower));
    let same = count(|verdict| matches!(verdict, Verdict::NoChangeLargerThanMargin));
    let mut sorted: Vec<(&CaseResult, f64)> = effects
        .iter()
        .filter_map(|result| Some((*result, finding(result)?.slowdown.filter(numbers::tells)?.low)))
        .collect();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
    let of = effects.len();
    answer.headline = match (slower, sorted.first()) {
        (0, _) if same == of => format!("Nothing changed '{metric}' by more than the margin."),
        (0, _) => format!(
            "Nothing was seen to slow '{metric}' down; {same} of {of} cases are known to change it by no more than the margin."
        ),
        (_, Some((worst, _))) => format!(
            "{slower} of {of} cases slow '{metric}' down, {} most: {}.",
            words(&digest.plan, worst.case),
            finding(worst).map(|found| found.to_string()).unwrap_or_default()
        ),
        _ => format!("{slower} of {of} cases slow '{metric}' down."),
    };
    for (result, _) in sorted.iter().take(6) {
        let Some(found) = finding(result) else { continue };
        let Some(slowdown) = found.slowdown else { continue };
        let figure = numbers::slowdown_figure(&slowdown);
        let name = words(&digest.plan, result.case);
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

fn costs(answer: &mut Answer, digest: &Digest) {
    let plan = &digest.plan;
    let fenced = |case: usize| {
        digest.frontier.points.iter().find(|point| point.case == case).is_none_or(|point| point.fenced())
    };
    let mut sorted: Vec<(&CaseResult, f64)> = digest
        .results
        .iter()
        .filter(|result| fenced(result.case))
        .filter_map(|result| Some((result, result.ns_per_unit.ok().filter(numbers::tells)?.value)))
        .collect();
    sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
    let same_unit = sorted.windows(2).all(|pair| pair[0].0.unit == pair[1].0.unit);
    let writes = !digest.frontier.points.is_empty();
    answer.headline = match sorted.first() {
        Some((best, _)) if sorted.len() == 1 => format!(
            "{} takes {} per {}.",
            capital(&words(plan, best.case)),
            numbers::ns_estimate(&best.ns_per_unit),
            one(best.unit)
        ),
        Some((best, _)) if same_unit => format!(
            "The cheapest {}: {}, {} per {}.",
            if writes { "way to have stores flushed" } else { "case" },
            words(plan, best.case),
            numbers::ns_estimate(&best.ns_per_unit),
            one(best.unit)
        ),
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

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}
