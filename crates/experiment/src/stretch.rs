//! The activity of a disk and the page cache while a task was measured that uses a disk, or runs
//! next to one that does.

use serde::{Deserialize, Serialize};

/// A stretch of a window, between two looks at the disk. An ordinary window is one; an episode has
/// one each quarter of a second.
///
/// In a journal it is an array of its fields, in their order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Fields", into = "Fields")]
pub struct Stretch {
    /// Its start, ns since the dataset's start.
    pub start_ns: u64,
    /// Its length, ns.
    pub length_ns: u64,
    /// Units of the task's work that ended in it.
    pub units: u64,
    /// The longest of their latencies, as the lower end of its bucket, ns; absent where none ended,
    /// or none are counted.
    pub longest_ns: Option<u64>,
    /// Bytes in the page cache, of the whole machine, that were changed and not yet being written,
    /// at its end: `Dirty` of `/proc/meminfo`.
    pub dirty_bytes: Option<u64>,
    /// Bytes that were being written back at its end, of the whole machine: `Writeback` of the
    /// same.
    pub writeback_bytes: Option<u64>,
    /// How long the disk had a request under way, ns, by its own count (`io_ticks` of
    /// `/sys/block/DISK/stat`), which covers all users of the disk. With several disks, that of the
    /// busiest.
    pub disk_busy_ns: Option<u64>,
    /// Write requests that the disks below the tasks' folders ended, all together, by their own
    /// counts.
    pub disk_writes: Option<u64>,
}

type Fields = (u64, u64, u64, Option<u64>, Option<u64>, Option<u64>, Option<u64>, Option<u64>);

impl From<Fields> for Stretch {
    fn from(fields: Fields) -> Self {
        let (
            start_ns,
            length_ns,
            units,
            longest_ns,
            dirty_bytes,
            writeback_bytes,
            disk_busy_ns,
            disk_writes,
        ) = fields;
        Self {
            start_ns,
            length_ns,
            units,
            longest_ns,
            dirty_bytes,
            writeback_bytes,
            disk_busy_ns,
            disk_writes,
        }
    }
}

impl From<Stretch> for Fields {
    fn from(one: Stretch) -> Self {
        (
            one.start_ns,
            one.length_ns,
            one.units,
            one.longest_ns,
            one.dirty_bytes,
            one.writeback_bytes,
            one.disk_busy_ns,
            one.disk_writes,
        )
    }
}

impl Stretch {
    /// The share of its time in which the disk had a request under way, at most 1.
    pub fn busy(&self) -> Option<f64> {
        let busy = self.disk_busy_ns.filter(|_| self.length_ns > 0)?;
        Some((busy as f64 / self.length_ns as f64).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_journal_it_is_an_array() {
        let one = Stretch {
            start_ns: 5,
            length_ns: 250_000_000,
            units: 3,
            longest_ns: Some(1 << 20),
            dirty_bytes: Some(4096),
            writeback_bytes: None,
            disk_busy_ns: Some(125_000_000),
            disk_writes: Some(7),
        };
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(text, "[5,250000000,3,1048576,4096,null,125000000,7]");
        assert_eq!(serde_json::from_str::<Stretch>(&text).unwrap(), one);
        assert_eq!(one.busy(), Some(0.5));
    }

    // Its count is in whole ms, or coarser.
    #[test]
    fn a_disk_is_busy_all_the_time_at_most() {
        let one =
            Stretch { length_ns: 900_000, disk_busy_ns: Some(1_000_000), ..Stretch::default() };
        assert_eq!(one.busy(), Some(1.0));
        assert_eq!(Stretch { length_ns: 0, ..one }.busy(), None);
        assert_eq!(Stretch { disk_busy_ns: None, ..one }.busy(), None);
    }
}
