//! One task, run where this program runs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use std::{os::unix::process::CommandExt, os::unix::process::ExitStatusExt};

use ringfence_dataset::Date;
use ringfence_experiment::Error;
use ringfence_machine::root::FsRoot;
use rustix::process::{Pid, Signal};

use crate::attempt::{self, DATA, HOST, Outcome, Running, Started};
use crate::error;

use crate::facts::Facts;
use crate::folder::{self, EXPERIMENT, Engine, PROGRAM, Spec};
use crate::submission;
use crate::table::rows;

/// How often it is looked whether the verb has ended.
const LOOK: Duration = Duration::from_millis(50);

/// Space that is kept free for the last messages of a verb.
const ROOM_FOR_ERRORS: u64 = 8 << 10;

/// Exit codes that come with figures: done, and every verdict.
const COMPLETE: [i32; 5] = [0, 3, 4, 5, 6];

/// Where and as what a task runs.
#[derive(Debug, Clone)]
pub struct Place {
    /// The node, as the engine calls it.
    pub node: String,
    /// Slurm's job, if it is one.
    pub job: Option<String>,
    /// The kernel's files.
    pub root: FsRoot,
}

/// Makes one attempt at a task, and says how it ended; that it failed is an outcome, not an error.
///
/// # Errors
/// Where nothing could be recorded.
pub fn run_task(
    dir: &Path,
    number: u32,
    place: &Place,
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    let spec = folder::open(dir)?;
    if number == 0 || number > spec.tasks {
        return Err(Error::usage(format!(
            "there is no task {number}: the tasks are 1 to {}",
            spec.tasks
        )));
    }
    let started = Started {
        at: now(),
        node: place.node.clone(),
        host: own_name(),
        pid: std::process::id(),
        pid_since: since(std::process::id()).unwrap_or(0),
        job: place.job.clone(),
    };
    let running = Running::begin(&folder::task(dir, number), &started)?;
    let done = work(dir, &spec, number, &running, place, stop);
    let (code, reason) = match done {
        Ok(code) => (Some(code), None),
        Err(Problem { code, reason }) => (code, Some(reason)),
    };
    let outcome = Outcome {
        task: number,
        attempt: running.number,
        node: place.node.clone(),
        job: place.job.clone(),
        started: started.at,
        ended: now(),
        code,
        complete: reason.is_none(),
        stopped: reason.is_some() && stop.load(Ordering::Relaxed),
        reason,
        version: env!("CARGO_PKG_VERSION").into(),
    };
    running.end(&outcome)?;
    if outcome.complete {
        attempt::measured(dir, &outcome);
    }
    Ok(outcome)
}

struct Problem {
    code: Option<i32>,
    reason: String,
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self { code: None, reason: error.to_string() }
    }
}

fn work(
    dir: &Path,
    spec: &Spec,
    number: u32,
    running: &Running,
    place: &Place,
    stop: &AtomicBool,
) -> Result<i32, Problem> {
    if spec.engine == Engine::Slurm
        && let Some(other) = measured_by(dir, &place.node).filter(|other| *other != number)
    {
        let node = &place.node;
        let reason = format!(
            "{node} has been measured as task {other}: 'ringfence fleet retry' asks for another \
             node"
        );
        return Err(Problem { code: None, reason });
    }
    let facts = Facts::look(&place.root, &place.node)?;
    attempt::put(&running.dir.join(HOST), &facts)?;
    let ended = verb(dir, spec, &running.dir, stop)?;
    let complete = ended.code().filter(|code| COMPLETE.contains(code));
    let Some(code) = complete else {
        let reason = match (stop.load(Ordering::Relaxed), spec.engine) {
            (true, Engine::Local) => "it was interrupted by Ctrl-C or a signal".into(),
            (true, Engine::Slurm) => {
                "it was ended by a signal, as after a cancellation or at the time limit".into()
            }
            (false, _) => why(&ended, &running.dir),
        };
        return Err(Problem { code: ended.code(), reason });
    };
    rows::write(&running.dir, &facts, number, running.number)?;
    Ok(code)
}

fn measured_by(dir: &Path, node: &str) -> Option<u32> {
    fs::read_to_string(dir.join("nodes").join(node)).ok()?.trim().parse().ok()
}

