//! What follows from a proof, in sentences.

use ringfence_analysis::estimate::{Estimate, Interval};
use ringfence_analysis::verdicts::side;
use ringfence_experiment::Reason;
use ringfence_studies::prove::{Candidate, Confirmation, Price, Proof, Verdict};

use crate::numbers::slowdown_estimate;
use crate::print::unknown::Unknown;
use crate::prove::budget;
use crate::prove::budget::{judged_estimate, judged_name};
use crate::prove::settles;
use crate::text::clean;

/// Whether there was a baseline: if the control refused a verdict, nothing was measured with the
/// aggressor. Ringfence assigns no CPU to a running process.
pub(crate) fn was_measured_beside(proof: &Proof) -> bool {
    !proof.cpus[1].is_empty() || proof.record.question.aggressor.task().is_attached()
}

/// A verdict in a word, and what else belongs to it.
pub(crate) fn word(proof: &Proof) -> (&'static str, &'static str) {
    let faster = proof.is_faster_than_alone();
    match proof.verdict {
        Verdict::NothingNeeded if faster => ("MET", "but something else changed"),
        Verdict::Met if faster => ("MET", "with a lever, but something else changed"),
        Verdict::NothingNeeded => ("MET", "no lever needed"),
        Verdict::Met => ("MET", "with a lever"),
        Verdict::Missed => ("NOT MET", ""),
        Verdict::Undecided => ("UNDECIDED", why_undecided(proof)),
        Verdict::NothingHappened => ("NO VERDICT", "nothing happened"),
        Verdict::SimulatedOnly => ("SIMULATED ONLY", "within the budget on a described machine"),
    }
}

fn why_undecided(proof: &Proof) -> &'static str {
    if proof.faster {
        "something else changed"
    } else if harmed_and_nothing_tried(proof) {
        "harm shown, no lever tried"
    } else if harmed_and_nothing_known(proof) {
        "harm shown, no lever has a figure"
    } else if proof.unhelpful().is_some() {
        if is_harmed(proof) { "the harm did not show again" } else { "no harm shown" }
    } else {
        ""
    }
}

// Of a victim that is clearly faster with its aggressor than alone.
fn something_else_changed(slowdown: &Estimate) -> String {
    format!(
        "The victim is faster with the aggressor running than alone ({} time): something else \
         changed between the windows, such as clock frequency, power saving or what the victim \
         does.",
        slowdown_estimate(slowdown)
    )
}

const MEASURE_AGAIN: &str = "Check that the victim does the same work alone, and that clocks are \
                             steady ('ringfence doctor'), and measure again.";

// Why there is no verdict, and what to do about it.
fn nothing(proof: &Proof) -> [String; 2] {
    let control = proof.record.control.as_ref();
    if let Some(control) = control.filter(|control| control.depends().is_none()) {
        let advice = if control.whole_runs {
            "Let a run take 20 ms or more (do its work several times over)."
        } else {
            "Let it show its work in smaller units, or give longer windows (--window) that hold \
             several."
        };
        return [
            format!(
                "Nothing can be said: the victim's {} are too short or too few to be stopped half \
                 of the time, which would \
                 show whether its figure depends on how much it may run.",
                clean(&control.unit)
            ),
            advice.into(),
        ];
    }
    if let Some(control) = control.filter(|control| control.depends() == Some(false)) {
        let whats = ["a unit of its work", "a run", "the figure of a run"];
        let what = whats[usize::from(control.whole_runs) + usize::from(control.runs.is_some())];
        return [
            format!(
                "Nothing can be said: stopped half of the time, {what} of the victim takes {:.2} \
                 times as long instead of \
                 about twice.",
                control.ratio().unwrap_or(1.0)
            ),
            "It ends after a fixed time, catches up on what it missed, or waits for others, so a \
             slowdown would not show. Give \
             it a fixed amount of work (pgbench -t, fio --size, ab -n)."
                .into(),
        ];
    }
    let ended = proof.record.worked.is_some_and(|worked| worked.used.restarts > 0);
    let why = if ended {
        "it ends at once, and is only started again and again"
    } else {
        "it used less than 1 % of a CPU, and neither counted nor moved anything"
    };
    [
        format!("The aggressor did next to nothing while the victim ran ({why})."),
        "So nothing is proved: give a command that works for as long as it is measured.".into(),
    ]
}

/// The verdict in words.
#[derive(Default)]
pub(crate) struct Conclusion {
    /// In one sentence.
    pub answer: String,
    /// What else belongs to it, in sentences.
    pub besides: Vec<String>,
    /// How the lever is kept.
    pub keep: Option<String>,
    /// The commands that keep it, each a line for a shell.
    pub commands: Vec<String>,
    /// What to know of it.
    pub notes: Vec<String>,
}

