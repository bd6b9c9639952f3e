//! The answer of `prove`: what was seen, what was tried, the verdict and how to keep it.

use ringfence_analysis::estimate::{Estimate, Interval};
use ringfence_analysis::verdicts::side;
use ringfence_experiment::Reason;
use ringfence_experiment::budget::Budget;
use ringfence_experiment::task::text as task_text;
use ringfence_experiment::warning;
use ringfence_studies::prove::{Candidate, Confirmation, Price, Proof, Question, Tried, Verdict};

use crate::experiment::cases::one;
use crate::experiment::text::SIMULATED;
use crate::latencies::text as latencies;
use crate::numbers;
use crate::numbers::{Figure, NO_FIGURE, ns_estimate, slowdown_estimate, slowdown_figure};
use crate::print::unknown::Unknown;
use crate::prove::budget;
use crate::prove::budget::{judged_estimate, judged_figure, judged_name, side_of};
use crate::prove::checks::checks;
use crate::style::{Paint, Style};
use crate::table::{Cell, Column, Table};
use crate::text::{clean, command, hanging, heading, paragraph};

/// The narrowest that a setting's name is wrapped to.
const NARROWEST_SETTING: usize = 14;

/// Whether there was a baseline: if the control refused a verdict, nothing was measured with the
/// aggressor. Ringfence assigns no CPU to a running process.
pub(crate) fn was_measured_beside(proof: &Proof) -> bool {
    !proof.cpus[1].is_empty()
        || proof.record.question.aggressor().is_ok_and(|task| task.is_attached())
}

/// Renders an answer; the verdict comes last, where the eye rests.
pub fn prove(proof: &Proof, style: &Style) -> String {
    let mut out = String::new();
    if proof.simulated {
        heading(&mut out, SIMULATED, style);
    }
    let question = &proof.record.question;
    asked(&mut out, proof, style);
    out.push('\n');
    for sentence in checks(proof) {
        paragraph(&mut out, 0, &sentence, style);
    }
    let judged = proof.judged_beside();
    let beside = format!(
        "Beside the unchanged aggressor: {}{}{}{}",
        of_what(proof, judged),
        judged_estimate(question.budget, judged),
        trials(judged),
        if proof.verdict == Verdict::NothingHappened {
            ""
        } else {
            side_of(judged, question.budget)
        }
    );
    if was_measured_beside(proof) {
        paragraph(&mut out, 0, &beside, style);
        if let Some(reached) = &proof.reached {
            let alone = format!(
                "alone: {}{}; beside it {}",
                ns_estimate(&reached.alone),
                side_of(&reached.alone, question.budget),
                longer(&proof.beside)
            );
            paragraph(&mut out, 2, &alone, style);
        }
    }
    if !proof.latencies.is_empty() {
        out.push('\n');
        out.push_str(&latencies::quantiles(&proof.latencies, style));
    }
    if !proof.tried.is_empty() {
        out.push('\n');
        if proof.simulated {
            heading(&mut out, SIMULATED, style);
        }
        out.push_str(&table(proof, style));
    }
    for (lever, why) in &proof.record.refused {
        paragraph(&mut out, 0, &format!("not offered: {lever}, because {why}"), style);
    }
    for confirmation in &proof.confirmations {
        out.push('\n');
        confirmed(
            &mut out,
            confirmation,
            &of_what(proof, confirmation.tried.judged()),
            question.budget,
            style,
        );
    }
    out.push('\n');
    verdict(&mut out, proof, style);
    out
}

// The victim and the aggressor, where each runs, and the budget.
fn asked(out: &mut String, proof: &Proof, style: &Style) {
    let question = &proof.record.question;
    let on = |cpus: &[u32]| {
        let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
        if cpus.is_empty() {
            return if was_measured_beside(proof) {
                "where it runs already"
            } else {
                "not started"
            }
            .to_string();
        }
        format!("on CPU{} {}", if cpus.len() == 1 { "" } else { "s" }, list.join(", "))
    };
    let victim = task_text::print(&question.victim);
    let aggressor = task_text::print(&question.aggressor);
    hanging(out, "victim     ", None, &format!("{victim}, {}", on(&proof.cpus[0])), style);
    hanging(out, "aggressor  ", None, &format!("{aggressor}, {}", on(&proof.cpus[1])), style);
    hanging(out, "budget     ", None, &budget::allowed(question, &proof.unit), style);
}

