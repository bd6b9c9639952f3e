//! What is handed to Slurm at once: a script, a name by which its job is found again, and the job's
//! number.
//!
//! sbatch may be killed, or give up waiting, when Slurm has taken the job. So the name is in the
//! folder before sbatch is run, and a reader that finds no number asks Slurm for it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringfence_dataset::{Date, text_file};
use ringfence_experiment::Error;
use ringfence_experiment::shell;
use ringfence_system::whole;
use serde::{Deserialize, Serialize};

use crate::attempt::{get, put};
use crate::error;

use crate::folder::{PROGRAM, Spec};
use crate::slurm::{self, Readiness, call, list};

const SUBMISSIONS: &str = "submissions";
const HANDED: &str = "handed.json";
const JOB: &str = "job.json";

/// How long a busy controller may take to list what it was handed.
const LISTED: Duration = Duration::from_secs(120);

/// A submission, stored before sbatch is called.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Handed {
    /// The name of the job, which no other has.
    name: String,
    /// The tasks in it.
    tasks: Vec<u32>,
    /// When, in seconds since 1970.
    at: u64,
    /// Whether each task is to be bound to a node before any of them may start.
    binds: bool,
}

/// A job of tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Submission {
    /// Slurm's number of the array.
    pub job: String,
    /// The tasks in it.
    pub tasks: Vec<u32>,
    /// Whether it is held until each task has its node.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unbound: bool,
}

/// Hands tasks to Slurm, and says the job's number. What was handed over stays in the folder. Where
/// `stop` is set meanwhile, the job is cancelled.
///
/// # Errors
/// Where there is no Slurm here, and what it refuses.
pub fn submit(dir: &Path, spec: &Spec, tasks: &[u32], stop: &AtomicBool) -> Result<String, Error> {
    hand_in(dir, spec, tasks, None, stop)
}

/// Whether Slurm may have a job of this fleet.
pub fn may_have_job(dir: &Path) -> bool {
    let entries = fs::read_dir(dir.join(SUBMISSIONS)).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.path().join(HANDED).exists())
}

/// The same for a retry, which has more options of sbatch.
pub(crate) fn hand_in(
    dir: &Path,
    spec: &Spec,
    tasks: &[u32],
    retry: Option<&[String]>,
    stop: &AtomicBool,
) -> Result<String, Error> {
    let dir = &std::path::absolute(dir).map_err(error::io("find", dir))?;
    let own = &next_folder(dir)?;
    let script = own.join("script.sh");
    whole::write(&script, self::script(dir, own, spec, tasks).as_bytes())
        .map_err(error::whole(&script))?;
    let binds = tasks.iter().any(|task| spec.node(*task).is_some());
    // The script says which tasks. A retry is not held, since no user waits to release it.
    let holds = |option: &String| option == "--hold" || option == "-H";
    let options = spec.options.iter().filter(|option| !option.starts_with("--array="));
    let options = options.filter(|option| retry.is_none() || !holds(option));
    let options: Vec<&String> = options.chain(retry.unwrap_or_default()).collect();
    let stays = options.iter().any(|option| holds(option));
    let name = name(dir, own);
    let mut words = vec!["--parsable".to_owned()];
    words.extend(options.into_iter().cloned());
    words.push(format!("--job-name={name}"));
    if binds && !stays {
        words.push("--hold".into());
    }
    words.push(script.display().to_string());
    let path = own.join("command.txt");
    let line = shell::line(["sbatch"].into_iter().chain(words.iter().map(String::as_str))) + "\n";
    whole::write(&path, line.as_bytes()).map_err(error::whole(&path))?;
    let handed = Handed { name, tasks: tasks.to_vec(), at: now(), binds };
    put(&own.join(HANDED), &handed)?;
    let job = match call("sbatch", &words, Some(&spec.folder)).and_then(|said| number(&said)) {
        Ok(job) => job,
        Err(error) => return Err(not_told(dir, own, &handed, &error, stop)),
    };
    let mut submission = Submission { job, tasks: handed.tasks, unbound: binds };
    let whole = put(&own.join(JOB), &submission).and_then(|()| going_on(stop)).and_then(|()| {
        bind(spec, &submission, stop)?;
        submission.unbound = false;
        if binds { put(&own.join(JOB), &submission) } else { Ok(()) }
    });
    let job = submission.job;
    whole.map_err(|error| take_back(own, &job, binds || stays, &error))?;
    if binds && !stays {
        let release = call("scontrol", &["release".into(), job.clone()], None);
        release.map_err(|error| take_back(own, &job, false, &error))?;
    }
    Ok(job)
}

