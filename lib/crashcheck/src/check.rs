//! From the question to the report: the search and its notes.

use crate::event::Event;
use crate::explore::{Explorer, Program, Recovery};
use crate::machine::Machine;
use crate::panics::quietly;
use crate::profile::Profile;
use crate::question::Check;
use crate::report::Report;
use crate::shrink;

/// As [`Check::new`] and [`Check::run`]: one crash, everywhere it makes a difference.
pub fn check(
    profile: Profile,
    len: usize,
    program: impl Fn(&Machine),
    recovery: impl Fn(&Machine) -> Result<(), String>,
) -> Report {
    Check::new(profile, len).run(program, recovery)
}

impl Check {
    /// Runs `program`, crashes it wherever that makes a difference, and runs `recovery` on
    /// everything that can be left. Recovery receives the [marks](Machine::mark) from before the
    /// crash, and returns what is wrong; a panic is wrong too. What it does after recovering is the
    /// next run of the program: with more than one crash it is crashed in turn, and run again.
    ///
    /// Both must do the same whenever they read the same. They are run many times, and each run is
    /// compared with those before, operation by operation, as far as it has to do the same.
    /// Besides, whatever goes a way through the source for the first time is run 20 times more on
    /// the same memory, some of all others once more, and a small search three times more as a
    /// whole. A program or a recovery that does not repeat itself is a violation of its own kind,
    /// [`crate::Fault::NotDeterministic`]. What shows in none of these runs, such as a clock that
    /// stood still meanwhile, is not told.
    ///
    /// # Panics
    /// If the program itself panics.
    pub fn run(
        &self,
        program: impl Fn(&Machine),
        recovery: impl Fn(&Machine) -> Result<(), String>,
    ) -> Report {
        self.search(&program, &recovery)
    }

    fn search(&self, program: &Program<'_>, recovery: &Recovery<'_>) -> Report {
        let explorer = Explorer::new(self, program, recovery);
        match explorer.record(&[]) {
            Ok(events) => self.told(explorer.search(&events), &events, program, recovery),
            Err(violation) => Report::of(self, Some(*violation)),
        }
    }

    // The report with all that is told beside the outcome of the search.
    fn told(
        &self,
        mut report: Report,
        events: &[Event],
        program: &Program<'_>,
        recovery: &Recovery<'_>,
    ) -> Report {
        report.lints.extend(self.lints_of(events));
        for lint in &mut report.lints {
            lint.price(&self.prices);
            lint.name = self.names.of(lint.bytes.start).filter(|_| !lint.bytes.is_empty());
        }
        report.lints.sort_by_key(|lint| (lint.rule, lint.at));
        if report.violation.is_some() {
            shrink::shrink(self, program, recovery, events, &mut report);
        }
        report
    }

    /// As [`run`](Self::run) for a program that is a list of steps; where there is a violation,
    /// steps are left out as long as there is one still. Fewer steps that make the program panic
    /// are left alone.
    ///
    /// # Panics
    /// As [`run`](Self::run), for all of the steps.
    pub fn run_steps<S: Clone>(
        &self,
        steps: &[S],
        program: impl Fn(&Machine, &[S]),
        recovery: impl Fn(&Machine) -> Result<(), String>,
    ) -> (Report, Vec<S>) {
        let mut steps = steps.to_vec();
        let search = |steps: &[S], whole: bool| {
            let program = |memory: &Machine| program(memory, steps);
            let explorer = Explorer::new(self, &program, &recovery);
            let explorer = if whole { explorer } else { explorer.once() };
            // Fewer steps may make no sense.
            let record = || explorer.record(&[]);
            let events = if whole { record() } else { quietly(record).ok()? };
            Some(events.map(|events| (explorer.search(&events), events)))
        };
        let whole = search(&steps, true).expect("the whole program does not panic");
        let (mut report, mut events) = match whole {
            Ok(found) => found,
            Err(violation) => return (Report::of(self, Some(*violation)), steps),
        };
        // The same kind of wrong, in what crashes leave.
        let fault = |report: &Report| report.violation.as_ref().map(|violation| violation.fault);
        // Halves, quarters, and so on (Zeller and Hildebrandt's ddmin, IEEE TSE 2002), then one by
        // one until none can be spared.
        let mut piece = steps.len().div_ceil(2);
        while report.violation.is_some() && piece > 0 {
            let (before, mut at) = (steps.len(), 0);
            while at < steps.len() {
                let fewer: Vec<S> = steps[..at]
                    .iter()
                    .chain(&steps[(at + piece).min(steps.len())..])
                    .cloned()
                    .collect();
                match search(&fewer, false) {
                    Some(Ok(tried)) if fault(&tried.0) == fault(&report) => {
                        ((report, events), steps) = (tried, fewer)
                    }
                    _ => at += piece,
                }
            }
            piece = match piece {
                1 if steps.len() == before => 0,
                1 => 1,
                _ => piece.div_ceil(2),
            };
        }
        let report =
            self.told(report, &events, &|memory: &Machine| program(memory, &steps), &recovery);
        (report, steps)
    }
}
