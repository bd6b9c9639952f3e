//! A search under way: what it is asked, and how far it came.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::checksum_gaps::Uncovered;
use crate::machine::Machine;
use crate::question::Check;
use crate::report::Violation;
use crate::run::{Places, Run, Seen};
use crate::stack;
use crate::watch::Watch;

/// What is checked. As trait objects, so that the search is compiled once, and not for each check
/// that a user writes.
pub(crate) type Program<'c> = dyn Fn(&Machine) + 'c;
pub(crate) type Recovery<'c> = dyn Fn(&Machine) -> Result<(), String> + 'c;

/// A search for something that recovery makes wrong.
pub(crate) struct Explorer<'c> {
    pub(super) check: &'c Check,
    pub(super) program: &'c Program<'c>,
    pub(super) recovery: &'c Recovery<'c>,
    // One for each crash, the program's own first.
    pub(super) machines: Vec<Machine>,
    pub(super) watch: Watch,
    // What a run may use.
    pub(super) stack: usize,
    pub(super) seen: Rc<RefCell<Seen>>,
    pub(super) states: u64,
    pub(super) images: f64,
    pub(super) bounded: bool,
    // Whether the search of one crash came to the end of its share.
    pub(super) cut: bool,
    pub(super) found: Option<Found>,
    // As far as the search of a crash goes, or that for something smaller once something is found.
    pub(super) until: u64,
    // Words that recoveries read or wrote, as far as the search of a crash goes, and how many they
    // may at all.
    pub(super) words: u64,
    pub(super) until_words: u64,
    pub(super) most_words: u64,
    pub(super) uncovered: Uncovered,
    // How often recovery went each way through the source, and what was run again because of that.
    pub(super) ways: FxHashMap<u64, u64>,
    pub(super) times: u64,
    // Whether any counterexample will do.
    pub(super) any: bool,
    pub(super) repeats: u64,
    pub(super) repeated_words: u64,
}

/// How small a counterexample is: fewer runs, then fewer stores lost, then fewer decided, then less
/// done.
pub(super) type Size = (usize, usize, usize, usize);

pub(super) struct Found {
    pub(super) size: Size,
    pub(super) violation: Violation,
}

/// And words that recoveries may read or write for that.
pub(crate) const NEARBY_WORDS: u64 = 20_000_000;
/// Instructions of an endless run that are told at most.
pub(super) const TOLD: usize = 2000;

/// So often a program is run again, and a recovery that goes a way through the source for the first
/// time: an order that is one of two by chance, the least there is, comes out the same each time
/// once in a million.
const TIMES: u64 = 20;

impl<'c> Explorer<'c> {
    pub(crate) fn new(
        check: &'c Check,
        program: &'c Program<'c>,
        recovery: &'c Recovery<'c>,
    ) -> Self {
        let seen = Rc::new(RefCell::new(Seen::default()));
        let watch = Watch::new(check.limits.time);
        let run = || {
            let mut run =
                Run::new(check.profile, check.len, check.strong_flushes, Rc::clone(&seen));
            (run.limits, run.watched) = (check.limits, Arc::clone(&watch.0));
            run.unfenced = check.unfenced;
            run
        };
        let machines = (0..=check.crashes).map(|_| Machine(RefCell::new(run()))).collect();
        Self {
            check,
            program,
            recovery,
            machines,
            watch,
            stack: stack::left(check.limits.stack),
            seen,
            states: 0,
            images: 0.0,
            bounded: false,
            cut: false,
            found: None,
            until: u64::MAX,
            words: 0,
            until_words: u64::MAX,
            most_words: u64::MAX,
            uncovered: Uncovered::default(),
            ways: FxHashMap::default(),
            times: TIMES,
            any: false,
            repeats: 0,
            repeated_words: 0,
        }
    }

    /// Repeats once what goes a new way: after another search that was sure of it.
    pub(crate) fn once(self) -> Self {
        Self { times: 1, ..self }
    }

    /// Does not look for a small counterexample.
    pub(crate) fn any(self) -> Self {
        Self { any: true, ..self }
    }

    /// Has all that is stored made durable at once, by the program and by recovery, and notes in
    /// `places` where.
    pub(crate) fn at_once(self, places: Option<&Places>) -> Self {
        for machine in &self.machines {
            machine.0.borrow_mut().at_once = places.cloned();
        }
        self
    }

    /// Gives up too once recoveries read or wrote so many words.
    pub(crate) fn most_words(self, most_words: u64) -> Self {
        Self { most_words, ..self }
    }
}
