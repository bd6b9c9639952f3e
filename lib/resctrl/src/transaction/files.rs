//! Journals by the names of their files: why each is there, and which rest on others.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ringfence_system::changes::journal::read;
use ringfence_system::root::FsRoot;
use serde::{Deserialize, Serialize};

use super::journal::Record;
use super::step::Step;
use crate::error::Error;
use crate::id::GroupId;
use crate::kernel::Kernel;

/// Why a journal is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Pending {
    /// A transaction is running, or was killed.
    Unfinished,
    /// A setting is kept.
    Kept,
    /// A setting in effect while the program that made it runs; or that program was killed.
    Lent,
    /// Something that cannot be restored yet: its CPU or cache is offline.
    Waiting,
    /// A journal with invalid lines; the others were undone.
    Damaged,
}

impl Pending {
    pub(super) fn file(self) -> &'static str {
        match self {
            Pending::Unfinished => "resctrl.journal",
            Pending::Kept => "resctrl.kept",
            // With a name behind.
            Pending::Lent => "resctrl.lent",
            // With a number behind.
            Pending::Waiting => "resctrl.waiting",
            Pending::Damaged => "resctrl.damaged",
        }
    }
}

/// The journal of what is kept or lent under a name.
pub(super) fn named(what: Pending, name: &str) -> Result<String, Error> {
    GroupId::control(name).check()?;
    Ok(format!("{}-{name}", what.file()))
}

/// The journals in a folder of a kind of which there can be several, by number.
pub(super) fn numbered(dir: &Path, what: Pending) -> Vec<PathBuf> {
    let numbers = FsRoot::at(dir).numbered("", &format!("{}-", what.file()));
    numbers.into_iter().map(|number| dir.join(format!("{}-{number}", what.file()))).collect()
}

/// The journals of what is kept or lent under names, as (name, file), by name.
pub(super) fn names(dir: &Path, what: Pending) -> Vec<(String, String)> {
    let prefix = format!("{}-", what.file());
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<(String, String)> =
        files.filter_map(|file| Some((file.strip_prefix(&prefix)?.to_owned(), file))).collect();
    names.sort();
    names
}

/// The journals of temporary settings whose programs no longer run.
pub(super) fn orphaned(kernel: &dyn Kernel, dir: &Path) -> Vec<PathBuf> {
    let all = names(dir, Pending::Lent).into_iter().map(|(_, file)| dir.join(file));
    let dead = |path: &PathBuf| {
        let record = read::<Record>(path).ok().flatten();
        record.is_none_or(|record| !kernel.lives(record.header.head.owner))
    };
    all.filter(dead).collect()
}

/// What was kept later than this journal and set the same things, so that this one cannot be put
/// back before it: the steps of either would no longer explain what is there.
pub(super) fn built_on(dir: &Path, file: &str) -> Result<Option<String>, Error> {
    if file == Pending::Unfinished.file() {
        return Ok(None);
    }
    let Some(this) = read::<Record>(&dir.join(file))? else { return Ok(None) };
    let wrote = |record: &Record| -> BTreeSet<String> {
        let settings = record.steps.iter().filter_map(|step| match step {
            Step::Schemata { group, schemata } => Some((group, schemata)),
            _ => None,
        });
        let each = settings.flat_map(|(group, schemata)| {
            schemata
                .settings()
                .map(move |(resource, domain, _)| format!("{group}/{resource}:{domain}"))
        });
        each.collect()
    };
    // It was there when the other began: its settings, or a group that it has made, are among the
    // other's past.
    let before = |other: &Record| {
        this.steps.iter().any(|step| match step {
            Step::Create { group } => other.header.before.groups.contains_key(group),
            _ => false,
        })
    };
    let mut files: Vec<String> =
        names(dir, Pending::Kept).into_iter().map(|(_, file)| file).collect();
    files.push(Pending::Kept.file().into());
    for other in files.iter().filter(|other| *other != file) {
        if let Some(other) = read::<Record>(&dir.join(other))?
            && other.header.head.boot == this.header.head.boot
            && before(&other)
            && !wrote(&this).is_disjoint(&wrote(&other))
        {
            return Ok(Some(other.header.head.purpose));
        }
    }
    Ok(None)
}
