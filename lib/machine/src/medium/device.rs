//! Block devices, from `/sys/dev/block` down to what they are made of.

use std::path::Path;

use crate::root::FsRoot;

use super::model::{Below, Device, DeviceKind, Queue, WriteCache};

/// The state of a walk over devices: what it reads from, how it continues from a file that is used
/// as a disk, and the remaining depth.
pub(super) struct Walk<'a> {
    pub root: &'a FsRoot,
    pub file: &'a dyn Fn(&str, usize) -> Below,
}

/// The block device `MAJOR:MINOR`, with what it is made of; none where sysfs has no folder of it.
pub(super) fn find(walk: &Walk, number: &str, depth: usize) -> Option<Device> {
    let dir = resolve(walk.root, &format!("/sys/dev/block/{number}"))?;
    Some(device(walk, &dir, depth))
}

/// What the kernel calls it.
pub(super) fn name(root: &FsRoot, number: &str) -> Option<String> {
    Some(last(&resolve(root, &format!("/sys/dev/block/{number}"))?).to_string())
}

/// Where a path ends up behind its links, as a path below the root.
fn resolve(root: &FsRoot, path: &str) -> Option<String> {
    Some(root.resolved(path)?.display().to_string())
}

fn last(dir: &str) -> &str {
    dir.rsplit('/').next().unwrap_or(dir)
}

fn device(walk: &Walk, dir: &str, depth: usize) -> Device {
    let root = walk.root;
    let name = last(dir).to_string();
    let kind = match root.exists(format!("{dir}/partition")) {
        true => DeviceKind::Partition,
        false => kind(&name),
    };
    let (what, notes) = described(root, dir, kind);
    let below = match (kind, depth) {
        (_, 0) => vec![Below::Unseen(format!("{name} is stacked on too many devices to follow"))],
        (DeviceKind::Partition, _) => {
            let disk = Path::new(dir).parent().and_then(Path::to_str).unwrap_or("/");
            vec![Below::Device(Box::new(device(walk, disk, depth - 1)))]
        }
        (DeviceKind::Loop, _) => vec![file(walk, dir, depth)],
        _ => parts(walk, dir, depth),
    };
    Device {
        kind,
        what,
        notes,
        model: model(root, dir),
        // In units of 512 bytes, whatever the block.
        bytes: root
            .parse_opt::<u64>(format!("{dir}/size"))
            .and_then(|sectors| sectors.checked_mul(512)),
        queue: root.exists(format!("{dir}/queue")).then(|| queue(root, &format!("{dir}/queue"))),
        below,
        name,
    }
}

/// What a device of the device mapper, a RAID or the like is made of.
fn parts(walk: &Walk, dir: &str, depth: usize) -> Vec<Below> {
    let part = |slave: String| {
        let path = format!("{dir}/slaves/{slave}");
        match resolve(walk.root, &path) {
            Some(dir) => Below::Device(Box::new(device(walk, &dir, depth - 1))),
            None => Below::Unseen(format!("{path} leads nowhere")),
        }
    };
    walk.root.list_opt(format!("{dir}/slaves")).into_iter().map(part).collect()
}

fn file(walk: &Walk, dir: &str, depth: usize) -> Below {
    match walk.root.read_opt(format!("{dir}/loop/backing_file")) {
        Some(file) => (walk.file)(&file, depth),
        None => Below::Unseen(format!("{} does not say which file it is", last(dir))),
    }
}

fn kind(name: &str) -> DeviceKind {
    const PREFIXES: [(&str, DeviceKind); 15] = [
        ("vd", DeviceKind::Virtio),
        ("nvme", DeviceKind::Nvme),
        ("sd", DeviceKind::Scsi),
        ("sr", DeviceKind::Scsi),
        ("mmcblk", DeviceKind::Mmc),
        ("xvd", DeviceKind::Xen),
        ("pmem", DeviceKind::Pmem),
        ("zram", DeviceKind::Memory),
        ("ram", DeviceKind::Memory),
        ("nbd", DeviceKind::Network),
        ("rbd", DeviceKind::Network),
        ("drbd", DeviceKind::Network),
        ("loop", DeviceKind::Loop),
        ("dm-", DeviceKind::Mapper),
        ("md", DeviceKind::Raid),
    ];
    PREFIXES
        .iter()
        .find(|(prefix, _)| name.starts_with(prefix))
        .map_or(DeviceKind::Other, |found| found.1)
}

fn model(root: &FsRoot, dir: &str) -> Option<String> {
    let read =
        |file: &str| root.read_opt(format!("{dir}/device/{file}")).filter(|text| !text.is_empty());
    let model = read("model")?;
    // The vendor of a virtio device is a number, and it has no model.
    Some(read("vendor").map_or(model.clone(), |vendor| format!("{vendor} {model}")))
}

