//! Where journals of changes may lie.

use std::path::{Path, PathBuf};

use ringfence_sysfs::root::FsRoot;

/// Where they lie by default.
pub const DEFAULT: &str = "/run/ringfence";
// Each user's XDG_RUNTIME_DIR, where systemd makes it (pam_systemd(8)).
const SESSIONS: &str = "/run/user";

/// In one's own session.
pub fn of_session() -> Option<PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("ringfence"))
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