fn going_on(stop: &AtomicBool) -> Result<(), Error> {
    match stop.load(Ordering::Relaxed) {
        true => Err(Error::failed("it was interrupted by Ctrl-C or a signal")),
        false => Ok(()),
    }
}

fn bind(spec: &Spec, submission: &Submission, stop: &AtomicBool) -> Result<(), Error> {
    for task in in_turn(spec, &submission.tasks, &slurm::readiness()) {
        let Some(node) = spec.node(task) else { continue };
        let job = format!("JobId={}_{task}", submission.job);
        let told = call("scontrol", &["update".into(), job, format!("ReqNodeList={node}")], None);
        // Ctrl-C ends scontrol, too, and what that says then is not the reason.
        going_on(stop)?;
        told?;
    }
    Ok(())
}

// Slurm looks at no further task of an array once one cannot begin, and looks first at the one that
// was bound last. So those whose nodes are idle come last, or they would wait for nodes that are in
// use, or down.
fn in_turn(spec: &Spec, tasks: &[u32], readiness: &BTreeMap<String, Readiness>) -> Vec<u32> {
    let ready = |task: &u32| {
        spec.node(*task).and_then(|node| readiness.get(node)).copied().unwrap_or_default()
    };
    let mut tasks = tasks.to_vec();
    tasks.sort_by_key(ready);
    tasks
}

// Where nothing of it can have run, it is as if it had never been handed in.
fn take_back(own: &Path, job: &str, never_ran: bool, error: &Error) -> Error {
    match call("scancel", &[job.into()], None) {
        Ok(_) => {
            if never_ran {
                for file in [JOB, HANDED] {
                    let _ = fs::remove_file(own.join(file));
                }
            }
            Error::failed(format!("{error}; the job {job} is cancelled"))
        }
        Err(again) => Error::failed(format!(
            "{error}; the job {job} could not be cancelled ({again}): run 'scancel {job}' when \
             Slurm answers"
        )),
    }
}

// sbatch did not report a number: it refused, or the outcome is unknown.
fn not_told(dir: &Path, own: &Path, handed: &Handed, error: &Error, stop: &AtomicBool) -> Error {
    let said = error.to_string();
    let open = ["timed out", "Zero Bytes", "shutdown failure", NO_NUMBER, slurm::BY_SIGNAL];
    if error.is_usage() || !open.iter().any(|open| said.contains(open)) {
        let _ = fs::remove_file(own.join(HANDED));
        let help = match said.contains("Requested node configuration is not available") {
            true => {
                "; every node that it may use may have been measured already: a fleet runs at most \
                 one task per node"
            }
            false => "",
        };
        return if error.is_usage() { error.clone() } else { Error::failed(said + help) };
    }
    let name = &handed.name;
    let looks = format!(
        "'ringfence fleet status {}' looks for it",
        shell::quote(&dir.display().to_string())
    );
    if going_on(stop).is_ok() {
        return Error::failed(format!("{said}; the job {name} may exist nevertheless: {looks}"));
    }
    match call("scancel", &[format!("--name={name}")], None) {
        Ok(_) => Error::failed(format!(
            "it was interrupted; if Slurm had accepted the job {name}, it is cancelled: {looks}"
        )),
        Err(again) => Error::failed(format!(
            "it was interrupted; the job {name} may exist, and could not be cancelled ({again}): \
             {looks}"
        )),
    }
}

const NO_NUMBER: &str = "which is not a job number";

