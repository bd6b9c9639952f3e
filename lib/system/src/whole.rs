//! Files that are there whole or not at all, and still are after a power cut.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What of a whole file failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {}: {source}", path.display())]
pub struct WholeError {
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl WholeError {
    /// The kind of the kernel's error.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// The errno behind the failure, if the kernel gave one.
    pub fn errno(&self) -> Option<i32> {
        self.source.raw_os_error()
    }

    /// The kernel's error, for callers with their own error message.
    pub fn into_source(self) -> io::Error {
        self.source
    }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WholeError {
    let path = path.to_owned();
    move |source| WholeError { what, path, source }
}

/// Writes a file atomically: afterwards `path` is unchanged, or has all of `content`, durably. A
/// link there is replaced and not followed. Until the end the content is in a temporary file next
/// to it, whose name starts with a dot and ends with `.PID-NUMBER.new`; only a killed program or a
/// power cut leaves it behind.
///
/// # Errors
/// The operation that failed, its file, and the kernel's error. If syncing the folder failed, the
/// new content is there, but may be lost in a power cut.
///
/// ```
/// let path = std::env::temp_dir().join(format!("whole-{}", std::process::id()));
/// ringfence_system::whole::write(&path, b"all of it")?;
/// assert_eq!(std::fs::read(&path)?, b"all of it");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write(path: &Path, content: &[u8]) -> Result<(), WholeError> {
    let (file, temporary) = beside(path)?;
    replace(file, &temporary, path, content)
}

fn replace(
    mut file: File,
    temporary: &Path,
    path: &Path,
    content: &[u8],
) -> Result<(), WholeError> {
    let written = file.write_all(content).map_err(failed("write", temporary));
    let put = written.and_then(|()| put(&file, temporary, path));
    if put.is_err() {
        // Whether this succeeds changes nothing about what is reported.
        let _ = fs::remove_file(temporary);
    }
    put
}

/// Writes a file that a user has named. A plain file is replaced as by [`write()`], and keeps its
/// mode. A device, a pipe and the target of a link are written in place, and so is a file that has
/// another owner or a second name, or is in a folder that cannot be written to.
///
/// # Errors
/// As for [`write()`]. A file that is written in place may be left incomplete.
pub fn write_named(path: &Path, content: &[u8]) -> Result<(), WholeError> {
    let there = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return write(path, content),
        Err(error) => return Err(failed("look at", path)(error)),
        Ok(there) if !there.is_file() || there.nlink() > 1 => return write_in_place(path, content),
        Ok(there) => there,
    };
    let (file, temporary) = match beside(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return write_in_place(path, content);
        }
        made => made?,
    };
    let is_ours =
        file.metadata().is_ok_and(|new| (new.uid(), new.gid()) == (there.uid(), there.gid()));
    if is_ours && file.set_permissions(there.permissions()).is_ok() {
        return replace(file, &temporary, path, content);
    }
    let _ = fs::remove_file(&temporary);
    write_in_place(path, content)
}

fn write_in_place(path: &Path, content: &[u8]) -> Result<(), WholeError> {
    let opened = OpenOptions::new().write(true).create(true).truncate(true).open(path);
    opened.and_then(|mut file| file.write_all(content)).map_err(failed("write", path))
}

/// Writes a file that must not exist yet, and otherwise as [`write()`]. On a file system without
/// hard links a program that is killed meanwhile may leave a part of it.
///
/// # Errors
/// As of [`write()`]; of the kind `AlreadyExists` where something has that name, which stays as it
/// is.
pub fn write_new(path: &Path, content: &[u8]) -> Result<(), WholeError> {
    let (file, temporary) = beside(path)?;
    let written = fill(file, content).map_err(failed("write", &temporary));
    // Unlike a rename, a link does not replace what is there.
    let put = written.and_then(|()| match fs::hard_link(&temporary, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(path)
                .map_err(failed("make", path))?;
            fill(file, content).map_err(|error| {
                let _ = fs::remove_file(path);
                failed("write", path)(error)
            })
        }
        linked => linked.map_err(failed("make", path)),
    });
    // Whether this succeeds changes nothing about what is reported.
    let _ = fs::remove_file(&temporary);
    let folder = folder_of(path);
    put.and_then(|()| sync_folder(folder).map_err(failed("sync the folder", folder)))
}

