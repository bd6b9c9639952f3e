//! The writer's parameters.

use ringfence_machine::features::Features;
use ringfence_machine::units::Bytes;
use ringfence_persist::{Flush, LINE, Width};
use serde::{Deserialize, Serialize};

use super::Target;
use crate::units::Rate;

/// A writer: copies blocks into a target and flushes them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Write {
    /// How lines are moved towards memory.
    pub instruction: Instruction,
    /// The registers the copy uses.
    pub width: WidthChoice,
    /// The fence instruction.
    pub fence: FenceKind,
    /// Where fences stand.
    pub fence_at: FenceAt,
    /// Blocks between two fences, where they stand after blocks.
    pub batch: u32,
    /// Bytes copied, then flushed: 64 B to 2 MiB.
    pub block: Bytes,
    /// The order of blocks.
    pub pattern: Pattern,
    /// The state of a line before it is written.
    pub line: LineState,
    /// Bytes of the target that are written over and over.
    pub size: Bytes,
    /// Where the memory comes from.
    pub target: Target,
    /// The pages it lies in.
    pub pages: PageSize,
    /// At most so many bytes a second, the rest of the time spent in `pause`; unlimited when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<Rate>,
    /// Whether every page is touched before it is measured; if not, all pages are given back after
    /// each pass over the target, so that every first store to a page is measured with its fault.
    pub prefault: bool,
    /// Whether it stays on its CPU; if not, the scheduler may move it to any that is allowed.
    pub pinned: bool,
}

impl Default for Write {
    fn default() -> Self {
        Self {
            instruction: Instruction::Clwb,
            width: WidthChoice::Auto,
            fence: FenceKind::Sfence,
            fence_at: FenceAt::Block,
            batch: 1,
            block: Bytes::kib(4),
            pattern: Pattern::Sequential,
            line: LineState::AsIs,
            size: Bytes::mib(256),
            target: Target::Dram,
            pages: PageSize::Base,
            pace: None,
            prefault: true,
            pinned: true,
        }
    }
}

impl Write {
    /// As [`Task::check`](super::Task::check).
    ///
    /// # Errors
    /// One sentence with the remedy.
    pub fn check(&self) -> Result<(), String> {
        let line = LINE as u64;
        if self.block.0 < line || self.block.0 > 2 << 20 || !self.block.0.is_multiple_of(line) {
            return Err(format!(
                "block = {} is not a multiple of 64B between 64B and 2MiB: choose such a size",
                self.block
            ));
        }
        if self.size < self.block {
            return Err(format!(
                "size = {} is smaller than block = {}: make the target larger",
                self.size, self.block
            ));
        }
        if self.batch == 0 {
            return Err("batch = 0 would never fence: use fence_at = \"none\" for that".into());
        }
        if self.batch > 1 && self.fence_at != FenceAt::Block {
            return Err(format!(
                "batch = {} has a meaning only with fence_at = \"block\": leave one of them out",
                self.batch
            ));
        }
        let anonymous = matches!(self.target, Target::Dram | Target::Node(_));
        if self.instruction == Instruction::Msync
            && !matches!(self.target, Target::File(_) | Target::Tmpfs(_))
        {
            return Err("instruction = \"msync\" needs a file: or tmpfs: target".into());
        }
        if self.pages != PageSize::Base && !anonymous {
            return Err(format!(
                "pages = \"{}\" needs a dram or node: target",
                serde_name(&self.pages).unwrap_or_default()
            ));
        }
        let plain =
            self.pattern == Pattern::Sequential && self.line == LineState::AsIs && self.pace.is_none();
        if !self.prefault && (!plain || matches!(self.target, Target::DevDax(_))) {
            return Err(
                "prefault = false needs sequential blocks, line = \"as-is\", no pace, and a target other than devdax:"
                    .into(),
            );
        }
        Ok(())
    }

    /// Why a processor with these features cannot run it, if so.
    pub fn missing(&self, features: &Features) -> Option<String> {
        if let Some(flush) = self.instruction.flush()
            && !has_flush(features, flush)
        {
            return Some(format!("this processor has no {flush}"));
        }
        match self.width.wanted() {
            Some(width) if !has_width(features, width) => {
                Some(format!("this processor or its operating system has no {width}"))
            }
            _ => None,
        }
    }
}

/// Whether a processor with these features has a flush instruction.
pub(crate) fn has_flush(features: &Features, flush: Flush) -> bool {
    match flush {
        Flush::Clflush => features.clflush,
        Flush::Clflushopt => features.clflushopt,
        Flush::Clwb => features.clwb,
    }
}

