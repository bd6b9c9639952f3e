//! Every task of a fleet: none is a hole that nobody sees.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::attempt::{self, Attempt, Outcome};
use crate::error::FleetError;
use crate::folder::{self, Engine, Spec};
use crate::run::since;
use crate::slurm::{self, Asked};

/// Where a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It has not begun.
    Waiting,
    /// It runs.
    Running,
    /// An attempt at it is complete.
    Done,
    /// It ended without figures, or its node died.
    Failed,
    /// It left nothing, and nobody has it to run.
    Missing,
    /// Whether it runs cannot be told, and so it is not run again.
    Unknown,
}

impl State {
    /// In one word, as in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
        }
    }

    /// Whether `retry` runs it again.
    pub fn is_lost(self) -> bool {
        matches!(self, Self::Failed | Self::Missing)
    }
}

/// A task, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Task {
    /// Its number, from 1.
    pub number: u32,
    /// Where it is.
    pub state: State,
    /// Why, where that is not plain.
    pub reason: Option<String>,
    /// The node that it runs or ran on.
    pub node: Option<String>,
    /// When the attempt that this is about began, UTC.
    pub started: Option<String>,
    /// When it ended.
    pub ended: Option<String>,
    /// The attempt that counts.
    pub counting: Option<u32>,
    /// All attempts, in the order in which they began.
    pub attempts: Vec<Tried>,
}

/// An attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tried {
    /// Its number, from 1.
    pub attempt: u32,
    /// Its node.
    pub node: Option<String>,
    /// When it began, UTC.
    pub started: Option<String>,
    /// When it ended; absent where it runs or was killed.
    pub ended: Option<String>,
    /// Whether it has figures.
    pub complete: bool,
    /// Why it has none.
    pub reason: Option<String>,
}

/// What a fleet was asked to do, and every task, by its files and its engine.
///
/// # Errors
/// Where it is not the folder of a fleet.
pub fn look(dir: &Path) -> Result<(Spec, Vec<Task>), FleetError> {
    let spec = folder::open(dir)?;
    let asked = match spec.engine {
        Engine::Local => Ok(BTreeMap::new()),
        Engine::Slurm => slurm::ask(dir).map_err(|error| error.to_string()),
    };
    let tasks = status(dir, &spec, &asked);
    Ok((spec, tasks))
}

// By its files and by what Slurm says: `Err` says why Slurm could not be asked.
fn status(dir: &Path, spec: &Spec, asked: &Result<BTreeMap<u32, Asked>, String>) -> Vec<Task> {
    (1..=spec.tasks).map(|number| one(dir, spec, asked, number)).collect()
}

