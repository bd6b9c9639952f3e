//! Sources of noise on the machine.

use maud::html;
use ringfence_machine::doctor::{Finding, Severity};

use crate::html::Section;
use crate::text::clean;

/// Every finding, the worst first.
pub(crate) fn section(findings: &[Finding]) -> Section {
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| finding.severity);
    let word = |severity: Severity| match severity {
        Severity::Serious => "serious",
        Severity::Warning => "warning",
        Severity::Info => "info",
    };
    let body = html! {
        @if sorted.is_empty() { p { "No source of noise was found." } }
        div class="findings" {
            @for finding in sorted {
                details class=(word(finding.severity)) {
                    summary {
                        span class="severity" { (word(finding.severity)) }
                        " "
                        (clean(&finding.title))
                    }
                    dl {
                        @for (name, text) in [
                            ("cause", &finding.cause),
                            ("consequence", &finding.consequence),
                            ("remedy", &finding.remedy),
                            ("evidence", &finding.evidence),
                        ] {
                            @if !text.is_empty() { dt { (name) } dd { (clean(text)) } }
                        }
                    }
                }
            }
        }
    };
    Section { id: "doctor", title: "Sources of noise here".into(), body }
}
