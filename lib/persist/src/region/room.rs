//! Checks for enough room before anything is mapped: afterwards, a lack of room means SIGBUS or the
//! OOM killer.

use std::fs::File;
use std::path::Path;

use super::RegionError;
use super::descriptor;

/// Room for `len` bytes more in a file's file system, and in memory where that is where its files
/// are.
pub(super) fn room_in_file_system(file: &File, path: &Path, len: u64) -> Result<(), RegionError> {
    // tmpfs, ramfs and hugetlbfs, linux/magic.h; the pages of the last are reserved already.
    if matches!(descriptor::magic(file), 0x0102_1994 | 0x8584_58f6) {
        room_in_memory(len)?;
    }
    match descriptor::free_bytes(file) {
        Some(free) if free < len => Err(RegionError::NoSpace {
            place: format!("the file system of {}", path.display()),
            free,
            wanted: len,
        }),
        _ => Ok(()),
    }
}

/// Whether there is room for `len` bytes of memory now, on the machine and in this process's
/// control groups. Over-committed memory is not refused by mmap: it ends in the kernel killing a
/// process. Regions of memory ask this themselves.
///
/// # Errors
/// [`RegionError::NoSpace`] otherwise.
pub fn room_in_memory(len: u64) -> Result<(), RegionError> {
    match available(Path::new("/")) {
        Some((place, free)) if free < len => Err(RegionError::NoSpace { place, free, wanted: len }),
        _ => Ok(()),
    }
}

/// Where memory is scarcest, and how much it has: the machine, or one of this process's cgroups.
fn available(root: &Path) -> Option<(String, u64)> {
    let text = std::fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
    let kib: Option<u64> = field(&text, "MemAvailable:");
    let machine = kib.map(|kib| ("memory".to_string(), kib << 10));
    machine.into_iter().chain(cgroups(root)).min_by_key(|(_, free)| *free)
}

// What a limit leaves: file pages are given up before a process is killed, those of tmpfs are not.
// Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst in Linux.
fn cgroups(root: &Path) -> Vec<(String, u64)> {
    let text = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut found = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (mount, names) = match controllers {
            "" => ("sys/fs/cgroup", ["memory.max", "memory.current", "file", "shmem"]),
            list if list.split(',').any(|name| name == "memory") => (
                "sys/fs/cgroup/memory",
                ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache", "total_shmem"],
            ),
            _ => continue,
        };
        for group in Path::new(path).ancestors() {
            let dir = root.join(mount).join(group.strip_prefix("/").unwrap_or(group));
            let read = |name: &str| std::fs::read_to_string(dir.join(name)).ok();
            let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
            let (Some(limit), Some(used)) = (number(names[0]), number(names[1])) else { continue };
            let stat = read("memory.stat").unwrap_or_default();
            let of = |name: &str| field(&stat, name).unwrap_or(0);
            let reclaimable = of(names[2]).saturating_sub(of(names[3]));
            let free = limit.saturating_sub(used.saturating_sub(reclaimable));
            found.push((format!("the cgroup {}", group.display()), free));
        }
    }
    found
}

fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == name).then(|| words.next()?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::tree::Tree;

    #[test]
    fn the_tightest_limit_decides() {
        let tree = Tree::new();
        assert_eq!(available(tree.path()), None);
        tree.write("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    4096 kB\n");
        assert_eq!(available(tree.path()), Some(("memory".into(), 4096 << 10)));
        tree.write("proc/self/cgroup", "9:memory:/old\n0::/a/b\n");
        tree.write("sys/fs/cgroup/a/memory.max", "1000000\n");
        tree.write("sys/fs/cgroup/a/memory.current", "900000\n");
        tree.write("sys/fs/cgroup/a/memory.stat", "anon 1\nfile 500000\nshmem 200000\n");
        tree.write("sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_eq!(available(tree.path()), Some(("the cgroup /a".into(), 400_000)));
        tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        tree.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "5\n");
        tree.write("sys/fs/cgroup/memory/old/memory.limit_in_bytes", "300000\n");
        tree.write("sys/fs/cgroup/memory/old/memory.usage_in_bytes", "400000\n");
        assert_eq!(available(tree.path()), Some(("the cgroup /old".into(), 0)));
    }
}
