//! The promises of each method to sync on a medium: a function of its layers and of the target of a
//! flush.

use serde::Serialize;

use crate::root::FsRoot;

use super::flush::Reach;
use super::model::{Below, Device, DeviceKind, FileSystem, FileSystemKind, WriteCache};
use crate::text::listed;

/// The promise of a method to write or to sync once the call has returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Promise {
    /// The call or flag: `fsync`, `O_DSYNC`, `none`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = CALLS)))]
    pub call: &'static str,
    /// Whether data survive a power failure then, by the word of the kernel.
    pub durable: Durable,
    /// What it does here, in a sentence without a full stop.
    pub how: String,
    /// Where that is written.
    pub source: &'static str,
}

/// Whether data survive a power failure, by the word of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Durable {
    /// They do.
    Yes,
    /// They may not.
    No,
    /// As far as the server keeps to what it answers.
    AsTheServerSays,
    /// Unknown on this machine.
    Unknown,
}

const CALLS: [&str; 9] = [
    "fsync",
    "fdatasync",
    "O_SYNC",
    "O_DSYNC",
    "RWF_DSYNC",
    "msync",
    "sync_file_range",
    "O_DIRECT",
    "none",
];

/// The promises of every method, the strongest first.
pub(super) fn all(root: &FsRoot, file_system: &FileSystem, flush: &Reach) -> Vec<Promise> {
    let durable = durable(flush);
    let promise = |call, how: String, source| Promise { call, durable, how, source };
    let never = |call, how: String, source| Promise { call, durable: Durable::No, how, source };
    if let Reach::Memory(name) = flush {
        let how = format!("{name} is memory: nothing survives a power failure");
        return CALLS.map(|call| never(call, how.clone(), of_memory(name))).into();
    }
    let mut all = vec![
        promise(
            "fsync",
            format!(
                "{}; a new file's name also needs an fsync of its folder",
                fsync(file_system, flush)
            ),
            "fsync(2), writeback_cache_control.rst in Linux",
        ),
        promise(
            "fdatasync",
            "as fsync, without metadata that reading does not need, such as times; the size is \
             written"
                .into(),
            "fdatasync(2)",
        ),
        promise("O_SYNC", "each write returns as if fsync had followed".into(), "open(2)"),
        promise(
            "O_DSYNC",
            format!("each write returns as if fdatasync had followed{}", forced(file_system)),
            "open(2), fs/iomap/direct-io.c in Linux",
        ),
        promise("RWF_DSYNC", "as O_DSYNC, for one write (Linux 4.7)".into(), "pwritev2(2)"),
        promise(
            "msync",
            "MS_SYNC: the pages of the range, as by fdatasync; MS_ASYNC does nothing".into(),
            "msync(2)",
        ),
    ];
    all.push(never(
        "sync_file_range",
        "writes or waits for pages of the file; no metadata, and no flush of a disk's cache".into(),
        "sync_file_range(2)",
    ));
    all.push(never(
        "O_DIRECT",
        "on its own: it bypasses the page cache, and writes neither a disk's cache nor metadata"
            .into(),
        "open(2)",
    ));
    all.push(match file_system.has("sync") {
        true => promise(
            "none",
            "the mount option sync makes each write as with O_DSYNC".into(),
            "mount(8)",
        ),
        false => never("none", written_back(root), "sysctl/vm.rst in Linux"),
    });
    all
}

fn of_memory(name: &str) -> &'static str {
    match name {
        "tmpfs" | "devtmpfs" => "tmpfs(5)",
        "hugetlbfs" => "mm/hugetlbpage.rst in Linux",
        name if name.starts_with("zram") => "blockdev/zram.rst in Linux",
        name if name.starts_with("ram") && name != "ramfs" => "blockdev/ramdisk.rst in Linux",
        _ => "ramfs-rootfs-initramfs.rst in Linux",
    }
}

fn durable(flush: &Reach) -> Durable {
    match flush {
        Reach::Disks(_) | Reach::NothingToFlush(_) => Durable::Yes,
        Reach::Server(_) => Durable::AsTheServerSays,
        Reach::Unknown(_) => Durable::Unknown,
        Reach::Stopped(_) | Reach::Memory(_) => Durable::No,
    }
}

