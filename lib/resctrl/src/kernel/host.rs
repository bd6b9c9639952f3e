//! The kernel of this machine, or a tree of files in its place.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ringfence_system::changes::lock::flock;
use ringfence_system::changes::{folders, thread};
use ringfence_system::cpulist::CpuSet;
use ringfence_system::root::{FsRoot, OFlags, field};
use rustix::fs::{AtFlags, Mode, fstatfs, fstatvfs, mkdirat, unlinkat};

use super::{Held, Identity, Kernel, WriteError, holders};
use crate::id::written;

// The folder whose lock transactions hold: it exists from mount to unmount, and no other program
// has a reason to lock it.
const CHANGES: &str = "info";

// The sticky bit (`S_ISVTX`).
const MARK: u32 = 0o1000;

/// Files below a root.
#[derive(Debug, Clone)]
pub struct HostKernel {
    root: FsRoot,
    mount: PathBuf,
}

impl HostKernel {
    /// The resctrl that is mounted at `mount`, such as `/sys/fs/resctrl`, as seen below the root.
    pub fn new(root: &FsRoot, mount: impl Into<PathBuf>) -> Self {
        Self { root: root.clone(), mount: mount.into() }
    }

    fn below(&self, path: &Path) -> PathBuf {
        self.mount.join(path)
    }

    fn folder(&self, path: &Path) -> io::Result<File> {
        self.root.open(self.below(path), OFlags::RDONLY | OFlags::DIRECTORY)
    }

    fn make(&self, path: &Path, mode: u32) -> io::Result<()> {
        let path = self.below(path);
        let (above, name) = self.root.open_parent(&path)?;
        Ok(mkdirat(above, name, Mode::from_raw_mode(mode))?)
    }
}

impl Kernel for HostKernel {
    fn read(&self, path: &Path) -> io::Result<String> {
        self.root.text(self.below(path))
    }

    fn write(&self, path: &Path, text: &str) -> Result<(), WriteError> {
        let file = self.root.open_file(self.below(path), OFlags::WRONLY);
        let mut file = file.map_err(|source| WriteError { opened: false, source })?;
        let written =
            file.write(text.as_bytes()).map_err(|source| WriteError { opened: true, source })?;
        if written == text.len() {
            return Ok(());
        }
        let source = io::Error::new(io::ErrorKind::WriteZero, "only a part of it was taken");
        Err(WriteError { opened: true, source })
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.make(path, 0o777)
    }

    fn make_marked_dir(&self, path: &Path) -> io::Result<()> {
        self.make(path, 0o777 | MARK)
    }

    fn is_marked(&self, path: &Path) -> io::Result<bool> {
        Ok(self.folder(path)?.metadata()?.mode() & MARK != 0)
    }

    fn unmark(&self, path: &Path) -> io::Result<()> {
        let folder = self.folder(path)?;
        let mode = folder.metadata()?.mode() & 0o777;
        folder.set_permissions(Permissions::from_mode(mode))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let path = self.below(path);
        let (above, name) = self.root.open_parent(&path)?;
        Ok(unlinkat(above, name, AtFlags::REMOVEDIR)?)
    }

    fn dirs(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names: Vec<String> =
            self.root.folders(self.below(path))?.iter().map(|name| written(name)).collect();
        names.sort();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> bool {
        self.root.exists(self.below(path))
    }

    fn try_lock(&self, exclusive: bool) -> io::Result<Option<Held>> {
        let file = self.folder(Path::new(""))?;
        Ok(flock(&file, exclusive)?.then(|| Box::new(file) as Held))
    }

    fn try_lock_changes(&self) -> io::Result<Option<Held>> {
        let file = self.folder(Path::new(CHANGES))?;
        Ok(flock(&file, true)?.then(|| Box::new(file) as Held))
    }

    // A line of /proc/locks: `1: FLOCK  ADVISORY  WRITE 4711 00:1f:25 0 EOF`, the file by device
    // and inode (proc(5)).
    fn holder_of_changes(&self) -> Option<u32> {
        let file = self.folder(Path::new(CHANGES)).ok()?.metadata().ok()?;
        let (major, minor) = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
        let id = format!("{major:02x}:{minor:02x}:{}", file.ino());
        self.root.read_opt("/proc/locks")?.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let held = fields.get(1) == Some(&"FLOCK") && fields.get(5) == Some(&&*id);
            if held { fields.get(4)?.parse().ok() } else { None }
        })
    }

    fn journal_folders(&self) -> Vec<PathBuf> {
        folders::folders(&self.root, None)
    }

    fn place(&self) -> String {
        self.root.path(&self.mount).display().to_string().trim_end_matches('/').to_owned()
    }

    fn started(&self, tid: u32) -> Option<u64> {
        thread::started(&self.root, tid)
    }

    fn lives(&self, process: thread::Thread) -> bool {
        thread::lives(&self.root, process)
    }

    fn threads(&self, pid: u32) -> Vec<u32> {
        self.root.numbered(format!("/proc/{pid}/task"), "")
    }

    fn process_and_parent(&self, tid: u32) -> Option<(u32, u32)> {
        let status = self.root.read_opt(format!("/proc/{tid}/status"))?;
        Some((field(&status, "Tgid")?.parse().ok()?, field(&status, "PPid")?.parse().ok()?))
    }

    fn users_of(&self, path: &Path) -> Vec<u32> {
        holders::users_of(&self.root, path)
    }

    fn unseen(&self) -> Option<String> {
        holders::unseen(&self.root)
    }

    fn online(&self) -> Option<CpuSet> {
        self.root.parse_opt("/sys/devices/system/cpu/online")
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        let folder = self.folder(path)?;
        let ino = folder.metadata()?.ino();
        if !self.root.is_host() {
            return Ok(Identity { fs: 0, ino });
        }
        if fstatfs(&folder)?.f_type as u64 != MAGIC {
            return Err(io::Error::from_raw_os_error(libc::ENOTSUP));
        }
        Ok(Identity { fs: fstatvfs(&folder)?.f_fsid, ino })
    }

    fn boot_id(&self) -> String {
        self.root.read_opt("/proc/sys/kernel/random/boot_id").unwrap_or_default()
    }
}

// `RDTGROUP_SUPER_MAGIC` of include/uapi/linux/magic.h.
const MAGIC: u64 = 0x0765_5821;

/// Whether resctrl lies there, rather than something that is mounted over it.
pub(crate) fn is_resctrl(path: &Path) -> io::Result<bool> {
    Ok(rustix::fs::statfs(path)?.f_type as u64 == MAGIC)
}
