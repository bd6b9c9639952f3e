//! Journals that are there: looked at, tried out, forgotten.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ringfence_system::changes::journal::{Journal, read};
use ringfence_system::changes::{folders, place};
use ringfence_system::root::FsRoot;
use serde::{Deserialize, Serialize};

use super::files::{Pending, named, names, numbered, orphaned};
use super::journal::{Header, Record};
use super::options::Options;
use super::restoration::Restored;
use super::{identity, lock, rollback};
use crate::error::Error;
use crate::fs::Resctrl;
use crate::kernel::{HostKernel, Kernel, Thread};

/// Returns what [`super::recover`] or [`super::undo_kept`] would do, without doing it; `None` if
/// there is nothing to undo.
///
/// # Errors
/// If the journal or the present state cannot be read, or a transaction is in progress.
pub fn preview(fs: &Resctrl, what: Pending, options: &Options) -> Result<Option<Restored>, Error> {
    let dirs = folders::folders(&FsRoot::host(), options.folder.as_deref());
    let there = |dir: &PathBuf| {
        let more = || [numbered(dir, Pending::Waiting), orphaned(fs.kernel(), dir)].concat();
        let waits = what == Pending::Unfinished && !more().is_empty();
        waits || dir.join(what.file()).exists()
    };
    let Some(dir) = dirs.into_iter().find(there) else { return Ok(None) };
    if what == Pending::Unfinished && lock::is_held(&dir) {
        return Err(Error::Busy(
            "a transaction is in progress: it will restore its changes itself".into(),
        ));
    }
    let _held = lock::shared_with_others(fs)?;
    let mut paths = vec![dir.join(what.file())];
    if what == Pending::Unfinished {
        paths.extend(numbered(&dir, Pending::Waiting));
        paths.extend(orphaned(fs.kernel(), &dir));
    }
    would_be(fs, &paths)
}

/// What [`super::undo_named`] would do, without doing it; `None` where nothing is kept under that
/// name.
///
/// # Errors
/// As [`preview`].
pub fn preview_named(
    fs: &Resctrl,
    name: &str,
    options: &Options,
) -> Result<Option<Restored>, Error> {
    let dirs = folders::folders(&FsRoot::host(), options.folder.as_deref());
    let file = named(Pending::Kept, name)?;
    let _held = lock::shared_with_others(fs)?;
    let paths: Vec<PathBuf> = dirs.into_iter().map(|dir| dir.join(&file)).collect();
    would_be(fs, &paths)
}

fn would_be(fs: &Resctrl, paths: &[PathBuf]) -> Result<Option<Restored>, Error> {
    let mut all = None;
    for path in paths {
        let Some(record) = read::<Record>(path)? else { continue };
        if identity::past(fs, &record.header)?.is_some() {
            continue;
        }
        let undo = rollback::way_back(fs, &record)?;
        let mut waiting = undo.rest.sentences();
        if !record.damaged.is_empty() {
            waiting.push(rollback::damage(&record.damaged, path));
        }
        let (purpose, steps, left, notes) =
            (record.header.head.purpose, undo.steps, undo.left, undo.notes);
        all = Restored::both(all, Some(Restored { purpose, steps, left, notes, waiting }));
    }
    Ok(all)
}

/// Removes a journal and leaves resctrl as it is, for changes that cannot be undone. With
/// [`Pending::Unfinished`], journals of changes that are waiting are removed as well. Returns
/// whether there was one.
///
/// # Errors
/// If a transaction is in progress, or the journal cannot be removed.
pub fn forget(what: Pending, options: &Options) -> Result<bool, Error> {
    let dir = lock::folder(options.folder.as_deref())?;
    let _lock = lock::own(&dir, None, options.wait)?;
    let mut all = vec![dir.join(what.file())];
    if what == Pending::Unfinished {
        all.extend(
            [Pending::Waiting, Pending::Damaged].iter().flat_map(|what| numbered(&dir, *what)),
        );
        all.extend(orphaned(&HostKernel::new(&FsRoot::host(), ""), &dir));
    }
    all.retain(|path| path.exists());
    all.iter().try_for_each(|path| Journal::resume(path)?.end())?;
    Ok(!all.is_empty())
}

/// What [`left`] finds on this machine that is about what is there, in words: (what it is, what it
/// was for).
pub fn pending(options: &Options) -> Vec<(Pending, String)> {
    let left = left(&FsRoot::host(), options.folder.as_deref()).into_iter();
    left.filter(|left| left.past.is_none()).map(|left| (left.what, left.purpose)).collect()
}

