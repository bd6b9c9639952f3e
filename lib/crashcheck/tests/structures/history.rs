//! What a program has done, told to its recovery by marks: operations begun, acknowledged, and
//! settled by an earlier recovery.

use std::fmt::Debug;

use ringfence_crashcheck::{Check, Machine, Profile, Report};
use ringfence_persist::{Mapped, Region, Request};

/// Where caches are lost in a crash: bugs of order exist here, and not under eADR.
pub const ADR: &[Profile] = &[Profile::IntelAdr, Profile::Amd, Profile::OldAmd];
/// Where `clflush` is ordered with nothing but fences: on Intel's processors its order stands in
/// for a fence that is missing.
pub const WEAK_CLFLUSH: &[Profile] = &[Profile::Amd, Profile::OldAmd];
/// Where `sfence` does not order `clflush`, so that nothing which relies on that is right.
pub const OLD_AMD: &[Profile] = &[Profile::OldAmd];
/// Bugs that no order of stores excuses.
pub const ALL: &[Profile] = &Profile::ALL;

/// How to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// One crash.
    Once,
    /// A crash of recovery, or of what follows it, besides.
    Twice,
    /// One crash, and every flush is a `clflush`.
    Clflush,
}

impl How {
    /// The check, on so many bytes.
    pub fn check(self, profile: Profile, len: usize) -> Check {
        let check = Check::new(profile, len);
        match self {
            How::Once => check,
            How::Twice => check.crashes(2),
            How::Clflush => check.clflush(),
        }
    }
}

const CREATED: u64 = 1 << 60;
const BEGUN: u64 = 2 << 60;
const DONE: u64 = 3 << 60;
const HAPPENED: u64 = 4 << 60;
const DROPPED: u64 = 5 << 60;

/// The structure is there from now on.
#[track_caller]
pub fn created(machine: &Machine) {
    machine.acknowledge(CREATED);
}

/// An operation (below 2^60) is tried, and acknowledged when `run` returns.
#[track_caller]
pub fn operate<T>(machine: &Machine, operation: u64, run: impl FnOnce() -> T) -> T {
    machine.mark(BEGUN | operation);
    let value = run();
    machine.acknowledge(DONE);
    value
}

/// The past, as a recovery finds it.
pub struct Past {
    /// Whether the structure must be there.
    pub created: bool,
    /// Operations that took place, in order.
    pub done: Vec<u64>,
    /// The one that was under way: it took place, or did not.
    pub pending: Option<u64>,
    /// All that were ever begun.
    pub begun: Vec<u64>,
}

/// Reads the marks.
pub fn past(machine: &Machine) -> Past {
    let mut past = Past { created: false, done: Vec::new(), pending: None, begun: Vec::new() };
    for mark in machine.marks() {
        match mark >> 60 << 60 {
            CREATED => past.created = true,
            BEGUN => {
                past.pending = Some(mark & (CREATED - 1));
                past.begun.push(mark & (CREATED - 1));
            }
            DONE | HAPPENED => past.done.extend(past.pending.take()),
            _ => past.pending = None,
        }
    }
    past
}

/// What was found must be what is left by the operations done, with or without the one that was
/// under way: it is settled from now on which of the two it is.
#[track_caller]
pub fn settle<S: PartialEq + Debug>(
    machine: &Machine,
    past: &Past,
    found: &S,
    left_by: impl Fn(&[u64]) -> S,
) -> Result<(), String> {
    let without = left_by(&past.done);
    if *found == without {
        if past.pending.is_some() {
            machine.mark(DROPPED);
        }
        return Ok(());
    }
    let all: Vec<u64> = past.done.iter().copied().chain(past.pending).collect();
    let with = left_by(&all);
    if *found == with {
        machine.mark(HAPPENED);
        return Ok(());
    }
    Err(format!("found {found:?} where {without:?} or {with:?} was left"))
}

/// Runs the check under every profile, prints a row for each, and wants the bug under exactly these
/// profiles.
pub fn expect(
    structure: &str,
    bug: Option<impl Debug>,
    how: How,
    wanted: &[Profile],
    run: impl Fn(Profile) -> Report,
) {
    let name = bug.map_or("none".into(), |bug| format!("{bug:?}"));
    let mut missed = Vec::new();
    for profile in Profile::ALL {
        let report = run(profile);
        let said = report.violation.as_ref().map_or("", |violation| &violation.message);
        println!(
            "{structure:<11} {name:<22} {profile:<22} {:<8} {:>4} points {:>7} paths  {}",
            format!("{how:?}"),
            report.crash_points,
            report.states,
            if said.is_empty() {
                "nothing".into()
            } else {
                said.chars().take(80).collect::<String>()
            }
        );
        assert!(!report.bounded, "{structure}, {name}, {profile}: too many paths");
        if report.violation.is_some() != wanted.contains(&profile) {
            let story = report
                .violation
                .map_or("no violation".into(), |v| format!("{}\n{}", v.message, v.story));
            missed.push(format!("{structure}, bug {name}, {profile}, {how:?}: {story}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// Memory without crashes, for programs that are long.
pub fn plain_memory(len: usize) -> Mapped {
    Mapped::new(Region::map(&Request::dram(len)).unwrap()).unwrap()
}

/// Numbers below `end` that look random: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
pub fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |end| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}
