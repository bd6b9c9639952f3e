//! Rollback: determines the steps from the journal and the present state, and takes them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::text::printable;

use crate::changes::entry::Entry;
use crate::changes::error::Error;
use crate::changes::journal::{DAMAGED, Journal};
use crate::changes::kernel::{Identity, Kernel, PROCS};
use crate::changes::options::{Moment, Options};
use crate::changes::record::{Record, Thing};
use crate::changes::step::{Write, enter, members, plain, set};
use crate::changes::thread::Thread;

/// Until the last process of a group that was killed has left it.
const LEAVING: Duration = Duration::from_secs(2);

/// The changes that were undone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    /// What it was for.
    pub purpose: String,
    /// What was done, in order, a few words each.
    pub steps: Vec<String>,
    /// What another process has changed since, one sentence each: it was left alone.
    pub left: Vec<String>,
    /// What was restored to a different place than before, and invalid lines of the journal, one
    /// sentence each.
    pub notes: Vec<String>,
}

impl Restored {
    /// Everything other than the steps that a user should know.
    pub fn said(&self) -> impl Iterator<Item = &String> {
        self.left.iter().chain(&self.notes)
    }
}

/// A step of the restoration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undo {
    Set { writes: Vec<Write> },
    SetEntry { file: PathBuf, entry: Entry, value: String },
    Move { process: Thread, home: PathBuf },
    Remove { group: PathBuf, home: PathBuf, inside: usize },
    Resume { processes: Vec<Thread> },
}

impl Undo {
    fn take(&self, kernel: &dyn Kernel) -> Result<(), Error> {
        match self {
            Undo::Set { writes } => writes.iter().try_for_each(|Write { file, value }| {
                let there = kernel.read(file).is_ok_and(|text| plain(&text) == *value);
                if there { Ok(()) } else { set(kernel, file, value) }
            }),
            Undo::SetEntry { file, entry, value } => entry.set(kernel, file, value),
            Undo::Move { process, home } => enter(kernel, *process, home),
            Undo::Remove { group, home, .. } => remove(kernel, group, home),
            Undo::Resume { processes } => resume(kernel, processes),
        }
    }

    fn words(&self) -> String {
        match self {
            Undo::Set { writes } => {
                let one = |write: &Write| {
                    format!("{} to {}", write.file.display(), printable(&write.value))
                };
                format!("set {}", writes.iter().map(one).collect::<Vec<_>>().join(" and "))
            }
            Undo::SetEntry { file, entry, value } => {
                format!("set {} in {} to {}", entry.name(), file.display(), printable(value))
            }
            Undo::Move { process, home } => {
                format!("move process {} to {}", process.tid, home.display())
            }
            Undo::Remove { group, inside: 0, .. } => {
                format!("remove control group {}", group.display())
            }
            Undo::Remove { group, home, inside } => {
                let processes =
                    if *inside == 1 { "1 process".into() } else { format!("{inside} processes") };
                format!(
                    "move {processes} to {} and remove control group {}",
                    home.display(),
                    group.display()
                )
            }
            Undo::Resume { processes } => match &processes[..] {
                [process] => format!("resume process {}", process.tid),
                all => format!("resume {} processes", all.len()),
            },
        }
    }
}

// Processes may be born in it, or be about to end, for as long as it is there.
fn remove(kernel: &dyn Kernel, group: &Path, home: &Path) -> Result<(), Error> {
    let until = Instant::now() + LEAVING;
    loop {
        for pid in members(kernel, group).unwrap_or_default() {
            if let Some(start) = kernel.started(pid) {
                enter(kernel, Thread { tid: pid, start }, home)?;
            }
        }
        match kernel.remove_dir(group) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            other => {
                return other.map_err(Error::refused(format!(
                    "removing the control group {}",
                    group.display()
                )));
            }
        }
    }
}