fn fsync(file_system: &FileSystem, flush: &Reach) -> String {
    let below = written_to(file_system);
    // So are all ways to sync: overlayfs.rst in Linux, "Volatile mount".
    if let (FileSystemKind::Overlay, Reach::Stopped(why)) = (file_system.kind, flush)
        && ["volatile", "fsync=volatile"].into_iter().any(|option| file_system.has(option))
    {
        return format!("the call does nothing: {why}");
    }
    if below.kind == FileSystemKind::Served {
        return served(below);
    }
    let written = match below.journal {
        Some(true) => "data and metadata are written and the journal is committed",
        Some(false) => "data and metadata are written, without a journal",
        None => "data and metadata are written",
    };
    let mut looped = String::new();
    let goes_on = matches!(flush, Reach::Disks(_) | Reach::NothingToFlush(_) | Reach::Server(_));
    below.devices(&mut |device| {
        if let (true, DeviceKind::Loop, [Below::File { path, .. }]) =
            (goes_on, device.kind, &device.below[..])
        {
            looped = format!("; what {} is told to flush becomes an fsync of {path}", device.name);
        }
    });
    let flushed = match flush {
        Reach::Disks(disks) => {
            let (are, their) = if disks.len() == 1 { ("is", "its") } else { ("are", "their") };
            format!(
                "then {} {are} told to flush {their} cache, and the call waits for that",
                listed(disks)
            )
        }
        Reach::NothingToFlush(disks) => {
            let (state, them) = if disks.len() == 1 { ("states", "it") } else { ("state", "them") };
            format!(
                "{} {state} that there is no volatile cache, so no flush is sent to {them}",
                listed(disks)
            )
        }
        Reach::Server(name) => format!("then the server behind {name} is told to flush"),
        Reach::Unknown(why) => format!("whether a flush follows is unknown: {why}"),
        Reach::Stopped(why) => format!("but {why}"),
        Reach::Memory(name) => format!("all of it goes to {name}, which is memory"),
    };
    format!("{written}; {flushed}{looped}")
}

// An overlay passes a file on to the file system of its upper folder.
fn written_to(file_system: &FileSystem) -> &FileSystem {
    match &file_system.below[..] {
        [Below::File { file_system, .. }] => written_to(file_system),
        _ => file_system,
    }
}

fn served(file_system: &FileSystem) -> String {
    let how = match file_system.name.as_str() {
        "nfs" | "nfs4" => {
            "dirty data are sent, and the server is asked to COMMIT it to stable storage (RFC 8881)"
        }
        "cifs" | "smb3" if file_system.has("nostrictsync") => {
            "dirty data are sent, but with nostrictsync the server is not asked to flush"
        }
        "cifs" | "smb3" => "dirty data are sent, and the server is asked to flush the file",
        "9p" => "dirty data are sent, and the server is asked by Tfsync",
        name if name.starts_with("fuse") || name == "virtiofs" => {
            "dirty data are sent, and the server is asked by FUSE_FSYNC; if it does not know that \
             request, the call succeeds and does nothing (fs/fuse/file.c in Linux)"
        }
        _ => "dirty data are sent, and the server is asked to sync it",
    };
    how.into()
}

// ext4 and XFS write directly by iomap, which leaves out the flush where a write alone is durable:
// not for O_SYNC.
fn forced(file_system: &FileSystem) -> &'static str {
    let below = written_to(file_system);
    let [Below::Device(device)] = &below.below[..] else { return "" };
    let Some(queue) = whole(device).queue.as_ref() else { return "" };
    if !["ext4", "xfs"].contains(&below.name.as_str()) || below.has("data=journal") {
        return "";
    }
    match (queue.write_cache, queue.fua) {
        (Some(WriteCache::WriteBack), Some(true)) => {
            "; with O_DIRECT, onto blocks written before, as one write with FUA instead of a flush"
        }
        (Some(WriteCache::WriteBack), Some(false)) => "; without FUA, each takes a flush",
        _ => "",
    }
}

// A partition's requests are its disk's.
fn whole(device: &Device) -> &Device {
    match (device.kind, &device.below[..]) {
        (DeviceKind::Partition, [Below::Device(disk)]) => disk,
        _ => device,
    }
}

fn written_back(root: &FsRoot) -> String {
    let after = match root.parse_opt::<u64>("/proc/sys/vm/dirty_expire_centisecs") {
        Some(centis) => format!("once they have been dirty for {} s", centis as f64 / 100.0),
        None => "once they have been dirty for some time".into(),
    };
    format!(
        "the kernel writes pages {after}, or earlier if there are many; a program cannot know \
         when, and no flush follows"
    )
}
