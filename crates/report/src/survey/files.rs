//! Durable commits to files, alone and beside writers.

use ringfence_studies::survey::Survey;

use crate::commits::short as commits;
use crate::experiment::cases;
use crate::style::Style;
use crate::text::{heading, paragraph};

pub(crate) fn section(out: &mut String, survey: &Survey, style: &Style) {
    for found in &survey.files {
        if let Some(question) = &found.plan.experiment.question {
            heading(out, question, style);
        }
        out.push_str(&cases::tables(&found.results, &found.plan, style).join("\n"));
        for text in commits::said(found) {
            out.push('\n');
            paragraph(out, 0, &text, style);
        }
        out.push('\n');
    }
}
