//! Where journals of changes may lie.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use ringfence_sysfs::root::FsRoot;

use crate::error::{JournalError, failed};
use crate::place;

/// Where they lie by default.
pub const DEFAULT: &str = "/run/ringfence";
// Each user's XDG_RUNTIME_DIR, where systemd makes it (pam_systemd(8)).
const SESSIONS: &str = "/run/user";

/// In one's own session.
pub fn of_session() -> Option<PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("ringfence"))
}

/// The folder for journals to be written: the one that is wanted, root's, or where that may not be written to, one's
/// own. It is made; so is, but for a wanted one, the file `lock` in it.
///
/// # Errors
/// Where there is none that can be used.
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
    failed("making the folder for the journal of changes,", dir, source)
}

/// Where journals may lie, as seen below a root: root's, one's own, and those of whoever is logged in.
/// Nothing is made.
pub fn folders(root: &FsRoot, wanted: Option<&Path>) -> Vec<PathBuf> {
    if let Some(wanted) = wanted {
        return vec![wanted.to_owned()];
    }
    let mut all = vec![root.path(DEFAULT)];
    all.extend(of_session().filter(|_| root.is_host()));
    for user in root.numbered(SESSIONS, "") {
        let folder = root.path(format!("{SESSIONS}/{user}/ringfence"));
        if !all.contains(&folder) {
            all.push(folder);
        }
    }
    all
}
