//! Slurm: a job array of one task a node, and what Slurm says of it.
//!
//! Its programs are run as they are found on `PATH`: sbatch and scontrol, and sacct where a cluster keeps accounts. What
//! `scontrol show job` has forgotten (`MinJobAge`) is told from the folder's own files.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringfence_dataset::text_file;
use ringfence_experiment::shell;
use ringfence_sysfs::whole;
use serde::{Deserialize, Serialize};

use crate::attempt::{get, put};
use crate::error::FleetError;
use crate::folder::{PROGRAM, Spec};

const SUBMISSIONS: &str = "submissions";
const JOB: &str = "job.json";

/// Tasks that were handed over at once.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Submission {
    /// Slurm's number of the array.
    job: String,
    /// The tasks in it.
    tasks: Vec<u32>,
}

/// What Slurm says of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Slurm's word, such as `RUNNING` or `NODE_FAIL`.
    pub state: String,
    /// Why, in Slurm's words.
    pub reason: Option<String>,
    /// The node it is or was on.
    pub node: Option<String>,
    /// When it began, as Slurm tells it: in the local time of this machine.
    pub since: Option<String>,
    /// Its number in Slurm.
    pub job: String,
    /// Its exit code, where no signal ended it.
    pub code: Option<String>,
    /// How long it might take.
    pub limit: Option<String>,
}

impl Asked {
    /// Whether it waits for a node.
    pub fn waits(&self) -> bool {
        ["PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"].contains(&self.state.as_str())
    }

    /// Whether it runs.
    pub fn runs(&self) -> bool {
        ["RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"]
            .contains(&self.state.as_str())
    }
}

/// Whether jobs can be handed to Slurm here.
///
/// # Errors
/// One sentence where they cannot.
pub(crate) fn is_here() -> Result<(), FleetError> {
    call("sbatch", &["--version".into()], None).map(drop)
}

/// Hands tasks to Slurm, and says the job's number. What was handed over stays in the folder.
///
/// # Errors
/// Where there is no Slurm here, and what it refuses.
pub fn submit(dir: &Path, spec: &Spec, tasks: &[u32], more: &[String]) -> Result<String, FleetError> {
    let dir = &std::path::absolute(dir).map_err(FleetError::io("find", dir))?;
    let own = next_folder(dir)?;
    let script = own.join("script.sh");
    whole::write(&script, self::script(dir, &own, spec, tasks).as_bytes())
        .map_err(FleetError::whole(&script))?;
    // Each task is bound to its node before any of them may start.
    let bound = tasks.iter().any(|task| spec.node(*task).is_some());
    // Of a retry it is the script that says which tasks, and nobody waits to release it.
    let holds = |option: &String| option == "--hold" || option == "-H";
    let first = own.ends_with("1");
    let options =
        spec.options.iter().filter(|option| first || !(option.starts_with("--array=") || holds(option)));
    let options: Vec<&String> = options.chain(more).collect();
    let held = options.iter().any(|option| holds(option));
    let mut words = vec!["--parsable".to_owned()];
    words.extend(options.into_iter().cloned());
    if bound && !held {
        words.push("--hold".into());
    }
    words.push(script.display().to_string());
    let line: Vec<String> = words.iter().map(|word| shell::quote(word).to_string()).collect();
    let path = own.join("command.txt");
    let line = format!("sbatch {}\n", line.join(" "));
    whole::write(&path, line.as_bytes()).map_err(FleetError::whole(&path))?;
    let said = call("sbatch", &words, Some(&spec.folder))?;
    let job = said.trim().split(';').next().unwrap_or_default().to_owned();
    if job.is_empty() || !job.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(FleetError::Failed(format!(
            "sbatch said '{}', which is not the number of a job",
            said.trim()
        )));
    }
    // Known before anything else can fail: it is Slurm's from now on.
    put(&own.join(JOB), &Submission { job: job.clone(), tasks: tasks.to_vec() })?;
    for task in tasks {
        let Some(node) = spec.node(*task) else { continue };
        let words = ["update".into(), format!("JobId={job}_{task}"), format!("ReqNodeList={node}")];
        call("scontrol", &words, None).map_err(|error| {
            let _ = call("scancel", std::slice::from_ref(&job), None);
            FleetError::Failed(format!("{error}; the job {job} is cancelled"))
        })?;
    }
    if bound && !held {
        call("scontrol", &["release".into(), job.clone()], None)?;
    }
    Ok(job)
}

/// What a retry tells Slurm besides: nodes that are measured already are not asked for again.
pub(crate) fn retry_options(dir: &Path, spec: &Spec) -> Vec<String> {
    if !spec.nodes.is_empty() {
        return Vec::new();
    }
    let entries = fs::read_dir(dir.join("nodes")).into_iter().flatten().flatten();
    let mut done: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    done.retain(|name| !name.starts_with('.'));
    done.sort();
    if done.is_empty() { Vec::new() } else { vec![format!("--exclude={}", done.join(","))] }
}

