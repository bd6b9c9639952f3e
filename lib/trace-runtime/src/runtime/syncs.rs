//! System calls that make files durable, or begin to.
//!
//! They cover what was stored before they began, by whichever process. What is stored while they
//! run may be durable behind them or not, so that their beginning is recorded, too.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use super::actions::interruptible;
use super::blocks::{block, shared};
use super::descriptors::identity;
use super::frame::Frame;
use super::lock::Held;
use super::ring::push;
use super::{callers, mappings, sys};
use crate::layout::{Block, Head, kind};

/// `msync`, `fsync`, `fdatasync`, `sync`, `syncfs` and `sync_file_range`.
///
/// # Safety
/// The program has made the call, with these arguments.
pub unsafe fn call(number: u64, a: [u64; 6], frame: &Frame) -> u64 {
    let block = block();
    push(&Held::acquire(), block, &Head::of(kind::SYNC_BEGINS, 0));
    // Whatever the descriptor is by the end.
    let about_it = if matches!(number, sys::MSYNC | sys::SYNC) { None } else { identity(a[0]) };
    // SAFETY: the program's own call, which accesses no memory of ours.
    let result = unsafe {
        match number {
            // It may take long, and nothing of it has an order with stores.
            sys::MSYNC => sys::call(number, a),
            _ => interruptible(number, a, frame),
        }
    };
    let held = Held::acquire();
    let mut covered = Covered { held, block, frame, site: None };
    if !sys::is_error(result) {
        match number {
            sys::MSYNC => covered.mappings(a),
            _ => covered.files(number, a, about_it),
        }
    }
    push(&covered.held, block, &Head::of(kind::SYNC_ENDS, 0));
    result
}

// The parts of files that a call was about.
struct Covered<'a> {
    held: Held,
    block: &'a Block,
    frame: &'a Frame,
    // Found for the first of them.
    site: Option<u32>,
}

impl Covered<'_> {
    fn record(&mut self, head: Head) {
        let (held, registers) = (&mut self.held, &self.frame.registers);
        let find = || callers::of_call(held, self.block, registers);
        let site = *self.site.get_or_insert_with(find);
        push(&self.held, self.block, &Head { site, ..head });
    }

    // `msync`.
    fn mappings(&mut self, [start, length, flags, ..]: [u64; 6]) {
        const MS_SYNC: u64 = 4;
        // Without `MS_SYNC` it starts nothing and waits for nothing (since Linux 2.6.19).
        if flags & MS_SYNC == 0 {
            return;
        }
        let end = start.saturating_add(mappings::pages(length));
        let mut number = 0;
        while let Some(region) = self.held.regions().get(number).copied() {
            number += 1;
            let (from, to) = (region.start.max(start), region.end.min(end));
            if from < to {
                let (file, size) = (region.file, to - from);
                let offset = region.offset + (from - region.start);
                self.record(Head { file, size, offset, ..Head::of(kind::MSYNC, 0) });
            }
        }
    }

    // The other calls: `about_it` is the device and inode of the descriptor.
    fn files(&mut self, number: u64, a: [u64; 6], about_it: Option<[u64; 2]>) {
        // To the end, wherever that is: no file is longer.
        const ALL: u64 = i64::MAX as u64;
        let shared = shared();
        let count = shared.files.load(Acquire) as usize;
        for (file, [device, inode]) in shared.identities.iter().take(count).enumerate() {
            let is_meant = match (number, about_it) {
                (sys::SYNC, _) => true,
                (sys::SYNCFS, Some([one, _])) => one == device.load(Relaxed),
                (_, Some([one, other])) => {
                    one == device.load(Relaxed) && other == inode.load(Relaxed)
                }
                (_, None) => false,
            };
            if !is_meant {
                continue;
            }
            let file = file as u8;
            self.record(match number {
                sys::SYNC_FILE_RANGE => {
                    let size = if a[2] == 0 { ALL } else { a[2] };
                    Head { file, offset: a[1], size, ..Head::of(kind::SYNC_RANGE, 0) }
                }
                _ => Head { file, size: ALL, ..Head::of(kind::MSYNC, 0) },
            });
        }
    }
}
