//! Every task of a fleet: none goes missing unnoticed.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::attempt::{self, Attempt, DATA};
use crate::ended::{self, DIED};
use ringfence_experiment::Error;

use crate::facts::Facts;
use crate::folder::{self, Engine, Spec};
use crate::lock::Submitting;
use crate::run::{own_name, since};
use crate::slurm;
use crate::slurm_tasks::{self, Asked};
use crate::state::State;
use crate::table::rows;

/// A task, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FleetTask"))]
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
    /// Whether the report leaves it out, though it is done, as far as that is plain without reading
    /// figures: its facts cannot be read, or its figures are missing.
    pub left_out: bool,
    /// All attempts, in the order in which they began.
    pub attempts: Vec<Tried>,
}

/// An attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Attempt"))]
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

/// The job of a fleet and the state of every task, from its files and its engine.
///
/// # Errors
/// Where it is not the folder of a fleet.
pub fn look(dir: &Path) -> Result<(Spec, Vec<Task>), Error> {
    let other = Submitting::other(dir);
    let (spec, mut tasks) = look_alone(dir)?;
    if let Some(other) = other {
        let held = |task: &Task| {
            task.reason.as_ref().is_some_and(|reason| reason.starts_with(slurm::HELD))
        };
        for task in tasks.iter_mut().filter(|task| task.state == State::Missing || held(task)) {
            task.state = State::Waiting;
            task.reason = Some(format!("{other} submits it, or runs it when others have ended"));
        }
    }
    Ok((spec, tasks))
}

