//! Changes by one program, and their journal.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::root::FsRoot;

use crate::changes::entry::Entry;
use crate::changes::error::Error;
use crate::changes::folders;
use crate::changes::journal::{Head, Journal, Record as _};
use crate::changes::kernel::{Host, Kernel};
use crate::changes::options::{Moment, Options};
use crate::changes::record::{Note, Record, SCHEMA};
use crate::changes::rollback::{self, Restored};
use crate::changes::step::{Step, Write, members, plain, set};
use crate::changes::thread::Thread;

/// Changes that are undone at their end.
pub struct Changes {
    kernel: Arc<dyn Kernel>,
    options: Options,
    record: Record,
    journal: Option<Journal>,
}

// Its lock is never taken: that it can be made shows that the folder can be written to.
const PROBE: &str = "changes.lock";

/// What the names of journals begin with: `changes-PID-START-NUMBER.journal`.
pub(crate) const NAME: &str = "changes-";
pub(crate) const JOURNAL: &str = "journal";

impl Changes {
    /// Begins a journal. What others have left behind is not touched.
    ///
    /// # Errors
    /// Where nothing can be written down: then nothing may be changed.
    pub fn begin(root: &FsRoot, purpose: &str, options: &Options) -> Result<Self, Error> {
        Self::begin_on(Arc::new(Host::new(root)), std::process::id(), purpose, options)
    }

    pub(crate) fn begin_on(
        kernel: Arc<dyn Kernel>,
        pid: u32,
        purpose: &str,
        options: &Options,
    ) -> Result<Self, Error> {
        let dir = folders::to_write(options.folder.as_deref(), PROBE)?;
        let owner = Thread { tid: pid, start: kernel.started(pid).unwrap_or_default() };
        // The name is this program's own, and of its threads only one at a time takes a number.
        static TAKING: Mutex<()> = Mutex::new(());
        let taking = TAKING.lock().unwrap_or_else(PoisonError::into_inner);
        let name =
            |number: u32| dir.join(format!("{NAME}{pid}-{}-{number}.{JOURNAL}", owner.start));
        let path = (1..).map(name).find(|path| !path.exists()).expect("numbers do not end");
        let head =
            Head { schema: SCHEMA, boot: kernel.boot_id(), owner, purpose: purpose.to_owned() };
        let journal = Some(Journal::begin_locked(&path, &head)?);
        drop(taking);
        options.at(Moment::Begun);
        Ok(Self { kernel, options: options.clone(), record: Record::begin(head), journal })
    }

    /// Sets the value of a kernel file; its present value is restored at the end. Whitespace around
    /// the value, and its amount between columns, is ignored.
    ///
    /// If the program is killed before it has read back a value that the kernel rounds, that value
    /// is later considered another process's.
    ///
    /// # Errors
    /// If it cannot be read, noted or written.
    pub fn set(&mut self, file: impl Into<PathBuf>, value: &str) -> Result<(), Error> {
        self.set_undone_by(file, value, Vec::new())
    }

    /// As [`Self::set`], but the restoration writes these values, in this order, where they are not
    /// set already: for a file that the kernel changes together with others, or that does not take
    /// back what it held. Without any, it is the old value.
    ///
    /// # Errors
    /// As there.
    pub fn set_undone_by(
        &mut self,
        file: impl Into<PathBuf>,
        value: &str,
        back: Vec<Write>,
    ) -> Result<(), Error> {
        let file = file.into();
        let read = |kernel: &dyn Kernel| {
            let text = kernel
                .read(&file)
                .map_err(Error::refused(format!("reading {}", file.display())))?;
            Ok::<_, Error>(plain(&text))
        };
        let (was, ours) = (read(&*self.kernel)?, plain(value));
        self.take(Step::Set { file: file.clone(), was, ours: ours.clone(), back: back.clone() })?;
        let took = read(&*self.kernel)?;
        if took == ours {
            return Ok(());
        }
        let step = Step::Set { file: file.clone(), was: ours, ours: took.clone(), back };
        if self.record.knows(&step) {
            Ok(())
        } else {
            self.note(Note::Took { file, entry: None, value: took })
        }
    }

    /// Sets one value of a file with a line for each device; its present value is restored at the
    /// end. Other values in the file are neither read nor changed.
    ///
    /// # Errors
    /// As [`Self::set`].
    pub fn set_entry(
        &mut self,
        file: impl Into<PathBuf>,
        entry: Entry,
        value: &str,
    ) -> Result<(), Error> {
        let file = file.into();
        let read = |kernel: &dyn Kernel| {
            let value = entry.read(kernel, &file);
            value.map_err(Error::refused(format!("reading {}", file.display())))
        };
        let (was, ours) = (read(&*self.kernel)?, value.to_owned());
        self.take(Step::SetEntry {
            file: file.clone(),
            entry: entry.clone(),
            was,
            ours: ours.clone(),
        })?;
        let took = read(&*self.kernel)?;
        if took == ours
            || self.record.file(&file, Some(&entry)).is_some_and(|(_, all)| all.contains(&took))
        {
            return Ok(());
        }
        self.note(Note::Took { file, entry: Some(entry), value: took })
    }

    /// Creates a control group. When the group is removed, a process in it moves to the group
    /// `home`, unless its earlier group is known.
    ///
    /// # Errors
    /// If it cannot be noted or created; an existing one belongs to another program.
    pub fn make_group(
        &mut self,
        group: impl Into<PathBuf>,
        home: impl Into<PathBuf>,
    ) -> Result<(), Error> {
        let group = group.into();
        // Killed on the way, it would be taken for ours.
        if self.kernel.exists(&group) {
            let there = std::io::Error::from_raw_os_error(libc::EEXIST);
            return Err(Error::refused(format!("creating the control group {}", group.display()))(
                there,
            ));
        }
        self.take(Step::Make { group: group.clone(), home: home.into() })?;
        let identity = self.kernel.identity(&group);
        let identity =
            identity.map_err(Error::refused(format!("looking at {}", group.display())))?;
        self.note(Note::Made { group, identity })
    }

