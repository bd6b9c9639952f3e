//! One finding: what may be the matter, and where.

use std::ops::Range;
use std::panic::Location;

/// Bytes that Optane's media read and write at once: a write of a part costs as much as one of the whole, or
/// more (the "XPLine" of Yang et al., An Empirical Guide to the Behavior and Use of Scalable Persistent Memory,
/// FAST 2020).
pub const BLOCK: usize = 256;

/// What may be the matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Stored, and not flushed until the end. What was stored over since is the later store's business. Under
    /// eADR ordinary stores become durable by themselves.
    NeverDurable,
    /// Stored, and not flushed when it was acknowledged.
    AcknowledgedTooEarly,
    /// Flushed, or stored by non-temporal stores, and not fenced before an acknowledgement or the end; or fenced
    /// by something that does not complete this flush on this processor. Under eADR also an ordinary store that
    /// no fence follows before the acknowledgement: it may be in the store buffer still.
    MissingFence,
    /// Flushed again though nothing was stored to the line since, without a fence in between.
    RedundantFlush,
    /// A flush of a line that nothing was stored to since it was last durable, or that only non-temporal stores
    /// wrote.
    CleanFlush,
    /// One line flushed twice between two fences, with a store in between.
    FlushedTwice,
    /// A flush where caches are in the persistence domain.
    FlushUnderEadr,
    /// An `sfence` with nothing to wait for. Not under eADR, where code that runs on all platforms keeps its
    /// fences, and never `mfence` and locked instructions, which are there for other reasons too.
    RedundantFence,
    /// At least [`BLOCK`] bytes in one piece between two fences that begin or end inside a block.
    PartialBlock,
    /// Recovery read bytes that were stored with those of a checksum, and that the checksum does not cover.
    UncoveredField,
}

/// One finding, for all its occurrences at one place of the source.
///
/// Its `Display` is one sentence: where, what is the matter, what to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Lint {
    /// What is the matter.
    pub rule: Rule,
    /// The instruction concerned.
    pub at: &'static Location<'static>,
    /// How often it happened there. A flush counts once for each line, a store of many words once.
    pub count: usize,
    /// The bytes of memory concerned, of one occurrence: what was stored, or the line that was flushed. Empty for
    /// a fence.
    pub bytes: Range<usize>,
    /// The other end of it: the acknowledgement that comes too early, the flush that made this one redundant,
    /// the fence before a fence.
    pub other: Option<&'static Location<'static>>,
    /// What the instruction costs each time, in ns, where [`crate::Check::prices`] were given: that of a needless
    /// flush or fence. Under eADR the flush is taken as one of a line that was stored to.
    pub ns: Option<f64>,
    /// The name of the first of the bytes, where [`crate::Check::name`] gave one.
    pub name: Option<String>,
    pub(super) why: Why,
}

// What tells findings of one rule apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Plain,
    // Of non-temporal stores.
    Streamed,
    // There is a fence, but it does not complete a `clflush` here; `mfence` does, and perhaps `sfence`.
    WrongFence { fence: &'static Location<'static>, sfence_would_do: bool },
    // In the store buffer, under eADR.
    Buffered,
}

impl Lint {
    pub(crate) fn is_streamed(&self) -> bool {
        self.why == Why::Streamed
    }
}

/// Bytes that recovery read beside a checksum that does not cover them.
pub(crate) fn uncovered(at: &'static Location<'static>, bytes: Range<usize>) -> Lint {
    Lint {
        rule: Rule::UncoveredField,
        at,
        count: 1,
        bytes,
        other: None,
        why: Why::Plain,
        ns: None,
        name: None,
    }
}
