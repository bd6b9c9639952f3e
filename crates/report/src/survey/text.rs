//! The survey on one or two screens: machine, costs, neighbours, advice.

use super::{advice, costs, files, headline, machine, neighbours};
use ringfence_studies::survey::{Outside, Survey};

use crate::experiment::starts::listed;
use crate::experiment::text::SIMULATED;
use crate::numbers;
use crate::style::Style;
use crate::text::{faint, heading, paragraph};

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

/// Renders a survey.
pub fn survey(survey: &Survey, style: &Style) -> String {
    let mut out = String::new();
    // Over every part, as each may be copied by itself.
    let mark = |out: &mut String| {
        if survey.is_simulated() {
            heading(out, SIMULATED, style);
        }
    };
    let sections: [fn(&mut String, &Survey, &Style); 4] =
        [machine::section, costs::section, neighbours::section, files::section];
    let count = if survey.files.is_empty() { 3 } else { 4 };
    for section in &sections[..count] {
        mark(&mut out);
        section(&mut out, survey, style);
    }
    if !survey.advice.is_empty() {
        mark(&mut out);
        let machine =
            if survey.is_simulated() { "On the described machine:" } else { "On this machine:" };
        heading(&mut out, machine, style);
        if let Some(answer) = &survey.answer {
            paragraph(&mut out, 2, &headline::headline(answer), style);
        }
        for sentence in survey.advice.iter().map(advice::advice) {
            let mut lines = String::new();
            paragraph(&mut lines, 4, &sentence, &Style { color: false, ..*style });
            let bullet = if style.unicode { "  •" } else { "  -" };
            out.push_str(bullet);
            // The paragraph's own indent leaves room for the bullet, and hangs two columns deeper.
            out.push_str(&lines[3..].replace("\n      ", "\n    "));
        }
        out.push('\n');
    }
    for starts in &survey.outside {
        paragraph(&mut out, 0, &format!("not as intended: {}", outside(starts)), style);
    }
    for line in &survey.not_run {
        paragraph(&mut out, 0, &format!("not run: {line}"), style);
    }
    for line in &survey.probes.failed {
        paragraph(&mut out, 0, &format!("not probed: {line}"), style);
    }
    if let Some(why) = &survey.ended_early {
        let text = format!("ended early: {why}; what depends on the rest is missing above");
        paragraph(&mut out, 0, &text, style);
    }
    if let Some((median, worst)) = survey.precision {
        faint(&mut out, &format!("{} [lo, hi]: {INTERVALS}", precision(median, worst)), style);
    }
    out
}
