//! Attempts at a task: each in a folder of its own, whole or not there.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ringfence_dataset::text_file;
use ringfence_experiment::Error;
use ringfence_system::whole;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error;
use crate::folder;

pub(crate) const HOST: &str = "host.json";
pub(crate) const DATA: &str = "data";
const STARTED: &str = "started.json";
const OUTCOME: &str = "outcome.json";
const FIRST: &str = "first.json";
const RESERVE: &str = "reserve";
const PART: &str = ".part";

/// Space that is reserved for `outcome.json` and the files next to it, in case the disk is full.
const RESERVED: u64 = 64 << 10;

/// Longer texts of this program's own are not read.
const LONGEST: u64 = 4 << 20;

/// That an attempt has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// When, UTC, as RFC 3339 has it.
    pub at: String,
    /// The node that it runs on.
    pub node: String,
    /// The name that its host gives itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The process, for an engine that cannot be asked.
    pub pid: u32,
    /// When that process began, in the kernel's ticks since it booted: process numbers come again.
    pub pid_since: u64,
    /// Slurm's job, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The task.
    pub task: u32,
    /// The attempt at it, from 1.
    pub attempt: u32,
    /// The node that it ran on.
    pub node: String,
    /// Slurm's job, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// When it began, UTC, as RFC 3339 has it.
    pub started: String,
    /// When it ended, likewise.
    pub ended: String,
    /// The exit code of the verb; `None` where it did not run, or a signal ended it.
    pub code: Option<i32>,
    /// Whether it has figures: a verdict is one, whatever it is.
    pub complete: bool,
    /// Why it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether it was interrupted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// The program's version.
    pub version: String,
}

#[derive(Serialize, Deserialize)]
struct First {
    attempt: u32,
}

/// A running attempt: the process that created its folder owns it.
pub(crate) struct Running {
    pub number: u32,
    pub dir: PathBuf,
    task: PathBuf,
}

impl Running {
    /// Begins the next attempt at a task.
    pub(crate) fn begin(task: &Path, started: &Started) -> Result<Self, Error> {
        fs::create_dir_all(task).map_err(error::io("make", task))?;
        let mut number = numbers(task)?.last().map_or(1, |(last, _)| last + 1);
        let dir = loop {
            let dir = part(task, number);
            match fs::create_dir(&dir) {
                // Another attempt of this number may have ended meanwhile.
                Ok(()) if !complete(task, number).exists() => break dir,
                Ok(()) => _ = fs::remove_dir(&dir),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error::io("make", &dir)(error)),
            }
            number += 1;
        };
        put(&dir.join(STARTED), started)?;
        let reserve = dir.join(RESERVE);
        let kept = File::create(&reserve).and_then(|file| {
            let flags = rustix::fs::FallocateFlags::empty();
            match rustix::fs::fallocate(&file, flags, 0, RESERVED) {
                // Network file systems may not know it.
                Err(rustix::io::Errno::OPNOTSUPP) | Ok(()) => Ok(()),
                Err(error) => Err(error.into()),
            }
        });
        kept.map_err(error::io("reserve room in", &reserve))?;
        Ok(Self { number, dir, task: task.into() })
    }

    /// Ends it: from now on it is there whole. Room for this was kept when it began.
    pub(crate) fn end(self, outcome: &Outcome) -> Result<(), Error> {
        let reserve = self.dir.join(RESERVE);
        fs::remove_file(&reserve).map_err(error::io("remove", &reserve))?;
        put(&self.dir.join(OUTCOME), outcome)?;
        let named = complete(&self.task, self.number);
        take_name(&self.dir, &named).map_err(error::io("rename the attempt to", &named))?;
        whole::sync_folder(&self.task).map_err(error::io("sync the folder", &self.task))?;
        if outcome.complete { first_is(&self.task, self.number) } else { Ok(()) }
    }
}

// Also succeeds where another process has renamed it first: every reader finishes what is complete.
fn take_name(part: &Path, named: &Path) -> std::io::Result<()> {
    match fs::rename(part, named) {
        Err(error) if error.kind() == ErrorKind::NotFound && named.is_dir() => Ok(()),
        renamed => renamed,
    }
}

// The first attempt that is recorded is the one that counts, permanently.
fn first_is(task: &Path, attempt: u32) -> Result<(), Error> {
    let path = task.join(FIRST);
    let text = serde_json::to_vec(&First { attempt }).expect("a number is JSON");
    match whole::write_new(&path, &text) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        written => written.map_err(error::whole(&path)),
    }
}

fn complete(task: &Path, number: u32) -> PathBuf {
    task.join(format!("attempt-{number}"))
}

fn part(task: &Path, number: u32) -> PathBuf {
    task.join(format!("attempt-{number}{PART}"))
}

/// The folder of an attempt that has ended.
pub(crate) fn of(dir: &Path, task: u32, number: u32) -> PathBuf {
    let task = folder::task(dir, task);
    let (named, part) = (complete(&task, number), part(&task, number));
    if !named.is_dir() && part.is_dir() { part } else { named }
}