/// What follows from a proof.
pub(crate) fn conclusion(proof: &Proof) -> Conclusion {
    let limit = proof.record.question.budget;
    let budget = budget::text(limit);
    let figure = judged_name(&proof.record.question);
    let told = |figure: &Estimate| judged_estimate(limit, figure);
    let beside = told(proof.judged_beside());
    let mut said = Conclusion::default();
    said.answer = match (if_measured(proof), proof.confirmations.last()) {
        (Verdict::Undecided, _) if proof.faster => {
            said.besides.push("So its slowdown is no measure of harm.".into());
            said.besides.push(MEASURE_AGAIN.into());
            something_else_changed(&proof.beside)
        }
        (Verdict::Undecided, _) if proof.unhelpful().is_some() => {
            said.besides.push("No lever is recommended.".into());
            said.besides.extend(settles::sentence(proof));
            proof.unhelpful().map_or_else(String::new, |one| unhelpful(one, proof))
        }
        (Verdict::NothingNeeded, _) => {
            if proof.faster {
                said.besides.push(something_else_changed(&proof.beside));
                said.besides.push(MEASURE_AGAIN.into());
            }
            format!(
                "With the aggressor running, the victim's {figure} is {beside}, within the budget \
                 of {budget}."
            )
        }
        (Verdict::NothingHappened, _) => {
            let [what, advice] = nothing(proof);
            said.besides.push(advice);
            what
        }
        (Verdict::Met, Some(confirmation)) => met(&mut said, proof, confirmation),
        (Verdict::Missed, _) if proof.misses_alone() => {
            said.besides.push("No lever on the aggressor can help: none was tried.".into());
            let alone = proof.reached.as_ref().map_or(beside, |reached| told(&reached.alone));
            format!(
                "The victim is over the budget of {budget} by itself: its {figure} alone is \
                 {alone}."
            )
        }
        // An earlier version stored this case as a missed budget.
        (Verdict::Missed | Verdict::Undecided, None) if harmed_and_nothing_tried(proof) => {
            said.besides.push(why_nothing_was_tried(proof).into());
            format!(
                "With the aggressor running, the victim's {figure} is {beside}, over the budget of \
                 {budget}."
            )
        }
        (Verdict::Missed, None) => {
            format!("No lever meets the budget of {budget}{}.", closest(proof, "; the closest is"))
        }
        (Verdict::Missed, Some(_)) => missed_again(proof),
        (Verdict::Met | Verdict::Undecided | Verdict::SimulatedOnly, _) => open(&mut said, proof),
    };
    if proof.simulated {
        said.besides.push(
            "All of this was simulated: it says what to measure on such a machine, and proves \
             nothing about real hardware."
                .into(),
        );
    }
    said
}

// The verdict that a simulation would have as a measurement.
fn if_measured(proof: &Proof) -> Verdict {
    match (proof.verdict, proof.confirmations.is_empty()) {
        (Verdict::SimulatedOnly, true) => Verdict::NothingNeeded,
        (Verdict::SimulatedOnly, false) => Verdict::Met,
        (other, _) => other,
    }
}

// A lever that kept the budget when it was measured again.
fn met(said: &mut Conclusion, proof: &Proof, confirmation: &Confirmation) -> String {
    let limit = proof.record.question.budget;
    let (budget, figure) = (budget::text(limit), judged_name(&proof.record.question));
    let told = |figure: &Estimate| judged_estimate(limit, figure);
    let tried = &confirmation.tried;
    said.besides
        .push(format!("Without it, on the same trials: {}.", told(confirmation.judged_beside())));
    said.besides.push(price(&tried.price));
    if !proof.baseline_is_decided() {
        said.besides.push(match proof.judged_beside() {
            Ok(_) => format!(
                "A lever may not be needed: at first the victim's {figure} without one was {}, \
                 within or over the budget.",
                told(proof.judged_beside())
            ),
            Err(reason) => format!(
                "A lever may not be needed: at first the victim's {figure} without one was not \
                 known, because {}.",
                reason.why()
            ),
        });
    }
    if !proof.simulated {
        said.keep = Some(clean(&tried.candidate.keep));
        said.commands.clone_from(&tried.candidate.commands);
    }
    said.notes.extend(tried.candidate.caveat.as_deref().map(clean));
    if side(confirmation.judged_beside(), limit) == Some(true) {
        said.notes.push(
            "on the same trials the unchanged aggressor was within the budget too: what the \
             baseline showed did not happen again"
                .into(),
        );
    }
    if confirmation.is_faster_than_alone() {
        said.besides.push(something_else_changed(&tried.victim));
    }
    format!(
        "'{}' keeps the victim within the budget of {budget}: its {figure} is {}.",
        clean(&tried.candidate.arm.name),
        told(tried.judged())
    )
}

fn missed_again(proof: &Proof) -> String {
    let budget = budget::text(proof.record.question.budget);
    let which = match proof.confirmations.len() {
        1 => "the one that might was".to_string(),
        tries => format!("the {tries} that might were"),
    };
    format!(
        "No lever meets the budget of {budget}: {which} over it when measured again{}.",
        closest(proof, "; at first the closest was")
    )
}