fn verb(dir: &Path, spec: &Spec, attempt: &Path, stop: &AtomicBool) -> Result<ExitStatus, Problem> {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.into());
    let file = |name: &str| {
        let path = attempt.join(name);
        File::create(&path).map_err(error::io("make", &path))
    };
    // Why it ends is wanted most where the disk is full.
    let errors = file("errors.txt")?;
    let _ =
        rustix::fs::fallocate(&errors, rustix::fs::FallocateFlags::KEEP_SIZE, 0, ROOM_FOR_ERRORS);
    let mut command = Command::new(absolute(&dir.join(PROGRAM)));
    // The experiment lies with the fleet, wherever that is by now.
    let own = absolute(&dir.join(EXPERIMENT));
    let travels = own.is_file();
    command.args(spec.words.iter().map(|word| match word {
        word if travels && word == EXPERIMENT => own.clone().into_os_string(),
        word => word.into(),
    }));
    command.arg("--out").arg(absolute(&attempt.join(DATA))).arg("--quiet");
    command.stdin(Stdio::null()).stdout(file("output.txt")?).stderr(errors);
    if spec.folder.is_dir() {
        command.current_dir(&spec.folder);
    }
    // Slurm signals everything that belongs to a job; a terminal, only what is in its foreground.
    let alone = spec.engine == Engine::Local;
    if alone {
        command.process_group(0);
    }
    ringfence_engine::end_with_us(&mut command);
    let failed = |error: std::io::Error| Problem {
        code: None,
        reason: format!(
            "{} cannot be run: {error}; restore {} there",
            dir.join(PROGRAM).display(),
            spec.program
        ),
    };
    let mut child = command.spawn().map_err(failed)?;
    let mut told = false;
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok(status);
        }
        if alone && !told && stop.load(Ordering::Relaxed) {
            told = true;
            if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                // It may just have ended.
                let _ = rustix::process::kill_process(pid, Signal::INT);
            }
        }
        std::thread::sleep(LOOK);
    }
}

// The last thing that it said, which is why it ended.
fn why(ended: &ExitStatus, attempt: &Path) -> String {
    let last = submission::last_line(&attempt.join("errors.txt"));
    let how = match (ended.code(), ended.signal()) {
        (_, Some(signal)) => format!("signal {signal} ended it"),
        (Some(code), _) => format!("exit code {code}"),
        _ => "it ended".into(),
    };
    match last {
        Some(last) => format!("{last} ({how})"),
        None => how,
    }
}

fn now() -> String {
    Date::new(SystemTime::now()).rfc3339()
}

/// The name that this host gives itself.
pub(crate) fn own_name() -> Option<String> {
    FsRoot::host().read_opt("/proc/sys/kernel/hostname")
}

/// When a process began, in the kernel's ticks; `None` where there is none of this number, or it
/// has ended and its parent has not waited for it yet.
pub(crate) fn since(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(PathBuf::from(format!("/proc/{pid}/stat"))).ok()?;
    // The name, in brackets, may hold anything; behind it are the state, and the start as the 20th
    // field (proc(5)).
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    fields.nth(18)?.parse().ok().filter(|_| !["Z", "X"].contains(&state))
}

#[cfg(test)]
mod tests {
    use super::*;

    // A fleet whose program is a shell script.
    fn fleet(script: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let spec = Spec {
            schema: 1,
            program: "ringfence 1".into(),
            created: now(),
            engine: Engine::Local,
            tasks: 2,
            words: vec!["survey".into()],
            folder: "/".into(),
            seed: None,
            minutes: 1,
            nodes: Vec::new(),
            options: Vec::new(),
        };
        let program = dir.path().join("script");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        let fleet = dir.path().join("fleet");
        folder::create(&fleet, &spec, &program, None).unwrap();
        // Replaced with install(1): a child that another test forks may have inherited a descriptor
        // that is open for writing, and the kernel executes no such file (ETXTBSY).
        let mut install = Command::new("install");
        install.args(["-m", "755"]).args([&program, &fleet.join(PROGRAM)]);
        assert!(install.status().unwrap().success());
        dir
    }

    fn run(dir: &tempfile::TempDir) -> Outcome {
        let place = Place { node: "n1".into(), job: None, root: FsRoot::host() };
        run_task(&dir.path().join("fleet"), 1, &place, &AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn what_fails_says_why_in_its_own_words() {
        let outcome = run(&fleet(
            "echo progress >&2; echo 'ringfence: no CPU is left; free one' >&2; exit 2",
        ));
        assert_eq!((outcome.code, outcome.complete, outcome.attempt), (Some(2), false, 1));
        assert_eq!(outcome.reason.as_deref(), Some("no CPU is left; free one (exit code 2)"));
        let killed = run(&fleet("kill -9 $$"));
        assert_eq!(killed.reason.as_deref(), Some("signal 9 ended it"));
        let nothing = run(&fleet("exit 0"));
        assert!(
            !nothing.complete && nothing.reason.as_ref().unwrap().contains("data"),
            "{nothing:?}"
        );
    }

    #[test]
    fn a_process_is_told_from_a_later_one_of_its_number() {
        let own = since(std::process::id()).unwrap();
        assert!(own > 0 && since(std::process::id()) == Some(own));
        assert_eq!(since(u32::MAX), None);
        let mut ended = Command::new("true").spawn().unwrap();
        while since(ended.id()).is_some() {
            std::thread::sleep(LOOK);
        }
        ended.wait().unwrap();
    }
}
