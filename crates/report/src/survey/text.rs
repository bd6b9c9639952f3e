//! The survey on one or two screens: machine, costs, neighbours, advice.

use super::{advice, costs, files, headline, machine, neighbours};
use ringfence_machine::doctor::Severity;
use ringfence_studies::survey::{Outside, Survey};

use crate::experiment::starts::listed;
use crate::experiment::text::SIMULATED;
use crate::numbers;
use crate::style::Style;
use crate::text::{capital, faint, heading, paragraph, plural};

pub use super::advice::advice;
pub(crate) use super::costs::PARTS;
pub use super::headline::headline;
pub(crate) use super::headline::{CHANCE, cheapest, gentler, ns, to_others};
pub use super::machine::machine_line;
pub(crate) use super::machine::{describe, holds, round_trip};
pub(crate) use super::neighbours::perhaps;

/// What an interval is.
pub(crate) const INTERVALS: &str =
    "95 % intervals over trials, each trial a new start of the victim.";

/// How precise the slowdowns are.
pub(crate) fn precision(median: f64, worst: f64) -> String {
    format!(
        "Precision: half of the slowdowns are known to within {}, the worst to within {}.",
        numbers::coarse(median),
        numbers::coarse(worst)
    )
}

/// Starts of the chase at which it did not wait for what it is meant to, in a sentence.
pub(crate) fn outside(starts: &Outside) -> String {
    let Outside { experiment, footprint, level, starts, outside } = starts;
    format!(
        "{experiment}: at {} of {starts} starts the chase of {footprint} did not wait for {}, \
         which takes {:.1} to {:.1} ns a load: {}",
        outside.len(),
        level.name,
        level.from_ns,
        level.to_ns,
        listed(outside)
    )
}

/// Renders a survey: what it advises, and which co-runners slow which tasks; with
/// [`Style::details`], the machine and every table.
pub fn survey(survey: &Survey, style: &Style) -> String {
    let mut out = String::new();
    // Over every part, as each may be copied by itself.
    let mark = |out: &mut String| {
        if survey.is_simulated() {
            heading(out, SIMULATED, style);
        }
    };
    mark(&mut out);
    if style.details {
        let texts = survey.advice.iter().map(advice::advice).collect();
        advised(&mut out, survey, survey.answer.as_ref().map(headline::headline), texts, style);
        let sections: [fn(&mut String, &Survey, &Style); 4] =
            [machine::section, costs::section, neighbours::section, files::section];
        let count = if survey.files.is_empty() { 3 } else { 4 };
        for section in &sections[..count] {
            mark(&mut out);
            section(&mut out, survey, style);
        }
        missing(&mut out, survey, style);
        if let Some((median, worst)) = survey.precision {
            faint(&mut out, &format!("{} [lo, hi]: {INTERVALS}", precision(median, worst)), style);
        }
        return out;
    }
    let mut texts = advice::brief(&survey.advice);
    texts.extend(survey.files.iter().filter_map(crate::commits::short::recommendation));
    advised(&mut out, survey, survey.answer.as_ref().map(headline::brief), texts, style);
    neighbours::matrix(&mut out, survey, style);
    caveats(&mut out, survey, style);
    out
}

fn advised(
    out: &mut String,
    survey: &Survey,
    headline: Option<String>,
    texts: Vec<String>,
    style: &Style,
) {
    if headline.is_none() && texts.is_empty() {
        return;
    }
    let machine =
        if survey.is_simulated() { "On the described machine:" } else { "On this machine:" };
    heading(out, machine, style);
    if let Some(headline) = headline {
        paragraph(out, 2, &headline, style);
    }
    for sentence in texts {
        let mut lines = String::new();
        paragraph(&mut lines, 4, &sentence, &Style { color: false, ..*style });
        let bullet = if style.unicode { "  •" } else { "  -" };
        out.push_str(bullet);
        // The paragraph's own indent leaves room for the bullet, and hangs two columns deeper.
        out.push_str(&lines[3..].replace("\n      ", "\n    "));
    }
    out.push('\n');
}

// What does not hold, was not run or could not be probed, each in full.
fn missing(out: &mut String, survey: &Survey, style: &Style) {
    for starts in &survey.outside {
        paragraph(out, 0, &format!("not as intended: {}", outside(starts)), style);
    }
    for line in &survey.not_run {
        paragraph(out, 0, &format!("not run: {line}"), style);
    }
    for line in &survey.probes.failed {
        paragraph(out, 0, &format!("not probed: {line}"), style);
    }
    ended_early(out, survey, style);
}

fn ended_early(out: &mut String, survey: &Survey, style: &Style) {
    if let Some(why) = &survey.ended_early {
        let text = format!("ended early: {why}; what depends on the rest is missing above");
        paragraph(out, 0, &text, style);
    }
}

// The same in one line.
fn caveats(out: &mut String, survey: &Survey, style: &Style) {
    let mut parts = Vec::new();
    if let Some((median, worst)) = survey.precision {
        parts.push(precision(median, worst) + " [lo, hi]: 95 %.");
    }
    let noise = survey.machine.findings.iter().filter(|one| one.severity != Severity::Info).count();
    let mut counts = Vec::new();
    if noise > 0 && !survey.is_simulated() {
        counts.push(format!("{} of noise ('ringfence doctor')", plural(noise, "source")));
    }
    let unreliable: usize = survey.outside.iter().map(|starts| starts.outside.len()).sum();
    if unreliable > 0 {
        counts.push(format!("{} of the chase missed its cache", plural(unreliable, "start")));
    }
    let absent = survey.not_run.len() + survey.probes.failed.len();
    if absent > 0 {
        counts.push(format!("{} not run or probed", plural(absent, "part")));
    }
    if !counts.is_empty() {
        parts.push(capital(&counts.join(", ")) + ".");
    }
    if !parts.is_empty() {
        faint(out, &parts.join(" "), style);
    }
    ended_early(out, survey, style);
}
