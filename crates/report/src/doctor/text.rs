//! Sources of noise for `doctor`, and a line each for the survey.

use ringfence_machine::doctor::{Busiest, Busy, Finding, Severity};
use ringfence_machine::targets::Target;

use crate::numbers;
use crate::style::{Paint, Style};
use crate::text::{capital, clean, ellipsize, hanging, plural, width};

const NOTHING: &str = "no source of noise found";

/// A line for each finding, the worst first, and the busiest processes, where they were read; with
/// [`Style::details`], cause, consequence and remedy of each finding, and the memory to write to.
pub fn doctor(
    findings: &[Finding],
    targets: &[Target],
    busiest: Option<&Busiest>,
    style: &Style,
) -> String {
    let mut out = String::new();
    if style.details {
        for finding in sorted(findings) {
            in_full(&mut out, finding, style);
        }
        hanging(&mut out, "", None, &summary(findings), style);
    } else {
        brief(&mut out, findings, targets, style);
    }
    if let Some(busiest) = busiest {
        processes(&mut out, busiest, style);
    }
    if style.details {
        out.push('\n');
        out.push_str(&crate::targets::text::targets(targets, style));
    }
    out
}

/// The most findings that are printed without [`Style::details`]; serious ones and warnings always
/// are.
const LINES: usize = 10;

fn brief(out: &mut String, findings: &[Finding], targets: &[Target], style: &Style) {
    let persistent = targets.iter().any(|target| target.usable && target.is_persistent());
    let (named, other): (Vec<&Finding>, Vec<&Finding>) = sorted(findings)
        .into_iter()
        .partition(|finding| persistent || !finding.is_of_persistent_memory());
    let above = named.iter().filter(|finding| finding.severity != Severity::Info).count();
    let shown = &named[..named.len().min(LINES.max(above))];
    for finding in shown {
        line(out, finding, style);
    }
    let more = named.len() - shown.len();
    let mut rest = Vec::new();
    if more > 0 {
        rest.push(plural(more, "more note"));
    }
    if !other.is_empty() {
        rest.push(format!("{} about persistent memory", plural(other.len(), "finding")));
    }
    if findings.is_empty() {
        return hanging(out, "", Some(Paint::Good), NOTHING, style);
    }
    let counts = if named.is_empty() { capital(NOTHING) } else { counted(&named) };
    let mut text = format!("{counts}. Causes and remedies: ringfence doctor --why");
    if !rest.is_empty() {
        text += &format!(" (and {})", rest.join(", "));
    }
    hanging(out, "", None, &text, style);
}

fn line(out: &mut String, finding: &Finding, style: &Style) {
    let (word, paint) = severity(finding.severity);
    let room = style.columns() - 9;
    let named = clean(&format!("{} ({})", finding.title, finding.id));
    let text = if width(&named) <= room { named } else { clean(&finding.title) };
    out.push_str(&style.paint(paint, word));
    out.push_str(&" ".repeat(9 - word.len()));
    out.push_str(&ellipsize(&text, room, style));
    out.push('\n');
}

fn in_full(out: &mut String, finding: &Finding, style: &Style) {
    let (word, paint) = severity(finding.severity);
    hanging(out, &format!("{word:<9}"), Some(paint), &finding.title, style);
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
            hanging(out, &format!("  {name:<13}"), Some(Paint::Faint), text, style);
        }
    }
    out.push('\n');
}

fn processes(out: &mut String, busiest: &Busiest, style: &Style) {
    let one = |one: &Busy, share: String| format!("{} (pid {}) {share}", one.name, one.pid);
    let cpu = busiest.cpu.iter().map(|busy| one(busy, format!("{:.0} %", busy.cpus * 100.0)));
    let cpu: Vec<String> = cpu.collect();
    let writers: Vec<String> = busiest
        .writers
        .iter()
        .map(|busy| one(busy, numbers::bytes_per_s(busy.written_per_s.unwrap_or(0.0))))
        .collect();
    let over = numbers::duration(busiest.over);
    let text = match cpu.is_empty() {
        true => format!("no process used 1 % of a CPU in {over}"),
        false => format!("{} (of one CPU, over {over})", cpu.join(", ")),
    };
    hanging(out, "Most CPU     ", Some(Paint::Faint), &text, style);
    let mut text = match writers.is_empty() {
        true => format!("no process wrote to a disk in {over}"),
        false => writers.join(", "),
    };
    if busiest.hidden > 0 {
        text += &match busiest.hidden {
            1 => " (1 process hides its writes from this user)".to_string(),
            hidden => format!(" ({hidden} processes hide their writes from this user)"),
        };
    }
    hanging(out, "Most writes  ", Some(Paint::Faint), &text, style);
}

/// One line for each finding above [`Severity::Info`].
pub fn doctor_brief(findings: &[Finding], style: &Style) -> String {
    let mut out = String::new();
    for finding in sorted(findings) {
        if finding.severity != Severity::Info {
            line(&mut out, finding, style);
        }
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
    let all = counted(&findings.iter().collect::<Vec<_>>());
    let calm = findings.iter().all(|finding| finding.severity == Severity::Info);
    match (calm, findings.is_empty()) {
        (_, true) => NOTHING.into(),
        (true, _) => format!("{all}; {NOTHING}"),
        _ => all,
    }
}

fn counted(findings: &[&Finding]) -> String {
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
    parts.join(", ")
}
