//! The processes that have a device open or mapped, and whether all that might can be seen.

use std::fs;
use std::io;
use std::path::Path;

use ringfence_system::root::FsRoot;
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};

// The first PID namespace, which has every process of the machine: `PROC_PID_INIT_INO` of
// include/linux/proc_ns.h, the same since Linux 3.8.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Processes that have a file open or mapped, by id, as far as they can be seen ([`unseen`]).
pub fn users_of(root: &FsRoot, path: &Path) -> Vec<u32> {
    let device = if root.is_host() { device(path) } else { None };
    let is_it = |link: &str| {
        let link = root.path(link);
        // Other file systems and namespaces have other names for the same device.
        fs::read_link(&link).is_ok_and(|target| target == path)
            || device.is_some() && self::device(&link) == device
    };
    let uses = |pid: &u32| opens(root, *pid, &is_it) || maps(root, *pid, path, &is_it);
    root.numbered("/proc", "").into_iter().filter(uses).collect()
}

// Threads may have descriptors of their own (CLONE_FILES of clone(2)).
fn opens(root: &FsRoot, pid: u32, is_it: &dyn Fn(&str) -> bool) -> bool {
    let threads = root.numbered(format!("/proc/{pid}/task"), "");
    let of_threads = threads.iter().map(|tid| format!("/proc/{pid}/task/{tid}/fd"));
    let all = std::iter::once(format!("/proc/{pid}/fd")).chain(of_threads);
    all.into_iter().any(|fds| root.list_opt(&fds).iter().any(|fd| is_it(&format!("{fds}/{fd}"))))
}

// A region is mapped shared or not at all (Linux 6.1, `pseudo_lock_dev_mmap`).
fn maps(root: &FsRoot, pid: u32, path: &Path, is_it: &dyn Fn(&str) -> bool) -> bool {
    let name = path.to_string_lossy();
    let maps = root.read_opt(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().any(|line| {
        let mut fields = line.split_whitespace();
        let (range, shared) = (fields.next().unwrap_or_default(), fields.next());
        line.ends_with(&*name)
            || shared.is_some_and(|flags| flags.ends_with('s'))
                && is_it(&format!("/proc/{pid}/map_files/{range}"))
    })
}

/// Why a file may have users that [`users_of`] does not see; `None` where there are none.
pub fn unseen(root: &FsRoot) -> Option<String> {
    // Process 1 is the first of the namespace that /proc shows, whichever this process is in.
    match fs::read_link(root.path("/proc/1/ns/pid")) {
        Ok(namespace) if namespace == Path::new(FIRST_NAMESPACE) => {}
        Ok(_) => {
            return Some(
                "/proc shows the processes of one PID namespace only, such as a container's".into(),
            );
        }
        Err(error) => {
            return Some(format!("processes of other users cannot be inspected ({error})"));
        }
    }
    let forbidden = |pid: &u32| {
        let opened = fs::read_dir(root.path(format!("/proc/{pid}/fd")));
        opened.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    };
    let pid = root.numbered("/proc", "").into_iter().find(forbidden)?;
    Some(format!("the open files of process {pid} cannot be inspected"))
}

// The character device that a path leads to. What a file system behind a network knows need not be
// fetched.
fn device(path: &Path) -> Option<(u32, u32)> {
    let found = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE).ok()?;
    let character = FileType::from_raw_mode(u32::from(found.stx_mode)) == FileType::CharacterDevice;
    character.then_some((found.stx_rdev_major, found.stx_rdev_minor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_system::fixture::FixtureTree;
    use std::os::unix::fs::symlink;

    fn tree(namespace: &str) -> FixtureTree {
        let tree = FixtureTree::empty("holders");
        tree.write("/proc/1/maps", "").write("/proc/1/fd/.keep", "");
        fs::create_dir_all(tree.root().path("/proc/1/ns")).unwrap();
        symlink(namespace, tree.root().path("/proc/1/ns/pid")).unwrap();
        tree
    }

    #[test]
    fn the_first_namespace_has_everybody_and_no_other_has() {
        assert_eq!(unseen(&tree(FIRST_NAMESPACE).root()), None);
        let why = unseen(&tree("pid:[4026532201]").root()).unwrap();
        assert!(why.contains("PID namespace"), "{why}");
        let why = unseen(&FixtureTree::empty("holders").root()).unwrap();
        assert!(why.contains("No such file"), "{why}");
    }

    #[test]
    fn descriptors_of_single_threads_count() {
        let (tree, device) = (tree(FIRST_NAMESPACE), Path::new("/dev/pseudo_lock/hot"));
        assert!(users_of(&tree.root(), device).is_empty());
        let fds = tree.root().path("/proc/1/task/7/fd");
        fs::create_dir_all(&fds).unwrap();
        symlink(device, fds.join("3")).unwrap();
        assert_eq!(users_of(&tree.root(), device), [1]);
    }

    // This process has the device open under a name that is not the one asked for.
    #[test]
    fn a_device_is_known_by_its_number() {
        let link = std::env::temp_dir().join(format!("ringfence-device-{}", std::process::id()));
        symlink("/dev/null", &link).unwrap();
        let _open = fs::File::open("/dev/null").unwrap();
        let users = users_of(&FsRoot::host(), &link);
        fs::remove_file(&link).unwrap();
        assert!(users.contains(&std::process::id()), "{users:?}");
    }
}
