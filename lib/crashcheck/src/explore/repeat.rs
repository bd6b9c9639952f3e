//! Runs that are done again, to see that they do the same: of the program, and of recovery.

use std::collections::hash_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::explorer::{Explorer, Found, TOLD};
use crate::event::Event;
use crate::fix::Edit;
use crate::log;
use crate::machine::Machine;
use crate::past::Read;
use crate::report::Violation;
use crate::run::Run;
use crate::stack;
use crate::stop::{Fault, Stop, Wrong};
use crate::story::{Reading, Story};

/// As long as the program did no more than so many steps on the way. Once it is in any case.
const PROGRAM_STEPS: usize = 100_000;
/// So many runs of recovery are repeated before they are counted, and then one in so many.
const FREE: u64 = 600;
const SHARE: u64 = 32;
/// And so many words that they read or write.
const FREE_WORDS: u64 = 1_000_000;
/// A small search is done again, as often as no more states and words that recoveries read or write
/// come of it, since what is found in an order that no operation shows may be wrong in a rare state
/// alone. A search goes each path twice: after so many, one of two orders by chance was the same
/// each time once in fifteen million.
const SMALL: u64 = 3000;
const SMALL_WORDS: u64 = 3_000_000;
const SEARCHES: u64 = 11;
/// Steps that are told of what the first run did where the second did something else.
const NEXT: usize = 4;

