//! Files of a folder that other users may reach: no link is followed, and what another user has put
//! there is neither overwritten nor believed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::whole;

/// The user that runs this program.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn refuse(path: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{} {why}", path.display()))
}

// Where all users may write but remove only what is theirs, as in /tmp, a file's own owner decides.
const STICKY: u32 = 0o1000;
const EVERYBODY: u32 = 0o002;

/// Refuses a folder in which any user could put another file in the place of a journal.
///
/// # Errors
/// Why it is refused, or the errno.
pub fn check(folder: &Path) -> io::Result<()> {
    let meta = fs::metadata(folder)?;
    if !meta.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
    }
    if meta.mode() & EVERYBODY != 0 && meta.mode() & STICKY == 0 {
        return Err(refuse(folder, "can be written to by every user"));
    }
    // Root looks into users' own folders; a user has no business in another's.
    if ![0, user()].contains(&meta.uid()) && user() != 0 {
        return Err(refuse(folder, &format!("belongs to user {}", meta.uid())));
    }
    Ok(())
}

/// A new file in place of whatever has that name, which is removed and not followed.
///
/// # Errors
/// As of [`check`], or the errno.
pub fn create(path: &Path) -> io::Result<File> {
    check(whole::folder_of(path))?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // With O_EXCL, which follows no link.
    OpenOptions::new().create_new(true).write(true).open(path)
}

/// Opens a regular file; no link is followed.
///
/// # Errors
/// The errno, or that it is a link or no regular file.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file =
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).map_err(|error| {
            let link = error.raw_os_error() == Some(libc::ELOOP);
            if link { refuse(path, "is a symbolic link, which is not followed") } else { error }
        })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(refuse(path, "is not a regular file")) }
}

/// Whether a journal may be acted upon unasked: it belongs to this user, to root, or to the owner
/// of a folder that others may not write to.
pub fn is_believed(path: &Path) -> bool {
    let known =
        || Some((fs::symlink_metadata(path).ok()?, fs::metadata(whole::folder_of(path)).ok()?));
    known().is_some_and(|(file, folder)| {
        owner_believed(file.uid(), folder.uid(), folder.mode(), user())
    })
}

/// Whether a file is this user's own, in a folder where no other user could have put it: root must
/// not do what a user's journal says, which may name any file.
pub fn is_own(path: &Path) -> bool {
    let owner = fs::symlink_metadata(path).map(|file| file.uid());
    owner.is_ok_and(|owner| owner == user()) && check(whole::folder_of(path)).is_ok()
}

fn owner_believed(file: u32, folder: u32, mode: u32, user: u32) -> bool {
    // A folder's owner may do anything in it; root looks into those of users.
    [0, user].contains(&file) || file == folder && mode & EVERYBODY == 0
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn links_are_neither_followed_nor_written_through() {
        let dir = tempfile::tempdir().unwrap();
        let (victim, new) = (dir.path().join("victim"), dir.path().join("resctrl.new"));
        fs::write(&victim, "dear").unwrap();
        symlink(&victim, &new).unwrap();
        create(&new).unwrap().write_all(b"ours").unwrap();
        assert_eq!(
            (fs::read(&victim).unwrap(), fs::read(&new).unwrap()),
            (b"dear".into(), b"ours".into())
        );
        fs::remove_file(&new).unwrap();
        symlink(&victim, &new).unwrap();
        let refused = open(&new, OpenOptions::new().read(true)).unwrap_err().to_string();
        assert!(refused.contains("resctrl.new is a symbolic link"), "{refused}");
        assert!(open(&victim, OpenOptions::new().read(true)).is_ok());
    }

    #[test]
    fn folders_of_everybody_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mode =
            |mode: u32| fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
        mode(0o777);
        let refused = create(&dir.path().join("resctrl.new")).unwrap_err().to_string();
        assert!(refused.contains("written to by every user"), "{refused}");
        mode(0o1777);
        assert!(create(&dir.path().join("resctrl.new")).is_ok());
    }

    #[test]
    fn whose_files_are_believed() {
        // In one's own folder, in root's, and as root in a user's.
        assert!(
            owner_believed(7, 7, 0o700, 7)
                && owner_believed(0, 0, 0o755, 7)
                && owner_believed(7, 7, 0o700, 0)
        );
        // Another user's in /tmp, whichever user asks.
        assert!(!owner_believed(8, 0, 0o1777, 7) && !owner_believed(8, 0, 0o1777, 0));
        assert!(!owner_believed(8, 8, 0o1777, 0) && owner_believed(7, 0, 0o1777, 7));
    }
}