/// Resumes processes. A failure does not keep the others from being resumed.
pub fn resume(kernel: &dyn Kernel, processes: &[Thread]) -> Result<(), Error> {
    let mut result = Ok(());
    for process in processes {
        match kernel.resume(*process) {
            // A process that may not be signalled was not stopped either.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {}
            other => {
                let tried = format!("resuming process {}", process.tid);
                result = result.and(other.map_err(Error::refused(tried)));
            }
        }
    }
    result
}

/// The steps back from the present state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Way {
    pub steps: Vec<Undo>,
    left: Vec<String>,
    notes: Vec<String>,
}

impl Way {
    /// What would be done.
    pub fn told(self, record: &Record) -> Restored {
        let steps = self.steps.iter().map(Undo::words).collect();
        Restored { purpose: record.head.purpose.clone(), steps, left: self.left, notes: self.notes }
    }
}

/// Determines the steps back, from the last change to the first, and the first error if a part of
/// the present state cannot be read.
pub fn way_back(kernel: &dyn Kernel, record: &Record) -> (Way, Option<Error>) {
    let mut way = Way::default();
    let mut failed = None;
    let mut groups: Vec<(&Path, Is)> = Vec::new();
    for thing in record.things() {
        let Thing::Group { group, identity, .. } = thing else { continue };
        let is = became(kernel, group, *identity).unwrap_or_else(|error| {
            failed.get_or_insert(error);
            Is::Unknown
        });
        groups.push((group, is));
    }
    let is = |path: &Path| groups.iter().find(|(group, _)| *group == path).map(|(_, is)| *is);
    for thing in record.things().iter().rev() {
        match thing {
            // A group's settings go with it, and what is in one that is perhaps another is left
            // alone.
            Thing::File { file, .. }
                if file.parent().and_then(is).is_some_and(|is| is != Is::Left) => {}
            Thing::File { ours, .. } if ours.is_empty() => {}
            Thing::File { file, entry, was, ours, back } => {
                if let Err(error) =
                    value(kernel, (file, entry.as_ref()), (was, ours, back), &mut way)
                {
                    failed.get_or_insert(error);
                }
            }
            Thing::Group { group, home, .. } => match is(group) {
                Some(Is::Ours) => {
                    let inside = members(kernel, group).unwrap_or_default().len();
                    let home = standing(kernel, home);
                    way.steps.push(Undo::Remove { group: group.clone(), home, inside });
                }
                Some(Is::Another) => way.left.push(format!(
                    "{} is now another control group, which another program created with that name",
                    group.display()
                )),
                Some(Is::Left) => way.left.push(format!(
                    "control group {} is kept: another program created groups below it",
                    group.display()
                )),
                Some(Is::Gone | Is::Unknown) | None => {}
            },
            Thing::Process { process, home, to } => {
                let to = to.iter().filter(|to| !matches!(is(to), Some(Is::Another | Is::Unknown)));
                self::process(kernel, *process, home, to, &mut way);
            }
            Thing::Stopped { now, .. } => {
                let processes: Vec<Thread> =
                    now.iter().copied().filter(|process| kernel.lives(*process)).collect();
                if !processes.is_empty() {
                    way.steps.push(Undo::Resume { processes });
                }
            }
        }
    }
    (way, failed)
}

// What became of a group that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Is {
    Gone,
    Ours,
    // Ours, with groups of others below it.
    Left,
    Another,
    // It cannot be looked at.
    Unknown,
}

fn became(kernel: &dyn Kernel, group: &Path, identity: Option<Identity>) -> Result<Is, Error> {
    let gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    let looking = || Error::refused(format!("looking at the control group {}", group.display()));
    let now = match kernel.identity(group) {
        Err(error) if gone(&error) => return Ok(Is::Gone),
        now => now.map_err(looking())?,
    };
    let below = kernel.has_dirs(group).map_err(looking())?;
    Ok(match identity {
        Some(known) if known != now => Is::Another,
        Some(_) if below => Is::Left,
        Some(_) => Is::Ours,
        // Killed between making it and noting what it is known by: nothing can have been done to it
        // then.
        None if below || !members(kernel, group).unwrap_or_default().is_empty() => Is::Another,
        None => Is::Ours,
    })
}

