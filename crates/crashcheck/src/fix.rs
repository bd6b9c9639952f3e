//! What would mend a violation: one more flush, fence, or both, right behind one operation of the source.

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fix {
    pub(crate) edit: Edit,
    // Whether it must be a full one, which clflush waits for on some processors.
    pub(crate) full: bool,
}

impl Fix {
    /// The place in the source behind which the instructions are missing.
    pub fn after(&self) -> &'static std::panic::Location<'static> {
        self.edit.at
    }
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { edit: Edit { op, at, flush, fence, .. }, full } = self;
        let fence_name = if *full { "an mfence" } else { "a fence" };
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
        write!(f, "put {what} right after the {name} at {}:{}", at.file(), at.line())
    }
}
