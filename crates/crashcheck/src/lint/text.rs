//! A finding in a sentence.

use std::fmt;
use std::panic::Location;

use super::finding::{BLOCK, Lint, Rule, Why};

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

struct Place(&'static Location<'static>);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0.file(), self.0.line())
    }
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, len) = (self.bytes.start, self.bytes.len());
        let named = self.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let (bytes, are, them) = match len {
            1 => (format!("the byte stored at {start}{named}"), "is", "it"),
            _ => (format!("the {len} bytes stored at {start}{named}"), "are", "them"),
        };
        let other = self.other.map(|at| Place(at).to_string());
        let before = match (&other, self.rule) {
            (Some(other), Rule::MissingFence) => format!("before the acknowledgement at {other}"),
            _ => "until the end".into(),
        };
        let other = other.as_deref().unwrap_or("the beginning");
        write!(f, "{}: {}: ", Place(self.at), self.rule)?;
        match (self.rule, self.why) {
            (Rule::NeverDurable, _) => write!(
                f,
                "{bytes} {are} never flushed, so that a crash may lose {them}: flush {them}, then fence"
            ),
            (Rule::AcknowledgedTooEarly, _) => write!(
                f,
                "{bytes} {are} not flushed when {other} acknowledges {them}: flush {them} and fence before that"
            ),
            (Rule::MissingFence, Why::Buffered) => {
                write!(
                    f,
                    "{bytes} may be in the store buffer still, with no fence {before}: put an sfence there"
                )
            }
            (Rule::MissingFence, Why::Streamed) => {
                write!(
                    f,
                    "{bytes} {are} written by non-temporal stores, with no fence {before}: put an sfence there"
                )
            }
            (Rule::MissingFence, Why::WrongFence { fence, sfence_would_do }) => write!(
                f,
                "{bytes} {are} flushed by clflush, which the fence at {} does not wait for on this processor, with no \
                 other {before}: make it an {}",
                Place(fence),
                if sfence_would_do { "sfence or mfence" } else { "mfence" }
            ),
            (Rule::MissingFence, Why::Plain) => {
                write!(f, "{bytes} {are} flushed, but there is no fence {before}: put an sfence there")
            }
            (Rule::RedundantFlush, _) => write!(
                f,
                "the line at {start} is flushed again though nothing was stored to it since the flush at {other}: \
                 leave one of the two out"
            ),
            (Rule::CleanFlush, Why::Streamed) => write!(
                f,
                "the line at {start} is flushed though only non-temporal stores wrote it, which want a fence alone: \
                 leave the flush out"
            ),
            (Rule::CleanFlush, _) => write!(
                f,
                "the line at {start} is flushed though nothing was stored to it since it was last durable: leave \
                 the flush out, or flush what was meant"
            ),
            (Rule::FlushedTwice, _) => write!(
                f,
                "the line at {start} is flushed at {other}, stored to, and flushed again without a fence in between: \
                 store everything first and flush once"
            ),
            (Rule::FlushUnderEadr, _) => write!(
                f,
                "the line at {start} is flushed though caches are in the persistence domain (eADR): leave flushes \
                 out there, but keep the fences"
            ),
            (Rule::RedundantFence, _) => write!(
                f,
                "this sfence waits for nothing, with no flush and no non-temporal store since {other}: leave it out"
            ),
            (Rule::PartialBlock, _) => write!(
                f,
                "the {len} bytes stored from {start} on begin or end inside a block of {BLOCK} bytes, which Optane's \
                 media write as a whole: align both ends to {BLOCK}"
            ),
            (Rule::UncoveredField, _) => write!(
                f,
                "{bytes} {are} read by recovery, and stored with those of a checksum that does not cover {them}: \
                 let it cover {them}"
            ),
        }?;
        match (self.count, self.ns) {
            (1, None) => Ok(()),
            (count, None) => write!(f, " ({count} times)"),
            (1, Some(ns)) => write!(f, " (about {ns} ns on this machine)"),
            (count, Some(ns)) => write!(f, " ({count} times, about {ns} ns each on this machine)"),
        }
    }
}