fn next_folder(dir: &Path) -> Result<PathBuf, FleetError> {
    let all = dir.join(SUBMISSIONS);
    let mut number = 1;
    loop {
        let own = all.join(number.to_string());
        match fs::create_dir(&own) {
            Ok(()) => return Ok(own),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(FleetError::io("make", &own)(error)),
        }
    }
}

fn script(dir: &Path, own: &Path, spec: &Spec, tasks: &[u32]) -> String {
    // sbatch puts numbers for '%' in the name of the file; two stand for one.
    let log = own.join("task").display().to_string().replace('%', "%%");
    let mut text = String::from("#!/bin/sh\n");
    let mut option = |option: String| _ = writeln!(text, "#SBATCH {option}");
    option("--job-name=ringfence".into());
    option(format!("--array={}", list(tasks)));
    option("--nodes=1".into());
    option("--ntasks=1".into());
    // Whoever shares the node would be measured too.
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

// `1-3,7`.
fn list(tasks: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for task in tasks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *task => *last = *task,
            _ => runs.push((*task, *task)),
        }
    }
    let run = |(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

/// The nodes that a list such as `node[1-3]` names.
///
/// # Errors
/// What Slurm says of it.
pub(crate) fn nodes(list: &str) -> Result<Vec<String>, FleetError> {
    let said = call("scontrol", &["show".into(), "hostnames".into(), list.into()], None)?;
    Ok(said.lines().map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

/// What Slurm says of each task that was handed over, by number; the last submission counts.
///
/// # Errors
/// Where Slurm cannot be asked.
pub(crate) fn ask(dir: &Path) -> Result<BTreeMap<u32, Asked>, FleetError> {
    let mut all = BTreeMap::new();
    for (_, Submission { job, tasks }) in submissions(dir)? {
        let show = ["show".into(), "job".into(), "-o".into(), job.clone()];
        let mut found = match call("scontrol", &show, None) {
            Ok(said) => parse(&said),
            // It forgets what has ended.
            Err(FleetError::Failed(error)) if error.contains("Invalid job id") => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        if tasks.iter().any(|task| !found.contains_key(task)) {
            let format = "--format=JobID,State,NodeList,Start".to_owned();
            let words = ["-n".into(), "-P".into(), "-X".into(), "-j".into(), job.clone(), format];
            // Many clusters keep no accounts.
            for (task, asked) in call("sacct", &words, None).map(|said| accounts(&said)).unwrap_or_default() {
                found.entry(task).or_insert(asked);
            }
        }
        for task in tasks {
            match found.remove(&task) {
                Some(asked) => all.insert(task, asked),
                None => all.remove(&task),
            };
        }
    }
    for asked in all.values_mut().filter(|asked| asked.state == "NODE_FAIL") {
        let why = asked.node.as_deref().and_then(node_reason);
        asked.reason = why.or(asked.reason.take());
    }
    Ok(all)
}

fn submissions(dir: &Path) -> Result<Vec<(PathBuf, Submission)>, FleetError> {
    let mut all = Vec::new();
    for number in 1.. {
        let own = dir.join(SUBMISSIONS).join(number.to_string());
        if !own.is_dir() {
            break;
        }
        // Where sbatch refused, there is no job.
        all.extend(get(&own.join(JOB))?.map(|submission| (own, submission)));
    }
    Ok(all)
}

/// Where a task prints what it has to say before it has a folder, of the last job that it was in.
pub(crate) fn log(dir: &Path, task: u32) -> Option<PathBuf> {
    let last = submissions(dir).ok()?.into_iter().rfind(|(_, submission)| submission.tasks.contains(&task));
    last.map(|(own, _)| own.join(format!("task-{task}.txt")))
}

/// The last thing that it said.
pub(crate) fn last_line(log: &Path) -> Option<String> {
    let said = text_file::read(log, 1 << 20).ok()?;
    let last = said.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(last.strip_prefix("ringfence: ").unwrap_or(last).to_owned())
}

// Why a node is down, as it was told to Slurm.
fn node_reason(node: &str) -> Option<String> {
    let said = call("scontrol", &["show".into(), "node".into(), "-o".into(), node.into()], None).ok()?;
    let reason = said.split(" Reason=").nth(1)?;
    let reason = reason.split(" [").next().unwrap_or(reason).trim();
    (!reason.is_empty()).then(|| reason.to_owned())
}

// A line for each task, `NAME=VALUE` between spaces; those that wait together are one line.
fn parse(said: &str) -> BTreeMap<u32, Asked> {
    let mut all = BTreeMap::new();
    for line in said.lines() {
        let value = |name: &str| {
            let found = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            found.filter(|value| !["(null)", "None", "Unknown", "N/A"].contains(value)).map(str::to_owned)
        };
        let (Some(tasks), Some(state)) = (value("ArrayTaskId"), value("JobState")) else { continue };
        let asked = Asked {
            state,
            reason: value("Reason"),
            node: value("NodeList").or_else(|| value("BatchHost")),
            since: value("StartTime"),
            job: value("JobId").unwrap_or_default(),
            code: value("ExitCode").and_then(|code| Some(code.strip_suffix(":0")?.to_owned())),
            limit: value("TimeLimit"),
        };
        all.extend(numbers(&tasks).into_iter().map(|task| (task, asked.clone())));
    }
    all
}

// `JOB_TASK|STATE by 0|NODES|START`.
fn accounts(said: &str) -> BTreeMap<u32, Asked> {
    let line = |line: &str| {
        let mut fields = line.split('|');
        let job = fields.next()?.to_owned();
        let state = fields.next()?.split(' ').next()?.to_owned();
        let (node, since) = (fields.next().map(str::to_owned), fields.next().map(str::to_owned));
        let (_, tasks) = job.split_once('_')?;
        let tasks = numbers(tasks.trim_matches(['[', ']']));
        Some(
            tasks
                .into_iter()
                .map(move |task| {
                    (
                        task,
                        Asked {
                            state: state.clone(),
                            reason: None,
                            node: node.clone(),
                            since: since.clone(),
                            job: job.clone(),
                            code: None,
                            limit: None,
                        },
                    )
                })
                .collect::<Vec<_>>(),
        )
    };
    said.lines().filter_map(line).flatten().collect()
}

// `3`, `1-4,7%2`: what is behind '%' says how many at once. Slurm shortens a long list with '...', whose rest is not known.
fn numbers(list: &str) -> Vec<u32> {
    let list = list.split('%').next().unwrap_or_default();
    let run = |run: &str| -> Option<(u32, u32)> {
        match run.split_once('-') {
            Some((first, last)) => Some((first.parse().ok()?, last.parse().ok()?)),
            None => run.parse().ok().map(|number| (number, number)),
        }
    };
    list.split(',').filter_map(run).flat_map(|(first, last)| first..=last).collect()
}

fn call(program: &str, words: &[String], folder: Option<&Path>) -> Result<String, FleetError> {
    let mut command = Command::new(program);
    command.args(words);
    if let Some(folder) = folder.filter(|folder| folder.is_dir()) {
        command.current_dir(folder);
    }
    let output = command.output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => FleetError::Usage(format!(
            "there is no {program} here: run this where jobs are handed to Slurm{}",
            if program == "sbatch" { ", or try it on this machine with --local 2" } else { "" }
        )),
        _ => FleetError::Failed(format!("{program} cannot be run: {error}")),
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        return Err(FleetError::Failed(format!("{program} refused: {}", said.join("; "))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_listed_as_slurm_lists_them() {
        assert_eq!(list(&[1, 2, 3, 7, 9, 10]), "1-3,7,9-10");
        assert_eq!(numbers("1-3,7%2"), [1, 2, 3, 7]);
        assert_eq!(numbers("5"), [5]);
        assert_eq!(numbers("1-2,..."), [1, 2]);
    }

    #[test]
    fn what_slurm_says_of_tasks_is_read() {
        let said = "JobId=12 ArrayJobId=10 ArrayTaskId=2 JobName=a b JobState=RUNNING Reason=None StartTime=2026-05-09T07:29:33 \
                    ReqNodeList=(null) NodeList=node2 BatchHost=node2\nJobId=10 ArrayJobId=10 ArrayTaskId=3-5%1 JobName=x \
                    JobState=PENDING Reason=Resources StartTime=Unknown NodeList= \n";
        let found = parse(said);
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), [2, 3, 4, 5]);
        assert!(
            found[&2].runs() && !found[&2].waits() && found[&2].node.as_deref() == Some("node2"),
            "{found:?}"
        );
        assert!(
            found[&4].waits()
                && found[&4].reason.as_deref() == Some("Resources")
                && found[&4].since.is_none()
        );
        let accounted = accounts(
            "10_2|CANCELLED by 0|node2|2026-05-09T07:29:33\n10_[3-4]|PENDING|None assigned|Unknown\n",
        );
        assert_eq!((accounted[&2].state.as_str(), accounted[&4].state.as_str()), ("CANCELLED", "PENDING"));
    }

    #[test]
    fn the_script_is_shell_whatever_the_folder_is_called() {
        let spec = Spec {
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
        };
        let text = script(Path::new("/it's 5%"), Path::new("/it's 5%/submissions/1"), &spec, &[1, 2, 3]);
        assert!(text.contains("#SBATCH --output=\"/it's 5%%/submissions/1/task-%a.txt\"\n"), "{text}");
        assert!(text.contains("#SBATCH --time=7\n") && text.contains("#SBATCH --array=1-3\n"), "{text}");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("script.sh");
        fs::write(&path, text).unwrap();
        assert!(Command::new("sh").arg("-n").arg(&path).status().unwrap().success());
    }
}
