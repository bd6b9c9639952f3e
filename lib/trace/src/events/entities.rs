//! What events refer to by number.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A file whose accesses were recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TracedFile {
    /// Its number.
    pub id: u32,
    /// Its path, as nearly as text can give it.
    pub path: String,
    /// Bytes, when its recording began.
    pub size: u64,
    /// What it is stored on; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium: Option<Medium>,
}

/// What a file is stored on, as far as it decides what makes a store to a mapping of it durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "TracedMedium"))]
#[serde(rename_all = "snake_case")]
pub enum Medium {
    /// Through the page cache: `msync` and related calls make stores durable, flushes of lines do
    /// not.
    PageCache,
    /// It is mapped directly (DAX): flushes and fences make stores durable.
    Dax,
    /// The file system is in memory, such as tmpfs: nothing makes stores durable.
    Memory,
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::PageCache => "page cache",
            Self::Dax => "DAX",
            Self::Memory => "memory",
        })
    }
}

/// A thread of the recorded program, or of its children.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Its number.
    pub id: u32,
    /// The process that it belongs to.
    pub process: u32,
    /// Its number in the kernel.
    pub tid: u32,
    /// The name that it had when it was first seen.
    pub name: String,
}

/// A program file or library that contains a site or a caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Its path, as nearly as text can give it.
    pub path: String,
    /// The GNU build ID, in hexadecimal digits; absent where the file has none, or could not be
    /// read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
}

/// Flushes and fences of a program file or library that were not recorded wherever they were
/// executed: they have no function's name or unwind table around them, and stand between bytes that
/// are no code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unseen {
    /// Its path, as nearly as text can give it.
    pub module: String,
    /// Flush instructions.
    pub flushes: u64,
    /// `sfence` and `mfence`.
    pub fences: u64,
}

/// An instruction that did something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Its number, greater than 0.
    pub id: u32,
    /// The path of the file that contains it; for code that is in no file, a name in square
    /// brackets.
    pub module: String,
    /// Its address, as addresses in that file go.
    pub address: u64,
    /// The instruction.
    pub bytes: Vec<u8>,
}

/// The frames below the one that an instruction ran in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callers {
    /// Its number, greater than 0.
    pub id: u32,
    /// The innermost first.
    pub frames: Vec<Frame>,
}

/// A call that had not returned yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The path of the file that contains it; for code that is in no file, a name in square
    /// brackets.
    pub module: String,
    /// The address that it returns to, as addresses in that file go: behind the call.
    pub address: u64,
}

/// What is known of a place in code.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Location {
    /// The path of the file that contains it; for code that is in no file, a name in square
    /// brackets.
    pub module: String,
    /// Its address, as addresses in that file go; of a call, one within the call instruction.
    pub address: u64,
    /// The function, readable where a compiler has mangled its name.
    pub function: Option<String>,
    /// Bytes from the function's beginning; 0 where that is not known.
    pub offset: u64,
    /// The innermost function that was inlined there.
    pub inlined: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// The line in it, from 1.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub line: Option<u32>,
}

impl Location {
    /// A place of which only the address is known.
    pub fn bare(module: &str, address: u64) -> Self {
        let [function, inlined, file] = [const { None }; 3];
        Self { module: module.into(), address, function, offset: 0, inlined, file, line: None }
    }
}

/// Such as `node_insert+0x1f (btree.c:120)`, or `libpmem.so.1+0x1234` where nothing more is known.
/// What was inlined is named first: `flush in node_insert+0x1f (flush.h:12)`.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &format!("+{:#x}", self.offset))
    }
}

impl Location {
    /// As it is shown, without the offset in the function, which another build changes.
    pub fn name(&self) -> String {
        let mut name = String::new();
        // A string takes whatever is written to it.
        let _ = self.write(&mut name, "");
        name
    }

    fn write(&self, f: &mut impl fmt::Write, offset: &str) -> fmt::Result {
        let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let module = last(&self.module);
        let Some(function) = &self.function else {
            write!(f, "{module}+{:#x}", self.address)?;
            return self
                .source()
                .map_or(Ok(()), |(file, line)| write!(f, " ({}:{line})", last(file)));
        };
        if let Some(inlined) = self.inlined.as_ref().filter(|inlined| *inlined != function) {
            write!(f, "{inlined} in ")?;
        }
        write!(f, "{function}{offset} ")?;
        match self.source() {
            Some((file, line)) => write!(f, "({}:{line})", last(file)),
            None => write!(f, "({module})"),
        }
    }

    /// The source file and the line, where both are known.
    pub fn source(&self) -> Option<(&str, u32)> {
        self.file.as_deref().zip(self.line)
    }
}

impl Frame {
    /// An address within the call instruction.
    pub fn call(&self) -> u64 {
        self.address.saturating_sub(1)
    }
}

/// How a recording ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "RecordingEnded"))]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The program exited by itself, with this code.
    Exited(i32),
    /// A signal of this number ended it.
    Signal(i32),
    /// The recorder stopped, for a reason that is a sentence.
    Stopped(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_says_what_is_known() {
        let mut location = Location::bare("/usr/lib/libpmem.so.1", 0x1234);
        assert_eq!(location.to_string(), "libpmem.so.1+0x1234");
        location.function = Some("pmem_flush".into());
        location.offset = 31;
        assert_eq!(location.to_string(), "pmem_flush+0x1f (libpmem.so.1)");
        (location.file, location.line) = (Some("/src/flush.h".into()), Some(12));
        assert_eq!(location.to_string(), "pmem_flush+0x1f (flush.h:12)");
        location.inlined = Some("clwb".into());
        assert_eq!(location.to_string(), "clwb in pmem_flush+0x1f (flush.h:12)");
        assert_eq!(location.name(), "clwb in pmem_flush (flush.h:12)");
        location.function = None;
        assert_eq!(location.to_string(), "libpmem.so.1+0x1234 (flush.h:12)");
        assert_eq!(location.name(), location.to_string());
        assert_eq!(Location::bare("[vdso]", 1).to_string(), "[vdso]+0x1");
    }
}
