//! Facts that no kernel file reports.

use crate::hypervisor;
use crate::root::FsRoot;

use super::flush::Reach;
use super::model::{Below, Device, DeviceKind, FileSystem, FileSystemKind};
use crate::text::listed;

/// What cannot be known, a sentence each.
pub(super) fn all(root: &FsRoot, file_system: &FileSystem, flush: &Reach) -> Vec<String> {
    let mut unknown = Vec::new();
    file_system.file_systems(&mut |one| unknown.extend(of_file_system(one)));
    file_system.devices(&mut |device| unknown.extend(of_device(device)));
    let (Reach::Disks(names) | Reach::NothingToFlush(names)) = flush else { return unknown };
    let (disks, one) = (listed(names), names.len() == 1);
    unknown.push(match hypervisor::guest(root).is_some() {
        true => format!(
            "whether the host stores what {disks} {} asked to store: this is a virtual machine, \
             and hosts can be set to ignore flushes, or to answer from their own page cache (as \
             QEMU's cache=unsafe does)",
            if one { "is" } else { "are" }
        ),
        false => format!(
            "whether {disks} {}: some drives answer a flush before their cache is written, and a \
             drive whose cache survives a power failure may report one that does not",
            if one { "does what it reports" } else { "do what they report" }
        ),
    });
    unknown
}

fn of_file_system(file_system: &FileSystem) -> Vec<String> {
    let mut unknown: Vec<String> = file_system.below.iter().filter_map(unseen).collect();
    match (file_system.kind, file_system.name.as_str()) {
        (FileSystemKind::Served, "nfs" | "nfs4") => unknown.push(format!(
            "what the server of {} does: an export with 'async' answers before data are stored \
             (exports(5))",
            file_system.source
        )),
        (FileSystemKind::Served, name) => {
            unknown.push(format!(
                "what the server behind {name} ({}) does with \
                                  data",
                file_system.source
            ));
        }
        (FileSystemKind::Pool, name) => unknown.push(format!(
            "the property sync of this {name}: if it is 'disabled', fsync returns without writing \
             anything (zfsprops(7))"
        )),
        _ => {}
    }
    unknown
}

fn of_device(device: &Device) -> Vec<String> {
    let mut unknown: Vec<String> = device.below.iter().filter_map(unseen).collect();
    let name = &device.name;
    match device.kind {
        DeviceKind::Mapper if device.what.starts_with("a device of") => unknown.push(format!(
            "what {name} does with data: it may be a cache (dm-cache, dm-writecache); 'dmsetup \
             table' shows it"
        )),
        DeviceKind::Network => unknown.push(format!("what the other end of {name} does with data")),
        _ => {}
    }
    unknown
}

fn unseen(below: &Below) -> Option<String> {
    match below {
        Below::Unseen(why) => Some(format!("the layers below: {why}")),
        _ => None,
    }
}
