//! From a violation to the smallest one like it, and to what would mend it.

use crate::check::{Check, Report, Violation};
use crate::event::{Event, Kind};
use crate::explore::{Explorer, NEARBY_WORDS};
use crate::fix::{Edit, Fix, InRecovery, Op, PLACES};
use crate::lint::{Lint, Rule};
use crate::machine::Machine;
use crate::profile::Profile;
use crate::stop::Fault;
use crate::story::Story;

/// States spent on one attempt at most, and on all.
const ATTEMPT: u64 = 200_000;
const ATTEMPTS: u64 = 1_000_000;
/// Fixes that are tried at most once there is one that leaves something to be told.
const CLEANER: usize = 20;

pub(crate) fn shrink(
    check: &Check,
    program: &impl Fn(&Machine),
    recovery: &impl Fn(&Machine) -> Result<(), String>,
    events: &[Event],
    report: &mut Report,
) {
    // It may show here first, and then nothing else that was found says anything.
    if report.violation.as_ref().is_none_or(|violation| differs(violation) || violation.story.crashes() == 0)
    {
        return;
    }
    let runs = report.violation.as_ref().map_or(0, |violation| violation.story.crashes());
    // Perhaps fewer crashes do, if they come later.
    for crashes in 1..runs {
        let fewer = Check { crashes, most_states: ATTEMPT, sample: None, ..check.clone() };
        let explorer = Explorer::new(&fewer, program, recovery).most_words(NEARBY_WORDS).once();
        let found = match explorer.record(&[]) {
            Ok(events) => explorer.search(&events).violation,
            Err(violation) => Some(*violation),
        };
        if found.is_some() {
            report.violation = found;
            break;
        }
    }
    if report.violation.as_ref().is_some_and(differs) {
        return;
    }
    let Some(violation) = &mut report.violation else { return };
    let mut attempts = Attempts { check, program, recovery, states: ATTEMPTS };
    match attempts.fix(&violation.story, events) {
        Ok(Found::Fix(fix, left)) => (violation.fix, violation.left) = (Some(fix), left),
        Ok(Found::None { refuted }) => violation.story.tried_in_vain(refuted),
        Ok(Found::NotAllTried) => {}
        Err(differs) => report.violation = Some(*differs),
    }
}

fn differs(violation: &Violation) -> bool {
    violation.fault == Fault::NotDeterministic
}

// What comes of looking for a fix.
enum Found {
    /// And what it leaves.
    Fix(Fix, Vec<Lint>),
    None {
        refuted: usize,
    },
    NotAllTried,
}

// What comes of one attempt.
enum Tried {
    /// Nothing is found any more; what the program does then.
    Mends(Vec<Event>),
    Fails,
    Unknown,
}

struct Attempts<'c, P, R> {
    check: &'c Check,
    program: &'c P,
    recovery: &'c R,
    // That may still be spent.
    states: u64,
}

