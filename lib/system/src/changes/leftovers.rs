//! Existing journals: listed, previewed and rolled back.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::root::FsRoot;
use serde::{Deserialize, Serialize};

use crate::changes::error::{Error, JournalError};
use crate::changes::journal::{self, DAMAGED, Journal};
use crate::changes::kernel::{Host, Kernel};
use crate::changes::options::Options;
use crate::changes::record::Record;
use crate::changes::rollback::{self, Restored};
use crate::changes::set::{JOURNAL, NAME};
use crate::changes::thread::Thread;
use crate::changes::{folders, lock, place};

/// A journal of changes that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// What the changes are or were for; or why the journal cannot be read.
    pub purpose: String,
    /// How many things were changed.
    pub things: usize,
    /// The program that made them; none where the journal cannot be read.
    pub owner: Option<Thread>,
    /// Whether that program is still at it, or another one is restoring them: there is nothing to
    /// do then.
    pub under_way: bool,
    /// Whether they are from an earlier boot, and ended with it.
    pub past: bool,
    /// The user whose file it is.
    pub user: Option<u32>,
    /// The journal.
    pub path: PathBuf,
}

impl Left {
    /// Whether it belongs to another user: such a journal is not acted upon.
    pub fn is_others(&self) -> bool {
        !place::is_own(&self.path)
    }

    /// The message about it then.
    pub fn others(&self) -> String {
        let who = self.user.map_or_else(|| "another user".into(), |uid| format!("user {uid}"));
        format!(
            "'{}', started by {who}, was killed and left changes to the system ({}): that user can \
             run 'ringfence restore'",
            self.purpose,
            self.path.display()
        )
    }
}

// A process that checks a lock, and a child between fork and exec, hold it for a moment.
const LOOKED_AT: Duration = Duration::from_millis(100);

/// All journals of changes that this user may see: in `folder`, or in every user's default folder
/// below this root. Creates and changes nothing.
pub fn left(root: &FsRoot, folder: Option<&Path>) -> Vec<Left> {
    left_on(&Host::new(root), root, folder)
}

pub(crate) fn left_on(kernel: &dyn Kernel, root: &FsRoot, folder: Option<&Path>) -> Vec<Left> {
    let paths = folders::folders(root, folder).into_iter().flat_map(|dir| files(&dir, JOURNAL));
    let look = |path: PathBuf| {
        let user = std::fs::symlink_metadata(&path).ok().map(|file| file.uid());
        let of = |purpose, things, owner, under_way, past| {
            Some(Left { purpose, things, owner, under_way, past, user, path: path.clone() })
        };
        match journal::read::<Record>(&path) {
            Ok(Some(record)) => {
                let (things, owner) = (record.things().len(), record.head.owner);
                let past = record.head.boot != kernel.boot_id();
                let under_way = !past && (kernel.lives(owner) || is_held(&path));
                of(record.head.purpose, things, Some(owner), under_way, past)
            }
            Ok(None) => None,
            Err(error) => of(error.to_string(), 0, None, is_held(&path), false),
        }
    };
    paths.filter_map(look).collect()
}

/// Journals with invalid lines: the rest was restored, and they are kept for a user to inspect. In
/// `folder`, or in the default folders below this root.
pub fn damaged(root: &FsRoot, folder: Option<&Path>) -> Vec<PathBuf> {
    folders::folders(root, folder).into_iter().flat_map(|dir| files(&dir, DAMAGED)).collect()
}

fn is_held(path: &Path) -> bool {
    std::fs::File::open(path).and_then(|file| lock::flock(&file, false)).is_ok_and(|free| !free)
}

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let named = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(NAME))
            && path.extension().is_some_and(|is| is == extension)
    };
    let mut files: Vec<PathBuf> = entries.filter(named).collect();
    files.sort();
    files
}

/// The owner of the changes to undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Of all programs that live no more.
    Anybody,
    /// Of this process, which is ending: that is waited for so long.
    Of(u32, Duration),
}

/// What came of putting back one journal's changes.
#[derive(Debug)]
pub struct PutBack {
    /// The journal.
    pub path: PathBuf,
    /// The changes that were undone, or the error.
    pub result: Result<Restored, Error>,
}

