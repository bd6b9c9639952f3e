//! The writer's parameters.

use ringfence_machine::features::Features;
use ringfence_machine::units::Bytes;
use ringfence_persist::{Flush, LINE};
use serde::{Deserialize, Serialize};

use super::Settings;
use super::axes::axes;
use super::instruction::has_flush;
use super::parameters::{Parameters, paced};
use super::{FenceAt, FenceKind, Instruction, Target, WidthChoice};
use crate::Reason;
use crate::units::Rate;

/// A writer: copies blocks into a target and flushes them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Write {
    /// How lines are moved towards memory.
    pub instruction: Instruction,
    /// The registers the copy uses.
    pub width: WidthChoice,
    /// The fence instruction.
    pub fence: FenceKind,
    /// The places of fences.
    pub fence_at: FenceAt,
    /// Blocks between two fences, where fences follow blocks.
    pub batch: u32,
    /// Blocks of at least this size are copied by non-temporal stores before they are flushed, as
    /// the C library's `memcpy` does with large copies; absent: none are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nt_copy_from: Option<Bytes>,
    /// Blocks of at least this size are copied by `rep movsb`, as the C library does with copies
    /// beyond a few KiB; absent: none are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub movsb_from: Option<Bytes>,
    /// Bytes copied, then flushed: 64 B to 2 MiB.
    pub block: Bytes,
    /// The order of blocks.
    pub pattern: Pattern,
    /// The state of a line before it is written.
    pub line: LineState,
    /// Bytes of the target that are written over and over.
    pub size: Bytes,
    /// Where stores go, such as `dram`, `tmpfs:/dir`, `dax:/path` and `node:1`.
    pub target: Target,
    /// The pages it lies in.
    pub pages: PageSize,
    /// The most bytes per second, with `pause` instructions in between; unlimited when absent.
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
            instruction: Instruction::Flush(Flush::Clwb),
            width: WidthChoice::Auto,
            fence: FenceKind::Sfence,
            fence_at: FenceAt::Block,
            batch: 1,
            nt_copy_from: None,
            movsb_from: None,
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
    /// Whether blocks are copied by non-temporal stores and flushed then.
    pub fn copies_past_caches(&self) -> bool {
        self.nt_copy_from.is_some_and(|from| self.block >= from)
    }

    /// Whether blocks are copied by `rep movsb`, whatever the width is for smaller ones.
    pub fn copies_by_movsb(&self) -> bool {
        self.width == WidthChoice::Movsb || self.movsb_from.is_some_and(|from| self.block >= from)
    }

    /// Whether its bytes have left the caches when it continues.
    pub fn is_flushed(&self) -> bool {
        match self.instruction {
            Instruction::None => false,
            Instruction::Msync => true,
            Instruction::Flush(_) | Instruction::Nt => {
                self.fence_at != FenceAt::None && self.fence.orders_stores()
            }
        }
    }
}

fn serde_name<T: Serialize>(value: &T) -> Option<String> {
    serde_json::to_value(value).ok()?.as_str().map(str::to_owned)
}

/// The order of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// One after the other, wrapping.
    Sequential,
    /// Drawn at random, with replacement.
    Random,
}

/// The state of a line before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

axes!(Write: Writes, "write" {
    instruction: Instruction,
    width: WidthChoice,
    fence: FenceKind,
    fence_at: FenceAt,
    batch: u32,
    nt_copy_from: Option<Bytes>,
    movsb_from: Option<Bytes>,
    block: Bytes,
    pattern: Pattern,
    line: LineState,
    size: Bytes,
    target: Target,
    pages: PageSize,
    pace: Option<Rate>,
    prefault: bool,
    pinned: bool,
});

