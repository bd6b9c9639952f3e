//! Changes that are put back.
//!
//! A transaction takes the lock, writes down everything as it is, and notes every step in a journal
//! before it is taken. [`Transaction::restore`] goes back; so does dropping it; and when the program is
//! killed, the next transaction or [`recover`] does, from the journal. [`Transaction::keep`] leaves
//! things as they are until [`undo_kept`].
//!
//! What somebody else has changed in the meantime is neither overwritten nor mistaken for ours: it is
//! left as it is, and said.
//!
//! ```no_run
//! use ringfence_resctrl::{GroupId, Options, Resctrl, Step, Transaction};
//! # fn main() -> Result<(), ringfence_resctrl::Error> {
//! let resctrl = Resctrl::find(&ringfence_kernel::root::FsRoot::host())?;
//! let mut change = Transaction::begin(&resctrl, "an example", &Options::default())?;
//! let quiet = GroupId::control("quiet");
//! change.apply(Step::Create { group: quiet.clone() })?;
//! change.apply(Step::Schemata { group: quiet.clone(), schemata: "L3:0=f".parse().unwrap() })?;
//! change.move_process(&quiet, 4711)?;
//! // ... and measure; then:
//! for kept in change.restore()?.left {
//!     println!("left as somebody else has set it: {kept}");
//! }
//! # Ok(())
//! # }
//! ```

mod journal;
mod left;
mod lock;
mod step;
mod undo;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::fs::Resctrl;
use crate::group::GroupId;
use crate::kernel::Thread;
use crate::state::State;
use journal::{Header, Journal, Record};

pub use left::{Left, Pending, forget, left, owner, pending, preview};
pub use step::Step;

/// Where a transaction stands; steps are counted from 0 over the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// It has the lock and has read everything; nothing is written down.
    Read,
    /// The journal is begun.
    Begun,
    /// A step is in the journal and not taken.
    Noted(usize),
    /// A step is taken.
    Taken(usize),
    /// Everything is put back; the journal is still there.
    Back,
}

/// How a transaction is run.
#[derive(Clone, Default)]
pub struct Options {
    /// Where journal and lock lie, instead of `/run/ringfence`, or where that may not be written to,
    /// `$XDG_RUNTIME_DIR/ringfence`.
    pub folder: Option<PathBuf>,
    /// How long to wait for another transaction to end.
    pub wait: Duration,
    /// Called at every moment, for progress and for tests that die there.
    #[allow(clippy::type_complexity)]
    pub watch: Option<Arc<dyn Fn(Moment) + Send + Sync>>,
}

impl Options {
    fn at(&self, moment: Moment) {
        if let Some(watch) = &self.watch {
            watch(moment);
        }
    }
}

/// What was put back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    /// What it was for.
    pub purpose: String,
    /// The steps that led back.
    pub steps: Vec<Step>,
    /// What somebody else had changed since, one sentence each: it was left alone.
    pub left: Vec<String>,
}

/// Changes that are put back at their end.
pub struct Transaction {
    fs: Resctrl,
    options: Options,
    purpose: String,
    before: State,
    journal: Option<Journal>,
    path: PathBuf,
    steps: Vec<Step>,
    recovered: Option<Restored>,
    mounted: bool,
    _lock: File,
}

impl Transaction {
    /// Takes the lock, puts back what a transaction left behind that was killed, and writes down
    /// everything as it is.
    ///
    /// # Errors
    /// [`Error::Busy`] where another transaction does not end in time; [`Error::Journal`] where nothing
    /// can be written down; whatever reading the present state fails with. Nothing is changed then.
    pub fn begin(fs: &Resctrl, purpose: &str, options: &Options) -> Result<Self, Error> {
        let dir = lock::folder(options.folder.as_deref())?;
        let lock = lock::own(&dir, options.wait)?;
        let _held = lock::shared_with_others(fs)?;
        let path = dir.join(Pending::Unfinished.file());
        let (recovered, was_mounted) = match put_back(fs, &path, options)? {
            Some((restored, mounted)) => (Some(restored), mounted),
            None => (None, false),
        };
        let mounted = fs.mounted_here() || was_mounted;
        let before = State::read(fs)?;
        options.at(Moment::Read);
        let tid = std::process::id();
        let owner = Thread { tid, start: fs.kernel().started(tid).unwrap_or_default() };
        let header = Header {
            schema: journal::SCHEMA,
            boot: fs.kernel().boot_id(),
            place: fs.place(),
            mounted,
            owner,
            purpose: purpose.to_owned(),
            before: before.clone(),
        };
        let journal = Some(Journal::begin(&path, &header)?);
        options.at(Moment::Begun);
        Ok(Self {
            fs: fs.clone(),
            options: options.clone(),
            purpose: purpose.to_owned(),
            before,
            journal,
            path,
            steps: Vec::new(),
            recovered,
            mounted,
            _lock: lock,
        })
    }

