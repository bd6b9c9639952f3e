//! Where the flush goes that a sync call causes: a function of the parts.
//!
//! A flush stops at the first device that states no volatile cache: the block layer takes the flags
//! off a request to such a device (`submit_bio_noacct` in Linux;
//! Documentation/block/writeback_cache_control.rst). A loop device turns it into an fsync of its
//! file.

use serde::Serialize;

use super::model::{Below, Device, DeviceKind, FileSystem, FileSystemKind, WriteCache};
use crate::text::listed;

/// Where a flush goes. Ordered: of several devices that hold parts of a file, the last decides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// These disks state that they lose nothing: none is sent, since there is nothing to flush.
    NothingToFlush(Vec<String>),
    /// It is sent to these disks, and waited for.
    Disks(Vec<String>),
    /// Its file system or device sends it to this server.
    Server(String),
    /// Unknown, for this reason.
    Unknown(String),
    /// None reaches the disk, though it has a cache that can lose data, because.
    Stopped(String),
    /// There is no medium: all is memory, of this file system or device.
    Memory(String),
}

/// Where a flush of a file goes.
pub(super) fn of(file_system: &FileSystem) -> Reach {
    let name = &file_system.name;
    match file_system.kind {
        FileSystemKind::Memory => return Reach::Memory(name.clone()),
        FileSystemKind::Served if file_system.has("nostrictsync") => {
            return Reach::Stopped(format!("{name} is mounted with nostrictsync"));
        }
        FileSystemKind::Served => return Reach::Server(name.clone()),
        _ => {}
    }
    let below =
        all(&file_system.below, || format!("what {name} is stored on is not visible from here"));
    let silent = ["nobarrier", "barrier=0", "fsync_mode=nobarrier"];
    let volatile = ["volatile", "fsync=volatile"];
    if let Some(option) = volatile.into_iter().find(|option| file_system.has(option)) {
        return Reach::Stopped(format!(
            "the overlay is mounted with {option}, so nothing is synced at all"
        ));
    }
    let Some(option) = silent.into_iter().find(|option| file_system.has(option)) else {
        return below;
    };
    let stopped = |what: String| {
        Reach::Stopped(format!("{name} is mounted with {option}: no flush is sent to {what}"))
    };
    match (file_system.below.iter().find_map(looped), below) {
        (Some(device), Reach::Disks(_) | Reach::NothingToFlush(_) | Reach::Server(_)) => {
            stopped(format!("{device}, so its file is never synced"))
        }
        (None, Reach::Disks(disks)) => {
            stopped(format!("{}, whose cache can lose data", listed(&disks)))
        }
        (None, Reach::Server(server)) => stopped(server),
        // Where there is nothing to flush, it does not matter that none is sent.
        (_, below) => below,
    }
}

/// The loop device that a file system lies on, if it does.
fn looped(below: &Below) -> Option<&str> {
    match below {
        Below::Device(device) if device.kind == DeviceKind::Loop => Some(&device.name),
        Below::Device(device) => device.below.iter().find_map(looped),
        _ => None,
    }
}

fn all(below: &[Below], none: impl Fn() -> String) -> Reach {
    let each = below.iter().map(|below| match below {
        Below::Device(device) => of_device(device),
        Below::File { file_system, .. } => of(file_system),
        Below::Unseen(why) => Reach::Unknown(why.clone()),
    });
    each.reduce(worse).unwrap_or_else(|| Reach::Unknown(none()))
}

fn worse(one: Reach, other: Reach) -> Reach {
    let joined = |mut one: Vec<String>, other: Vec<String>| {
        one.extend(other);
        one.sort();
        one.dedup();
        one
    };
    match (one, other) {
        (Reach::Disks(one), Reach::Disks(other)) => Reach::Disks(joined(one, other)),
        (Reach::NothingToFlush(one), Reach::NothingToFlush(other)) => {
            Reach::NothingToFlush(joined(one, other))
        }
        (one, other) => one.max(other),
    }
}

fn of_device(device: &Device) -> Reach {
    let name = &device.name;
    let stated = device.queue.as_ref().and_then(|queue| queue.write_cache);
    let bottom = match device.kind {
        DeviceKind::Memory => return Reach::Memory(name.clone()),
        _ if !device.below.is_empty() => all(&device.below, String::new),
        DeviceKind::Network if stated == Some(WriteCache::WriteBack) => Reach::Server(name.clone()),
        _ => {
            return match stated {
                Some(WriteCache::WriteBack) => Reach::Disks(vec![name.clone()]),
                Some(WriteCache::WriteThrough) => Reach::NothingToFlush(vec![name.clone()]),
                None => Reach::Unknown(format!(
                    "{name} does not report whether it has a volatile cache"
                )),
            };
        }
    };
    match (stated, bottom) {
        // Without a flush, data stay in the page cache of the file's file system.
        (
            Some(WriteCache::WriteThrough),
            Reach::Disks(_) | Reach::NothingToFlush(_) | Reach::Server(_),
        ) if device.kind == DeviceKind::Loop => {
            Reach::Stopped(format!("{name} accepts no flush, so its file is never synced"))
        }
        (Some(WriteCache::WriteThrough), Reach::Disks(disks)) => Reach::Stopped(format!(
            "{name} reports that it has no volatile cache, so no flush is passed on to {}, which \
             {} one",
            listed(&disks),
            if disks.len() == 1 { "has" } else { "have" }
        )),
        (_, bottom) => bottom,
    }
}