fn value(
    kernel: &dyn Kernel,
    (file, entry): (&Path, Option<&Entry>),
    (was, ours, back): (&str, &[String], &[Write]),
    way: &mut Way,
) -> Result<(), Error> {
    let now = match kernel.read(file) {
        Ok(text) => entry.map_or_else(|| plain(&text), |entry| entry.of(&text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            way.left.push(format!(
                "{}, which was {} before, no longer exists",
                file.display(),
                printable(was)
            ));
            return Ok(());
        }
        Err(error) => return Err(Error::refused(format!("reading {}", file.display()))(error)),
    };
    let changed = |file: &Path, now: &str, was: &str| {
        format!("{} is now {}, was {} before", file.display(), printable(now), printable(was))
    };
    if now == was {
        // What goes with it is as it was, or was set by another process.
        for Write { file, value } in back {
            let now = kernel.read(file).map(|text| plain(&text)).unwrap_or_default();
            if now != *value {
                way.left.push(changed(file, &now, value));
            }
        }
    } else if let Some(entry) = entry.filter(|_| ours.contains(&now)) {
        let (file, value) = (file.to_owned(), was.to_owned());
        way.steps.push(Undo::SetEntry { file, entry: entry.clone(), value });
    } else if ours.contains(&now) {
        let old = || vec![Write { file: file.to_owned(), value: was.to_owned() }];
        way.steps.push(Undo::Set { writes: if back.is_empty() { old() } else { back.to_vec() } });
    } else if let Some(entry) = entry {
        let name = format!("{} in {}", entry.name(), file.display());
        way.left.push(changed(Path::new(&name), &now, was));
    } else {
        way.left.push(changed(file, &now, was));
    }
    Ok(())
}

fn process<'a>(
    kernel: &dyn Kernel,
    process: Thread,
    home: &Path,
    mut to: impl Iterator<Item = &'a PathBuf>,
    way: &mut Way,
) {
    let within =
        |group: &Path| members(kernel, group).is_ok_and(|members| members.contains(&process.tid));
    if kernel.started(process.tid) != Some(process.start) || within(home) {
        return;
    }
    if to.any(|group| within(group)) {
        let standing = standing(kernel, home);
        if standing != home {
            way.notes.push(format!(
                "process {} was in {}, which no longer exists: it moves to {}",
                process.tid,
                home.display(),
                standing.display()
            ));
        }
        way.steps.push(Undo::Move { process, home: standing });
    } else if kernel.lives(process) {
        way.left.push(format!(
            "process {} is now in another control group, was in {} before",
            process.tid,
            home.display()
        ));
    }
}

// The group itself, or the nearest above it that is there.
fn standing(kernel: &dyn Kernel, group: &Path) -> PathBuf {
    group.ancestors().find(|path| kernel.exists(&path.join(PROCS))).unwrap_or(group).to_owned()
}

/// Takes the steps back. A failure does not prevent the other steps; the journal stays then.
///
/// # Errors
/// The first failure.
pub fn go_back(
    kernel: &dyn Kernel,
    record: &Record,
    journal: Journal,
    options: &Options,
) -> Result<Restored, Error> {
    let (way, mut failed) = way_back(kernel, record);
    for (number, step) in way.steps.iter().enumerate() {
        if let Err(error) = step.take(kernel) {
            failed = failed.or(Some(error));
        }
        options.at(Moment::Undone(number));
    }
    if let Some(error) = failed {
        return Err(error);
    }
    options.at(Moment::Back);
    let mut restored = way.told(record);
    if record.damaged.is_empty() {
        journal.end()?;
    } else {
        let kept = journal.path().with_extension(DAMAGED);
        restored.notes.push(damage(record, &kept));
        journal.rename(&kept)?;
    }
    Ok(restored)
}

/// What to say of lines that make no sense.
pub fn damage(record: &Record, path: &Path) -> String {
    let numbers: Vec<String> = record.damaged.iter().map(usize::to_string).collect();
    format!(
        "line {} of the journal is invalid, so that change is unknown: inspect {}, then remove \
         that file",
        numbers.join(", "),
        path.display()
    )
}
