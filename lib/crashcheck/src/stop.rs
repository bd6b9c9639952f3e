//! Why a run is stopped before its end, and what is told of it.

use std::fmt::Write;
use std::time::Duration;

use crate::event::Source;
use crate::log::Log;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// Recovery returned an error, or panicked.
    Wrong,
    /// Recovery or the program did not do the same twice on the same memory. Then nothing that was
    /// found or not found says anything of the next run.
    NotDeterministic,
    /// Recovery or the program does not come to an end, as far as a limit shows.
    Endless,
    /// Recovery or the program recursed until there was next to no stack left.
    TooDeep,
    /// Recovery or the program read or stored to bytes between a non-temporal store to them and its
    /// fence, which [`ringfence_persist::Memory`] forbids: what is found there, and what stays, is
    /// not known.
    Unfenced,
}

impl Fault {
    /// Whether the run would have continued for long: its story is not followed to the end.
    pub(crate) fn is_long(self) -> bool {
        matches!(self, Fault::Endless | Fault::TooDeep)
    }
}

/// How much one run may do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub operations: u64,
    pub memory: usize,
    pub stack: usize,
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            operations: 2_000_000,
            memory: 256 << 20,
            stack: usize::MAX,
            time: Duration::from_secs(10),
        }
    }
}

/// Why a run is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It does not do what the run did that it repeats.
    Differs,
    Unfenced(Unfenced),
    Operations,
    Memory,
    Stack,
    Time,
}

/// Bytes that are touched between a non-temporal store to them and its fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unfenced {
    pub start: usize,
    pub len: usize,
    pub at: Source,
    pub stored: Source,
}

/// What a run that is stopped is unwound with.
#[derive(Debug)]
pub(crate) struct Stopped;

/// Something wrong with a run.
#[derive(Debug, Clone)]
pub(crate) struct Wrong {
    pub fault: Fault,
    pub message: String,
    pub stopped: Option<Stop>,
}

/// The last steps of a run, by which its loop is told, and places of them that are.
const LAST: usize = 1000;
const PLACES: usize = 6;

impl Wrong {
    pub(crate) fn said(message: String) -> Self {
        Self { fault: Fault::Wrong, message, stopped: None }
    }

    pub(crate) fn stopped(why: Stop, who: &str, log: &Log, limits: &Limits) -> Self {
        let end = "it does not come to an end";
        let done = log.done();
        let (fault, mut message) = match why {
            Stop::Differs => return Self::not_deterministic(who),
            Stop::Unfenced(Unfenced { start, len, at, stored }) => {
                let message = format!(
                    "{}:{} reads or stores to {len} bytes at {start}, to which {}:{} made a \
                     non-temporal store, and \
                     no fence came since: until then they may be neither read nor stored to in \
                     another way. Put a \
                     fence in between",
                    at.file(),
                    at.line(),
                    stored.file(),
                    stored.line()
                );
                return Self { fault: Fault::Unfenced, message, stopped: Some(why) };
            }
            Stop::Operations => (
                Fault::Endless,
                format!(
                    "{end}: {done} operations were done, more than a run may \
                     (`Check::most_operations`)"
                ),
            ),
            Stop::Memory => (
                Fault::Endless,
                format!(
                    "{end}, or is too long to be crashed everywhere: what is kept of {done} \
                     operations and of \
                     crashes between them is more than {} MiB (`Check::most_memory`)",
                    limits.memory >> 20
                ),
            ),
            Stop::Time => (
                Fault::Endless,
                format!(
                    "{end}: after {:?} and {done} operations it was still running \
                     (`Check::most_time`)",
                    limits.time
                ),
            ),
            Stop::Stack => (
                Fault::TooDeep,
                format!(
                    "it recurses too deep: after {done} operations next to no stack was left \
                     (`Check::most_stack`)"
                ),
            ),
        };
        let (count, places) = log.last(LAST);
        _ = write!(message, ". Of its last {count} operations:");
        for (times, what) in places.iter().take(PLACES) {
            _ = write!(message, "\n{times:>6} x {what}");
        }
        if places.len() > PLACES {
            _ = write!(message, "\n       and others at {} more places", places.len() - PLACES);
        }
        Self { fault, message, stopped: Some(why) }
    }

    pub(crate) fn not_deterministic(who: &str) -> Self {
        Self {
            fault: Fault::NotDeterministic,
            stopped: Some(Stop::Differs),
            message: format!(
                "{who} was run twice on the same memory, and did not do the same: it must depend \
                 on nothing but the \
                 memory (a HashMap or HashSet, whose order changes, a clock, an address, a random \
                 number, \
                 something left over from the run before)"
            ),
        }
    }
}