// `12`, or `12;cluster`.
fn number(said: &str) -> Result<String, Error> {
    let job = said.trim().split(';').next().unwrap_or_default();
    if job.is_empty() || !job.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Error::failed(format!("sbatch printed '{}', {NO_NUMBER}", said.trim())));
    }
    Ok(job.into())
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

// As Slurm takes it in a list of names.
fn name(dir: &Path, own: &Path) -> String {
    let last = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let fleet: String = last(dir).chars().map(plain).take(40).collect();
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("ringfence-{fleet}-{}-{}-{nanos:x}", last(own), std::process::id())
}

fn next_folder(dir: &Path) -> Result<PathBuf, Error> {
    let all = dir.join(SUBMISSIONS);
    // It may have been removed.
    fs::create_dir_all(&all).map_err(error::io("make", &all))?;
    let mut number = 1;
    loop {
        let own = all.join(number.to_string());
        match fs::create_dir(&own) {
            Ok(()) => return Ok(own),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error::io("make", &own)(error)),
        }
    }
}

fn script(dir: &Path, own: &Path, spec: &Spec, tasks: &[u32]) -> String {
    // sbatch puts numbers for '%' in the name of the file; two stand for one.
    let log = own.join("task").display().to_string().replace('%', "%%");
    let at_once =
        spec.options.iter().find_map(|option| option.strip_prefix("--array=")?.split_once('%'));
    let at_once = at_once.map(|(_, most)| format!("%{most}")).unwrap_or_default();
    let mut text = String::from("#!/bin/sh\n");
    let mut option = |option: String| _ = writeln!(text, "#SBATCH {option}");
    option(format!("--array={}{at_once}", list(tasks)));
    option("--nodes=1".into());
    option("--ntasks=1".into());
    // Other jobs on the node would be measured too.
    option("--exclusive".into());
    option("--mem=0".into());
    option(format!("--time={}", spec.minutes));
    // Another node is another measurement: 'fleet retry' asks for it.
    option("--no-requeue".into());
    option("--open-mode=append".into());
    option(format!("--output=\"{log}-%a.txt\""));
    let program = shell::quote(&dir.join(PROGRAM).display().to_string()).to_string();
    let folder = shell::quote(&dir.display().to_string()).to_string();
    let _ = writeln!(text, "exec {program} fleet task {folder} \"$SLURM_ARRAY_TASK_ID\"");
    text
}

/// Every job, in the order in which they were handed in. Slurm is asked for those of which no
/// number was learned.
///
/// # Errors
/// Where Slurm cannot be asked, or may not list yet what it has just been handed.
pub(crate) fn found(dir: &Path) -> Result<Vec<Submission>, Error> {
    let mut all = Vec::new();
    for own in folders(dir) {
        let known = get(&own.join(JOB))?;
        all.extend(match get(&own.join(HANDED))? {
            Some(handed) if known.is_none() => by_name(&own, handed)?,
            _ => known,
        });
    }
    Ok(all)
}

fn folders(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let all = dir.join(SUBMISSIONS);
    (1..).map(move |number: u32| all.join(number.to_string())).take_while(|own| own.is_dir())
}

