//! What tasks used of the machine in their windows, in addition to what they report themselves. An
//! aggressor that does nothing slows nothing down, and proves nothing.

use serde::{Deserialize, Serialize};

/// What the processes of a role have used, added up over windows. The kernel counts CPU time in
/// ticks (10 ms): it is meant for many windows, not for one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ProcessUse"))]
pub struct Used {
    /// Length of the windows, ns.
    pub windows_ns: u64,
    /// CPU time in them, ns; `proc(5)`, `/proc/PID/stat`.
    pub cpu_ns: u64,
    /// Bytes read and written; `proc(5)`, `/proc/PID/io`.
    pub io_bytes: u64,
    /// Bytes that were given to disks, or to the page cache to be written there later;
    /// `write_bytes` of the same file, which on ext4 can be several times what reaches the disk.
    #[serde(default)]
    pub disk_bytes: u64,
    /// How often a program had ended and was started again.
    pub restarts: u64,
}

impl Used {
    /// Both together.
    pub fn and(self, other: Self) -> Self {
        Self {
            windows_ns: self.windows_ns + other.windows_ns,
            cpu_ns: self.cpu_ns + other.cpu_ns,
            io_bytes: self.io_bytes + other.io_bytes,
            disk_bytes: self.disk_bytes + other.disk_bytes,
            restarts: self.restarts + other.restarts,
        }
    }

    /// What was used since an earlier reading. Processes that ended meanwhile may have taken some
    /// of it with them.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            windows_ns: self.windows_ns.saturating_sub(earlier.windows_ns),
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            io_bytes: self.io_bytes.saturating_sub(earlier.io_bytes),
            disk_bytes: self.disk_bytes.saturating_sub(earlier.disk_bytes),
            restarts: self.restarts.saturating_sub(earlier.restarts),
        }
    }
}
