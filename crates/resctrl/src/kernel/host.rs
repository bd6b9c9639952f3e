//! The kernel of this machine, or a tree of files in its place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use ringfence_kernel::root::{FsRoot, field};

use super::{Held, Kernel, WriteError};

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

    fn path(&self, path: &Path) -> PathBuf {
        self.root.path(self.mount.join(path))
    }
}

impl Kernel for HostKernel {
    fn read(&self, path: &Path) -> io::Result<String> {
        fs::read_to_string(self.path(path))
    }

    fn write(&self, path: &Path, text: &str) -> Result<(), WriteError> {
        let file = OpenOptions::new().write(true).open(self.path(path));
        let mut file = file.map_err(|source| WriteError { opened: false, source })?;
        let written = file.write(text.as_bytes()).map_err(|source| WriteError { opened: true, source })?;
        if written == text.len() {
            return Ok(());
        }
        let source = io::Error::new(io::ErrorKind::WriteZero, "only a part of it was taken");
        Err(WriteError { opened: true, source })
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(self.path(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(self.path(path))
    }

    fn dirs(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.path(path))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> bool {
        self.path(path).exists()
    }

    fn try_lock(&self, exclusive: bool) -> io::Result<Option<Held>> {
        let file = File::open(self.path(Path::new("")))?;
        Ok(flock(&file, exclusive)?.then(|| Box::new(file) as Held))
    }

    fn place(&self) -> String {
        self.path(Path::new("")).display().to_string().trim_end_matches('/').to_owned()
    }

    fn started(&self, tid: u32) -> Option<u64> {
        let stat = self.root.read_opt(format!("/proc/{tid}/stat"))?;
        // The name in parentheses may hold anything; the third field follows the last one.
        stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
    }

    fn threads(&self, pid: u32) -> Vec<u32> {
        self.root.numbered(format!("/proc/{pid}/task"), "")
    }

    fn process_and_parent(&self, tid: u32) -> Option<(u32, u32)> {
        let status = self.root.read_opt(format!("/proc/{tid}/status"))?;
        Some((field(&status, "Tgid")?.parse().ok()?, field(&status, "PPid")?.parse().ok()?))
    }

    fn users_of(&self, path: &Path) -> Vec<u32> {
        let uses = |pid: &u32| {
            let open = self.root.list_opt(format!("/proc/{pid}/fd")).into_iter().any(|fd| {
                let link = self.root.path(format!("/proc/{pid}/fd/{fd}"));
                fs::read_link(link).is_ok_and(|target| target == path)
            });
            let name = path.to_string_lossy();
            open || self
                .root
                .read_opt(format!("/proc/{pid}/maps"))
                .is_some_and(|maps| maps.lines().any(|line| line.ends_with(&*name)))
        };
        self.root.numbered("/proc", "").into_iter().filter(uses).collect()
    }

    fn boot_id(&self) -> String {
        self.root.read_opt("/proc/sys/kernel/random/boot_id").unwrap_or_default()
    }
}

/// Takes an advisory lock on an open file if nobody else holds it.
pub(crate) fn flock(file: &File, exclusive: bool) -> io::Result<bool> {
    let how = if exclusive { libc::LOCK_EX } else { libc::LOCK_SH };
    // SAFETY: the descriptor is open; no memory is touched.
    if unsafe { libc::flock(file.as_raw_fd(), how | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        error => Err(error),
    }
}
