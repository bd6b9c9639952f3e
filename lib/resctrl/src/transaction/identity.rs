//! Whether what is there is still what a journal is about: groups and the mount itself have names
//! that come again, and numbers that do not ([`crate::kernel::Identity`]).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use super::journal::{Header, Record};
use crate::error::{Error, Refused};
use crate::fs::Resctrl;
use crate::id::GroupId;
use crate::kernel::Identity;
use crate::mode::Mode;
use crate::state::State;

/// What this mount of resctrl is known by: `info`, which is made at each mount. `None` where there
/// is none, as in a tree of files that stands in for a machine.
pub fn session(fs: &Resctrl) -> Result<Option<Identity>, Error> {
    identity(fs, "info".as_ref())
}

/// The identity of a group; `None` if it no longer exists.
pub fn group(fs: &Resctrl, id: &GroupId) -> Result<Option<Identity>, Error> {
    identity(fs, &id.path())
}

/// What all groups of a state are known by.
pub fn groups(fs: &Resctrl, state: &State) -> Result<BTreeMap<GroupId, Identity>, Error> {
    let known = |id: &GroupId| {
        group(fs, id).map(|identity| identity.map(|identity| (id.clone(), identity)))
    };
    state
        .groups
        .keys()
        .filter(|id| !id.is_default())
        .filter_map(|id| known(id).transpose())
        .collect()
}

fn identity(fs: &Resctrl, path: &Path) -> Result<Option<Identity>, Error> {
    match fs.kernel().identity(path) {
        Ok(identity) => Ok(Some(identity)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ENOTSUP) => {
            Err(crate::error::Absent::Covered(fs.place()).into())
        }
        Err(source) => {
            Err(Refused::new(format!("looking at {}/{}", fs.place(), path.display()), source, None)
                .into())
        }
    }
}

/// What a journal is of whose changes are gone by themselves; `None` where it is about what is
/// there.
pub fn past(fs: &Resctrl, header: &Header) -> Result<Option<&'static str>, Error> {
    if header.head.boot != fs.kernel().boot_id() {
        return Ok(Some("an earlier boot"));
    }
    let gone =
        header.session.is_some() && session(fs)?.is_some_and(|now| Some(now) != header.session);
    Ok(gone.then_some("an earlier mount of resctrl"))
}

/// Groups that have the names of those that a journal is about, and are others.
pub fn strangers(fs: &Resctrl, record: &Record, now: &State) -> Result<BTreeSet<GroupId>, Error> {
    let mut strangers = BTreeSet::new();
    for id in now.groups.keys().filter(|id| !id.is_default()) {
        let before = record.header.before.groups.contains_key(id);
        let known = if before { record.header.identities.get(id) } else { record.made.get(id) };
        let same = match known {
            Some(known) => group(fs, id)?.is_none_or(|now| now == *known),
            // Journals of earlier versions do not say; and a group that no step has made is not
            // looked for.
            None => !record.is_unsure(id) || record.header.session.is_none(),
        };
        // If this program was killed before it noted the group's inode, the group still carries the
        // mark and is untouched. Without the mark, another process created it under the name that
        // the journal had first.
        let ours = || Ok::<_, Error>(untouched(now, id) && is_marked(fs, id)?);
        if !same && (before || !record.is_unsure(id) || !ours()?) {
            strangers.insert(id.clone());
        }
    }
    Ok(strangers)
}

fn is_marked(fs: &Resctrl, id: &GroupId) -> Result<bool, Error> {
    match fs.kernel().is_marked(&id.path()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        marked => marked.map_err(|source| {
            Refused::new(format!("looking at {}", fs.group(id).place("")), source, None).into()
        }),
    }
}

fn untouched(now: &State, id: &GroupId) -> bool {
    let state = &now.groups[id];
    let below = now
        .groups
        .keys()
        .any(|other| other.is_monitor() && !id.is_monitor() && other.parent() == *id);
    state.threads.is_empty()
        && state.cpus.is_empty()
        && matches!(state.mode, None | Some(Mode::Shareable))
        && !below
}
