//! One finding: what may be the matter, and where.

use std::fmt;
use std::ops::Range;

use ringfence_persist::policy::Prices;

use super::advice::Scope;
use crate::event::{At, Source};

/// Bytes that Optane's media read and write at once: a write of a part costs as much as one of the
/// whole, or more (the "XPLine" of Yang et al., An Empirical Guide to the Behavior and Use of
/// Scalable Persistent Memory, FAST 2020).
pub const BLOCK: usize = 256;

/// What may be the matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Stored, and not flushed until the end. What was stored over since is the later store's
    /// business. Under eADR ordinary stores become durable by themselves.
    NeverDurable,
    /// Stored, and not flushed when it was acknowledged.
    AcknowledgedTooEarly,
    /// Flushed, or stored by non-temporal stores, and not fenced before an acknowledgement or the
    /// end; or fenced by something that does not complete this flush on this processor. Under eADR
    /// also an ordinary store that no fence follows before the acknowledgement: it may be in the
    /// store buffer still.
    MissingFence,
    /// Flushed again though nothing was stored to the line since, without a fence in between.
    RedundantFlush,
    /// A flush of a line that nothing was stored to since it was last durable, or that only
    /// non-temporal stores wrote.
    CleanFlush,
    /// One line flushed twice between two fences, with a store in between.
    FlushedTwice,
    /// A flush where caches are in the persistence domain.
    FlushUnderEadr,
    /// An `sfence` with nothing to wait for. Not under eADR, where code that runs on all platforms
    /// keeps its fences, and never `mfence` and locked instructions, which are there for other
    /// reasons too.
    RedundantFence,
    /// At least [`BLOCK`] bytes in one piece between two fences that begin or end inside a block.
    PartialBlock,
    /// Recovery read bytes that were stored with those of a checksum, and that the checksum does
    /// not cover.
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
    pub at: At,
    /// How often it happened there. A flush counts once for each line, a store of many words once.
    pub count: usize,
    /// The bytes of memory concerned, of one occurrence: what was stored, or the line that was
    /// flushed. Empty for a fence.
    pub bytes: Range<usize>,
    /// The other end of it: the acknowledgement that comes too early, the flush that made this one
    /// redundant, the fence before a fence.
    pub other: Option<At>,
    /// What the instruction costs each time, in ns, where [`crate::Check::prices`] were given: that
    /// of a needless flush or fence. Under eADR the flush is taken as one of a line that was stored
    /// to.
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
    // There is a fence, but it does not complete a `clflush` here; `mfence` does, and perhaps
    // `sfence`.
    WrongFence { fence: At, sfence_would_do: bool },
    // In the store buffer, under eADR.
    Buffered,
}

/// What a finding asks to change in the program, for the explorer to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proposal {
    /// A flush of what is stored here.
    Flush,
    /// A fence after the flush here.
    FenceAfterFlush,
    /// A fence after the non-temporal store here.
    FenceAfterStream,
    /// One of these flushes less.
    FlushLess([Option<At>; 2]),
    /// One of these fences less.
    FenceLess([Option<At>; 2]),
    /// Nothing that one instruction more or less would fix.
    Nothing,
}

impl Proposal {
    /// Whether it is to make stores durable.
    pub(crate) fn is_for_durability(self) -> bool {
        match self {
            Proposal::Flush | Proposal::FenceAfterFlush | Proposal::FenceAfterStream => true,
            Proposal::FlushLess(_) | Proposal::FenceLess(_) | Proposal::Nothing => false,
        }
    }
}

impl Lint {
    pub(crate) fn proposal(&self) -> Proposal {
        match self.rule {
            Rule::NeverDurable => Proposal::Flush,
            Rule::MissingFence if self.why == Why::Streamed => Proposal::FenceAfterStream,
            Rule::MissingFence => Proposal::FenceAfterFlush,
            Rule::RedundantFlush | Rule::FlushedTwice => {
                Proposal::FlushLess([self.other, Some(self.at)])
            }
            Rule::CleanFlush => Proposal::FlushLess([Some(self.at), None]),
            Rule::RedundantFence => Proposal::FenceLess([Some(self.at), self.other]),
            Rule::AcknowledgedTooEarly | Rule::FlushUnderEadr => Proposal::Nothing,
            Rule::PartialBlock | Rule::UncoveredField => Proposal::Nothing,
        }
    }
}

/// Bytes that recovery read beside a checksum that does not cover them.
pub(crate) fn uncovered(at: Source, bytes: Range<usize>) -> Lint {
    Lint {
        rule: Rule::UncoveredField,
        at: At::Source(at),
        count: 1,
        bytes,
        other: None,
        why: Why::Plain,
        ns: None,
        name: None,
    }
}

impl Lint {
    // Nanoseconds of one needless instruction. What is wrong, and not slow, has no price.
    pub(crate) fn price(&mut self, prices: &Prices) {
        self.ns = match self.rule {
            Rule::RedundantFlush | Rule::CleanFlush => prices.clean_flush_ns,
            Rule::FlushedTwice | Rule::FlushUnderEadr => prices.flush_ns,
            Rule::RedundantFence => prices.fence_ns,
            Rule::NeverDurable | Rule::AcknowledgedTooEarly | Rule::MissingFence => None,
            Rule::PartialBlock | Rule::UncoveredField => None,
        };
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Rule::NeverDurable => "never durable",
            Rule::AcknowledgedTooEarly => "acknowledged too early",
            Rule::MissingFence => "missing fence",
            Rule::RedundantFlush => "redundant flush",
            Rule::CleanFlush => "flush of a clean line",
            Rule::FlushedTwice => "flushed twice",
            Rule::FlushUnderEadr => "flush under eADR",
            Rule::RedundantFence => "redundant fence",
            Rule::PartialBlock => "partial block",
            Rule::UncoveredField => "field not covered by the checksum",
        })
    }
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tell(f, &|at| at.to_string(), Scope::Whole)
    }
}

