//! Going back: at a transaction's end, and after it was killed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ringfence_system::changes::error::JournalError;
use ringfence_system::changes::journal::{Head, Journal, read};
use ringfence_system::changes::place;

use super::files::{self, Pending};
use super::journal::{Header, Note, REFUSED, Record};
use super::options::{Moment, Options};
use super::restoration::Restored;
use super::step::Step;
use super::undo::{self, Now, Rest};
use super::{identity, lock};
use crate::error::Error;
use crate::fs::Resctrl;
use crate::id::GroupId;
use crate::kernel::Thread;
use crate::mode::Mode;
use crate::state::{GroupState, State};

/// Notes a step and takes it; `only_noted`: not without room for the note.
pub fn take(
    fs: &Resctrl,
    journal: &mut Journal,
    record: &mut Record,
    step: Step,
    options: &Options,
    only_noted: bool,
) -> Result<(), Error> {
    let number = record.steps.len();
    let noted = |noted: Result<(), JournalError>| if only_noted { noted } else { Ok(()) };
    if let (Step::Threads { threads, .. }, true) = (&step, only_noted) {
        for (group, threads) in born_elsewhere(fs, record, threads)? {
            journal.write(&Note::From { group: group.clone(), threads: threads.clone() })?;
            record.from(&group, &threads);
        }
    }
    noted(journal.write(&step))?;
    record.step(step.clone());
    options.at(Moment::Noted(number));
    let taken = step.execute(fs);
    if matches!(taken, Err(Error::Refused(_))) && !matches!(step, Step::Threads { .. }) {
        // What another process has made under that name is not ours to undo.
        noted(journal.write(&REFUSED))?;
        record.refused();
    }
    // What is there now explains itself by what took effect, which need not be what was asked for.
    if let Some(effect) = taken? {
        record.step(effect.clone());
        noted(journal.write(&effect))?;
    }
    options.at(Moment::Taken(number));
    if let Step::Create { group } = step
        && let Some(identity) = identity::group(fs, &group)?
    {
        record.made(group.clone(), identity);
        let path = group.path();
        noted(journal.write(&Note::Made { group, identity }))?;
        // From now on the journal tells it. A mark that stays does no harm.
        let _ = fs.kernel().unmark(&path);
    }
    Ok(())
}

// Of threads that began after everything was written down, those that are in a group that was there
// before.
fn born_elsewhere(
    fs: &Resctrl,
    record: &Record,
    threads: &[Thread],
) -> Result<Vec<(GroupId, Vec<Thread>)>, Error> {
    let before = &record.header.before;
    let named =
        |thread: &Thread| before.groups.values().any(|state| state.threads.contains(thread));
    let moved = |thread: &Thread| {
        record
            .steps
            .iter()
            .any(|step| matches!(step, Step::Threads { threads, .. } if threads.contains(thread)))
    };
    let new: Vec<Thread> =
        threads.iter().copied().filter(|thread| !named(thread) && !moved(thread)).collect();
    let mut found = Vec::new();
    if new.is_empty() {
        return Ok(found);
    }
    let shares =
        |state: &GroupState| matches!(state.mode, None | Some(Mode::Shareable | Mode::Exclusive));
    let groups = before
        .groups
        .iter()
        .filter(|(id, state)| !id.is_default() && !id.is_monitor() && shares(state));
    for (id, _) in groups {
        let group = fs.group(id);
        let tasks: BTreeSet<u32> = match group.tasks() {
            Ok(tasks) => tasks.into_iter().collect(),
            Err(_) if !group.exists() => continue,
            Err(error) => return Err(error),
        };
        let here: Vec<Thread> =
            new.iter().copied().filter(|thread| tasks.contains(&thread.tid)).collect();
        if !here.is_empty() {
            found.push((id.clone(), here));
        }
    }
    Ok(found)
}

/// Refuses where resctrl is no longer the one that a transaction has begun with.
pub fn same_mount(fs: &Resctrl, header: &Header) -> Result<(), Error> {
    match identity::past(fs, header)? {
        None => Ok(()),
        Some(past) => Err(Error::Busy(format!(
            "'{}' belongs to {past}, whose settings no longer exist: nothing was changed",
            header.head.purpose
        ))),
    }
}

