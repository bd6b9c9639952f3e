//! The survey on one or two screens: machine, costs, neighbours, advice.

mod costs;
mod machine;
mod neighbours;

use ringfence_studies::survey::Survey;

use crate::numbers;
use crate::style::Style;
use crate::text::{faint, heading, paragraph};

pub use machine::machine_line;
pub(crate) use machine::{describe, holds, round_trip};
pub(crate) use neighbours::perhaps;

/// Renders a survey.
pub fn survey(survey: &Survey, style: &Style) -> String {
    let mut out = String::new();
    machine::section(&mut out, survey, style);
    costs::section(&mut out, survey, style);
    neighbours::section(&mut out, survey, style);
    if !survey.advice.is_empty() {
        heading(&mut out, "On this machine:", style);
        if let Some(answer) = &survey.answer {
            paragraph(&mut out, 2, &answer.headline, style);
        }
        for sentence in &survey.advice {
            let mut lines = String::new();
            paragraph(&mut lines, 4, sentence, &Style { color: false, ..*style });
            let bullet = if style.unicode { "  •" } else { "  -" };
            out.push_str(bullet);
            // The paragraph's own indent leaves room for the bullet, and hangs two columns deeper.
            out.push_str(&lines[3..].replace("\n      ", "\n    "));
        }
        out.push('\n');
    }
    for line in &survey.outside {
        paragraph(&mut out, 0, &format!("not as meant: {line}"), style);
    }
    for line in &survey.not_run {
        paragraph(&mut out, 0, &format!("not run: {line}"), style);
    }
    for line in &survey.probes.failed {
        paragraph(&mut out, 0, &format!("not probed: {line}"), style);
    }
    if let Some(why) = &survey.ended_early {
        let text = format!("ended early: {why}; what follows from it is missing above");
        paragraph(&mut out, 0, &text, style);
    }
    if let Some((median, worst)) = survey.precision {
        let text = format!(
            "Precision achieved: slowdowns to within {} in the median, {} at worst. [lo, hi]: 95 % intervals over lives, each life a new start of the victim.",
            numbers::coarse(median),
            numbers::coarse(worst)
        );
        faint(&mut out, &text, style);
    }
    out
}
