//! How large a file is to be, where that is left to the task.

use ringfence_experiment::task::{Dirty, DirtyIo};
use ringfence_machine::root::{FsRoot, field_kib};
use ringfence_machine::units::Bytes;

use crate::workload::SetupError;

const ORDINARY: u64 = 256 << 20;

/// Bytes of a task's file.
///
/// # Errors
/// Where writing as much as the kernel leaves alone would exceed the task's limit.
pub fn of(task: &Dirty, root: &FsRoot) -> Result<u64, SetupError> {
    if let Some(size) = task.size {
        return Ok(size.0);
    }
    let ordinary = ORDINARY.max(task.block.0);
    let Some(threshold) = threshold(root).filter(|_| task.io == DirtyIo::Buffered) else {
        return Ok(ordinary);
    };
    // Others have pages that are dirty as well, and what is free changes meanwhile.
    let enough = (threshold + threshold / 4).div_ceil(task.block.0) * task.block.0;
    let size = enough.max(ordinary);
    if size <= task.limit.0 {
        return Ok(size);
    }
    Err(SetupError::Other(format!(
        "the kernel writes nothing back before {} are dirty (vm.dirty_background_ratio or _bytes, \
         proc(5)), and the file of {} for that is beyond limit = {}: raise the limit, or give a \
         size, with which nothing is written back for 30 s",
        Bytes(threshold),
        Bytes(size),
        task.limit
    )))
}

/// Dirty bytes from which on the kernel writes them back in the background; `None` where it does
/// not say.
///
/// Linux, mm/page-writeback.c, `domain_dirty_limits`: a share of what `global_dirtyable_memory`
/// has, which is free memory and the page cache, or a number of bytes.
fn threshold(root: &FsRoot) -> Option<u64> {
    let number = |name: &str| root.parse_opt::<u64>(format!("/proc/sys/vm/{name}"));
    if let Some(bytes) = number("dirty_background_bytes").filter(|bytes| *bytes > 0) {
        return Some(bytes);
    }
    let meminfo = root.read_opt("/proc/meminfo")?;
    let parts = ["MemFree", "Active(file)", "Inactive(file)"];
    let memory: u64 = parts.iter().filter_map(|part| field_kib(&meminfo, part)).sum();
    Some(memory / 100 * number("dirty_background_ratio")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(bytes: u64) -> (tempfile::TempDir, FsRoot) {
        let dir = tempfile::tempdir().unwrap();
        let vm = dir.path().join("proc/sys/vm");
        std::fs::create_dir_all(&vm).unwrap();
        std::fs::write(vm.join("dirty_background_bytes"), format!("{bytes}\n")).unwrap();
        std::fs::write(vm.join("dirty_background_ratio"), "10\n").unwrap();
        let meminfo = "MemTotal: 9999999 kB\nMemFree: 600000 kB\nActive(file): 100000 \
                       kB\nInactive(file): 300000 kB\n";
        std::fs::write(dir.path().join("proc/meminfo"), meminfo).unwrap();
        let root = FsRoot::at(dir.path());
        (dir, root)
    }

    #[test]
    fn the_threshold_is_a_share_or_a_number_of_bytes() {
        let (_dir, by_share) = root(0);
        assert_eq!(threshold(&by_share), Some(1_000_000 * 1024 / 10));
        let (_dir, by_bytes) = root(4096);
        assert_eq!(threshold(&by_bytes), Some(4096));
        assert_eq!(threshold(&FsRoot::at("/nonexistent")), None);
    }

    #[test]
    fn only_what_is_left_to_the_kernel_is_sized_past_its_threshold() {
        let (_dir, many) = root(1 << 30);
        let task = Dirty::default();
        assert_eq!(of(&task, &many).unwrap(), (1 << 30) + (1 << 28));
        assert_eq!(of(&Dirty { io: DirtyIo::Direct, ..task.clone() }, &many).unwrap(), ORDINARY);
        let given = Dirty { size: Some(Bytes::mib(3)), ..task.clone() };
        assert_eq!(of(&given, &many).unwrap(), 3 << 20);
        // Below what is usual it is not made smaller.
        let (_dir, few) = root(4096);
        assert_eq!(of(&task, &few).unwrap(), ORDINARY);
        let (_dir, beyond) = root(7 << 30);
        let error = of(&task, &beyond).unwrap_err().to_string();
        assert!(
            error.contains("before 7GiB are dirty") && error.contains("beyond limit = 8GiB"),
            "{error}"
        );
        assert!(of(&Dirty { limit: Bytes::mib(9 << 10), ..task }, &beyond).is_ok());
    }
}
