//! temp
use ringfence_lab::plan::Plan; use ringfence_lab::results::CaseResult; use crate::style::Style;
/// x
pub fn cases(_p: &Plan, results: &[CaseResult], _s: &Style) -> String {
    let mut o=String::new();
    for r in results { o+=&format!("{:<30} {} {:?} {} {:?}\n", format!("{} {}", r.arm, r.label), crate::numbers::ns_estimate(&r.ns_per_unit), r.classes, r.effect.as_ref().map(|e| e.sentence.clone()).unwrap_or_default(), r.co_runners); }
    o
}
