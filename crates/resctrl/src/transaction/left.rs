//! Journals that are there: looked at, tried out, forgotten.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ringfence_kernel::root::FsRoot;
use serde::{Deserialize, Serialize};

use super::journal::{self, Journal, Record};
use super::{Options, Restored, Step, Table, lock, undo};
use crate::error::Error;
use crate::fs::Resctrl;
use crate::id::GroupId;
use crate::kernel::{HostKernel, Kernel, Thread};
use crate::state::State;

/// What [`super::recover`] or [`super::undo_kept`] would do, without doing it; `None` where there is nothing to put back.
///
/// # Errors
/// Where the journal or the present state cannot be read, or a transaction is under way.
pub fn preview(fs: &Resctrl, what: Pending, options: &Options) -> Result<Option<Restored>, Error> {
    let dirs = lock::folders(&FsRoot::host(), options.folder.as_deref());
    let Some(dir) = dirs.into_iter().find(|dir| dir.join(what.file()).exists()) else { return Ok(None) };
    if what == Pending::Unfinished && lock::is_held(&dir) {
        return Err(Error::Busy("a transaction is under way: it will put things back itself".into()));
    }
    let Some(Record { header, steps }) = journal::read(&dir.join(what.file()))? else { return Ok(None) };
    if header.boot != fs.kernel().boot_id() {
        return Ok(None);
    }
    let _held = lock::shared_with_others(fs)?;
    let now = State::read(fs)?;
    let table = Table { fs, before: &header.before };
    let undo = undo::undo(&header.before, &steps, &now, &fs.info()?, &table);
    Ok(Some(Restored { purpose: header.purpose, steps: undo.steps, left: undo.left }))
}

/// Removes a journal with everything left as it is: for when it cannot be put back. Returns whether there
/// was one.
///
/// # Errors
/// Where a transaction is under way, or the journal cannot be removed.
pub fn forget(what: Pending, options: &Options) -> Result<bool, Error> {
    let dir = lock::folder(options.folder.as_deref())?;
    let _lock = lock::own(&dir, options.wait)?;
    let path = dir.join(what.file());
    if !path.exists() {
        return Ok(false);
    }
    Journal::go_on(&path)?.end().map(|()| true)
}

/// What [`left`] finds on this machine, in words: (what it is, what it was for).
pub fn pending(options: &Options) -> Vec<(Pending, String)> {
    let left = left(&FsRoot::host(), options.folder.as_deref());
    left.into_iter().map(|left| (left.what, left.purpose)).collect()
}

/// What is left behind or kept, as far as this user may see it. Looks into `folder`, or where journals lie by
/// default below this root; makes and changes nothing. Journals of an earlier boot do not count.
pub fn left(root: &FsRoot, folder: Option<&Path>) -> Vec<Left> {
    let boot = HostKernel::new(root, "").boot_id();
    let mut found = Vec::new();
    for dir in lock::folders(root, folder) {
        let fixed = [Pending::Unfinished, Pending::Kept].map(|what| (what, None, what.file().to_owned()));
        let named = names(&dir).into_iter().map(|(name, file)| (Pending::Kept, Some(name), file));
        for (what, name, file) in fixed.into_iter().chain(named) {
            let (purpose, steps) = match journal::read(&dir.join(file)) {
                Ok(Some(Record { header, .. })) if header.boot != boot => continue,
                Ok(Some(Record { header, steps })) => (header.purpose, steps.len()),
                Ok(None) => continue,
                Err(error) => (error.to_string(), 0),
            };
            let under_way = what == Pending::Unfinished && lock::is_held(&dir);
            found.push(Left { what, name, purpose, steps, under_way, folder: dir.clone() });
        }
    }
    found
}

const NAMED: &str = "resctrl.kept-";

/// The journal of what is kept under a name.
pub(super) fn named(name: &str) -> Result<String, Error> {
    GroupId::control(name).check()?;
    Ok(format!("{NAMED}{name}"))
}

fn names(dir: &Path) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<(String, String)> =
        files.filter_map(|file| Some((file.strip_prefix(NAMED)?.to_owned(), file))).collect();
    names.sort();
    names
}

/// The program that keeps something under a name, if anything is; it may have ended.
pub fn owner(name: &str, options: &Options) -> Option<Thread> {
    let file = named(name).ok()?;
    let mut dirs = lock::folders(&FsRoot::host(), options.folder.as_deref()).into_iter();
    dirs.find_map(|dir| journal::read(&dir.join(&file)).ok().flatten()).map(|record| record.header.owner)
}

/// What was kept later than this journal and set the same things, so that this one cannot be put back before
/// it: the steps of either would no longer explain what is there.
pub(super) fn built_on(dir: &Path, file: &str) -> Result<Option<String>, Error> {
    if file == Pending::Unfinished.file() {
        return Ok(None);
    }
    let Some(this) = journal::read(&dir.join(file))? else { return Ok(None) };
    let wrote = |record: &Record| -> BTreeSet<String> {
        let settings = record.steps.iter().filter_map(|step| match step {
            Step::Schemata { group, schemata } => Some((group, schemata)),
            _ => None,
        });
        let each = settings.flat_map(|(group, schemata)| {
            schemata.settings().map(move |(resource, domain, _)| format!("{group}/{resource}:{domain}"))
        });
        each.collect()
    };
    // It was there when the other began: its settings, or a group that it has made, are among the other's past.
    let before = |other: &Record| {
        this.steps.iter().any(|step| match step {
            Step::Create { group } => other.header.before.groups.contains_key(group),
            _ => false,
        })
    };
    let mut files: Vec<String> = names(dir).into_iter().map(|(_, file)| file).collect();
    files.push(Pending::Kept.file().into());
    for other in files.iter().filter(|other| *other != file) {
        if let Some(other) = journal::read(&dir.join(other))?
            && other.header.boot == this.header.boot
            && before(&other)
            && !wrote(&this).is_disjoint(&wrote(&other))
        {
            return Ok(Some(other.header.purpose));
        }
    }
    Ok(None)
}

/// A journal that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Why it is there.
    pub what: Pending,
    /// The name under which a setting is kept; none for the one without.
    pub name: Option<String>,
    /// What the transaction is or was for; or why the journal cannot be read.
    pub purpose: String,
    /// How many steps were noted.
    pub steps: usize,
    /// Whether the transaction is under way: there is nothing to put back yet.
    pub under_way: bool,
    /// The folder that it lies in.
    pub folder: PathBuf,
}

/// Why a journal is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pending {
    /// A transaction is under way, or was killed.
    Unfinished,
    /// A setting is kept.
    Kept,
}

impl Pending {
    pub(super) fn file(self) -> &'static str {
        match self {
            Pending::Unfinished => "resctrl.journal",
            Pending::Kept => "resctrl.kept",
        }
    }
}
