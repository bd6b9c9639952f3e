//! What would mend a violation: one more flush, fence, or both, right behind an operation of the source; rarely
//! behind several.

use crate::event::{At, Kind};
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

/// What is done in addition, everywhere this operation is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edit {
    pub op: Op,
    pub at: At,
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
}

impl Profile {
    /// The fence that every flush waits for.
    pub(crate) fn fence(self) -> Kind {
        if self == Profile::OldAmd { Kind::Mfence } else { Kind::Sfence }
    }
}

/// What closes a violation, tried: with it the whole search finds none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fix {
    // The first is there.
    pub(crate) edits: [Option<Edit>; PLACES],
    // Whether fences must be full ones, which clflush waits for on some processors.
    pub(crate) full: bool,
    pub(crate) in_recovery: Option<InRecovery>,
}

/// Instructions that a fix adds at most, as places in the source.
pub(crate) const PLACES: usize = 4;

/// Where a change of recovery would do as well: nothing that was lost had been acknowledged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct InRecovery {
    /// How many fences the fix adds to one run of the program, and how often that acknowledges something.
    pub fences: usize,
    pub acknowledged: usize,
    /// Where recovery read what was not there.
    pub read: Option<At>,
}

impl Fix {
    /// The place in the source behind which instructions are missing; the first, where there are several.
    pub fn after(&self) -> &'static std::panic::Location<'static> {
        self.places().next().expect("the first is there")
    }

    /// All places in the source behind which instructions are missing.
    pub fn places(&self) -> impl Iterator<Item = &'static std::panic::Location<'static>> {
        self.edits.into_iter().flatten().map(|edit| edit.at)
    }

    /// Whether a change of recovery may be the smaller one: the fix adds more fences than there are
    /// acknowledgements, and nothing that was lost had been acknowledged.
    pub fn or_in_recovery(&self) -> bool {
        self.in_recovery.is_some()
    }
}

impl Edit {
    fn tell(&self, full: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, at, flush, fence, .. } = self;
        let fence_name = if full { "an mfence" } else { "a fence" };
        let what = match (flush, fence) {
            (true, true) => format!("a flush of what it stored, and then {fence_name},"),
            (true, false) => "a flush of what it stored".into(),
            _ => fence_name.into(),
        };
        let name = match op {
            Op::Store => "store",
            Op::Stream => "non-temporal store",
            Op::Flush => "flush",
            Op::Fence => "fence",
        };
        write!(f, "{what} right after the {name} at {}:{}", at.file(), at.line())
    }
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, edit) in self.edits.iter().flatten().enumerate() {
            f.write_str(if number == 0 { "put " } else { "; and " })?;
            edit.tell(self.full, f)?;
        }
        Ok(())
    }
}

/// What else would do; nothing, or a line.
impl fmt::Display for InRecovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fences, acknowledged, read } = self;
        let times = |count: usize| if count == 1 { "once".into() } else { format!("{count} times") };
        write!(
            f,
            "Or change recovery: the fix adds a fence {} where the program acknowledges {}, and nothing that was \
             lost had been acknowledged. A recovery that takes only what it can verify, and nothing behind the \
             first that it cannot, needs no more fences",
            times(*fences),
            if *acknowledged == 0 { "nothing".into() } else { times(*acknowledged) },
        )?;
        match read {
            Some(at) => writeln!(f, "; what it read at {}:{} had not reached memory.", at.file(), at.line()),
            None => writeln!(f, "."),
        }
    }
}
