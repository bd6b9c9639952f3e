//! System calls that make files durable, or begin to.
//!
//! They cover what was stored before they began, by whichever process. What is stored while they run may be durable
//! behind them or not, so that their beginning is recorded, too.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::layout::{Head, kind};
use crate::runtime::descriptors::identity;
use crate::runtime::ring::{block, lock, push, shared, unlock};
use crate::runtime::signals::{interruptible, registers_of};
use crate::runtime::state::state;
use crate::runtime::{callers, mappings, sys};

/// `msync`, `fsync`, `fdatasync`, `sync`, `syncfs` and `sync_file_range`.
pub fn call(number: u64, a: [u64; 6], frame: *mut u64) -> u64 {
    let block = block();
    lock(block);
    push(block, &Head::of(kind::SYNC_BEGINS, 0), core::ptr::null());
    unlock();
    // Whatever the descriptor is by the end.
    let about_it = if matches!(number, sys::MSYNC | sys::SYNC) { None } else { identity(a[0]) };
    let result = match number {
        // It may take long, and nothing of it has an order with stores.
        sys::MSYNC => sys::call(number, a),
        _ => interruptible(number, a, frame),
    };
    lock(block);
    if !sys::is_error(result) {
        let mut site = None;
        each(number, a, about_it, |head| {
            let site = *site.get_or_insert_with(|| callers::of_call(block, &registers_of(frame)));
            push(block, &Head { site, ..head }, core::ptr::null());
        });
    }
    push(block, &Head::of(kind::SYNC_ENDS, 0), core::ptr::null());
    unlock();
    result
}

// The parts of files that it was about. The caller holds the lock.
fn each(number: u64, a: [u64; 6], about_it: Option<[u64; 2]>, mut record: impl FnMut(Head)) {
    const MS_SYNC: u64 = 4;
    // To the end, wherever that is: no file is longer.
    const ALL: u64 = i64::MAX as u64;
    if number == sys::MSYNC {
        let [start, length, flags, ..] = a;
        // Without `MS_SYNC` it starts nothing and waits for nothing (since Linux 2.6.19).
        if flags & MS_SYNC == 0 {
            return;
        }
        let end = start.saturating_add(mappings::pages(length));
        for region in state().regions() {
            let (from, to) = (region.start.max(start), region.end.min(end));
            if from < to {
                let offset = region.offset + (from - region.start);
                record(Head {
                    file: region.file,
                    size: to - from,
                    offset,
                    ..Head::of(kind::MSYNC, 0)
                });
            }
        }
        return;
    }
    let shared = shared();
    let count = shared.files.load(Acquire) as usize;
    for (file, [device, inode]) in shared.identities.iter().take(count).enumerate() {
        let is_meant = match (number, about_it) {
            (sys::SYNC, _) => true,
            (sys::SYNCFS, Some([one, _])) => one == device.load(Relaxed),
            (_, Some([one, other])) => one == device.load(Relaxed) && other == inode.load(Relaxed),
            (_, None) => false,
        };
        if !is_meant {
            continue;
        }
        let file = file as u8;
        record(match number {
            sys::SYNC_FILE_RANGE => {
                let size = if a[2] == 0 { ALL } else { a[2] };
                Head { file, offset: a[1], size, ..Head::of(kind::SYNC_RANGE, 0) }
            }
            _ => Head { file, size: ALL, ..Head::of(kind::MSYNC, 0) },
        });
    }
}