// Neither within the budget nor over it, as far as is known.
fn open(said: &mut Conclusion, proof: &Proof) -> String {
    let limit = proof.record.question.budget;
    let (budget, figure) = (budget::text(limit), judged_name(&proof.record.question));
    let told = |figure: &Estimate| judged_estimate(limit, figure);
    match &proof.record.unconfirmed {
        Some((lever, why)) => said.besides.push(format!(
            "'{}' was not measured again, because {}.",
            clean(lever),
            clean(why)
        )),
        None => said.besides.extend(settles::sentence(proof)),
    }
    let with = |lever: Option<&Candidate>| {
        lever.map_or("With the aggressor running".to_string(), |lever| {
            format!("With '{}'", clean(&lever.arm.name))
        })
    };
    match proof.open() {
        None => format!(
            "With the aggressor running, the victim's {figure} is {}, over the budget of {budget}. \
             Which lever helps is not known yet.",
            told(proof.judged_beside())
        ),
        Some((Some(_), Err(reason))) if harmed_and_nothing_known(proof) => format!(
            "With the aggressor running, the victim's {figure} is {}, over the budget of {budget}. \
             Which lever helps is not known: {}.",
            told(proof.judged_beside()),
            reason.why()
        ),
        Some((lever, Err(reason))) => {
            format!("{}, the victim's {figure} is not known: {}.", with(lever), reason.why())
        }
        Some((lever, Ok(known))) if side(&Ok(*known), limit) == Some(true) => format!(
            "{}, the victim's {figure} of {} seems to be within the budget of {budget}{}.",
            with(lever),
            told(&Ok(*known)),
            if proof.record.unconfirmed.is_some() { "" } else { "; it was not measured again" }
        ),
        Some((lever, known)) => format!(
            "{}, the victim's {figure} of {} could be within or over the budget of {budget}.",
            with(lever),
            told(known)
        ),
    }
}

fn is_harmed(proof: &Proof) -> bool {
    side(proof.judged_beside(), proof.record.question.budget) == Some(false)
}

// The victim is over the budget with the aggressor, and no lever was there or had time.
fn harmed_and_nothing_tried(proof: &Proof) -> bool {
    let offered = proof.record.candidates.as_ref();
    proof.tried.is_empty() && offered.is_none_or(Vec::is_empty) && is_harmed(proof)
}

// The same, where levers were begun and none of them has a figure.
fn harmed_and_nothing_known(proof: &Proof) -> bool {
    proof.confirmations.is_empty()
        && proof.tried.iter().all(|tried| tried.judged().is_err())
        && is_harmed(proof)
}

fn why_nothing_was_tried(proof: &Proof) -> &'static str {
    let for_time = |(lever, _): &(String, Reason)| lever == "any lever";
    match proof.record.refused.iter().any(for_time) {
        true => "Whether one helps is not known: the time was over before.",
        false => "Whether one helps is not known: none is offered here.",
    }
}

fn unhelpful(one: &Confirmation, proof: &Proof) -> String {
    let limit = proof.record.question.budget;
    let compared = match &one.against_beside {
        Ok(ratio) => format!("with it {} of the time without it", slowdown_ratio(ratio)),
        Err(reason) => format!("how they compare is not known: {}", reason.why()),
    };
    format!(
        "'{}' is not known to help: the victim's {} is {} with it, within the budget of {}, and {} \
         without it, on the same trials ({compared}).",
        clean(&one.tried.candidate.arm.name),
        judged_name(&proof.record.question),
        judged_estimate(limit, one.tried.judged()),
        budget::text(limit),
        judged_estimate(limit, one.judged_beside())
    )
}

// `0.97x [0.90, 1.04]`.
fn slowdown_ratio(ratio: &Interval) -> String {
    format!("{:.2}x [{:.2}, {:.2}]", ratio.value, ratio.low, ratio.high)
}

fn closest(proof: &Proof, lead: &str) -> String {
    let budget = proof.record.question.budget;
    let known = proof.tried.iter().filter_map(|tried| Some((tried, tried.judged().as_ref().ok()?)));
    let best = known.min_by(|a, b| a.1.value.total_cmp(&b.1.value));
    best.map_or(String::new(), |(tried, figure)| {
        let figure = judged_estimate(budget, &Ok(*figure));
        format!("{lead} '{}', with {figure}", clean(&tried.candidate.arm.name))
    })
}

fn price(price: &Price) -> String {
    match price {
        Price::Unseen(why) => format!("Cost for the aggressor: cannot be seen, because {why}."),
        Price::Slowdown(Err(none)) => format!("Cost for the aggressor: not known, {}.", none.why()),
        Price::Slowdown(Ok(slowdown)) => {
            let what = match slowdown {
                slowdown if slowdown.low > 1.0 => "Cost for the aggressor",
                slowdown if slowdown.high < 1.0 => "The aggressor gains by it",
                _ => "No cost for the aggressor was seen",
            };
            format!("{what}: {} time per unit of its work.", slowdown_estimate(&Ok(*slowdown)))
        }
    }
}
