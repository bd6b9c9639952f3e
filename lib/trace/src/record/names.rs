//! Changes of the names of files that are recorded.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

use super::service::Service;

// A directory's descriptor and the address of a path.
type Name = (u64, u64);

impl Service<'_> {
    /// Notes a call of a program that has changed the name of a file that is to be recorded.
    pub(super) fn names_changed(&mut self, thread: u32, a: [u64; 6]) {
        const HERE: u64 = libc::AT_FDCWD as u64;
        let [number, one, two, three, four, _] = a;
        let (verb, from, to): (_, Name, Option<Name>) = match number as i64 {
            libc::SYS_rename => ("renamed", (HERE, one), Some((HERE, two))),
            libc::SYS_renameat | libc::SYS_renameat2 => {
                ("renamed", (one, two), Some((three, four)))
            }
            libc::SYS_link => ("linked", (HERE, one), Some((HERE, two))),
            libc::SYS_linkat => ("linked", (one, two), Some((three, four))),
            libc::SYS_unlink => ("removed", (HERE, one), None),
            libc::SYS_unlinkat => ("removed", (one, two), None),
            _ => return,
        };
        let from = self.path(thread, from);
        let to = to.and_then(|to| self.path(thread, to));
        let is_asked = |path: &PathBuf| self.is_asked(path);
        // Another name for a file leaves its first one as it was.
        let first_goes = verb != "linked" && from.as_ref().is_some_and(is_asked);
        if !first_goes && !to.as_ref().is_some_and(is_asked) {
            return;
        }
        let from = from.map_or_else(|| "a file".to_owned(), |from| from.display().to_string());
        let to = to.map_or_else(String::new, |to| format!(" to {}", to.display()));
        self.writer.name_change(format!("{verb} {from}{to}"));
    }

    // Whether it is one of the files, lies in one of the folders, or is a folder on the way there.
    fn is_asked(&self, path: &Path) -> bool {
        self.options.files.iter().any(|file| path.starts_with(file) || file.starts_with(path))
    }

    // A path that a program has given to a call, without symbolic links on the way.
    fn path(&mut self, thread: u32, (folder, at): Name) -> Option<PathBuf> {
        let (process, tid) = self.memory.ids(thread);
        let mut bytes = [0; libc::PATH_MAX as usize];
        let count = self.space(thread)?.memory().read_at(&mut bytes, at).ok()?;
        let path = Path::new(OsStr::from_bytes(bytes[..count].split(|byte| *byte == 0).next()?));
        let of_thread = |what: &str| format!("/proc/{process}/task/{tid}/{what}");
        let base = match folder as i32 {
            libc::AT_FDCWD => of_thread("cwd"),
            descriptor => of_thread(&format!("fd/{descriptor}")),
        };
        let path = std::fs::read_link(base).ok()?.join(path);
        let (parent, name) = (path.parent()?, path.file_name()?);
        // What is mounted there is the program's own.
        let root = File::open(of_thread("root")).ok()?;
        let within = parent.strip_prefix("/").ok()?;
        let within = if within.as_os_str().is_empty() { Path::new(".") } else { within };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = openat2(&root, within, flags, Mode::empty(), ResolveFlags::IN_ROOT).ok()?;
        let parent = std::fs::read_link(format!("/proc/self/fd/{}", parent.as_raw_fd())).ok()?;
        Some(parent.join(name))
    }
}