/// Restores the leftovers of programs of this user, the latest first. Those of other users, and
/// unreadable ones, are skipped ([`left`] names them).
pub fn put_back_left(root: &FsRoot, whose: Whose, options: &Options) -> Vec<PutBack> {
    put_back_on(&(Arc::new(Host::new(root)) as Arc<dyn Kernel>), root, whose, options)
}

pub(crate) fn put_back_on(
    kernel: &Arc<dyn Kernel>,
    root: &FsRoot,
    whose: Whose,
    options: &Options,
) -> Vec<PutBack> {
    let folder = options.folder.as_deref();
    folders::folders(root, folder).iter().for_each(|dir| sweep_unborn(&**kernel, dir));
    let (only, wait) = match whose {
        Whose::Anybody => (None, Duration::ZERO),
        Whose::Of(pid, wait) => (Some(pid), wait),
    };
    let wanted = |left: &Left| {
        left.owner.is_some_and(|owner| only.is_none_or(|pid| owner.tid == pid)) && !left.is_others()
    };
    let mut all: Vec<Left> = left_on(&**kernel, root, folder).into_iter().filter(wanted).collect();
    // Where several have changed one thing in turn, the later ones found what the earlier ones had
    // set.
    all.sort_by_key(|left| std::cmp::Reverse(modified(&left.path)));
    let one = |left: Left| {
        let result = put_back_one(&**kernel, &left, wait, options).transpose()?;
        let leftover =
            |source| Error::Leftover { purpose: left.purpose.clone(), source: Box::new(source) };
        Some(PutBack { path: left.path.clone(), result: result.map_err(leftover) })
    };
    all.into_iter().filter_map(one).collect()
}

fn modified(path: &Path) -> Option<std::time::SystemTime> {
    std::fs::symlink_metadata(path).and_then(|file| file.modified()).ok()
}

// `None` where it is under way, or has been put back meanwhile.
fn put_back_one(
    kernel: &dyn Kernel,
    left: &Left,
    wait: Duration,
    options: &Options,
) -> Result<Option<Restored>, Error> {
    let journal = match Journal::resume(&left.path) {
        Err(JournalError::Unusable { source, .. }) if source.kind() == ErrorKind::NotFound => {
            return Ok(None);
        }
        journal => journal?,
    };
    let ours = |owner: Thread| owner.tid == std::process::id();
    let lives =
        || left.owner.is_some_and(|owner| !left.past && !ours(owner) && kernel.lives(owner));
    // A program that is killed lets go of its lock a moment before it counts as dead.
    let died =
        lock::patiently(Instant::now() + wait, || Ok::<_, JournalError>((!lives()).then_some(())))?;
    let free = || Ok::<_, JournalError>(journal.try_lock()?.then_some(()));
    if died.is_none()
        || lock::patiently(Instant::now() + LOOKED_AT, free)?.is_none()
        || !journal.is_there()
    {
        return Ok(None);
    }
    // By now all of it is written.
    let Some(record) = journal::read::<Record>(&left.path)? else { return Ok(None) };
    if left.past {
        journal.end()?;
        return Ok(None);
    }
    rollback::go_back(kernel, &record, journal, options).map(Some)
}

/// Returns what [`put_back_left`] would do with a journal, without doing it.
///
/// # Errors
/// If the journal or the present state cannot be read.
pub fn preview(root: &FsRoot, left: &Left) -> Result<Option<Restored>, Error> {
    let kernel = Host::new(root);
    let Some(record) = journal::read::<Record>(&left.path)? else { return Ok(None) };
    let (way, failed) = rollback::way_back(&kernel, &record);
    if let Some(error) = failed {
        return Err(error);
    }
    let mut restored = way.told(&record);
    if !record.damaged.is_empty() {
        restored.notes.push(rollback::damage(&record, &left.path));
    }
    Ok(Some(restored))
}

// Journals that their programs were killed while beginning: nothing was changed then.
fn sweep_unborn(kernel: &dyn Kernel, dir: &Path) {
    for path in files(dir, "new") {
        let owner = || {
            let mut numbers = path.file_name()?.to_str()?.strip_prefix(NAME)?.split('-');
            Some(Thread {
                tid: numbers.next()?.parse().ok()?,
                start: numbers.next()?.parse().ok()?,
            })
        };
        if owner().is_some_and(|owner| !kernel.lives(owner))
            && place::is_own(&path)
            && !is_held(&path)
        {
            let _ = std::fs::remove_file(&path);
        }
    }
}
