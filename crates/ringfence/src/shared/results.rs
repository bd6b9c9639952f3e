//! The folder of results: `ringfence` below the user's state directory.
//!
//! Under sudo it is that of the user who called sudo, and what is written there becomes theirs.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use ringfence_machine::units::Bytes;
use ringfence_report::{Stored, Style};

use super::command::{command, pasteable};
use crate::failure::Failure;

/// Where a result goes: the folder that `--out` names, or a new one.
///
/// # Errors
/// One sentence that names `--out`, if the folder of results cannot be created.
pub fn new_dir(out: Option<&Path>, name: &str) -> Result<PathBuf, Failure> {
    if let Some(out) = out {
        return Ok(out.to_owned());
    }
    let refused = |why: String| Failure::usage(format!("{why}; name a folder by --out DIR"));
    let root = root().map_err(refused)?;
    try_create(&root).map_err(|error| {
        refused(format!("{}: the folder of results cannot be created: {error}", root.display()))
    })?;
    Ok(ringfence_dataset::new_dir(&root, name))
}

// The newest result.
fn last() -> Result<PathBuf, Failure> {
    let (root, mut names) = names()?;
    match names.pop() {
        Some(name) => Ok(root.join(name.folder)),
        None => Err(Failure::usage(format!(
            "there is no result in {} yet: name the folder of one",
            root.display()
        ))),
    }
}

/// The named result, or the newest one, whose path is printed to standard error.
///
/// # Errors
/// One sentence, if there is none.
pub fn named_or_last(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let last = last()?;
    // stderr may be closed; ignore.
    let _ = writeln!(io::stderr(), "{}:", pasteable(&last));
    Ok(last)
}

/// The folder of results, and what is in it, the newest first.
///
/// # Errors
/// One sentence, if it is not known where that folder is.
pub fn all() -> Result<(PathBuf, Vec<Stored>), Failure> {
    let (root, names) = names()?;
    let stored = names.into_iter().rev().map(|name| Stored {
        date: name.date(),
        size: Bytes(size(&root.join(&name.folder))),
        verb: name.verb,
        folder: name.folder,
    });
    let stored = stored.collect();
    Ok((root, stored))
}

/// A path that was typed: a result may be named by its folder's name alone.
pub fn find(path: PathBuf) -> PathBuf {
    let mut parts = path.components();
    let is_name = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    if !is_name || path.symlink_metadata().is_ok() {
        return path;
    }
    root().map(|root| root.join(&path)).ok().filter(|found| found.is_dir()).unwrap_or(path)
}

/// The shortest path by which a result is found again: its name, if [`find`] does that.
pub fn name(dir: &Path) -> PathBuf {
    let name = dir.file_name().map(PathBuf::from);
    name.filter(|name| find(name.clone()) == dir).unwrap_or_else(|| dir.to_owned())
}

/// After a short text whose page is named elsewhere: the command that prints the rest of it.
pub fn details(dir: &Path, style: &Style) -> String {
    match style.details {
        true => String::new(),
        false => format!("more: {}\n", command(&["show", "-v"], &name(dir))),
    }
}

/// After a short text: the commands that print the rest of it.
pub fn rest(dir: &Path, style: &Style) -> String {
    if style.details {
        return String::new();
    }
    let name = name(dir);
    let (more, page) = (command(&["show", "-v"], &name), command(&["show", "--html"], &name));
    let line = format!("more: {more}; as a page: {page}");
    // A command that is wrapped cannot be pasted.
    match line.len() <= style.width {
        true => format!("{line}\n"),
        false => format!("more: {more}\npage: {page}\n"),
    }
}

/// Makes the results that root has written the property of the user who called sudo.
pub fn give_to_owner() {
    let (Some(owner), Ok(root)) = (owner(), root()) else { return };
    give(&root, owner);
    let Some(home) = home_of(owner.0) else { return };
    for above in root.ancestors().skip(1).take_while(|dir| dir.starts_with(&home)) {
        give_one(above, owner);
    }
}

// A name such as `commit-20260509-072933`, with `-2` behind it if that one was taken.
#[derive(Debug, PartialEq, Eq)]
struct Name {
    time: String,
    number: u32,
    verb: String,
    folder: String,
}