impl Parameters for Write {
    fn unit(&self) -> &'static str {
        "lines"
    }

    fn bytes_per_unit(&self) -> Option<u64> {
        Some(LINE as u64)
    }

    fn not_simulated(&self) -> Option<Reason> {
        if self.instruction == Instruction::Msync {
            return Some("the page cache is not simulated".into());
        }
        if !self.pinned {
            return Some("tasks that the scheduler moves are not simulated".into());
        }
        (!self.prefault).then(|| "page faults are not simulated".into())
    }

    fn pinned(&self) -> bool {
        self.pinned
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn size(&self) -> Option<Bytes> {
        Some(self.size)
    }

    fn takes_ordinary_memory(&self) -> bool {
        let ordinary = self.pages != PageSize::Huge2M && self.prefault;
        ordinary && matches!(self.target, Target::Dram | Target::Node(_))
    }

    fn file_bytes_per_s(&self) -> Option<f64> {
        matches!(self.target, Target::File(_)).then(|| paced(self.pace))
    }

    fn with_pace(&self, pace: Rate) -> Option<Settings> {
        Some(Writes::default().pace(Some(pace)).into())
    }

    fn check(&self) -> Result<(), String> {
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
                "batch = {} applies only with fence_at = \"block\": leave out one of them",
                self.batch
            ));
        }
        for (name, from) in [("nt_copy_from", self.nt_copy_from), ("movsb_from", self.movsb_from)] {
            if from.is_some() && self.instruction.flush().is_none() {
                return Err(format!(
                    "{name} applies to copies that are flushed afterwards: name a flush instruction"
                ));
            }
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
        let plain = self.pattern == Pattern::Sequential
            && self.line == LineState::AsIs
            && self.pace.is_none();
        if !self.prefault && (!plain || matches!(self.target, Target::DevDax(_))) {
            return Err(
                "prefault = false needs sequential blocks, line = \"as-is\", no pace, and a target \
                 other than devdax:"
                    .into(),
            );
        }
        Ok(())
    }

    fn missing(&self, features: Option<&Features>) -> Option<Reason> {
        if self.width == WidthChoice::Movsb {
            if self.instruction == Instruction::Nt {
                return Some("movsb has no non-temporal stores".into());
            }
            if self.instruction.flush().is_none()
                && matches!(self.fence_at, FenceAt::Line | FenceAt::Around)
            {
                return Some(
                    "movsb copies whole blocks, so fences at lines need a flush instruction".into(),
                );
            }
        }
        let features = features?;
        if let Some(flush) = self.instruction.flush()
            && !has_flush(features, flush)
        {
            return Some(format!("this processor has no {flush}").into());
        }
        let width = self.width;
        (!width.is_there(features))
            .then(|| format!("this processor or its operating system has no {width}").into())
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
            (
                Write {
                    instruction: Instruction::Nt,
                    nt_copy_from: Some(Bytes::kib(4)),
                    ..Write::default()
                },
                "name a flush instruction",
            ),
            (
                Write { prefault: false, line: LineState::Cold, ..Write::default() },
                "prefault = false needs",
            ),
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

    #[test]
    fn movsb_is_not_run_where_it_would_not_be_what_it_says() {
        let movsb = Write { width: WidthChoice::Movsb, ..Write::default() };
        assert_eq!(movsb.missing(None), None);
        let nt = Write { instruction: Instruction::Nt, ..movsb.clone() };
        assert!(nt.missing(None).unwrap().contains("no non-temporal stores"));
        let unflushed =
            Write { instruction: Instruction::None, fence_at: FenceAt::Line, ..movsb.clone() };
        assert!(unflushed.missing(None).unwrap().contains("copies whole blocks"));
        assert_eq!(Write { fence_at: FenceAt::Line, ..movsb }.missing(None), None);
    }

    #[test]
    fn a_fence_that_orders_no_stores_flushes_nothing() {
        assert!(Write::default().is_flushed());
        for write in [
            Write { fence: FenceKind::Lfence, ..Write::default() },
            Write { fence_at: FenceAt::None, ..Write::default() },
            Write { instruction: Instruction::None, ..Write::default() },
        ] {
            assert!(!write.is_flushed(), "{write:?}");
        }
        assert!(
            Write { instruction: Instruction::Msync, fence_at: FenceAt::None, ..Write::default() }
                .is_flushed()
        );
    }
}
