//! Where the kernel's files are read from.
//!
//! Everything that looks at `/sys` or `/proc` takes an [`FsRoot`], so that a directory with a copy
//! of another machine's files can replace this one.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

pub use rustix::fs::OFlags;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, ResolveFlags, fcntl_setfl, fstat, open, openat2, statat,
};
use rustix::io::Errno;

use crate::cpulist::CpuSet;

/// A directory that contains `sys/` and `proc/`: `/` on the host, a fixture in tests.
///
/// ```
/// use ringfence_system::root::FsRoot;
/// let version = FsRoot::host().read_trimmed("/proc/sys/kernel/osrelease").unwrap();
/// assert!(!version.is_empty());
/// ```
#[derive(Debug, Clone)]
pub struct FsRoot {
    base: PathBuf,
    /// `/proc/cpuinfo`, which has a megabyte for each thousand CPUs, once it was read.
    cpuinfo: Arc<OnceLock<Option<String>>>,
}

impl PartialEq for FsRoot {
    fn eq(&self, other: &Self) -> bool {
        self.base == other.base
    }
}

impl Eq for FsRoot {}

/// Bytes of the longest file that is read: `/proc/cpuinfo` of 8,192 CPUs, the most that Linux has,
/// takes 12 MB.
const LONGEST: u64 = 32 << 20;

/// Why a file or directory of the kernel could not be used.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// The file is there or not, but reading it failed; the errno is in `source`.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The whole path, root included.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The file was read and does not hold what it should.
    #[error("{} holds '{}', expected {expected}", path.display(), crate::text::printable(text))]
    Content {
        /// The whole path, root included.
        path: PathBuf,
        /// What it holds, shortened.
        text: String,
        /// What would have been right.
        expected: String,
    },
}

/// CPUs that the kernel names in a file, if it does.
#[derive(Debug)]
pub enum Cpus {
    /// There is no such file.
    Missing,
    /// There is one, and it cannot be read or names no CPUs in a known form.
    Unreadable(RootError),
    /// These; they may be none.
    Named(CpuSet),
}

impl Cpus {
    /// The CPUs, if they are known.
    pub fn named(self) -> Option<CpuSet> {
        match self {
            Self::Named(cpus) => Some(cpus),
            Self::Missing | Self::Unreadable(_) => None,
        }
    }
}

