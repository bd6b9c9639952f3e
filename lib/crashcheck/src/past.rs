//! What runs did and read that are over: for those that come after them, and for stories.

use std::rc::Rc;

use crate::event::{Event, Source};

/// A run that is over.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    // Of the whole run; shared by all that end it.
    pub events: Rc<[Event]>,
    /// So many of them were done.
    pub len: usize,
    pub marks: Rc<[u64]>,
    pub marked: usize,
    /// Only the process ended, and not the machine.
    pub killed: bool,
}

/// Something that a run read, and where: told in stories.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    pub at: Source,
    /// So many instructions of the run came before it.
    pub events: usize,
    pub what: What,
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    Load(usize, Vec<u8>),
    /// Bytes that were loaded or verified: which, and not how they came out.
    Loads(&'static str, std::ops::Range<usize>),
    /// A checksum of one's own has a name.
    Verify(Option<String>, Vec<std::ops::Range<usize>>, bool),
}

impl Ended {
    pub(crate) fn events(&self) -> &[Event] {
        &self.events[..self.len]
    }

    pub(crate) fn marks(&self) -> &[u64] {
        &self.marks[..self.marked]
    }
}