    /// Moves processes, with all their threads, from one control group into another. Those that are
    /// not in the first, or have ended, are left out: a process in a third group was put there by
    /// another program, which may want it there.
    ///
    /// # Errors
    /// Where that cannot be noted or is refused.
    pub fn move_processes(&mut self, pids: &[u32], from: &Path, to: &Path) -> Result<(), Error> {
        let here = members(&*self.kernel, from)
            .map_err(Error::refused(format!("listing the processes in {}", from.display())))?;
        for &pid in pids.iter().filter(|pid| here.contains(pid)) {
            if let Some(start) = self.kernel.started(pid) {
                let process = Thread { tid: pid, start };
                self.take(Step::Move { process, from: from.to_owned(), to: to.to_owned() })?;
            }
        }
        Ok(())
    }

    /// Gives a file back at once what it held before [`Self::set`], if it still holds what it was
    /// given there.
    ///
    /// # Errors
    /// Where it cannot be read, written or noted. A file that is gone is not an error.
    pub fn set_back(&mut self, file: &Path) -> Result<(), Error> {
        self.back_at_once(file, None)
    }

    /// The same of what [`Self::set_entry`] has set.
    ///
    /// # Errors
    /// As there.
    pub fn set_back_entry(&mut self, file: &Path, entry: &Entry) -> Result<(), Error> {
        self.back_at_once(file, Some(entry))
    }

    fn back_at_once(&mut self, file: &Path, entry: Option<&Entry>) -> Result<(), Error> {
        let Some((was, ours)) = self.record.file(file, entry) else { return Ok(()) };
        let of = |text: &str| entry.map_or_else(|| plain(text), |entry| entry.of(text));
        match self.kernel.read(file) {
            Ok(text) if ours.contains(&of(&text)) => match entry {
                Some(entry) => entry.set(&*self.kernel, file, was)?,
                None => set(&*self.kernel, file, was)?,
            },
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::refused(format!("reading {}", file.display()))(error));
            }
            _ => {}
        }
        self.options.at(Moment::Taken(self.record.steps()));
        self.note(Note::Settled { file: file.to_owned(), entry: entry.cloned() })
    }

    /// Stops processes (`SIGSTOP`), until [`Self::resume`]. Those that have ended are left out.
    /// What is stopped already is not to be named: it would be resumed in the end.
    ///
    /// # Errors
    /// Where that cannot be noted, or for the first that may not be stopped; the others are then
    /// stopped all the same.
    pub fn stop(&mut self, processes: &[Thread]) -> Result<(), Error> {
        let number = self.record.steps();
        if let Some(step) = self.record.stop(processes, |process| self.kernel.lives(process)) {
            self.take(step)?;
        }
        let mut result = Ok(());
        for process in processes {
            let tried = || format!("stopping process {}", process.tid);
            result = result
                .and(self.kernel.stop(*process).map_err(|error| Error::refused(tried())(error)));
            self.options.at(Moment::Taken(number));
        }
        result
    }

    /// Resumes all that [`Self::stop`] has stopped.
    ///
    /// # Errors
    /// The first that cannot be signalled; the others resume all the same, and the next program
    /// tries again.
    pub fn resume(&mut self) -> Result<(), Error> {
        let stopped = self.record.stopped();
        if stopped.is_empty() {
            return Ok(());
        }
        rollback::resume(&*self.kernel, &stopped)?;
        self.options.at(Moment::Taken(self.record.steps()));
        self.note(Note::Resumed)
    }

    // Notes a step, unless that says nothing new, and takes it.
    fn take(&mut self, step: Step) -> Result<(), Error> {
        let number = self.record.steps();
        let known = self.record.knows(&step);
        if !known {
            self.journal.as_mut().expect("taken at the end alone").write(&step)?;
            self.record.step(step.clone());
            self.options.at(Moment::Noted(number));
        }
        let taken = step.take(&*self.kernel);
        if taken.is_err() && !known {
            self.note(Note::Refused)?;
        }
        self.options.at(Moment::Taken(number));
        taken
    }

    fn note(&mut self, note: Note) -> Result<(), Error> {
        self.journal.as_mut().expect("taken at the end alone").write(&note)?;
        self.record.note(note);
        Ok(())
    }

    /// Puts everything back. Called again, it does nothing.
    ///
    /// # Errors
    /// The first thing that could not be restored; the journal stays then, and the next program
    /// tries again.
    pub fn put_back(&mut self) -> Result<Restored, Error> {
        match self.journal.take() {
            Some(journal) => rollback::go_back(&*self.kernel, &self.record, journal, &self.options),
            None => {
                Ok(Restored { purpose: self.record.head.purpose.clone(), ..Restored::default() })
            }
        }
    }

    /// Leaves everything as it is: no program restores it any more.
    ///
    /// # Errors
    /// If the journal cannot be removed: then the next program undoes the changes in it.
    pub fn keep(mut self) -> Result<(), Error> {
        Ok(self.journal.take().map_or(Ok(()), Journal::end)?)
    }

    #[cfg(test)]
    pub(crate) fn abandon(mut self) {
        self.journal = None;
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        // What fails here is still in the journal.
        let _ = self.put_back();
    }
}
