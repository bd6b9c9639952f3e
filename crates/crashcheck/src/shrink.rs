//! From a violation to the smallest one like it, and to what would mend it.

use crate::check::{Check, Report};
use crate::explore::{Explorer, NEARBY_WORDS};
use crate::fix::{Edit, Fix, Op};
use crate::machine::Machine;
use crate::profile::Profile;
use crate::story::Story;

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
        let explorer = Explorer::new(&fewer, program, recovery).most_words(NEARBY_WORDS);
        let events = explorer.record(None);
        let found = explorer.search(&events);
        if found.violation.is_some() {
            report.violation = found.violation;
            break;
        }
    }
    let Some(violation) = &mut report.violation else { return };
    let mut budget = ATTEMPTS;
    let candidates = candidates(check, &violation.story);
    let mut refuted = 0;
    for edit in &candidates {
        if budget == 0 {
            break;
        }
        let edit = *edit;
        // With the edit nothing may be found: neither this nor anything else, and to the end.
        let crashes = check.crashes;
        let attempt = Check { crashes, most_states: ATTEMPT.min(budget), sample: None, ..check.clone() };
        let explorer = Explorer::new(&attempt, program, recovery).most_words(NEARBY_WORDS);
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
fn candidates(check: &Check, story: &Story) -> Vec<Edit> {
    let strong = story.flushes_strongly();
    // Under eADR a flush does nothing.
    let flushes = check.profile != Profile::Eadr;
    let mut edits = Vec::new();
    for both in [false, true] {
        for (op, at) in story.operations() {
            let mut add = |flush, fence| edits.push(Edit { op, at, flush, fence, strong });
            match op {
                Op::Store if both => add(flushes, true),
                Op::Store if flushes => add(true, false),
                Op::Stream | Op::Flush if !both => add(false, true),
                // Of clflush, which waits for no more than some fences.
                Op::Fence if !both && strong => add(false, true),
                _ => {}
            }
        }
    }
    edits
}