impl RootError {
    /// The errno behind the failure, if the kernel gave one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            RootError::Read { source, .. } => source.raw_os_error(),
            RootError::Content { .. } => None,
        }
    }

    /// Whether the file simply does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, RootError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl FsRoot {
    /// This machine.
    pub fn host() -> Self {
        Self::at("/")
    }

    /// A tree that holds `sys/` and `proc/`.
    pub fn at(base: impl Into<PathBuf>) -> Self {
        Self { base: base.into(), cpuinfo: Arc::default() }
    }

    /// Whether this is the machine that the program runs on. Only then may CPUID and system calls
    /// be used.
    pub fn is_host(&self) -> bool {
        self.base == Path::new("/")
    }

    /// The location on disk of `path` (such as `/sys/devices`).
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.base.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Opens `path`. Below the root of another machine, links are resolved inside of the root.
    ///
    /// # Errors
    /// The errno.
    pub fn open(&self, path: impl AsRef<Path>, flags: OFlags) -> io::Result<File> {
        let path = path.as_ref();
        // A FIFO must not block. openat2 refuses these flags together with PATH.
        let reading = OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = flags
            | OFlags::CLOEXEC
            | if flags.contains(OFlags::PATH) { OFlags::empty() } else { reading };
        if self.is_host() {
            return Ok(open(self.path(path), flags, Mode::empty())?.into());
        }
        let base =
            open(&self.base, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let below = path.strip_prefix("/").unwrap_or(path);
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        match openat2(&base, below, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            // Linux before 5.6, and sandboxes that know no newer calls.
            Err(Errno::NOSYS) => {
                let (whole, base) = (self.path(path).canonicalize()?, self.base.canonicalize()?);
                if !whole.starts_with(base) {
                    return Err(Errno::NOENT.into());
                }
                Ok(rustix::fs::openat(CWD, whole, flags, Mode::empty())?.into())
            }
            opened => Ok(opened?.into()),
        }
    }

    /// Opens an existing regular file, without blocking on anything else.
    ///
    /// # Errors
    /// The errno, or that it is no regular file.
    pub fn open_file(&self, path: impl AsRef<Path>, flags: OFlags) -> io::Result<File> {
        let file = self.open(path, flags)?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        // Since Linux 6.16, a write to memory.high reclaims less at once if the descriptor is
        // non-blocking (`memory_high_write`).
        fcntl_setfl(&file, OFlags::empty())?;
        Ok(file)
    }

    /// Opens the parent folder of `path`. Returns it with the name in it, for `mkdirat`, `unlinkat`
    /// and similar calls.
    ///
    /// # Errors
    /// The errno; `ENOENT` for a path without a name.
    pub fn open_parent<'a>(&self, path: &'a Path) -> io::Result<(File, &'a OsStr)> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::NOENT.into());
        };
        Ok((self.open(folder, OFlags::PATH | OFlags::DIRECTORY)?, name))
    }

    /// Where a link leads, as it says itself; `None` where there is none.
    pub fn link(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        let (folder, name) = self.open_parent(path.as_ref()).ok()?;
        let target = rustix::fs::readlinkat(folder, name, Vec::new()).ok()?;
        Some(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    /// Where `path` ends up behind all links, as seen below the root; `None` where that is nowhere.
    pub fn resolved(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        let file = self.open(path, OFlags::PATH).ok()?;
        let whole = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        Some(Path::new("/").join(whole.strip_prefix(self.base.canonicalize().ok()?).ok()?))
    }

    /// What a regular file of up to 32 MiB holds.
    ///
    /// # Errors
    /// The errno, or that it is something else.
    pub fn bytes(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let file = self.open_file(path, OFlags::RDONLY)?;
        let mut bytes = Vec::new();
        file.take(LONGEST + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LONGEST {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is longer than 32 MiB"));
        }
        Ok(bytes)
    }

    /// The same as text.
    ///
    /// # Errors
    /// As above, or that it is not UTF-8.
    pub fn text(&self, path: impl AsRef<Path>) -> io::Result<String> {
        let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8");
        String::from_utf8(self.bytes(path)?).map_err(not_text)
    }

    /// Whether `path` exists.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.open(path, OFlags::PATH).is_ok()
    }

    /// The text of `/proc/cpuinfo`, empty where it cannot be read. It is read once.
    pub fn cpuinfo(&self) -> &str {
        self.cpuinfo.get_or_init(|| self.read_opt("/proc/cpuinfo")).as_deref().unwrap_or_default()
    }

    /// The text of `path` without leading and trailing white space. Only a regular file of up to 32
    /// MiB is read.
    pub fn read_trimmed(&self, path: impl AsRef<Path>) -> Result<String, RootError> {
        let path = path.as_ref();
        let bytes =
            self.bytes(path).map_err(|source| RootError::Read { path: self.path(path), source })?;
        // Linux 5.15-rc ended some of its lists of CPUs with a NUL.
        let ends = |c: char| c.is_whitespace() || c == '\0';
        Ok(String::from_utf8_lossy(&bytes).trim_matches(ends).to_string())
    }

    /// The CPUs that the kernel names in folder `dir`: in the file `list` as a list (`0-3`), else
    /// in `mask` as a mask (`f`). Old kernels and copies of a machine's files have the mask alone.
    pub fn cpus(&self, dir: impl AsRef<Path>, list: &str, mask: &str) -> Cpus {
        let (list, mask) = (dir.as_ref().join(list), dir.as_ref().join(mask));
        let first = match self.read_parsed(&list, "a CPU list") {
            Ok(cpus) => return Cpus::Named(cpus),
            Err(error) => error,
        };
        let read = |text: String| {
            CpuSet::from_mask(&text).map_err(|_| self.content(&mask, &text, "a CPU mask"))
        };
        match self.read_trimmed(&mask).and_then(read) {
            Ok(cpus) => Cpus::Named(cpus),
            Err(second) if first.is_missing() && second.is_missing() => Cpus::Missing,
            Err(second) => Cpus::Unreadable(if first.is_missing() { second } else { first }),
        }
    }

    /// The text of `path`, or `None` where it is missing or may not be read.
    pub fn read_opt(&self, path: impl AsRef<Path>) -> Option<String> {
        self.read_trimmed(path).ok()
    }

    /// The value in `path`, or an error that says what it holds instead.
    pub fn read_parsed<T: FromStr>(
        &self,
        path: impl AsRef<Path>,
        expected: &str,
    ) -> Result<T, RootError> {
        let path = path.as_ref();
        let text = self.read_trimmed(path)?;
        text.parse().map_err(|_| self.content(path, &text, expected))
    }

    fn content(&self, path: &Path, text: &str, expected: &str) -> RootError {
        let text = text.chars().take(80).collect();
        RootError::Content { path: self.path(path), text, expected: expected.into() }
    }

    /// The value in `path`, or `None` where it is missing, unreadable or something else.
    pub fn parse_opt<T: FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.read_opt(path)?.parse().ok()
    }

    /// The names in directory `path`, sorted.
    pub fn list(&self, path: impl AsRef<Path>) -> Result<Vec<String>, RootError> {
        let path = path.as_ref();
        let fail = |source| RootError::Read { path: self.path(path), source };
        let folder = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY).map_err(fail)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&folder).map_err(|errno| fail(errno.into()))? {
            let entry = entry.map_err(|errno| fail(errno.into()))?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.retain(|name| name != "." && name != "..");
        names.sort();
        Ok(names)
    }

    /// The names of the folders in directory `path`, as they are, sorted. Links are none.
    ///
    /// # Errors
    /// The errno.
    pub fn folders(&self, path: impl AsRef<Path>) -> io::Result<Vec<OsString>> {
        let folder = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let stat = match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                // It has gone meanwhile.
                Err(Errno::NOENT) => continue,
                stat => stat?,
            };
            if name != c"."
                && name != c".."
                && FileType::from_raw_mode(stat.st_mode) == FileType::Directory
            {
                names.push(OsString::from_vec(name.to_bytes().to_vec()));
            }
        }
        names.sort();
        Ok(names)
    }

    /// The names in directory `path`, sorted; none where it is missing or may not be read.
    pub fn list_opt(&self, path: impl AsRef<Path>) -> Vec<String> {
        self.list(path).unwrap_or_default()
    }

    /// The numbers of entries named `prefix` + number in directory `path`, ascending
    /// (`cpu0`, `cpu1`, `cpu10` for the prefix `cpu`).
    pub fn numbered(&self, path: impl AsRef<Path>, prefix: &str) -> Vec<u32> {
        let mut numbers: Vec<u32> = self
            .list_opt(path)
            .iter()
            .filter_map(|name| name.strip_prefix(prefix)?.parse().ok())
            .collect();
        numbers.sort_unstable();
        numbers
    }
}

