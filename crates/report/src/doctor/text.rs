//! Sources of noise: in full for `doctor`, a line each for the survey.

use ringfence_machine::doctor::{Finding, Severity};

use crate::style::{Paint, Style};
use crate::text::{clean, ellipsize, hanging, plural};

const NOTHING: &str = "no source of noise found";

/// Every finding, the worst first, with its cause, consequence and remedy.
pub fn doctor(findings: &[Finding], style: &Style) -> String {
    if findings.is_empty() {
        return format!("{}\n", style.paint(Paint::Good, NOTHING));
    }
    let mut out = String::new();
    for finding in sorted(findings) {
        let (word, paint) = severity(finding.severity);
        hanging(&mut out, &format!("{word:<9}"), Some(paint), &finding.title, style);
        let evidence = if finding.evidence.is_empty() {
            format!("({})", finding.id)
        } else {
            format!("{} ({})", finding.evidence, finding.id)
        };
        for (name, text) in [
            ("cause", &finding.cause),
            ("consequence", &finding.consequence),
            ("remedy", &finding.remedy),
            ("seen", &evidence),
        ] {
            if !text.is_empty() {
                hanging(&mut out, &format!("  {name:<13}"), Some(Paint::Faint), text, style);
            }
        }
        out.push('\n');
    }
    hanging(&mut out, "", None, &summary(findings), style);
    out
}

/// One line for each finding above [`Severity::Info`].
pub fn doctor_brief(findings: &[Finding], style: &Style) -> String {
    let above = sorted(findings).into_iter().filter(|finding| finding.severity != Severity::Info);
    let mut out = String::new();
    for finding in above {
        let (word, paint) = severity(finding.severity);
        let title = clean(&format!("{} ({})", finding.title, finding.id));
        let room = style.columns() - 9;
        out.push_str(&style.paint(paint, word));
        out.push_str(&" ".repeat(9 - word.len()));
        out.push_str(&ellipsize(&title, room, style));
        out.push('\n');
    }
    if out.is_empty() { format!("{}\n", style.paint(Paint::Good, NOTHING)) } else { out }
}

fn sorted(findings: &[Finding]) -> Vec<&Finding> {
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| finding.severity);
    sorted
}

fn severity(severity: Severity) -> (&'static str, Paint) {
    match severity {
        Severity::Serious => ("serious", Paint::Bad),
        Severity::Warning => ("warning", Paint::Caution),
        Severity::Info => ("note", Paint::Strong),
    }
}

fn summary(findings: &[Finding]) -> String {
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (serious, warnings, notes) =
        (count(Severity::Serious), count(Severity::Warning), count(Severity::Info));
    let mut parts = Vec::new();
    if serious > 0 {
        parts.push(format!("{serious} serious"));
    }
    if warnings > 0 {
        parts.push(plural(warnings, "warning"));
    }
    if notes > 0 {
        parts.push(plural(notes, "note"));
    }
    let all = parts.join(", ");
    if serious + warnings == 0 { format!("{all}; {NOTHING}") } else { all }
}