fn one(dir: &Path, spec: &Spec, asked: &Result<BTreeMap<u32, Asked>, String>, number: u32) -> Task {
    let task = folder::task(dir, number);
    let (attempts, unread) = match attempt::all(&task) {
        Ok(attempts) => (attempts, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let (counting, damaged) = attempt::counting(&task, &attempts);
    let slurm = asked.as_ref().ok().and_then(|asked| asked.get(&number));
    let (state, reason) = match (counting, unread, spec.engine) {
        (Some(counting), ..) => (State::Done, noted(counting, damaged)),
        (None, Some(why), _) => (State::Unknown, Some(why)),
        (None, None, Engine::Local) => by_files(attempts.last(), alive),
        (None, None, Engine::Slurm) => match (asked, slurm) {
            (Err(why), _) => match by_files(attempts.last(), |_| true) {
                (State::Failed, reason) => (State::Failed, reason),
                (state, _) => (state, Some(format!("Slurm cannot be asked here: {why}"))),
            },
            (Ok(_), Some(slurm)) if slurm.waits() => (State::Waiting, slurm.reason.clone()),
            (Ok(_), Some(slurm)) if slurm.runs() => (State::Running, None),
            (Ok(_), slurm) => lost(attempts.last(), slurm),
        },
    };
    let about = counting.or_else(|| attempts.last());
    // Of a task that waits again, what an earlier attempt did is below.
    let current = state != State::Waiting;
    Task {
        number,
        state,
        reason,
        node: about
            .and_then(Attempt::node)
            .or_else(|| slurm.and_then(|slurm| slurm.node.as_deref()))
            .filter(|_| current)
            .or_else(|| spec.node(number))
            .map(str::to_owned),
        started: about.and_then(Attempt::began).filter(|_| current).map(str::to_owned),
        ended: about.filter(|_| current).and_then(|attempt| Some(attempt.outcome.as_ref()?.ended.clone())),
        counting: counting.map(|attempt| attempt.number),
        attempts: attempts.iter().map(tried).collect(),
    }
}

// What is to be known of a task that is done, though it changes nothing.
fn noted(counting: &Attempt, first: Option<String>) -> Option<String> {
    let first =
        first.map(|why| format!("{why}; until then its complete attempt of the lowest number counts"));
    first.or_else(|| counting.damaged.clone())
}

fn tried(attempt: &Attempt) -> Tried {
    let outcome = attempt.outcome.as_ref();
    Tried {
        attempt: attempt.number,
        node: attempt.node().map(str::to_owned),
        started: attempt.began().map(str::to_owned),
        ended: outcome.map(|outcome| outcome.ended.clone()),
        complete: outcome.is_some_and(|outcome| outcome.complete),
        reason: outcome.and_then(|outcome| outcome.reason.clone()).or_else(|| attempt.damaged.clone()),
    }
}

const DIED: &str = "it ended without a word: it was killed, or its machine went down";

fn by_files(last: Option<&Attempt>, alive: impl Fn(&Attempt) -> bool) -> (State, Option<String>) {
    let Some(last) = last else { return (State::Missing, Some("it has not begun".into())) };
    match &last.outcome {
        Some(outcome) => (State::Failed, outcome.reason.clone()),
        None if alive(last) => (State::Running, None),
        None => (State::Failed, last.damaged.clone().or_else(|| Some(DIED.into()))),
    }
}

// Whether the process of an attempt still is. Another process may have its number by now.
fn alive(attempt: &Attempt) -> bool {
    let started = attempt.started.as_ref();
    started.is_some_and(|started| started.pid_since > 0 && since(started.pid) == Some(started.pid_since))
}

// What Slurm no longer runs, and has not counted.
fn lost(last: Option<&Attempt>, slurm: Option<&Asked>) -> (State, Option<String>) {
    let said = slurm.map(|slurm| {
        let node = slurm.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
        let reason = slurm.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        format!("Slurm says {}{node}{reason}", slurm.state)
    });
    // An attempt that ended tells more than Slurm, which saw its exit code; of one that did not, only Slurm can tell. What it
    // says is of its last job, which need not be that of the last attempt.
    let same =
        |started: &attempt::Started, slurm: &Asked| started.job.as_ref().is_none_or(|job| *job == slurm.job);
    let of_this = last.and_then(|last| last.started.as_ref()).zip(slurm).is_none_or(|(a, b)| same(a, b));
    match (last.map(|last| &last.outcome), said) {
        // That its node died, or that it was taken back, it only saw as a signal.
        (Some(Some(Outcome { reason: Some(own), .. })), Some(said)) if of_this && !ended_by_itself(slurm) => {
            (State::Failed, Some(format!("{said}; {own}")))
        }
        (Some(Some(outcome)), _) if of_this || slurm.is_none() => (State::Failed, outcome.reason.clone()),
        // What it came to was there, and cannot be read.
        (Some(None), _) if of_this && last.is_some_and(|last| last.damaged.is_some()) => {
            (State::Failed, last.and_then(|last| last.damaged.clone()))
        }
        (_, Some(said)) => (State::Failed, Some(said)),
        (Some(_), None) => (State::Failed, Some(DIED.into())),
        (None, None) => (State::Missing, Some("Slurm knows nothing of it, and it left nothing".into())),
    }
}

fn ended_by_itself(slurm: Option<&Asked>) -> bool {
    slurm.is_some_and(|slurm| ["COMPLETED", "FAILED"].contains(&slurm.state.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::{Running, Started};

    fn spec(engine: Engine) -> Spec {
        Spec {
            schema: 1,
            program: String::new(),
            created: String::new(),
            engine,
            tasks: 1,
            words: Vec::new(),
            folder: "/".into(),
            seed: None,
            minutes: 1,
            nodes: Vec::new(),
            options: Vec::new(),
        }
    }

    fn begin(dir: &Path, job: &str, pid: u32) -> Running {
        let started = Started {
            at: "2026-05-09T07:29:33.000Z".into(),
            node: "node2".into(),
            pid,
            pid_since: since(pid).unwrap_or(1),
            job: Some(job.into()),
        };
        Running::begin(&folder::task(dir, 1), &started).unwrap()
    }

    fn asked(state: &str, reason: Option<&str>) -> Result<BTreeMap<u32, Asked>, String> {
        let asked = Asked {
            state: state.into(),
            reason: reason.map(str::to_owned),
            node: Some("node2".into()),
            since: None,
            job: "7".into(),
        };
        Ok([(1, asked)].into())
    }

    #[test]
    fn a_task_is_what_its_files_and_slurm_say() {
        let dir = tempfile::tempdir().unwrap();
        let spec = spec(Engine::Slurm);
        let look = |asked: &Result<BTreeMap<u32, Asked>, String>| {
            let task = status(dir.path(), &spec, asked).remove(0);
            (task.state, task.reason.unwrap_or_default())
        };
        let nothing = Ok(BTreeMap::new());
        assert_eq!(look(&nothing).0, State::Missing);
        assert_eq!(look(&asked("PENDING", Some("Resources"))), (State::Waiting, "Resources".into()));
        let running = begin(dir.path(), "7", 1);
        assert_eq!(look(&asked("RUNNING", None)).0, State::Running);
        let died = look(&asked("NODE_FAIL", Some("smoke")));
        assert_eq!(died, (State::Failed, "Slurm says NODE_FAIL on node2: smoke".into()));
        assert_eq!(look(&nothing), (State::Failed, DIED.into()));
        let (state, reason) = look(&Err("no scontrol".into()));
        assert_eq!((state, reason.as_str()), (State::Running, "Slurm cannot be asked here: no scontrol"));
        let outcome = Outcome {
            task: 1,
            attempt: 1,
            node: "node2".into(),
            job: Some("7".into()),
            started: String::new(),
            ended: String::new(),
            code: Some(1),
            complete: false,
            reason: Some("no space".into()),
            version: String::new(),
        };
        running.end(&outcome).unwrap();
        assert_eq!(look(&asked("FAILED", Some("NonZeroExitCode"))), (State::Failed, "no space".into()));
        let taken = look(&asked("TIMEOUT", None)).1;
        assert_eq!(taken, "Slurm says TIMEOUT on node2; no space");
        // Another job of the same task, which never got as far as to leave anything.
        let mut later = asked("CANCELLED", None);
        later.as_mut().unwrap().get_mut(&1).unwrap().job = "8".into();
        assert_eq!(look(&later).1, "Slurm says CANCELLED on node2");
        begin(dir.path(), "8", 1)
            .end(&Outcome { attempt: 2, complete: true, reason: None, ..outcome })
            .unwrap();
        let task = status(dir.path(), &spec, &later).remove(0);
        assert_eq!((task.state, task.counting, task.attempts.len()), (State::Done, Some(2), 2));
    }

    #[test]
    fn here_a_task_runs_as_long_as_its_process() {
        let dir = tempfile::tempdir().unwrap();
        let look = || status(dir.path(), &spec(Engine::Local), &Err(String::new())).remove(0);
        assert_eq!(look().state, State::Missing);
        drop(begin(dir.path(), "", std::process::id()));
        assert_eq!(look().state, State::Running);
        drop(begin(dir.path(), "", u32::MAX));
        assert_eq!((look().state, look().reason.as_deref()), (State::Failed, Some(DIED)));
    }
}