/// The number behind `key` in text of the form `Key:   123 kB` or `Key\t123`, one per line,
/// as `/proc/meminfo`, `/proc/self/status` and a node's `meminfo` have it.
pub fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.split_whitespace().next_back()? == key).then(|| value.trim())
    })
}

/// As [`field`], for sizes given in kB, in bytes.
pub fn field_kib(text: &str, key: &str) -> Option<u64> {
    let kib: u64 = field(text, key)?.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_path_and_the_errno() {
        let root = FsRoot::at("/nonexistent-root");
        let error = root.read_trimmed("/sys/a").unwrap_err();
        assert_eq!(error.errno(), Some(libc::ENOENT));
        assert!(error.is_missing());
        assert!(error.to_string().contains("/nonexistent-root/sys/a"), "{error}");
        assert!(root.list("/sys").is_err());
        assert!(root.list_opt("/sys").is_empty());
        assert_eq!(root.parse_opt::<u32>("/sys/a"), None);
    }

    #[test]
    fn cpus_are_missing_unreadable_or_named() {
        let tree = crate::fixture::FixtureTree::empty("cpus");
        let root = tree.root();
        let read = |list: Option<&str>, mask: Option<&str>| {
            for (name, text) in [("list", list), ("map", mask)] {
                match text {
                    Some(text) => _ = tree.write(name, text),
                    None if root.exists(name) => _ = tree.remove(name),
                    None => {}
                }
            }
            root.cpus("/", "list", "map")
        };
        let named = |list, mask| read(list, mask).named().map(|cpus| cpus.to_string());
        assert!(matches!(read(None, None), Cpus::Missing));
        assert_eq!(named(Some("0-3\n"), Some("1\n")).unwrap(), "0-3");
        assert_eq!(named(Some("0-3\n\0"), None).unwrap(), "0-3");
        assert_eq!(named(None, Some("00000001,0000000f\n\0")).unwrap(), "0-3,32");
        assert_eq!(named(Some("a"), Some("f")).unwrap(), "0-3");
        assert_eq!(named(Some("\n"), None).unwrap(), "");
        assert_eq!(named(None, Some("0\n")).unwrap(), "");
        for (list, mask) in
            [(Some("a"), None), (None, Some("x")), (None, Some("")), (None, Some("f,,f"))]
        {
            assert!(matches!(read(list, mask), Cpus::Unreadable(_)), "{list:?} {mask:?}");
        }
        let beyond = format!("1{}", ",00000000".repeat(2048));
        assert!(matches!(read(None, Some(&beyond)), Cpus::Unreadable(_)));
    }

    #[test]
    fn only_regular_files_inside_of_the_root_are_read() {
        let tree = crate::fixture::FixtureTree::empty("hostile");
        let root = tree.root();
        tree.write("/a/real", "1\n").write("/etc/hostname", "inside\n");
        let at = |path: &str| root.path(path);
        std::os::unix::fs::symlink("/etc/hostname", at("/absolute")).unwrap();
        std::os::unix::fs::symlink("../../../../../../etc/hostname", at("/a/above")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("/zero")).unwrap();
        std::os::unix::fs::symlink("loop", at("/loop")).unwrap();
        rustix::fs::mknodat(CWD, at("/fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        File::create(at("/large")).unwrap().set_len(LONGEST + 1).unwrap();
        assert_eq!(root.read_trimmed("/absolute").unwrap(), "inside");
        assert_eq!(root.read_trimmed("/a/above").unwrap(), "inside");
        for path in ["/zero", "/loop", "/fifo", "/large", "/a"] {
            let error = root.read_trimmed(path).unwrap_err();
            assert!(error.to_string().contains(path), "{error}");
        }
        assert!(!root.exists("/zero") && root.exists("/fifo") && root.exists("/a/above"));
        assert_eq!(root.list("/a").unwrap(), ["above", "real"]);
        assert_eq!(root.link("/absolute").unwrap(), Path::new("/etc/hostname"));
        assert_eq!(root.resolved("/a/above").unwrap(), Path::new("/etc/hostname"));
        assert_eq!((root.resolved("/"), root.link("/a/real")), (Some("/".into()), None));
        assert_eq!((root.resolved("/zero"), root.resolved("/loop")), (None, None));
        // A link to a folder outside leads to none inside, so that nothing is made or removed
        // there.
        std::os::unix::fs::symlink("/usr", at("/outside")).unwrap();
        assert!(
            root.open_parent(Path::new("/outside/new")).is_err() && root.list("/outside").is_err()
        );
        assert!(
            root.open_file("/fifo", OFlags::WRONLY).is_err()
                && root.open_file("/zero", OFlags::WRONLY).is_err()
        );
        assert!(root.list("/fifo").is_err());
    }

    #[test]
    fn fields_of_meminfo() {
        let text = "MemTotal:  100 kB\nNode 0 MemFree:  8 kB\nHugePages_Total: 0\n";
        assert_eq!(field_kib(text, "MemTotal"), Some(102_400));
        assert_eq!(field_kib(text, "MemFree"), Some(8192));
        assert_eq!(field(text, "HugePages_Total"), Some("0"));
        assert_eq!(field(text, "Mem"), None);
    }

    #[test]
    fn the_host_is_the_host() {
        assert!(FsRoot::host().is_host());
        assert!(!FsRoot::at("/proc").is_host());
        assert!(FsRoot::host().read_parsed::<u32>("/proc/version", "a number").is_err());
    }
}
