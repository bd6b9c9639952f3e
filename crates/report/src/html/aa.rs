//! What an A/A experiment says of the machine's noise.

use maud::html;
use ringfence_lab::estimate::AaSummary;

use super::Section;
use crate::aa::sentences;

/// The panel; none for experiments that compare something.
pub(super) fn section(summary: Option<&AaSummary>) -> Option<Section> {
    let summary = summary?;
    let body = html! { @for sentence in sentences(summary) { p class="said" { (sentence) } } };
    Some(Section { id: "aa", title: "A/A: the same task in both arms".into(), body })
}
