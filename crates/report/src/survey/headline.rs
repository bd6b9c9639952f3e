//! A survey's answer in words.

use ringfence_analysis::estimate::{Estimate, Finding};
use ringfence_studies::survey::answer::{Answer, BESIDE, ForBlock, Harm, Method, Seen};

use crate::sentence::sentence;
use crate::text::listed;

/// What is said of a slowdown that its own interval shows, but not the one that holds for all at
/// once.
pub(crate) const CHANCE: &str = "which may be chance among so many comparisons";

/// What is cheapest to make durable, by what is written, and what that does to others: in a few
/// sentences.
pub fn headline(answer: &Answer) -> String {
    up_to(answer, f64::INFINITY)
}

/// The same without what was not seen to slow anything, if slowdowns above [`TOO_NOISY`] could have
/// been missed.
pub(crate) fn brief(answer: &Answer) -> String {
    up_to(answer, TOO_NOISY)
}

/// A slowdown that is seen on a machine on which slowdowns can be measured.
pub(crate) const TOO_NOISY: f64 = 1.5;

fn up_to(answer: &Answer, limit: f64) -> String {
    let mut text = cheapest(answer);
    let named: Vec<(&ForBlock, &Method)> = answer
        .blocks
        .iter()
        .flat_map(|of| of.cheapest().into_iter().map(move |method| (of, method)))
        .collect();
    if named.iter().all(|(of, method)| answer.harm(method.instruction, of.block).is_none()) {
        return text + " What they do to other tasks was not measured.";
    }
    let harms = harms_of(answer, &named, limit);
    if !harms.is_empty() {
        text += &format!(" Next to other tasks: {}.", harms.join("; "));
    }
    let bound = |method: &Method| answer.harm(method.instruction, BESIDE)?.at_most();
    match gentler(answer) {
        Some((what, method, left)) if bound(method).is_some_and(|most| most <= limit) => {
            text += &format!(
                " Writing {what} with {} was not seen to slow anything ({left}), at {} a line.",
                method.instruction,
                ns(method.cost.value)
            );
        }
        _ => {}
    }
    text
}

/// The first sentence of it: what is cheapest.
pub(crate) fn cheapest(answer: &Answer) -> String {
    // Blocks that have the same answer are told together.
    let mut groups: Vec<(Vec<&'static str>, Vec<String>)> = Vec::new();
    for of in &answer.blocks {
        let names: Vec<&'static str> =
            of.cheapest().iter().map(|method| method.instruction).collect();
        let what = format!("{} ({} blocks)", of.what, of.block);
        match groups.iter_mut().find(|(known, _)| *known == names) {
            Some((_, all)) => all.push(what),
            None => groups.push((names, vec![what])),
        }
    }
    let group = |(names, what): &(Vec<&str>, Vec<String>)| {
        format!("with {} for {}", listed(names, "or"), listed(what, "and"))
    };
    format!(
        "Durable stores cost least here {}.",
        groups.iter().map(group).collect::<Vec<_>>().join("; ")
    )
}

/// What a method does to other tasks, by its name or without it.
pub(crate) fn to_others(harm: Option<&Harm>) -> String {
    let Some(harm) = harm else { return "not measured".into() };
    match harm.worst() {
        Some(worst) if worst.seen == Seen::Slows => {
            format!("slows {} most: {}", worst.victim, slower(&worst.slowdown))
        }
        Some(worst) => {
            format!("perhaps slows {}: {}, {CHANCE}", worst.victim, slower(&worst.slowdown))
        }
        None if harm.none_seen() => format!("no slowdown seen; {}", left(harm.at_most())),
        None => "not known: a figure is missing".into(),
    }
}

// Those that harm, each by itself; those that were not seen to, and those of which it is not known,
// together.
fn harms_of(answer: &Answer, named: &[(&ForBlock, &Method)], limit: f64) -> Vec<String> {
    let (mut said, mut calm, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    let mut most: Option<f64> = Some(0.0);
    for (of, method) in named {
        let name = (of.what, method.instruction);
        let Some(harm) = answer.harm(method.instruction, of.block) else {
            unknown.push(name);
            continue;
        };
        if let Some(worst) = harm.worst() {
            let (how, victim) = (slower(&worst.slowdown), &worst.victim);
            said.push(match worst.seen {
                Seen::Slows => format!("writing {} with {} slows {victim} ({how})", name.0, name.1),
                _ => format!(
                    "writing {} with {} may slow {victim} ({how}, {CHANCE})",
                    name.0, name.1
                ),
            });
        } else if harm.none_seen() {
            calm.push(name);
            most = most.zip(harm.at_most()).map(|(most, here)| most.max(here));
        } else {
            unknown.push(name);
        }
    }
    if !calm.is_empty() && most.is_none_or(|most| most <= limit) {
        let calm = listed(&by_what(&calm), "and");
        said.push(format!("writing {calm} was not seen to slow anything ({})", left(most)));
    }
    if !unknown.is_empty() {
        said.push(format!(
            "whether writing {} slows anything is not known",
            listed(&by_what(&unknown), "or")
        ));
    }
    said
}

// `pages with nt or clwb`: what is written, with all its methods.
fn by_what(names: &[(&'static str, &'static str)]) -> Vec<String> {
    let of = names.chunk_by(|a, b| a.0 == b.0);
    of.map(|of| {
        let methods: Vec<&str> = of.iter().map(|(_, method)| *method).collect();
        format!("{} with {}", of[0].0, listed(&methods, "or"))
    })
    .collect()
}

/// Where what is cheapest in the blocks that every instruction writes does harm: one that was not
/// seen to, with what is written and what cannot be ruled out.
pub(crate) fn gentler(answer: &Answer) -> Option<(&'static str, &Method, String)> {
    let of = answer.blocks.iter().find(|of| of.block == BESIDE)?;
    let harm = |method: &Method| answer.harm(method.instruction, BESIDE);
    of.cheapest()
        .into_iter()
        .find(|method| harm(method).is_some_and(|harm| harm.worst().is_some()))?;
    let gentle = of.methods.iter().find(|method| harm(method).is_some_and(Harm::none_seen))?;
    // Where it is one of the cheapest it was named already.
    let most = harm(gentle).filter(|_| !gentle.cheapest)?.at_most()?;
    Some((of.what, gentle, left(Some(most))))
}

/// How much may have been missed where no slowdown was seen.
pub(crate) fn left(most: Option<f64>) -> String {
    most.map_or_else(
        || "no upper limit is known".into(),
        |most| format!("up to {} cannot be ruled out", at_most(most)),
    )
}

/// `slower by 3.4 % [0.1, 6.7]`, of a slowdown whose interval lies above 1.
pub(crate) fn slower(slowdown: &Estimate) -> String {
    sentence(&Finding::new(slowdown, 0.0))
}

/// A bound, rounded up so that it holds.
pub(crate) fn at_most(slowdown: f64) -> String {
    if slowdown >= 2.0 {
        format!("{:.1}x", (slowdown * 10.0).ceil() / 10.0)
    } else {
        format!("{:+.1} %", ((slowdown - 1.0) * 1000.0).ceil() / 10.0)
    }
}

pub(crate) fn ns(value: f64) -> String {
    if value < 10.0 { format!("{value:.1} ns") } else { format!("{value:.0} ns") }
}