// Its program was killed when all of it was there except its name. A process that may not rename it
// reads it where it is.
fn finish(task: &Path, number: u32, outcome: &Outcome) {
    if take_name(&part(task, number), &complete(task, number)).is_ok() {
        // What is not written now is derived from the attempts.
        let _ = whole::sync_folder(task);
        let _ = first_is(task, number);
        if let Some(dir) = task.ancestors().nth(2) {
            measured(dir, outcome);
        }
    }
}

/// Records that a node has been measured. The record of an earlier attempt stays.
pub(crate) fn measured(dir: &Path, outcome: &Outcome) {
    let _ = whole::write_new(
        &dir.join("nodes").join(&outcome.node),
        outcome.task.to_string().as_bytes(),
    );
}

/// What to do about an attempt whose figures cannot be had.
pub(crate) fn remedy(attempt: &Path, why: &str) -> String {
    let restore = if why.contains("restore it") { "" } else { "restore it, " };
    format!("{why}; {restore}or remove {} and retry", attempt.display())
}

/// Writes a value as JSON, whole.
pub(crate) fn put(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_vec_pretty(value).map_err(Error::failed_by)?;
    whole::write(path, &text).map_err(error::whole(path))
}

/// Reads a value of ours; `None` where there is no such file.
pub(crate) fn get<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    let text = match text_file::read(path, LONGEST) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.map_err(error::io("read", path))?,
    };
    serde_json::from_str(&text).map(Some).map_err(|error| {
        Error::failed(format!("{} is damaged ({error}): restore the original", path.display()))
    })
}

/// One attempt, as its folder shows it.
pub(crate) struct Attempt {
    pub number: u32,
    pub started: Option<Started>,
    /// None while it runs, and where it was killed.
    pub outcome: Option<Outcome>,
    /// What of its files cannot be read.
    pub damaged: Option<String>,
}

impl Attempt {
    fn is_complete(&self) -> bool {
        self.outcome.as_ref().is_some_and(|outcome| outcome.complete)
    }

    /// The node that it ran on.
    pub(crate) fn node(&self) -> Option<&str> {
        let started = self.started.as_ref().map(|started| &started.node);
        started.or_else(|| self.outcome.as_ref().map(|outcome| &outcome.node)).map(String::as_str)
    }

    /// When it began.
    pub(crate) fn began(&self) -> Option<&str> {
        let started = self.started.as_ref().map(|started| &started.at);
        started
            .or_else(|| self.outcome.as_ref().map(|outcome| &outcome.started))
            .map(String::as_str)
    }
}

/// All attempts at a task, in the order of their numbers. A file that is damaged costs only what it
/// said.
pub(crate) fn all(task: &Path) -> Result<Vec<Attempt>, Error> {
    let attempt = |(number, name): (u32, String)| {
        let dir = task.join(name);
        let found = one(&dir, number);
        if dir == complete(task, number) {
            return found;
        }
        // It may have taken its name since it was listed.
        if !dir.exists() {
            return one(&complete(task, number), number);
        }
        if let Some(outcome) = found.outcome.as_ref().filter(|outcome| outcome.complete) {
            finish(task, number, outcome);
        }
        found
    };
    Ok(numbers(task)?.into_iter().map(attempt).collect())
}

fn one(dir: &Path, number: u32) -> Attempt {
    let mut damaged: Option<String> = None;
    let started = told(get(&dir.join(STARTED)), &mut damaged);
    let outcome = told(get(&dir.join(OUTCOME)), &mut damaged);
    Attempt { number, started, outcome, damaged }
}

// The last of several problems: an outcome's matters most.
fn told<T>(read: Result<Option<T>, Error>, damaged: &mut Option<String>) -> Option<T> {
    read.unwrap_or_else(|error| {
        *damaged = Some(error.to_string());
        None
    })
}

/// The attempt that counts, of those at a task: the first that was complete, according to the
/// record; without a record, the complete one of the lowest number. Also returns what is wrong with
/// the record, where it cannot be read.
pub(crate) fn counting<'a>(
    task: &Path,
    all: &'a [Attempt],
) -> (Option<&'a Attempt>, Option<String>) {
    let mut damaged = None;
    let first: Option<First> = told(get(&task.join(FIRST)), &mut damaged);
    let recorded = first.and_then(|First { attempt }| all.iter().find(|one| one.number == attempt));
    let counts = recorded
        .filter(|one| one.is_complete())
        .or_else(|| all.iter().find(|one| one.is_complete()));
    (counts, damaged)
}