    /// Everything as it was before.
    pub fn before(&self) -> &State {
        &self.before
    }

    /// What was put back first, if a transaction had been killed.
    pub fn recovered(&self) -> Option<&Restored> {
        self.recovered.as_ref()
    }

    /// What is changed.
    pub fn resctrl(&self) -> &Resctrl {
        &self.fs
    }

    /// Notes a step and takes it.
    ///
    /// # Errors
    /// The kernel's refusal, or [`Error::NotInEffect`]; the transaction goes on without the step. A group
    /// that this transaction has not made is not removed.
    pub fn apply(&mut self, step: Step) -> Result<(), Error> {
        if let Step::Remove { group } = &step
            && self.before.groups.contains_key(group)
        {
            return Err(Error::Usage(format!("{group} is somebody else's group: it is not removed")));
        }
        let _held = lock::shared_with_others(&self.fs)?;
        let journal = self.journal.as_mut().expect("taken at the end alone");
        take(&self.fs, journal, &mut self.steps, step, &self.options, true)
    }

    /// Moves every thread of a process, those that are born meanwhile included. Returns how many.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn move_process(&mut self, group: &GroupId, pid: u32) -> Result<usize, Error> {
        let mut moved = BTreeSet::new();
        loop {
            let kernel = self.fs.kernel();
            let known = |tid: u32| kernel.started(tid).map(|start| Thread { tid, start });
            let threads = kernel.threads(pid).into_iter().filter_map(known);
            let new: Vec<Thread> = threads.filter(|thread| !moved.contains(thread)).collect();
            if new.is_empty() {
                return Ok(moved.len());
            }
            moved.extend(new.iter().copied());
            self.apply(Step::Threads { group: group.clone(), threads: new })?;
        }
    }

    /// Puts everything back. Called again, it does nothing.
    ///
    /// # Errors
    /// Where something cannot be put back, such as a pseudo-locked region that is in use; the journal stays
    /// then, and [`recover`] tries again.
    pub fn restore(&mut self) -> Result<Restored, Error> {
        let nothing = || Ok(Restored { purpose: self.purpose.clone(), ..Restored::default() });
        if self.journal.is_none() {
            return nothing();
        }
        let held = lock::shared_with_others(&self.fs)?;
        let Some(journal) = self.journal.take() else { return nothing() };
        let mut restored =
            go_back(&self.fs, &self.purpose, &self.before, &mut self.steps, journal, &self.options)?;
        drop(held);
        if self.mounted {
            unmount(&self.fs, &mut restored);
        }
        Ok(restored)
    }

    /// Ends with everything left as it is now, until [`undo_kept`].
    ///
    /// # Errors
    /// Where something is kept already.
    pub fn keep(self) -> Result<(), Error> {
        let refusal = "a setting is kept already: put it back first with 'ringfence resctrl undo'";
        self.keep_in(Pending::Kept.file(), refusal)
    }

    /// As [`Transaction::keep`], under a name of its own beside whatever else is kept: until [`undo_named`].
    ///
    /// # Errors
    /// Where something is kept under that name already, or the name cannot be that of a group.
    pub fn keep_named(self, name: &str) -> Result<(), Error> {
        let file = left::named(name)?;
        self.keep_in(&file, &format!("'{name}' is kept already: put it back first"))
    }

    fn keep_in(mut self, file: &str, refusal: &str) -> Result<(), Error> {
        let kept = self.path.with_file_name(file);
        if kept.exists() {
            self.restore()?;
            return Err(Error::Usage(refusal.into()));
        }
        match self.journal.take() {
            Some(journal) => journal.rename(&kept),
            None => Ok(()),
        }
    }

    /// Ends as a program does that is killed: nothing is put back, the journal stays. For tests.
    pub fn abandon(mut self) {
        self.journal = None;
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // What fails here is still in the journal.
        let _ = self.restore();
    }
}

fn take(
    fs: &Resctrl,
    journal: &mut Journal,
    steps: &mut Vec<Step>,
    step: Step,
    options: &Options,
    only_noted: bool,
) -> Result<(), Error> {
    let number = steps.len();
    match journal.note(&step) {
        Err(error) if only_noted => return Err(error),
        _ => {}
    }
    steps.push(step.clone());
    options.at(Moment::Noted(number));
    let taken = step.execute(fs);
    if matches!(taken, Err(Error::Refused(_))) && !matches!(step, Step::Threads { .. }) {
        // What somebody else has made under that name is not ours to undo.
        match journal.refused() {
            Err(error) if only_noted => return Err(error),
            _ => {}
        }
        steps.pop();
    }
    taken?;
    options.at(Moment::Taken(number));
    Ok(())
}

