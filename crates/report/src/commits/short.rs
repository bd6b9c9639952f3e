//! The answer of `commit`: which method to use, and a matrix of what each costs.

use ringfence_analysis::estimate::Interval;
use ringfence_analysis::results::CaseResult;
use ringfence_machine::units::Bytes;
use ringfence_studies::findings::Findings;

use crate::commits::method;
use crate::commits::text::{Way, Ways, committers, none_advised, unreached};
use crate::experiment::short::grid::{self, Entry};
use crate::experiment::short::names::names;
use crate::experiment::short::parts::Short;
use crate::experiment::short::{caveats, costs};
use crate::latencies::short as latencies;
use crate::numbers::time_figure;
use crate::style::{Paint, Style};
use crate::text::{capital, listed, plural};

const BY_MEDIAN: &str = "Where intervals overlap, medians of the same trials decide.";

/// The mark of methods that could not be told apart from the cheapest one.
const TIED: &str = "*";

/// A plainer method than the cheapest is recommended if it could not be told apart from that, and
/// its own figure is at most this many times as large: a wide interval alone recommends nothing.
const PLAINER_UP_TO: f64 = 1.5;

/// The recommendation, and where it leaves others as good.
#[derive(Default)]
struct Advice {
    answer: Vec<String>,
    calls: Option<String>,
    /// The case that is recommended.
    case: Option<usize>,
    /// Cases that may be the cheapest.
    tied: Vec<usize>,
    by_median: bool,
}

/// Nothing where something else was measured.
pub(crate) fn short(found: &Findings, style: &Style) -> Option<Short> {
    let ways = Ways::of(found).filter(|ways| !ways.tasks.is_empty())?;
    let not_durable = not_durable(&ways);
    let advice = advice(found, ways, TIED);
    let results: Vec<&CaseResult> = found.results.iter().collect();
    let entry = |(result, name): (&&CaseResult, _)| {
        let is_tied = advice.tied.contains(&result.case);
        let mark = if is_tied { format!(" {TIED}") } else { String::new() };
        Entry {
            name,
            text: costs::figure(result) + &mark,
            paint: (advice.case == Some(result.case)).then_some(Paint::Good),
        }
    };
    let entries: Vec<Entry> = results.iter().zip(names(&found.plan, &results)).map(entry).collect();
    let mut caveats = caveats::of_cases(found);
    let (table, more) = match entries.len() {
        1 => (String::new(), 0),
        _ => {
            let per = costs::per(found, results[0].unit);
            grid::table(&entries, (&per, &per), style)
        }
    };
    caveats.extend((more > 0).then(|| format!("{more} more cases: -v prints them.")));
    if advice.by_median {
        caveats.push(BY_MEDIAN.into());
    }
    let only = results.first().filter(|_| results.len() == 1).map(|result| result.case);
    let counted = counted(found, advice.case.or(only));
    caveats.extend(latencies::mark(counted.iter().copied()));
    let latencies = counted.first().map(|one| format!("Latency: {}.", latencies::line(one)));
    let answer = advice.answer.into_iter().chain(latencies).chain(not_durable);
    Some(Short {
        answer: answer.chain(unreached(found)).collect(),
        call: advice.calls,
        tables: vec![table],
        caveats,
    })
}

fn counted(
    found: &Findings,
    case: Option<usize>,
) -> Vec<&ringfence_analysis::latency::CaseLatencies> {
    latencies::of_metric(found).filter(|one| Some(one.case) == case).collect()
}

// Methods that promise nothing are there to compare with.
fn not_durable(ways: &Ways) -> Option<String> {
    let mut names: Vec<String> = ways
        .tasks
        .iter()
        .filter(|task| !task.sync.durable())
        .map(|task| method::how(task))
        .collect();
    names.dedup();
    (!names.is_empty() && names.len() == ways.tasks.len())
        .then(|| format!("Nothing here is durable: {}.", listed(&names, "and")))
}

/// The answer without the matrix and its marks; nothing where something else was measured.
pub(crate) fn sentences(found: &Findings) -> Option<Vec<String>> {
    let ways = Ways::of(found).filter(|ways| !ways.tasks.is_empty())?;
    let not_durable = not_durable(&ways);
    let mut answer = with_calls(advice(found, ways, ""));
    // A page has no caveats that would hold the reason.
    if let (Some(why), Some(first)) = (none_advised(found), answer.first_mut()) {
        *first = why;
    }
    Some(answer.into_iter().chain(not_durable).chain(unreached(found)).collect())
}

fn with_calls(advice: Advice) -> Vec<String> {
    let calls = advice.calls.map(|calls| format!("The calls: {calls}."));
    advice.answer.into_iter().chain(calls).collect()
}

