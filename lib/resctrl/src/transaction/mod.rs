//! Changes that are undone.
//!
//! A transaction takes the lock, records the present state, and notes every step in a journal
//! before it is taken. [`Transaction::restore`] undoes the steps; so does dropping it. When the
//! program is killed, the next transaction or [`recover`] undoes them from the journal.
//! [`Transaction::keep`] keeps the changes until [`undo_kept`], and [`Transaction::lend`] while the
//! program runs.
//!
//! What another process has changed in the meantime is neither overwritten nor mistaken for ours:
//! it is left as it is, and reported. What cannot be restored yet, since its CPU or cache is
//! offline, stays in a journal.
//!
//! One transaction changes a resctrl at a time, in whichever program and wherever its journal is.
//!
//! ```no_run
//! use ringfence_resctrl::{GroupId, Options, Resctrl, Step, Transaction};
//! # fn main() -> Result<(), ringfence_resctrl::Error> {
//! let resctrl = Resctrl::find(&ringfence_system::root::FsRoot::host())?;
//! let mut change = Transaction::begin(&resctrl, "an example", &Options::default())?;
//! let quiet = GroupId::control("quiet");
//! change.apply(Step::Create { group: quiet.clone() })?;
//! change.apply(Step::Schemata { group: quiet.clone(), schemata: "L3:0=f".parse().unwrap() })?;
//! change.move_process(&quiet, 4711)?;
//! // ... and measure; then:
//! for kept in change.restore()?.left {
//!     println!("left as another program has set it: {kept}");
//! }
//! # Ok(())
//! # }
//! ```

mod files;
mod identity;
mod journal;
mod leftovers;
mod lock;
mod options;
mod restoration;
mod rollback;
mod step;
mod undo;

use std::collections::BTreeSet;
use std::path::PathBuf;

use ringfence_system::changes::journal::{Head, Journal, read};

use crate::error::Error;
use crate::fs::Resctrl;
use crate::id::GroupId;
use crate::kernel::Thread;
use crate::state::State;
use journal::{Header, Record};

pub use files::Pending;
pub use leftovers::{Left, OWN, forget, left, owner, pending, preview, preview_named};
pub use options::{Moment, Options};
pub use restoration::Restored;
pub use rollback::{give_back, recover, undo_kept, undo_named};
pub use step::Step;

/// Changes that are undone at their end.
pub struct Transaction {
    fs: Resctrl,
    options: Options,
    record: Record,
    journal: Option<Journal>,
    path: PathBuf,
    recovered: Option<Restored>,
    lock: Option<lock::Own>,
}

impl Transaction {
    /// Takes the lock, undoes the changes of a killed transaction, and records the present state.
    ///
    /// # Errors
    /// [`Error::Busy`] if another transaction does not end in time; [`Error::Journal`] if the
    /// journal cannot be written; and errors of reading the present state. Nothing is changed then.
    pub fn begin(fs: &Resctrl, purpose: &str, options: &Options) -> Result<Self, Error> {
        let dir = lock::folder(options.folder.as_deref())?;
        let lock = lock::own(&dir, Some(fs), options.wait)?;
        let _held = lock::shared_with_others(fs)?;
        let path = dir.join(Pending::Unfinished.file());
        let (recovered, was_mounted) = rollback::before_another(fs, &dir, options)?;
        let before = State::read(fs)?;
        options.at(Moment::Read);
        let tid = std::process::id();
        let header = Header {
            head: Head {
                schema: journal::SCHEMA,
                boot: fs.kernel().boot_id(),
                owner: Thread { tid, start: fs.kernel().started(tid).unwrap_or_default() },
                purpose: purpose.to_owned(),
            },
            session: identity::session(fs)?,
            place: fs.place(),
            mounted: fs.mounted_here() || was_mounted,
            identities: identity::groups(fs, &before)?,
            before,
            rest: false,
        };
        let journal = Some(Journal::begin(&path, &header)?);
        options.at(Moment::Begun);
        let (fs, options, record) = (fs.clone(), options.clone(), Record::new(header));
        Ok(Self { fs, options, record, journal, path, recovered, lock: Some(lock) })
    }

