//! From a violation to the smallest one like it, and to what would fix it.

use std::collections::BTreeSet;

use crate::event::{At, Event, Kind};
use crate::explore::{Explorer, NEARBY_WORDS, Program, Recovery};
use crate::fix::{Added, Change, Edit, Fix, InRecovery, InVain, Op, PLACES};
use crate::lint::{Lint, Proposal};
use crate::profile::Profile;
use crate::question::Check;
use crate::report::{Report, Violation};
use crate::run::Places;
use crate::stop::Fault;
use crate::story::Story;

/// States spent on one attempt at most, and on all.
const ATTEMPT: u64 = 200_000;
const ATTEMPTS: u64 = 1_000_000;
/// Fixes that are tried at most once there is one that leaves something to be told.
const CLEANER: usize = 20;
/// Steps from a fix to one that leaves less.
const COMPLETIONS: usize = 2 * PLACES;

pub(crate) fn shrink(
    check: &Check,
    program: &Program<'_>,
    recovery: &Recovery<'_>,
    events: &[Event],
    report: &mut Report,
) {
    // It may show here first, and then nothing else that was found says anything.
    if report
        .violation
        .as_ref()
        .is_none_or(|violation| differs(violation) || violation.story.crashes() == 0)
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
    let is_long = violation.fault.is_long();
    let mut attempts = Attempts { check, program, recovery, is_long, states: ATTEMPTS };
    match attempts.fix(&violation.story, events) {
        Ok(Found::Fix(fix, left)) => (violation.fix, violation.left) = (Some(*fix), left),
        Ok(Found::None(why)) => violation.story.tried_in_vain(why),
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
    Fix(Box<Fix>, Vec<Lint>),
    None(InVain),
    NotAllTried,
}

// What fixes it, and what the program does then.
type Fixed = (Vec<Edit>, Vec<Event>);

// What comes of one attempt.
enum Tried {
    /// Nothing is found any more; what the program does then.
    Fixes(Vec<Event>),
    Fails,
    Unknown,
}

struct Attempts<'c> {
    check: &'c Check,
    program: &'c Program<'c>,
    recovery: &'c Recovery<'c>,
    // Whether what is to be fixed does not come to an end.
    is_long: bool,
    // That may still be spent.
    states: u64,
}

impl Attempts<'_> {
    // Nothing may be found with the edits: neither this nor anything else, and to the end.
    fn attempt(&mut self, edits: &[Edit]) -> Result<Tried, Box<Violation>> {
        self.search(edits, None)
    }

    fn search(
        &mut self,
        edits: &[Edit],
        at_once: Option<&Places>,
    ) -> Result<Tried, Box<Violation>> {
        if self.states == 0 {
            return Ok(Tried::Unknown);
        }
        let attempt =
            Check { most_states: ATTEMPT.min(self.states), sample: None, ..self.check.clone() };
        let explorer = Explorer::new(&attempt, self.program, self.recovery);
        let explorer = explorer.most_words(NEARBY_WORDS).once().any().at_once(at_once);
        let events = match explorer.record(edits) {
            Ok(events) => events,
            // On another path it may run forever.
            Err(violation) if !differs(&violation) => return Ok(Tried::Unknown),
            Err(violation) => return Err(violation),
        };
        let tried = explorer.search(&events);
        self.states -= tried.states.min(self.states);
        match tried.violation {
            Some(violation) if differs(&violation) => Err(Box::new(violation)),
            // What is added may be more than a run may do.
            Some(violation)
                if violation.fault.is_long() && (at_once.is_some() || !self.is_long) =>
            {
                Ok(Tried::Unknown)
            }
            Some(_) => Ok(Tried::Fails),
            None if tried.bounded => Ok(Tried::Unknown),
            None => Ok(Tried::Fixes(events)),
        }
    }

    // One that leaves nothing to be told, if there is one; else the first of those that leave
    // least.
    fn fix(&mut self, story: &Story, events: &[Event]) -> Result<Found, Box<Violation>> {
        // What crashes leave then, they leave with fewer additions too.
        let places = Places::default();
        let at_once = self.search(&[], Some(&places))?;
        if matches!(at_once, Tried::Fails) {
            return Ok(Found::None(InVain::AtOnce));
        }
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
                Tried::Fixes(with) => {
                    let (fix, left) = self.completed(vec![*edit], with, &before, story, events)?;
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
        if best.is_none()
            && matches!(at_once, Tried::Fixes(_))
            && let Some((edits, with)) = self.several(story, &places.borrow())?
        {
            best = Some(self.completed(edits, with, &before, story, events)?);
        }
        Ok(match best {
            Some((fix, left)) => Found::Fix(Box::new(fix), left),
            None if refuted == candidates.len() => Found::None(InVain::Each(refuted)),
            None => Found::NotAllTried,
        })
    }

    // Behind all that is stored, and then behind as little as will do.
    fn several(
        &mut self,
        story: &Story,
        all: &BTreeSet<(Op, At)>,
    ) -> Result<Option<Fixed>, Box<Violation>> {
        let mut places = story.operations();
        let others: Vec<_> = all.iter().filter(|place| !places.contains(place)).copied().collect();
        places.extend(others);
        let behind = |(op, at): (Op, At)| {
            let added =
                Added { strong: story.flushes_strongly(), ..op.at_once(self.check.profile)? };
            Some(Edit { op, at, change: Change::Add(added) })
        };
        let mut edits: Vec<Edit> = places.into_iter().filter_map(behind).collect();
        let Tried::Fixes(mut with) = self.attempt(&edits)? else { return Ok(None) };
        for number in (0..edits.len()).rev() {
            let mut fewer = edits.clone();
            let edit = fewer.remove(number);
            if let Tried::Fixes(events) = self.attempt(&fewer)? {
                (edits, with) = (fewer, events);
                continue;
            }
            if let Some(added @ Added { flush: true, .. }) = edit.added() {
                let flush = Edit { change: Change::Add(Added { fence: false, ..added }), ..edit };
                fewer.insert(number, flush);
                if let Tried::Fixes(events) = self.attempt(&fewer)? {
                    (edits, with) = (fewer, events);
                }
            }
        }
        Ok((edits.len() <= PLACES).then_some((edits, with)))
    }

    // With what else its own lints ask for, where that fixes it too.
    fn completed(
        &mut self,
        edits: Vec<Edit>,
        with: Vec<Event>,
        before: &[Lint],
        story: &Story,
        events: &[Event],
    ) -> Result<(Fix, Vec<Lint>), Box<Violation>> {
        let strong = story.flushes_strongly();
        let leaves = left(self.check.lints_of(&with), before, story);
        let mut best = (edits, with, leaves);
        let mut now = best.clone();
        for _ in 0..COMPLETIONS {
            let (edits, _, leaves) = &now;
            let mut next = None;
            for more in leaves.iter().flat_map(|lint| asked_for(lint, strong, edits, events)) {
                let Tried::Fixes(with) = self.attempt(&more)? else { continue };
                let left = left(self.check.lints_of(&with), before, story);
                // What was never flushed may now want a fence, and without a flush its fence may be
                // needless: one step further.
                if left.len() <= leaves.len() {
                    next = Some((more, with, left));
                    break;
                }
            }
            let Some(next) = next else { break };
            if next.2.len() < best.2.len() {
                best.clone_from(&next);
            }
            now = next;
        }
        let (edits, with, leaves) = best;
        let always_strong = self.check.strong_flushes;
        let full = self.check.profile == Profile::OldAmd && (strong || always_strong);
        let is_fence = |event: &&Event| matches!(event.kind, Kind::Sfence | Kind::Mfence);
        let stays = |event: &&Event| {
            let leaves_out =
                |edit: &Edit| edit.change == Change::LeaveOut && edit.concerns(Op::Fence, event.at);
            !edits.iter().any(leaves_out)
        };
        let fences = with.iter().filter(is_fence).count();
        let fences = fences.saturating_sub(events.iter().filter(is_fence).filter(stays).count());
        let is_told = |event: &&Event| matches!(event.kind, Kind::Acknowledge(_));
        let acknowledged = events.iter().filter(is_told).count();
        let in_recovery = (fences > acknowledged.max(1) && !story.lost_what_was_acknowledged())
            .then(|| InRecovery { fences, acknowledged, read: story.read_of_lost() });
        let edits = std::array::from_fn(|number| edits.get(number).copied());
        Ok((Fix { edits, full, clflush: strong && !always_strong, in_recovery }, leaves))
    }
}