impl Explorer<'_> {
    /// What the program does if nothing happens to it, with `edits` in it, and does again.
    pub(crate) fn record(&self, edits: &[Edit]) -> Result<Vec<Event>, Box<Violation>> {
        for machine in &self.machines {
            machine.0.borrow_mut().edits = edits.to_vec();
        }
        self.machines[0].0.borrow_mut().log.begin(0);
        let events = self.run_program()?;
        let steps = self.machines[0].0.borrow().log.done().max(1);
        let most = (PROGRAM_STEPS / steps).max(1) as u64;
        (0..self.times.min(most)).try_for_each(|_| self.run_program_again())?;
        Ok(events)
    }

    // Once more, long after the first time.
    pub(super) fn run_program_again(&self) -> Result<(), Box<Violation>> {
        self.machines[0].0.borrow_mut().log.again();
        self.run_program().map(drop)
    }

    // What comes of all of it anew, if it is small.
    pub(super) fn search_again(&self) -> Option<Violation> {
        let steps = self.machines[0].0.borrow().log.done();
        if self.times == 1 || steps > PROGRAM_STEPS {
            return None;
        }
        let searches =
            SEARCHES.min(SMALL / self.states.max(1)).min(SMALL_WORDS / self.words.max(1));
        (0..searches).find_map(|_| {
            let again = Explorer::new(self.check, self.program, self.recovery).once();
            match again.record(&[]) {
                Ok(events) => again.search(&events).violation,
                Err(violation) => Some(*violation),
            }
        })
    }

    fn run_program(&self) -> Result<Vec<Event>, Box<Violation>> {
        let machine = &self.machines[0];
        machine.0.borrow_mut().blank();
        machine.0.borrow_mut().floor = stack::here().saturating_sub(self.stack);
        self.watch.0.begin(0);
        let result = catch_unwind(AssertUnwindSafe(|| (self.program)(machine)));
        self.watch.0.end();
        let run = &mut *machine.0.borrow_mut();
        let mut events = std::mem::take(&mut run.events);
        run.content.rewind();
        run.marks.clear();
        match (run.stopped, result) {
            (None, Err(thrown)) => resume_unwind(thrown),
            (None, Ok(())) if run.log.is_done() => Ok(events),
            (None | Some(Stop::Differs), _) => {
                let wrong = Wrong::not_deterministic("the program");
                let readings = readings(run, [const { None }; 2]);
                let story =
                    Story::new(&[], Vec::new(), Vec::new(), Vec::new(), self.check.names.clone());
                Err(Box::new(Violation::new(wrong, story.of_two("The program", readings))))
            }
            (Some(why), _) => {
                let wrong = Wrong::stopped(why, "the program", &run.log, &run.limits);
                if wrong.fault.is_long() {
                    events.truncate(TOLD);
                }
                let story =
                    Story::new(&[], Vec::new(), events, Vec::new(), self.check.names.clone());
                Err(Box::new(Violation::new(wrong, story)))
            }
        }
    }

    // The path that was just gone, again as often as is due.
    pub(super) fn repeat(&mut self, machine: &mut Machine) {
        let way = machine.0.get_mut().log.way();
        let times = match self.ways.entry(way) {
            Entry::Vacant(entry) => {
                entry.insert(1);
                self.times
            }
            Entry::Occupied(mut entry) => {
                *entry.get_mut() += 1;
                // Each path of a small search, since what is found may hang on an order that no
                // operation shows.
                u64::from(entry.get().is_power_of_two() || self.repeats < FREE)
            }
        };
        let words = machine.0.get_mut().steps;
        for _ in 0..times {
            let few = self.repeats < FREE + self.states / SHARE;
            if !few || self.repeated_words > FREE_WORDS + self.words / SHARE {
                break;
            }
            self.repeats += 1;
            self.repeated_words += words;
            if self.again(machine, None).is_err() {
                break;
            }
        }
    }

    // The path that was just gone, again: what it read, where it did and found the same.
    pub(super) fn again(
        &mut self,
        machine: &mut Machine,
        first: Option<&Wrong>,
    ) -> Result<Vec<Read>, ()> {
        let run = machine.0.get_mut();
        let (crashes, crashed) =
            (std::mem::take(&mut run.crashes), std::mem::take(&mut run.crashed));
        run.rewind();
        run.choices.again();
        run.log.again();
        run.reads = first.map(|_| Vec::new());
        let second = self.recover(machine);
        let run = machine.0.get_mut();
        (run.crashes, run.crashed) = (crashes, crashed);
        let reads = run.reads.take().unwrap_or_default();
        // One that was stopped would have done more.
        let stopped = |wrong: Option<&Wrong>| wrong.and_then(|wrong| wrong.stopped);
        let (one, other) = (stopped(first), stopped(second.as_ref()));
        let as_far =
            one.is_some() && run.log.came_as_far() || one == Some(Stop::Stack) && other == one;
        if as_far || run.log.is_done() && first.is_some() == second.is_some() {
            return Ok(reads);
        }
        self.differs(machine, [first, second.as_ref()]);
        Err(())
    }

    // Ends the search: what two runs found, if they came to an end.
    pub(super) fn differs(&mut self, machine: &mut Machine, found: [Option<&Wrong>; 2]) {
        let run = machine.0.get_mut();
        let story =
            Story::new(&run.before, run.fates(), Vec::new(), Vec::new(), self.check.names.clone());
        let violation = match found[1] {
            // The machine may be slow, and so this one time.
            Some(late) if late.stopped == Some(Stop::Time) => Violation::new(late.clone(), story),
            _ => {
                let story = story.of_two("Recovery", readings(run, found));
                Violation::new(Wrong::not_deterministic("recovery"), story)
            }
        };
        self.found = Some(Found { size: Default::default(), violation });
        self.until = self.states;
    }
}

// What both did, and then the first and the second.
fn readings(run: &Run, found: [Option<&Wrong>; 2]) -> [Reading; 3] {
    let (both, first, second) = run.log.parted();
    let end = |found: Option<&Wrong>| {
        Some(match found {
            Some(Wrong { fault: Fault::Wrong, message, .. }) => format!("it ends with: {message}"),
            Some(wrong) => wrong.message.clone(),
            None => "it ends, and finds nothing wrong".into(),
        })
    };
    let told = |steps, end| {
        let (events, reads) = log::told(steps);
        Reading { events, reads, end }
    };
    [
        told(both, None),
        told(&first[..first.len().min(NEXT)], if first.is_empty() { end(found[0]) } else { None }),
        told(
            second.map_or(&[], std::slice::from_ref),
            if second.is_none() { end(found[1]) } else { None },
        ),
    ]
}
