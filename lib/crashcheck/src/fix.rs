//! What would fix a violation: one more flush, fence, or both, right behind an operation of the
//! source; rarely behind several. What that makes needless is left out.

use crate::event::{At, Kind, Source};
use crate::profile::Profile;
use std::fmt;

/// An operation, as a place in the source may do several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Op {
    Store,
    Stream,
    Flush,
    Fence,
}

/// What is changed, everywhere this operation is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edit {
    pub op: Op,
    pub at: At,
    pub change: Change,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Add(Added),
    LeaveOut,
}

/// What is done in addition, right behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Added {
    /// A flush of all that the operation stored to.
    pub flush: bool,
    pub fence: bool,
    /// By `clflush`, as the program does.
    pub strong: bool,
}

impl Edit {
    pub(crate) fn concerns(&self, op: Op, at: At) -> bool {
        self.op == op && self.at == at
    }

    pub(crate) fn added(&self) -> Option<Added> {
        match self.change {
            Change::Add(added) => Some(added),
            Change::LeaveOut => None,
        }
    }
}

impl Op {
    pub(crate) fn of(kind: Kind) -> Option<Self> {
        match kind {
            Kind::Store(_) | Kind::Locked(_) => Some(Op::Store),
            Kind::Stream(_) => Some(Op::Stream),
            Kind::Flush(_) | Kind::Flushopt(_) => Some(Op::Flush),
            Kind::Sfence => Some(Op::Fence),
            Kind::Mfence | Kind::LockedOnly | Kind::Mark(_) | Kind::Acknowledge(_) => None,
        }
    }

    /// What makes its bytes durable before anything else happens.
    pub(crate) fn at_once(self, profile: Profile) -> Option<Added> {
        match self {
            Op::Store => {
                Some(Added { flush: profile != Profile::Eadr, fence: true, strong: false })
            }
            // Of a flush what is waited for may have been stored by a process that died since.
            Op::Stream | Op::Flush => Some(Added { flush: false, fence: true, strong: false }),
            Op::Fence => None,
        }
    }
}

impl Profile {
    /// The fence that every flush waits for.
    pub(crate) fn fence(self) -> Kind {
        if self == Profile::OldAmd { Kind::Mfence } else { Kind::Sfence }
    }
}

/// What was tried and did not help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InVain {
    /// All that is stored made durable at once: then no addition helps.
    AtOnce,
    /// So many additions, each alone.
    Each(usize),
}

/// What closes a violation, tried: with it the whole search finds none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fix {
    // The first is there.
    pub(crate) edits: [Option<Edit>; PLACES],
    // Whether fences must be full ones, which clflush waits for on some processors.
    pub(crate) full: bool,
    // Whether flushes are by clflush, and `Memory::flush` is something else.
    pub(crate) clflush: bool,
    pub(crate) in_recovery: Option<InRecovery>,
}

/// Places in the source that a fix changes at most.
pub(crate) const PLACES: usize = 8;

/// Where a change of recovery would do as well: nothing that was lost had been acknowledged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct InRecovery {
    /// How many fences the fix adds to one run of the program, and how often that acknowledges
    /// something.
    pub fences: usize,
    pub acknowledged: usize,
    /// Where recovery read what was not there.
    pub read: Option<Source>,
}

impl Fix {
    /// The place in the source behind which instructions are missing; the first, where there are
    /// several.
    pub fn after(&self) -> &'static std::panic::Location<'static> {
        self.places().next().expect("the first is there")
    }

    /// All places in the source behind which instructions are missing.
    pub fn places(&self) -> impl Iterator<Item = &'static std::panic::Location<'static>> {
        self.edits
            .into_iter()
            .flatten()
            .filter(|edit| edit.added().is_some())
            .filter_map(|edit| edit.at.source())
    }

    /// The flushes and fences that are needless then, and left out.
    pub fn left_out(&self) -> impl Iterator<Item = &'static std::panic::Location<'static>> {
        self.edits
            .into_iter()
            .flatten()
            .filter(|edit| edit.added().is_none())
            .filter_map(|edit| edit.at.source())
    }

    /// Whether a change of recovery may be the smaller one: the fix adds more fences than there are
    /// acknowledgements, and nothing that was lost had been acknowledged.
    pub fn or_in_recovery(&self) -> bool {
        self.in_recovery.is_some()
    }
}

impl Edit {
    fn tell(&self, Fix { full, clflush, .. }: &Fix, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, at, change } = self;
        let fence_name = if *full { "an mfence" } else { "a fence" };
        let flush_name = if *clflush { "a clflush" } else { "a flush" };
        let name = match op {
            Op::Store => "store",
            Op::Stream => "non-temporal store",
            Op::Flush => "flush",
            Op::Fence => "fence",
        };
        match change {
            Change::Add(Added { flush: true, fence: true, .. }) => {
                write!(f, "put {flush_name} of what it stored, and then {fence_name}, right after")
            }
            Change::Add(Added { flush: true, .. }) => {
                write!(f, "put {flush_name} of what it stored right after")
            }
            Change::Add(_) => write!(f, "put {fence_name} right after"),
            Change::LeaveOut => write!(f, "leave out"),
        }?;
        write!(f, " the {name} at {at}")
    }
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, edit) in self.edits.iter().flatten().enumerate() {
            f.write_str(if number == 0 { "" } else { "; and " })?;
            edit.tell(self, f)?;
        }
        Ok(())
    }
}

/// What else would do; nothing, or a line.
impl fmt::Display for InRecovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fences, acknowledged, read } = self;
        let times =
            |count: usize| if count == 1 { "once".into() } else { format!("{count} times") };
        write!(
            f,
            "Or change recovery: the fix adds a fence {} where the program acknowledges {}, and \
             nothing that was \
             lost had been acknowledged. A recovery that takes only what it can verify, and \
             nothing behind the \
             first that it cannot, needs no more fences",
            times(*fences),
            if *acknowledged == 0 { "nothing".into() } else { times(*acknowledged) },
        )?;
        match read {
            Some(at) => {
                writeln!(f, "; what it read at {}:{} had not reached memory.", at.file(), at.line())
            }
            None => writeln!(f, "."),
        }
    }
}