// Going back is noted too: whoever is killed on the way leaves a journal that explains what is there.
// What cannot be put back does not keep the rest from it; the journal stays then.
fn go_back(
    fs: &Resctrl,
    purpose: &str,
    before: &State,
    steps: &mut Vec<Step>,
    mut journal: Journal,
    options: &Options,
) -> Result<Restored, Error> {
    let now = State::read(fs)?;
    let undo = undo::undo(before, steps, &now, &fs.info()?, &Table { fs, before });
    let (mut done, mut failed) = (Vec::new(), None);
    for step in undo.steps {
        // Without room for a note it is put back all the same.
        match take(fs, &mut journal, steps, step.clone(), options, false) {
            Ok(()) => done.push(step),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    if let Some(error) = failed {
        return Err(error);
    }
    options.at(Moment::Back);
    journal.end()?;
    Ok(Restored { purpose: purpose.to_owned(), steps: done, left: undo.left })
}

// The process table, for the way back.
struct Table<'a> {
    fs: &'a Resctrl,
    before: &'a State,
}

impl Table<'_> {
    fn named(&self, tid: u32) -> Option<GroupId> {
        let thread = Thread { tid, start: self.fs.kernel().started(tid)? };
        let named = self.before.groups.values().any(|state| state.threads.contains(&thread));
        named.then(|| self.before.control_of(thread))
    }
}

impl undo::Lives for Table<'_> {
    fn lives(&self, thread: Thread) -> bool {
        self.fs.kernel().started(thread.tid) == Some(thread.start)
    }

    // That of the nearest ancestor that was there before.
    fn origin(&self, thread: Thread) -> GroupId {
        let mut tid = thread.tid;
        // Chains of ancestors are short; a loop can only come from reading while ids are reused.
        for _ in 0..1000 {
            let Some((process, parent)) = self.fs.kernel().process_and_parent(tid) else { break };
            if let Some(group) = self.named(process).or_else(|| self.named(parent)) {
                return group;
            }
            if parent <= 1 {
                break;
            }
            tid = parent;
        }
        GroupId::default()
    }
}

// What a journal left behind was about, and whether resctrl had been mounted for it.
fn put_back(fs: &Resctrl, path: &Path, options: &Options) -> Result<Option<(Restored, bool)>, Error> {
    let Some(Record { header, mut steps }) = journal::read(path)? else { return Ok(None) };
    let journal = Journal::go_on(path)?;
    if header.boot != fs.kernel().boot_id() {
        // Nothing of it outlived the boot.
        journal.end()?;
        return Ok(None);
    }
    let back = go_back(fs, &header.purpose, &header.before, &mut steps, journal, options);
    let restored =
        back.map_err(|source| Error::Leftover { purpose: header.purpose.clone(), source: Box::new(source) })?;
    Ok(Some((restored, header.mounted)))
}

// Unmounts what was mounted for a transaction, unless somebody has begun to use it.
fn unmount(fs: &Resctrl, restored: &mut Restored) {
    let alone = fs.groups().is_ok_and(|groups| groups.len() == 1);
    let done = if alone { fs.clone().unmount() } else { Err(Error::Busy("it has groups".into())) };
    if let Err(error) = done {
        restored.left.push(format!("resctrl, which was not mounted before, stays mounted: {error}"));
    }
}

/// Puts back what a transaction left behind that was killed; `None` where there was none.
///
/// # Errors
/// As [`Transaction::begin`] and [`Transaction::restore`].
pub fn recover(fs: &Resctrl, options: &Options) -> Result<Option<Restored>, Error> {
    end(fs, Pending::Unfinished.file(), options)
}

/// Puts back what [`Transaction::keep`] has left; `None` where nothing is kept.
///
/// # Errors
/// As [`recover`].
pub fn undo_kept(fs: &Resctrl, options: &Options) -> Result<Option<Restored>, Error> {
    end(fs, Pending::Kept.file(), options)
}

/// Puts back what [`Transaction::keep_named`] has left; `None` where nothing is kept under that name.
///
/// # Errors
/// As [`recover`]; or a name that cannot be that of a group.
pub fn undo_named(fs: &Resctrl, name: &str, options: &Options) -> Result<Option<Restored>, Error> {
    end(fs, &left::named(name)?, options)
}

fn end(fs: &Resctrl, file: &str, options: &Options) -> Result<Option<Restored>, Error> {
    let dir = lock::folder(options.folder.as_deref())?;
    let _lock = lock::own(&dir, options.wait)?;
    let held = lock::shared_with_others(fs)?;
    if let Some(later) = left::built_on(&dir, file)? {
        return Err(Error::Usage(format!(
            "'{later}' was kept after this and rests on it: put that back first"
        )));
    }
    let Some((mut restored, mounted)) = put_back(fs, &dir.join(file), options)? else {
        return Ok(None);
    };
    drop(held);
    if mounted {
        unmount(fs, &mut restored);
    }
    Ok(Some(restored))
}