impl<P, R> Attempts<'_, P, R>
where
    P: Fn(&Machine),
    R: Fn(&Machine) -> Result<(), String>,
{
    // Nothing may be found with the edits: neither this nor anything else, and to the end.
    fn attempt(&mut self, edits: &[Edit]) -> Result<Tried, Box<Violation>> {
        if self.states == 0 {
            return Ok(Tried::Unknown);
        }
        let attempt = Check { most_states: ATTEMPT.min(self.states), sample: None, ..self.check.clone() };
        let explorer = Explorer::new(&attempt, self.program, self.recovery);
        let explorer = explorer.most_words(NEARBY_WORDS).once().any();
        let events = match explorer.record(edits) {
            Ok(events) => events,
            // Of another way it may go for ever.
            Err(violation) if !differs(&violation) => return Ok(Tried::Unknown),
            Err(violation) => return Err(violation),
        };
        let tried = explorer.search(&events);
        self.states -= tried.states.min(self.states);
        match tried.violation {
            Some(violation) if differs(&violation) => Err(Box::new(violation)),
            Some(_) => Ok(Tried::Fails),
            None if tried.bounded => Ok(Tried::Unknown),
            None => Ok(Tried::Mends(events)),
        }
    }

    // One that leaves nothing to be told, if there is one; else the first of those that leave least.
    fn fix(&mut self, story: &Story, events: &[Event]) -> Result<Found, Box<Violation>> {
        let before = self.check.lints_of(events);
        let candidates = candidates(self.check, story);
        let (mut refuted, mut cleaner) = (0, 0);
        let mut best: Option<(Fix, Vec<Lint>)> = None;
        for edit in &candidates {
            if best.is_some() {
                cleaner += 1;
            }
            if cleaner > CLEANER {
                break;
            }
            match self.attempt(&[*edit])? {
                Tried::Mends(with) => {
                    let (fix, left) = self.completed(*edit, with, &before, story, events)?;
                    let is_clean = left.is_empty();
                    if best.as_ref().is_none_or(|(_, least)| left.len() < least.len()) {
                        best = Some((fix, left));
                    }
                    if is_clean {
                        break;
                    }
                }
                Tried::Fails => refuted += 1,
                Tried::Unknown => {}
            }
        }
        Ok(match best {
            Some((fix, left)) => Found::Fix(fix, left),
            None if refuted == candidates.len() => Found::None { refuted },
            None => Found::NotAllTried,
        })
    }

    // With what else its own lints ask for, where that mends it too.
    fn completed(
        &mut self,
        edit: Edit,
        mut with: Vec<Event>,
        before: &[Lint],
        story: &Story,
        events: &[Event],
    ) -> Result<(Fix, Vec<Lint>), Box<Violation>> {
        let mut edits = vec![edit];
        let mut leaves = left(self.check.lints_of(&with), before, story);
        while edits.len() < PLACES {
            let strong = edit.strong;
            let Some(next) = leaves.iter().find_map(|lint| asked_for(lint, strong, &edits)) else { break };
            let more: Vec<Edit> = edits.iter().copied().chain([next]).collect();
            let Tried::Mends(with_more) = self.attempt(&more)? else { break };
            let fewer = left(self.check.lints_of(&with_more), before, story);
            // What was stored and never flushed may be flushed and not fenced now: one step further.
            if fewer.len() > leaves.len() {
                break;
            }
            (edits, with, leaves) = (more, with_more, fewer);
        }
        let full = self.check.profile == Profile::OldAmd && story.flushes_strongly();
        let count = |events: &[Event], of: fn(Kind) -> bool| events.iter().filter(|e| of(e.kind)).count();
        let is_fence = |kind| matches!(kind, Kind::Sfence | Kind::Mfence);
        let fences = count(&with, is_fence).saturating_sub(count(events, is_fence));
        let acknowledged = count(events, |kind| matches!(kind, Kind::Acknowledge(_)));
        let in_recovery = (fences > acknowledged.max(1) && !story.lost_what_was_acknowledged())
            .then(|| InRecovery { fences, acknowledged, read: story.read_of_lost() });
        let edits = std::array::from_fn(|number| edits.get(number).copied());
        Ok((Fix { edits, full, in_recovery }, leaves))
    }
}

// Of the lints of a program with a fix: those that came with it, and that stores are not made durable where some
// were lost.
fn left(lints: Vec<Lint>, before: &[Lint], story: &Story) -> Vec<Lint> {
    let is_new = |lint: &Lint| !before.iter().any(|other| (other.rule, other.at) == (lint.rule, lint.at));
    let concerns = |lint: &Lint| {
        let durability = matches!(lint.rule, Rule::NeverDurable | Rule::MissingFence);
        durability && (story.is_near_lost(&lint.bytes) || is_new(lint))
    };
    lints
        .into_iter()
        .filter(|lint| concerns(lint) || (is_new(lint) && lint.rule != Rule::AcknowledgedTooEarly))
        .collect()
}

// What a lint asks for, if a fix can add it and does not yet.
fn asked_for(lint: &Lint, strong: bool, edits: &[Edit]) -> Option<Edit> {
    let edit = |op, flush, fence| Edit { op, at: lint.at, flush, fence, strong };
    let next = match lint.rule {
        Rule::NeverDurable => edit(Op::Store, true, false),
        Rule::MissingFence if lint.is_streamed() => edit(Op::Stream, false, true),
        Rule::MissingFence => edit(Op::Flush, false, true),
        _ => return None,
    };
    (!edits.contains(&next)).then_some(next)
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
