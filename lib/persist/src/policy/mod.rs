//! The policy file: how to make stores durable on one machine and one target, as measured there.
//!
//! A few lines of `key = value`, `#` begins a comment; every TOML reader reads it too:
//!
//! ```text
//! # which processor this was measured on, and where
//! schema = 1
//! processor = "GenuineIntel 6-143-8"
//! target = "dram"
//! # stores shorter than nt_threshold bytes: copy, then this instruction on each line, then a fence
//! instruction = "clwb"
//! # from so many bytes on: non-temporal stores, then a fence; absent: never
//! nt_threshold = 1024
//! # blocks that one fence is worth waiting for, where the application allows it
//! batch = 4
//! # at most so many bytes a second, for the neighbours' sake; absent: no limit
//! pace = 524288000
//! # what one instruction costs, ns: flushing a line that was stored to, flushing one that was not,
//! # and a fence with nothing to wait for; each may be absent
//! flush_ns = 31.5
//! clean_flush_ns = 12.0
//! fence_ns = 4.5
//! ```
//!
//! Where the target is a folder, what concerns files follows in a table of its own
//! ([`FilePolicy`]); the keys before it are then this processor's defaults:
//!
//! ```text
//! [file]
//! # fsync, fdatasync, o-dsync, rwf-dsync, msync or uring; append, keep-size, allocated or written
//! sync = "fdatasync"
//! layout = "written"
//! # records that one sync is worth waiting for, where the application allows it
//! batch = 16
//! # msync, fdatasync or fsync, for stores to a mapping; absent: as follows from sync
//! mapped = "msync"
//! ```
//!
//! ```
//! use ringfence_persist::{Flush, policy::{Fingerprint, Policy, Method}};
//!
//! let policy = Policy {
//!     processor: Fingerprint::here(),
//!     target: "dram".into(),
//!     instruction: Flush::Clwb,
//!     nt_threshold: Some(1024),
//!     batch: 4,
//!     pace: None,
//!     prices: Default::default(),
//!     file: None,
//! };
//! let read = Policy::parse(&policy.to_string()).unwrap();
//! assert_eq!(read, policy);
//! assert_eq!(read.method(64), Method::Flush(Flush::Clwb));
//! assert_eq!(read.method(4096), Method::NonTemporal);
//! ```

mod file;
mod values;

use std::fmt;

pub use file::{FileLayout, FilePolicy, FileSync, ParseWordError, RegionSync};

use crate::Flush;
use values::{batch, nanoseconds, number, once, string, word};

/// The version of the format.
pub const SCHEMA: u32 = 1;

/// How to make stores durable.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// The processor that it was measured on.
    pub processor: Fingerprint,
    /// The target that it was measured on, such as `dram` or `dax:/mnt/pmem/file`.
    pub target: String,
    /// The instruction for stores below the threshold.
    pub instruction: Flush,
    /// Bytes from which on non-temporal stores are cheaper; `None`: they never were.
    pub nt_threshold: Option<u64>,
    /// Blocks between two fences from which on more bring little; 1 where a fence costs nothing to
    /// speak of.
    pub batch: u32,
    /// At most so many bytes a second; `None`: no limit.
    pub pace: Option<u64>,
    /// What single instructions cost.
    pub prices: Prices,
    /// How commits to files are made durable, where the target is a folder.
    pub file: Option<FilePolicy>,
}

/// What single instructions cost, in nanoseconds, each finite and above 0; `None`: not known. They
/// were measured in runs of thousands of the same instruction: a single one may be hidden behind
/// other work.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Prices {
    /// A flush, by the policy's instruction, of a line that was stored to since it was last written
    /// back.
    pub flush_ns: Option<f64>,
    /// A flush, by the policy's instruction, of a line that was flushed and fenced just before.
    pub clean_flush_ns: Option<f64>,
    /// An `sfence` with neither a flush nor a store to wait for.
    pub fence_ns: Option<f64>,
}