fn numbers(task: &Path) -> Result<Vec<(u32, String)>, Error> {
    let entries = match fs::read_dir(task) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(error::io("list", task))?,
    };
    let mut all = Vec::new();
    for entry in entries {
        let name =
            entry.map_err(error::io("list", task))?.file_name().to_string_lossy().into_owned();
        let number =
            name.strip_prefix("attempt-").map(|rest| rest.strip_suffix(PART).unwrap_or(rest));
        if let Some(number) = number.and_then(|number| number.parse().ok()) {
            all.push((number, name));
        }
    }
    all.sort();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(node: &str) -> Started {
        Started {
            at: "2026-05-09T07:29:33.000Z".into(),
            node: node.into(),
            host: None,
            pid: 1,
            pid_since: 0,
            job: None,
        }
    }

    fn outcome(attempt: u32, complete: bool) -> Outcome {
        Outcome {
            task: 1,
            attempt,
            node: "n".into(),
            job: None,
            started: started("n").at,
            ended: started("n").at,
            code: Some(i32::from(!complete)),
            complete,
            reason: (!complete).then(|| "why".into()),
            stopped: false,
            version: "1".into(),
        }
    }

    // A node that was thought dead resumes, and ends after the one that took its place.
    #[test]
    fn the_first_that_is_complete_counts_whatever_comes_later() {
        let dir = tempfile::tempdir().unwrap();
        let task = dir.path().join("0001");
        let one = Running::begin(&task, &started("a")).unwrap();
        let two = Running::begin(&task, &started("b")).unwrap();
        assert_eq!((one.number, two.number), (1, 2));
        let (first, second) = (outcome(1, true), outcome(2, true));
        two.end(&second).unwrap();
        let counts =
            |task: &Path| counting(task, &all(task).unwrap()).0.map(|attempt| attempt.number);
        assert_eq!(counts(&task), Some(2));
        one.end(&first).unwrap();
        assert_eq!(counts(&task), Some(2));
        let found = all(&task).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].started.as_ref().unwrap().node, "a");
        assert_eq!(found[1].outcome, Some(second));
        // Without the record, the attempts decide.
        fs::remove_file(task.join(FIRST)).unwrap();
        assert_eq!(counts(&task), Some(1));
    }

    #[test]
    fn what_was_killed_or_failed_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let task = dir.path().join("0001");
        drop(Running::begin(&task, &started("a")).unwrap());
        Running::begin(&task, &started("b")).unwrap().end(&outcome(2, false)).unwrap();
        let found = all(&task).unwrap();
        assert!(counting(&task, &found).0.is_none());
        assert!(found[0].outcome.is_none() && task.join("attempt-1.part").is_dir());
        assert_eq!(Running::begin(&task, &started("c")).unwrap().number, 3);
    }

    // Killed between the last file and the rename: the next reader finishes it.
    #[test]
    fn what_is_complete_but_for_its_name_gets_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("nodes")).unwrap();
        let task = folder::task(dir.path(), 1);
        let running = Running::begin(&task, &started("n")).unwrap();
        put(&running.dir.join(OUTCOME), &outcome(1, true)).unwrap();
        let (left, named) = (task.join("attempt-1.part"), task.join("attempt-1"));
        assert_eq!(of(dir.path(), 1, 1), left);
        let found = all(&task).unwrap();
        assert_eq!(counting(&task, &found).0.map(|one| one.number), Some(1));
        assert!(named.is_dir() && !left.exists() && task.join(FIRST).is_file());
        assert_eq!(of(dir.path(), 1, 1), named);
        assert_eq!(fs::read_to_string(dir.path().join("nodes/n")).unwrap(), "1");
        // Of two processes that do it one comes later, which changes nothing.
        assert!(
            take_name(&left, &named).is_ok()
                && take_name(&task.join("x"), &task.join("y")).is_err()
        );
    }

    #[test]
    fn what_is_damaged_costs_only_what_it_said() {
        let dir = tempfile::tempdir().unwrap();
        let task = dir.path().join("0001");
        for number in [1, 2] {
            Running::begin(&task, &started("a")).unwrap().end(&outcome(number, true)).unwrap();
        }
        let damage = |name: &str| fs::write(task.join(name), "{\"attempt").unwrap();
        damage("attempt-1/started.json");
        let found = all(&task).unwrap();
        assert_eq!(
            (found[0].node(), found[0].began()),
            (Some("n"), Some("2026-05-09T07:29:33.000Z"))
        );
        assert!(found[0].damaged.as_ref().unwrap().contains("started.json is damaged"));
        damage("attempt-1/outcome.json");
        let found = all(&task).unwrap();
        assert!(found[0].damaged.as_ref().unwrap().contains("outcome.json is damaged"));
        let (counts, damaged) = counting(&task, &found);
        assert_eq!((counts.unwrap().number, damaged), (2, None));
        damage(FIRST);
        let (counts, damaged) = counting(&task, &found);
        assert_eq!(counts.unwrap().number, 2);
        assert!(damaged.unwrap().contains("first.json is damaged"));
    }

    #[test]
    fn many_at_once_have_folders_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let task = dir.path().join("0001");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let running = Running::begin(&task, &started("a")).unwrap();
                    let ended = outcome(running.number, true);
                    running.end(&ended).unwrap();
                });
            }
        });
        let found = all(&task).unwrap();
        assert_eq!(found.len(), 8);
        assert!(
            found
                .iter()
                .all(|one| one.outcome.as_ref().is_some_and(|own| own.attempt == one.number))
        );
    }
}
