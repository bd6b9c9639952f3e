//! The parts between a file and its medium, as values.

use serde::Serialize;

/// A file system, and the devices below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileSystem {
    /// The name of its type, such as `ext4`; `unknown` where no mount was found.
    pub name: String,
    /// What manner of file system it is.
    pub kind: FileSystemKind,
    /// Where it is mounted; `None` where that cannot be seen.
    pub point: Option<String>,
    /// What is mounted there: a device, a server's folder, or any word.
    pub source: String,
    /// Whether it has a journal, where that is known.
    pub journal: Option<bool>,
    /// The options that matter to what is written, and what they do.
    pub options: Vec<Setting>,
    /// The devices below it; none if it is in memory or on a server.
    pub below: Vec<Below>,
}

/// What manner of file system it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileSystemKind {
    /// Files in memory.
    Memory,
    /// Files on a block device.
    Disk,
    /// Files of another machine, or of another process.
    Served,
    /// Folders of other file systems, one over the other.
    Overlay,
    /// Files on devices that the file system does not show to the kernel's block layer (ZFS).
    Pool,
    /// Nothing of the above is known of it.
    Other,
}

/// An option, and what it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "MountOption"))]
pub struct Setting {
    /// As the kernel writes it, such as `data=journal`.
    pub option: String,
    /// What it does to what is written, in a clause.
    pub meaning: &'static str,
}

/// A layer below a file system or a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Below {
    /// A block device.
    Device(Box<Device>),
    /// A file or folder on another file system: of a loop device, of an overlay.
    File {
        /// Its path.
        path: String,
        /// Its file system.
        file_system: Box<FileSystem>,
    },
    /// What it is cannot be seen, because.
    Unseen(String),
}

/// A block device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Device {
    /// The kernel's name, such as `vda1`.
    pub name: String,
    /// What manner of device it is.
    pub kind: DeviceKind,
    /// The same in words, such as `dm-crypt 'root'`.
    pub what: String,
    /// The name of the product, where the device has one.
    pub model: Option<String>,
    /// Its size in bytes; `None` where it is not stated.
    pub bytes: Option<u64>,
    /// How it takes requests; a partition has its disk's.
    pub queue: Option<Queue>,
    /// What else matters, a clause each.
    pub notes: Vec<String>,
    /// What it is made of; empty of a disk.
    pub below: Vec<Below>,
}

/// What manner of block device it is, by the kernel's names for them
/// (Documentation/admin-guide/devices.txt in Linux).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// A part of a disk.
    Partition,
    /// A disk of a virtual machine (virtio-blk).
    Virtio,
    /// A namespace of an NVMe device.
    Nvme,
    /// A disk by the SCSI layer: SAS, SATA, USB, and of virtual machines.
    Scsi,
    /// A memory card or soldered flash.
    Mmc,
    /// A disk of a guest of Xen.
    Xen,
    /// Persistent memory used as a disk.
    Pmem,
    /// A disk in memory: zram, brd.
    Memory,
    /// A disk of another machine: nbd, rbd, drbd.
    Network,
    /// A file that is used as a disk.
    Loop,
    /// The device mapper: encryption, logical volumes, multiple paths.
    Mapper,
    /// A software RAID (md).
    Raid,
    /// Any other.
    Other,
}

/// How a device takes requests, from its folder `queue` (Documentation/ABI/stable/sysfs-block in
/// Linux). What is `None` is not stated there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Queue {
    /// Whether the kernel sends flushes to it.
    pub write_cache: Option<WriteCache>,
    /// Whether it takes writes that go past its cache (Force Unit Access).
    pub fua: Option<bool>,
    /// The scheduler in use; `none` is one.
    pub scheduler: Option<String>,
    /// Whether it turns.
    pub rotational: Option<bool>,
    /// Requests that may wait.
    pub nr_requests: Option<u64>,
    /// The least that it writes, in bytes.
    pub logical_block_bytes: Option<u64>,
    /// The least that it writes without reading first, in bytes.
    pub physical_block_bytes: Option<u64>,
    /// The least that it writes whole or not at all (`RWF_ATOMIC`), in bytes; 0 where it cannot.
    pub atomic_write_unit_min_bytes: Option<u64>,
    /// The most that it writes whole or not at all, in bytes; 0 where it cannot.
    pub atomic_write_unit_max_bytes: Option<u64>,
    /// Background writes are delayed once reads take more than this, µs; 0 if they are never
    /// delayed.
    pub wbt_lat_usec: Option<u64>,
}

/// What the kernel takes a device's cache for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WriteCache {
    /// It can lose what it holds: a flush is sent to it.
    WriteBack,
    /// What was written is kept: no flush is sent.
    WriteThrough,
}

impl FileSystem {
    /// Whether an option that matters is set.
    pub(super) fn has(&self, option: &str) -> bool {
        self.options.iter().any(|setting| setting.option == option)
    }

    /// Every device below, from the top.
    pub(super) fn devices<'a>(&'a self, each: &mut impl FnMut(&'a Device)) {
        self.below.iter().for_each(|below| devices(below, each));
    }

    /// Every device below, from the top; of those of a kind not what they are made of.
    pub(super) fn devices_down_to<'a>(
        &'a self,
        kind: DeviceKind,
        each: &mut impl FnMut(&'a Device),
    ) {
        self.below.iter().for_each(|below| devices_down_to(below, kind, each));
    }

    /// This and every file system below.
    pub(super) fn file_systems<'a>(&'a self, each: &mut dyn FnMut(&'a FileSystem)) {
        each(self);
        self.below.iter().for_each(|below| file_systems(below, each));
    }
}

fn devices<'a>(below: &'a Below, each: &mut impl FnMut(&'a Device)) {
    match below {
        Below::Device(device) => {
            each(device);
            device.below.iter().for_each(|below| devices(below, each));
        }
        Below::File { file_system, .. } => {
            file_system.below.iter().for_each(|below| devices(below, each))
        }
        Below::Unseen(_) => {}
    }
}

fn devices_down_to<'a>(below: &'a Below, kind: DeviceKind, each: &mut impl FnMut(&'a Device)) {
    match below {
        Below::Device(device) => {
            each(device);
            if device.kind != kind {
                device.below.iter().for_each(|below| devices_down_to(below, kind, each));
            }
        }
        Below::File { file_system, .. } => file_system.devices_down_to(kind, each),
        Below::Unseen(_) => {}
    }
}

fn file_systems<'a>(below: &'a Below, each: &mut dyn FnMut(&'a FileSystem)) {
    match below {
        Below::Device(device) => device.below.iter().for_each(|below| file_systems(below, each)),
        Below::File { file_system, .. } => file_system.file_systems(each),
        Below::Unseen(_) => {}
    }
}