    /// The previous state.
    pub fn before(&self) -> &State {
        &self.record.header.before
    }

    /// The changes that were undone first, if a transaction had been killed.
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
    /// The kernel's refusal, or [`Error::NotInEffect`]; the transaction goes on without the step. A
    /// group that this transaction has not made is not removed.
    pub fn apply(&mut self, step: Step) -> Result<(), Error> {
        if let Step::Remove { group } = &step
            && self.before().groups.contains_key(group)
        {
            return Err(Error::Usage(format!(
                "{group} belongs to another program: it is not removed"
            )));
        }
        let _held = lock::shared_with_others(&self.fs)?;
        let journal = self.journal.as_mut().expect("taken at the end alone");
        rollback::same_mount(&self.fs, &self.record.header)?;
        rollback::take(&self.fs, journal, &mut self.record, step, &self.options, true)
    }

    /// Moves every thread of a process, those that are born meanwhile included. Returns how many.
    ///
    /// # Errors
    /// The kernel's refusal.
    #[doc(alias = "pqos_alloc_assoc_set_pid")]
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

    /// Undoes all changes. A second call does nothing.
    ///
    /// # Errors
    /// If a change cannot be undone, such as a pseudo-locked region in use; the journal stays then,
    /// and [`recover`] tries again.
    #[doc(alias = "pqos_alloc_reset")]
    pub fn restore(&mut self) -> Result<Restored, Error> {
        let purpose = &self.record.header.head.purpose;
        let nothing = || Ok(Restored { purpose: purpose.clone(), ..Restored::default() });
        if self.journal.is_none() {
            return nothing();
        }
        let held = lock::shared_with_others(&self.fs)?;
        rollback::same_mount(&self.fs, &self.record.header)?;
        let Some(journal) = self.journal.take() else { return nothing() };
        let mut restored =
            rollback::go_back(&self.fs, &mut self.record, journal, &self.path, &self.options)?;
        drop(held);
        if self.record.header.mounted {
            // What is open there, the lock's file too, keeps it mounted.
            self.lock = None;
            rollback::unmount(&self.fs, &mut restored);
        }
        Ok(restored)
    }

    /// Ends with everything left as it is now, until [`undo_kept`].
    ///
    /// # Errors
    /// Where something is kept already.
    pub fn keep(self) -> Result<(), Error> {
        let refusal = "a setting is kept already: undo it first with 'ringfence resctrl undo'";
        self.keep_in(Pending::Kept.file(), refusal)
    }

    /// As [`Transaction::keep`], under its own name, in addition to other kept settings: until
    /// [`undo_named`].
    ///
    /// # Errors
    /// Where something is kept under that name already, or the name cannot be that of a group.
    pub fn keep_named(self, name: &str) -> Result<(), Error> {
        let file = files::named(Pending::Kept, name)?;
        self.keep_in(&file, &format!("'{name}' is kept already: undo it first"))
    }

    /// Keeps the changes while this program runs, and lets other programs change resctrl meanwhile:
    /// until [`give_back`] or, if this program is killed, until the next transaction or
    /// [`recover`].
    ///
    /// # Errors
    /// As [`Transaction::keep_named`].
    pub fn lend(self, name: &str) -> Result<(), Error> {
        let file = files::named(Pending::Lent, name)?;
        self.keep_in(&file, &format!("'{name}' is in use already"))
    }

    fn keep_in(mut self, file: &str, refusal: &str) -> Result<(), Error> {
        let kept = self.path.with_file_name(file);
        // What is about an earlier boot or mount keeps nothing.
        let about = |record: Record| identity::past(&self.fs, &record.header);
        let there = match read::<Record>(&kept) {
            Ok(record) => record.map(about).transpose()?.is_some_and(|past| past.is_none()),
            Err(_) => true,
        };
        if there {
            self.restore()?;
            return Err(Error::Usage(refusal.into()));
        }
        match self.journal.take() {
            Some(journal) => Ok(journal.rename(&kept)?),
            None => Ok(()),
        }
    }

    /// Ends like a killed program: nothing is undone, the journal stays. For tests.
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