fn described(root: &FsRoot, dir: &str, kind: DeviceKind) -> (String, Vec<String>) {
    let read = |file: &str| root.read_opt(format!("{dir}/{file}")).filter(|text| !text.is_empty());
    let mut notes = Vec::new();
    let what = match kind {
        DeviceKind::Partition => "a partition".into(),
        DeviceKind::Virtio => "a virtio disk of this virtual machine".into(),
        DeviceKind::Nvme => match read("device/transport") {
            Some(transport) if transport != "pcie" => format!("an NVMe namespace over {transport}"),
            _ => "an NVMe namespace".into(),
        },
        DeviceKind::Scsi => "a disk by the SCSI layer".into(),
        DeviceKind::Mmc => "a memory card or soldered flash".into(),
        DeviceKind::Xen => "a disk of this guest of Xen".into(),
        DeviceKind::Pmem => "persistent memory used as a disk".into(),
        DeviceKind::Memory => "a disk in memory".into(),
        DeviceKind::Network => "a disk of another machine".into(),
        DeviceKind::Loop => {
            match read("loop/dio").as_deref() {
                Some("1") => notes.push(
                    "it writes past the page cache of the file's file \
                                         system"
                        .into(),
                ),
                Some("0") => notes.push(
                    "it writes to the page cache of the file's file system, so that data are \
                     cached twice"
                        .into(),
                ),
                _ => {}
            }
            "a loop device: a file used as a disk".into()
        }
        DeviceKind::Mapper => {
            let name = read("dm/name").unwrap_or_default();
            // What made it puts its name before the rest of the UUID (cryptsetup, LVM,
            // multipath-tools).
            let uuid = read("dm/uuid").unwrap_or_default();
            let made = match uuid.split('-').next().unwrap_or_default() {
                "CRYPT" => "dm-crypt (encrypted)",
                "LVM" => "a logical volume (LVM)",
                "mpath" => "one disk by several paths (multipath)",
                part if part.starts_with("part") => "a partition (device mapper)",
                _ => "a device of the device mapper",
            };
            if name.is_empty() { made.into() } else { format!("{made} '{name}'") }
        }
        DeviceKind::Raid => {
            let level = read("md/level").unwrap_or_else(|| "RAID of unknown level".into());
            if let Some(missing) = read("md/degraded").filter(|text| text != "0") {
                notes.push(format!("it is degraded: {missing} of its devices are missing"));
            }
            // md(4), "RAID WRITE HOLE"; the file is described in Documentation/admin-guide/md.rst
            // in Linux.
            let policy = read("md/consistency_policy").unwrap_or_else(|| "unknown".into());
            if ["raid4", "raid5", "raid6"].contains(&level.as_str())
                && !["journal", "ppl"].contains(&policy.as_str())
            {
                notes.push(format!(
                    "its consistency policy is {policy}: after a crash, and with a device missing, \
                     parity can be wrong for \
                     what was being written"
                ));
            }
            match read("md/raid_disks") {
                Some(count) => format!("{level} of {count} (md)"),
                None => format!("{level} (md)"),
            }
        }
        DeviceKind::Other => "a block device".into(),
    };
    (what, notes)
}

fn queue(root: &FsRoot, dir: &str) -> Queue {
    let number = |file: &str| root.parse_opt::<u64>(format!("{dir}/{file}"));
    let flag = |file: &str| number(file).map(|value| value != 0);
    let write_cache = match root.read_opt(format!("{dir}/write_cache")).as_deref() {
        Some("write back") => Some(WriteCache::WriteBack),
        Some("write through") => Some(WriteCache::WriteThrough),
        _ => None,
    };
    Queue {
        write_cache,
        fua: flag("fua"),
        scheduler: root.read_opt(format!("{dir}/scheduler")).and_then(|text| chosen(&text)),
        rotational: flag("rotational"),
        nr_requests: number("nr_requests"),
        logical_block_bytes: number("logical_block_size"),
        physical_block_bytes: number("physical_block_size"),
        atomic_write_unit_min_bytes: number("atomic_write_unit_min_bytes"),
        atomic_write_unit_max_bytes: number("atomic_write_unit_max_bytes"),
        wbt_lat_usec: number("wbt_lat_usec"),
    }
}

// `none [mq-deadline] kyber`; of devices that know no other, `none` alone.
fn chosen(text: &str) -> Option<String> {
    let bracketed =
        text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(name, _)| name);
    let name = bracketed.or_else(|| (!text.contains(char::is_whitespace)).then_some(text))?;
    (!name.is_empty()).then(|| name.to_string())
}
