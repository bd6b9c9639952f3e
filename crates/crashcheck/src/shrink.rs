//! From a violation to the smallest one like it, and to what would mend it.

use crate::check::{Check, Report};
use crate::explore::Explorer;
use crate::fix::{Edit, Fix, Op};
use crate::machine::Machine;
use crate::profile::Profile;

/// States spent on one attempt at most, and on all.
const ATTEMPT: u64 = 200_000;
const ATTEMPTS: u64 = 1_000_000;

pub(crate) fn shrink(
    check: &Check,
    program: &impl Fn(&Machine),
    recovery: &impl Fn(&Machine) -> Result<(), String>,
    report: &mut Report,
) {
    let runs = report.violation.as_ref().map_or(0, |violation| violation.story.crashes());
    // Perhaps fewer crashes do, if they come later.
    for crashes in 1..runs {
        let fewer = Check { crashes, most_states: ATTEMPT, sample: None, ..check.clone() };
        let explorer = Explorer::new(&fewer, program, recovery);
        let events = explorer.record(None);
        let found = explorer.search(&events);
        if found.violation.is_some() {
            report.violation = found.violation;
            break;
        }
    }
    let Some(violation) = &mut report.violation else { return };
    let mut budget = ATTEMPTS;
    let candidates = candidates(check, violation.story.operations());
    let mut refuted = 0;
    for edit in &candidates {
        if budget == 0 {
            break;
        }
        let edit = *edit;
        // With the edit nothing may be found: neither this nor anything else, and to the end.
        let crashes = check.crashes;
        let attempt = Check { crashes, most_states: ATTEMPT.min(budget), sample: None, ..check.clone() };
        let explorer = Explorer::new(&attempt, program, recovery);
        let events = explorer.record(Some(edit));
        let tried = explorer.search(&events);
        budget -= tried.states.min(budget);
        if tried.violation.is_none() && !tried.bounded {
            let full = check.profile == Profile::OldAmd && violation.story.flushes_strongly();
            violation.fix = Some(Fix { edit, full });
            break;
        }
        refuted += usize::from(tried.violation.is_some());
    }
    if violation.fix.is_none() && refuted == candidates.len() {
        violation.story.tried_in_vain(refuted);
    }
}

// One instruction first; two only where one will not do.
fn candidates(check: &Check, operations: Vec<(Op, crate::event::At)>) -> Vec<Edit> {
    let mut edits = Vec::new();
    for instructions in 1..=2 {
        for (op, at) in &operations {
            let edit = |flush, fence| Edit { op: *op, at, flush, fence };
            match (op, instructions) {
                (Op::Store, 1) => edits.push(edit(true, false)),
                (Op::Stream | Op::Flush, 1) => edits.push(edit(false, true)),
                (Op::Fence, 1) if check.strong_flushes => edits.push(edit(false, true)),
                (Op::Store, 2) => edits.push(edit(true, true)),
                _ => {}
            }
        }
    }
    edits
}
