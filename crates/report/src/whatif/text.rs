//! One plan on a described machine, and on the same with changes.

use ringfence_studies::whatif::{Elided, WhatIf};

use crate::compare::text::compare;
use crate::compare_answer;
use crate::numbers::slowdown_estimate;
use crate::style::Style;
use crate::text::{clean, hanging, paragraph};

/// The answer of `whatif` as text.
pub fn whatif(found: &WhatIf, style: &Style) -> String {
    let mut out = String::new();
    hanging(&mut out, "before  ", None, &clean(&found.machine), style);
    hanging(&mut out, "after   ", None, &format!("the same with {}", changes(found)), style);
    out.push('\n');
    out += &compare(&found.comparison, style);
    out.push('\n');
    for line in conclusions(found) {
        paragraph(&mut out, 0, &line, style);
    }
    out
}

/// What was changed, with what stood there.
pub(crate) fn changes(found: &WhatIf) -> String {
    let one = |change: &ringfence_simulator::Change| match &change.was {
        Some(was) => format!("{change} instead of {was}"),
        None => change.to_string(),
    };
    clean(&found.changes.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// The answer in sentences.
pub(crate) fn conclusions(found: &WhatIf) -> Vec<String> {
    let mut all = vec![clean(&compare_answer(&found.comparison))];
    if !found.elided.is_empty() {
        all.push(
            "With eADR, what caches hold survives: plain stores and a fence are durable, and no \
             flush is needed."
                .into(),
        );
        all.extend(found.elided.iter().map(elided));
    }
    all
}

fn elided(one: &Elided) -> String {
    let figure = match (&one.change.slowdown, &one.change.verdict) {
        (Some(change), _) => slowdown_estimate(&Ok(*change)),
        (None, verdict) => verdict.word().into(),
    };
    clean(&format!(
        "{}, durable by the change, against {} as it is: {figure} time per unit of work.",
        one.label, one.instead_of
    ))
}