/// The same for the process that hands tasks in.
pub(crate) fn look_alone(dir: &Path) -> Result<(Spec, Vec<Task>), Error> {
    let spec = folder::open(dir)?;
    let asked = match spec.engine {
        Engine::Local => Ok(BTreeMap::new()),
        Engine::Slurm => slurm_tasks::ask(dir).map_err(|error| error.to_string()),
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
    let lacks = counting.and_then(|counting| lacking(&attempt::of(dir, number, counting.number)));
    let left_out = lacks.is_some();
    let (state, reason) = match (counting, unread, spec.engine) {
        (Some(counting), ..) => (State::Done, noted(counting, damaged).or(lacks)),
        (None, Some(why), _) => (State::Unknown, Some(why)),
        (None, None, Engine::Local) => here(attempts.last()),
        (None, None, Engine::Slurm) => match (asked, slurm) {
            (Err(why), _) => (State::Unknown, Some(not_asked(attempts.last(), why))),
            (Ok(_), Some(slurm)) if slurm.waits() => (State::Waiting, slurm.reason.clone()),
            (Ok(_), Some(slurm)) if slurm.runs() => (State::Running, None),
            (Ok(_), slurm) => ended::lost(dir, number, attempts.last(), slurm),
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
        ended: about
            .filter(|_| current)
            .and_then(|attempt| Some(attempt.outcome.as_ref()?.ended.clone())),
        counting: counting.map(|attempt| attempt.number),
        left_out,
        attempts: attempts.iter().map(tried).collect(),
    }
}

// What is to be known of a task that is done, though it changes nothing.
fn noted(counting: &Attempt, first: Option<String>) -> Option<String> {
    let first = first.map(|why| format!("{why}; until then its first complete attempt counts"));
    first.or_else(|| counting.damaged.clone())
}

// What the report leaves out, as far as that is plain without reading figures.
fn lacking(attempt: &Path) -> Option<String> {
    let why = match Facts::read(attempt) {
        Err(error) => error.to_string(),
        Ok(_) if rows::are_in(attempt) || attempt.join(DATA).is_dir() => return None,
        Ok(_) => {
            format!("{} is missing, and so are its rows of the table", attempt.join(DATA).display())
        }
    };
    Some(attempt::remedy(attempt, &format!("the report leaves it out: {why}")))
}

fn tried(attempt: &Attempt) -> Tried {
    let outcome = attempt.outcome.as_ref();
    Tried {
        attempt: attempt.number,
        node: attempt.node().map(str::to_owned),
        started: attempt.began().map(str::to_owned),
        ended: outcome.map(|outcome| outcome.ended.clone()),
        complete: outcome.is_some_and(|outcome| outcome.complete),
        reason: outcome
            .and_then(|outcome| outcome.reason.clone())
            .or_else(|| attempt.damaged.clone()),
    }
}

fn here(last: Option<&Attempt>) -> (State, Option<String>) {
    let Some(last) = last else { return (State::Missing, Some("it has not started".into())) };
    let host = last.started.as_ref().and_then(|started| started.host.clone());
    let elsewhere = host.filter(|host| own_name().is_some_and(|own| own != *host));
    match (&last.outcome, elsewhere) {
        (Some(outcome), _) => (State::Failed, outcome.reason.clone()),
        (None, Some(host)) => (
            State::Unknown,
            Some(format!("it started on {host}: check there whether it still runs")),
        ),
        (None, None) if alive(last) => (State::Running, None),
        (None, None) => (State::Failed, last.damaged.clone().or_else(|| Some(DIED.into()))),
    }
}

// It may wait or run for all that is known, also where an attempt has failed.
fn not_asked(last: Option<&Attempt>, why: &str) -> String {
    let ended =
        last.and_then(|last| last.outcome.as_ref()).and_then(|outcome| outcome.reason.as_ref());
    let ended = ended.map(|ended| format!("; its last attempt ended: {ended}")).unwrap_or_default();
    format!("its state in Slurm is unknown: {why}{ended}")
}

// Whether the process of an attempt still is. Another process may have its number by now.
fn alive(attempt: &Attempt) -> bool {
    let started = attempt.started.as_ref();
    started.is_some_and(|started| {
        started.pid_since > 0 && since(started.pid) == Some(started.pid_since)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::{Outcome, Running, Started};

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
            host: None,
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
            code: None,
            limit: Some("00:12:00".into()),
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
        assert_eq!(
            look(&asked("PENDING", Some("Resources"))),
            (State::Waiting, "Resources".into())
        );
        let running = begin(dir.path(), "7", 1);
        assert_eq!(look(&asked("RUNNING", None)).0, State::Running);
        let died = look(&asked("NODE_FAIL", Some("smoke")));
        let smoke = "node2 failed (Slurm reports NODE_FAIL: smoke): retry when it is back";
        assert_eq!(died, (State::Failed, smoke.into()));
        assert_eq!(look(&nothing), (State::Failed, DIED.into()));
        let unknown = look(&Err("no scontrol".into()));
        assert_eq!(unknown, (State::Unknown, "its state in Slurm is unknown: no scontrol".into()));
        assert!(!unknown.0.is_lost());
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
            stopped: false,
            version: String::new(),
        };
        running.end(&outcome).unwrap();
        // It may have been handed in again.
        let unknown = look(&Err("no scontrol".into()));
        assert!(
            unknown.0 == State::Unknown && unknown.1.ends_with("ended: no space"),
            "{unknown:?}"
        );
        assert_eq!(
            look(&asked("FAILED", Some("NonZeroExitCode"))),
            (State::Failed, "no space".into())
        );
        let taken = look(&asked("TIMEOUT", None)).1;
        assert!(
            taken.starts_with("it reached its time limit of 00:12:00 on node2: give"),
            "{taken}"
        );
        assert!(taken.ends_with("--limit; no space"), "{taken}");
        // Another job of the same task, which never got as far as to leave anything.
        let mut later = asked("CANCELLED", None);
        later.as_mut().unwrap().get_mut(&1).unwrap().job = "8".into();
        let cancelled = look(&later).1;
        assert!(cancelled.starts_with("it was cancelled in Slurm on node2: "), "{cancelled}");
        assert!(!cancelled.contains("no space"), "{cancelled}");
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