/// The leftover and kept changes that are visible to this user. Reads `folder`, or every user's
/// default folder below this root; creates and changes nothing.
pub fn left(root: &FsRoot, folder: Option<&Path>) -> Vec<Left> {
    let kernel = HostKernel::new(root, "");
    let boot = kernel.boot_id();
    let fs = Resctrl::find(root).ok();
    let past = |header: &Header| match &fs {
        Some(fs) => identity::past(fs, header).ok().flatten(),
        None => (header.head.boot != boot).then_some("an earlier boot"),
    };
    let mut found = Vec::new();
    for dir in folders::folders(root, folder) {
        let fixed =
            [Pending::Unfinished, Pending::Kept].map(|what| (what, None, what.file().to_owned()));
        let named = [Pending::Kept, Pending::Lent].into_iter().flat_map(|what| {
            let all = names(&dir, what).into_iter();
            all.map(move |(name, file)| (what, Some(name), file))
        });
        let more = [Pending::Waiting, Pending::Damaged].into_iter().flat_map(|what| {
            let files = numbered(&dir, what).into_iter().filter_map(|path| {
                path.file_name().map(|name| name.to_string_lossy().into_owned())
            });
            files.map(move |file| (what, None, file))
        });
        for (what, name, file) in fixed.into_iter().chain(named).chain(more) {
            let path = dir.join(file);
            let (purpose, steps, past, lives, unreadable) = match read::<Record>(&path) {
                Ok(Some(Record { header, steps, .. })) => {
                    let past = past(&header).map(str::to_owned);
                    let lives = kernel.lives(header.head.owner);
                    (header.head.purpose, steps.len(), past, lives, false)
                }
                Ok(None) => continue,
                Err(error) => (error.to_string(), 0, None, false, true),
            };
            let under_way = match what {
                Pending::Unfinished => lock::is_held(&dir),
                Pending::Lent => lives,
                _ => false,
            };
            let user = std::fs::metadata(&path).ok().map(|file| file.uid());
            let folder = dir.clone();
            found.push(Left {
                what,
                name,
                purpose,
                steps,
                under_way,
                past,
                user,
                folder,
                unreadable,
            });
        }
    }
    found
}

/// The program that keeps something under a name, if anything is; it may have ended.
pub fn owner(name: &str, options: &Options) -> Option<Thread> {
    let file = named(Pending::Kept, name).ok()?;
    let mut dirs = folders::folders(&FsRoot::host(), options.folder.as_deref()).into_iter();
    dirs.find_map(|dir| read::<Record>(&dir.join(&file)).ok().flatten())
        .map(|record| record.header.head.owner)
}

/// How names begin under which `ringfence resctrl apply` keeps settings; others are those of locked
/// regions.
pub const OWN: &str = "ringfence-";

/// A journal that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Journal"))]
pub struct Left {
    /// Why it is there.
    pub what: Pending,
    /// The name of a kept or temporary setting; `None` for the unnamed one.
    pub name: Option<String>,
    /// What the transaction is or was for; or why the journal cannot be read.
    pub purpose: String,
    /// How many steps were noted.
    pub steps: usize,
    /// Whether the transaction is in progress, or the program with a temporary setting still runs:
    /// there is nothing to undo yet.
    pub under_way: bool,
    /// What it is about, such as `an earlier boot`, where that is gone with everything that was
    /// set: the journal can go too, and does with the next step of its kind.
    #[serde(default)]
    pub past: Option<String>,
    /// The user whose file it is.
    #[serde(default)]
    pub user: Option<u32>,
    /// The folder of the journal.
    pub folder: PathBuf,
    /// Whether it cannot be read, so that nothing is known of it but its name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unreadable: bool,
}

impl Left {
    /// Whether it belongs to another user: such a journal is acted upon on request alone, since its
    /// steps are that user's word.
    pub fn is_others(&self) -> bool {
        self.user.is_some_and(|user| user != place::user())
    }

    /// The command that undoes a kept setting.
    pub fn undone_by(&self) -> String {
        match &self.name {
            Some(name) if name.starts_with(OWN) => format!("ringfence resctrl undo {name}"),
            Some(name) => format!("ringfence lock remove {name}"),
            None => "ringfence resctrl undo".into(),
        }
    }

    /// What to say of it then.
    pub fn others(&self) -> String {
        rollback::others_left(&self.purpose, self.user, &self.folder)
    }
}
