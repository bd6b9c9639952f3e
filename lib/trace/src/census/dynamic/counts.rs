//! Counts of executed instructions.

use std::ops::AddAssign;

use ringfence_persist::Flush;
use serde::Serialize;

/// How often each thing happened at one place, and what of it was needless or missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Executed {
    /// Ordinary stores.
    pub stores: u64,
    /// Non-temporal stores.
    pub nt_stores: u64,
    /// Loads, where they were recorded.
    pub loads: u64,
    /// `clflush`.
    pub clflush: u64,
    /// `clflushopt`.
    pub clflushopt: u64,
    /// `clwb`.
    pub clwb: u64,
    /// `sfence`.
    pub sfence: u64,
    /// `mfence`.
    pub mfence: u64,
    /// Locked instructions, wherever they stored.
    pub locked: u64,
    /// Calls of `msync`, `fsync`, `fdatasync`, `syncfs` and `sync` that waited for the medium, one
    /// for each part of a file.
    pub msync: u64,
    /// Calls of `sync_file_range`, which make nothing durable by themselves.
    pub sync_ranges: u64,
    /// Writes by the kernel.
    pub writes: u64,

    /// Bytes of ordinary stores.
    pub stored_bytes: u64,
    /// Bytes of non-temporal stores.
    pub nt_bytes: u64,
    /// Bytes that locked instructions stored in the files.
    pub locked_bytes: u64,
    /// Bytes that the kernel wrote.
    pub written_bytes: u64,
    /// Bytes of loads.
    pub loaded_bytes: u64,

    /// Flushes of a line with nothing to write back.
    pub clean_flushes: u64,
    /// Flushes of a line that the same thread had flushed since its last fence.
    pub flushed_again: u64,
    /// Those of them before which nothing was stored to the line meanwhile.
    pub flushed_again_unchanged: u64,
    /// `sfence` and `mfence` with nothing to wait for.
    pub idle_fences: u64,
    /// Blocks of 256 bytes that were written back, or stored to past the caches, before a fence
    /// here.
    pub blocks: u64,
    /// Those of them that were not covered whole.
    pub partial_blocks: u64,

    /// Lines whose last store was here, and that were not flushed after it.
    pub unflushed_lines: u64,
    /// Lines whose last flush or non-temporal store was here, with no fence after it.
    pub unfenced_lines: u64,
}

impl Executed {
    /// Flushes by any instruction.
    pub fn flushes(&self) -> u64 {
        self.clflush + self.clflushopt + self.clwb
    }

    /// Flushes by one instruction.
    pub fn flushes_by(&self, flush: Flush) -> u64 {
        match flush {
            Flush::Clflush => self.clflush,
            Flush::Clflushopt => self.clflushopt,
            Flush::Clwb => self.clwb,
        }
    }

    /// Flushes that could be left out, each for itself: of clean lines, and again of lines that are
    /// as they were.
    pub fn needless_flushes(&self) -> u64 {
        self.clean_flushes + self.flushed_again_unchanged
    }

    /// Every figure but those of loads, by its name.
    pub fn figures(&self) -> [(&'static str, u64); 23] {
        [
            ("stores", self.stores),
            ("bytes stored", self.stored_bytes),
            ("non-temporal stores", self.nt_stores),
            ("bytes past the caches", self.nt_bytes),
            ("locked instructions", self.locked),
            ("bytes stored by them", self.locked_bytes),
            ("written by the kernel", self.writes),
            ("bytes written by it", self.written_bytes),
            ("clflush", self.clflush),
            ("clflushopt", self.clflushopt),
            ("clwb", self.clwb),
            ("of clean lines", self.clean_flushes),
            ("flushed twice", self.flushed_again),
            ("unchanged meanwhile", self.flushed_again_unchanged),
            ("sfence", self.sfence),
            ("mfence", self.mfence),
            ("idle fences", self.idle_fences),
            ("msync", self.msync),
            ("sync_file_range", self.sync_ranges),
            ("256-byte blocks", self.blocks),
            ("covered in part", self.partial_blocks),
            ("lines not flushed", self.unflushed_lines),
            ("lines not fenced", self.unfenced_lines),
        ]
    }

    pub(super) fn flush(&mut self, flush: Flush) {
        *match flush {
            Flush::Clflush => &mut self.clflush,
            Flush::Clflushopt => &mut self.clflushopt,
            Flush::Clwb => &mut self.clwb,
        } += 1;
    }

    // How much the place has to do with durability: what tables are sorted by.
    pub(super) fn weight(&self) -> u64 {
        self.flushes() + self.sfence + self.mfence + self.nt_stores + self.msync
    }
}

impl AddAssign for Executed {
    fn add_assign(&mut self, other: Self) {
        let Self {
            stores,
            nt_stores,
            loads,
            clflush,
            clflushopt,
            clwb,
            sfence,
            mfence,
            locked,
            msync,
            sync_ranges,
            writes,
            stored_bytes,
            nt_bytes,
            locked_bytes,
            written_bytes,
            loaded_bytes,
            clean_flushes,
            flushed_again,
            flushed_again_unchanged,
            idle_fences,
            blocks,
            partial_blocks,
            unflushed_lines,
            unfenced_lines,
        } = other;
        self.stores += stores;
        self.nt_stores += nt_stores;
        self.loads += loads;
        self.clflush += clflush;
        self.clflushopt += clflushopt;
        self.clwb += clwb;
        self.sfence += sfence;
        self.mfence += mfence;
        self.locked += locked;
        self.msync += msync;
        self.sync_ranges += sync_ranges;
        self.writes += writes;
        self.stored_bytes += stored_bytes;
        self.nt_bytes += nt_bytes;
        self.locked_bytes += locked_bytes;
        self.written_bytes += written_bytes;
        self.loaded_bytes += loaded_bytes;
        self.clean_flushes += clean_flushes;
        self.flushed_again += flushed_again;
        self.flushed_again_unchanged += flushed_again_unchanged;
        self.idle_fences += idle_fences;
        self.blocks += blocks;
        self.partial_blocks += partial_blocks;
        self.unflushed_lines += unflushed_lines;
        self.unfenced_lines += unfenced_lines;
    }
}