/// How a store of some length is made durable; a fence follows in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Ordinary stores, then this instruction on each line.
    Flush(Flush),
    /// Non-temporal stores.
    NonTemporal,
}

/// A processor's make: vendor, display family, display model and stepping (CPUID leaves 0 and 1;
/// the display values as in the SDM vol. 2A, CPUID, and AMD's APM vol. 3, appendix E.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint(String);

/// Why a text is not a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A line that cannot be read.
    #[error("line {line}: {problem}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is the matter, and what is expected.
        problem: String,
    },
    /// A key that must be there.
    #[error("'{0}' is missing: let 'ringfence tune' write the file again")]
    Missing(&'static str),
    /// Another version of the format.
    #[error("schema {0} is not known: this library reads {SCHEMA}")]
    Schema(u64),
}

impl Policy {
    /// How a store of `bytes` is made durable.
    pub fn method(&self, bytes: u64) -> Method {
        match self.nt_threshold {
            Some(threshold) if bytes >= threshold => Method::NonTemporal,
            _ => Method::Flush(self.instruction),
        }
    }

    /// Whether it was measured on a processor like this one.
    pub fn is_for_here(&self) -> bool {
        self.processor == Fingerprint::here()
    }

    /// Reads a policy file's text. Keys of later versions that this library does not know are
    /// refused, since they may change what the others mean.
    ///
    /// # Errors
    /// [`PolicyError`]: a line that is not a `key = value`, an unknown or repeated key, a value out
    /// of range, a key that is missing.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let mut fields = Fields::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            fields.line(line).map_err(|problem| PolicyError::Line { line: number + 1, problem })?;
        }
        match fields.schema.ok_or(PolicyError::Missing("schema"))? {
            version if version == u64::from(SCHEMA) => {}
            other => return Err(PolicyError::Schema(other)),
        }
        Ok(Self {
            processor: Fingerprint(fields.processor.ok_or(PolicyError::Missing("processor"))?),
            target: fields.target.ok_or(PolicyError::Missing("target"))?,
            instruction: fields.instruction.ok_or(PolicyError::Missing("instruction"))?,
            nt_threshold: fields.nt_threshold,
            batch: fields.batch.ok_or(PolicyError::Missing("batch"))?,
            pace: fields.pace,
            prices: fields.prices,
            file: fields.file.map(file::Fields::done).transpose().map_err(PolicyError::Missing)?,
        })
    }
}

#[derive(Default)]
struct Fields {
    schema: Option<u64>,
    processor: Option<String>,
    target: Option<String>,
    instruction: Option<Flush>,
    nt_threshold: Option<u64>,
    batch: Option<u32>,
    pace: Option<u64>,
    prices: Prices,
    // From its heading on, all keys are the table's.
    file: Option<file::Fields>,
}

