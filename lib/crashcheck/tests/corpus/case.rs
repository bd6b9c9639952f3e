//! A bug in its minimal form with its repaired twin, and the words that the cases are written in.

use std::ops::Range;

use ringfence_crashcheck::{Check, Machine, Profile, Report, Rule};
use ringfence_persist::Memory;

/// By what a bug shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// A state that a crash can leave, of which recovery makes something wrong.
    Violation,
    /// A lint over the trace.
    Lint(Rule),
}

/// One bug and its twin: they share their code, and part where `buggy` is asked.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    /// Where this class of bugs was reported, or where the rule that it breaks is stated.
    pub source: &'static str,
    /// The buggy form is found under these profiles, and is right under the others.
    pub found_under: &'static [Profile],
    pub found_by: By,
    /// Bytes of memory.
    pub len: usize,
    /// With one crash fewer the bug is not found.
    pub crashes: usize,
    pub program: fn(&Machine, bool),
    pub recovery: fn(&Machine, bool) -> Result<(), String>,
}

/// What most cases have in common.
pub const CASE: Case = Case {
    name: "",
    source: "",
    found_under: ALL,
    found_by: By::Violation,
    len: 1024,
    crashes: 1,
    program: |_, _| (),
    recovery: |_, _| Ok(()),
};

pub const ALL: &[Profile] = &Profile::ALL;
/// Where caches are lost: what these have in common is that eADR forgives it, since there a fence
/// is enough, and stores become durable in the order of the program.
pub const ADR: &[Profile] = &[Profile::IntelAdr, Profile::Amd, Profile::OldAmd];
/// Where `clflush` is not ordered with later stores.
pub const AMD: &[Profile] = &[Profile::Amd, Profile::OldAmd];
pub const OLD_AMD: &[Profile] = &[Profile::OldAmd];

impl Case {
    pub fn check(&self, profile: Profile, buggy: bool, crashes: usize) -> Report {
        Check::new(profile, self.len)
            .crashes(crashes)
            .run(|memory| (self.program)(memory, buggy), |memory| (self.recovery)(memory, buggy))
    }
}

/// Makes what was stored to the range durable.
#[track_caller]
pub fn persist(m: &Machine, range: Range<usize>) {
    m.flush(range);
    m.sfence();
}

/// Stores eight bytes durably.
#[track_caller]
pub fn put(m: &Machine, at: usize, value: u64) {
    m.store_u64(at, value);
    persist(m, at..at + 8);
}

/// Whether this was marked or acknowledged before the crash.
pub fn has(m: &Machine, mark: u64) -> bool {
    m.marks().contains(&mark)
}

/// The greatest mark, 0 if there is none.
pub fn last(m: &Machine) -> u64 {
    m.marks().into_iter().max().unwrap_or(0)
}

pub fn ensure(holds: bool, otherwise: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}
