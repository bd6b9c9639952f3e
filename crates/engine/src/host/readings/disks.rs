//! What the disks below the tasks' working folders have written, and the state of these disks and
//! of the page cache at a moment.
//!
//! This uses the disks' own counts, which cover all users of a disk. The kernel also counts what it
//! writes for a process (`write_bytes` of `/proc/PID/io`), but it counts pages when they become
//! dirty: on ext4 that was nine times what reached the disk (docs/guide/commits.md).

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use ringfence_experiment::stretch::Stretch;
use ringfence_machine::clock::Clock;
use ringfence_machine::medium::{Device, Medium, Reading};
use ringfence_machine::root::{FsRoot, field_kib};
use ringfence_machine::units::Bytes;

/// What the disks and the page cache are like at a moment.
pub struct Look {
    /// On the clock, in ticks.
    at: u64,
    dirty_bytes: Option<u64>,
    writeback_bytes: Option<u64>,
    disks: Reading,
}

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

    /// What they and the page cache are like at a tick of the clock, which is now; `None` where no
    /// task works in a folder.
    pub fn look(&self, root: &FsRoot, at: u64) -> Option<Look> {
        if self.mediums.is_empty() {
            return None;
        }
        Some(Look::of(root, at, &devices(&self.mediums)))
    }

    /// Bytes that all of them wrote meanwhile; `None` where none is known.
    pub fn written_bytes(&self, root: &FsRoot) -> Option<u64> {
        let now = Reading::of(root, &devices(&self.mediums));
        let loads = self.before.until(&now, self.since.elapsed());
        (!loads.is_empty()).then(|| loads.iter().map(|load| load.written_bytes).sum())
    }

    /// What they wrote meanwhile, such as `vda wrote 1.5GiB`; `None` where none is known, or none
    /// wrote anything.
    pub fn wrote(&self, root: &FsRoot) -> Option<String> {
        let now = Reading::of(root, &devices(&self.mediums));
        let loads = self.before.until(&now, self.since.elapsed());
        let wrote = loads.iter().filter(|load| load.written_bytes > 0);
        let each: Vec<String> = wrote
            .map(|load| format!("{} wrote {}", load.device, Bytes(load.written_bytes)))
            .collect();
        (!each.is_empty()).then(|| each.join(", "))
    }
}

impl Look {
    fn of(root: &FsRoot, at: u64, disks: &[&Device]) -> Self {
        let meminfo = root.read_opt("/proc/meminfo").unwrap_or_default();
        let [dirty_bytes, writeback_bytes] =
            ["Dirty", "Writeback"].map(|field| field_kib(&meminfo, field));
        Self { at, dirty_bytes, writeback_bytes, disks: Reading::of(root, disks) }
    }

    /// How long ago that was.
    pub fn elapsed(&self, clock: &Clock) -> Duration {
        Duration::from_nanos(clock.ns(clock.now().saturating_sub(self.at)) as u64)
    }

    /// What happened from this look to a later one. What a task did meanwhile is for the caller to
    /// add.
    pub fn until(&self, later: &Look, origin: u64, clock: &Clock) -> Stretch {
        let ns = |from: u64, to: u64| clock.ns(to.saturating_sub(from)).round() as u64;
        Stretch {
            start_ns: ns(origin, self.at),
            length_ns: ns(self.at, later.at),
            dirty_bytes: later.dirty_bytes,
            writeback_bytes: later.writeback_bytes,
            disk_busy_ns: self.disks.busiest_until(&later.disks).map(|busy| busy.as_nanos() as u64),
            disk_writes: self.disks.writes_until(&later.disks),
            ..Stretch::default()
        }
    }
}

fn devices(mediums: &[Medium]) -> Vec<&Device> {
    mediums.iter().flat_map(Medium::disks).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use ringfence_machine::medium::DeviceKind;

    use super::*;

    fn machine(dirty_kib: u64, busy_ms: u64) -> (tempfile::TempDir, FsRoot) {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: String| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(
            "proc/meminfo",
            format!(
                "MemTotal: 9 kB\nDirty:    {dirty_kib} kB\nWriteback:     8 kB\nWritebackTmp: 0 \
                 kB\n"
            ),
        );
        put(
            "sys/class/block/vda/stat",
            format!("1 0 8 0 {busy_ms} 0 16 0 0 {busy_ms} 0 0 0 0 0 3 0\n"),
        );
        let root = FsRoot::at(dir.path());
        (dir, root)
    }

    #[test]
    fn between_two_looks_lies_a_stretch() {
        let clock = Clock::host();
        let ticks = |ms: f64| (ms * 1e6 / clock.ns_per_tick()) as u64;
        let device = Device {
            name: "vda".into(),
            kind: DeviceKind::Virtio,
            what: String::new(),
            model: None,
            bytes: None,
            queue: None,
            notes: Vec::new(),
            below: Vec::new(),
        };
        let look = |(_, root): &(tempfile::TempDir, FsRoot), at| Look::of(root, at, &[&device]);
        let (before, after) =
            (look(&machine(0, 100), ticks(1000.0)), look(&machine(40, 175), ticks(1250.0)));
        let found = before.until(&after, ticks(400.0), clock);
        assert!(
            found.start_ns.abs_diff(600_000_000) < 1000
                && found.length_ns.abs_diff(250_000_000) < 1000
        );
        assert_eq!((found.dirty_bytes, found.writeback_bytes), (Some(40 << 10), Some(8 << 10)));
        assert_eq!((found.disk_busy_ns, found.disk_writes), (Some(75_000_000), Some(75)));
        let busy = found.busy().unwrap();
        assert!((busy - 0.3).abs() < 1e-4, "{busy}");
    }
}