/// Restores. That is noted too: a program that is killed while it restores leaves a journal that
/// explains what is there. A failure does not keep the rest from being restored; the journal stays
/// then. What cannot be restored yet goes to a journal of its own.
pub fn go_back(
    fs: &Resctrl,
    record: &mut Record,
    mut journal: Journal,
    path: &Path,
    options: &Options,
) -> Result<Restored, Error> {
    let undo = way_back(fs, record)?;
    let (mut done, mut failed) = (Vec::new(), None);
    for step in undo.steps {
        // Without room for a note it is put back all the same.
        match take(fs, &mut journal, record, step.clone(), options, false) {
            Ok(()) => done.push(step),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    if let Some(error) = failed {
        return Err(error);
    }
    options.at(Moment::Back);
    let mut waiting = undo.rest.sentences();
    if !undo.rest.is_empty() && !record.header.rest {
        let rest = free(path, Pending::Waiting);
        let mut journal = Journal::begin(&rest, &header_of(&record.header, &undo.rest))?;
        written(&undo.rest).iter().try_for_each(|step| journal.write(step))?;
    }
    if record.damaged.is_empty() {
        // A journal of what waits stays as it is for as long as any of it does.
        if undo.rest.is_empty() || !record.header.rest {
            journal.end()?;
        }
    } else {
        let kept = free(path, Pending::Damaged);
        waiting.push(damage(&record.damaged, &kept));
        if kept != path {
            journal.rename(&kept)?;
        }
    }
    Ok(Restored {
        purpose: record.header.head.purpose.clone(),
        steps: done,
        left: undo.left,
        notes: undo.notes,
        waiting,
    })
}

/// The steps that restore the previous state from the current one.
pub fn way_back(fs: &Resctrl, record: &Record) -> Result<undo::Undo, Error> {
    let state = State::read(fs)?;
    let strangers = identity::strangers(fs, record, &state)?;
    let now = Now { state: &state, strangers: &strangers, online: fs.kernel().online() };
    Ok(undo::undo(record, &now, &fs.info()?, &Table { fs, record }))
}

/// The note about invalid lines.
pub fn damage(lines: &[usize], path: &Path) -> String {
    let numbers: Vec<String> = lines.iter().map(usize::to_string).collect();
    format!(
        "line {} of the journal is invalid, so that change is unknown: compare resctrl with {}, \
         then 'ringfence resctrl forget' removes that file",
        numbers.join(", "),
        path.display()
    )
}

// A name beside a journal that no other has.
fn free(path: &Path, what: Pending) -> PathBuf {
    let name = |number: u32| path.with_file_name(format!("{}-{number}", what.file()));
    (1..).map(name).find(|path| !path.exists()).expect("numbers do not end")
}

// A journal of that alone which waits: what else was set before is others' to change from now on.
fn header_of(header: &Header, rest: &Rest) -> Header {
    let mut before = State::default();
    for id in rest.settings.keys().chain(rest.cpus.keys()) {
        let state = GroupState {
            mode: None,
            schemata: rest.settings.get(id).cloned().unwrap_or_default(),
            cpus: rest.cpus.get(id).cloned().unwrap_or_default(),
            threads: Vec::new(),
        };
        before.groups.insert(id.clone(), state);
    }
    Header { before, rest: true, mounted: false, ..header.clone() }
}

fn written(rest: &Rest) -> Vec<Step> {
    let cpus = rest
        .cpus
        .iter()
        .map(|(group, cpus)| Step::Cpus { group: group.clone(), cpus: cpus.clone() });
    rest.written.iter().cloned().chain(cpus).collect()
}

// The process table, for the way back.
struct Table<'a> {
    fs: &'a Resctrl,
    record: &'a Record,
}

impl Table<'_> {
    fn named(&self, tid: u32) -> Option<GroupId> {
        let thread = Thread { tid, start: self.fs.kernel().started(tid)? };
        let before = &self.record.header.before;
        let moved = |step: &Step| {
            matches!(
                step,
                Step::Threads { threads, .. } if threads.contains(&thread)
            )
        };
        let known = before.groups.values().any(|state| state.threads.contains(&thread))
            || self.record.steps.iter().any(moved);
        known.then(|| self.record.home_of(thread))
    }
}

