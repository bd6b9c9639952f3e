//! What is lost, handed in once more.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::folder::{self, Engine, Spec};
use crate::lock::Submitting;
use crate::order::{limit_minutes, sensible};
use crate::slurm;
use crate::state::State;
use crate::status::{self, Task};
use crate::submission;
use ringfence_experiment::Error;

/// Tasks that are to run again, and the right to have them run.
#[derive(Debug)]
pub struct Retry {
    /// The job of the fleet.
    pub spec: Spec,
    /// The tasks, by their numbers.
    pub tasks: Vec<u32>,
    /// Tasks that are not known to run, and jobs that a user has to release, one sentence each.
    /// They are left alone.
    pub left: Vec<String>,
    /// Guarantees that no other process hands tasks in, or runs them.
    pub own: Submitting,
    dir: PathBuf,
    options: Vec<String>,
}

/// Finds lost tasks, and keeps other processes from handing them in meanwhile. `limit` is a new
/// time limit, `more` goes to sbatch.
///
/// # Errors
/// One sentence where another process hands tasks in, or where it is unknown what runs.
pub fn retry(dir: &Path, limit: Option<&str>, more: Option<&[String]>) -> Result<Retry, Error> {
    folder::open(dir)?;
    let own = Submitting::begin(dir)?;
    let (mut spec, tasks) = status::look_alone(dir)?;
    if spec.engine == Engine::Local && (limit.is_some() || more.is_some()) {
        return Err(Error::usage(
            "the tasks of this fleet run here, without Slurm: leave out --limit and --slurm",
        ));
    }
    let mut options = slurm::retry_options(dir, &spec);
    if let Some(limit) = limit {
        spec.minutes = limit_minutes(limit)?;
        // One that the fleet was submitted with would override the script's.
        options.push(format!("--time={}", spec.minutes));
    }
    options.extend(checked(more.unwrap_or_default())?);
    let lost: Vec<u32> =
        tasks.iter().filter(|task| task.state.is_lost()).map(|task| task.number).collect();
    let unknown: Vec<&Task> = tasks.iter().filter(|task| task.state == State::Unknown).collect();
    if let (true, Some(first)) = (lost.is_empty(), unknown.first()) {
        let (many, why) = (unknown.len(), first.reason.as_deref().unwrap_or("reason unknown"));
        return Err(Error::failed(format!(
            "nothing was submitted, because it is unknown whether {many} of {} tasks still run: \
             {why}",
            tasks.len()
        )));
    }
    let left = unknown.into_iter().map(|task| {
        format!("task {} is skipped: {}", task.number, task.reason.as_deref().unwrap_or_default())
    });
    let left = left.chain(held(&tasks)).collect();
    Ok(Retry { tasks: lost, left, dir: dir.into(), spec, options, own })
}

impl Retry {
    /// Hands them to Slurm, and says the job's number.
    ///
    /// # Errors
    /// What it refuses.
    pub fn hand_in(&self, stop: &AtomicBool) -> Result<String, Error> {
        submission::hand_in(&self.dir, &self.spec, &self.tasks, Some(&self.options), stop)
    }
}

// The tasks of each job that is held, and how to release it.
fn held(tasks: &[Task]) -> Vec<String> {
    let mut jobs: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for task in tasks.iter().filter(|task| task.state == State::Waiting) {
        if let Some(reason) =
            task.reason.as_deref().filter(|reason| reason.starts_with(slurm::HELD))
        {
            jobs.entry(reason).or_default().push(task.number);
        }
    }
    let held = |(reason, tasks): (&str, Vec<u32>)| {
        let tasks =
            format!("{} {}", if tasks.len() == 1 { "task" } else { "tasks" }, slurm::list(&tasks));
        format!("not submitted again, because Slurm still has it: {tasks}: {reason}")
    };
    jobs.into_iter().map(held).collect()
}

// A retry itself says which tasks, and on which nodes they are bound to run.
fn checked(more: &[String]) -> Result<Vec<String>, Error> {
    let own = |option: &&String| {
        ["--array", "--nodelist"].iter().any(|long| option.starts_with(long))
            || (!option.starts_with("--")
                && ["-a", "-w"].iter().any(|short| option.starts_with(short)))
    };
    match more.iter().find(own) {
        Some(option) => Err(Error::usage(format!(
            "{option}: a retry runs the lost tasks, each on its own node if it has one: leave it \
             out"
        ))),
        None => more.iter().filter(|option| *option != "--").cloned().map(sensible).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::{Running, Started};
    use crate::folder;

    fn fleet(engine: Engine) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let spec = Spec {
            schema: 1,
            program: String::new(),
            created: String::new(),
            engine,
            tasks: 2,
            words: Vec::new(),
            folder: "/".into(),
            seed: None,
            minutes: 1,
            nodes: Vec::new(),
            options: vec!["--time=1".into()],
        };
        folder::create(&dir.path().join("fleet"), &spec, Path::new("/bin/sh"), None).unwrap();
        dir
    }

    #[test]
    fn what_is_lost_is_found_by_one_at_a_time() {
        let dir = fleet(Engine::Local);
        let dir = &dir.path().join("fleet");
        let first = retry(dir, None, None).unwrap();
        assert_eq!(first.tasks, [1, 2]);
        assert!(
            retry(dir, None, None)
                .unwrap_err()
                .to_string()
                .contains("is submitting or running tasks of this fleet")
        );
        // Meanwhile they are not missing: another process has them to run.
        let states = |dir: &Path| {
            status::look(dir).unwrap().1.iter().map(|task| task.state).collect::<Vec<_>>()
        };
        assert_eq!(states(dir), [State::Waiting; 2]);
        drop(first);
        // A process that another test is just starting may have the lock for a moment.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while states(dir) != [State::Missing; 2] {
            assert!(std::time::Instant::now() < until, "{:?}", states(dir));
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(retry(dir, Some("60min"), None).unwrap_err().is_usage());
    }

    #[test]
    fn what_runs_on_another_host_is_left_alone() {
        let dir = fleet(Engine::Local);
        let dir = &dir.path().join("fleet");
        let started = Started {
            at: "2026-05-09T07:29:33.000Z".into(),
            node: "n7-1".into(),
            host: Some("a-host-that-is-not-this-one".into()),
            pid: u32::MAX,
            pid_since: 1,
            job: None,
        };
        drop(Running::begin(&folder::task(dir, 1), &started).unwrap());
        let found = retry(dir, None, None).unwrap();
        assert_eq!(found.tasks, [2]);
        assert!(found.left[0].contains("a-host-that-is-not-this-one"), "{:?}", found.left);
        drop(found);
        drop(Running::begin(&folder::task(dir, 2), &started).unwrap());
        let refused = retry(dir, None, None).unwrap_err().to_string();
        assert!(refused.contains("whether 2 of 2 tasks still run"), "{refused}");
    }

    #[test]
    fn options_that_a_retry_decides_itself_are_refused() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            checked(&words("--exclude=n7 -p main --")).unwrap(),
            words("--exclude=n7 -p main")
        );
        for option in ["--array=1-2", "--nodelist=n1", "-wn1", "-a", "--wait", "-W"] {
            assert!(
                checked(&words(option)).unwrap_err().to_string().starts_with(option),
                "{option}"
            );
        }
    }
}
