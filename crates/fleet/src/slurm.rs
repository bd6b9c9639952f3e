//! Slurm's programs, as they are found on `PATH`: sbatch, scontrol, squeue and scancel, and sacct
//! where a cluster keeps accounts.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use crate::folder::Spec;
use ringfence_experiment::Error;

/// Slurm's reason for a held job: a user has to release it before any of its tasks begins.
pub(crate) const HELD: &str = "JobHeldUser";

/// The end of one of its programs that printed nothing.
pub(crate) const BY_SIGNAL: &str = "was ended by signal";

/// Whether jobs can be handed to Slurm here.
///
/// # Errors
/// One sentence where they cannot.
pub(crate) fn is_here() -> Result<(), Error> {
    call("sbatch", &["--version".into()], None).map(drop)
}

/// Further options of a retry: nodes that are already measured are not asked for again.
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

/// Such as `1-3,7`.
pub(crate) fn list(tasks: &[u32]) -> String {
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
pub(crate) fn nodes(list: &str) -> Result<Vec<String>, Error> {
    let said = call("scontrol", &["show".into(), "hostnames".into(), list.into()], None)?;
    Ok(said.lines().map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

/// Runs one of Slurm's programs, and says what it printed.
///
/// # Errors
/// Where it is not here, and what it said where it refused.
pub(crate) fn call(
    program: &str,
    words: &[String],
    folder: Option<&Path>,
) -> Result<String, Error> {
    let mut command = Command::new(program);
    command.args(words);
    // What people have set for themselves would hide jobs, or wait for them.
    let own = |name: &str| name.starts_with("SQUEUE_") || name == "SBATCH_WAIT";
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(own)) {
        command.env_remove(name);
    }
    if let Some(folder) = folder.filter(|folder| folder.is_dir()) {
        command.current_dir(folder);
    }
    let output = command.output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::usage(format!(
            "{program} was not found: run this on a host that submits jobs to Slurm{}",
            if program == "sbatch" { ", or try it on this machine with --local 2" } else { "" }
        )),
        _ => Error::failed(format!("{program} cannot be run: {error}")),
    })?;
    if let Some(signal) = output.status.signal() {
        return Err(Error::failed(format!("{program} {BY_SIGNAL} {signal}")));
    }
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        return Err(Error::failed(format!("{program} refused: {}", said.join("; "))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// How soon a node can begin a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Readiness {
    /// A user has to act first, or Slurm does not say.
    #[default]
    Down,
    /// It works for others.
    Busy,
    Idle,
}

/// Of each node; of none where Slurm does not say.
pub(crate) fn readiness() -> BTreeMap<String, Readiness> {
    let words = ["--noheader", "--Node", "--format=%N %t"].map(str::to_owned);
    read_readiness(&call("sinfo", &words, None).unwrap_or_default())
}

pub(crate) fn read_readiness(said: &str) -> BTreeMap<String, Readiness> {
    let of = |state: &str| match state {
        "idle" => Readiness::Idle,
        "alloc" | "mix" | "comp" | "resv" => Readiness::Busy,
        _ => Readiness::Down,
    };
    let lines = said.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(node, state)| (node.to_owned(), of(state.trim()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_listed_as_slurm_lists_them() {
        assert_eq!(list(&[1, 2, 3, 7, 9, 10]), "1-3,7,9-10");
    }
}