/// Renders the warnings among these sentences, which stand above everything else.
pub fn warnings(left: &[String], style: &Style) -> String {
    let mut out = String::new();
    for sentence in warning::split(left).0 {
        paragraph(&mut out, 0, sentence, style);
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

/// Renders what the user should know of resctrl after a measurement: what another process has
/// changed meanwhile, what could not be restored, which tasks were not in their groups. Empty where
/// there is nothing of the kind.
pub fn left(left: &[String], style: &Style) -> String {
    let mut out = String::new();
    for sentence in warning::split(left).1 {
        paragraph(&mut out, 0, sentence, style);
    }
    out
}

// What the aggressor makes of a time.
fn longer(slowdown: &Estimate) -> String {
    match slowdown {
        Ok(known) => format!("{} time", numbers::slowdown(known)),
        Err(reason) => format!("how much longer is not known: {}", reason.why()),
    }
}

/// What the figures of levers are.
pub(crate) fn told_as(question: &Question) -> String {
    let quantile = question.measure.quantity.quantile();
    quantile.map_or("both as time per unit of work".into(), |of| {
        format!("the victim's as {of} of latencies, the aggressor's as time per unit of work")
    })
}

// What a figure is about, where it is not the mean.
fn of_what(proof: &Proof, figure: &Estimate) -> String {
    let quantile = proof.record.question.measure.quantity.quantile().filter(|_| figure.is_ok());
    let unit = one(&proof.unit);
    let article = if unit.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    quantile.map_or(String::new(), |of| format!("{of} of {article} {unit} "))
}

pub(crate) fn trials(estimate: &Estimate) -> String {
    estimate.as_ref().map_or(String::new(), |interval| {
        format!(", {} % interval over {} trials", trimmed(interval.level * 100.0), interval.trials)
    })
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

fn table(proof: &Proof, style: &Style) -> String {
    let budget = proof.record.question.budget;
    let mut table = Table::new(vec![
        Column::text("lever", NARROWEST_SETTING),
        Column::right("victim"),
        Column::left("interval"),
        Column::left(""),
        Column::right("aggressor"),
        Column::left("interval"),
    ]);
    for tried in &proof.tried {
        let (value, interval) = figure(tried.judged(), |known| judged_figure(budget, known));
        let (word, paint) = match (tried.judged(), side(tried.judged(), budget)) {
            (Err(_), _) => ("", Paint::Faint),
            (_, Some(true)) => ("within", Paint::Good),
            (_, Some(false)) => ("over", Paint::Bad),
            (_, None) => ("unclear", Paint::Caution),
        };
        let (price, price_interval) = match &tried.price {
            Price::Slowdown(price) => figure(price, slowdown_figure),
            Price::Unseen(_) => ("not seen".into(), String::new()),
        };
        table.row(vec![
            Cell::new(&tried.candidate.arm.name),
            Cell::new(value),
            Cell::new(interval),
            Cell::painted(word, paint),
            Cell::new(price),
            Cell::new(price_interval),
        ]);
    }
    let mut out = table.render(style);
    let victim = if budget.is_absolute() { "beside it" } else { "compared with running alone" };
    let what = format!(
        "victim: {victim}; aggressor: what the lever costs it, compared with running unchanged; \
         {}. The best \
         of many tried at once looks better than it is: the one that is chosen is measured again.",
        told_as(&proof.record.question)
    );
    paragraph(&mut out, 0, &what, style);
    let unseen = proof.tried.iter().find_map(|tried| match &tried.price {
        Price::Unseen(why) => Some(why),
        Price::Slowdown(_) => None,
    });
    if let Some(why) = unseen {
        let text = format!(
            "not seen: what the lever costs the aggressor, because {why}; --aggressor-progress \
             lines or counter shows it"
        );
        paragraph(&mut out, 0, &text, style);
    }
    out
}

fn figure(estimate: &Estimate, told: impl Fn(&Interval) -> Figure) -> (String, String) {
    match estimate {
        Ok(interval) => {
            let figure = told(interval);
            (figure.value, figure.interval)
        }
        Err(_) => (NO_FIGURE.into(), String::new()),
    }
}

fn confirmed(
    out: &mut String,
    confirmation: &Confirmation,
    of: &str,
    budget: Budget,
    style: &Style,
) {
    let Tried { candidate, .. } = &confirmation.tried;
    let victim = confirmation.tried.judged();
    let text = format!(
        "Measured again on fresh trials, '{}': {of}{}{}{}",
        clean(&candidate.arm.name),
        judged_estimate(budget, victim),
        trials(victim),
        side_of(victim, budget)
    );
    paragraph(out, 0, &text, style);
    let beside = format!(
        "without it, on the same trials: {}",
        judged_estimate(budget, confirmation.judged_beside())
    );
    paragraph(out, 2, &beside, style);
}

fn verdict(out: &mut String, proof: &Proof, style: &Style) {
    let (word, how) = word(proof);
    let how = if how.is_empty() { String::new() } else { format!(", {how}") };
    heading(out, &format!("Verdict: {word}{how}"), style);
    let said = conclusion(proof);
    let answer = std::iter::once(said.answer).chain(said.besides).collect::<Vec<_>>();
    hanging(out, "  ", None, &answer.join(" "), style);
    if let Some(keep) = &said.keep {
        hanging(out, "  keep it: ", None, keep, style);
        said.commands.iter().for_each(|line| command(out, 4, line));
    }
    for note in &said.notes {
        hanging(out, "  note: ", None, note, style);
    }
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
        Verdict::Undecided if proof.faster => ("UNDECIDED", "something else changed"),
        Verdict::Undecided => ("UNDECIDED", ""),
        Verdict::NothingHappened => ("NO VERDICT", "nothing happened"),
        Verdict::SimulatedOnly => ("SIMULATED ONLY", "within the budget on a described machine"),
    }
}

// Of a victim that is clearly faster with its aggressor than alone.
fn something_else_changed(slowdown: &Estimate) -> String {
    format!(
        "The victim is clearly faster with the aggressor than alone ({} time): something else \
         changed between the windows, such as \
         clock frequency, power saving or what the victim does.",
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
        format!("Nothing happened: the aggressor did next to nothing beside the victim ({why})."),
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
            said.besides.push(MEASURE_AGAIN.into());
            format!(
                "{} So its figure alone is no measure of harm.",
                something_else_changed(&proof.beside)
            )
        }
        (Verdict::Undecided, _) if proof.unhelpful().is_some() => {
            said.besides.push(
                "No lever is recommended. More time (--time) or trials (--trials) may settle it."
                    .into(),
            );
            proof.unhelpful().map_or_else(String::new, |one| unhelpful(one, proof))
        }
        (Verdict::NothingNeeded, _) => {
            if proof.faster {
                said.besides.push(something_else_changed(&proof.beside));
                said.besides.push(MEASURE_AGAIN.into());
            }
            format!(
                "Nothing is needed: beside the unchanged aggressor the victim's {figure} is {}, \
                 within the budget of {budget}.",
                beside
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
        // Of a missed budget: what a version wrote that called this so.
        (Verdict::Missed | Verdict::Undecided, None) if harmed_and_nothing_tried(proof) => {
            said.besides.push(why_nothing_was_tried(proof).into());
            format!(
                "Over the budget of {budget}: beside the unchanged aggressor the victim's {figure} \
                 is {}, and no lever was tried.",
                beside
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
            "All of this was simulated: it says what to measure on such a machine, and is no \
             proof."
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
    let beside = told(proof.judged_beside());
    let tried = &confirmation.tried;
    if !proof.baseline_is_decided() {
        said.besides.push(match proof.judged_beside() {
            Ok(_) => format!(
                "Perhaps nothing is needed: without it the victim's {figure} of {beside} may be \
                 on either side of the budget."
            ),
            Err(reason) => format!(
                "Perhaps nothing is needed: without it the victim's {figure} is not known, \
                 because {}.",
                reason.why()
            ),
        });
    }
    said.besides.push(price(&tried.price));
    if !proof.simulated {
        said.keep = Some(clean(&tried.candidate.keep));
        said.commands.clone_from(&tried.candidate.commands);
    }
    said.notes.extend(tried.candidate.caveat.as_deref().map(clean));
    if side(confirmation.judged_beside(), limit) == Some(true) {
        said.notes.push(format!(
            "on the same trials the unchanged aggressor was within the budget too, {}: what the \
             baseline showed did not happen again",
            told(confirmation.judged_beside())
        ));
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
    let beside = told(proof.judged_beside());
    let more = match proof.simulated {
        true => "More trials (--trials) would tell.",
        false => {
            "More time (--time), more trials (--trials) or a quieter machine ('ringfence \
             doctor') would tell."
        }
    };
    said.besides.push(match &proof.record.unconfirmed {
        Some((lever, why)) => {
            format!("'{}' was not measured again, because {}.", clean(lever), clean(why))
        }
        None => more.into(),
    });
    let with = |lever: Option<&Candidate>| {
        lever.map_or("Beside the unchanged aggressor".to_string(), |lever| {
            format!("With '{}'", clean(&lever.arm.name))
        })
    };
    match proof.open() {
        None => format!(
            "Over the budget of {budget}: beside the unchanged aggressor the victim's {figure} is \
             {beside}. Which lever helps is not known yet."
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
            "{}, the victim's {figure} of {} may be on either side of the budget of {budget}.",
            with(lever),
            told(known)
        ),
    }
}

// The victim is over the budget beside the aggressor, and no lever was there or had time.
fn harmed_and_nothing_tried(proof: &Proof) -> bool {
    let limit = proof.record.question.budget;
    let offered = proof.record.candidates.as_ref();
    proof.tried.is_empty()
        && offered.is_none_or(Vec::is_empty)
        && side(proof.judged_beside(), limit) == Some(false)
}

fn why_nothing_was_tried(proof: &Proof) -> &'static str {
    let for_time = |(lever, _): &(String, Reason)| lever == "any lever";
    match proof.record.refused.iter().any(for_time) {
        true => "Whether one helps is not known: the time was over before.",
        false => "Whether one helps is not known: none is offered here, for the reasons given.",
    }
}

fn unhelpful(one: &Confirmation, proof: &Proof) -> String {
    let limit = proof.record.question.budget;
    let compared = match &one.against_beside {
        Ok(ratio) => format!("with it {} of the time without it", slowdown_ratio(ratio)),
        Err(reason) => format!("how they compare is not known: {}", reason.why()),
    };
    format!(
        "'{}' is not known to help: with it the victim's {} is {}, within the budget of {}, but \
         without it, on the same trials, {} \
         ({compared}).",
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
        Price::Unseen(why) => format!("What it costs the aggressor cannot be seen, because {why}."),
        Price::Slowdown(Err(none)) => {
            format!("What it costs the aggressor is not known: {}.", none.why())
        }
        Price::Slowdown(Ok(slowdown)) => {
            let what = match slowdown {
                slowdown if slowdown.low > 1.0 => "What it costs the aggressor",
                slowdown if slowdown.high < 1.0 => "The aggressor gains by it",
                _ => "No cost to the aggressor was seen",
            };
            format!("{what}: {} time per unit of its work.", slowdown_estimate(&Ok(*slowdown)))
        }
    }
}