impl undo::Lives for Table<'_> {
    fn lives(&self, thread: Thread) -> bool {
        self.fs.kernel().started(thread.tid) == Some(thread.start)
    }

    fn origin(&self, thread: Thread) -> Option<GroupId> {
        let mut tid = thread.tid;
        // Chains of ancestors are short; a loop can only come from reading while ids are reused.
        for _ in 0..1000 {
            let (process, parent) = self.fs.kernel().process_and_parent(tid)?;
            if let Some(group) = self.named(process).or_else(|| self.named(parent)) {
                return Some(group);
            }
            if parent <= 1 {
                break;
            }
            tid = parent;
        }
        None
    }
}

// What a journal left behind was about, and whether resctrl had been mounted for it.
fn put_back(
    fs: &Resctrl,
    path: &Path,
    options: &Options,
) -> Result<Option<(Restored, bool)>, Error> {
    let Some(mut record) = read::<Record>(path)? else { return Ok(None) };
    let journal = Journal::resume(path)?;
    if identity::past(fs, &record.header)?.is_some() {
        // Nothing of it is left.
        journal.end()?;
        return Ok(None);
    }
    let back = go_back(fs, &mut record, journal, path, options);
    let Header { head: Head { purpose, .. }, mounted, .. } = record.header;
    let restored = back.map_err(|source| Error::Leftover { purpose, source: Box::new(source) })?;
    Ok(Some((restored, mounted)))
}

// Journals that no process works on any more.
fn left_behind(fs: &Resctrl, dir: &Path) -> Vec<PathBuf> {
    let mut all = files::numbered(dir, Pending::Waiting);
    all.extend(files::orphaned(fs.kernel(), dir));
    all.push(dir.join(Pending::Unfinished.file()));
    all
}

