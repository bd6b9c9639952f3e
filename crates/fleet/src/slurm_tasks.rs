//! The state of tasks in Slurm. For jobs that Slurm no longer lists (`MinJobAge`), the fleet's own
//! files are used.

use std::collections::BTreeMap;
use std::path::Path;

use crate::slurm::{HELD, call};
use crate::submission::{self, Submission};
use ringfence_experiment::Error;

/// The state of a task in Slurm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Slurm's word, such as `RUNNING` or `NODE_FAIL`.
    pub state: String,
    /// Why, in Slurm's words.
    pub reason: Option<String>,
    /// The node it is or was on.
    pub node: Option<String>,
    /// Its start as Slurm prints it, in the local time of this machine.
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
        ["PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"]
            .contains(&self.state.as_str())
    }

    /// Whether it runs.
    pub fn runs(&self) -> bool {
        ["RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"]
            .contains(&self.state.as_str())
    }
}

/// Slurm's state of each submitted task, by number; the last submission counts.
///
/// # Errors
/// Where Slurm cannot be asked.
pub(crate) fn ask(dir: &Path) -> Result<BTreeMap<u32, Asked>, Error> {
    let mut all = BTreeMap::new();
    for Submission { job, tasks, unbound } in submission::found(dir)? {
        let show = ["show".into(), "job".into(), "-o".into(), job.clone()];
        let mut found = match call("scontrol", &show, None) {
            Ok(said) => parse(&said),
            // It forgets what has ended.
            Err(error) if error.text().contains("Invalid job id") => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        if tasks.iter().any(|task| !found.contains_key(task)) {
            let format = "--format=JobID,State,NodeList,Start".to_owned();
            let words = ["-n".into(), "-P".into(), "-X".into(), "-j".into(), job.clone(), format];
            // Many clusters keep no accounts.
            for (task, asked) in
                call("sacct", &words, None).map(|said| accounts(&said)).unwrap_or_default()
            {
                found.entry(task).or_insert(asked);
            }
        }
        for asked in found.values_mut().filter(|asked| asked.reason.as_deref() == Some(HELD)) {
            asked.reason = Some(held(&job, unbound));
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

// Without nodes of their own tasks would run anywhere, so that only a job which is whole may be let
// go.
fn held(job: &str, unbound: bool) -> String {
    if unbound {
        format!(
            "{HELD}: the submission was interrupted before every task had its node: run 'scancel \
             {job}', then 'ringfence fleet retry'"
        )
    } else {
        format!("{HELD}: 'scontrol release {job}' releases it, 'scancel {job}' cancels it")
    }
}

// Why a node is down, as it was told to Slurm.
fn node_reason(node: &str) -> Option<String> {
    let said =
        call("scontrol", &["show".into(), "node".into(), "-o".into(), node.into()], None).ok()?;
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
            found.filter(|value| is_told(value)).map(str::to_owned)
        };
        let (Some(tasks), Some(state)) = (value("ArrayTaskId"), value("JobState")) else {
            continue;
        };
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

fn is_told(value: &str) -> bool {
    !["", "(null)", "None", "None assigned", "Unknown", "N/A"].contains(&value)
}

// `JOB_TASK|STATE by 0|NODES|START`.
fn accounts(said: &str) -> BTreeMap<u32, Asked> {
    let line = |line: &str| {
        let mut fields = line.split('|');
        let job = fields.next()?.to_owned();
        let state = fields.next()?.split(' ').next()?.to_owned();
        let mut told = || fields.next().filter(|value| is_told(value)).map(str::to_owned);
        let (node, since) = (told(), told());
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

// `3`, `1-4,7%2`: what is behind '%' says how many at once. Slurm shortens a long list with '...',
// whose rest is not known.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_tasks_are_read_as_slurm_lists_them() {
        assert_eq!(numbers("1-3,7%2"), [1, 2, 3, 7]);
        assert_eq!(numbers("5"), [5]);
        assert_eq!(numbers("1-2,..."), [1, 2]);
    }

    #[test]
    fn what_slurm_says_of_tasks_is_read() {
        let said = "JobId=12 ArrayJobId=10 ArrayTaskId=2 JobName=a b JobState=RUNNING Reason=None \
                    StartTime=2026-05-09T07:29:33 \
                    ReqNodeList=(null) NodeList=node2 BatchHost=node2\nJobId=10 ArrayJobId=10 \
                    ArrayTaskId=3-5%1 JobName=x \
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
        assert!(found[&4].node.is_none(), "{found:?}");
        let accounted = accounts(
            "10_2|CANCELLED by 0|node2|2026-05-09T07:29:33\n10_[3-4]|PENDING|None \
             assigned|Unknown\n",
        );
        assert_eq!(
            (accounted[&2].state.as_str(), accounted[&4].state.as_str()),
            ("CANCELLED", "PENDING")
        );
        assert_eq!(
            (accounted[&2].node.as_deref(), accounted[&4].node.as_deref()),
            (Some("node2"), None)
        );
    }
}
