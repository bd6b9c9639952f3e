//! The result of a search, and its text.

use std::fmt;

use crate::fix::Fix;
use crate::lint::{Lint, Rule};
use crate::profile::Profile;
use crate::question::Check;
use crate::stop::{Fault, Wrong};
use crate::story::Story;

/// What came of it. As text it is what a person wants to know.
#[derive(Debug)]
pub struct Report {
    /// The rules it was checked under.
    pub profile: Profile,
    /// Number of distinct crashes of the program.
    pub crash_points: usize,
    /// Crashes of the program that were looked at to the end: fewer than all where the limit ended
    /// the search. Where there is a violation, the number of the crash that it was found behind,
    /// counted from 1.
    pub looked_at: usize,
    /// States of memory that recovery ran on, as far apart as it looked.
    pub states: u64,
    /// States after a crash that were left out, since one with the same content and future was seen
    /// before.
    pub merged: u64,
    /// What the first crash can leave, over all its crash points: contents of memory if all that is
    /// open there were distinguished, whether recovery reads it or not. Dependencies between lines,
    /// which Intel's `clflush` creates, are not subtracted.
    pub images: f64,
    /// Whether there are states that were not looked at: the limit was met, or states were taken at
    /// random.
    pub bounded: bool,
    /// The seed of a search at random.
    pub seed: Option<u64>,
    /// A state that recovery makes something wrong of: the smallest of those that were found near
    /// the first.
    pub violation: Option<Violation>,
    /// What is wasteful or suspicious in what the program did until its end, or in what recovery
    /// read.
    pub lints: Vec<Lint>,
}

/// A state that a crash can leave, from which recovery goes wrong.
#[derive(Debug)]
pub struct Violation {
    /// What kind of wrong it is.
    pub fault: Fault,
    /// The message of recovery, or of its panic.
    pub message: String,
    /// How it came to that.
    pub story: Story,
    /// What would close it, where a flush and fence at one place of the source do, or a few of
    /// them: tried, not guessed.
    pub fix: Option<Fix>,
    /// What is suspicious or wasteful in the program with the fix, and was not before, or concerns
    /// what was lost. Mostly nothing: such a fix is given only where no other was found.
    pub left: Vec<Lint>,
}

/// Places of one rule that a report tells in full.
const PLACES: usize = 3;

impl Violation {
    pub(crate) fn new(wrong: Wrong, story: Story) -> Self {
        Self { fault: wrong.fault, message: wrong.message, story, fix: None, left: Vec::new() }
    }
}

impl Report {
    /// Of a search that looked at nothing.
    pub(crate) fn of(check: &Check, violation: Option<Violation>) -> Self {
        Self {
            profile: check.profile,
            crash_points: 0,
            looked_at: 0,
            states: 0,
            merged: 0,
            images: 0.0,
            bounded: false,
            seed: check.sample.map(|(seed, _)| seed),
            violation,
            lints: Vec::new(),
        }
    }

    /// For tests: says nothing where everything was looked at, or all that was to be
    /// [sampled](Check::sample), and there is no violation. Lints do not count: a test that wants
    /// none asserts that [`lints`](Self::lints) is empty.
    ///
    /// # Panics
    /// With the whole report, where there is a violation, or the [limit](Check::most_states) was
    /// met.
    #[track_caller]
    pub fn expect_sound(&self) {
        assert!(self.violation.is_none(), "{self}");
        assert!(!self.bounded || self.seed.is_some(), "{self}");
    }

    fn tell_lints(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A store that nothing ever flushes is not flushed before the acknowledgement either.
        let told = |lint: &&Lint| {
            let never = |other: &Lint| {
                other.rule == Rule::NeverDurable
                    && (other.at, &other.bytes) == (lint.at, &lint.bytes)
            };
            lint.rule != Rule::AcknowledgedTooEarly || !self.lints.iter().any(never)
        };
        let lints: Vec<&Lint> = self.lints.iter().filter(told).collect();
        for same in lints.chunk_by(|one, other| one.rule == other.rule) {
            let (first, rest) = same.split_at(same.len().min(PLACES));
            if !rest.is_empty() && rest.len() < PLACES {
                same.iter().try_for_each(|lint| writeln!(f, "{lint}"))?;
                continue;
            }
            first.iter().try_for_each(|lint| writeln!(f, "{lint}"))?;
            if !rest.is_empty() {
                let places: Vec<String> = rest.iter().map(|lint| lint.at.to_string()).collect();
                writeln!(
                    f,
                    "... {} at {} more places: {}",
                    first[0].rule,
                    rest.len(),
                    places.join(", ")
                )?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { profile, crash_points, looked_at, states, merged, .. } = self;
        match &self.violation {
            None => writeln!(f, "Under the rules of {profile}, nothing wrong was found.")?,
            Some(violation) => {
                match violation.fault {
                    Fault::NotDeterministic => {
                        f.write_str("What is checked does not repeat itself")?
                    }
                    _ if violation.story.crashes() == 0 => f.write_str("The program fails")?,
                    _ => write!(
                        f,
                        "Under the rules of {profile}, a crash can leave memory so that recovery \
                         fails"
                    )?,
                }
                writeln!(f, ":\n    {}\n\n{violation}", violation.message.replace('\n', "\n    "))?;
            }
        }
        let equal = if *merged > 0 {
            format!(" {merged} more were equal to one of these.")
        } else {
            String::new()
        };
        if self.violation.is_some() {
            writeln!(
                f,
                "The search ended with it, at crash {looked_at} of {crash_points} after {states} \
                 states.{equal}"
            )?;
        } else if looked_at == crash_points {
            writeln!(f, "Looked at: all of {crash_points} crashes, {states} states.{equal}")?;
        } else {
            writeln!(
                f,
                "Looked at: {looked_at} of {crash_points} crashes, {states} states.{equal}"
            )?;
        }
        if let Some(seed) = self.seed {
            writeln!(
                f,
                "They were taken at random with seed {seed}; what was not taken was not looked at."
            )?;
        } else if self.bounded {
            writeln!(
                f,
                "The limit of states was met: {} crashes were looked at in part or not at all.",
                crash_points - looked_at
            )?;
        }
        self.tell_lints(f)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.story)?;
        match &self.fix {
            Some(fix) => {
                write!(f, "\nThe fix: {fix}. It was tried: then nothing wrong is found")?;
                if self.left.is_empty() {
                    writeln!(f, ".")?;
                } else {
                    writeln!(f, ", but this is left:")?;
                    self.left.iter().try_for_each(|lint| writeln!(f, "    {lint}"))?;
                }
                fix.in_recovery.iter().try_for_each(|in_recovery| write!(f, "{in_recovery}"))
            }
            None => f.write_str(&self.story.beyond_repair()),
        }
    }
}