// Of the lints of a program with a fix: those that came with it, and that stores are not made
// durable where some were lost.
fn left(lints: Vec<Lint>, before: &[Lint], story: &Story) -> Vec<Lint> {
    let is_new =
        |lint: &Lint| !before.iter().any(|other| (other.rule, other.at) == (lint.rule, lint.at));
    let concerns = |lint: &Lint| {
        lint.proposal().is_for_durability() && (story.is_near_lost(&lint.bytes) || is_new(lint))
    };
    lints.into_iter().filter(|lint| concerns(lint) || is_new(lint)).collect()
}

// The edits with what a lint asks for, in each way that there is and that they do not contradict.
fn asked_for(lint: &Lint, strong: bool, edits: &[Edit], events: &[Event]) -> Vec<Vec<Edit>> {
    let add = |op, flush, fence| {
        vec![Edit { op, at: lint.at, change: Change::Add(Added { flush, fence, strong }) }]
    };
    let leave_out = |op, places: [Option<At>; 2]| {
        // Not what was added: the program itself does it.
        let does =
            |at: &At| events.iter().any(|event| (Op::of(event.kind), event.at) == (Some(op), *at));
        let places = places.into_iter().flatten().filter(does);
        places.map(|at| Edit { op, at, change: Change::LeaveOut }).collect()
    };
    let next: Vec<Edit> = match lint.proposal() {
        Proposal::Flush => add(Op::Store, true, false),
        Proposal::FenceAfterStream => add(Op::Stream, false, true),
        Proposal::FenceAfterFlush => {
            // The flush may be one that was added.
            let added = edits.iter().position(|edit| edit.op == Op::Store && edit.at == lint.at);
            if let Some(number) = added {
                let mut more = edits.to_vec();
                more[number] = add(Op::Store, true, true)[0];
                return if more[number] == edits[number] { Vec::new() } else { vec![more] };
            }
            add(Op::Flush, false, true)
        }
        Proposal::FlushLess(places) => leave_out(Op::Flush, places),
        Proposal::FenceLess(places) => leave_out(Op::Fence, places),
        Proposal::Nothing => Vec::new(),
    };
    if edits.len() == PLACES {
        return Vec::new();
    }
    next.into_iter()
        .filter(|next| !edits.iter().any(|edit| edit.concerns(next.op, next.at)))
        .map(|next| edits.iter().copied().chain([next]).collect())
        .collect()
}

// One instruction first; two only where one will not do.
fn candidates(check: &Check, story: &Story) -> Vec<Edit> {
    let strong = story.flushes_strongly();
    // Under eADR a flush does nothing.
    let flushes = check.profile != Profile::Eadr;
    let mut edits = Vec::new();
    for both in [false, true] {
        for (op, at) in story.operations() {
            let mut add = |flush, fence| {
                edits.push(Edit { op, at, change: Change::Add(Added { flush, fence, strong }) });
            };
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
