//! Folders for journals of changes.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::root::FsRoot;

use crate::changes::error::{JournalError, failed};
use crate::changes::place;

/// The default folder.
pub const DEFAULT: &str = "/run/ringfence";
// Each user's XDG_RUNTIME_DIR, where systemd makes it (pam_systemd(8)).
const SESSIONS: &str = "/run/user";

/// In one's own session.
pub fn of_session() -> Option<PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("ringfence"))
}

/// The folder for new journals: `wanted`, else root's, or the user's own if root's is not writable.
/// Creates the folder and, unless it is `wanted`, the file `lock` in it.
///
/// # Errors
/// If there is no usable folder.
pub fn to_write(wanted: Option<&Path>, lock: &str) -> Result<PathBuf, JournalError> {
    if let Some(wanted) = wanted {
        return match fs::create_dir_all(wanted) {
            Ok(()) => Ok(wanted.to_owned()),
            Err(source) => Err(unusable(wanted, source)),
        };
    }
    let own = Path::new(DEFAULT);
    let usable = |dir: &Path| {
        fs::create_dir_all(dir)?;
        place::check(dir)?;
        let mut options = OpenOptions::new();
        place::open(&dir.join(lock), options.create(true).truncate(false).write(true)).map(|_| ())
    };
    let Err(source) = usable(own) else { return Ok(own.to_owned()) };
    of_session().filter(|dir| usable(dir).is_ok()).ok_or_else(|| unusable(own, source))
}

fn unusable(dir: &Path, source: io::Error) -> JournalError {
    failed("creating the folder for the journal of changes,", dir, source)
}

/// Folders that may contain journals, below a root: root's, the user's own, and those of logged-in
/// users. Creates nothing.
pub fn folders(root: &FsRoot, wanted: Option<&Path>) -> Vec<PathBuf> {
    if let Some(wanted) = wanted {
        return vec![wanted.to_owned()];
    }
    let users = root.numbered(SESSIONS, "");
    let users = users.into_iter().map(|user| format!("{SESSIONS}/{user}/ringfence"));
    if !root.is_host() {
        // Where links lead to inside of the root.
        let folders = std::iter::once(DEFAULT.to_owned()).chain(users);
        return folders.filter_map(|folder| Some(root.path(root.resolved(folder)?))).collect();
    }
    let mut all = vec![root.path(DEFAULT)];
    for folder in of_session().into_iter().chain(users.map(|folder| root.path(folder))) {
        if !all.contains(&folder) {
            all.push(folder);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_another_root_lie_inside_of_it() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = FsRoot::at(dir.path());
        assert!(folders(&root, None).is_empty());
        fs::create_dir_all(root.path("/run/user/7/ringfence")).unwrap();
        std::os::unix::fs::symlink(outside.path(), root.path(DEFAULT)).unwrap();
        assert_eq!(folders(&root, None), [root.path("/run/user/7/ringfence")]);
        fs::remove_file(root.path(DEFAULT)).unwrap();
        std::os::unix::fs::symlink("/run/user/7/ringfence", root.path(DEFAULT)).unwrap();
        assert_eq!(folders(&root, None)[0], root.path("/run/user/7/ringfence"));
    }
}
