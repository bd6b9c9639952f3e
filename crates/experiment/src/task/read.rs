//! A reader's parameters: random reads at intervals, each timed.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use ringfence_machine::features::Features;
use ringfence_machine::units::Bytes;
use ringfence_persist::Flush;
use serde::{Deserialize, Serialize};

use super::axes::axes;
use super::instruction::has_flush;
use super::parameters::{Parameters, at_least};
use super::word::serde_as_word;
use crate::Reason;
use crate::units::{Span, serde_as_text};

/// Reads all of a region in random order, sleeps, and reads it again; each read is timed alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Read {
    /// Bytes read through.
    pub size: Bytes,
    /// Bytes of one read: 16, 32 or 64, never across two lines. Every piece of this size is read
    /// once a round, so with 32 bytes every line is read twice, and the second time it is in a
    /// cache. With 64 bytes the share of misses is that of the lines.
    pub access: Bytes,
    /// The sleep between two rounds, and before the first one after a pause. It is not work.
    pub interval: Span,
    /// What is read.
    pub memory: Memory,
    /// Whether ordinary memory is locked against being swapped out or moved (`mlock`).
    pub mlock: bool,
    /// Whether the region is read through once, untimed, each time the task resumes after a pause.
    pub preload: bool,
    /// Whether every line is stored to before each sleep.
    pub dirty: bool,
    /// The instruction that is executed on every line before each sleep, the stores before it, and
    /// fenced.
    pub flush: FlushBetween,
}

impl Default for Read {
    fn default() -> Self {
        Self {
            size: Bytes::kib(256),
            access: Bytes(32),
            interval: Span::ms(2000),
            memory: Memory::Malloc,
            mlock: true,
            preload: false,
            dirty: false,
            flush: FlushBetween(None),
        }
    }
}

// A read is reckoned at so much when asking whether a window holds a round: several times what a
// read of remote memory takes, the clock included.
const READ_NS: u64 = 1000;

impl Read {
    /// Reads in one round.
    pub fn pieces(&self) -> u64 {
        self.size.0 / self.access.0
    }
}

/// What a reader reads.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub enum Memory {
    /// Anonymous memory of the process.
    Malloc,
    /// A character device that the kernel made for a pseudo-locked region (kernel documentation,
    /// x86/resctrl, "Cache Pseudo-Locking").
    Locked(PathBuf),
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Memory::Malloc => f.write_str("malloc"),
            Memory::Locked(path) => write!(f, "locked:{}", path.display()),
        }
    }
}

/// Why a text names no memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not memory to read: use malloc or locked:/dev/pseudo_lock/NAME")]
pub struct ParseMemoryError(String);

impl FromStr for Memory {
    type Err = ParseMemoryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None if text == "malloc" => Ok(Memory::Malloc),
            Some(("locked", path)) if path.starts_with('/') => Ok(Memory::Locked(path.into())),
            _ => Err(ParseMemoryError(text.into())),
        }
    }
}

serde_as_text!(Memory);

/// The flush instruction that a reader executes between two rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushBetween(pub Option<Flush>);

impl FlushBetween {
    /// All of them: none, then each instruction.
    pub const ALL: [FlushBetween; Flush::ALL.len() + 1] = {
        let mut all = [FlushBetween(None); Flush::ALL.len() + 1];
        let mut index = 0;
        while index < Flush::ALL.len() {
            all[index + 1] = FlushBetween(Some(Flush::ALL[index]));
            index += 1;
        }
        all
    };

    /// Its word in files and on command lines.
    pub const fn name(self) -> &'static str {
        match self.0 {
            None => "none",
            Some(flush) => flush.name(),
        }
    }
}

serde_as_word!(FlushBetween);

axes!(Read: Reads, "read" {
    size: Bytes,
    access: Bytes,
    interval: Span,
    memory: Memory,
    mlock: bool,
    preload: bool,
    dirty: bool,
    flush: FlushBetween,
});

impl Parameters for Read {
    fn unit(&self) -> &'static str {
        "reads"
    }

    fn not_simulated(&self) -> Option<Reason> {
        None
    }

    fn size(&self) -> Option<Bytes> {
        Some(self.size)
    }

    fn takes_ordinary_memory(&self) -> bool {
        self.memory == Memory::Malloc
    }

    fn counts_latencies(&self) -> bool {
        true
    }

    fn times_loads(&self) -> bool {
        true
    }

    fn least_window(&self) -> Option<Span> {
        let round_ns = self.pieces().saturating_mul(READ_NS);
        let ns = self.interval.ns().saturating_add(round_ns);
        // In whole milliseconds, since a user has to write it down.
        Some(Span::ms(ns.div_ceil(1_000_000)))
    }

    fn check(&self) -> Result<(), String> {
        at_least("size", self.size, Bytes::kib(4))?;
        if !self.size.0.is_multiple_of(4096) {
            return Err(format!("size = {} must be a multiple of 4KiB", self.size));
        }
        if ![16, 32, 64].contains(&self.access.0) {
            return Err(format!("access = {} must be 16B, 32B or 64B", self.access));
        }
        if self.interval > Span::ms(60_000) {
            return Err(format!("interval = {} can be 1min at most", self.interval));
        }
        if !self.mlock && self.memory != Memory::Malloc {
            return Err(format!(
                "mlock = false works with memory = \"malloc\" only, not with {}",
                self.memory
            ));
        }
        Ok(())
    }

    fn missing(&self, features: Option<&Features>) -> Option<Reason> {
        let features = features?;
        let flush = self.flush.0.filter(|flush| !has_flush(features, *flush))?;
        Some(format!("this processor has no {flush}").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_readers_are_refused_with_the_remedy() {
        let locked = Memory::Locked("/dev/pseudo_lock/a".into());
        let cases = [
            (Read { size: Bytes(64), ..Read::default() }, "at least 4KiB"),
            (Read { size: Bytes(4096 + 64), ..Read::default() }, "multiple of 4KiB"),
            (Read { access: Bytes(8), ..Read::default() }, "16B, 32B or 64B"),
            (Read { access: Bytes(0), ..Read::default() }, "16B, 32B or 64B"),
            (Read { interval: Span::ms(60_001), ..Read::default() }, "1min at most"),
            (
                Read { mlock: false, memory: locked.clone(), ..Read::default() },
                "with memory = \"malloc\" only",
            ),
        ];
        for (read, part) in cases {
            let error = read.check().expect_err("must be refused");
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        }
        assert_eq!(Read::default().check(), Ok(()));
        assert_eq!(Read { memory: locked, ..Read::default() }.check(), Ok(()));
    }

    #[test]
    fn a_window_has_room_for_a_sleep_and_a_round() {
        assert_eq!(Read::default().pieces(), 8192);
        assert_eq!(Read::default().least_window(), Some(Span::ms(2009)));
        let short = Read { size: Bytes::kib(4), interval: Span::ms(0), ..Read::default() };
        assert_eq!(short.least_window(), Some(Span::ms(1)));
    }

    #[test]
    fn memories_read_what_they_print() {
        for text in ["malloc", "locked:/dev/pseudo_lock/my region"] {
            assert_eq!(text.parse::<Memory>().unwrap().to_string(), text);
        }
        for text in
            ["", "Malloc", "locked", "locked:", "locked:newlock", "/dev/pseudo_lock/a", "malloc:"]
        {
            assert!(text.parse::<Memory>().is_err(), "{text}");
        }
    }
}