impl Fields {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if line.starts_with('[') {
            return match line {
                "[file]" if self.file.is_none() => {
                    self.file = Some(file::Fields::default());
                    Ok(())
                }
                "[file]" => Err("[file] is there twice".into()),
                other => Err(format!("'{other}' is not a table of schema {SCHEMA}")),
            };
        }
        let (key, value) =
            line.split_once('=').ok_or_else(|| format!("'{line}' is not key = value"))?;
        let (key, value) = (key.trim(), value.trim());
        match &mut self.file {
            Some(file) => file.read(key, value),
            None => self.read(key, value),
        }
    }

    fn read(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "schema" => once(key, &mut self.schema, number(value)?),
            "processor" => once(key, &mut self.processor, string(value)?),
            "target" => once(key, &mut self.target, string(value)?),
            "instruction" => once(key, &mut self.instruction, word(value)?),
            "nt_threshold" => once(key, &mut self.nt_threshold, number(value)?),
            "batch" => once(key, &mut self.batch, batch(value)?),
            "pace" => match number(value)? {
                0 => Err("pace = 0 would never write: leave it out for no limit".into()),
                pace => once(key, &mut self.pace, pace),
            },
            "flush_ns" => once(key, &mut self.prices.flush_ns, nanoseconds(key, value)?),
            "clean_flush_ns" => {
                once(key, &mut self.prices.clean_flush_ns, nanoseconds(key, value)?)
            }
            "fence_ns" => once(key, &mut self.prices.fence_ns, nanoseconds(key, value)?),
            other => Err(format!("'{other}' is not a key of schema {SCHEMA}")),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A line break would end the line; no target has one.
        let quoted = |text: &str| {
            format!(
                "\"{}\"",
                text.replace('\\', "\\\\").replace('"', "\\\"").replace(char::is_control, "?")
            )
        };
        writeln!(f, "schema = {SCHEMA}")?;
        writeln!(f, "processor = {}", quoted(&self.processor.0))?;
        writeln!(f, "target = {}", quoted(&self.target))?;
        if self.file.is_some() {
            writeln!(
                f,
                "# of stores to memory nothing was measured: the processor's defaults, up to [file]"
            )?;
        }
        writeln!(
            f,
            "# stores shorter than nt_threshold: this instruction on each line, then a fence"
        )?;
        writeln!(f, "instruction = \"{}\"", self.instruction)?;
        if let Some(threshold) = self.nt_threshold {
            writeln!(f, "# from so many bytes on: non-temporal stores, then a fence")?;
            writeln!(f, "nt_threshold = {threshold}")?;
        }
        writeln!(
            f,
            "# blocks that one fence is worth waiting for, where the application allows it"
        )?;
        writeln!(f, "batch = {}", self.batch)?;
        if let Some(pace) = self.pace {
            writeln!(f, "# bytes a second at most, for the neighbours' sake")?;
            writeln!(f, "pace = {pace}")?;
        }
        let Prices { flush_ns, clean_flush_ns, fence_ns } = self.prices;
        let prices = [
            ("flushing a line that was stored to", "flush_ns", flush_ns),
            ("flushing a line that was not", "clean_flush_ns", clean_flush_ns),
            ("an sfence with nothing to wait for", "fence_ns", fence_ns),
        ];
        for (what, key, price) in prices {
            if let Some(price) = price {
                // With a point or an exponent: TOML's floats have one.
                writeln!(f, "# {what}, ns\n{key} = {price:?}")?;
            }
        }
        // A table is the last: what follows its heading belongs to it.
        self.file.map_or(Ok(()), |file| write!(f, "{file}"))
    }
}