impl Lint {
    /// The sentence of its `Display`, with places by these names, and advice that holds in this
    /// scope.
    ///
    /// # Errors
    /// As of the formatter.
    pub fn tell(
        &self,
        f: &mut dyn fmt::Write,
        name: &dyn Fn(At) -> String,
        scope: Scope,
    ) -> fmt::Result {
        let (start, len) = (self.bytes.start, self.bytes.len());
        let Stored { bytes, are, them } = self.stored();
        let other = self.other.map(name);
        let other = other.as_deref().unwrap_or("the beginning");
        let durable = |instructions: &str| scope.durable(them, instructions);
        let unless = scope.unless_dropped();
        write!(f, "{}: {}: ", name(self.at), self.rule)?;
        match self.rule {
            Rule::NeverDurable => write!(
                f,
                "{bytes} {are} never flushed, so that a crash may lose {them}: {}",
                durable(&format!("flush {them}, then fence"))
            ),
            Rule::AcknowledgedTooEarly => write!(
                f,
                "{bytes} {are} not flushed when {other} acknowledges {them}: {}",
                durable(&format!("flush {them} and fence before that"))
            ),
            Rule::MissingFence => self.tell_missing_fence(f, name, scope),
            Rule::RedundantFlush => write!(
                f,
                "the line at {start} is flushed again though nothing was stored to it since the \
                 flush at {other}: leave one of the two out{unless}"
            ),
            Rule::CleanFlush if self.why == Why::Streamed => write!(
                f,
                "the line at {start} is flushed though only non-temporal stores wrote it, which \
                 want a fence alone: leave the flush out{unless}"
            ),
            Rule::CleanFlush => write!(
                f,
                "the line at {start} is flushed though nothing was stored to it since it was last \
                 durable: leave the flush out{unless}, or flush what was meant"
            ),
            Rule::FlushedTwice => write!(
                f,
                "the line at {start} is flushed at {other}, stored to, and flushed again without a \
                 fence in between: store everything first and flush once"
            ),
            Rule::FlushUnderEadr => write!(
                f,
                "the line at {start} is flushed though caches are in the persistence domain \
                 (eADR): leave flushes out there{unless}, but keep the fences"
            ),
            Rule::RedundantFence => tell_redundant_fence(f, other, scope),
            Rule::PartialBlock => write!(
                f,
                "the {len} bytes stored from {start} on begin or end inside a block of {BLOCK} \
                 bytes, which Optane's media write as a whole: align both ends to {BLOCK}"
            ),
            Rule::UncoveredField => write!(
                f,
                "{bytes} {are} read by recovery, and stored with those of a checksum that does not \
                 cover {them}: let it cover {them}"
            ),
        }?;
        self.tell_how_often(f)
    }

    fn stored(&self) -> Stored {
        let (start, len) = (self.bytes.start, self.bytes.len());
        let named = self.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        match len {
            1 => Stored {
                bytes: format!("the byte stored at {start}{named}"),
                are: "is",
                them: "it",
            },
            _ => Stored {
                bytes: format!("the {len} bytes stored at {start}{named}"),
                are: "are",
                them: "them",
            },
        }
    }

    fn tell_missing_fence(
        &self,
        f: &mut dyn fmt::Write,
        name: &dyn Fn(At) -> String,
        scope: Scope,
    ) -> fmt::Result {
        let Stored { bytes, are, them } = self.stored();
        let before = match self.other.map(name) {
            Some(other) => format!("before the acknowledgement at {other}"),
            None => "until the end".into(),
        };
        let remedy = scope.durable(
            them,
            match self.why {
                Why::WrongFence { sfence_would_do: true, .. } => "make it an sfence or mfence",
                Why::WrongFence { sfence_would_do: false, .. } => "make it an mfence",
                Why::Buffered | Why::Streamed | Why::Plain => "put an sfence there",
            },
        );
        match self.why {
            Why::Buffered => write!(
                f,
                "{bytes} may be in the store buffer still, with no fence {before}: {remedy}"
            ),
            Why::Streamed => write!(
                f,
                "{bytes} {are} written by non-temporal stores, with no fence {before}: {remedy}"
            ),
            Why::WrongFence { fence, .. } => write!(
                f,
                "{bytes} {are} flushed by clflush, which the fence at {} does not wait for on this \
                 processor, with no other {before}: {remedy}",
                name(fence)
            ),
            Why::Plain => {
                write!(f, "{bytes} {are} flushed, but there is no fence {before}: {remedy}")
            }
        }
    }

    fn tell_how_often(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        match (self.count, self.ns) {
            (1, None) => Ok(()),
            (count, None) => write!(f, " ({count} times)"),
            (1, Some(ns)) => write!(f, " (about {ns} ns on this machine)"),
            (count, Some(ns)) => write!(f, " ({count} times, about {ns} ns each on this machine)"),
        }
    }
}

// The bytes concerned, and the words that agree with their number.
struct Stored {
    bytes: String,
    are: &'static str,
    them: &'static str,
}

fn tell_redundant_fence(f: &mut dyn fmt::Write, since: &str, scope: Scope) -> fmt::Result {
    match scope {
        Scope::Whole => write!(
            f,
            "this sfence waits for nothing, with no flush and no non-temporal store since {since}: \
             leave it out"
        ),
        Scope::Files { .. } => write!(
            f,
            "this sfence waits for nothing in the recorded files, with no flush and no \
             non-temporal store since {since}: they do not need it; leave it out only if it \
             completes nothing else, such as non-temporal stores to other memory"
        ),
    }
}