// What a killed transaction left behind, and what has waited or was lent, which need not keep a
// transaction from beginning.
fn put_back_all(
    fs: &Resctrl,
    dir: &Path,
    options: &Options,
    begin: bool,
) -> Result<(Option<Restored>, bool), Error> {
    let waiting =
        files::numbered(dir, Pending::Waiting).into_iter().chain(files::orphaned(fs.kernel(), dir));
    let waiting: Vec<PathBuf> = waiting.collect();
    let first = put_back(fs, &dir.join(Pending::Unfinished.file()), options)?;
    let (mut all, mounted) =
        first.map_or((None, false), |(restored, mounted)| (Some(restored), mounted));
    for path in waiting {
        match put_back(fs, &path, options) {
            Ok(restored) => all = Restored::both(all, restored.map(|(restored, _)| restored)),
            Err(error) if begin => all.get_or_insert_default().waiting.push(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    Ok((all, mounted))
}

/// Restores all leftovers in this and other folders of this user, before another transaction
/// begins. Leftovers of other users are only reported.
pub fn before_another(
    fs: &Resctrl,
    dir: &Path,
    options: &Options,
) -> Result<(Option<Restored>, bool), Error> {
    let (mut all, mut mounted) = (None, false);
    let same = |one: &Path| fs::canonicalize(one).ok() == fs::canonicalize(dir).ok();
    let others = fs.kernel().journal_folders().into_iter().filter(|other| !same(other));
    for other in others {
        let path = other.join(Pending::Unfinished.file());
        let Ok(Some(record)) = read::<Record>(&path) else { continue };
        if identity::past(fs, &record.header)?.is_some() || lock::is_held(&other) {
            continue;
        }
        let owner = fs::metadata(&path).map(|file| file.uid()).ok();
        if owner != Some(place::user()) {
            return Err(Error::Busy(others_left(&record.header.head.purpose, owner, &other)));
        }
        let (restored, was_mounted) = put_back_all(fs, &other, options, true)?;
        all = Restored::both(all, restored);
        mounted |= was_mounted;
    }
    for path in left_behind(fs, dir) {
        if let Some(record) = read::<Record>(&path)?.filter(|_| !place::is_believed(&path)) {
            let owner = fs::symlink_metadata(&path).map(|file| file.uid()).ok();
            return Err(Error::Busy(others_left(&record.header.head.purpose, owner, dir)));
        }
    }
    let (restored, was_mounted) = put_back_all(fs, dir, options, true)?;
    Ok((Restored::both(all, restored), mounted || was_mounted))
}

/// What to say of another user's journal, which is not acted upon unasked: its steps are that
/// user's word.
pub fn others_left(purpose: &str, owner: Option<u32>, folder: &Path) -> String {
    let who = owner.map_or_else(|| "another user".into(), |uid| format!("user {uid}"));
    let folder = folder.display();
    format!(
        "'{purpose}', started by {who}, was killed and left resctrl changed: preview the recovery \
         with 'ringfence resctrl recover --dry-run --folder {folder}', run it without --dry-run, \
         or use 'ringfence resctrl forget --folder {folder}'"
    )
}

/// Unmounts resctrl if it was mounted for a transaction, unless another process uses it by now.
pub fn unmount(fs: &Resctrl, restored: &mut Restored) {
    let alone = fs.groups().is_ok_and(|groups| groups.len() == 1);
    let done = if alone { fs.clone().unmount() } else { Err(Error::Busy("it has groups".into())) };
    if let Err(error) = done {
        restored.left.push(format!("resctrl was not mounted before and stays mounted: {error}"));
    }
}

/// Undoes the changes of a killed transaction, and those that could not be undone earlier; `None`
/// if there were none. Changes that still cannot be undone are in [`Restored::waiting`].
///
/// # Errors
/// As [`super::Transaction::begin`] and [`super::Transaction::restore`].
pub fn recover(fs: &Resctrl, options: &Options) -> Result<Option<Restored>, Error> {
    end(fs, Pending::Unfinished.file(), options)
}

/// Undoes [`super::Transaction::keep`]; `None` where nothing is kept.
///
/// # Errors
/// As [`recover`].
pub fn undo_kept(fs: &Resctrl, options: &Options) -> Result<Option<Restored>, Error> {
    end(fs, Pending::Kept.file(), options)
}

/// Undoes [`super::Transaction::keep_named`]; `None` where nothing is kept under that name.
///
/// # Errors
/// As [`recover`]; or a name that cannot be that of a group.
pub fn undo_named(fs: &Resctrl, name: &str, options: &Options) -> Result<Option<Restored>, Error> {
    end(fs, &files::named(Pending::Kept, name)?, options)
}

/// Undoes [`super::Transaction::lend`]; `None` where nothing has that name.
///
/// # Errors
/// As [`undo_named`].
pub fn give_back(fs: &Resctrl, name: &str, options: &Options) -> Result<Option<Restored>, Error> {
    end(fs, &files::named(Pending::Lent, name)?, options)
}

fn end(fs: &Resctrl, file: &str, options: &Options) -> Result<Option<Restored>, Error> {
    let dir = lock::folder(options.folder.as_deref())?;
    let lock = lock::own(&dir, Some(fs), options.wait)?;
    let held = lock::shared_with_others(fs)?;
    if let Some(later) = files::built_on(&dir, file)? {
        return Err(Error::Usage(format!(
            "'{later}' was kept after this and depends on it: undo that first"
        )));
    }
    let (restored, mounted) = match file == Pending::Unfinished.file() {
        true => put_back_all(fs, &dir, options, false)?,
        false => put_back(fs, &dir.join(file), options)?
            .map_or((None, false), |(restored, mounted)| (Some(restored), mounted)),
    };
    let Some(mut restored) = restored else { return Ok(None) };
    drop(held);
    if mounted {
        drop(lock);
        unmount(fs, &mut restored);
    }
    Ok(Some(restored))
}