fn by_name(own: &Path, handed: Handed) -> Result<Option<Submission>, Error> {
    let Handed { name, tasks, at, binds } = handed;
    let words = ["--noheader", "--states=all", "--format=%F"].map(str::to_owned);
    let said = call("squeue", &[&words[..], &[format!("--name={name}")]].concat(), None)?;
    let mut job = said.split_whitespace().next().map(str::to_owned);
    if job.is_none() {
        // It forgets what has ended. Many clusters keep no accounts.
        let before =
            Date::new(UNIX_EPOCH + Duration::from_secs(at.saturating_sub(86_400))).rfc3339();
        let since = format!("--starttime={}", before.get(..10).unwrap_or_default());
        let words = ["-n", "-P", "-X", "--format=JobID"].map(str::to_owned);
        let said = call("sacct", &[&words[..], &[since, format!("--name={name}")]].concat(), None);
        job = said.ok().and_then(|said| Some(said.split(['_', '\n']).next()?.trim().to_owned()));
    }
    let Some(job) =
        job.filter(|job| !job.is_empty() && job.bytes().all(|byte| byte.is_ascii_digit()))
    else {
        let ago = now().abs_diff(at);
        return match ago < LISTED.as_secs() {
            true => Err(Error::failed(format!(
                "the job {name} was submitted {ago} s ago, and Slurm does not list it: check again \
                 in {} min",
                LISTED.as_secs() / 60
            ))),
            false => Ok(None),
        };
    };
    let submission = Submission { job, tasks, unbound: binds };
    // For the next reader; a process that may only read asks again.
    if let Ok(text) = serde_json::to_vec_pretty(&submission) {
        let _ = whole::write_new(&own.join(JOB), &text);
    }
    Ok(Some(submission))
}

/// Where a task prints what it has to say before it has a folder, of the last job that it was in.
pub(crate) fn log(dir: &Path, task: u32) -> Option<PathBuf> {
    let has = |own: &PathBuf| {
        let submission: Option<Submission> = get(&own.join(JOB)).ok().flatten();
        submission.is_some_and(|submission| submission.tasks.contains(&task))
    };
    folders(dir).filter(has).last().map(|own| own.join(format!("task-{task}.txt")))
}

/// The last line of a log.
pub(crate) fn last_line(log: &Path) -> Option<String> {
    let said = text_file::read(log, 1 << 20).ok()?;
    let last = said.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(last.strip_prefix("ringfence: ").unwrap_or(last).to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn spec() -> Spec {
        Spec {
            schema: 1,
            program: String::new(),
            created: String::new(),
            engine: crate::Engine::Slurm,
            tasks: 3,
            words: Vec::new(),
            folder: "/".into(),
            seed: None,
            minutes: 7,
            nodes: Vec::new(),
            options: Vec::new(),
        }
    }

    #[test]
    fn tasks_of_idle_nodes_are_bound_last() {
        let nodes = ["down", "idle", "unheard", "busy", "free"].map(str::to_owned).to_vec();
        let spec = Spec { tasks: 5, nodes, ..spec() };
        let said = "busy mix\nbusy mix\ndown down*\nfree idle\nidle idle\nother drng\n";
        let readiness = slurm::read_readiness(said);
        assert_eq!(in_turn(&spec, &[1, 2, 3, 4, 5], &readiness), [1, 3, 4, 2, 5]);
        assert_eq!(in_turn(&spec, &[2, 4], &BTreeMap::new()), [2, 4]);
    }

    #[test]
    fn the_script_is_shell_whatever_the_folder_is_called() {
        let spec = Spec { options: vec!["--array=1-3%2".into()], ..spec() };
        let text =
            script(Path::new("/it's 5%"), Path::new("/it's 5%/submissions/1"), &spec, &[1, 3]);
        assert!(
            text.contains("#SBATCH --output=\"/it's 5%%/submissions/1/task-%a.txt\"\n"),
            "{text}"
        );
        // As many at once as were asked for, also of those that run again.
        assert!(
            text.contains("#SBATCH --time=7\n") && text.contains("#SBATCH --array=1,3%2\n"),
            "{text}"
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("script.sh");
        fs::write(&path, text).unwrap();
        assert!(Command::new("sh").arg("-n").arg(&path).status().unwrap().success());
    }

    #[test]
    fn names_of_jobs_are_one_name_to_slurm_and_differ() {
        let [one, two] = [1, 2].map(|number| {
            name(
                Path::new("/fleets/a, b's 5%"),
                &Path::new("/x/submissions").join(number.to_string()),
            )
        });
        assert!(one.starts_with("ringfence-a--b-s-5--1-") && one != two, "{one} {two}");
    }

    #[test]
    fn only_what_is_a_number_is_one() {
        assert_eq!(number("12;testbed\n").unwrap(), "12");
        assert!(number("").is_err() && number("sbatch: 12").is_err());
    }
}
