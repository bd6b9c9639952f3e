//! Whether there is room, asked before anything is mapped: afterwards the answer is SIGBUS or the OOM
//! killer.

use std::fs::File;
use std::os::fd::AsRawFd;

use super::RegionError;

// Over-committed memory is not refused by mmap; it ends in the kernel killing somebody.
pub(super) fn room_in_memory(len: usize) -> Result<(), RegionError> {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    match available {
        Some(kib) if (kib << 10) < len as u64 => {
            Err(RegionError::NoSpace { place: "memory".into(), free: kib << 10, wanted: len as u64 })
        }
        _ => Ok(()),
    }
}

pub(super) fn free_bytes(file: &File) -> Option<u64> {
    // SAFETY: a zeroed statvfs is a valid out-parameter, and the descriptor is open.
    unsafe {
        let mut stat: libc::statvfs = std::mem::zeroed();
        (libc::fstatvfs(file.as_raw_fd(), &mut stat) == 0).then(|| stat.f_bavail * stat.f_frsize)
    }
}
