//! The states that crashes leave, in what order and how far, and recovery on each.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use super::explorer::{Explorer, Found, NEARBY_WORDS, TOLD};
use crate::choices::{Choices, Random};
use crate::event::Event;
use crate::machine::Machine;
use crate::panics::{message, quietly};
use crate::report::{Report, Violation};
use crate::run::{Run, State};
use crate::stack;
use crate::stop::{Stop, Wrong};
use crate::story::Story;

/// States that a crash of the program is searched for at first, before the others have their turn.
const SHARE: u64 = 50_000;
/// And words that recoveries read or write meanwhile: few states may be much work.
const SHARE_WORDS: u64 = 2_000_000;
/// So much is done with the first crashes before the last one that is left has its turn. What all
/// of the program must be there for shows at the end alone.
const AHEAD: u64 = 10_000_000;

/// States that are searched for a smaller counterexample once there is one.
const NEARBY: u64 = 20_000;
/// Where it is one that does not come to an end, and others take as long.
const ENDLESS_WORDS: u64 = 4_000_000;

impl Explorer<'_> {
    /// Looks at everything, or as much as was asked for.
    pub(crate) fn search(mut self, events: &[Event]) -> Report {
        let told = &Told {
            events: events.into(),
            marks: events.iter().filter_map(|event| event.kind.mark()).collect(),
        };
        let points = crash_points(events, self.check.kills);
        let mut looked_at = 0;
        if let Some((seed, count)) = self.check.sample {
            self.bounded = true;
            let mut random = Random(seed);
            let mut different = vec![false; points.len()];
            for _ in 0..count {
                let point = random.below(points.len() as u64) as usize;
                different[point] = true;
                let machine = Point { killed: false, ..points[point] };
                let state = self.crashed(told, points[point], false);
                // A process that dies with nothing in caches is not a case of its own.
                let state = state
                    .or_else(|| self.crashed(told, machine, false))
                    .expect("nothing is merged");
                self.explore(&state, 1, Choices::random(Random(random.next())), 0);
                if self.found.is_some() {
                    break;
                }
            }
            looked_at = different.iter().filter(|looked_at| **looked_at).count();
        } else {
            let mut left: VecDeque<usize> = (0..points.len()).collect();
            let mut share = 1;
            // A crash that leaves very much must not hide the others: each has its share, and what
            // is left over another one, larger.
            while !left.is_empty() && !self.is_over() {
                let mut again = BTreeSet::new();
                let mut ahead = self.words + AHEAD;
                while !self.is_over() {
                    let last = self.words >= ahead;
                    let next = if last { left.pop_back() } else { left.pop_front() };
                    let Some(number) = next else { break };
                    looked_at = number + 1;
                    if !self.point(told, points[number], share) {
                        again.insert(number);
                    }
                    if last {
                        ahead = self.words + AHEAD;
                    }
                }
                left.extend(again);
                share *= 8;
            }
            self.bounded = self.found.is_none() && !left.is_empty();
            if self.found.is_none() {
                looked_at = points.len() - left.len();
            }
        }
        let mut violation = self.found.take().map(|found| found.violation);
        if violation.is_none() {
            violation = self.run_program_again().err().map(|violation| *violation);
        }
        if violation.is_none() && !self.bounded {
            violation = self.search_again();
        }
        Report {
            crash_points: points.len(),
            looked_at,
            states: self.states,
            merged: self.seen.borrow().merged,
            images: self.images,
            bounded: self.bounded,
            lints: self.uncovered.lints(),
            ..Report::of(self.check, violation)
        }
    }

    fn is_over(&self) -> bool {
        self.found.is_some()
            || self.states >= self.check.most_states
            || self.words >= self.most_words
    }

    // Looks at a crash of the program: whether to the end.
    fn point(&mut self, told: &Told, point: Point, share: u64) -> bool {
        let state = self.crashed(told, point, true);
        if share == 1 && !point.killed {
            let run = self.machines[0].0.get_mut();
            self.images += run.leaving.as_ref().map_or(0.0, |leaving| leaving.walk.images());
        }
        let Some(state) = state else { return true };
        self.until = (self.states + share * SHARE).min(self.check.most_states);
        self.until_words = self.words + share * SHARE_WORDS;
        self.cut = false;
        self.explore(&state, 1, Choices::default(), 0);
        if self.cut {
            // It begins anew when its turn comes again, and so must whatever it came by.
            self.seen.borrow_mut().keys.clear();
        }
        !self.cut
    }

    // What a crash of the program leaves.
    fn crashed(&self, told: &Told, at: Point, merges: bool) -> Option<Rc<State>> {
        for machine in &self.machines {
            let mut run = machine.0.borrow_mut();
            (run.merges, run.kills) = (merges, self.check.kills);
        }
        let run = &mut *self.machines[0].0.borrow_mut();
        // The machine was at some other point of the same before, and goes on from there where it
        // can.
        if run.leaving.as_ref().is_some_and(|leaving| leaving.events > at.end) {
            run.leaving = None;
        }
        run.events.truncate(at.end);
        let new = &told.events[run.events.len()..at.end];
        run.events.extend_from_slice(new);
        let mut state = if at.killed { run.kill() } else { run.crash() }?;
        state.last_run(&told.events, &told.marks);
        Some(Rc::new(state))
    }

    // Recovery on every state that these can be; `depth` crashes happened, and so many bytes are
    // held for runs before.
    fn explore(&mut self, state: &Rc<State>, depth: usize, mut choices: Choices, held: usize) {
        let mut machine =
            std::mem::replace(&mut self.machines[depth], Machine(RefCell::new(Run::nothing())));
        {
            let run = machine.0.get_mut();
            run.begin(state);
            run.held_before = held;
            run.crashes = depth < self.check.crashes;
        }
        self.uncovered.begin();
        loop {
            if self.states >= self.until || self.words >= self.until_words.min(self.most_words) {
                self.cut |= self.found.is_none();
                break;
            }
            self.states += 1;
            let run = machine.0.get_mut();
            run.rewind();
            run.log.begin(choices.steps());
            run.choices = choices;
            let wrong = self.recover(&machine);
            let run = machine.0.get_mut();
            self.words += run.steps;
            // Before it is repeated, without its crashes.
            let held = run.held;
            match wrong {
                _ if !run.log.is_done() => self.differs(&mut machine, [None, wrong.as_ref()]),
                Some(wrong) => self.remember(wrong, &mut machine),
                None => {
                    self.repeat(&mut machine);
                    self.uncovered.path(machine.0.get_mut());
                }
            }
            let run = machine.0.get_mut();
            let crashed = run.take_crashed();
            choices = std::mem::take(&mut run.choices);
            for state in &crashed {
                if self.cut {
                    break;
                }
                let next = choices.fork();
                self.explore(state, depth + 1, next, held);
            }
            if self.cut || !choices.advance() {
                break;
            }
        }
        self.machines[depth] = machine;
    }

    // What is wrong, if anything is.
    #[inline(never)]
    pub(super) fn recover(&self, machine: &Machine) -> Option<Wrong> {
        machine.0.borrow_mut().floor = stack::here().saturating_sub(self.stack);
        self.watch.0.begin(machine.0.borrow().before.len());
        let result = quietly(|| {
            let result = (self.recovery)(machine);
            if result.is_ok() {
                machine.0.borrow_mut().crash_point(true);
            }
            result
        });
        self.watch.0.end();
        let run = machine.0.borrow();
        let stopped = |why| Wrong::stopped(why, "recovery", &run.log, &run.limits);
        match result {
            _ if run.stopped.is_some() => run.stopped.map(stopped),
            Ok(result) => result.err().map(Wrong::said),
            Err(thrown) => Some(Wrong::said(message(&thrown))),
        }
    }

    // Keeps the smallest.
    fn remember(&mut self, wrong: Wrong, machine: &mut Machine) {
        let run = machine.0.get_mut();
        let done = run.before.iter().map(|run| run.len).sum::<usize>() + run.events.len();
        let (mut lost, mut decided) = (0, 0);
        for layer in &run.layers {
            let (is_lost, is_open) = layer.lost_and_open();
            lost += is_lost;
            decided += layer.stores() - is_open;
        }
        let size = (run.before.len(), lost, decided, done);
        if self.found.as_ref().is_some_and(|found| found.size <= size) {
            return;
        }
        let fates = run.fates();
        // The same path again, noting what it reads.
        let reads = match wrong.stopped {
            // It would take as long.
            Some(Stop::Time) => Vec::new(),
            _ => match self.again(machine, Some(&wrong)) {
                Ok(reads) => reads,
                Err(()) => return,
            },
        };
        let run = machine.0.get_mut();
        let told = if wrong.fault.is_long() { TOLD } else { usize::MAX }.min(run.events.len());
        let events = run.events[..told].to_vec();
        let story = Story::new(&run.before, fates, events, reads, self.check.names.clone());
        if self.found.is_none() {
            let (states, words) = match wrong.fault {
                _ if self.any => (0, 0),
                fault if fault.is_long() => (NEARBY, ENDLESS_WORDS),
                _ => (NEARBY, NEARBY_WORDS),
            };
            self.until = self.states + states;
            self.until_words = u64::MAX;
            self.most_words = self.most_words.min(self.words + words);
        }
        self.found = Some(Found { size, violation: Violation::new(wrong, story) });
    }
}

// What the program did, and what of that it told.
struct Told {
    events: Rc<[Event]>,
    marks: Rc<[u64]>,
}

// A crash of the program behind so many of its events.
#[derive(Debug, Clone, Copy)]
struct Point {
    end: usize,
    killed: bool,
}

// Of the machine: just before whatever is ordered with what came before, or is told to the world,
// and at the end. Of the process alone: anywhere, since a flush that it did not come to is missing
// for good.
fn crash_points(events: &[Event], kills: bool) -> Vec<Point> {
    let mut points = Vec::new();
    let mut fresh = true;
    for end in 0..=events.len() {
        let boundary = events.get(end).is_none_or(|event| event.kind.is_boundary());
        if fresh && boundary {
            points.push(Point { end, killed: false });
        }
        if fresh && kills {
            points.push(Point { end, killed: true });
        }
        fresh = !boundary || end < events.len();
    }
    points
}