/// The recommendation alone, for texts without the matrix; nothing where something else was
/// measured.
pub(crate) fn recommendation(found: &Findings) -> Option<String> {
    let ways = Ways::of(found).filter(|ways| !ways.tasks.is_empty())?;
    let advice = advice(found, ways, "");
    let by_median = advice.by_median.then(|| BY_MEDIAN.to_owned());
    let text: Vec<String> = with_calls(advice).into_iter().chain(by_median).collect();
    (!text.is_empty()).then(|| text.join(" "))
}

/// What there is to say below the costs, a paragraph each.
pub(crate) fn said(found: &Findings) -> impl Iterator<Item = String> {
    let advised = none_advised(found).or_else(|| recommendation(found));
    let mut parts = Vec::from_iter(advised);
    let mut without = Ways::of(found).map_or_else(Vec::new, |ways| ways.without);
    without.dedup();
    if !without.is_empty() {
        let compared =
            [": there is no durable commit in such a figure", ", and is there to compare with"];
        parts.push(format!(
            "sync={} makes nothing durable{}.",
            without.join(", "),
            compared[parts.len()]
        ));
    }
    (!parts.is_empty()).then(|| parts.join(" ")).into_iter().chain(unreached(found))
}

// `mark` is that of the matrix, where there is one.
fn advice(found: &Findings, mut ways: Ways, mark: &str) -> Advice {
    let (alike, quantile) = (ways.alike(), found.plan.experiment.measure.quantity.quantile());
    let asked = |way: &Way| (way.task.record, way.task.writers, committers(&found.plan, way.case));
    let same = ways.costs.windows(2).all(|two| asked(&two[0]) == asked(&two[1]));
    // The verdict on a budget has named the only method, and its figure.
    if let ([only], true) = (&ways.tasks[..], found.plan.experiment.measure.decide.is_some()) {
        let calls = ways.costs.first().map(|_| method::calls(only));
        return Advice { calls, ..Advice::default() };
    }
    if let Some(none) = no_advice(&ways) {
        let only = ways
            .costs
            .first()
            .map(|way| format!("{}: {}.", method::named(way.task), cost(&way.cost)));
        return Advice { answer: [none].into_iter().chain(only).collect(), ..Advice::default() };
    }
    // What a record takes is a share of what a batch takes, and has no quantiles of its own.
    if ways.costs.is_empty() || !same || !(alike || quantile.is_none()) {
        return Advice::default();
    }
    if !alike {
        for way in &mut ways.costs {
            way.cost = way.cost.times(1.0 / f64::from(way.task.batch));
        }
    }
    let tied = ways.sort();
    let mut equal: Vec<&Way> = ways.costs.iter().take(tied).collect();
    equal.sort_by_key(|way| (way.ratio > PLAINER_UP_TO, method::effort(way.task)));
    let (best, first) = (equal[0], &ways.costs[0]);
    let per = match alike {
        true => format!("per commit of {}", Bytes(best.task.bytes())),
        false => format!("per record of {}", best.task.record),
    };
    let at = quantile.map_or(String::new(), |quantile| format!("{quantile} is "));
    let lead = if ways.costs.len() > 1 { "Use " } else { "" };
    let mut answer = vec![capital(&format!(
        "{lead}{}: {at}{} {per}.",
        method::named(best.task),
        cost(&best.cost)
    ))];
    let mark = if mark.is_empty() { String::new() } else { format!(" ({mark})") };
    let smallest = match best.case == first.case {
        true => String::new(),
        false => {
            format!("; the smallest figure is {}: {}", method::named(first.task), cost(&first.cost))
        }
    };
    answer.extend(match (tied - 1, ways.costs.len()) {
        (_, 1) => None,
        (0, _) => Some("No other durable method that was measured is as cheap.".to_owned()),
        (others, _) => {
            Some(format!("{} may be as cheap{mark}{smallest}.", plural(others, "other")))
        }
    });
    Advice {
        answer,
        calls: Some(method::calls(best.task)),
        case: Some(best.case),
        tied: if tied > 1 { equal.iter().map(|way| way.case).collect() } else { Vec::new() },
        by_median: ways.costs.iter().any(|way| way.by_median),
    }
}

// That no method is recommended where several were measured, or the only one has no figure. The
// reason stands among the caveats.
fn no_advice(ways: &Ways) -> Option<String> {
    let which = match (ways.costs.len(), ways.unknown.len()) {
        (0, 1) => "the only durable one has no figure".to_owned(),
        (0, of) if of > 1 => format!("none of the {of} durable ones has a figure"),
        (1, others) if others > 0 => {
            format!("only one of the {} durable ones has a figure", others + 1)
        }
        _ => return None,
    };
    Some(format!("No method is recommended, because {which}."))
}

fn cost(cost: &Interval) -> String {
    time_figure(cost).to_string()
}