impl Name {
    fn parse(folder: &str) -> Option<Self> {
        let is = |text: &str, digits: usize| {
            text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        let (stem, last) = folder.rsplit_once('-')?;
        let (stem, clock, number) = match is(last, 6) {
            true => (stem, last, 1),
            false => {
                let (stem, clock) = stem.rsplit_once('-')?;
                (stem, clock, last.parse().ok()?)
            }
        };
        let (verb, day) = stem.rsplit_once('-')?;
        (is(clock, 6) && is(day, 8) && !verb.is_empty()).then(|| Self {
            time: format!("{day}{clock}"),
            number,
            verb: verb.to_owned(),
            folder: folder.to_owned(),
        })
    }

    /// To the minute.
    fn date(&self) -> String {
        let part = |from: usize, to: usize| &self.time[from..to];
        format!("{}-{}-{} {}:{}", part(0, 4), part(4, 6), part(6, 8), part(8, 10), part(10, 12))
    }
}

// The oldest first.
fn names() -> Result<(PathBuf, Vec<Name>), Failure> {
    let root = root().map_err(|why| Failure::usage(format!("{why}; name a folder")))?;
    let entries = fs::read_dir(&root).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<Name> =
        folders.filter_map(|entry| Name::parse(entry.file_name().to_str()?)).collect();
    sort(&root, &mut names);
    Ok((root, names))
}

// By the second in their names. Results of one second are ordered by the time of their first file.
fn sort(root: &Path, names: &mut [Name]) {
    let mut seconds: HashMap<String, u32> = HashMap::new();
    for name in names.iter() {
        *seconds.entry(name.time.clone()).or_default() += 1;
    }
    names.sort_by_cached_key(|name| {
        let is_shared = seconds[&name.time] > 1;
        let began = is_shared.then(|| first_written(&root.join(&name.folder))).flatten();
        (name.time.clone(), began, name.number, name.verb.clone())
    });
}

// When the first of the files in a folder was written. Later files, such as a page, do not count.
fn first_written(dir: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let times = entries.filter_map(|entry| {
        let metadata = entry.metadata().ok()?;
        match metadata.is_dir() {
            true => first_written(&entry.path()),
            false => metadata.modified().ok(),
        }
    });
    times.min()
}

fn size(path: &Path) -> u64 {
    let Ok(metadata) = path.symlink_metadata() else { return 0 };
    if !metadata.is_dir() {
        return metadata.len();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| size(&entry.path())).sum()
}

fn root() -> Result<PathBuf, String> {
    let state = match absolute(std::env::var_os("XDG_STATE_HOME")) {
        Some(state) => state,
        None => home()?.join(".local/state"),
    };
    Ok(state.join("ringfence"))
}

// A relative path is to be ignored, by the XDG Base Directory Specification.
fn absolute(path: Option<OsString>) -> Option<PathBuf> {
    path.map(PathBuf::from).filter(|path| path.is_absolute())
}

fn home() -> Result<PathBuf, String> {
    let known = match owner() {
        Some((uid, _)) => home_of(uid),
        None => absolute(std::env::var_os("HOME"))
            .or_else(|| home_of(rustix::process::geteuid().as_raw())),
    };
    known.ok_or_else(|| {
        "the user has no home folder and XDG_STATE_HOME is not set, so there is no folder for \
         results"
            .into()
    })
}

// Users of a directory service are in no file: getent asks for them.
fn home_of(uid: u32) -> Option<PathBuf> {
    let file = fs::read_to_string("/etc/passwd").unwrap_or_default();
    home_in(&file, uid).or_else(|| {
        let asked = Command::new("getent").args(["passwd", &uid.to_string()]).output().ok()?;
        home_in(&String::from_utf8_lossy(&asked.stdout), uid)
    })
}

// NAME:PASSWORD:UID:GID:COMMENT:HOME:SHELL
fn home_in(passwd: &str, uid: u32) -> Option<PathBuf> {
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let is_user = fields.get(2)?.parse() == Ok(uid);
        absolute(Some(OsString::from(fields.get(5)?))).filter(|_| is_user)
    })
}

// The user and group who called sudo.
fn owner() -> Option<(u32, u32)> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let (uid, gid) = (number("SUDO_UID")?, number("SUDO_GID")?);
    (rustix::process::geteuid().is_root() && uid != 0).then_some((uid, gid))
}

// Creates the missing folders and removes them again, since permissions alone do not show whether
// it works.
fn try_create(dir: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.is_dir()).collect();
    let made = missing.iter().rev().try_for_each(|dir| match fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        made => made,
    });
    for dir in missing {
        let _ = fs::remove_dir(dir);
    }
    made
}

fn give(path: &Path, owner: (u32, u32)) {
    give_one(path, owner);
    // Not what a link leads to.
    if path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            give(&entry.path(), owner);
        }
    }
}

fn give_one(path: &Path, (uid, gid): (u32, u32)) {
    if path.symlink_metadata().is_ok_and(|metadata| metadata.uid() == 0) {
        let _ = lchown(path, Some(uid), Some(gid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_their_times() {
        let mut names: Vec<Name> = [
            "survey-20261128-090000",
            "commit-20261128-100000-10",
            "commit-20261128-100000-2",
            "commit-20261128-100000",
            "a-question-of-3-words-20261127-235959",
        ]
        .into_iter()
        .map(|name| Name::parse(name).unwrap())
        .collect();
        sort(Path::new("/nonexistent"), &mut names);
        let folders: Vec<&str> = names.iter().map(|name| name.folder.as_str()).collect();
        assert_eq!(
            folders,
            [
                "a-question-of-3-words-20261127-235959",
                "survey-20261128-090000",
                "commit-20261128-100000",
                "commit-20261128-100000-2",
                "commit-20261128-100000-10",
            ]
        );
        assert_eq!(
            (names[0].verb.as_str(), names[1].date().as_str()),
            ("a-question-of-3-words", "2026-11-28 09:00")
        );
        for other in ["", "mine", "-20261128-090000", "survey-2026-11-28", "survey-20261128-0900"] {
            assert_eq!(Name::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_home_is_found_by_the_number_of_its_user() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\nmy:x:1000:1000:,,,:/home/my:/bin/sh\nbad:x:7\n";
        assert_eq!(home_in(passwd, 1000), Some("/home/my".into()));
        assert_eq!(home_in(passwd, 0), Some("/root".into()));
        assert_eq!(home_in(passwd, 1), None);
    }
}
