//! What disks do at the moment: two readings of their counts, some time apart.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::root::FsRoot;

use super::model::Device;

/// Counts of disks, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reading(BTreeMap<String, Counts>);

/// Since boot, and in flight now; Documentation/block/stat.rst in Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counts {
    reads: u64,
    read_sectors: u64,
    writes: u64,
    written_sectors: u64,
    in_flight: u64,
    // The time in which any was in flight.
    busy_ms: Option<u64>,
    // Linux 5.5.
    flushes: Option<u64>,
}

/// What a disk did while it was watched.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Load {
    /// The disk.
    pub device: String,
    /// For how many seconds it was watched.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0)))]
    pub seconds: f64,
    /// Reads that ended.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes that ended.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flushes that ended; `None` before Linux 5.5.
    pub flushes: Option<u64>,
    /// Requests that were in progress at the end.
    pub in_flight: u64,
}

impl Reading {
    /// The counts of some disks now, such as those of [`Medium::disks`](super::Medium::disks);
    /// those that have none, or do not go on counting (`queue/iostats` is 0; ABI/stable/sysfs-block
    /// in Linux), are left out.
    pub fn of(root: &FsRoot, disks: &[&Device]) -> Self {
        let counts = |name: &str| {
            let dir = format!("/sys/class/block/{name}");
            let counting =
                root.read_opt(format!("{dir}/queue/iostats")).is_none_or(|text| text.trim() != "0");
            parse(&root.read_opt(format!("{dir}/stat"))?).filter(|_| counting)
        };
        Self(
            disks
                .iter()
                .filter_map(|disk| Some((disk.name.clone(), counts(&disk.name)?)))
                .collect(),
        )
    }

    /// What each disk did from this reading to `later`, which was made after `time`.
    pub fn until(&self, later: &Reading, time: Duration) -> Vec<Load> {
        let load = |(device, after): (&String, &Counts)| {
            let before = self.0.get(device)?;
            // A disk that went and came again begins with 0.
            let since = |of: fn(&Counts) -> u64| of(after).saturating_sub(of(before));
            Some(Load {
                device: device.clone(),
                seconds: time.as_secs_f64(),
                reads: since(|counts| counts.reads),
                read_bytes: since(|counts| counts.read_sectors).saturating_mul(512),
                writes: since(|counts| counts.writes),
                written_bytes: since(|counts| counts.written_sectors).saturating_mul(512),
                flushes: before
                    .flushes
                    .zip(after.flushes)
                    .map(|(before, after)| after.saturating_sub(before)),
                in_flight: after.in_flight,
            })
        };
        later.0.iter().filter_map(load).collect()
    }

    /// How long the busiest of the disks had a request in progress from this reading to `later`;
    /// `None` if no disk counts that.
    ///
    /// Since Linux 5.0 the kernel counts the ticks of its clock, of 1 to 10 ms, in which a request
    /// began or ended, and may miss some of the time of long ones
    /// (Documentation/admin-guide/iostats.rst, field 10).
    pub fn busiest_until(&self, later: &Reading) -> Option<Duration> {
        let busy = |(device, after): (&String, &Counts)| {
            Some(after.busy_ms?.saturating_sub(self.0.get(device)?.busy_ms?))
        };
        later.0.iter().filter_map(busy).max().map(Duration::from_millis)
    }

    /// Write requests that all of them ended from this reading to `later`; `None` where none is
    /// known.
    pub fn writes_until(&self, later: &Reading) -> Option<u64> {
        let writes = |(device, after): (&String, &Counts)| {
            Some(after.writes.saturating_sub(self.0.get(device)?.writes))
        };
        later.0.iter().filter_map(writes).reduce(u64::saturating_add)
    }
}

impl Load {
    /// Whether other programs write so much that measurements differ from those of an idle disk: 20
    /// writes or flushes a second, or 1 MiB. A journal or a log that is committed every few seconds
    /// stays below.
    pub fn is_written_to(&self) -> bool {
        let requests = self.writes + self.flushes.unwrap_or(0);
        let per_s = |count: u64| count as f64 / self.seconds.max(1e-9);
        per_s(requests) >= 20.0 || per_s(self.written_bytes) >= f64::from(1 << 20)
    }
}

fn parse(text: &str) -> Option<Counts> {
    let fields: Vec<u64> = text.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let at = |index: usize| fields.get(index).copied();
    Some(Counts {
        reads: at(0)?,
        read_sectors: at(2)?,
        writes: at(4)?,
        written_sectors: at(6)?,
        in_flight: at(8)?,
        busy_ms: at(9),
        flushes: at(15),
    })
}