fn fill(mut file: File, content: &[u8]) -> io::Result<()> {
    file.write_all(content)?;
    file.sync_all()
}

/// Puts a file that was written under another name of the same folder in the place of `path`,
/// durably: the second half of [`write()`], for files that are made in a way of their own, or
/// written to further.
///
/// # Errors
/// As of [`write()`].
pub fn put(file: &File, temporary: &Path, path: &Path) -> Result<(), WholeError> {
    file.sync_all().map_err(failed("sync", temporary))?;
    fs::rename(temporary, path).map_err(failed("rename a new file to", path))?;
    let folder = folder_of(path);
    sync_folder(folder).map_err(failed("sync the folder", folder))
}

/// Makes the names in a folder durable.
///
/// # Errors
/// The errno.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The folder that contains a file: `.` for a bare name.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

// A new file in the same folder, of a name that no other program or thread takes meanwhile.
fn beside(path: &Path) -> Result<(File, PathBuf), WholeError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let Some(name) = path.file_name() else {
        return Err(failed("write", path)(io::Error::from(io::ErrorKind::IsADirectory)));
    };
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut new = std::ffi::OsString::from(".");
        new.push(name);
        new.push(format!(".{}-{number}.new", std::process::id()));
        let temporary = folder_of(path).join(new);
        // With O_EXCL, which follows no link.
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Ok(file) => return Ok((file, temporary)),
            // Of a killed program that had this one's number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed("make", &temporary)(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::fixture::FixtureTree;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_old_content_or_the_new_and_nothing_beside() {
        let tree = FixtureTree::empty("whole");
        let (folder, path) = (tree.root().path("/"), tree.root().path("/a"));
        write(&path, b"one").unwrap();
        write(&path, b"").unwrap();
        write(&path, b"three").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert_eq!(names(&folder), ["a"]);
    }

    #[test]
    fn what_is_new_replaces_nothing() {
        let tree = FixtureTree::empty("whole-new");
        let (folder, path) = (tree.root().path("/"), tree.root().path("/a"));
        write_new(&path, b"one").unwrap();
        let error = write_new(&path, b"two").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{error}");
        // A link is a name that is taken, whatever it points at.
        symlink("nowhere", folder.join("link")).unwrap();
        assert_eq!(
            write_new(&folder.join("link"), b"two").unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(names(&folder), ["a", "link"]);
    }

    #[test]
    fn failures_say_what_failed_and_leave_all_as_it_was() {
        let tree = FixtureTree::empty("whole");
        let folder = tree.root().path("/");
        let error = write(&folder.join("none/a"), b"x").unwrap_err();
        assert_eq!((error.errno(), error.kind()), (Some(libc::ENOENT), io::ErrorKind::NotFound));
        assert!(
            error.to_string().contains("cannot make ") && error.to_string().contains("none/.a."),
            "{error}"
        );
        // A file cannot take a folder's place.
        fs::create_dir(folder.join("dir")).unwrap();
        let error = write(&folder.join("dir"), b"x").unwrap_err();
        assert_eq!(error.errno(), Some(libc::EISDIR));
        assert!(error.to_string().contains("rename a new file to"), "{error}");
        assert_eq!(names(&folder), ["dir"]);
        assert!(write(Path::new("/"), b"x").is_err());
    }

    #[test]
    fn links_are_replaced_and_not_followed() {
        let tree = FixtureTree::empty("whole");
        let folder = tree.root().path("/");
        fs::write(folder.join("dear"), "dear").unwrap();
        symlink(folder.join("dear"), folder.join("link")).unwrap();
        write(&folder.join("link"), b"new").unwrap();
        assert_eq!(fs::read(folder.join("dear")).unwrap(), b"dear");
        assert_eq!(fs::read(folder.join("link")).unwrap(), b"new");
        assert!(fs::symlink_metadata(folder.join("link")).unwrap().is_file());
    }

    #[test]
    fn what_is_named_stays_what_it_is() {
        use std::os::unix::fs::{FileTypeExt, PermissionsExt};
        let tree = FixtureTree::empty("whole-named");
        let folder = tree.root().path("/");
        let mode =
            |name: &str| fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777;
        write_named(&folder.join("new"), b"new").unwrap();
        fs::write(folder.join("plain"), "a longer text").unwrap();
        fs::set_permissions(folder.join("plain"), fs::Permissions::from_mode(0o600)).unwrap();
        let inode = fs::metadata(folder.join("plain")).unwrap().ino();
        write_named(&folder.join("plain"), b"plain").unwrap();
        assert_eq!(
            (fs::read(folder.join("plain")).unwrap(), mode("plain")),
            (b"plain".to_vec(), 0o600)
        );
        assert_ne!(
            fs::metadata(folder.join("plain")).unwrap().ino(),
            inode,
            "the old one or the new one"
        );
        // Two names of one file, and links, dangling ones too.
        fs::hard_link(folder.join("plain"), folder.join("second")).unwrap();
        symlink("plain", folder.join("link")).unwrap();
        symlink("made", folder.join("dangling")).unwrap();
        write_named(&folder.join("link"), b"by link").unwrap();
        write_named(&folder.join("dangling"), b"made").unwrap();
        assert!(fs::symlink_metadata(folder.join("link")).unwrap().is_symlink());
        for (name, content) in
            [("new", "new"), ("plain", "by link"), ("second", "by link"), ("made", "made")]
        {
            assert_eq!(fs::read_to_string(folder.join(name)).unwrap(), content, "{name}");
        }
        // A pipe with a reader, and a device.
        let fifo = folder.join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let reader = std::thread::spawn({
            let fifo = fifo.clone();
            move || fs::read(fifo).unwrap()
        });
        write_named(&fifo, b"through a pipe").unwrap();
        assert_eq!(reader.join().unwrap(), b"through a pipe");
        assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
        // By a link of our own, so that a fault destroys no device of this machine.
        symlink("/dev/full", folder.join("full")).unwrap();
        let error = write_named(&folder.join("full"), b"x").unwrap_err();
        assert_eq!(error.errno(), Some(libc::ENOSPC));
        let left: Vec<String> =
            names(&folder).into_iter().filter(|name| name.starts_with('.')).collect();
        assert!(left.is_empty(), "{left:?}");
    }

    // A concurrent reader sees one whole content, whichever.
    #[test]
    fn writers_do_not_mix() {
        let tree = FixtureTree::empty("whole");
        let path = tree.root().path("/a");
        let contents: Vec<Vec<u8>> = (0..4u8).map(|byte| vec![byte; 100_000]).collect();
        write(&path, &contents[0]).unwrap();
        std::thread::scope(|scope| {
            for content in &contents {
                scope.spawn(|| (0..10).for_each(|_| write(&path, content).unwrap()));
            }
            for _ in 0..50 {
                assert!(contents.contains(&fs::read(&path).unwrap()));
            }
        });
        assert_eq!(names(&tree.root().path("/")), ["a"]);
    }

    #[test]
    fn a_bare_name_lies_in_the_folder_at_hand() {
        assert_eq!(folder_of(Path::new("a")), Path::new("."));
        assert_eq!(folder_of(Path::new("/a/b")), Path::new("/a"));
        assert_eq!(folder_of(Path::new("/a")), Path::new("/"));
    }
}
