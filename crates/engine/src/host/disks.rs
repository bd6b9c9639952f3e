//! What the disks wrote below the folders that tasks work in.
//!
//! By the disks' own counts, which are of everybody who uses them. The kernel counts what it writes for a process, too
//! (`write_bytes` of `/proc/PID/io`), but when pages become dirty: on ext4 that was nine times what reached the disk (docs/commits.md).

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use ringfence_machine::medium::{Device, Medium, Reading};
use ringfence_machine::root::FsRoot;
use ringfence_machine::units::Bytes;

/// Disks that are watched.
pub struct Disks {
    mediums: Vec<Medium>,
    before: Reading,
    since: Instant,
}

impl Disks {
    /// Those below some folders, from now on. Folders that are not there have none.
    pub fn below<'a>(root: &FsRoot, folders: impl IntoIterator<Item = &'a Path>) -> Self {
        let folders: BTreeSet<&Path> = folders.into_iter().collect();
        let mediums: Vec<Medium> =
            folders.into_iter().filter_map(|folder| Medium::at(root, folder).ok()).collect();
        let before = Reading::of(root, &devices(&mediums));
        Self { mediums, before, since: Instant::now() }
    }

    /// What they wrote meanwhile, such as `vda wrote 1.5GiB`; `None` where none is known, or none wrote anything.
    pub fn wrote(&self, root: &FsRoot) -> Option<String> {
        let now = Reading::of(root, &devices(&self.mediums));
        let loads = self.before.until(&now, self.since.elapsed());
        let wrote = loads.iter().filter(|load| load.written_bytes > 0);
        let each: Vec<String> =
            wrote.map(|load| format!("{} wrote {}", load.device, Bytes(load.written_bytes))).collect();
        (!each.is_empty()).then(|| each.join(", "))
    }
}

fn devices(mediums: &[Medium]) -> Vec<&Device> {
    mediums.iter().flat_map(Medium::disks).collect()
}