fn has_width(features: &Features, width: Width) -> bool {
    match width {
        Width::Sse2 => true,
        Width::Avx2 => features.avx2,
        Width::Avx512 => features.avx512f,
    }
}

fn serde_name<T: Serialize>(value: &T) -> Option<String> {
    serde_json::to_value(value).ok()?.as_str().map(str::to_owned)
}

/// How lines are moved towards memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Instruction {
    /// `clflush` after ordinary stores.
    Clflush,
    /// `clflushopt` after ordinary stores.
    Clflushopt,
    /// `clwb` after ordinary stores.
    Clwb,
    /// Non-temporal stores.
    Nt,
    /// Ordinary stores alone: nothing is flushed.
    None,
    /// Ordinary stores, then `msync` of the block: for files in the page cache.
    Msync,
}

impl Instruction {
    /// The flush instruction it stands for, if it is one.
    pub fn flush(self) -> Option<Flush> {
        match self {
            Instruction::Clflush => Some(Flush::Clflush),
            Instruction::Clflushopt => Some(Flush::Clflushopt),
            Instruction::Clwb => Some(Flush::Clwb),
            Instruction::Nt | Instruction::None | Instruction::Msync => None,
        }
    }
}

/// The registers a copy uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WidthChoice {
    /// The widest there is.
    Auto,
    /// 16 bytes.
    Sse2,
    /// 32 bytes.
    Avx2,
    /// 64 bytes.
    Avx512,
}

impl WidthChoice {
    fn wanted(self) -> Option<Width> {
        match self {
            WidthChoice::Auto => None,
            WidthChoice::Sse2 => Some(Width::Sse2),
            WidthChoice::Avx2 => Some(Width::Avx2),
            WidthChoice::Avx512 => Some(Width::Avx512),
        }
    }

    /// The width it comes to on this processor.
    pub fn width(self) -> Width {
        self.wanted().unwrap_or_else(Width::widest)
    }
}

/// The fence instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FenceKind {
    /// `sfence`.
    Sfence,
    /// `mfence`.
    Mfence,
    /// A locked instruction that changes nothing.
    Locked,
}

/// Where fences stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FenceAt {
    /// Nowhere.
    None,
    /// After every `batch` blocks.
    Block,
    /// After every line.
    Line,
    /// Before and after every line.
    Around,
}

/// The order of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// One after the other, wrapping.
    Sequential,
    /// Drawn at random, with replacement.
    Random,
}

/// The state of a line before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LineState {
    /// As the pass before left it.
    AsIs,
    /// Brought into the cache, writable, outside the measured time.
    Warm,
    /// Flushed out of the cache, outside the measured time.
    Cold,
}

/// The pages memory lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PageSize {
    /// 4 KiB pages.
    #[serde(rename = "4KiB")]
    Base,
    /// Transparent huge pages where the kernel grants them.
    #[serde(rename = "thp")]
    Transparent,
    /// Reserved 2 MiB pages.
    #[serde(rename = "2MiB")]
    Huge2M,
}

impl PageSize {
    /// The persistence library's word for it.
    pub fn pages(self) -> ringfence_persist::Pages {
        match self {
            PageSize::Base => ringfence_persist::Pages::Base,
            PageSize::Transparent => ringfence_persist::Pages::Transparent,
            PageSize::Huge2M => ringfence_persist::Pages::Huge2M,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_writers_are_refused_with_the_remedy() {
        let cases = [
            (Write { block: Bytes(65), ..Write::default() }, "multiple of 64B"),
            (Write { block: Bytes::mib(4), ..Write::default() }, "multiple of 64B"),
            (Write { size: Bytes::kib(1), ..Write::default() }, "smaller than block"),
            (Write { batch: 0, ..Write::default() }, "never fence"),
            (Write { batch: 2, fence_at: FenceAt::Line, ..Write::default() }, "only with fence_at"),
            (Write { instruction: Instruction::Msync, ..Write::default() }, "needs a file"),
            (Write { prefault: false, line: LineState::Cold, ..Write::default() }, "prefault = false needs"),
            (
                Write {
                    pages: PageSize::Huge2M,
                    target: Target::Tmpfs("/dev/shm".into()),
                    ..Write::default()
                },
                "pages = \"2MiB\"",
            ),
        ];
        for (write, part) in cases {
            let error = write.check().expect_err("must be refused");
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(Write::default().check(), Ok(()));
    }
}