impl Fingerprint {
    /// That of the processor this runs on.
    pub fn here() -> Self {
        let (first, second) = (crate::isa::cpuid(0, 0), crate::isa::cpuid(1, 0));
        let bytes: Vec<u8> =
            [first.ebx, first.edx, first.ecx].into_iter().flat_map(u32::to_le_bytes).collect();
        let vendor: String =
            String::from_utf8_lossy(&bytes).chars().filter(|c| c.is_ascii_alphanumeric()).collect();
        let (family, model, stepping) = version(second.eax);
        Self(format!("{vendor} {family}-{model}-{stepping}"))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

// Display family, display model, stepping from EAX of leaf 1.
fn version(eax: u32) -> (u32, u32, u32) {
    let field = |shift: u32, bits: u32| (eax >> shift) & ((1 << bits) - 1);
    let family = if field(8, 4) == 15 { 15 + field(20, 8) } else { field(8, 4) };
    let extended = matches!(field(8, 4), 6 | 15);
    let model = if extended { (field(16, 4) << 4) + field(4, 4) } else { field(4, 4) };
    (family, model, field(0, 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        Policy {
            processor: Fingerprint("GenuineIntel 6-143-8".into()),
            target: "file:/a \"b\"\\c".into(),
            instruction: Flush::Clflushopt,
            nt_threshold: None,
            batch: 1,
            pace: Some(1 << 30),
            prices: Prices {
                flush_ns: Some(31.5),
                clean_flush_ns: Some(12.0),
                fence_ns: Some(1e-7),
            },
            file: None,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let some = Prices { clean_flush_ns: None, ..policy().prices };
        let file = FilePolicy {
            sync: FileSync::RwfDsync,
            layout: FileLayout::KeepSize,
            batch: 64,
            mapped: Some(RegionSync::Fdatasync),
        };
        let all = [
            policy(),
            Policy { file: Some(file), ..policy() },
            Policy {
                file: Some(FilePolicy { mapped: None, ..file }),
                prices: Prices::default(),
                ..policy()
            },
            Policy { nt_threshold: Some(256), pace: None, prices: Prices::default(), ..policy() },
            Policy { prices: some, ..policy() },
        ];
        for policy in all {
            assert_eq!(Policy::parse(&policy.to_string()), Ok(policy));
        }
    }

    #[test]
    fn display_family_and_model_are_those_of_the_manuals() {
        // Cascade Lake 06_55H stepping 7, Sapphire Rapids 06_8FH stepping 8, Zen 5 family 1AH.
        assert_eq!(version(0x0005_0657), (6, 0x55, 7));
        assert_eq!(version(0x0008_06f8), (6, 0x8f, 8));
        assert_eq!(version(0x00b4_0f40), (0x1a, 0x44, 0));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let text = policy().to_string();
        let cases = [
            (text.replace("schema = 1", "schema = 2"), "schema 2 is not known"),
            (text.replace("schema = 1\n", ""), "'schema' is missing"),
            (text.replace("\"clflushopt\"", "\"nt\""), "none of clflush"),
            (text.replace("batch = 1", "batch = 0"), "at least 1"),
            (text.replace("batch = 1", "batch = 1\nbatch = 2"), "twice"),
            (text.replace("pace = 1073741824", "pace = 0"), "never write"),
            (text.replace("pace = 1073741824", "pace = fast"), "not a whole number"),
            (text.replace("batch = 1", "batch"), "is not key = value"),
            (text.replace("clean_flush_ns = 12.0", "clean_flush_ns = 0"), "not a price"),
            (text.replace("clean_flush_ns = 12.0", "clean_flush_ns = inf"), "not a price"),
            (text.replace("clean_flush_ns = 12.0", "clean_flush_ns = NaN"), "not a price"),
            (text.replace("clean_flush_ns = 12.0", "clean_flush_ns = cheap"), "not a number"),
            (text.replace("clean_flush_ns", "flush_ns"), "twice"),
            (text.replace("batch = 1", "colour = 1"), "not a key of schema 1"),
            (text.replace("target = \"", "target = "), "not a text in quotes"),
        ];
        let table = "[file]\nsync = \"fsync\"\nlayout = \"written\"\nbatch = 4\n";
        let of_files = [
            (table.replace("layout = \"written\"\n", ""), "'file.layout' is missing"),
            (table.replace("\"fsync\"", "\"none\""), "'none' is none of fsync"),
            (table.replace("\"written\"", "\"new\""), "'new' is none of append"),
            (table.replace("batch = 4", "batch = 0"), "at least 1"),
            (table.replace("batch = 4", "batch = 4\nsync = \"msync\""), "'sync' is there twice"),
            (table.replace("batch = 4", "batch = 4\npace = 9"), "'pace' is not a key of [file]"),
            (
                table.replace("batch = 4", "batch = 4\nmapped = \"uring\""),
                "'uring' is none of msync",
            ),
            (table.repeat(2), "[file] is there twice"),
            (table.replace("[file]", "[files]"), "'[files]' is not a table"),
        ];
        let of_files = of_files.map(|(table, part)| (format!("{text}{table}"), part));
        for (text, part) in cases.into_iter().chain(of_files) {
            let error = Policy::parse(&text).expect_err(part).to_string();
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}
